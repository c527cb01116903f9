//! Optimisers: their steps by hand, clipping, and state that comes back whole or not at all.

use proptest::prelude::*;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Params, Shape};

use super::normals;
use crate::{AdamConstants, Optimiser, OptimiserConfig, OptimiserRule};

const RMS_PROP: OptimiserRule = OptimiserRule::RmsProp {
    decay: 0.9,
    momentum: 0.5,
    epsilon: 0.1,
};

fn config(rule: OptimiserRule) -> OptimiserConfig {
    OptimiserConfig {
        rule,
        learning_rate: 0.1,
        max_gradient_norm: None,
    }
}

fn params(n: usize) -> Params {
    let mut params = Params::new();
    params.add("w", Shape::new(1, n), || 1.0);
    params
}

fn rules() -> impl Strategy<Value = OptimiserRule> {
    prop_oneof![
        Just(OptimiserRule::ADAM),
        Just(OptimiserRule::Sgd),
        Just(RMS_PROP)
    ]
}

#[test]
fn rms_prop_is_tensorflows_formula() {
    let (mut params, device) = (params(1), Device::host());
    let mut optimiser = Optimiser::new(config(RMS_PROP), 1).unwrap();
    let (mut w, mut square, mut velocity) = (1.0f64, 1.0f64, 0.0f64);
    for g in [2.0f32, -0.5, 0.25] {
        optimiser.step(&device, &mut params, &mut [g]).unwrap();
        let g = f64::from(g);
        square = 0.9 * square + 0.1 * g * g;
        velocity = 0.5 * velocity + 0.1 * g / (square + 0.1).sqrt();
        w -= velocity;
        assert!((f64::from(params.flat()[0]) - w).abs() < 1e-6);
    }
}

#[test]
fn long_gradients_are_cut_and_short_ones_are_not() {
    let bounded = OptimiserConfig {
        max_gradient_norm: Some(1.0),
        ..config(OptimiserRule::Sgd)
    };
    let mut optimiser = Optimiser::new(bounded, 2).unwrap();
    let (mut params, device) = (params(2), Device::host());
    let mut gradient = [0.0, 4.0];
    assert_eq!(
        optimiser.step(&device, &mut params, &mut gradient).unwrap(),
        4.0
    );
    assert_eq!(gradient, [0.0, 1.0]);
    let mut gradient = [0.5, 0.0];
    assert_eq!(
        optimiser.step(&device, &mut params, &mut gradient).unwrap(),
        0.5
    );
    assert_eq!(gradient, [0.5, 0.0]);
    assert_eq!(params.flat(), [0.95, 0.9]);
}

#[test]
fn only_trained_parameters_move() {
    for rule in [OptimiserRule::ADAM, OptimiserRule::Sgd, RMS_PROP] {
        let mut params = params(2);
        params.freeze_rest();
        params.add("target/w", Shape::new(1, 2), || 1.0);
        let mut optimiser = Optimiser::new(config(rule), params.trained_len()).unwrap();
        optimiser
            .step(&Device::host(), &mut params, &mut [1.0, 1.0])
            .unwrap();
        assert!(params.flat()[0] < 1.0 && params.flat()[2..] == [1.0, 1.0]);
    }
}

#[test]
fn bad_gradients_change_nothing() {
    for rule in [OptimiserRule::ADAM, OptimiserRule::Sgd, RMS_PROP] {
        let (mut params, device) = (params(2), Device::host());
        let mut optimiser = Optimiser::new(config(rule), 2).unwrap();
        let before = optimiser.clone();
        for gradient in [
            &mut [1.0][..],
            &mut [f32::NAN, 0.0],
            &mut [0.0, f32::INFINITY],
            &mut [3e38, 3e38],
        ] {
            let error = optimiser
                .step(&device, &mut params, gradient)
                .unwrap_err()
                .to_string();
            assert!(error.contains("Optimiser::step: the gradient's"), "{error}");
        }
        assert_eq!((params.flat(), optimiser), (&[1.0, 1.0][..], before));
    }
}

