//! Ranges of the ranks' parts of a buffer.

use std::ops::Range;

/// Part `rank` of `n_ranks` of a buffer: contiguous, in rank order, with lengths that differ by at
/// most one.
pub(crate) fn part(len: usize, rank: usize, n_ranks: usize) -> Range<usize> {
    len * rank / n_ranks..len * (rank + 1) / n_ranks
}

#[cfg(test)]
mod tests {
    use super::part;

    /// Ranks that change their parts at the same time change different elements, and together all
    /// of them.
    #[test]
    fn parts_are_disjoint_and_cover_the_buffer() {
        for n_ranks in 1..=6 {
            for len in [0, 1, 5, 6, 7, 1000] {
                let mut next = 0;
                for rank in 0..n_ranks {
                    let part = part(len, rank, n_ranks);
                    assert_eq!(part.start, next);
                    assert!(part.len().abs_diff(len / n_ranks) <= 1);
                    next = part.end;
                }
                assert_eq!(next, len);
            }
        }
    }
}
