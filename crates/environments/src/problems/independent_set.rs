//! Maximum independent set, one node a step: the most nodes of which no two are joined. Its
//! complement is a vertex cover.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::episode::{Episode, ProblemState};
use crate::problem::{Baseline, Objective, Problem, Sense};
use crate::residual::ResidualGraph;
use crate::{baselines, verify};

/// The most nodes of which no two are joined.
pub static MAXIMUM_INDEPENDENT_SET: Problem = Problem {
    name: "mis",
    title: "maximum independent set",
    objective_name: "set size",
    sense: Sense::Maximise,
    n_node_features: 0,
    reads_weights: false,
    begin: |graph| Episode::<MaximumIndependentSet>::new(graph).erased(),
    check: |graph, marks| match verify::joined_pair(graph, marks) {
        None => Ok(Objective::size(marks)),
        Some((u, v)) => Err(format!("nodes {u} and {v} of the set are joined")),
    },
    baselines: &[
        Baseline {
            name: "min_degree",
            find: baselines::min_degree_independent_set,
            n_updates: baselines::linear_updates,
        },
        Baseline {
            name: "max_degree_cover",
            find: baselines::max_degree_complement,
            n_updates: baselines::linear_updates,
        },
    ],
};

/// Each pick puts one node in the set and removes it with its neighbours.
///
/// Candidates are the nodes that are still present. Each pick earns 1, so the return is the set's
/// size. The episode terminates when no node is left, and then no node can be added to the set.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MaximumIndependentSet};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = Episode::<MaximumIndependentSet>::new(star.into());
/// episode.step(1)?;
/// assert_eq!(episode.candidates(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumIndependentSet {
    residual: ResidualGraph,
}

impl ProblemState for MaximumIndependentSet {
    fn new(graph: Arc<Graph>) -> MaximumIndependentSet {
        MaximumIndependentSet {
            residual: ResidualGraph::new(graph),
        }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.residual
    }

    fn pick(&mut self, node: u32) -> f64 {
        self.residual.remove(node);
        let graph = Arc::clone(self.residual.graph());
        for &neighbor in graph.neighbors(node) {
            self.residual.remove(neighbor);
        }
        1.0
    }

    fn follows_residual(&self) -> bool {
        true
    }

    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "is in the set already",
            false => "has a neighbour in the set",
        }
    }
}
