//! The gradients that come back to a layer: a row for each node that it made, and which rows are
//! zero throughout.
//!
//! Most nodes of a large graph are far from any label: their rows are zero, and so is what follows
//! from them. What is zero is skipped, which changes no bit while all weights are finite: sums
//! begin at zero, and adding a product with zero leaves them as they are.

use super::values::is_live;

/// Gradients of the rows that a layer makes.
pub(crate) struct GradientRows<'a> {
    rows: &'a [f32],
    width: usize,
    /// A bit for each row, set where some number is not zero.
    live: Vec<u64>,
}

impl<'a> GradientRows<'a> {
    /// Rows of `width` numbers.
    ///
    /// # Complexity
    /// One pass over the numbers; a bit for each row is kept.
    pub(crate) fn new(rows: &'a [f32], width: usize) -> GradientRows<'a> {
        let bits = |rows: &[f32]| {
            let rows = (0u32..).zip(rows.chunks_exact(width));
            rows.fold(0, |bits, (at, row)| bits | u64::from(is_live(row)) << at)
        };
        let live = rows.chunks(64 * width).map(bits).collect();
        GradientRows { rows, width, live }
    }

    /// Numbers in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A row, unless it is zero.
    #[inline(always)]
    pub(crate) fn row(&self, target: u32) -> Option<&[f32]> {
        let target = target as usize;
        match self.live[target / 64] >> (target % 64) & 1 {
            0 => None,
            _ => Some(&self.rows[target * self.width..][..self.width]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_zeros_of_either_sign_are_none() {
        for n_rows in [1, 63, 64, 65, 130] {
            let mut rows = vec![0.0; 3 * n_rows];
            rows[3 * (n_rows - 1) + 2] = f32::MIN_POSITIVE / 8.0;
            rows[0] = if n_rows > 1 { -0.0 } else { 0.0 };
            let rows_in = GradientRows::new(&rows, 3);
            let live: Vec<u32> = (0..n_rows as u32)
                .filter(|&row| rows_in.row(row).is_some())
                .collect();
            assert_eq!(live, [n_rows as u32 - 1]);
        }
    }
}
