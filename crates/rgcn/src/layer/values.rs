//! Scans of rows of numbers that all passes share.

/// True if some number is not zero; a number that is not one counts as such.
#[inline(always)]
pub(crate) fn is_live(row: &[f32]) -> bool {
    let bits = row.iter().fold(0, |bits, x| bits | x.to_bits());
    bits & 0x7fff_ffff != 0
}

/// The greatest magnitude; infinite where a value is not a number.
#[inline(always)]
pub(crate) fn largest_magnitude(values: &[f32]) -> f32 {
    // Magnitudes order like the integers that encode them, infinities and NaN above all.
    let largest = values
        .iter()
        .fold(0u32, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    f32::from_bits(largest.min(0x7f80_0000))
}

/// The sum of squares, in f64 and in the order of the numbers.
pub(crate) fn squares(values: &[f32]) -> f64 {
    let squares = values.iter().map(|&value| f64::from(value).powi(2));
    squares.sum()
}

/// sum += weight * row, for rows of W numbers, or of any number where W is 0.
#[inline(always)]
pub(crate) fn add_scaled<const W: usize>(sum: &mut [f32], weight: f32, row: &[f32]) {
    if W == 0 {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += weight * value;
        }
        return;
    }
    // Through arrays, so that the compiler need not think that the two overlap.
    let (mut sums, mut values) = ([0.0; W], [0.0; W]);
    sums.copy_from_slice(&sum[..W]);
    values.copy_from_slice(&row[..W]);
    for o in 0..W {
        sums[o] += weight * values[o];
    }
    sum[..W].copy_from_slice(&sums);
}

/// Makes a buffer a copy without spare room: a device holds what is in its tiles.
pub(crate) fn refill<T: Copy>(buffer: &mut Vec<T>, values: &[T]) {
    buffer.clear();
    buffer.shrink_to(values.len());
    buffer.reserve_exact(values.len());
    buffer.extend_from_slice(values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_magnitude_knows_what_is_no_number() {
        assert_eq!(
            largest_magnitude(&[1.0, -3.0, 2.0]).to_bits(),
            3f32.to_bits()
        );
        assert!(largest_magnitude(&[1.0, f32::NAN]).is_infinite());
        assert_eq!(largest_magnitude(&[]).to_bits(), 0);
    }

    #[test]
    fn a_row_is_live_with_one_number_that_is_not_zero() {
        assert!(is_live(&[0.0, f32::NAN]) && !is_live(&[]) && !is_live(&[-0.0]));
    }
}
