//! Random numbers, alias tables and half precision.

use super::super::draws::{draw, philox, philox_slots};
use super::super::element::round_at_random;
use super::super::host::exp;
use super::super::{AliasTable, narrow, widen};
use super::devices::devices;
use super::{EdgeList, EdgeOrder, Samples, Tables, Trainer, settings};
use shardgraph_device::Device;

/// The vectors that the authors of Philox publish with it.
#[test]
fn philox_gives_its_published_numbers() {
    assert_eq!(
        philox(0, 0, 0, 0),
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
    );
    let ones = u64::MAX;
    assert_eq!(
        philox(ones, ones, u32::MAX, u32::MAX),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
    assert_eq!(
        philox(
            0x299f_31d0_a409_3822,
            0x85a3_08d3_243f_6a88,
            0x1319_8a2e,
            0x0370_7344
        ),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn slots_side_by_side_are_those_drawn_alone() {
    for (seed, counter, first) in [(0, 0, 0), (7, 1 << 40, 8), (u64::MAX, u64::MAX, 24)] {
        let together = philox_slots::<8>(seed, counter, first, 1);
        for (slot, words) in (first..).zip(together) {
            assert_eq!(words, philox(seed, counter, slot, 1));
        }
    }
}

#[test]
fn the_exponential_is_right_to_the_last_bits_within_the_clamp() {
    for step in -30_000..=30_000 {
        let x = step as f32 / 1000.0;
        let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
        let error = (found / expected - 1.0).abs();
        assert!(error < 4e-7, "e^{x} = {expected}, found {found}");
    }
    assert!(exp(f32::NAN).is_nan());
}

/// Pearson's statistic of counts against weights.
fn chi_square(counts: &[u64], weights: &[f64]) -> f64 {
    let (n, total) = (
        counts.iter().sum::<u64>() as f64,
        weights.iter().sum::<f64>(),
    );
    let cell = |(&count, &weight): (&u64, &f64)| {
        let expected = n * weight / total;
        (count as f64 - expected).powi(2) / expected
    };
    counts
        .iter()
        .zip(weights)
        .filter(|(_, w)| **w > 0.0)
        .map(cell)
        .sum()
}

/// With 9 outcomes that can be drawn (8 degrees of freedom) the statistic passes 26.1 once in a thousand seeds.
#[test]
fn negatives_and_edges_follow_their_weights() {
    let degrees = [1u32, 0, 50, 3, 9, 2, 27, 81, 4, 100];
    let weights = degrees.map(|d| f64::from(d).powf(0.75));
    let n = 2500;
    for device in devices() {
        // The edges' targets are their own numbers, so that the first target of a sample tells its edge.
        let pairs: Vec<u32> = (0..10).flat_map(|i| [0, i]).collect();
        let edges = EdgeList::upload_weighted(&device, &pairs, &weights).unwrap();
        let negatives = AliasTable::from_degrees(&device, &degrees).unwrap();
        let mut trainer = Trainer::new(&device, settings(1, 4)).unwrap();
        let order = EdgeOrder::Drawn;
        let samples = Samples {
            edges: &edges,
            negatives: &negatives,
            order,
            reversed: false,
            first: 77,
            count: n,
        };
        let mut table = device.zeros::<f32>(10).unwrap();
        let pass = trainer
            .pass(&samples, 0.1, &Tables::Order1(&mut table))
            .unwrap();
        let count = |of_edges: bool| {
            let mut counts = [0u64; 10];
            for (slot, &target) in pass.targets.iter().enumerate() {
                counts[target as usize] += u64::from((slot % 5 == 0) == of_edges);
            }
            counts
        };
        for counts in [count(true), count(false)] {
            assert_eq!(counts[1], 0, "a weight of 0 is never drawn");
            let statistic = chi_square(&counts, &weights);
            assert!(
                statistic < 26.1,
                "{}: {statistic} {counts:?}",
                device.kind()
            );
        }
    }
}

/// All back ends draw the same targets.
#[test]
fn draws_do_not_depend_on_the_device() {
    let draws = |device: &Device| {
        let edges =
            EdgeList::upload_weighted(device, &[0, 1, 2, 3, 4, 0], &[1.0, 2.5, 0.3]).unwrap();
        let negatives = AliasTable::from_degrees(device, &[5, 1, 0, 2, 2]).unwrap();
        let grouped = super::Settings {
            group: 4,
            ..settings(3, 31)
        };
        let mut trainer = Trainer::new(device, grouped).unwrap();
        let first = (1 << 34) + 4;
        let order = EdgeOrder::Drawn;
        let samples = Samples {
            edges: &edges,
            negatives: &negatives,
            order,
            reversed: true,
            first,
            count: 9,
        };
        let mut table = device.zeros::<f32>(15).unwrap();
        let pass = trainer
            .pass(&samples, 0.1, &Tables::Order1(&mut table))
            .unwrap();
        (pass.sources, pass.targets)
    };
    let host = draws(&Device::host());
    assert_eq!(
        host.1[1..32],
        host.1[33..64],
        "samples of a group share their negatives"
    );
    assert_ne!(host.1[1..32], host.1[4 * 32 + 1..5 * 32], "groups do not");
    for device in devices() {
        assert_eq!(draws(&device), host, "{}", device.kind());
    }
}

/// The table's probabilities are the weights', computed from its thresholds.
#[test]
fn alias_tables_have_the_weights_as_probabilities() {
    let device = Device::host();
    for weights in [
        vec![3.0],
        vec![0.0, 1.0, 0.0],
        vec![1e-9, 1.0, 1e9],
        (0..333).map(f64::from).collect(),
    ] {
        let table = AliasTable::upload(&device, &weights).unwrap();
        let pairs = table.pairs.as_host().unwrap();
        let probability = table.probabilities().unwrap();
        let total: f64 = weights.iter().sum();
        for (p, w) in probability.iter().zip(&weights) {
            assert!((p - w / total).abs() < 1e-9, "{p} {w}");
        }
        assert!((draw(pairs, [u32::MAX; 4]) as usize) < weights.len());
    }
    for bad in [
        vec![],
        vec![0.0, 0.0],
        vec![-1.0, 2.0],
        vec![f64::NAN],
        vec![f64::MAX, f64::MAX],
    ] {
        assert!(AliasTable::upload(&device, &bad).is_err(), "{bad:?}");
    }
}

#[test]
fn half_precision_keeps_every_half_and_rounds_to_nearest() {
    for bits in 0..=u16::MAX {
        let wide = widen(bits);
        if wide.is_nan() {
            assert!(bits & 0x7fff > 0x7c00 && narrow(wide) == bits & 0x8000 | 0x7fff);
            continue;
        }
        assert_eq!(narrow(wide), bits, "{wide}");
        if wide.is_finite() && wide.abs() < 65504.0 {
            let next = widen(bits + 1); // away from 0
            let middle = (wide + next) / 2.0;
            assert_eq!(narrow(middle), bits + (bits & 1), "ties to even: {middle}");
            assert_eq!(narrow(f32::from_bits(middle.to_bits() + 1)), bits + 1);
            assert_eq!(narrow(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(
                round_at_random(wide, u32::MAX),
                bits,
                "an exact value stays"
            );
        }
    }
    assert_eq!(
        (widen(0x3c00), widen(0xc000), widen(0x0001)),
        (1.0, -2.0, 2f32.powi(-24))
    );
    assert_eq!(
        (narrow(65519.9), narrow(65520.0), narrow(f32::NEG_INFINITY)),
        (0x7bff, 0x7c00, 0xfc00)
    );
}

/// The mean of many roundings is the value: standard error 1 / (2 sqrt 4096) of a step, allowed 5 of them.
#[test]
fn random_rounding_is_unbiased() {
    for value in [1.0003f32, -0.100_02, 3e-5, 6.1e-5, 7.3e-8, 1234.5] {
        let down = widen(round_at_random(value, 0));
        let step = (widen(round_at_random(value, u32::MAX)) - down).abs();
        let sum: f64 = (0..4096u32)
            .map(|i| f64::from(widen(round_at_random(value, philox(1, i.into(), 0, 9)[0]))))
            .sum();
        let error = (sum / 4096.0 - f64::from(value)).abs();
        assert!(
            step > 0.0 && error < 5.0 * f64::from(step) / 128.0,
            "{value}: off by {error}, step {step}"
        );
    }
}
