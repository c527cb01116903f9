//! Checks of answers by their properties, and a bound that says how far from the best an answer can
//! be.

use shardgraph_graph::Graph;

/// Some edge with neither end in the cover, the smallest first end and then the smallest second;
/// `None` when every edge is covered.
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
    graph.uncovered_edge(in_cover)
}

/// Some edge with both ends in the set, the smallest first end and then the smallest second; `None`
/// when the set is independent.
///
/// # Panics
/// When `in_set` does not have one element per node.
///
/// # Complexity
/// O(n + m)
pub fn joined_pair(graph: &Graph, in_set: &[bool]) -> Option<(u32, u32)> {
    check_marks(graph, in_set);
    let mut edges = graph.edges();
    edges.find(|&(u, v)| in_set[u as usize] && in_set[v as usize])
}

/// Some two nodes of the set that are not joined, the smallest first and then the smallest second;
/// `None` when the set is a clique.
///
/// # Panics
/// When `in_set` does not have one element per node.
///
/// # Complexity
/// O(n) and a search in the list of each member for each member.
///
/// ```
/// use shardgraph_environments::verify::unjoined_pair;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// assert_eq!(unjoined_pair(&path, &[true, true, false]), None);
/// assert_eq!(unjoined_pair(&path, &[true, true, true]), Some((0, 2)));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn unjoined_pair(graph: &Graph, in_set: &[bool]) -> Option<(u32, u32)> {
    check_marks(graph, in_set);
    let members: Vec<u32> = (0..graph.n_nodes())
        .filter(|&v| in_set[v as usize])
        .collect();
    members.iter().enumerate().find_map(|(i, &u)| {
        let mut later = members[i + 1..].iter().copied();
        Some((u, later.find(|&v| !graph.has_edge(u, v))?))
    })
}

/// The smallest node that is not in the set and has no neighbour there; `None` when the set
/// dominates the graph.
///
/// # Panics
/// When `in_set` does not have one element per node.
///
/// # Complexity
/// O(n + m)
pub fn undominated_node(graph: &Graph, in_set: &[bool]) -> Option<u32> {
    check_marks(graph, in_set);
    let is_taken = |&v: &u32| in_set[v as usize];
    (0..graph.n_nodes()).find(|v| !is_taken(v) && !graph.neighbors(*v).iter().any(is_taken))
}

/// The weight of the edges with one end on each side; an edge of a graph without weights weighs 1.
///
/// # Panics
/// When `side` does not have one element per node.
///
/// # Complexity
/// O(n + m)
///
/// ```
/// use shardgraph_environments::verify::cut_weight;
/// use shardgraph_graph::Graph;
///
/// let triangle = Graph::from_weighted_edges(3, &[(0, 1, 2.0), (1, 2, 0.5), (2, 0, -1.0)])?;
/// assert_eq!(cut_weight(&triangle, &[false, true, false]), 2.5);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn cut_weight(graph: &Graph, side: &[bool]) -> f64 {
    check_marks(graph, side);
    let between = |&(u, v, _): &(u32, u32, f32)| side[u as usize] != side[v as usize];
    let weights = graph.weighted_edges().filter(between);
    // The sum of no number is -0.
    weights.map(|edge| f64::from(edge.2)).sum::<f64>() + 0.0
}

fn check_marks(graph: &Graph, marks: &[bool]) {
    assert_eq!(marks.len(), graph.n_nodes() as usize, "one mark per node");
}
