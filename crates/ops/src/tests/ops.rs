//! Dense, element-wise, row, loss and optimiser operations of every back end against plain loops in f64.

use proptest::prelude::*;
use shardgraph_device::{Buffer, Device};

use super::{close, devices, gpus};
use crate::{self as ops, Adam, Binary, Copy2d, Loss, MatMul, RmsProp, RowIndex, Rows};

fn values(n: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-64i32..64).prop_map(|i| i as f32 / 16.0), n)
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..5, Just(31), Just(32), Just(33), Just(64), Just(65)]
}

/// `op(a) [rows, inner] * op(b) [inner, cols]` in f64.
fn naive_product(shape: MatMul, a: &[f32], b: &[f32]) -> Vec<f64> {
    let at = |m: &[f32], transposed: bool, i: usize, j: usize, height: usize, width: usize| {
        f64::from(if transposed {
            m[j * height + i]
        } else {
            m[i * width + j]
        })
    };
    let mut out = Vec::new();
    for i in 0..shape.rows {
        for j in 0..shape.cols {
            let terms = (0..shape.inner).map(|k| {
                at(a, shape.transpose_a, i, k, shape.rows, shape.inner)
                    * at(b, shape.transpose_b, k, j, shape.inner, shape.cols)
            });
            out.push(terms.sum());
        }
    }
    out
}

fn matmul_case() -> impl Strategy<Value = (MatMul, Vec<f32>, Vec<f32>)> {
    (size(), size(), size(), any::<bool>(), any::<bool>()).prop_flat_map(
        |(rows, inner, cols, transpose_a, transpose_b)| {
            let shape = MatMul {
                rows,
                inner,
                cols,
                transpose_a,
                transpose_b,
            };
            (Just(shape), values(rows * inner), values(inner * cols))
        },
    )
}

/// A spread of numbers with all 24 bits in use, for tests in which bits must not depend on the surroundings.
fn rough(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (mixed as f32 / 4_294_967_296.0 - 0.5) * 3.7
}

pub(super) fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn filled(device: &Device, len: usize) -> Buffer {
    device.upload(&vec![f32::NAN; len]).unwrap()
}

