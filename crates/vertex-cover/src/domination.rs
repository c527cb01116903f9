//! Domination: which neighbour of a node sees all that the node sees.

use crate::dynamic::Dynamic;
use crate::marks::Marks;

/// A neighbour of `u` whose closed neighbourhood holds that of `u`.
///
/// # Complexity
/// The rows of the neighbours of `u` that are read before no candidate is left: on most nodes one or two.
pub(crate) fn dominating_neighbor(graph: &Dynamic, u: u32, marks: &mut Marks) -> Option<u32> {
    let mut candidates: Vec<u32> = graph.neighbors(u).collect();
    for w in graph.neighbors(u) {
        marks.clear();
        marks.mark(w);
        graph.neighbors(w).for_each(|x| {
            marks.mark(x);
        });
        candidates.retain(|&v| marks.has(v));
        if candidates.is_empty() {
            break;
        }
    }
    candidates.into_iter().min()
}
