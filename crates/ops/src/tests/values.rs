//! Operations on a few numbers, each with the value that a hand computes, and what they refuse.

use shardgraph_device::Buffer;

use super::devices;
use super::ops::bits_of;
use crate::{self as ops, Adjacency, Binary, Copy2d, Loss, MatMul, RowIndex, Rows, SparseProduct};

#[test]
fn element_wise_operations_have_their_values() {
    for device in devices() {
        let (a, b) = (
            device.upload(&[1.0, -2.0, 3.0]).unwrap(),
            device.upload(&[4.0, 0.0, -1.0]).unwrap(),
        );
        let run = |op| {
            let mut out = device.zeros(3).unwrap();
            ops::binary(&device, op, &a, &b, &mut out).unwrap();
            device.download(&out).unwrap()
        };
        assert_eq!(run(Binary::Add), [5.0, -2.0, 2.0]);
        assert_eq!(run(Binary::Sub), [-3.0, -2.0, 4.0]);
        assert_eq!(run(Binary::Mul), [4.0, -0.0, -3.0]);
        assert_eq!(run(Binary::WherePositive), [1.0, 0.0, 0.0]);
        let mut out = device.zeros(3).unwrap();
        ops::relu(&device, &a, &mut out).unwrap();
        assert_eq!(device.download(&out).unwrap(), [1.0, 0.0, 3.0]);
        ops::scale(&device, -2.0, &a, &mut out).unwrap();
        assert_eq!(device.download(&out).unwrap(), [-2.0, 4.0, -6.0]);
        // Five elements: four of one thread and a tail.
        let zeros = device.upload(&[-0.0, 0.0, -1e-40, -1.0, -0.0]).unwrap();
        let mut out = device.zeros(5).unwrap();
        ops::relu(&device, &zeros, &mut out).unwrap();
        assert_eq!(bits_of(&device.download(&out).unwrap()), [0; 5]);
        let nan = device.upload(&[f32::NAN; 5]).unwrap();
        ops::relu(&device, &nan, &mut out).unwrap();
        assert!(device.download(&out).unwrap().iter().all(|x| x.is_nan()));
    }
}

#[test]
fn a_delta_that_bounds_nothing_is_an_error() {
    for device in devices() {
        let one = device.upload(&[1.0]).unwrap();
        for delta in [-1.0, 0.0, f32::NAN] {
            let loss = Loss::Huber { delta };
            let mut out = device.zeros(1).unwrap();
            for (op, error) in [
                ("loss", ops::loss(&device, loss, &one, &one).unwrap_err()),
                (
                    "loss_grad",
                    ops::loss_grad(&device, loss, &one, &one, &one, &mut out).unwrap_err(),
                ),
            ] {
                let expected = format!("{op}: the delta {delta} of a Huber loss must be above 0");
                assert_eq!(error.to_string(), expected);
            }
        }
    }
}

#[test]
fn losses_and_their_slopes_have_their_values() {
    for device in devices() {
        let up = |x: &[f32]| device.upload(x).unwrap();
        let (pred, target, upstream) = (up(&[1.0, 5.0]), up(&[0.5, 1.0]), up(&[2.0]));
        let loss = |kind| {
            let loss = ops::loss(&device, kind, &pred, &target).unwrap();
            device.download(&loss).unwrap()
        };
        assert_eq!(loss(Loss::Mse), [(0.25 + 16.0) / 2.0]);
        assert_eq!(loss(Loss::Huber { delta: 1.0 }), [(0.125 + 3.5) / 2.0]);
        let slope = |kind, pred: &Buffer| {
            let mut out = device.zeros(2).unwrap();
            ops::loss_grad(&device, kind, pred, &target, &upstream, &mut out).unwrap();
            device.download(&out).unwrap()
        };
        assert_eq!(slope(Loss::Mse, &pred), [1.0, 8.0]);
        assert_eq!(slope(Loss::Huber { delta: 1.0 }, &pred), [0.5, 1.0]);
        let bad = up(&[f32::NAN, 5.0]);
        let slopes = slope(Loss::Huber { delta: 1.0 }, &bad);
        assert!(slopes[0].is_nan(), "{slopes:?}");
        assert_eq!(slopes[1..], [1.0]);
        let (none, value) = (
            up(&[]),
            ops::loss(&device, Loss::Mse, &up(&[]), &up(&[])).unwrap(),
        );
        assert_eq!(
            (none.len(), device.download(&value).unwrap()),
            (0, vec![0.0])
        );
    }
}

