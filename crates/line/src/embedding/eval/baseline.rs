//! Scores of a pair of nodes that need no training.

use shardgraph_graph::Graph;

/// The product of the two degrees (preferential attachment).
#[must_use]
pub fn degree_product(graph: &Graph, u: u32, v: u32) -> f64 {
    f64::from(graph.degree(u)) * f64::from(graph.degree(v))
}

/// The number of common neighbours.
///
/// # Complexity
/// As [`adamic_adar`].
#[must_use]
pub fn common_neighbors(graph: &Graph, u: u32, v: u32) -> u32 {
    shared(graph, u, v).count() as u32
}

/// The sum of 1 / ln(degree) over common neighbours.
///
/// # Complexity
/// O(d_u + d_v), or O(d log D) where one degree is much smaller.
///
/// # Source
/// Adamic and Adar, "Friends and neighbors on the web" (2003).
#[must_use]
pub fn adamic_adar(graph: &Graph, u: u32, v: u32) -> f64 {
    shared(graph, u, v).fold(0.0, |sum, w| sum + 1.0 / f64::from(graph.degree(w)).ln())
}

/// The neighbours of both, ascending.
fn shared(graph: &Graph, u: u32, v: u32) -> impl Iterator<Item = u32> + '_ {
    let (few, many) = match graph.degree(u) <= graph.degree(v) {
        true => (graph.neighbors(u), graph.neighbors(v)),
        false => (graph.neighbors(v), graph.neighbors(u)),
    };
    let mut from = 0;
    few.iter().copied().filter(move |&w| {
        // Both rows ascend, so the search begins where the last one ended.
        from += many[from..].partition_point(|&other| other < w);
        many.get(from) == Some(&w)
    })
}