proptest! {
    #[test]
    fn matmul_matches_naive((shape, a, b) in matmul_case()) {
        for device in devices() {
            let (a_dev, b_dev) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut out = filled(&device, shape.rows * shape.cols);
            ops::matmul(&device, shape, &a_dev, &b_dev, &mut out).unwrap();
            close(&device.download(&out).unwrap(), &naive_product(shape, &a, &b))?;
        }
    }

    /// A row's result is the same bits whatever other blocks there are.
    #[test]
    fn block_products_do_not_depend_on_other_blocks((shape, a, b) in matmul_case(), cut in 0usize..66) {
        let shape = MatMul { transpose_a: false, ..shape };
        let cut = cut.min(shape.rows);
        for device in devices() {
            let (x, w) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut out = filled(&device, shape.rows * shape.cols);
            ops::block_matmul(&device, shape, &[0, cut, shape.rows], &x, &w, &mut out).unwrap();
            let whole = device.download(&out).unwrap();
            close(&whole, &naive_product(shape, &a, &b))?;
            let first = MatMul { rows: cut, ..shape };
            let x = device.upload(&a[..cut * shape.inner]).unwrap();
            let mut alone = filled(&device, cut * shape.cols);
            ops::block_matmul(&device, first, &[0, cut], &x, &w, &mut alone).unwrap();
            prop_assert_eq!(&device.download(&alone).unwrap()[..], &whole[..cut * shape.cols]);
        }
    }

    #[test]
    fn block_outer_matches_naive(
        (n_rows, a, b) in (size(), 1usize..5, 1usize..35),
        seed in values(66 * 40),
        cut in 0usize..66,
    ) {
        let cut = cut.min(n_rows);
        let (x, y) = (&seed[..n_rows * a], &seed[n_rows * a..][..n_rows * b]);
        let shape = MatMul { rows: a, inner: n_rows, cols: b, transpose_a: true, transpose_b: false };
        for device in devices() {
            let mut out = filled(&device, 2 * a * b);
            let (x_dev, y_dev) = (device.upload(x).unwrap(), device.upload(y).unwrap());
            ops::block_outer(&device, shape, &[0, cut, n_rows], &x_dev, &y_dev, &mut out).unwrap();
            let got = device.download(&out).unwrap();
            for (block, rows) in [0..cut, cut..n_rows].into_iter().enumerate() {
                let want: Vec<f64> = (0..a * b)
                    .map(|i| {
                        let term = |r: usize| f64::from(x[r * a + i / b]) * f64::from(y[r * b + i % b]);
                        rows.clone().map(term).sum()
                    })
                    .collect();
                close(&got[block * a * b..][..a * b], &want)?;
            }
        }
    }

    #[test]
    fn row_operations_match_naive(
        n_rows in 1usize..9,
        width in 1usize..9,
        index in prop::collection::vec(prop_oneof![0u32..9, Just(u32::MAX)], 0..20),
        seed in values(300),
    ) {
        let index: Vec<u32> =
            index.into_iter().map(|i| if i == u32::MAX { i } else { i % n_rows as u32 }).collect();
        let rows = Rows { n_rows, width };
        let (x, y) = (&seed[..n_rows * width], &seed[100..][..index.len() * width]);
        let factors = &seed[200..200 + n_rows];
        let (mut taken, mut sums) = (Vec::new(), vec![0.0f32; n_rows * width]);
        for (i, &row) in index.iter().enumerate() {
            for j in 0..width {
                taken.push(if row == u32::MAX { 0.0 } else { x[row as usize * width + j] });
                if row != u32::MAX {
                    sums[row as usize * width + j] += y[i * width + j];
                }
            }
        }
        let products: Vec<f32> = (0..x.len()).map(|i| x[i] * factors[i / width]).collect();
        for device in devices() {
            let (x_dev, y_dev) = (device.upload(x).unwrap(), device.upload(y).unwrap());
            let by = RowIndex::upload(&device, n_rows, index.as_slice()).unwrap();
            let mut gathered = filled(&device, y.len());
            ops::gather_rows(&device, &by, width, &x_dev, &mut gathered).unwrap();
            prop_assert_eq!(bits_of(&device.download(&gathered).unwrap()), bits_of(&taken));
            let mut scattered = filled(&device, x.len());
            ops::scatter_rows(&device, &by, width, &y_dev, &mut scattered).unwrap();
            prop_assert_eq!(&device.download(&scattered).unwrap(), &sums);
            let mut scaled = device.upload(x).unwrap();
            let factors = device.upload(factors).unwrap();
            ops::scale_rows(&device, rows, &factors, &mut scaled).unwrap();
            prop_assert_eq!(bits_of(&device.download(&scaled).unwrap()), bits_of(&products));
        }
    }

    /// Rectangles of every alignment land where they should, and nothing else changes.
    #[test]
    fn rectangles_match_naive(
        (rows, width) in (0usize..5, prop_oneof![0usize..6, Just(8), Just(33)]),
        (source_first, source_gap) in (0usize..9, 0usize..9),
        (target_first, target_gap) in (0usize..9, 0usize..9),
    ) {
        let copy = Copy2d {
            rows,
            width,
            source_first,
            source_stride: width + source_gap,
            target_first,
            target_stride: width + target_gap,
        };
        let source: Vec<f32> = (0..400).map(|i| i as f32).collect();
        let mut want = vec![-1.0f32; 400];
        for row in 0..rows {
            for j in 0..width {
                want[target_first + row * copy.target_stride + j] =
                    source[source_first + row * copy.source_stride + j];
            }
        }
        for device in devices() {
            let source = device.upload(&source).unwrap();
            let mut target = device.upload(&[-1.0; 400]).unwrap();
            ops::copy_2d(&device, copy, &source, &mut target).unwrap();
            prop_assert_eq!(&device.download(&target).unwrap(), &want);
        }
    }

    /// One operation an element: the bits are the host's, on every back end and for every tail.
    #[test]
    fn element_wise_operations_match_the_host(
        n in prop_oneof![0usize..9, 255usize..258, 1022usize..1027],
        seed in values(64),
        factor in -3.0f32..3.0,
    ) {
        let a: Vec<f32> = (0..n).map(|i| seed[i % 61] * rough(i)).collect();
        let b: Vec<f32> = (0..n).map(|i| seed[(i * 7) % 64]).collect();
        let all = |device: &Device| {
            let (x, y) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut results = Vec::new();
            for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::WherePositive] {
                let mut out = filled(device, n);
                ops::binary(device, op, &x, &y, &mut out).unwrap();
                results.push(bits_of(&device.download(&out).unwrap()));
            }
            let mut out = filled(device, n);
            ops::scale(device, factor, &x, &mut out).unwrap();
            results.push(bits_of(&device.download(&out).unwrap()));
            let mut out = filled(device, n);
            ops::relu(device, &x, &mut out).unwrap();
            results.push(bits_of(&device.download(&out).unwrap()));
            results
        };
        let want = all(&Device::host());
        for device in gpus() {
            prop_assert_eq!(all(&device), want.clone());
        }
    }

    #[test]
    fn losses_match_naive(
        n in prop_oneof![1usize..5, Just(255), Just(257), Just(4096), Just(4097), Just(9000)],
        huber in any::<bool>(),
        delta in 0.1f32..2.0,
        upstream in -2.0f32..2.0,
    ) {
        let pred: Vec<f32> = (0..n).map(rough).collect();
        let target: Vec<f32> = (0..n).map(|i| rough(i + 70_000)).collect();
        let loss = if huber { Loss::Huber { delta } } else { Loss::Mse };
        let (mut sum, mut slopes) = (0.0f64, Vec::new());
        for (&p, &t) in pred.iter().zip(&target) {
            let (e, d) = (f64::from(p) - f64::from(t), f64::from(delta));
            let linear = huber && e.abs() > d;
            sum += match (huber, linear) {
                (false, _) => e * e,
                (true, false) => 0.5 * e * e,
                (true, true) => d * (e.abs() - 0.5 * d),
            };
            let slope = if !huber { 2.0 * e } else { e.clamp(-d, d) };
            slopes.push(f64::from(upstream) * slope);
        }
        for device in devices() {
            let up = |x: &[f32]| device.upload(x).unwrap();
            let (pred, target, upstream) = (up(&pred), up(&target), up(&[upstream]));
            let value = ops::loss(&device, loss, &pred, &target).unwrap();
            let got = f64::from(device.download(&value).unwrap()[0]);
            prop_assert!((got - sum / n as f64).abs() <= 1e-6 * sum / n as f64, "{} {}", got, sum / n as f64);
            let mut out = filled(&device, n);
            ops::loss_grad(&device, loss, &pred, &target, &upstream, &mut out).unwrap();
            let got: Vec<f32> = device.download(&out).unwrap().iter().map(|g| g * n as f32).collect();
            close(&got, &slopes)?;
        }
    }

    #[test]
    fn adam_matches_its_formula(
        grads in prop::collection::vec(-3.0f32..3.0, 1..20),
        n in prop_oneof![1usize..3, Just(257)],
    ) {
        let (mut want, mut first, mut second) = (0.5f64, 0.0f64, 0.0f64);
        for (i, &g) in grads.iter().enumerate() {
            let (g, step) = (f64::from(g), i as i32 + 1);
            first = 0.9 * first + 0.1 * g;
            second = 0.999 * second + 0.001 * g * g;
            let corrected = (first / (1.0 - 0.9f64.powi(step)), second / (1.0 - 0.999f64.powi(step)));
            want -= 0.01 * corrected.0 / (corrected.1.sqrt() + 1e-8);
        }
        for device in devices() {
            let mut p = device.upload(&vec![0.5; n]).unwrap();
            let (mut m, mut v) = (device.zeros(n).unwrap(), device.zeros(n).unwrap());
            for (i, &g) in grads.iter().enumerate() {
                let step = i as u64 + 1;
                let adam = Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step };
                let grad = device.upload(&vec![g; n]).unwrap();
                ops::adam(&device, adam, &mut p, &grad, &mut m, &mut v, None).unwrap();
            }
            for got in device.download(&p).unwrap() {
                prop_assert!((f64::from(got) - want).abs() < 1e-4, "{} {}", got, want);
            }
        }
    }
}

