//! Bit-matrix kernels: column sums of selected rows by bit-sliced addition, and column compaction.
//!
//! For a dense graph on `n` nodes the residual degrees and neighbour degrees after a removal need, for every node, the
//! number of common neighbours with the removed one. Counting bits row by row reads the whole matrix (`n^2 / 8` B).
//! Summing the rows of the removed node's neighbours *down the columns* reads only those rows (for density 0.15 a
//! seventh), and 64 columns fit in one word: eight rows go through a tree of carry-save adders into bit planes, and
//! only the planes are expanded to integers, once a call.

use pulp::Arch;

/// Rows that one pass of the carry-save adder tree takes in.
const GROUP: usize = 8;

/// Working memory of [`column_sums`], reusable over calls.
#[derive(Debug, Default, Clone)]
pub struct ColumnSumScratch {
    /// `planes[p * words_per_row..]` holds bit `p` of each column's running sum.
    planes: Vec<u64>,
    /// A row of zeros for the last, incomplete group.
    zeros: Vec<u64>,
    n_planes: usize,
}

/// Writes into `sums` how many of the selected rows have each column's bit set.
///
/// # Shapes
/// `words` holds rows of `words_per_row` words; `selected` are row numbers; `sums` has `64 * words_per_row` elements.
/// # Panics
/// When `sums` has another length or a selected row does not exist.
/// # Complexity
/// Reads `selected.len() * words_per_row * 8` B once, in `selected.len() / 8` streams of eight rows; expanding costs
/// about `log2(selected.len())` operations a column.
/// # Source
/// Bit-sliced counting with carry-save adders: Warren, "Hacker's Delight", section 5-1 (the Harley-Seal method).
pub fn column_sums(
    words: &[u64],
    words_per_row: usize,
    selected: &[u32],
    sums: &mut [u32],
    scratch: &mut ColumnSumScratch,
) {
    assert_eq!(sums.len(), 64 * words_per_row, "one sum for each column");
    if words_per_row == 0 {
        return;
    }
    scratch.clear(words_per_row);
    // The closure gives away what it captured, so that it is inlined where the instruction set is known: one that only
    // borrows is called through a shim that stays outside, compiled for the oldest processor.
    let columns = ColumnSums {
        words,
        words_per_row,
        sums,
        scratch,
    };
    Arch::new().dispatch(
        #[inline(always)]
        || columns.add(selected),
    );
}

/// Arguments of [`column_sums`].
struct ColumnSums<'a> {
    words: &'a [u64],
    words_per_row: usize,
    sums: &'a mut [u32],
    scratch: &'a mut ColumnSumScratch,
}

impl ColumnSums<'_> {
    #[inline(always)]
    fn add(self, selected: &[u32]) {
        for group in selected.chunks(GROUP) {
            add_group(self.words, self.words_per_row, group, self.scratch);
        }
        let n_planes = self.scratch.n_planes;
        expand(
            &self.scratch.planes,
            n_planes,
            self.words_per_row,
            self.sums,
        );
    }
}

impl ColumnSumScratch {
    fn clear(&mut self, words_per_row: usize) {
        self.n_planes = 3; // ones, twos, fours are always there
        self.zeros.clear();
        self.zeros.resize(words_per_row, 0);
        self.planes.clear();
        self.planes.resize(3 * words_per_row, 0);
    }
}

/// Adds up to eight rows to the planes.
#[inline(always)]
fn add_group(words: &[u64], words_per_row: usize, group: &[u32], scratch: &mut ColumnSumScratch) {
    let mut rows: [&[u64]; GROUP] = [&scratch.zeros; GROUP];
    for (slot, &row) in rows.iter_mut().zip(group) {
        *slot = &words[row as usize * words_per_row..][..words_per_row];
    }
    // Carries of weight 8 overwrite the plane behind the last one in use, which then ripples upwards.
    let carry_plane = scratch.n_planes * words_per_row;
    if scratch.planes.len() < carry_plane + words_per_row {
        scratch.planes.resize(carry_plane + words_per_row, 0);
    }
    let (planes, carries) = scratch.planes.split_at_mut(carry_plane);
    let carries = &mut carries[..words_per_row];
    let (low, high) = planes.split_at_mut(3 * words_per_row);
    let (ones, rest) = low.split_at_mut(words_per_row);
    let (twos, fours) = rest.split_at_mut(words_per_row);
    eight_rows(rows, [ones, twos, fours], carries);
    if ripple(high, words_per_row, carries) {
        scratch.n_planes += 1;
    }
}

