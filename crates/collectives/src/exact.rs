//! The exact sum: fixed point with one exponent per element, so that the order of additions cannot
//! show.
//!
//! With e the largest exponent (floor(log2|x|)) of an element over all blocks and ranks, each
//! partial becomes the integer nearest to x * 2^(46 - e). Its magnitude is below 2^47, so 2^16 of
//! them add up within an `i64`, and integer addition has no order.
//!
//! One exponent for the whole buffer would be a little faster (64 blocks of 4224 floats on one
//! core: 74 us against 87 us, and one byte instead of 4224 in the first all-reduce, where both cost
//! one meeting), but elements far below the largest of the buffer would lose their low bits.

use std::ops::Range;
use std::sync::LazyLock;

use pulp::Arch;

/// Number of blocks that all ranks together may give to
/// [`Comm::exact_sum`](crate::Comm::exact_sum): 2^16 partials below 2^47 fit in an `i64`.
pub const MAX_EXACT_BLOCKS: usize = 1 << 16;

/// Fraction bits kept below the largest exponent.
const FRACTION_BITS: i32 = 46;
/// The exponent field of an infinity or NaN.
const NON_FINITE: u8 = 255;
/// Shifts of the three counts of a non-finite element in its word: each may reach 2^16.
const POSITIVE_SHIFT: u32 = 20;
const NEGATIVE_SHIFT: u32 = 40;
const COUNT_MASK: i64 = (1 << POSITIVE_SHIFT) - 1;
/// Elements worked on at a time: scales and sums of a tile stay in the first-level cache while the
/// blocks stream by.
const TILE: usize = 256;
/// Adding 1.5 * 2^52 to a double below 2^51 leaves its nearest integer (ties to even) in the low
/// bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The widest instruction set of this processor: loops inside of `dispatch` are compiled once for each.
/// Their closures give away what they captured, so that they are inlined there.
fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

/// Buffers of an exact sum; kept between calls.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The largest exponent field of each element.
    pub(crate) exponents: Vec<u8>,
    /// The fixed-point sum of each element, and the number of blocks as the last word.
    pub(crate) sums: Vec<i64>,
}

/// Rows of partials of which each belongs to one run of the sum's elements.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a> {
    /// The rows, one after the other.
    pub values: &'a [f32],
    /// The length of a row.
    pub row_len: usize,
    /// For each row its place: row i is a partial of `out[places[i] * row_len..][..row_len]`.
    pub places: &'a [u32],
}

/// Partials of a sum: rows, of which each belongs to one run of the sum's elements. Whole blocks are
/// rows of its only run.
pub(crate) struct Partials<'a> {
    values: &'a [f32],
    row_len: usize,
    /// The rows run by run; empty where that is how they lie.
    order: Vec<u32>,
    /// Where each run's rows begin in that order, and where the last one's end.
    starts: Vec<usize>,
}

