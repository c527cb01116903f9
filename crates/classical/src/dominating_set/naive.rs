//! What the algorithms are compared with: every subset is tried.

use crate::dominating_set::rows::SetCover;

/// The number of sets of a smallest cover.
pub(crate) fn cover_size(cover: &SetCover) -> usize {
    assert!(cover.n_sets() < 24);
    let covers = |code: u32| {
        let is_covered = |e: usize| {
            let sets = cover.elements.row(e).iter();
            sets.into_iter().any(|s| code >> s & 1 == 1)
        };
        (0..cover.n_elements()).all(is_covered)
    };
    let codes = (0..1u32 << cover.n_sets()).filter(|code| covers(*code));
    codes.map(u32::count_ones).min().unwrap_or(u32::MAX) as usize
}
