//! Checks of answers by their properties, and a bound that says how far from the best an answer can be.

use shardgraph_graph::Graph;

/// Some edge with neither end in the cover, the smallest first end and then the smallest second; `None` when every edge is
/// covered.
///
/// # Panics
/// When `in_cover` does not have one element per node.
///
/// # Complexity
/// O(n + m)
///
/// ```
/// use shardgraph_environments::verify::uncovered_edge;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// assert_eq!(uncovered_edge(&path, &[false, true, false]), None);
/// assert_eq!(uncovered_edge(&path, &[true, false, false]), Some((1, 2)));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn uncovered_edge(graph: &Graph, in_cover: &[bool]) -> Option<(u32, u32)> {
    first_edge(graph, in_cover, false)
}

/// Some edge with both ends in the set, the smallest first end and then the smallest second; `None` when the set is
/// independent.
///
/// # Panics
/// When `in_set` does not have one element per node.
///
/// # Complexity
/// O(n + m)
pub fn joined_pair(graph: &Graph, in_set: &[bool]) -> Option<(u32, u32)> {
    first_edge(graph, in_set, true)
}

/// The first edge both of whose ends have the mark `wanted`.
fn first_edge(graph: &Graph, marks: &[bool], wanted: bool) -> Option<(u32, u32)> {
    assert_eq!(marks.len(), graph.n_nodes() as usize, "one mark per node");
    graph
        .edges()
        .find(|&(u, v)| marks[u as usize] == wanted && marks[v as usize] == wanted)
}

/// The size of a maximal matching: a cover has at least one node of each of its edges, so no cover is smaller, and the best
/// cover is at most twice as large.
///
/// # Determinism
/// Each node in turn takes its first free neighbour.
///
/// # Complexity
/// O(n + m)
pub fn maximal_matching(graph: &Graph) -> u64 {
    let mut free = vec![true; graph.n_nodes() as usize];
    let mut size = 0;
    for (u, v) in graph.edges() {
        if free[u as usize] && free[v as usize] {
            free[u as usize] = false;
            free[v as usize] = false;
            size += 1;
        }
    }
    size
}
