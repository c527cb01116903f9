//! Checks that operations make before they touch an element or launch a kernel.

#[cfg(doc)]
use crate::ErrorKind;
use crate::{Buffer, Error, Scalar};

/// The elements of an array with these dimensions; where no integer holds them, more than any buffer has.
#[inline]
pub fn elements(dimensions: &[usize]) -> usize {
    match dimensions.contains(&0) {
        true => 0,
        false => dimensions.iter().fold(1, |n, &d| n.saturating_mul(d)),
    }
}

/// A buffer has the wanted number of elements.
///
/// # Errors
/// [`ErrorKind::Length`].
#[inline]
pub fn len<T: Scalar>(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    buffer: &Buffer<T>,
) -> Result<(), Error> {
    if buffer.len() == wanted {
        Ok(())
    } else {
        Err(Error::length(op, operand, wanted, buffer.len()))
    }
}

/// The borders of blocks of rows: ascending from 0 to `n_rows`.
///
/// # Errors
/// [`ErrorKind::Length`].
pub fn bounds(op: &'static str, bounds: &[usize], n_rows: usize) -> Result<(), Error> {
    let ascending = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = bounds.first().copied().unwrap_or(0);
    let last = bounds.last().copied().unwrap_or(0);
    if ascending && first == 0 && last == n_rows {
        Ok(())
    } else {
        Err(Error::length(op, "bounds", n_rows, last))
    }
}

/// Row numbers of a table of `n_rows` rows; `u32::MAX` names no row.
///
/// # Errors
/// [`ErrorKind::Index`].
pub fn index(op: &'static str, index: &[u32], n_rows: usize) -> Result<(), Error> {
    let outside = |&&i: &&u32| i != u32::MAX && i as usize >= n_rows;
    match index.iter().find(outside) {
        None => Ok(()),
        Some(&i) => Err(Error::index(op, u64::from(i), n_rows as u64)),
    }
}
