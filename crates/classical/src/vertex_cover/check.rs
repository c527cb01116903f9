//! Checks that listed nodes exist, once each, and cover every edge.

use shardgraph_graph::Graph;

pub(crate) use crate::searches::{indicator, listed};
use crate::vertex_cover::{Error, ErrorKind};

/// Checks that no node is listed twice and that every edge has an end among them.
///
/// # Errors
/// `NoNode`, `Twice` or `Uncovered`, for the first that is found.
///
/// # Complexity
/// O(n + m)
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_classical::vertex_cover::check_cover;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// assert!(check_cover(&path, &[1]).is_ok());
/// assert_eq!(check_cover(&path, &[0]).unwrap_err().to_string(), "the edge between nodes 1 and 2 is not covered");
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn check_cover(graph: &Graph, cover: &[u32]) -> Result<(), Error> {
    let in_cover = indicator(graph.n_nodes(), cover)?;
    let is_bare = |&(u, v): &(u32, u32)| !in_cover[u as usize] && !in_cover[v as usize];
    match graph.edges().find(is_bare) {
        None => Ok(()),
        Some((u, v)) => Err(ErrorKind::Uncovered { u, v }.into()),
    }
}
