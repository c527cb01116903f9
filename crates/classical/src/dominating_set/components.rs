//! [`components`]: the parts of a set cover that share no element.

use crate::dominating_set::rows::{Rows, SetCover};

/// A part, with its sets and elements in the whole.
pub(crate) struct Component {
    pub(crate) cover: SetCover,
    pub(crate) sets: Vec<u32>,
    pub(crate) elements: Vec<u32>,
}

/// The connected parts, by their first set.
///
/// # Complexity
/// O(entries log entries)
pub(crate) fn components(whole: &SetCover) -> Vec<Component> {
    let mut part = vec![u32::MAX; whole.n_sets()];
    let mut ids = vec![u32::MAX; whole.n_elements()];
    let mut parts = Vec::new();
    for root in 0..whole.n_sets() {
        if part[root] != u32::MAX {
            continue;
        }
        part[root] = parts.len() as u32;
        let (mut sets, mut elements) = (vec![root as u32], Vec::new());
        let mut head = 0;
        while head < sets.len() {
            for &e in whole.sets.row(sets[head] as usize) {
                if ids[e as usize] != u32::MAX {
                    continue;
                }
                ids[e as usize] = 0;
                elements.push(e);
                for &s in whole.elements.row(e as usize) {
                    if part[s as usize] == u32::MAX {
                        part[s as usize] = parts.len() as u32;
                        sets.push(s);
                    }
                }
            }
            head += 1;
        }
        sets.sort_unstable();
        elements.sort_unstable();
        for (id, &e) in (0u32..).zip(&elements) {
            ids[e as usize] = id;
        }
        let mut rows = Rows::new();
        for &s in &sets {
            rows.push(whole.sets.row(s as usize).iter().map(|&e| ids[e as usize]));
        }
        parts.push(Component {
            cover: SetCover::new(rows, elements.len()),
            sets,
            elements,
        });
    }
    parts
}
