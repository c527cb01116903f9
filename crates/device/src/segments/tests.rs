//! Segment sums on every back end against plain loops in f64.

use proptest::prelude::*;

use super::{Gather, GatherLists, LONG_SEGMENT, Segments};
use crate::Device;
use crate::tests::{devices, gpus};

/// A whole number in -8..8, spread by a hash: sums of them are exact in f32 in any order.
fn whole(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (mixed % 17) as f32 - 8.0
}

fn offsets_of(lengths: &[usize]) -> Vec<u64> {
    let mut offsets = vec![0];
    for &length in lengths {
        offsets.push(offsets[offsets.len() - 1] + length as u64);
    }
    offsets
}

/// `out[s] = sum of weight * x[row]`, in f64.
fn naive(lists: &GatherLists, width: usize, x: &[f32]) -> Vec<f64> {
    let mut out = vec![0.0; (lists.offsets.len() - 1) * width];
    for (s, pair) in lists.offsets.windows(2).enumerate() {
        for item in pair[0] as usize..pair[1] as usize {
            let weight = lists.weights.as_ref().map_or(1.0, |w| f64::from(w[item]));
            for column in 0..width {
                let row = lists.index[item] as usize;
                out[s * width + column] += weight * f64::from(x[row * width + column]);
            }
        }
    }
    out
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..4, 1 => Just(31), 1 => Just(32), 1 => Just(33), 1 => 63usize..66, 1 => 255usize..258]
}

fn width() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..6,
        Just(10),
        Just(16),
        31usize..34,
        63usize..66,
        Just(128),
        131usize..133
    ]
}

fn as_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sums_are_exact_on_whole_numbers(lengths in prop::collection::vec(length(), 0..6), width in width()) {
        let offsets = offsets_of(&lengths);
        let n_items = offsets[lengths.len()] as usize;
        let x: Vec<f32> = (0..n_items * width).map(whole).collect();
        let index: Vec<u32> = (0..n_items as u32).collect();
        let want = naive(&GatherLists { offsets: offsets.clone(), index, weights: None }, width, &x);
        for device in devices() {
            let segments = Segments::upload(&device, &offsets).unwrap();
            let mut out = device.upload(&vec![f32::NAN; want.len()]).unwrap();
            device.segment_sum(&segments, width, &device.upload(&x).unwrap(), &mut out).unwrap();
            prop_assert_eq!(as_f64(&device.download(&out).unwrap()), want.clone(), "{}", device.kind());
        }
    }

    #[test]
    fn gathered_sums_and_their_adjoint_are_exact(
        lengths in prop::collection::vec(length(), 0..6),
        width in width(),
        n_rows in prop_oneof![1usize..4, Just(33), Just(70)],
        weighted in any::<bool>(),
    ) {
        let offsets = offsets_of(&lengths);
        let n_items = offsets[lengths.len()] as usize;
        let index = (0..n_items).map(|i| (whole(3 * i) + 8.0) as u32 * 5 % n_rows as u32).collect();
        let weights = weighted.then(|| (0..n_items).map(|i| whole(i + 7)).collect());
        let lists = GatherLists { offsets, index, weights };
        let x: Vec<f32> = (0..n_rows * width).map(whole).collect();
        let grad: Vec<f32> = (0..lengths.len() * width).map(|i| whole(i + 11)).collect();
        let transposed = lists.transpose(n_rows);
        for device in devices() {
            let run = |lists: &GatherLists, n_rows: usize, x: &[f32]| {
                let gather = Gather::upload(&device, lists, n_rows).unwrap();
                let mut out = device.upload(&vec![f32::NAN; gather.n_lists() * width]).unwrap();
                device.gather_sum(&gather, width, &device.upload(x).unwrap(), &mut out).unwrap();
                as_f64(&device.download(&out).unwrap())
            };
            let out = run(&lists, n_rows, &x);
            prop_assert_eq!(&out, &naive(&lists, width, &x), "{}", device.kind());
            // <grad, G x> = <G^T grad, x>, exactly.
            let grad_x = run(&transposed, lengths.len(), &grad);
            let left: f64 = out.iter().zip(&grad).map(|(o, &g)| o * f64::from(g)).sum();
            let right: f64 = grad_x.iter().zip(&x).map(|(g, &x)| g * f64::from(x)).sum();
            prop_assert!((left - right).abs() < 0.5, "{} {} {}", device.kind(), left, right);
        }
        prop_assert_eq!(transposed.transpose(lengths.len()).transpose(n_rows), transposed);
    }

    #[test]
    fn the_adjoint_copies_the_row_of_the_segment(lengths in prop::collection::vec(length(), 0..6), width in width()) {
        let offsets = offsets_of(&lengths);
        let grad: Vec<f32> = (0..lengths.len() * width).map(whole).collect();
        let mut want = Vec::new();
        for (s, &length) in lengths.iter().enumerate() {
            for _ in 0..length {
                want.extend_from_slice(&grad[s * width..][..width]);
            }
        }
        for device in devices() {
            let segments = Segments::upload(&device, &offsets).unwrap();
            let mut out = device.upload(&vec![f32::NAN; want.len()]).unwrap();
            device.segment_sum_grad(&segments, width, &device.upload(&grad).unwrap(), &mut out).unwrap();
            prop_assert_eq!(device.download(&out).unwrap(), want.clone(), "{}", device.kind());
        }
    }
}

