//! Maximum clique, one node a step: the most nodes of which every two are joined. It is the maximum
//! independent set of the complement, which is never made: states are residual graphs of the graph
//! itself.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::episode::{Episode, ProblemState};
use crate::problem::{Baseline, Objective, Problem, Sense};
use crate::residual::ResidualGraph;
use crate::{baselines, verify};

/// The most nodes of which every two are joined.
pub static MAXIMUM_CLIQUE: Problem = Problem {
    name: "clique",
    title: "maximum clique",
    objective_name: "clique size",
    sense: Sense::Maximise,
    n_node_features: 0,
    reads_weights: false,
    begin: |graph| Episode::<MaximumClique>::new(graph).erased(),
    check: |graph, marks| match verify::unjoined_pair(graph, marks) {
        None => Ok(Objective::size(marks)),
        Some((u, v)) => Err(format!("nodes {u} and {v} of the clique are not joined")),
    },
    baselines: &[Baseline {
        name: "max_degree",
        find: baselines::max_degree_clique,
        n_updates: baselines::linear_updates,
    }],
};

/// Each pick puts one node in the clique and keeps the common neighbours of the clique alone.
///
/// Candidates are the nodes that are joined to the whole clique; the residual graph is the one that
/// they induce. Each pick earns 1, so the return is the clique's size. The episode terminates when
/// no node is left, and then no node can be added to the clique.
///
/// # Complexity
/// An episode takes O(n + m), whatever the complement's size: each node leaves once, with its
/// edges.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MaximumClique};
/// use shardgraph_graph::Graph;
///
/// let kite = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?;
/// let mut episode = Episode::<MaximumClique>::new(kite.into());
/// episode.step(2)?;
/// assert_eq!(episode.candidates(), [0, 1, 3]);
/// episode.step(0)?;
/// assert_eq!(episode.candidates(), [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumClique {
    residual: ResidualGraph,
    /// The present nodes, ascending.
    common: Vec<u32>,
}

impl ProblemState for MaximumClique {
    fn new(graph: Arc<Graph>) -> MaximumClique {
        MaximumClique {
            common: (0..graph.n_nodes()).collect(),
            residual: ResidualGraph::new(graph),
        }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.residual
    }

    fn pick(&mut self, node: u32) -> f64 {
        let graph = Arc::clone(self.residual.graph());
        let mut joined = graph.neighbors(node).iter().copied().peekable();
        let residual = &mut self.residual;
        self.common.retain(|&u| {
            while joined.next_if(|&w| w < u).is_some() {}
            let stays = joined.next_if_eq(&u).is_some();
            if !stays {
                residual.remove(u);
            }
            stays
        });
        1.0
    }

    fn follows_residual(&self) -> bool {
        true
    }

    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "is in the clique already",
            false => "is not joined to the whole clique",
        }
    }
}
