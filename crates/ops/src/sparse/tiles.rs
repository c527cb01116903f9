//! Sparse products of dense blocks, in tiles: 255 columns at a time, whose rows of `x` stay in the nearest cache while all rows of the block add
//! what they have there. A column takes a byte, and two rows of the block are summed side by side, so that no addition waits for the one before it.
//!
//! A row's sum still runs over ascending columns. Where one row of a pair has fewer entries in a tile, zeros are added to it: a sum that began
//! at zero is never negative zero, so they leave its bits as they are.

use std::ops::Range;

use crate::simd::arch;

/// Columns of a tile. The byte after the last of them stands for a row of zeros.
const COLUMNS: usize = 255;
const NO_COLUMN: u8 = COLUMNS as u8;
/// Rows whose sums stay in the second cache (128 KiB of them) while the tiles go by.
const BLOCK: usize = 1024;
/// Below so many entries of a row in a tile, keeping its sums costs more than the nearest cache saves.
const LEAST_ENTRIES: usize = 6;
/// A block of bits becomes at most so many times larger.
const MOST_GROWTH: usize = 4;

/// The entries of a block without weights: blocks of rows, in each the tiles, in each the pairs of rows.
#[derive(Debug)]
pub(crate) struct Tiles {
    n_rows: usize,
    n_columns: usize,
    /// The length of each run of `pairs`.
    counts: Vec<u8>,
    /// For each pair of rows and each tile a run of column pairs, numbered in the tile.
    pairs: Vec<[u8; 2]>,
}

impl Tiles {
    /// Whether lists are dense enough for tiles, and ascend without an entry twice: a row then has 255 entries of a tile at most.
    pub(crate) fn suit_lists(row_ptr: &[u64], columns: &[u32]) -> bool {
        let n_columns = columns.iter().max().map_or(0, |&last| last as usize + 1);
        let row = |bounds: &[u64]| {
            let row = &columns[bounds[0] as usize..bounds[1] as usize];
            row.is_sorted_by(|a, b| a < b)
        };
        are_dense(row_ptr.len() - 1, n_columns, columns.len()) && row_ptr.windows(2).all(row)
    }

    /// Whether a bit matrix is dense enough for tiles, and not so dense that they would be many times as large.
    pub(crate) fn suit_bits(words: &[u64], words_per_row: usize, n_rows: usize) -> bool {
        let n_entries = words.iter().map(|word| word.count_ones() as usize).sum();
        let n_columns = words.len().checked_div(words_per_row).unwrap_or(0);
        are_dense(n_rows, n_columns, n_entries) && n_entries <= MOST_GROWTH * 8 * words.len()
    }

    /// Lists whose rows ascend, without an entry twice.
    pub(crate) fn of_lists(row_ptr: &[u64], columns: &[u32]) -> Tiles {
        let n_columns = columns.iter().max().map_or(0, |&last| last as usize + 1);
        let mut next: Vec<usize> = row_ptr.iter().map(|&first| first as usize).collect();
        let tile = |rows: Range<usize>, in_tile: Range<usize>, runs: &mut Runs| {
            for (run, row) in runs.iter_mut().zip(rows) {
                let left = &columns[next[row]..row_ptr[row + 1] as usize];
                let here = left.iter().take_while(|&&u| (u as usize) < in_tile.end);
                run.extend(here.map(|&u| (u as usize - in_tile.start) as u8));
                next[row] += run.len();
            }
        };
        Tiles::build(row_ptr.len() - 1, n_columns, tile)
    }

