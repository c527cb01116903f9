//! The order of the numbers of a source and of a relation: their product is a sum over equal tiles.

use std::ops::Range;

use crate::Config;

/// A message is w\[o\] = sum over k of x\[k, o\] * a\[k, o\], with x of the source and a of the
/// relation.
///
/// All layers have this form. One-hot input with bases: x is the source's row of the bases, a\[k,
/// o\] the relation's coefficient of basis k. Hidden layers: x\[k, o\] is the source's input k, a
/// the relation's weights. Block-diagonal weights: inputs and outputs are cut into as many blocks,
/// and x\[k, o\] is input k of the block that o belongs to, so that k goes only to the length of a
/// block. Rows are k-major and padded with zeros to whole tiles; a tile is a whole number of k and
/// of SIMD vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileShape {
    /// The number of k.
    pub(crate) n_terms: usize,
    /// The width of a message.
    pub(crate) width: usize,
    /// Numbers in a row, padding included.
    pub(crate) stride: usize,
    /// Inputs of the source that are read.
    pub(crate) n_inputs: usize,
    /// Blocks of block-diagonal weights.
    pub(crate) n_blocks: usize,
}

/// Tiles of the widths that have kernels of their own; 0 for others.
pub(crate) const fn tile_of(width: usize) -> usize {
    match width {
        2 | 4 | 8 | 16 | 32 => 32,
        3 => 24,
        10 => 40,
        11 => 88,
        64 => 64,
        _ => 0,
    }
}

impl TileShape {
    /// Of whole weights, from each unit to each.
    pub(crate) fn new(n_inputs: usize, width: usize) -> TileShape {
        TileShape::blocked(n_inputs, width, 1)
    }

    /// That of the relations' weights of a layer that reads units.
    pub(crate) fn of_weights(config: &Config, n_inputs: usize, width: usize) -> TileShape {
        TileShape::blocked(n_inputs, width, config.blocks.max(1))
    }

    /// Of block-diagonal weights; runs differ by one unit at most, and terms beyond a shorter one
    /// are zero.
    fn blocked(n_inputs: usize, width: usize, n_blocks: usize) -> TileShape {
        let n_terms = n_inputs.div_ceil(n_blocks);
        let mut shape = TileShape {
            n_terms,
            width,
            stride: 0,
            n_inputs,
            n_blocks,
        };
        shape.stride = shape.len().next_multiple_of(shape.tile());
        shape
    }

    /// Numbers in a tile.
    pub(crate) fn tile(self) -> usize {
        match tile_of(self.width) {
            0 => self.width,
            tile => tile,
        }
    }

    /// The units and the outputs of a block.
    pub(crate) fn block(self, block: usize) -> (Range<usize>, Range<usize>) {
        let part = |n: usize| block * n / self.n_blocks..(block + 1) * n / self.n_blocks;
        (part(self.n_inputs), part(self.width))
    }

    /// Sets what no unit is read by to zero.
    pub(crate) fn clear_unused(self, row: &mut [f32]) {
        for block in 0..self.n_blocks {
            let (units, outputs) = self.block(block);
            for k in units.len()..self.n_terms {
                row[k * self.width..][outputs.clone()].fill(0.0);
            }
        }
    }

    /// Numbers in a row without padding.
    pub(crate) fn len(self) -> usize {
        self.n_terms * self.width
    }

    /// Each of `values` (one for each k) for all o: what a unit or a coefficient is in a row.
    pub(crate) fn spread(self, values: &[f32], row: &mut [f32]) {
        if self.n_blocks > 1 {
            return self.spread_blocks(values, row);
        }
        for (place, &value) in row.chunks_exact_mut(self.width).zip(values) {
            place.fill(value);
        }
    }