impl<'a> Partials<'a> {
    /// Blocks of all elements of a sum.
    pub(crate) fn of_blocks(blocks: &'a [f32], out_len: usize) -> Result<Partials<'a>, String> {
        let n = blocks.len();
        if out_len == 0 && n > 0 {
            return Err(format!("blocks has {n} elements, out has none"));
        }
        if !n.is_multiple_of(out_len) {
            return Err(format!(
                "blocks has {n} elements, which is no multiple of out's {out_len} elements"
            ));
        }
        Ok(Partials {
            values: blocks,
            row_len: out_len.max(1),
            order: Vec::new(),
            starts: vec![0, n / out_len.max(1)],
        })
    }

    /// Rows of a sum of `out_len` elements, by their places.
    pub(crate) fn of_rows(rows: SparseRows<'a>, out_len: usize) -> Result<Partials<'a>, String> {
        let SparseRows {
            values,
            row_len,
            places,
        } = rows;
        if row_len == 0 || !out_len.is_multiple_of(row_len) {
            return Err(format!(
                "rows of {row_len} elements do not divide out's {out_len}"
            ));
        }
        if values.len() != row_len * places.len() || places.len() > u32::MAX as usize {
            let (found, expected) = (values.len(), row_len * places.len());
            return Err(format!(
                "rows have {found} elements, expected {expected}: {row_len} for each place"
            ));
        }
        let n_places = out_len / row_len;
        let mut starts = vec![0; n_places + 1];
        for &place in places {
            let Some(count) = starts[1..].get_mut(place as usize) else {
                return Err(format!("place {place} is not below {n_places}"));
            };
            *count += 1;
        }
        for place in 0..n_places {
            starts[place + 1] += starts[place];
        }
        let (mut order, mut next) = (vec![0; places.len()], starts.clone());
        for (row, &place) in (0u32..).zip(places) {
            let at = &mut next[place as usize];
            order[*at] = row;
            *at += 1;
        }
        Ok(Partials {
            values,
            row_len,
            order,
            starts,
        })
    }

    /// The elements `tile` of the rows of a run.
    fn of(&self, run: usize, tile: Range<usize>) -> impl Iterator<Item = &'a [f32]> + Clone {
        let (values, row_len, order) = (self.values, self.row_len, &self.order);
        (self.starts[run]..self.starts[run + 1]).map(move |at| {
            let row = order.get(at).map_or(at, |&row| row as usize);
            &values[row * row_len..][tile.clone()]
        })
    }

    /// Most rows of a run.
    fn most(&self) -> usize {
        let counts = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        counts.max().unwrap_or(0)
    }
}

impl Scratch {
    /// First pass: the largest exponent field of each of `n` elements over the partials of this rank.
    pub(crate) fn find_exponents(&mut self, partials: &Partials<'_>, n: usize) {
        self.exponents.clear();
        self.exponents.resize(n, 0);
        let runs = self.exponents.chunks_exact_mut(partials.row_len);
        for (run, exponents) in runs.enumerate() {
            for (tile_idx, exponents) in exponents.chunks_mut(TILE).enumerate() {
                let tile = tile_idx * TILE..tile_idx * TILE + exponents.len();
                largest_exponents(partials.of(run, tile), exponents);
            }
        }
    }

    /// Second pass: the fixed-point sum of each element, with the exponents of all ranks.
    pub(crate) fn add(&mut self, partials: &Partials<'_>) {
        if !self.begin_sums(partials.most()) {
            return;
        }
        let n = self.exponents.len();
        let exponents = self.exponents.chunks_exact(partials.row_len);
        let runs = self.sums[..n].chunks_exact_mut(partials.row_len);
        for (run, (sums, exponents)) in runs.zip(exponents).enumerate() {
            let tiles = sums.chunks_mut(TILE).zip(exponents.chunks(TILE));
            for (tile_idx, (sums, exponents)) in tiles.enumerate() {
                let tile = tile_idx * TILE..tile_idx * TILE + sums.len();
                add_tile(partials.of(run, tile), exponents, sums);
            }
        }
    }

    /// Sums of nothing yet, and the number of partials of an element; whether that is not too many.
    /// All ranks will see it and refuse.
    fn begin_sums(&mut self, n_blocks: usize) -> bool {
        let n = self.exponents.len();
        self.sums.clear();
        self.sums.resize(n + 1, 0);
        self.sums[n] = n_blocks as i64;
        n_blocks <= MAX_EXACT_BLOCKS
    }

    /// Last pass: one rounding to `f32`. Says so when there were too many blocks for the integers.
    pub(crate) fn round_into(&self, out: &mut [f32]) -> Result<(), String> {
        let (sums, count) = self.sums.split_at(out.len());
        if count[0] > MAX_EXACT_BLOCKS as i64 {
            return Err(format!(
                "{} partials of an element over all ranks, at most {MAX_EXACT_BLOCKS} can be added exactly",
                count[0]
            ));
        }
        for ((out, &sum), &exponent) in out.iter_mut().zip(sums).zip(&self.exponents) {
            *out = if exponent == NON_FINITE {
                non_finite(sum)
            } else {
                to_f32(sum, exponent)
            };
        }
        Ok(())
    }
}

/// The largest exponent field of each element of one tile over all blocks.
fn largest_exponents<'a>(blocks: impl Iterator<Item = &'a [f32]>, exponents: &mut [u8]) {
    let mut largest = [0i32; TILE];
    let moved = (blocks, &mut largest);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (blocks, largest) = moved;
            for block in blocks {
                for (largest, x) in largest.iter_mut().zip(block) {
                    // Magnitudes order like the integers that encode them, infinities and NaN above all.
                    *largest = (*largest).max((x.to_bits() & 0x7fff_ffff) as i32);
                }
            }
        },
    );
    for (exponent, largest) in exponents.iter_mut().zip(largest) {
        *exponent = (largest >> 23) as u8;
    }
}