/// One full adder for each bit: `(sum, carry)` of three words.
#[inline(always)]
fn full_adder(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, (a & b) | (half & c))
}

/// Adds eight rows to the planes of weight 1, 2 and 4 and writes the carries of weight 8.
#[inline(always)]
fn eight_rows(rows: [&[u64]; GROUP], low: [&mut [u64]; 3], eights: &mut [u64]) {
    let n = eights.len();
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows.map(|row| &row[..n]);
    let [ones, twos, fours] = low;
    let (ones, twos, fours) = (&mut ones[..n], &mut twos[..n], &mut fours[..n]);
    for i in 0..n {
        let (sum, two_a) = full_adder(ones[i], r0[i], r1[i]);
        let (sum, two_b) = full_adder(sum, r2[i], r3[i]);
        let (two, four_a) = full_adder(twos[i], two_a, two_b);
        let (sum, two_a) = full_adder(sum, r4[i], r5[i]);
        let (sum, two_b) = full_adder(sum, r6[i], r7[i]);
        let (two, four_b) = full_adder(two, two_a, two_b);
        let (four, eight) = full_adder(fours[i], four_a, four_b);
        ones[i] = sum;
        twos[i] = two;
        fours[i] = four;
        eights[i] = eight;
    }
}

/// Adds the carries to the higher planes; true when carries are left over (they then are the new top plane).
#[inline(always)]
fn ripple(high: &mut [u64], words_per_row: usize, carries: &mut [u64]) -> bool {
    for plane in high.chunks_exact_mut(words_per_row) {
        let mut any = 0;
        for (bit, carry) in plane.iter_mut().zip(carries.iter_mut()) {
            let sum = *bit ^ *carry;
            *carry &= *bit;
            *bit = sum;
            any |= *carry;
        }
        if any == 0 {
            return false;
        }
    }
    carries.iter().any(|&carry| carry != 0)
}

/// Turns the planes into one integer a column.
#[inline(always)]
fn expand(planes: &[u64], n_planes: usize, words_per_row: usize, sums: &mut [u32]) {
    for (w, sums) in sums.chunks_exact_mut(64).enumerate() {
        let sums: &mut [u32; 64] = sums.try_into().expect("a chunk of 64");
        sums.fill(0);
        for p in 0..n_planes {
            let word = planes[p * words_per_row + w];
            let halves = [word as u32, (word >> 32) as u32];
            for (half, sums) in halves.iter().zip(sums.chunks_exact_mut(32)) {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum |= ((half >> j) & 1) << p;
                }
            }
        }
    }
}

/// The moves that squeeze the kept bits of one word to its low end, worked out once for a column of words.
#[derive(Debug, Clone, Copy)]
struct Squeeze {
    keep: u64,
    moves: [u64; 6],
    n_kept: u32,
}

impl Squeeze {
    /// Source: Warren, "Hacker's Delight", section 7-4 (compress, with the masks computed ahead).
    fn new(keep: u64) -> Self {
        let mut moves = [0; 6];
        let mut mask = keep;
        let mut zeros_below = !keep << 1;
        for (i, step) in moves.iter_mut().enumerate() {
            let parity = prefix_parity(zeros_below);
            *step = parity & mask;
            mask = (mask ^ *step) | (*step >> (1 << i));
            zeros_below &= !parity;
        }
        Self {
            keep,
            moves,
            n_kept: keep.count_ones(),
        }
    }

    #[inline(always)]
    fn apply(&self, word: u64) -> u64 {
        let mut x = word & self.keep;
        for (i, step) in self.moves.iter().enumerate() {
            let moved = x & step;
            x = (x ^ moved) | (moved >> (1 << i));
        }
        x
    }
}

/// Bit `i` of the result is the parity of the bits `0..=i`.
fn prefix_parity(word: u64) -> u64 {
    (0..6).fold(word, |x, i| x ^ (x << (1 << i)))
}

