//! Checks that listed nodes exist, once each, and are neighbours of each other.

use shardgraph_graph::Graph;

use crate::error::{Error, ErrorKind};
use crate::searches::indicator;

/// Checks that no node is listed twice and that every two listed nodes are joined.
///
/// # Errors
/// `NoNode`, `Twice` or `NotAdjacent`, for the first that is found.
///
/// # Complexity
/// O(n), and the degrees of the listed nodes.
///
/// ```
/// use shardgraph_classical::clique::check_clique;
/// use shardgraph_graph::Graph;
///
/// let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?;
/// assert!(check_clique(&graph, &[0, 1, 2]).is_ok());
/// assert_eq!(check_clique(&graph, &[1, 2, 3]).unwrap_err().to_string(), "nodes 1 and 3 have no edge between them");
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn check_clique(graph: &Graph, clique: &[u32]) -> Result<(), Error> {
    let is_listed = indicator(graph.n_nodes(), clique)?;
    for &u in clique {
        let row = graph.neighbors(u).iter();
        if row.filter(|&&v| is_listed[v as usize]).count() + 1 == clique.len() {
            continue;
        }
        let is_apart = |v: &&u32| **v != u && !graph.has_edge(u, **v);
        if let Some(&v) = clique.iter().find(is_apart) {
            return Err(ErrorKind::NotAdjacent { u, v }.into());
        }
    }
    Ok(())
}