/// Some steps of RMSProp and of gradient descent against their formulas in f64.
#[test]
fn descents_match_their_formulas() {
    let constants = RmsProp {
        learning_rate: 0.01,
        decay: 0.9,
        momentum: 0.5,
        epsilon: 0.1,
    };
    let (mut want, mut square, mut velocity, mut plain) = (0.5f64, 1.0f64, 0.0f64, 0.5f64);
    let grads = [3.0f32, -1.5, 0.0, 2.25, -7.0];
    for g in grads.map(f64::from) {
        square = 0.9 * square + 0.1 * g * g;
        velocity = 0.5 * velocity + 0.01 * g / (square + 0.1).sqrt();
        want -= velocity;
        plain -= 0.01 * g;
    }
    for device in devices() {
        let n = 257;
        let up = |value: f32| device.upload(&vec![value; n]).unwrap();
        let (mut p, mut s, mut v, mut q) = (up(0.5), up(1.0), up(0.0), up(0.5));
        for g in grads {
            let grad = up(g);
            ops::rms_prop(&device, constants, &mut p, &grad, &mut s, &mut v, None).unwrap();
            ops::sgd(&device, 0.01, &mut q, &grad, None).unwrap();
        }
        for (got, want) in [(p, want), (q, plain)] {
            let got = device.download(&got).unwrap();
            assert!(
                got.iter().all(|&got| (f64::from(got) - want).abs() < 1e-6),
                "{got:?} {want}"
            );
        }
        let mut short = device.zeros(2).unwrap();
        assert!(ops::sgd(&device, 0.1, &mut short, &up(0.0), None).is_err());
        assert!(
            ops::rms_prop(
                &device,
                constants,
                &mut up(0.0),
                &up(0.0),
                &mut short,
                &mut v,
                None
            )
            .is_err()
        );
    }
}

