//! How the numbers of a source and of a relation lie, so that their product is a sum over equal tiles.

/// A message is w\[o\] = sum over k of x\[k, o\] * a\[k, o\], with x of the source and a of the relation.
///
/// All layers have this form. One-hot input with bases: x is the source's row of the bases, a\[k, o\] the relation's coefficient of
/// basis k. Hidden layers: x\[k, o\] is the source's unit k, a the relation's weights. Rows are k-major and padded with zeros to
/// whole tiles; a tile is a whole number of k and of SIMD vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many k there are.
    pub(crate) n_terms: usize,
    /// The width of a message.
    pub(crate) width: usize,
    /// Numbers in a row, padding included.
    pub(crate) stride: usize,
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

impl Shape {
    pub(crate) fn new(n_terms: usize, width: usize) -> Shape {
        let tile = match tile_of(width) {
            0 => width,
            tile => tile,
        };
        let stride = (n_terms * width).next_multiple_of(tile);
        Shape {
            n_terms,
            width,
            stride,
        }
    }

    /// Numbers in a row without padding.
    pub(crate) fn len(self) -> usize {
        self.n_terms * self.width
    }

    /// Each of `values` (one for each k) for all o: what a unit or a coefficient is in a row.
    pub(crate) fn spread(self, values: &[f32], row: &mut [f32]) {
        for (place, &value) in row.chunks_exact_mut(self.width).zip(values) {
            place.fill(value);
        }
    }

    /// The sum over o of each k, added to `sums`: the gradient of [`Shape::spread`].
    pub(crate) fn gather(self, row: &[f32], sums: &mut [f32]) {
        for (place, sum) in row.chunks_exact(self.width).zip(sums) {
            *sum += place.iter().sum::<f32>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_hold_whole_terms_and_whole_vectors() {
        for width in 1..100 {
            let tile = tile_of(width);
            assert_eq!((tile % width, tile % 8), (0, 0), "width {width}");
            let shape = Shape::new(7, width);
            assert!(shape.stride >= 7 * width && shape.stride < 7 * width + tile.max(width));
        }
    }

    #[test]
    fn spreading_and_gathering_leave_the_padding_alone() {
        let shape = Shape::new(3, 10);
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