    /// A bit matrix: for each column the bits of `n_rows` rows.
    pub(crate) fn of_bits(words: &[u64], words_per_row: usize, n_rows: usize) -> Tiles {
        let n_columns = words.len().checked_div(words_per_row).unwrap_or(0);
        let tile = |rows: Range<usize>, in_tile: Range<usize>, runs: &mut Runs| {
            for (number, column) in in_tile.enumerate() {
                // A block begins at a word.
                let of_rows = rows.start / 64..rows.end.div_ceil(64);
                let of_column = &words[column * words_per_row..][of_rows];
                for (w, &word) in of_column.iter().enumerate() {
                    let mut word = word;
                    while word != 0 {
                        let row = w * 64 + word.trailing_zeros() as usize;
                        word &= word - 1;
                        if row < rows.len() {
                            runs[row].push(number as u8);
                        }
                    }
                }
            }
        };
        Tiles::build(n_rows, n_columns, tile)
    }

    /// `tile` gives for a block of rows and a tile of columns each row's columns in the tile, ascending.
    fn build(
        n_rows: usize,
        n_columns: usize,
        mut tile: impl FnMut(Range<usize>, Range<usize>, &mut Runs),
    ) -> Tiles {
        let mut tiles = Tiles {
            n_rows,
            n_columns,
            counts: Vec::new(),
            pairs: Vec::new(),
        };
        let mut runs = vec![Vec::new(); BLOCK];
        for first_row in (0..n_rows).step_by(BLOCK) {
            let rows = first_row..n_rows.min(first_row + BLOCK);
            for first in (0..n_columns).step_by(COLUMNS) {
                runs.iter_mut().for_each(Vec::clear);
                let in_tile = first..n_columns.min(first + COLUMNS);
                tile(rows.clone(), in_tile, &mut runs);
                for pair in runs[..rows.len()].chunks(2) {
                    tiles.push_pair(&pair[0], pair.get(1).map_or(&[], |run| run));
                }
            }
        }
        tiles.pairs.shrink_to_fit();
        tiles
    }

    fn push_pair(&mut self, a: &[u8], b: &[u8]) {
        let len = a.len().max(b.len());
        let count = u8::try_from(len).expect("columns of a tile differ, and it has 255");
        let column = |run: &[u8], i: usize| run.get(i).copied().unwrap_or(NO_COLUMN);
        self.counts.push(count);
        self.pairs
            .extend((0..len).map(|i| [column(a, i), column(b, i)]));
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Of the rows of `x` that the block can name.
    pub(crate) fn n_columns(&self) -> usize {
        self.n_columns
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.counts.len() + 2 * self.pairs.len()) as u64
    }
}

/// For each row of a block its columns in a tile.
type Runs = Vec<Vec<u8>>;

fn are_dense(n_rows: usize, n_columns: usize, n_entries: usize) -> bool {
    n_entries > 0 && n_entries >= LEAST_ENTRIES * n_rows * n_columns.div_ceil(COLUMNS)
}

/// The rows of `x` of a tile, and zeros after them.
#[repr(align(64))]
struct Tile<const W: usize>([[f32; W]; COLUMNS + 1]);

/// The sums of two rows.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Sums<const W: usize>([[f32; W]; 2]);

/// The dense factor: rows of `n_states` states, each of `width` elements.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) x: &'a [f32],
    /// A factor for each row and state; what it makes zero is not read.
    pub(crate) keep: Option<&'a [f32]>,
    pub(crate) n_states: usize,
    pub(crate) width: usize,
}

impl<'a> Operand<'a> {
    pub(crate) fn plain(width: usize, x: &'a [f32]) -> Self {
        Self {
            x,
            keep: None,
            n_states: 1,
            width,
        }
    }

    fn row_width(&self) -> usize {
        self.n_states * self.width
    }
}

/// `out = tiles * (keep * x)`.
pub(crate) fn tiles_product(tiles: &Tiles, operand: Operand<'_>, out: &mut [f32]) {
    let row_width = operand.row_width();
    let mut first = 0;
    while first < row_width {
        let len = (row_width - first).min(32);
        let strip = Strip {
            operand,
            first,
            len,
        };
        let moved = (&mut *out, strip);
        // The closure gives away what it captured: see `simd`.
        arch().dispatch(
            #[inline(always)]
            || {
                let (out, strip) = moved;
                match strip.len {
                    0..=8 => strip.product::<8>(tiles, out),
                    9..=16 => strip.product::<16>(tiles, out),
                    _ => strip.product::<32>(tiles, out),
                }
            },
        );
        first += len;
    }
}

