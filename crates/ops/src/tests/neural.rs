//! Linear layers, functions, softmax and argmax on every back end.

use proptest::prelude::*;
use shardgraph_device::{Buffer, Device};

use super::{close, devices, gpus};
use crate::{self as ops, Binary, MatMul, RowIndex, Rows, Unary};

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

/// An operation and what it does to two numbers.
type Case = (Binary, fn(f32, f32) -> f32);

proptest! {
    #[test]
    fn functions_match_the_host(n in prop_oneof![0usize..5, 255usize..258, Just(1025)], seed in 0usize..999) {
        let x = numbers(n, seed);
        let run = |device: &Device, op: Unary| {
            let x = device.upload(&x).unwrap();
            result(device, n, |out| ops::unary(device, op, &x, out).unwrap())
        };
        let clamp = Unary::Clamp { low: -2.5, high: 0.5 };
        for device in gpus() {
            for op in [Unary::Exp, Unary::Log, Unary::Tanh, Unary::Sigmoid] {
                for (got, want) in run(&device, op).into_iter().zip(run(&Device::host(), op)) {
                    let near = (got - want).abs() <= FUNCTIONS_APART * want.abs();
                    prop_assert!(near || got.is_nan() && want.is_nan(), "{:?}: {} {}", op, got, want);
                }
            }
            for exact in [clamp, Unary::Sqrt] {
                prop_assert_eq!(bits_of(&run(&device, exact)), bits_of(&run(&Device::host(), exact)));
            }
        }
    }

    #[test]
    fn quotients_and_choices_match_the_host(n in prop_oneof![0usize..9, 255usize..258], seed in 0usize..999) {
        let (a, b) = (numbers(n, seed), numbers(n, seed + 5000));
        let run = |device: &Device, op: Binary| {
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            bits_of(&result(device, n, |out| ops::binary(device, op, &a, &b, out).unwrap()))
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

    /// A number a row, and the sums of rows: sixteenths, so that every order of a sum gives the same.
    #[test]
    fn columns_meet_their_rows(n_rows in sizes(), width in sizes(), seed in 0usize..999) {
        let rows = Rows { n_rows, width };
        let sixteenths = |x: &f32| (x * 16.0).round() / 16.0;
        let x: Vec<f32> = numbers(n_rows * width, seed).iter().map(sixteenths).collect();
        let column = numbers(n_rows, seed + 77);
        let cases: [Case; 4] = [
            (Binary::Add, |x, c| x + c),
            (Binary::Sub, |x, c| x - c),
            (Binary::Mul, |x, c| x * c),
            (Binary::Div, |x, c| x / c),
        ];
        let sums: Vec<f32> = (0..n_rows).map(|i| x[i * width..][..width].iter().sum()).collect();
        for device in devices() {
            let (x_dev, column_dev) = (device.upload(&x).unwrap(), device.upload(&column).unwrap());
            for (op, f) in cases {
                let want: Vec<f32> = (0..x.len()).map(|i| f(x[i], column[i / width])).collect();
                let got = result(&device, x.len(), |out| {
                    ops::binary_column(&device, op, rows, &x_dev, &column_dev, out).unwrap();
                });
                prop_assert_eq!(bits_of(&got), bits_of(&want));
            }
            let got = result(&device, n_rows, |out| ops::row_sums(&device, rows, &x_dev, out).unwrap());
            prop_assert_eq!(&got, &sums);
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
                ops::log_softmax(&device, Rows { n_rows, width }, &x, out).unwrap();
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
                ops::argmax_rows(&device, Rows { n_rows, width }, &x, out).unwrap();
            });
            prop_assert_eq!(&got, &want);
        }
    }

    /// A layer has the bits of its product, the added row and relu, each by itself.
    #[test]
    fn a_linear_layer_is_its_parts(rows in sizes(), inner in sizes(), cols in sizes(), seed in 0usize..999) {
        let shape = MatMul { rows, inner, cols, transpose_a: false, transpose_b: false };
        for device in devices() {
            let x = device.upload(&numbers(rows * inner, seed)).unwrap();
            let w = device.upload(&numbers(inner * cols, seed + 7)).unwrap();
            let b = device.upload(&numbers(cols, seed + 9)).unwrap();
            let n = rows * cols;
            let (mut product, mut repeated, mut sum) =
                (device.zeros(n).unwrap(), device.zeros(n).unwrap(), device.zeros(n).unwrap());
            ops::matmul(&device, shape, &x, &w, &mut product).unwrap();
            let index = RowIndex::upload(&device, 1, vec![0; rows]).unwrap();
            ops::gather_rows(&device, &index, cols, &b, &mut repeated).unwrap();
            ops::binary(&device, Binary::Add, &product, &repeated, &mut sum).unwrap();
            let positive = result(&device, n, |out| ops::relu(&device, &sum, out).unwrap());
            let linear = result(&device, n, |out| ops::linear(&device, shape, &x, &w, &b, false, out).unwrap());
            let relu = result(&device, n, |out| ops::linear(&device, shape, &x, &w, &b, true, out).unwrap());
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
            let got = result(&device, 4, |out| ops::unary(&device, op, &x, out).unwrap());
            assert!(
                got[0].is_nan() && got[1..].iter().all(|x| !x.is_nan()),
                "{op:?} {got:?}"
            );
        }
        let rows = Rows {
            n_rows: 2,
            width: 2,
        };
        let got = result(&device, 4, |out| {
            ops::log_softmax(&device, rows, &x, out).unwrap()
        });
        assert!(got.iter().all(|x| x.is_nan()), "{got:?}");
    }
}

#[test]
fn bounds_that_do_not_ascend_are_errors() {
    for device in devices() {
        let (x, mut out) = (device.zeros(2).unwrap(), device.zeros(2).unwrap());
        let (low, high) = (1.0, 0.0);
        let clamp = ops::unary(&device, Unary::Clamp { low, high }, &x, &mut out);
        let message = clamp.unwrap_err().to_string();
        assert_eq!(message, "unary: the bounds 1 and 0 must ascend");
        let rows = Rows {
            n_rows: 2,
            width: 1,
        };
        let choice = ops::binary_column(&device, Binary::WherePositive, rows, &x, &x, &mut out);
        assert!(choice.is_err());
        let low = f32::NAN;
        let inside = ops::binary(&device, Binary::WhereInside { low, high }, &x, &x, &mut out);
        assert!(inside.is_err());
    }
}

#[test]
fn wrong_lengths_are_errors() {
    for device in devices() {
        let (two, three) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
        let (six, mut out) = (device.zeros(6).unwrap(), device.zeros(2).unwrap());
        assert!(ops::unary(&device, Unary::Exp, &three, &mut out).is_err());
        let rows = Rows {
            n_rows: 2,
            width: 3,
        };
        assert!(ops::binary_column(&device, Binary::Add, rows, &six, &three, &mut out).is_err());
        assert!(ops::row_sums(&device, rows, &three, &mut out).is_err());
        let (n_rows, width) = (1, 3);
        assert!(ops::log_softmax(&device, Rows { n_rows, width }, &three, &mut out).is_err());
        assert!(ops::argmax_rows(&device, Rows { n_rows, width }, &two, &mut out).is_err());
        let shape = MatMul {
            rows: 1,
            inner: 3,
            cols: 2,
            transpose_a: false,
            transpose_b: false,
        };
        let linear = ops::linear(&device, shape, &three, &six, &three, true, &mut out);
        let message = linear.unwrap_err().to_string();
        assert_eq!(
            message,
            "linear: operand `row` has 3 elements, 2 are needed"
        );
    }
}
