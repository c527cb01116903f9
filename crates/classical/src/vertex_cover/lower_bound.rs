//! A lower bound by cliques: each needs all of its nodes but one.

use shardgraph_graph::Graph;

/// A number of nodes that no cover is below: nodes less the cliques of a greedy partition into cliques.
///
/// Each node, those with few neighbours first, joins the largest clique whose nodes are all its neighbours.
///
/// # Complexity
/// O(m + n log n)
///
/// # Source
/// Akiba and Iwata (2016), section 4.1.
///
/// ```
/// use shardgraph_classical::vertex_cover::clique_cover_bound;
/// use shardgraph_graph::Graph;
///
/// let two_triangles = Graph::from_edges(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)])?;
/// assert_eq!(clique_cover_bound(&two_triangles), 4);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[must_use]
pub fn clique_cover_bound(graph: &Graph) -> u32 {
    const NONE: u32 = u32::MAX;
    let n = graph.n_nodes();
    let mut order: Vec<u32> = (0..n).collect();
    order.sort_by_key(|&v| graph.degree(v));
    let mut clique_of = vec![NONE; n as usize];
    let mut sizes: Vec<u32> = Vec::new();
    // For each clique, how many of its nodes are neighbours of the node at hand.
    let mut n_joined: Vec<u32> = Vec::new();
    for v in order {
        let cliques = || {
            graph
                .neighbors(v)
                .iter()
                .map(|&u| clique_of[u as usize])
                .filter(|&c| c != NONE)
        };
        let mut best = NONE;
        for c in cliques() {
            n_joined[c as usize] += 1;
            let is_whole = n_joined[c as usize] == sizes[c as usize];
            if is_whole && (best == NONE || sizes[c as usize] > sizes[best as usize]) {
                best = c;
            }
        }
        for c in cliques() {
            n_joined[c as usize] = 0;
        }
        if best == NONE {
            best = sizes.len() as u32;
            sizes.push(0);
            n_joined.push(0);
        }
        sizes[best as usize] += 1;
        clique_of[v as usize] = best;
    }
    n - sizes.len() as u32
}