/// Adds one tile of every block, or counts what is not finite.
fn add_tile<'a>(
    blocks: impl Iterator<Item = &'a [f32]> + Clone,
    exponents: &[u8],
    sums: &mut [i64],
) {
    add_finite(blocks.clone(), exponents, sums);
    if exponents.contains(&NON_FINITE) {
        count_non_finite(blocks, exponents, sums);
    }
}

/// A multiplication, two additions and a conversion per partial, no branch.
fn add_finite<'a>(blocks: impl Iterator<Item = &'a [f32]>, exponents: &[u8], sums: &mut [i64]) {
    let mut scales = [0f64; TILE];
    for (scale, &exponent) in scales.iter_mut().zip(exponents) {
        *scale = power_of_two(FRACTION_BITS - unbiased(exponent));
    }
    let moved = (blocks, &scales, sums);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (blocks, scales, sums) = moved;
            for block in blocks {
                for ((sum, &x), &scale) in sums.iter_mut().zip(block).zip(scales) {
                    let rounded = f64::from(x) * scale + ROUNDER;
                    let fixed = (rounded.to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64);
                    *sum = sum.wrapping_add(fixed);
                }
            }
        },
    );
}

/// Replaces the sums of the elements that have an infinity or NaN somewhere by the counts of each
/// kind on this rank.
fn count_non_finite<'a>(
    blocks: impl Iterator<Item = &'a [f32]>,
    exponents: &[u8],
    sums: &mut [i64],
) {
    for (sum, _) in sums
        .iter_mut()
        .zip(exponents)
        .filter(|(_, exponent)| **exponent == NON_FINITE)
    {
        *sum = 0;
    }
    for block in blocks {
        for ((sum, &x), &exponent) in sums.iter_mut().zip(block).zip(exponents) {
            if exponent == NON_FINITE && !x.is_finite() {
                *sum += if x.is_nan() {
                    1
                } else if x > 0.0 {
                    1 << POSITIVE_SHIFT
                } else {
                    1 << NEGATIVE_SHIFT
                };
            }
        }
    }
}

/// The result of an element from the counts of NaN, +inf and -inf.
fn non_finite(counts: i64) -> f32 {
    let nan = counts & COUNT_MASK != 0;
    let positive = (counts >> POSITIVE_SHIFT) & COUNT_MASK != 0;
    let negative = counts >> NEGATIVE_SHIFT != 0;
    match (nan, positive, negative) {
        (false, true, false) => f32::INFINITY,
        (false, false, true) => f32::NEG_INFINITY,
        _ => f32::NAN,
    }
}

/// The exponent of the power of two at or below the magnitudes with this exponent field; subnormals
/// share that of the smallest normals.
fn unbiased(exponent: u8) -> i32 {
    i32::from(exponent.max(1)) - 127
}

/// 2^power for -1022 <= power <= 1023.
fn power_of_two(power: i32) -> f64 {
    f64::from_bits(((1023 + power) as u64) << 52)
}

/// The only rounding of the result. `sum as f32` rounds to 24 bits; the scaling is exact: a result
/// below the normal range is a multiple of 2^-149 with fewer than 24 bits, because every partial
/// and every quantum (2^(e - 46) where that is larger) is one.
fn to_f32(sum: i64, exponent: u8) -> f32 {
    (f64::from(sum as f32) * power_of_two(unbiased(exponent) - FRACTION_BITS)) as f32
}
