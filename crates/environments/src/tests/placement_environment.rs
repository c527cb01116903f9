//! Placement as an environment: returns against costgraph's own judge, observations by hand, bytes and refusals.

use shardgraph_costgraph::{ModelOptions, Objective, Problem, baseline};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment};
use crate::{
    Actions, Autoreset, FunctionalVector, PlacementEnvironment, PlacementOptions, VectorEnvironment,
};

fn environment(options: PlacementOptions) -> PlacementEnvironment {
    PlacementEnvironment::new(&options).unwrap()
}

/// An episode by this rule for each observation.
fn play(
    environment: &PlacementEnvironment,
    seed: u64,
    rule: &mut dyn FnMut(&[f32]) -> u32,
) -> (f64, crate::PlacementState) {
    let mut rng = KeyedRng::new(seed, "placement", 0);
    let mut state = environment.initial(&mut rng);
    let mut seen = vec![0.0; environment.observation_space().flat_width().unwrap()];
    let mut sum = 0.0;
    loop {
        environment.observe(&state, &mut seen);
        assert!(environment.is_state(&state));
        let action = [rule(&seen)];
        let step = environment.transition(&mut state, Action::Discrete(&action), &mut rng);
        sum += f64::from(step.reward);
        if step.terminated {
            return (sum, state);
        }
    }
}

/// The return is the share of the serial time that the placement saves, by the replay that shares no code with the schedule.
#[test]
fn returns_are_what_the_replay_says() {
    for n_devices in [2, 3] {
        let environment = environment(PlacementOptions {
            n_devices,
            ..PlacementOptions::default()
        });
        let mut draws = KeyedRng::new(5, "devices", 0);
        for seed in 0..20 {
            let mut rule = |_: &[f32]| draws.below_u32(n_devices as u32);
            let (sum, state) = play(&environment, seed, &mut rule);
            let graph = environment.graph(&state);
            let options = ModelOptions {
                fix_largest: false,
                ..ModelOptions::default()
            };
            let devices = environment.devices();
            let problem = Problem::new(graph, devices, Objective::Runtime, options).unwrap();
            let time = |placement: &[u8]| {
                let schedule = baseline::placed_list(&problem, placement);
                schedule.verify(&problem).unwrap().outcome.runtime_ns
            };
            let placement = environment.placement(&state);
            assert_eq!(time(&placement), state.runtime_ns());
            let serial = time(&vec![0; graph.n_ops()]);
            let saved = 1.0 - state.runtime_ns() as f64 / serial as f64;
            assert!((sum - saved).abs() < 1e-4, "{sum} for {saved}");
        }
    }
}

/// The device on which the op ends first, of which the last feature is 0: the greedy rule of HEFT is better than one device.
#[test]
fn the_features_tell_where_an_op_ends_first() {
    let environment = environment(PlacementOptions::default());
    let mut rule = |seen: &[f32]| {
        let device = |i: usize| seen[4 + 3 * i + 2];
        assert!(device(0) == 0.0 || device(1) == 0.0);
        u32::from(device(1) < device(0))
    };
    let returns: f64 = (0..20)
        .map(|seed| play(&environment, seed, &mut rule).0)
        .sum();
    assert!(returns / 20.0 > 0.1, "{}", returns / 20.0);
}

#[test]
fn a_vector_goes_on_from_its_bytes() {
    let make = || {
        let environment = environment(PlacementOptions::default());
        FunctionalVector::new(environment, 3, Autoreset::SameStep, None).unwrap()
    };
    let (mut whole, mut other) = (make(), make());
    whole.reset(7);
    let step = |vector: &mut FunctionalVector<PlacementEnvironment>, t: u32| {
        let actions = [t % 2, (t / 2) % 2, 1];
        let step = vector.step(Actions::Discrete(&actions)).unwrap().clone();
        (
            step.rewards,
            step.terminated,
            vector.observations().to_vec(),
        )
    };
    for t in 0..30 {
        step(&mut whole, t);
    }
    other.restore(&whole.to_bytes()).unwrap();
    for t in 30..80 {
        assert_eq!(step(&mut whole, t), step(&mut other, t));
    }
}

#[test]
fn what_cannot_be_is_named() {
    let wrong = [
        (
            PlacementOptions {
                n_devices: 1,
                ..PlacementOptions::default()
            },
            "n_devices: expected at least 2, given 1",
        ),
        (
            PlacementOptions {
                graphs: "no-such-file.pb".to_owned(),
                ..PlacementOptions::default()
            },
            "graphs: expected synthetic, or a file",
        ),
        (
            PlacementOptions {
                n_graphs: 0,
                ..PlacementOptions::default()
            },
            "n_graphs: expected 1 to 65536",
        ),
        (
            PlacementOptions {
                min_ops: 9,
                max_ops: 3,
                ..PlacementOptions::default()
            },
            "min_ops and max_ops",
        ),
        (
            PlacementOptions {
                bandwidth_gbs: 0.0,
                ..PlacementOptions::default()
            },
            "the machine",
        ),
    ];
    for (options, message) in wrong {
        let error = PlacementEnvironment::new(&options).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