#[test]
fn rectangles_are_copied_and_checked() {
    for device in devices() {
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
        ops::copy_2d(&device, copy, &source, &mut out).unwrap();
        assert_eq!(device.download(&out).unwrap(), [2.0, 3.0, 5.0, 6.0]);
        let outside = Copy2d {
            source_first: 2,
            ..copy
        };
        let message = ops::copy_2d(&device, outside, &source, &mut out)
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "copy_2d: operand `source` has 6 elements, 7 are needed"
        );
    }
}

/// Operands without elements are no special case, and no panic.
#[test]
fn empty_operands_are_fine() {
    for device in devices() {
        let mut none = device.zeros(0).unwrap();
        let x = device.zeros(0).unwrap();
        ops::binary(&device, Binary::Add, &x, &x, &mut none).unwrap();
        ops::scale(&device, 2.0, &x, &mut none).unwrap();
        ops::relu(&device, &x, &mut none).unwrap();
        let thin = Rows {
            n_rows: 3,
            width: 0,
        };
        let index = RowIndex::upload(&device, 3, [0, 2]).unwrap();
        ops::gather_rows(&device, &index, 0, &x, &mut none).unwrap();
        ops::scatter_rows(&device, &index, 0, &x, &mut none).unwrap();
        let factors = device.upload(&[1.0; 3]).unwrap();
        ops::scale_rows(&device, thin, &factors, &mut none).unwrap();
        let shape = MatMul {
            rows: 2,
            inner: 0,
            cols: 2,
            transpose_a: false,
            transpose_b: true,
        };
        let mut four = device.upload(&[f32::NAN; 4]).unwrap();
        ops::matmul(&device, shape, &x, &x, &mut four).unwrap();
        assert_eq!(device.download(&four).unwrap(), [0.0; 4]);
        let mut four = device.upload(&[f32::NAN; 4]).unwrap();
        ops::block_matmul(&device, shape, &[0, 2], &x, &x, &mut four).unwrap();
        assert_eq!(device.download(&four).unwrap(), [0.0; 4]);
    }
}

#[test]
fn wrong_lengths_and_indices_are_errors() {
    for device in devices() {
        let (two, three) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
        let mut out = device.zeros(2).unwrap();
        let message = ops::binary(&device, Binary::Add, &two, &three, &mut out)
            .unwrap_err()
            .to_string();
        assert_eq!(message, "binary: operand `b` has 3 elements, 2 are needed");
        let message = RowIndex::upload(&device, 2, [0, 2])
            .unwrap_err()
            .to_string();
        assert_eq!(message, "row_index: row 2 is outside a table of 2 rows");
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
            ops::sparse_product(&device, product, &two, &mut out).is_err()
        };
        assert!(!run(&[0, 1, 2], &[1, 0]));
        assert!(run(&[0, 2, 1], &[1, 0]), "row starts that fall");
        assert!(run(&[0, 1], &[1]), "too few rows");
        assert!(run(&[0, 1, 3], &[1, 0]), "an end behind the columns");
        assert!(run(&[0, 1, 2], &[1, 2]), "a column that x does not have");
    }
}

/// Dimensions whose product no integer holds are a wrong length, not a small one.
#[test]
fn dimensions_that_overflow_are_refused() {
    let huge = 1usize << 33;
    for device in super::devices() {
        let (a, mut out) = (device.zeros::<f32>(0).unwrap(), device.zeros(0).unwrap());
        let shape = MatMul {
            rows: huge,
            inner: 1 << 31,
            cols: huge,
            transpose_a: false,
            transpose_b: false,
        };
        assert!(ops::matmul(&device, shape, &a, &a, &mut out).is_err());
        let rows = Rows {
            n_rows: huge,
            width: 1 << 31,
        };
        assert!(ops::log_softmax(&device, rows, &a, &mut out).is_err());
        let copy = Copy2d {
            rows: 3,
            width: 1,
            source_first: 0,
            source_stride: 1 << 63,
            target_first: 0,
            target_stride: 1,
        };
        let three = device.zeros::<f32>(3).unwrap();
        let mut target = device.zeros(3).unwrap();
        assert!(ops::copy_2d(&device, copy, &three, &mut target).is_err());
    }
}
