//! Linear layers, functions, softmax and argmax on every back end.

use proptest::prelude::*;

use super::{close, devices, gpus};
use crate::{Binary, Buffer, Device, MatMul, Rows, Unary};

/// How far a GPU's functions may be from the host's: each is within 3 units of the last place of the exact value.
const FUNCTIONS_APART: f32 = 6.0 * f32::EPSILON;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| {
        let mixed = ((i + seed) as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (mixed as f32 / 4_294_967_296.0 - 0.5) * 24.0
    };
    (0..n).map(number).collect()
}

fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What an operation writes over NaN.
fn result(device: &Device, len: usize, f: impl FnOnce(&mut Buffer)) -> Vec<f32> {
    let mut out = device.upload(&vec![f32::NAN; len]).unwrap();
    f(&mut out);
    device.download(&out).unwrap()
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..4, 31usize..34, 63usize..66]
}

proptest! {
    #[test]
    fn functions_match_the_host(n in prop_oneof![0usize..5, 255usize..258, Just(1025)], seed in 0usize..999) {
        let x = numbers(n, seed);
        let run = |device: &Device, op: Unary| {
            let x = device.upload(&x).unwrap();
            result(device, n, |out| device.unary(op, &x, out).unwrap())
        };
        let clamp = Unary::Clamp { low: -2.5, high: 0.5 };
        for device in gpus() {
            for op in [Unary::Exp, Unary::Log, Unary::Tanh, Unary::Sigmoid] {
                for (got, want) in run(&device, op).into_iter().zip(run(&Device::host(), op)) {
                    let near = (got - want).abs() <= FUNCTIONS_APART * want.abs();
                    prop_assert!(near || got.is_nan() && want.is_nan(), "{:?}: {} {}", op, got, want);
                }
            }
            prop_assert_eq!(bits_of(&run(&device, clamp)), bits_of(&run(&Device::host(), clamp)));
        }
    }

    #[test]
    fn quotients_and_choices_match_the_host(n in prop_oneof![0usize..9, 255usize..258], seed in 0usize..999) {
        let (a, b) = (numbers(n, seed), numbers(n, seed + 5000));
        let run = |device: &Device, op: Binary| {
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            bits_of(&result(device, n, |out| device.binary(op, &a, &b, out).unwrap()))
        };
        let inside = Binary::WhereInside { low: -3.0, high: 4.0 };
        let quotients: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
        let chosen: Vec<f32> =
            a.iter().zip(&b).map(|(&a, b)| if (-3.0..=4.0).contains(b) { a } else { 0.0 }).collect();
        for device in devices() {
            prop_assert_eq!(run(&device, Binary::Div), bits_of(&quotients));
            prop_assert_eq!(run(&device, inside), bits_of(&chosen));
        }
    }

    /// A large number in every row would overflow, were it not taken off first.
    #[test]
    fn log_softmax_matches_naive(n_rows in sizes(), width in sizes(), seed in 0usize..999, offset in prop_oneof![Just(0.0f32), Just(4096.0)]) {
        let x: Vec<f32> = numbers(n_rows * width, seed).iter().map(|x| x + offset).collect();
        let mut want = Vec::new();
        for row in x.chunks_exact(width.max(1)) {
            let sum: f64 = row.iter().map(|&x| (f64::from(x) - f64::from(offset)).exp()).sum();
            want.extend(row.iter().map(|&x| f64::from(x) - f64::from(offset) - sum.ln()));
        }
        for device in devices() {
            let x = device.upload(&x).unwrap();
            let got = result(&device, want.len(), |out| {
                device.log_softmax(Rows { n_rows, width }, &x, out).unwrap();
            });
            close(&got, &want)?;
        }
    }

    /// Few different numbers, so that there are ties, and some that are none.
    #[test]
    fn argmax_matches_naive(
        (n_rows, width) in (sizes(), sizes()),
        choices in prop::collection::vec(0usize..6, 70),
    ) {
        const VALUES: [f32; 6] = [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, -0.0, 2.0];
        let value = |i: usize| VALUES[choices[(i * 13 + i / 7) % 70]];
        let x: Vec<f32> = (0..n_rows * width).map(value).collect();
        let mut want = Vec::new();
        for row in x.chunks_exact(width.max(1)) {
            let beats = |a: f32, b: f32| a > b || (b.is_nan() && !a.is_nan());
            let best = (0..width).find(|&j| !row.iter().any(|&other| beats(other, row[j]))).unwrap_or(0);
            want.extend((0..width).map(|j| f32::from(u8::from(j == best))));
        }
        for device in devices() {
            let x = device.upload(&x).unwrap();
            let got = result(&device, want.len(), |out| {
                device.argmax_rows(Rows { n_rows, width }, &x, out).unwrap();
            });
            prop_assert_eq!(&got, &want);
        }
    }

    /// A layer has the bits of its product, the added row and relu, each by itself.
    #[test]
    fn a_linear_layer_is_its_parts(rows in sizes(), inner in sizes(), cols in sizes(), seed in 0usize..999) {
        let shape = MatMul { rows, inner, cols, transpose_a: false, transpose_b: false };
        let index = vec![0u32; rows];
        for device in devices() {
            let x = device.upload(&numbers(rows * inner, seed)).unwrap();
            let w = device.upload(&numbers(inner * cols, seed + 7)).unwrap();
            let b = device.upload(&numbers(cols, seed + 9)).unwrap();
            let n = rows * cols;
            let (mut product, mut repeated, mut sum) =
                (device.zeros(n).unwrap(), device.zeros(n).unwrap(), device.zeros(n).unwrap());
            device.matmul(shape, &x, &w, &mut product).unwrap();
            device.gather_rows(Rows { n_rows: 1, width: cols }, &index, &b, &mut repeated).unwrap();
            device.binary(Binary::Add, &product, &repeated, &mut sum).unwrap();
            let positive = result(&device, n, |out| device.relu(&sum, out).unwrap());
            let linear = result(&device, n, |out| device.linear(shape, &x, (&w, &b), false, out).unwrap());
            let relu = result(&device, n, |out| device.linear(shape, &x, (&w, &b), true, out).unwrap());
            prop_assert_eq!(bits_of(&linear), bits_of(&device.download(&sum).unwrap()));
            prop_assert_eq!(bits_of(&relu), bits_of(&positive));
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for device in devices() {
        let x = device.upload(&[f32::NAN, 1.0, f32::INFINITY, 0.5]).unwrap();
        for op in [
            Unary::Exp,
            Unary::Log,
            Unary::Tanh,
            Unary::Sigmoid,
            Unary::Clamp {
                low: 0.0,
                high: 1.0,
            },
        ] {
            let got = result(&device, 4, |out| device.unary(op, &x, out).unwrap());
            assert!(
                got[0].is_nan() && got[1..].iter().all(|x| !x.is_nan()),
                "{op:?} {got:?}"
            );
        }
        let rows = Rows {
            n_rows: 2,
            width: 2,
        };
        let got = result(&device, 4, |out| device.log_softmax(rows, &x, out).unwrap());
        assert!(got.iter().all(|x| x.is_nan()), "{got:?}");
    }
}

#[test]
fn bad_bounds_and_lengths_are_errors() {
    for device in devices() {
        let (two, three) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
        let mut out = device.zeros(2).unwrap();
        let clamp = Unary::Clamp {
            low: 1.0,
            high: 0.0,
        };
        let message = device.unary(clamp, &two, &mut out).unwrap_err().to_string();
        assert_eq!(message, "unary: the bounds 1 and 0 must ascend");
        let nan = Binary::WhereInside {
            low: f32::NAN,
            high: 0.0,
        };
        assert!(device.binary(nan, &two, &two, &mut out).is_err());
        assert!(device.unary(Unary::Exp, &three, &mut out).is_err());
        let rows = Rows {
            n_rows: 1,
            width: 3,
        };
        assert!(device.log_softmax(rows, &three, &mut out).is_err());
        assert!(device.argmax_rows(rows, &two, &mut out).is_err());
        let shape = MatMul {
            rows: 1,
            inner: 3,
            cols: 2,
            transpose_a: false,
            transpose_b: false,
        };
        let message = device
            .linear(
                shape,
                &three,
                (&device.zeros(6).unwrap(), &three),
                true,
                &mut out,
            )
            .unwrap_err();
        assert_eq!(
            message.to_string(),
            "linear: operand `row` has 3 elements, 2 are needed"
        );
    }
}