/// Keeps only the given columns and rows of a bit matrix, in place, and returns the new words per row.
///
/// # Shapes
/// `words` holds rows of `words_per_row` words; `keep_columns` has `words_per_row` words; `keep_rows` are row numbers,
/// ascending. Afterwards `words` has `keep_rows.len()` rows of `kept.div_ceil(64)` words (at least 1).
/// # Panics
/// When a kept row does not exist.
/// # Complexity
/// About 30 operations for each word of a kept row; no memory beyond one row and one record for each column word.
pub fn compact(
    words: &mut Vec<u64>,
    words_per_row: usize,
    keep_columns: &[u64],
    keep_rows: &[u32],
) -> usize {
    assert_eq!(
        keep_columns.len(),
        words_per_row,
        "one mask for each column word"
    );
    let squeezes: Vec<Squeeze> = keep_columns
        .iter()
        .map(|&keep| Squeeze::new(keep))
        .collect();
    let n_kept: u32 = squeezes.iter().map(|squeeze| squeeze.n_kept).sum();
    let new_words_per_row = (n_kept as usize).div_ceil(64).max(1).min(words_per_row);
    let mut packed = vec![0u64; words_per_row];
    for (i, &row) in keep_rows.iter().enumerate() {
        let source = &words[row as usize * words_per_row..][..words_per_row];
        pack_row(&squeezes, source, &mut packed);
        // Row i <= row and the new rows are no longer, so nothing that is still to be read is overwritten.
        words[i * new_words_per_row..][..new_words_per_row]
            .copy_from_slice(&packed[..new_words_per_row]);
    }
    words.truncate(keep_rows.len() * new_words_per_row);
    new_words_per_row
}

fn pack_row(squeezes: &[Squeeze], source: &[u64], packed: &mut [u64]) {
    packed.fill(0);
    let mut n_bits = 0usize;
    for (squeeze, &word) in squeezes.iter().zip(source) {
        if squeeze.n_kept == 0 {
            continue;
        }
        let bits = squeeze.apply(word);
        let (at, shift) = (n_bits / 64, n_bits % 64);
        packed[at] |= bits << shift;
        if shift + squeeze.n_kept as usize > 64 {
            packed[at + 1] |= bits >> (64 - shift);
        }
        n_bits += squeeze.n_kept as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sums column by column, bit by bit.
    fn naive_sums(words: &[u64], words_per_row: usize, selected: &[u32]) -> Vec<u32> {
        (0..64 * words_per_row)
            .map(|column| {
                let set = |&&row: &&u32| {
                    words[row as usize * words_per_row + column / 64] >> (column % 64) & 1 == 1
                };
                selected.iter().filter(set).count() as u32
            })
            .collect()
    }

    fn matrix() -> impl Strategy<Value = (Vec<u64>, usize, Vec<u32>)> {
        (1usize..4, 1usize..70).prop_flat_map(|(words_per_row, n_rows)| {
            (
                prop::collection::vec(any::<u64>(), words_per_row * n_rows),
                Just(words_per_row),
                prop::collection::vec(0..n_rows as u32, 0..200),
            )
        })
    }

    proptest! {
        #[test]
        fn column_sums_match_naive((words, words_per_row, selected) in matrix()) {
            let mut sums = vec![7; 64 * words_per_row];
            let mut scratch = ColumnSumScratch::default();
            column_sums(&words, words_per_row, &selected, &mut sums, &mut scratch);
            prop_assert_eq!(&sums, &naive_sums(&words, words_per_row, &selected));
            // The scratch carries nothing over into the next call.
            column_sums(&words, words_per_row, &selected, &mut sums, &mut scratch);
            prop_assert_eq!(sums, naive_sums(&words, words_per_row, &selected));
        }

        #[test]
        fn compact_keeps_the_kept_bits_in_order(
            (words, words_per_row, rows) in matrix(),
            mask in prop::collection::vec(any::<u64>(), 4),
        ) {
            let mut rows = rows;
            rows.sort_unstable();
            rows.dedup();
            let keep = &mask[..words_per_row];
            let kept: Vec<usize> =
                (0..64 * words_per_row).filter(|&c| keep[c / 64] >> (c % 64) & 1 == 1).collect();
            let mut compacted = words.clone();
            let new_words_per_row = compact(&mut compacted, words_per_row, keep, &rows);
            prop_assert_eq!(compacted.len(), rows.len() * new_words_per_row);
            for (i, &row) in rows.iter().enumerate() {
                for j in 0..64 * new_words_per_row {
                    let got = compacted[i * new_words_per_row + j / 64] >> (j % 64) & 1;
                    let want = kept.get(j).map_or(0, |&c| {
                        words[row as usize * words_per_row + c / 64] >> (c % 64) & 1
                    });
                    prop_assert_eq!(got, want, "row {}, column {}", i, j);
                }
            }
        }
    }
}