/// Steps that find their numbers in memory are those that get them as arguments, against a gradient that was cut before.
#[test]
fn steps_take_their_numbers_from_memory() {
    let n = 4099;
    let derivatives: Vec<f32> = (0..n).map(|i| 0.01 * rough(i)).collect();
    let constants = ops::Adam {
        learning_rate: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        step: 3,
    };
    for device in gpus() {
        let (grad, other) = (device.upload(&derivatives), device.upload(&[3.0, 4.0]));
        let (grad, other) = (grad.unwrap(), other.unwrap());
        let mut numbers = ops::StepNumbers::new(&device).unwrap();
        let sum: f64 = derivatives.iter().map(|g| f64::from(*g).powi(2)).sum();
        let wanted = (sum + 25.0).sqrt() as f32;
        numbers
            .bound(&device, [&grad, &other].into_iter(), None)
            .unwrap();
        let norm = numbers.norm(&device).unwrap();
        assert!((norm - wanted).abs() <= 1e-6 * wanted, "{norm} {wanted}");
        for max_norm in [None, Some(1e9), Some(0.5 * norm)] {
            let parts = [&grad, &other].into_iter();
            numbers.bound(&device, parts, max_norm).unwrap();
            let factor = max_norm.map_or(1.0, |max| if norm > max { max / norm } else { 1.0 });
            let cut: Vec<f32> = derivatives.iter().map(|g| factor * g).collect();
            let cut = device.upload(&cut).unwrap();
            numbers
                .write(&device, 0.02, constants.corrections())
                .unwrap();
            let run = |grad: &Buffer, rate, numbers: Option<&ops::StepNumbers>| {
                let ones = || device.upload(&vec![0.5; n]).unwrap();
                let (mut p, mut m, mut v) = (ones(), ones(), ones());
                let adam = ops::Adam {
                    learning_rate: rate,
                    step: if numbers.is_some() { 1 } else { 3 },
                    ..constants
                };
                ops::adam(&device, adam, &mut p, grad, &mut m, &mut v, numbers).unwrap();
                ops::sgd(&device, rate, &mut m, grad, numbers).unwrap();
                let constants = ops::RmsProp {
                    learning_rate: rate,
                    decay: 0.9,
                    momentum: 0.5,
                    epsilon: 0.1,
                };
                let mut s = ones();
                ops::rms_prop(&device, constants, &mut v, grad, &mut s, &mut p, numbers).unwrap();
                [p, m, v, s].map(|buffer| bits_of(&device.download(&buffer).unwrap()))
            };
            assert_eq!(run(&grad, 9.0, Some(&numbers)), run(&cut, 0.02, None));
        }
        // A gradient without a finite norm changes nothing.
        for broken in [f32::NAN, f32::INFINITY] {
            let broken = device.upload(&[1.0, broken]).unwrap();
            numbers.bound(&device, [&broken].into_iter(), None).unwrap();
            assert!(!numbers.norm(&device).unwrap().is_finite());
            let mut p = device.upload(&[0.5, 0.25]).unwrap();
            ops::sgd(&device, 1.0, &mut p, &broken, Some(&numbers)).unwrap();
            assert_eq!(device.download(&p).unwrap(), [0.5, 0.25]);
        }
    }
}