fn sum(device: &Device, offsets: &[u64], width: usize, x: &[f32]) -> Vec<f32> {
    let segments = Segments::upload(device, offsets).unwrap();
    let mut out = device.zeros(segments.n_segments() * width).unwrap();
    device
        .segment_sum(&segments, width, &device.upload(x).unwrap(), &mut out)
        .unwrap();
    device.download(&out).unwrap()
}

/// Long segments go to blocks, and a segment's bits do not depend on what stands beside it.
#[test]
fn a_sum_depends_on_its_own_segment_only() {
    let limit = LONG_SEGMENT as usize;
    let lengths = [3, limit - 1, limit, 0, limit + 300];
    let offsets = offsets_of(&lengths);
    let n_items = offsets[lengths.len()] as usize;
    let index = (0..n_items as u32).collect();
    let lists = GatherLists {
        offsets: offsets.clone(),
        index,
        weights: None,
    };
    for width in [1, 10, 33, 132] {
        let x: Vec<f32> = (0..n_items * width).map(|i| whole(i) / 7.0).collect();
        let want = naive(&lists, width, &x);
        for device in devices() {
            let all = sum(&device, &offsets, width, &x);
            for (i, (&got, want)) in all.iter().zip(&want).enumerate() {
                let error = (f64::from(got) - want).abs();
                assert!(error < 1e-4, "{} {i}: {got} {want}", device.kind());
            }
            for (s, pair) in offsets.windows(2).enumerate() {
                let rows = &x[pair[0] as usize * width..pair[1] as usize * width];
                let alone = sum(&device, &[0, pair[1] - pair[0]], width, rows);
                assert_eq!(
                    alone,
                    all[s * width..][..width],
                    "{} segment {s}",
                    device.kind()
                );
            }
        }
    }
}

/// Whatever order blocks and warps run in, the bits are the same.
#[test]
fn repeated_sums_have_the_same_bits() {
    let lengths = [700, 40, 513];
    let offsets = offsets_of(&lengths);
    let x: Vec<f32> = (0..1253 * 12).map(|i| whole(i) / 3.0).collect();
    for device in gpus() {
        let sums: Vec<Vec<f32>> = (0..4).map(|_| sum(&device, &offsets, 12, &x)).collect();
        assert!(
            sums.windows(2).all(|pair| pair[0] == pair[1]),
            "{}",
            device.kind()
        );
    }
}

#[test]
fn lists_that_contradict_themselves_are_refused() {
    let device = Device::host();
    let segments = |offsets: &[u64]| Segments::upload(&device, offsets);
    assert!(segments(&[0]).is_ok() && segments(&[0, 0, 3]).is_ok());
    let message = segments(&[0, 3, 2]).unwrap_err().to_string();
    assert_eq!(
        message,
        "segments: offsets must not fall: entry 1 is 3, the next 2"
    );
    assert!(segments(&[]).is_err() && segments(&[1, 2]).is_err());
    let gather = |offsets: &[u64], index: &[u32], weights: Option<&[f32]>| {
        let lists = GatherLists {
            offsets: offsets.to_vec(),
            index: index.to_vec(),
            weights: weights.map(<[f32]>::to_vec),
        };
        Gather::upload(&device, &lists, 3)
    };
    assert!(gather(&[0, 2], &[0, 2], Some(&[1.0, 2.0])).is_ok());
    let message = gather(&[0, 2], &[0, 3], None).unwrap_err().to_string();
    assert_eq!(message, "gather: row 3 is outside a table of 3 rows");
    assert!(gather(&[0, 2], &[0], None).is_err() && gather(&[0, 1], &[0], Some(&[])).is_err());
    let mut out = device.zeros(4).unwrap();
    let x = device.zeros(5).unwrap();
    let error = device.segment_sum(&segments(&[0, 3]).unwrap(), 2, &x, &mut out);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("`x` has 5 elements, 6 are needed")
    );
}
