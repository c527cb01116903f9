//! The exact sum: equal to the `i128` reference, and the same bits for every number of ranks, cut,
//! and order of the blocks.

use crate::naive;
use crate::world::patient;
use proptest::prelude::*;
use shardgraph_collectives::{Comm, CommErrorKind, MAX_EXACT_BLOCKS, SparseRows, threads};

/// The sum of `blocks` by `cuts.len() + 1` ranks, of which rank r has the blocks between two cuts;
/// as bits, after a check that all ranks agree.
fn sum_by_ranks(blocks: &[Vec<f32>], cuts: &[usize], len: usize) -> Vec<u32> {
    let border = |rank: usize| match rank.checked_sub(1) {
        None => 0,
        Some(cut) => cuts.get(cut).copied().unwrap_or(blocks.len()),
    };
    let n_ranks = cuts.len() as u32 + 1;
    let results = threads::run(n_ranks, |mut comm| {
        let rank = comm.rank() as usize;
        let own: Vec<f32> = blocks[border(rank)..border(rank + 1)].concat();
        let mut out = vec![7.0; len];
        comm.exact_sum(&own, &mut out, patient()).expect("no fault");
        out.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    });
    let mut sums: Vec<Vec<u32>> = results
        .into_iter()
        .map(|rank| rank.expect("no panic"))
        .collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "ranks disagree");
    sums.swap_remove(0)
}

fn reference(blocks: &[Vec<f32>], len: usize) -> Vec<u32> {
    let element = |i: usize| -> Vec<f32> { blocks.iter().map(|block| block[i]).collect() };
    (0..len)
        .map(|i| naive::exact_sum(&element(i)).to_bits())
        .collect()
}

/// Values that break a sum that depends on the order: huge, tiny, cancelling, subnormal, not
/// finite.
fn adversarial() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -1.0f32..1.0,
        4 => prop::sample::select(vec![
            1e30, -1e30, 1e-30, -1e-30, 0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::EPSILON,
            f32::from_bits(1), -f32::from_bits(1), f32::from_bits(0x7f_ffff), 16_777_215.0, 1.999_999_9,
        ]),
        // Any pattern whatever, subnormals, infinities and NaN of all kinds included.
        2 => any::<u32>().prop_map(f32::from_bits),
        1 => (0u32..0x80_0000).prop_map(f32::from_bits),
        1 => prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]),
    ]
}

fn sizes() -> impl Strategy<Value = (usize, usize)> {
    let len = prop::sample::select(vec![0usize, 1, 2, 31, 32, 33, 64, 65, 255, 256, 257]);
    let n_blocks = prop::sample::select(vec![0usize, 1, 2, 3, 7, 12, 17]);
    (len, n_blocks)
}

