//! Half precision against its definition.

use shardgraph_cuemu::compile::Build;

use crate::arguments;
use crate::emulator::{Emulator, Shape, scattered};

/// A half's value from its definition, in f64.
fn value(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    match exponent {
        31 if mantissa != 0.0 => f64::NAN,
        31 => sign * f64::INFINITY,
        0 => sign * mantissa * 2_f64.powi(-24),
        _ => sign * (1024.0 + mantissa) * 2_f64.powi(exponent - 25),
    }
}

fn threads(n: usize) -> Shape {
    Shape::line(u32::try_from(n.div_ceil(256)).unwrap(), 256)
}

fn to_floats(emulator: &Emulator, halves: &[u16]) -> Vec<f32> {
    let n = u32::try_from(halves.len()).unwrap();
    let (x, out) = (
        emulator.memory(halves),
        emulator.unwritten::<f32>(halves.len()),
    );
    let shape = threads(halves.len());
    emulator
        .launch("halves_to_floats", shape, arguments![&x, n, &out])
        .unwrap();
    out.to_vec()
}

fn to_halves(emulator: &Emulator, floats: &[f32]) -> Vec<u16> {
    let n = u32::try_from(floats.len()).unwrap();
    let (x, out) = (
        emulator.memory(floats),
        emulator.unwritten::<u16>(floats.len()),
    );
    let shape = threads(floats.len());
    emulator
        .launch("floats_to_halves", shape, arguments![&x, n, &out])
        .unwrap();
    out.to_vec()
}

fn to_halves_stochastic(emulator: &Emulator, floats: &[f32], random: &[u32]) -> Vec<u16> {
    let n = u32::try_from(floats.len()).unwrap();
    let (x, out) = (
        emulator.memory(floats),
        emulator.unwritten::<u16>(floats.len()),
    );
    let random = emulator.memory(random);
    emulator
        .launch(
            "floats_to_halves_stochastic",
            threads(floats.len()),
            arguments![&x, &random, n, &out],
        )
        .unwrap();
    out.to_vec()
}

fn every_half() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// The halves from minus to plus infinity, zero once, as values and bits.
fn ladder() -> Vec<(f64, u16)> {
    let mut steps: Vec<(f64, u16)> = every_half()
        .into_iter()
        .map(|bits| (value(bits), bits))
        .filter(|(value, bits)| !value.is_nan() && *bits != 0x8000)
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps
}

#[test]
fn every_half_has_its_value() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for (bits, got) in every_half()
        .into_iter()
        .zip(to_floats(emulator, &every_half()))
    {
        let expected = value(bits);
        if expected.is_nan() {
            assert_eq!(got.to_bits(), 0x7fff_ffff, "{bits:#x}");
        } else {
            assert_eq!(got.to_bits(), (expected as f32).to_bits(), "{bits:#x}");
        }
    }
}

#[test]
fn every_half_comes_back() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let floats = to_floats(emulator, &every_half());
    let random = scattered(65536);
    let nearest = to_halves(emulator, &floats);
    let stochastic = to_halves_stochastic(emulator, &floats, &random);
    for bits in every_half() {
        let is_nan = value(bits).is_nan();
        let expected = if is_nan { 0x7fff } else { bits };
        assert_eq!(nearest[usize::from(bits)], expected);
        assert_eq!(stochastic[usize::from(bits)], expected);
    }
}

/// Between each two neighbours: the middle, and the floats just beside it and beside both ends.
#[test]
fn the_nearest_half_and_the_even_one_of_two() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let ladder = ladder();
    let mut floats = Vec::new();
    let mut expected = Vec::new();
    for pair in ladder.windows(2) {
        let ((below, low), (above, high)) = (pair[0], pair[1]);
        if low == 0xfc00 || high == 0x7c00 {
            continue; // towards infinity: the next test
        }
        let even = if low & 1 == 0 { low } else { high };
        let middle = ((below + above) / 2.0) as f32;
        let near = [
            (below as f32).next_up(),
            middle.next_down(),
            middle,
            middle.next_up(),
        ];
        floats.extend(near);
        expected.extend([low, low, even, high]);
    }
    let halves = to_halves(emulator, &floats);
    for ((x, got), expected) in floats.iter().zip(halves).zip(expected) {
        // What rounds to zero from below is minus zero.
        let expected = if x.is_sign_negative() && expected == 0 {
            0x8000
        } else {
            expected
        };
        assert_eq!(got, expected, "{x:e}");
    }
}

#[test]
fn the_ends_of_the_range() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let past = 65520_f32;
    let floats = [
        65504.0,
        past.next_down(),
        past,
        f32::MAX,
        f32::INFINITY,
        -past,
        -past.next_down(),
        f32::NAN,
        -f32::NAN,
        0.0,
        -0.0,
        f32::MIN_POSITIVE,
        -f32::from_bits(1),
    ];
    let nearest = [
        0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 0xfc00, 0xfbff, 0x7fff, 0x7fff, 0, 0x8000, 0,
        0x8000,
    ];
    assert_eq!(to_halves(emulator, &floats), nearest);
    // Stochastic rounding makes no infinity of a finite number.
    let stochastic = [
        0x7bff, 0x7bff, 0x7bff, 0x7bff, 0x7c00, 0xfbff, 0xfbff, 0x7fff, 0x7fff, 0, 0x8000, 0,
        0x8000,
    ];
    for random in [0, 1, 0x1fff, 0x2000, u32::MAX] {
        let got = to_halves_stochastic(emulator, &floats, &[random; 13]);
        let all_but_tiny = |halves: &[u16]| [&halves[..11], &halves[13..]].concat();
        assert_eq!(all_but_tiny(&got), all_but_tiny(&stochastic), "{random:#x}");
    }
}