#[test]
fn adam_is_the_papers_formula_with_the_constants_given() {
    let rule = OptimiserRule::Adam(AdamConstants {
        beta1: 0.8,
        beta2: 0.9,
        epsilon: 0.01,
    });
    let (mut params, device) = (params(1), Device::host());
    let mut optimiser = Optimiser::new(config(rule), 1).unwrap();
    let (mut w, mut first, mut second) = (1.0f64, 0.0f64, 0.0f64);
    for (step, g) in (1..).zip([2.0f32, -0.5, 0.25]) {
        optimiser.step(&device, &mut params, &mut [g]).unwrap();
        let g = f64::from(g);
        first = 0.8 * first + 0.2 * g;
        second = 0.9 * second + 0.1 * g * g;
        let corrected = second / (1.0 - 0.9f64.powi(step));
        w -= 0.1 * first / (1.0 - 0.8f64.powi(step)) / (corrected.sqrt() + 0.01);
        assert!(
            (f64::from(params.flat()[0]) - w).abs() < 1e-6,
            "step {step}"
        );
    }
}

#[test]
fn rules_are_read_by_name_or_with_constants() {
    let read = |rule: &str| {
        let text = format!(r#"{{ "rule": {rule}, "learning_rate": 0.1 }}"#);
        serde_json::from_str::<OptimiserConfig>(&text).map(|config| config.rule)
    };
    let adam = |beta1, epsilon| {
        OptimiserRule::Adam(AdamConstants {
            beta1,
            beta2: 0.999,
            epsilon,
        })
    };
    assert_eq!(read(r#""adam""#).unwrap(), OptimiserRule::ADAM);
    assert_eq!(read(r#""sgd""#).unwrap(), OptimiserRule::Sgd);
    assert_eq!(read(r#"{ "adam": {} }"#).unwrap(), OptimiserRule::ADAM);
    let changed = read(r#"{ "adam": { "beta1": 0.5, "epsilon": 1e-5 } }"#).unwrap();
    assert_eq!(changed, adam(0.5, 1e-5));
    for rule in [
        OptimiserRule::ADAM,
        OptimiserRule::Sgd,
        RMS_PROP,
        adam(0.5, 1e-5),
    ] {
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(read(&text).unwrap(), rule, "{text}");
    }
    for (wrong, part) in [
        (r#""adamax""#, "unknown variant `adamax`"),
        (r#"{ "adam": { "beta3": 0.5 } }"#, "unknown field `beta3`"),
        (
            r#"{ "rms_prop": { "decay": 0.5 } }"#,
            "missing field `momentum`",
        ),
        ("7", "a name, as"),
    ] {
        let message = read(wrong).unwrap_err().to_string();
        assert!(message.contains(part), "{wrong}: {message}");
    }
}

#[test]
fn a_step_size_that_cannot_be_right_is_refused_later_too() {
    for rule in [OptimiserRule::ADAM, OptimiserRule::Sgd, RMS_PROP] {
        let mut optimiser = Optimiser::new(config(rule), 2).unwrap();
        for wrong in [f32::NAN, f32::INFINITY, 0.0, -0.1] {
            let message = optimiser.set_learning_rate(wrong).unwrap_err().to_string();
            assert!(
                message.contains("Optimiser::set_learning_rate: learning_rate"),
                "{message}"
            );
        }
        assert_eq!(optimiser.learning_rate(), 0.1);
    }
}

#[test]
fn settings_that_cannot_be_right_are_refused() {
    let rms_prop = |decay, momentum, epsilon| OptimiserRule::RmsProp {
        decay,
        momentum,
        epsilon,
    };
    let adam = |beta1, beta2, epsilon| {
        OptimiserRule::Adam(AdamConstants {
            beta1,
            beta2,
            epsilon,
        })
    };
    let bad = [
        (OptimiserRule::Sgd, 0.0, None),
        (OptimiserRule::ADAM, f32::NAN, None),
        (OptimiserRule::ADAM, 0.1, Some(0.0)),
        (adam(1.0, 0.999, 1e-8), 0.1, None),
        (adam(0.9, -0.1, 1e-8), 0.1, None),
        (adam(0.9, f32::NAN, 1e-8), 0.1, None),
        (adam(0.9, 0.999, 0.0), 0.1, None),
        (rms_prop(1.0, 0.0, 0.1), 0.1, None),
        (rms_prop(0.9, -0.1, 0.1), 0.1, None),
        (rms_prop(0.9, 0.0, 0.0), 0.1, None),
    ];
    for (rule, learning_rate, max_gradient_norm) in bad {
        let config = OptimiserConfig {
            rule,
            learning_rate,
            max_gradient_norm,
        };
        assert!(Optimiser::new(config, 2).is_err(), "{config:?}");
    }
    let text = r#"{ "rule": "adam", "learning_rate": 0.1, "beta": 0.9 }"#;
    assert!(serde_json::from_str::<OptimiserConfig>(text).is_err());
    assert!(serde_json::from_str::<OptimiserConfig>(&text.replace(r#", "beta": 0.9"#, "")).is_ok());
}

proptest! {
    #[test]
    fn a_restored_optimiser_goes_on_with_the_same_bits(
        rule in rules(),
        n in prop_oneof![Just(0usize), Just(1), 31usize..34, Just(257)],
        n_steps in 0u64..4,
        seed in any::<u64>(),
    ) {
        let device = Device::host();
        let mut first = Optimiser::new(config(rule), n).unwrap();
        let mut weights = params(n);
        for step in 0..n_steps {
            first.step(&device, &mut weights, &mut normals(n, seed ^ step)).unwrap();
        }
        first.set_learning_rate(0.05).unwrap();
        let mut second = Optimiser::new(config(rule), n).unwrap();
        second.restore(&first.to_bytes()).unwrap();
        prop_assert_eq!(&first, &second);
        let mut third = Optimiser::new(config(rule), n).unwrap();
        third.restore_slots(first.n_steps(), &first.slots().concat()).unwrap();
        third.set_learning_rate(0.05).unwrap();
        prop_assert_eq!(&first, &third);
        let mut copy = weights.clone();
        first.step(&device, &mut weights, &mut normals(n, seed)).unwrap();
        second.step(&device, &mut copy, &mut normals(n, seed)).unwrap();
        prop_assert_eq!(weights, copy);
    }

    #[test]
    fn damaged_bytes_are_refused(rule in rules(), cut in 0usize..200, at in 0usize..24, n in 0usize..8) {
        let whole = Optimiser::new(config(rule), n).unwrap();
        let mut other = Optimiser::new(config(rule), n).unwrap();
        let bytes = whole.to_bytes();
        let longer = [&bytes[..], &[0]].concat();
        let mut damaged = bytes.clone();
        damaged[at] ^= 4; // the name, the rule, or the number of parameters
        for bytes in [&bytes[..cut.min(bytes.len() - 1)], &longer, &damaged] {
            let error = other.restore(bytes).unwrap_err().to_string();
            prop_assert!(error.starts_with("these bytes are no state of this optimiser"), "{}", error);
        }
        prop_assert_eq!(whole, other);
    }
}

#[test]
fn bytes_of_another_optimiser_are_refused() {
    let adam = Optimiser::new(config(OptimiserRule::ADAM), 3).unwrap();
    let mut rms_prop = Optimiser::new(config(RMS_PROP), 3).unwrap();
    assert!(rms_prop.restore(&adam.to_bytes()).is_err());
    let mut longer = Optimiser::new(config(OptimiserRule::ADAM), 4).unwrap();
    assert!(longer.restore(&adam.to_bytes()).is_err());
    let mut bytes = adam.to_bytes();
    bytes[36..40].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(longer.restore(&bytes).is_err());
    let before = longer.clone();
    for wrong in [&[0.0; 7][..], &[0.0; 9], &[f32::NAN; 8]] {
        assert!(longer.restore_slots(1, wrong).is_err());
    }
    assert_eq!(longer, before);
}
