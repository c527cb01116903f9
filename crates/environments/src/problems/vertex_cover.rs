//! Minimum vertex cover, one node a step: the fewest nodes that touch every edge.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::episode::{Episode, ProblemState};
use crate::problem::{Baseline, Objective, Problem, Sense};
use crate::residual::ResidualGraph;
use crate::{baselines, verify};

/// The fewest nodes that touch every edge.
pub static MINIMUM_VERTEX_COVER: Problem = Problem {
    name: "mvc",
    title: "minimum vertex cover",
    objective_name: "cover size",
    sense: Sense::Minimise,
    n_node_features: 0,
    reads_weights: false,
    begin: |graph| Episode::<MinimumVertexCover>::new(graph).erased(),
    check: |graph, marks| match verify::uncovered_edge(graph, marks) {
        None => Ok(Objective::size(marks)),
        Some((u, v)) => Err(format!("the edge between nodes {u} and {v} is not covered")),
    },
    baselines: &[
        Baseline {
            name: "max_degree",
            find: baselines::max_degree_greedy,
            n_updates: baselines::linear_updates,
        },
        Baseline {
            name: "max_degree_d2",
            find: baselines::max_degree_greedy_d2,
            n_updates: baselines::squared_degrees,
        },
        Baseline {
            name: "min_degree_independent_set",
            find: baselines::min_degree_cover,
            n_updates: baselines::linear_updates,
        },
    ],
};

/// Each pick puts one node in the cover and removes it with its edges.
///
/// Candidates are the nodes outside the cover with an edge left. Each pick costs 1, so the return
/// is minus the cover's size. The episode terminates when no edge is left.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MinimumVertexCover};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = Episode::<MinimumVertexCover>::new(star.into());
/// assert!(episode.step(0)?.terminated);
/// assert_eq!(episode.picks(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinimumVertexCover {
    residual: ResidualGraph,
}

impl ProblemState for MinimumVertexCover {
    fn new(graph: Arc<Graph>) -> MinimumVertexCover {
        MinimumVertexCover {
            residual: ResidualGraph::new(graph),
        }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.residual
    }

    fn pick(&mut self, node: u32) -> f64 {
        self.residual.remove(node);
        -1.0
    }

    fn is_complete(&self) -> bool {
        self.residual.n_edges() == 0
    }

    fn is_candidate(&self, node: u32) -> bool {
        self.residual.degrees()[node as usize] > 0
    }

    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "is in the cover already",
            false => "has no uncovered edge",
        }
    }
}