/// The number of random words, of all 2^13, that round up is the share, to the nearest: the boundary is
/// where the definition puts it, and the result is monotonic in the random bits.
#[test]
fn stochastic_rounding_goes_up_with_the_right_share() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let ladder = ladder();
    let mut cases = Vec::new(); // the float, the half below it, random bits, whether they go up
    for x in stochastic_inputs() {
        let at = ladder.partition_point(|(value, _)| *value <= f64::from(x));
        let ((below, low), (above, _)) = (ladder[at - 1], ladder[at]);
        let share = (f64::from(x) - below) / (above - below);
        // The low 13 bits count, and the highest numbers of them go up.
        let n_words = 1_u64 << 13;
        let n_up = (share * n_words as f64).round() as u64;
        let last_up = (n_up > 0).then(|| n_words - n_up);
        let first_down = (n_words - n_up).checked_sub(1);
        cases.extend(last_up.map(|random| (x, low, random as u32, true)));
        cases.extend(first_down.map(|random| (x, low, random as u32, false)));
    }
    let floats: Vec<f32> = cases.iter().map(|case| case.0).collect();
    let random: Vec<u32> = cases.iter().map(|case| case.2).collect();
    let halves = to_halves_stochastic(emulator, &floats, &random);
    for ((x, low, random, up), got) in cases.iter().zip(halves) {
        assert_eq!(got, low + u16::from(*up), "{x:e}, random {random:#x}");
    }
}

/// Positive numbers of every size that a half can hold, and below.
fn stochastic_inputs() -> Vec<f32> {
    let mut inputs = Vec::new();
    for exponent in -45..16 {
        for bits in scattered(6) {
            let size = 2_f32.powi(exponent) * (1.0 + (bits >> 9) as f32 / 8_388_608.0);
            if size < 65504.0 {
                inputs.push(size);
            }
        }
    }
    inputs
}

/// The mean over random words is the number, within five standard errors.
#[test]
fn stochastic_rounding_is_unbiased() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    const N: u32 = 20_000;
    let mut state = 0x2545_f491_4f6c_dd1d_u64; // xorshift64
    let random: Vec<u32> = (0..N)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        })
        .collect();
    for x in [
        1.0003,
        -1.0003,
        0.1,
        -3.33e-5,
        6.1e-5,
        3.7e-7,
        1234.56,
        9.0e-9,
        -60000.1_f32,
    ] {
        let halves = to_halves_stochastic(emulator, &vec![x; N as usize], &random);
        let mean = halves.iter().map(|half| value(*half)).sum::<f64>() / f64::from(N);
        let above = ladder()[ladder().partition_point(|(value, _)| *value <= f64::from(x))].0;
        let below = ladder()[ladder().partition_point(|(value, _)| *value <= f64::from(x)) - 1].0;
        let (step, share) = (above - below, (f64::from(x) - below) / (above - below));
        let error = step * (share * (1.0 - share) / f64::from(N)).sqrt();
        assert!(
            (mean - f64::from(x)).abs() <= 5.0 * error,
            "{x}: mean {mean}"
        );
    }
}

#[test]
fn vector_atomics_add_every_component() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x: Vec<f32> = scattered(4 * 300).iter().map(|x| (x % 9) as f32).collect();
    let expected = [0, 1, 2, 3].map(|i| x.iter().skip(i).step_by(4).sum::<f32>());
    for seed in 0..5 {
        let (x, sums) = (emulator.memory(&x), emulator.memory(&[0.0_f32; 4]));
        let shape = Shape::line(5, 64).seed(seed);
        emulator
            .launch("vector_sums", shape, arguments![&x, 300_u32, &sums])
            .unwrap();
        assert_eq!(sums.to_vec(), expected);
    }
}

#[test]
fn relaxed_loads_and_stores_of_every_type() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let bits = scattered(32);
    let a: Vec<f32> = bits.iter().map(|&x| x as f32).collect();
    let c: Vec<u64> = bits.iter().map(|&x| u64::from(x) << 21).collect();
    let d: Vec<u16> = bits.iter().map(|&x| x as u16).collect();
    let to = (
        emulator.unwritten::<f32>(32),
        emulator.unwritten::<u32>(32),
        emulator.unwritten::<u64>(32),
        emulator.unwritten::<u16>(32),
    );
    let from = (
        emulator.memory(&a),
        emulator.memory(&bits),
        emulator.memory(&c),
        emulator.memory(&d),
    );
    let values = arguments![
        &from.0, &from.1, &from.2, &from.3, &to.0, &to.1, &to.2, &to.3
    ];
    emulator
        .launch("relaxed_copies", Shape::line(1, 32), values)
        .unwrap();
    assert_eq!(
        (to.0.to_vec(), to.1.to_vec(), to.2.to_vec(), to.3.to_vec()),
        (a, bits, c, d)
    );
}