/// Some adjacent elements of each row of the operand and of the sums.
#[derive(Clone, Copy)]
struct Strip<'a> {
    operand: Operand<'a>,
    first: usize,
    len: usize,
}

impl Strip<'_> {
    #[inline(always)]
    fn product<const W: usize>(self, tiles: &Tiles, out: &mut [f32]) {
        let mut tile = Tile([[0.0; W]; COLUMNS + 1]);
        let mut sums = vec![Sums([[0.0; W]; 2]); tiles.n_rows.min(BLOCK).div_ceil(2)];
        let (mut counts, mut pairs) = (&tiles.counts[..], &tiles.pairs[..]);
        let row_width = self.operand.row_width();
        for out in out.chunks_mut(BLOCK * row_width) {
            let sums = &mut sums[..(out.len() / row_width).div_ceil(2)];
            sums.fill(Sums([[0.0; W]; 2]));
            for first in (0..tiles.n_columns).step_by(COLUMNS) {
                self.load(first..tiles.n_columns.min(first + COLUMNS), &mut tile);
                let (own, rest) = counts.split_at(sums.len());
                counts = rest;
                pairs = add_tile(&tile, own, pairs, sums);
            }
            self.store(sums, out);
        }
    }

    #[inline(always)]
    fn load<const W: usize>(self, columns: Range<usize>, tile: &mut Tile<W>) {
        let row_width = self.operand.row_width();
        let x = self.operand.x[columns.start * row_width..].chunks_exact(row_width);
        let n_columns = columns.len();
        for (row, x) in tile.0[..n_columns].iter_mut().zip(x) {
            row[..self.len].copy_from_slice(&x[self.first..][..self.len]);
        }
        if let Some(keep) = self.operand.keep {
            let keep =
                keep[columns.start * self.operand.n_states..].chunks_exact(self.operand.n_states);
            for (row, keep) in tile.0[..n_columns].iter_mut().zip(keep) {
                self.mask(keep, row);
            }
        }
    }

    /// Multiplies the parts of a row by their states' factors; what is masked becomes zero, whatever it was.
    #[inline(always)]
    fn mask(self, keep: &[f32], row: &mut [f32]) {
        let mut from = 0;
        while from < self.len {
            let state = (self.first + from) / self.operand.width;
            let to = self.len.min((state + 1) * self.operand.width - self.first);
            match keep[state] {
                0.0 => row[from..to].fill(0.0),
                1.0 => {}
                keep => row[from..to].iter_mut().for_each(|x| *x *= keep),
            }
            from = to;
        }
    }

    #[inline(always)]
    fn store<const W: usize>(self, sums: &[Sums<W>], out: &mut [f32]) {
        let sums = sums.iter().flat_map(|sums| &sums.0);
        for (out, sum) in out.chunks_exact_mut(self.operand.row_width()).zip(sums) {
            out[self.first..][..self.len].copy_from_slice(&sum[..self.len]);
        }
    }
}

/// Adds to each pair of sums what its run names; gives the runs that are left.
#[inline(always)]
fn add_tile<'p, const W: usize>(
    tile: &Tile<W>,
    counts: &[u8],
    mut pairs: &'p [[u8; 2]],
    sums: &mut [Sums<W>],
) -> &'p [[u8; 2]] {
    for (sums, &count) in sums.iter_mut().zip(counts) {
        let (run, rest) = pairs.split_at(count.into());
        pairs = rest;
        let [mut a, mut b] = sums.0;
        for &[u, v] in run {
            add(&mut a, &tile.0[usize::from(u)]);
            add(&mut b, &tile.0[usize::from(v)]);
        }
        sums.0 = [a, b];
    }
    pairs
}

#[inline(always)]
fn add<const W: usize>(sum: &mut [f32; W], x: &[f32; W]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
}
