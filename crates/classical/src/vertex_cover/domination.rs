//! Domination: which neighbours of a node see all that the node sees.

use crate::vertex_cover::dynamic::Dynamic;
use crate::vertex_cover::marks::Marks;

/// The neighbours of a node whose closed neighbourhoods hold that of the node.
pub(crate) struct Dominating {
    /// In no order that means anything.
    pub(crate) nodes: Vec<u32>,
    /// Entries of rows that were read, and candidates that were looked at.
    pub(crate) n_read: u64,
}

/// The neighbours of `u` that dominate it.
///
/// All of them can go into the cover at once: without one of them the others dominate `u` still. So a clique beside which `u` sees
/// nothing goes in one look.
///
/// # Complexity
/// The rows of the neighbours of `u` that are read before no candidate is left: on most nodes one or two, in a clique all.
pub(crate) fn dominating_neighbors(graph: &Dynamic, u: u32, marks: &mut Marks) -> Dominating {
    let mut nodes: Vec<u32> = graph.neighbors(u).collect();
    let mut n_read = 0;
    for w in graph.neighbors(u) {
        marks.clear();
        marks.mark(w);
        graph.neighbors(w).for_each(|x| {
            marks.mark(x);
        });
        n_read += u64::from(graph.degree(w)) + nodes.len() as u64;
        nodes.retain(|&v| marks.has(v));
        if nodes.is_empty() {
            break;
        }
    }
    Dominating { nodes, n_read }
}
