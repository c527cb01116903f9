//! Properties of the host back end: every operation against a plain f64 loop.

use proptest::prelude::*;

use crate::{
    Adam, Adjacency, Binary, Copy2d, Device, DeviceKind, Loss, MatMul, Rows, SparseProduct,
};

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

fn close(got: &[f32], want: &[f64]) -> Result<(), String> {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1.0, |m: f64, w| m.max(w.abs()));
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        if (f64::from(g) - w).abs() > 1e-5 * scale {
            return Err(format!("element {i}: {g} instead of {w}"));
        }
    }
    Ok(())
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

proptest! {
    #[test]
    fn matmul_matches_naive((shape, a, b) in matmul_case()) {
        let device = Device::host();
        let (a_dev, b_dev) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut out = device.upload(&vec![f32::NAN; shape.rows * shape.cols]).unwrap();
        device.matmul(shape, &a_dev, &b_dev, &mut out).unwrap();
        let checked = close(out.as_host().unwrap(), &naive_product(shape, &a, &b));
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }

    /// A row's result is the same bits whatever other blocks there are.
    #[test]
    fn block_products_do_not_depend_on_other_blocks((shape, a, b) in matmul_case(), cut in 0usize..66) {
        let shape = MatMul { transpose_a: false, ..shape };
        let device = Device::host();
        let (x, w) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let cut = cut.min(shape.rows);
        let mut out = device.zeros(shape.rows * shape.cols).unwrap();
        device.block_matmul(shape, &[0, cut, shape.rows], &x, &w, &mut out).unwrap();
        let checked = close(out.as_host().unwrap(), &naive_product(shape, &a, &b));
        prop_assert!(checked.is_ok(), "{:?}", checked);
        let first = MatMul { rows: cut, ..shape };
        let x = device.upload(&a[..cut * shape.inner]).unwrap();
        let mut alone = device.zeros(cut * shape.cols).unwrap();
        device.block_matmul(first, &[0, cut], &x, &w, &mut alone).unwrap();
        prop_assert_eq!(alone.as_host().unwrap(), &out.as_host().unwrap()[..cut * shape.cols]);
    }

    #[test]
    fn block_outer_matches_naive(
        (n_rows, a, b) in (size(), 1usize..5, 1usize..35),
        seed in values(66 * 40),
        cut in 0usize..66,
    ) {
        let device = Device::host();
        let cut = cut.min(n_rows);
        let (x, y) = (&seed[..n_rows * a], &seed[n_rows * a..][..n_rows * b]);
        let shape = MatMul { rows: a, inner: n_rows, cols: b, transpose_a: true, transpose_b: false };
        let mut out = device.upload(&vec![f32::NAN; 2 * a * b]).unwrap();
        let (x_dev, y_dev) = (device.upload(x).unwrap(), device.upload(y).unwrap());
        device.block_outer(shape, &[0, cut, n_rows], &x_dev, &y_dev, &mut out).unwrap();
        for (block, rows) in [0..cut, cut..n_rows].into_iter().enumerate() {
            let want: Vec<f64> = (0..a * b)
                .map(|i| {
                    let term = |r: usize| f64::from(x[r * a + i / b]) * f64::from(y[r * b + i % b]);
                    rows.clone().map(term).sum()
                })
                .collect();
            let checked = close(&out.as_host().unwrap()[block * a * b..][..a * b], &want);
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }
    }

    /// Lists and bits give the same bits as each other, and the right numbers.
    #[test]
    fn sparse_products_match_naive(
        n_rows in prop_oneof![0usize..4, Just(33), Just(64), Just(65)],
        n_columns in prop_oneof![1usize..4, Just(40)],
        width in prop_oneof![1usize..5, Just(31), Just(32), Just(33), Just(70)],
        entries in prop::collection::btree_set((0usize..65, 0usize..40), 0..200),
        weighted in any::<bool>(),
        seed in values(40 * 70 + 200),
    ) {
        let device = Device::host();
        let inside = |&&(row, column): &&(usize, usize)| row < n_rows && column < n_columns;
        let entries: Vec<(usize, usize)> = entries.iter().filter(inside).copied().collect();
        let weights: Vec<f32> =
            (0..entries.len()).map(|i| if weighted { seed[40 * 70 + i] } else { 1.0 }).collect();
        let columns: Vec<u32> = entries.iter().map(|e| e.1 as u32).collect();
        let row_ptr: Vec<u64> =
            (0..=n_rows).map(|r| entries.iter().filter(|e| e.0 < r).count() as u64).collect();
        let x = &seed[..n_columns * width];
        let mut want = vec![0.0f64; n_rows * width];
        for (&(row, column), &weight) in entries.iter().zip(&weights) {
            for j in 0..width {
                want[row * width + j] += f64::from(weight) * f64::from(x[column * width + j]);
            }
        }
        let run = |adjacency| {
            let product = SparseProduct { adjacency, n_rows, n_columns, width };
            let mut out = device.upload(&vec![f32::NAN; n_rows * width]).unwrap();
            device.sparse_product(product, &device.upload(x).unwrap(), &mut out).unwrap();
            device.download(&out).unwrap()
        };
        let values = weighted.then_some(&weights[..]);
        let lists = run(Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values });
        let checked = close(&lists, &want);
        prop_assert!(checked.is_ok(), "{:?}", checked);
        if !weighted {
            let words_per_row = n_rows.div_ceil(64);
            let mut words = vec![0u64; n_columns * words_per_row];
            for &(row, column) in &entries {
                words[column * words_per_row + row / 64] |= 1 << (row % 64);
            }
            prop_assert_eq!(run(Adjacency::Bits { words: &words, words_per_row }), lists);
        }
    }

    #[test]
    fn row_operations_match_naive(
        n_rows in 1usize..9,
        width in 1usize..9,
        index in prop::collection::vec(prop_oneof![0u32..9, Just(u32::MAX)], 0..20),
        seed in values(300),
    ) {
        let device = Device::host();
        let index: Vec<u32> =
            index.into_iter().map(|i| if i == u32::MAX { i } else { i % n_rows as u32 }).collect();
        let rows = Rows { n_rows, width };
        let x = device.upload(&seed[..n_rows * width]).unwrap();
        let mut gathered = device.zeros(index.len() * width).unwrap();
        device.gather_rows(rows, &index, &x, &mut gathered).unwrap();
        let gathered = device.download(&gathered).unwrap();
        let mut sums = vec![0.0f32; n_rows * width];
        for (i, &row) in index.iter().enumerate() {
            for j in 0..width {
                let want = if row == u32::MAX { 0.0 } else { seed[row as usize * width + j] };
                prop_assert_eq!(gathered[i * width + j].to_bits(), want.to_bits());
                if row != u32::MAX {
                    sums[row as usize * width + j] += seed[100 + i * width + j];
                }
            }
        }
        let y = device.upload(&seed[100..][..index.len() * width]).unwrap();
        let mut scattered = device.upload(&vec![f32::NAN; n_rows * width]).unwrap();
        device.scatter_rows(rows, &index, &y, &mut scattered).unwrap();
        prop_assert_eq!(device.download(&scattered).unwrap(), sums);
        let mut scaled = x.clone();
        device.scale_rows(rows, &seed[200..200 + n_rows], &mut scaled).unwrap();
        for i in 0..n_rows * width {
            prop_assert_eq!(scaled.as_host().unwrap()[i].to_bits(), (seed[i] * seed[200 + i / width]).to_bits());
        }
    }

    #[test]
    fn adam_matches_its_formula(grads in prop::collection::vec(-3.0f32..3.0, 1..20)) {
        let device = Device::host();
        let (mut p, mut m, mut v) =
            (device.upload(&[0.5]).unwrap(), device.zeros(1).unwrap(), device.zeros(1).unwrap());
        let (mut want, mut first, mut second) = (0.5f64, 0.0f64, 0.0f64);
        for (i, &g) in grads.iter().enumerate() {
            let step = i as u64 + 1;
            let adam = Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step };
            device.adam(adam, &mut p, &device.upload(&[g]).unwrap(), (&mut m, &mut v)).unwrap();
            let g = f64::from(g);
            first = 0.9 * first + 0.1 * g;
            second = 0.999 * second + 0.001 * g * g;
            let corrected = (first / (1.0 - 0.9f64.powi(step as i32)), second / (1.0 - 0.999f64.powi(step as i32)));
            want -= 0.01 * corrected.0 / (corrected.1.sqrt() + 1e-8);
        }
        let got = f64::from(p.as_host().unwrap()[0]);
        prop_assert!((got - want).abs() < 1e-4, "{} {}", got, want);
    }
}

