//! Schedules of exploration.

use crate::EpsilonSchedule;

#[test]
fn schedules_go_from_start_to_end_and_stay() {
    let exponential = EpsilonSchedule::Exponential {
        start: 1.0,
        end: 0.01,
        n_steps: 20,
    };
    let given = [0, 10, 20, u64::MAX].map(|step| exponential.at(step));
    assert_eq!(given, [1.0, 0.1, 0.01, 0.01]);
    let linear = EpsilonSchedule::Linear {
        start: 0.0,
        end: 1.0,
        n_steps: 0,
    };
    assert_eq!(linear.at(0), 1.0);
    assert_eq!(EpsilonSchedule::Constant { epsilon: 0.3 }.at(u64::MAX), 0.3);
}

/// Horgan et al. 2018: 0.4^(1 + 7 i / (N - 1)).
#[test]
fn actors_explore_as_in_ape_x() {
    let of = |i: u32, n: u32| EpsilonSchedule::of_actor(0.4, 7.0, i, n).unwrap().at(0);
    assert_eq!(of(0, 360), 0.4);
    assert!((of(359, 360) - 0.000_655_36).abs() < 1e-9); // 0.4^8
    assert!((of(4, 8) - 0.010_240_0).abs() < 1e-7 || of(4, 8) < of(3, 8)); // they fall
    assert_eq!(of(0, 1), 0.4);
    for (epsilon, alpha, i, n) in [
        (0.4, 7.0, 3, 3),
        (1.5, 7.0, 0, 1),
        (0.4, -1.0, 0, 1),
        (0.4, f32::NAN, 0, 1),
    ] {
        assert!(EpsilonSchedule::of_actor(epsilon, alpha, i, n).is_err());
    }
}

#[test]
fn schedules_that_cannot_be_right_are_refused() {
    let bad = [
        EpsilonSchedule::Constant { epsilon: -0.1 },
        EpsilonSchedule::Linear {
            start: 1.1,
            end: 0.0,
            n_steps: 1,
        },
        EpsilonSchedule::Linear {
            start: 1.0,
            end: f32::NAN,
            n_steps: 1,
        },
        EpsilonSchedule::Exponential {
            start: 1.0,
            end: 0.0,
            n_steps: 1,
        },
    ];
    for schedule in bad {
        let error = schedule.check().unwrap_err().to_string();
        assert!(error.contains("expected a probability"), "{error}");
    }
    let good = EpsilonSchedule::Linear {
        start: 1.0,
        end: 0.0,
        n_steps: 1,
    };
    assert!(good.check().is_ok());
}

#[test]
fn schedules_are_read_from_configs() {
    let text = r#"{ "linear": { "start": 1, "end": 0.05, "n_steps": 250000 } }"#;
    let schedule: EpsilonSchedule = serde_json::from_str(text).unwrap();
    assert_eq!(schedule.at(125_000), 0.525);
    assert!(serde_json::from_str::<EpsilonSchedule>(&text.replace("n_steps", "steps")).is_err());
    let more = text.replace("\"start\"", "\"begin\": 0, \"start\"");
    assert!(serde_json::from_str::<EpsilonSchedule>(&more).is_err());
}
