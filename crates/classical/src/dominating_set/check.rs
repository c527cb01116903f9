//! Checks that listed nodes exist, once each, and dominate every node.

use shardgraph_graph::Graph;

use crate::error::{Error, ErrorKind};
use crate::searches::indicator;

/// Checks that no node is listed twice and that each node is listed or has a listed neighbour.
///
/// # Errors
/// `NoNode`, `Twice` or `Undominated`, for the first that is found.
///
/// # Complexity
/// O(n + m)
///
/// ```
/// use shardgraph_classical::dominating_set::check_dominating_set;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
/// assert!(check_dominating_set(&path, &[0, 3]).is_ok());
/// let error = check_dominating_set(&path, &[0]).unwrap_err();
/// assert_eq!(error.to_string(), "node 2 is not dominated: neither it nor a neighbour is listed");
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn check_dominating_set(graph: &Graph, nodes: &[u32]) -> Result<(), Error> {
    let is_listed = indicator(graph.n_nodes(), nodes)?;
    let is_dominated =
        |v: u32| is_listed[v as usize] || graph.neighbors(v).iter().any(|&u| is_listed[u as usize]);
    match (0..graph.n_nodes()).find(|&v| !is_dominated(v)) {
        None => Ok(()),
        Some(node) => Err(ErrorKind::Undominated { node }.into()),
    }
}