fn blocks() -> impl Strategy<Value = (usize, Vec<Vec<f32>>)> {
    sizes().prop_flat_map(|(len, n_blocks)| {
        let block = prop::collection::vec(adversarial(), len);
        (Just(len), prop::collection::vec(block, n_blocks))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bits_depend_on_nothing_but_the_blocks((len, mut blocks) in blocks(), seeds in prop::collection::vec(any::<usize>(), 6)) {
        let wanted = reference(&blocks, len);
        for n_ranks in 1..=6 {
            let mut cuts: Vec<usize> = seeds[1..n_ranks].iter().map(|seed| seed % (blocks.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(&sum_by_ranks(&blocks, &cuts, len), &wanted);
            let by = seeds[0] % blocks.len().max(1);
            blocks.rotate_left(by);
            blocks.reverse();
        }
    }

    /// Rows of some places by some ranks: the bits of blocks that have zeros elsewhere.
    #[test]
    fn rows_add_up_like_blocks_with_zeros(
        n_places in 1u32..5, len in prop::sample::select(vec![1usize, 3, 31, 256, 257]), n_ranks in 1usize..4,
        rows in prop::collection::vec((any::<u32>(), prop::collection::vec(adversarial(), 257)), 0..12),
    ) {
        let rows: Vec<(u32, &[f32])> = rows.iter().map(|(place, row)| (place % n_places, &row[..len])).collect();
        let out_len = n_places as usize * len;
        let block = |(place, row): &(u32, &[f32])| {
            let mut block = vec![0.0; out_len];
            block[*place as usize * len..][..len].copy_from_slice(row);
            block
        };
        let blocks: Vec<Vec<f32>> = rows.iter().map(block).collect();
        let wanted = reference(&blocks, out_len);
        let results = threads::run(n_ranks as u32, |mut comm| {
            let own = rows.iter().skip(comm.rank() as usize).step_by(n_ranks);
            let (places, own): (Vec<u32>, Vec<&[f32]>) = own.copied().unzip();
            let mut out = vec![7.0; out_len];
            let rows = SparseRows { values: &own.concat(), row_len: len, places: &places };
            comm.exact_sum_rows(rows, &mut out, patient()).expect("no fault");
            out.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        });
        for sum in results {
            prop_assert_eq!(&sum.expect("no panic"), &wanted);
        }
    }

    /// Against a sum in `f64`: each partial is rounded by at most 2^-47 of the power of two below
    /// the largest, the result once.
    #[test]
    fn the_error_is_as_documented(partials in prop::collection::vec(-1e6f32..1e6, 1..40)) {
        let mut out = [0.0];
        Comm::solo().exact_sum(&partials, &mut out, patient()).unwrap();
        let sum: f64 = partials.iter().map(|&x| f64::from(x)).sum();
        let largest = partials.iter().fold(0.0f64, |largest, &x| largest.max(f64::from(x).abs()));
        let rounding = partials.len() as f64 * largest * 2f64.powi(-47);
        let half_ulp = sum.abs() * 2f64.powi(-24) + f64::from(f32::from_bits(1));
        prop_assert!((f64::from(out[0]) - sum).abs() <= rounding + half_ulp);
    }
}

fn solo_sum(partials: &[f32]) -> f32 {
    let mut out = [7.0];
    Comm::solo()
        .exact_sum(partials, &mut out, patient())
        .expect("no fault");
    out[0]
}

/// Rows that are no rows of the sum are refused, and the communicator is lost as after any error.
#[test]
fn rows_that_do_not_fit_are_refused() {
    for (n_values, row_len, place, reason) in [
        (4, 4, 0, "do not divide"),
        (3, 0, 0, "do not divide"),
        (2, 3, 0, "expected 3"),
        (3, 3, 2, "place 2 is not below 2"),
    ] {
        let rows = SparseRows {
            values: &vec![1.0; n_values],
            row_len,
            places: &[place],
        };
        let result = Comm::solo().exact_sum_rows(rows, &mut [0.0; 6], patient());
        let error = result.expect_err("refused");
        assert!(matches!(error.kind(), CommErrorKind::Argument { .. }));
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn what_is_not_finite_travels() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (partials, wanted) in [
        (vec![1.0, inf], inf),
        (vec![-inf, 1e30], -inf),
        (vec![inf, inf, inf], inf),
        (vec![inf, -inf], nan),
        (vec![nan, 1.0], nan),
        (vec![-nan, inf], nan),
        (vec![f32::MAX, f32::MAX], inf),
        (vec![f32::MIN, f32::MIN], -inf),
        (vec![f32::MAX, f32::MAX, f32::MIN], f32::MAX),
    ] {
        assert_eq!(
            solo_sum(&partials).to_bits(),
            wanted.to_bits(),
            "{partials:?}"
        );
        for cut in 0..=partials.len() {
            let blocks: Vec<Vec<f32>> = partials.iter().map(|&x| vec![x]).collect();
            assert_eq!(
                sum_by_ranks(&blocks, &[cut], 1),
                [wanted.to_bits()],
                "{partials:?} cut at {cut}"
            );
        }
    }
}

#[test]
fn small_beside_large_vanishes_and_zero_is_positive() {
    for (partials, wanted) in [
        (vec![1e30, 1e-30, -1e30], 0.0),
        (vec![1.0, 2f32.powi(-48), -1.0], 0.0),
        (vec![1.0, 2f32.powi(-46), -1.0], 2f32.powi(-46)),
        (vec![-0.0, -0.0], 0.0),
        (
            vec![f32::from_bits(1), f32::from_bits(2)],
            f32::from_bits(3),
        ),
        (vec![], 0.0),
    ] {
        assert_eq!(
            solo_sum(&partials).to_bits(),
            wanted.to_bits(),
            "{partials:?}"
        );
    }
}

/// 256 + 2^-16 + 2^-46 lies just above the middle of two floats: rounding the sum to `f64` first
/// would lose what decides.
#[test]
fn the_sum_is_rounded_once() {
    let mut partials = vec![1.0; 256];
    partials.extend([2f32.powi(-16), 2f32.powi(-46)]);
    let wanted = 256.0 + 2f32.powi(-15);
    assert_eq!(solo_sum(&partials).to_bits(), wanted.to_bits());
    assert_eq!(naive::exact_sum(&partials).to_bits(), wanted.to_bits());
}

/// An element that is not finite does not touch its neighbours, also inside one tile.
#[test]
fn elements_are_independent() {
    let mut blocks = vec![vec![0.5f32; 300]; 4];
    blocks[2][7] = f32::NAN;
    blocks[3][8] = 1e30;
    let sums = sum_by_ranks(&blocks, &[1, 3], 300);
    for (i, &sum) in sums.iter().enumerate() {
        let wanted = match i {
            7 => f32::NAN,
            8 => 1e30,
            _ => 2.0,
        };
        assert_eq!(sum, wanted.to_bits(), "element {i}");
    }
}

/// The largest partials, as many as are admitted, on one rank and on two; one more is refused on
/// every rank.
#[test]
fn the_number_of_blocks_is_limited_where_the_integers_end() {
    let largest = 1.999_999_9f32;
    for n_ranks in [1, 2, 3] {
        for extra in [0, 1] {
            let results = threads::run(n_ranks, |mut comm| {
                let own = if comm.rank() == 0 {
                    MAX_EXACT_BLOCKS + extra - 5 * (n_ranks as usize - 1)
                } else {
                    5
                };
                let mut out = [0.0];
                let result = comm.exact_sum(&vec![largest; own], &mut out, patient());
                result
                    .map(|()| out[0])
                    .map_err(|error| error.kind().clone())
            });
            for result in results.into_iter().map(|rank| rank.unwrap()) {
                match (extra, result) {
                    (0, Ok(sum)) => {
                        assert_eq!(sum.to_bits(), (largest * MAX_EXACT_BLOCKS as f32).to_bits())
                    }
                    (1, Err(CommErrorKind::Argument { what, .. })) => {
                        assert!(what.contains("65537 partials"))
                    }
                    (_, other) => panic!("{extra} more: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn blocks_must_be_a_multiple_of_out() {
    for (n_blocks, n_out) in [(5, 2), (1, 0), (1, 2)] {
        let error = Comm::solo()
            .exact_sum(&vec![1.0; n_blocks], &mut vec![0.0; n_out], patient())
            .unwrap_err();
        assert!(
            matches!(error.kind(), CommErrorKind::Argument { .. }),
            "{error}"
        );
    }
}