/// The norm of integers, whose squares f64 adds exactly in any order: every element counts once, for all lengths and numbers
/// of parts.
#[test]
fn norms_of_integers_are_exact() {
    let lengths = [
        1usize, 3, 4, 5, 1023, 1024, 1025, 4095, 4096, 4097, 8195, 20_000,
    ];
    for device in gpus() {
        let mut numbers = ops::StepNumbers::new(&device).unwrap();
        for n_parts in [1usize, 2, 3, 12] {
            for first in 0..lengths.len() {
                let of_part = |i: usize| lengths[(first + i) % lengths.len()];
                let values = |n: usize| (0..n).map(|i| (i % 7) as f32 + 1.0).collect::<Vec<f32>>();
                let parts: Vec<Vec<f32>> = (0..n_parts).map(|i| values(of_part(i))).collect();
                let squares = parts.iter().flatten().map(|x| f64::from(x * x));
                let wanted = squares.sum::<f64>().sqrt() as f32;
                let parts: Vec<Buffer> = parts.iter().map(|x| device.upload(x).unwrap()).collect();
                numbers.bound(&device, parts.iter(), None).unwrap();
                let norm = numbers.norm(&device).unwrap();
                assert_eq!(norm.to_bits(), wanted.to_bits(), "{norm} {wanted}");
            }
        }
    }
}

/// Sums over more than one part of the inner dimension, and the tiled kernel where a vendor's library would be asked.
#[test]
fn long_inner_dimensions_are_cut_into_parts() {
    for device in devices() {
        for (rows, cols, inner) in [(3, 2, 1024), (2, 33, 1025), (5, 4, 2500)] {
            for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true)] {
                let shape = MatMul {
                    rows,
                    inner,
                    cols,
                    transpose_a,
                    transpose_b,
                };
                let a: Vec<f32> = (0..rows * inner).map(rough).collect();
                let b: Vec<f32> = (0..inner * cols).map(|i| rough(i + 9999)).collect();
                let (a_dev, b_dev) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
                let mut out = filled(&device, rows * cols);
                let product = match device.is_host() {
                    true => ops::matmul,
                    false => crate::matmul::tiled,
                };
                product(&device, shape, &a_dev, &b_dev, &mut out).unwrap();
                close(
                    &device.download(&out).unwrap(),
                    &naive_product(shape, &a, &b),
                )
                .unwrap();
            }
        }
    }
}

/// The outer products of the given blocks of rows `first..`, three by five columns of [`rough`] numbers.
fn outer_products(device: &Device, first: usize, bounds: &[usize]) -> Vec<f32> {
    let (rows, cols, inner) = (3, 5, bounds[bounds.len() - 1]);
    let numbers = |width: usize, seed: usize| -> Vec<f32> {
        (first * width..(first + inner) * width)
            .map(|i| rough(i + seed))
            .collect()
    };
    let (x, y) = (numbers(rows, 0), numbers(cols, 31));
    let (x, y) = (device.upload(&x).unwrap(), device.upload(&y).unwrap());
    let shape = MatMul {
        rows,
        inner,
        cols,
        transpose_a: true,
        transpose_b: false,
    };
    let mut out = filled(device, (bounds.len() - 1) * rows * cols);
    ops::block_outer(device, shape, bounds, &x, &y, &mut out).unwrap();
    device.download(&out).unwrap()
}

/// A block's outer product has the same bits whichever blocks stand around it, also where it is summed in parts.
#[test]
fn outer_products_of_blocks_do_not_depend_on_each_other() {
    let bounds = [0usize, 40, 40, 1240, 1300];
    for device in devices() {
        let together = outer_products(&device, 0, &bounds);
        for (block, together) in bounds.windows(2).zip(together.chunks_exact(15)) {
            let alone = outer_products(&device, block[0], &[0, block[1] - block[0]]);
            assert_eq!(bits_of(&alone), bits_of(together));
            let sum = |i: usize| {
                let term = |r: usize| {
                    f64::from(rough(r * 3 + i / 5)) * f64::from(rough(r * 5 + i % 5 + 31))
                };
                (block[0]..block[1]).map(term).sum()
            };
            close(together, &(0..15).map(sum).collect::<Vec<_>>()).unwrap();
        }
    }
}
