//! The clique that degrees alone find.

use std::cmp::Reverse;

use shardgraph_graph::Graph;

/// The clique of taking a node of largest degree among the common neighbours until there is none;
/// ties go to the lowest index. In the order of taking.
///
/// # Complexity
/// O(n + m), and a pass over the common neighbours for each node of the clique.
///
/// ```
/// use shardgraph_environments::baselines::max_degree_clique;
/// use shardgraph_graph::Graph;
///
/// let kite = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?;
/// assert_eq!(max_degree_clique(&kite), [2, 0, 1]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn max_degree_clique(graph: &Graph) -> Vec<u32> {
    let mut degrees = graph.degrees();
    let mut present = vec![true; degrees.len()];
    let mut common: Vec<u32> = (0..graph.n_nodes()).collect();
    let mut clique = Vec::new();
    let best = |common: &[u32], degrees: &[u32]| {
        let nodes = common.iter().copied();
        nodes.max_by_key(|&v| (degrees[v as usize], Reverse(v)))
    };
    while let Some(v) = best(&common, &degrees) {
        clique.push(v);
        let (stay, leave) = common
            .into_iter()
            .partition(|&u| u != v && graph.has_edge(u, v));
        common = stay;
        drop_nodes(graph, &leave, &mut present, &mut degrees);
    }
    clique
}

fn drop_nodes(graph: &Graph, leave: &[u32], present: &mut [bool], degrees: &mut [u32]) {
    for &u in leave {
        present[u as usize] = false;
        for &w in graph.neighbors(u) {
            if present[w as usize] {
                degrees[w as usize] -= 1;
            }
        }
    }
}
