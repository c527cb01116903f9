//! [`edge_greedy`]: a cover to start from, in one pass over the edges.

use shardgraph_graph::Graph;

use crate::vertex_cover::check::listed;

/// Of each edge that nothing covers yet, the end with more neighbours; then what is not needed goes. Ascending.
///
/// # Complexity
/// O(n + m)
///
/// # Source
/// Cai (2015), "Balance between complexity and quality", ConstructVC.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_classical::vertex_cover::edge_greedy;
///
/// let star = Graph::from_edges(4, &[(3, 0), (3, 1), (3, 2)])?;
/// assert_eq!(edge_greedy(&star), [3]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[must_use]
pub fn edge_greedy(graph: &Graph) -> Vec<u32> {
    let mut in_cover = vec![false; graph.n_nodes() as usize];
    for (u, v) in graph.edges() {
        if !in_cover[u as usize] && !in_cover[v as usize] {
            let longer = if graph.degree(u) > graph.degree(v) {
                u
            } else {
                v
            };
            in_cover[longer as usize] = true;
        }
    }
    for v in 0..graph.n_nodes() {
        let neighbors = graph.neighbors(v);
        if in_cover[v as usize] && neighbors.iter().all(|&u| in_cover[u as usize]) {
            in_cover[v as usize] = false;
        }
    }
    listed(&in_cover)
}
