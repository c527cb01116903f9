//! Scores of a pair of nodes that need no training.

use shardgraph_graph::Graph;

/// The product of the two degrees (preferential attachment).
#[must_use]
pub fn degree_product(graph: &Graph, u: u32, v: u32) -> f64 {
    f64::from(graph.degree(u)) * f64::from(graph.degree(v))
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
    let (few, many) = match graph.degree(u) <= graph.degree(v) {
        true => (graph.neighbors(u), graph.neighbors(v)),
        false => (graph.neighbors(v), graph.neighbors(u)),
    };
    let mut from = 0;
    let mut sum = 0.0;
    for &w in few {
        // Both rows ascend, so the search begins where the last one ended.
        from += many[from..].partition_point(|&other| other < w);
        if many.get(from) == Some(&w) {
            sum += 1.0 / f64::from(graph.degree(w)).ln();
        }
    }
    sum
}