    /// The sum over o of each k, added to `sums`: the gradient of [`TileShape::spread`].
    pub(crate) fn gather(self, row: &[f32], sums: &mut [f32]) {
        if self.n_blocks > 1 {
            return self.gather_blocks(row, sums);
        }
        match self.width {
            10 => gather_rows::<10>(row, sums),
            16 => gather_rows::<16>(row, sums),
            _ => {
                for (place, sum) in row.chunks_exact(self.width).zip(sums) {
                    *sum += sum_of(place);
                }
            }
        }
    }

    fn spread_blocks(self, values: &[f32], row: &mut [f32]) {
        for block in 0..self.n_blocks {
            let (units, outputs) = self.block(block);
            for (k, &value) in values[units].iter().enumerate() {
                row[k * self.width..][outputs.clone()].fill(value);
            }
        }
    }

    fn gather_blocks(self, row: &[f32], sums: &mut [f32]) {
        for block in 0..self.n_blocks {
            let (units, outputs) = self.block(block);
            for (k, sum) in sums[units].iter_mut().enumerate() {
                *sum += sum_of(&row[k * self.width..][outputs.clone()]);
            }
        }
    }
}

/// [`TileShape::gather`] of rows whose width is known, so that a sum is a few additions without a
/// loop.
fn gather_rows<const W: usize>(row: &[f32], sums: &mut [f32]) {
    for (place, sum) in row.as_chunks::<W>().0.iter().zip(sums) {
        *sum += sum_of(place);
    }
}

/// The sum of some numbers, every eighth one first: additions that need not wait for each other.
#[inline(always)]
fn sum_of(values: &[f32]) -> f32 {
    let (runs, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for run in runs {
        for (sum, value) in sums.iter_mut().zip(run) {
            *sum += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest.iter().sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_hold_whole_terms_and_whole_vectors() {
        for width in 1..100 {
            let tile = tile_of(width);
            assert_eq!((tile % width, tile % 8), (0, 0), "width {width}");
            let shape = TileShape::new(7, width);
            assert!(shape.stride >= 7 * width && shape.stride < 7 * width + tile.max(width));
        }
    }

    /// Six units in four runs of one or two, five outputs in four of one or two.
    #[test]
    fn blocks_share_out_units_and_outputs() {
        let shape = TileShape::blocked(6, 5, 4);
        assert_eq!((shape.n_terms, shape.stride), (2, 10));
        let blocks = (0..4).map(|block| shape.block(block));
        let expected = [(0..1, 0..1), (1..3, 1..2), (3..4, 2..3), (4..6, 3..5)];
        assert!(blocks.eq(expected));
        let mut row = vec![0.0; shape.stride];
        shape.spread(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut row);
        let expected = [1.0, 2.0, 4.0, 5.0, 5.0, 0.0, 3.0, 0.0, 6.0, 6.0];
        assert!(
            row.iter()
                .zip(expected)
                .all(|(a, b): (&f32, f32)| a.to_bits() == b.to_bits()),
            "{row:?}"
        );
        let mut sums = [0.0; 6];
        shape.gather(&row, &mut sums);
        assert_eq!(sums.map(|sum| sum as i32), [1, 2, 3, 4, 10, 12]);
        let mut full = vec![1.0; shape.stride];
        shape.clear_unused(&mut full);
        assert_eq!(full.iter().sum::<f32>() as i32, 8);
    }

    #[test]
    fn spreading_and_gathering_leave_the_padding_alone() {
        let shape = TileShape::new(3, 10);
        let mut row = vec![0.0; shape.stride];
        shape.spread(&[1.0, 2.0, 3.0], &mut row);
        assert_eq!((row[9], row[10], row[29], row[30]), (1.0, 2.0, 3.0, 0.0));
        let mut sums = [0.5, 0.0, 0.0];
        shape.gather(&row, &mut sums);
        assert_eq!(
            sums.map(|sum| 2.0 * sum)
                .map(f32::round)
                .map(|sum| sum as i32),
            [21, 40, 60]
        );
    }
}
