//! Funnels: nodes whose neighbours but one are a clique.

use crate::vertex_cover::dynamic::Dynamic;
use crate::vertex_cover::marks::Marks;

/// Nodes with more neighbours are not looked at.
const MOST_NEIGHBORS: u32 = 32;

/// A node `v`, its neighbour `u`, and who sees which of them: all neighbours of `v` but `u` are joined with each other.
pub(crate) struct Funnel {
    /// The other neighbours of `v`, less `both`: a clique.
    pub(crate) only_v: Vec<u32>,
    pub(crate) only_u: Vec<u32>,
    pub(crate) both: Vec<u32>,
    pub(crate) u: u32,
}

/// The funnel of `v`, if it has one that makes the graph no larger.
///
/// # Complexity
/// The rows of the neighbours of `v`, until two of them lack two others each.
pub(crate) fn funnel(graph: &Dynamic, v: u32, marks: &mut Marks) -> Option<Funnel> {
    if graph.degree(v) < 2 || graph.degree(v) > MOST_NEIGHBORS {
        return None;
    }
    let u = odd_one(graph, v, marks)?;
    let (mut both, mut only_u) = (Vec::new(), Vec::new());
    marks.clear();
    graph.neighbors(v).for_each(|w| {
        marks.mark(w);
    });
    for w in graph.neighbors(u).filter(|&w| w != v) {
        match marks.has(w) {
            true => both.push(w),
            false => only_u.push(w),
        }
    }
    let only_v: Vec<u32> = (graph.neighbors(v))
        .filter(|w| *w != u && !both.contains(w))
        .collect();
    // At most: a joined node may lose its edges to others of these.
    let n_new = only_v.len() * only_u.len();
    let n_lost =
        graph.degree(u) + graph.degree(v) + both.iter().map(|&w| graph.degree(w) / 2).sum::<u32>();
    (n_new <= n_lost as usize).then_some(Funnel {
        only_v,
        only_u,
        both,
        u,
    })
}

/// The neighbour of `v` that lacks others, where nobody else lacks anybody but it.
fn odd_one(graph: &Dynamic, v: u32, marks: &mut Marks) -> Option<u32> {
    marks.clear();
    graph.neighbors(v).for_each(|w| {
        marks.mark(w);
    });
    let n_others = graph.degree(v) - 1;
    let (mut odd, mut n_lacking) = (None, 0);
    for w in graph.neighbors(v) {
        let n_lacked = n_others - graph.neighbors(w).filter(|&x| marks.has(x)).count() as u32;
        match (n_lacked, odd) {
            (0, _) => continue,
            (1, Some(_)) => {}
            (1, None) => odd = Some((w, 1)),
            (_, Some((_, most))) if most > 1 => return None,
            (_, _) => odd = Some((w, n_lacked)),
        }
        n_lacking += 1;
    }
    // Lacking goes both ways: the odd one lacks all who lack somebody.
    odd.filter(|(_, n_lacked)| n_lacked + 1 == n_lacking)
        .map(|(w, _)| w)
}