#[test]
fn element_wise_operations_have_their_values() {
    let device = Device::host();
    let (a, b) = (
        device.upload(&[1.0, -2.0, 3.0]).unwrap(),
        device.upload(&[4.0, 0.0, -1.0]).unwrap(),
    );
    let run = |op| {
        let mut out = device.zeros(3).unwrap();
        device.binary(op, &a, &b, &mut out).unwrap();
        device.download(&out).unwrap()
    };
    assert_eq!(run(Binary::Add), [5.0, -2.0, 2.0]);
    assert_eq!(run(Binary::Sub), [-3.0, -2.0, 4.0]);
    assert_eq!(run(Binary::Mul), [4.0, -0.0, -3.0]);
    assert_eq!(run(Binary::WherePositive), [1.0, 0.0, 0.0]);
    let mut out = device.zeros(3).unwrap();
    device.relu(&a, &mut out).unwrap();
    assert_eq!(out.as_host().unwrap(), [1.0, 0.0, 3.0]);
    device.scale(-2.0, &a, &mut out).unwrap();
    assert_eq!(out.as_host().unwrap(), [-2.0, 4.0, -6.0]);
    let zeros = device.upload(&[-0.0, 0.0, -1e-40]).unwrap();
    device.relu(&zeros, &mut out).unwrap();
    assert!(out.as_host().unwrap().iter().all(|x| x.to_bits() == 0));
    let nan = device.upload(&[f32::NAN; 3]).unwrap();
    device.relu(&nan, &mut out).unwrap();
    assert!(out.as_host().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn losses_and_their_slopes_have_their_values() {
    let device = Device::host();
    let up = |x: &[f32]| device.upload(x).unwrap();
    let (pred, target, upstream) = (up(&[1.0, 5.0]), up(&[0.5, 1.0]), up(&[2.0]));
    let loss = |kind| {
        let loss = device.loss(kind, &pred, &target).unwrap();
        device.download(&loss).unwrap()
    };
    assert_eq!(loss(Loss::Mse), [(0.25 + 16.0) / 2.0]);
    assert_eq!(loss(Loss::Huber { delta: 1.0 }), [(0.125 + 3.5) / 2.0]);
    let slope = |kind| {
        let mut out = device.zeros(2).unwrap();
        device
            .loss_grad(kind, (&pred, &target), &upstream, &mut out)
            .unwrap();
        device.download(&out).unwrap()
    };
    assert_eq!(slope(Loss::Mse), [1.0, 8.0]);
    assert_eq!(slope(Loss::Huber { delta: 1.0 }), [0.5, 1.0]);
}

#[test]
fn rectangles_are_copied_and_checked() {
    let device = Device::host();
    let source = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let copy = Copy2d {
        rows: 2,
        width: 2,
        source_first: 1,
        source_stride: 3,
        target_first: 0,
        target_stride: 2,
    };
    let mut out = device.zeros(4).unwrap();
    device.copy_2d(copy, &source, &mut out).unwrap();
    assert_eq!(out.as_host().unwrap(), [2.0, 3.0, 5.0, 6.0]);
    let outside = Copy2d {
        source_first: 2,
        ..copy
    };
    let message = device
        .copy_2d(outside, &source, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "copy_2d: operand `source` has 6 elements, 7 are needed"
    );
}

#[test]
fn wrong_lengths_and_indices_are_errors() {
    let device = Device::host();
    let (two, three) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
    let mut out = device.zeros(2).unwrap();
    let message = device
        .binary(Binary::Add, &two, &three, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "binary: operand `b` has 3 elements, 2 are needed");
    let rows = Rows {
        n_rows: 2,
        width: 1,
    };
    let message = device
        .gather_rows(rows, &[0, 2], &two, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "gather_rows: row 2 is outside a table of 2 rows");
    let mut run = |row_ptr: &[u64], columns: &[u32]| {
        let adjacency = Adjacency::Csr {
            row_ptr,
            columns,
            values: None,
        };
        let product = SparseProduct {
            adjacency,
            n_rows: 2,
            n_columns: 2,
            width: 1,
        };
        device.sparse_product(product, &two, &mut out).is_err()
    };
    assert!(!run(&[0, 1, 2], &[1, 0]));
    assert!(run(&[0, 2, 1], &[1, 0]), "row starts that fall");
    assert!(run(&[0, 1], &[1]), "too few rows");
    assert!(run(&[0, 1, 3], &[1, 0]), "an end behind the columns");
}

#[test]
fn missing_devices_are_errors_with_a_sentence() {
    assert_eq!("cuda:3".parse(), Ok(DeviceKind::Cuda(3)));
    assert_eq!(
        Device::open(DeviceKind::Host).unwrap().kind(),
        DeviceKind::Host
    );
    for name in ["cuda", "emulated"] {
        let error = Device::open(name.parse().unwrap()).unwrap_err();
        assert!(error.is_missing_device() && error.to_string().contains("use --device host"));
    }
    for name in ["gpu", "cuda:", "cuda:x", ""] {
        let error = name.parse::<DeviceKind>().unwrap_err();
        assert!(!error.is_missing_device() && error.to_string().contains("expected host"));
    }
}
