//! Maximum clique. Its states are residual graphs of the graph itself, the common neighbours of the clique, so the complement is
//! never made and the policy reads degrees among them.

use std::sync::Arc;

use shardgraph_environments::{MaximumClique, baselines, verify};
use shardgraph_graph::Graph;

use super::{Baseline, Episode, Objective, OnResidual, Problem, Sense, size};

/// The most nodes of which every two are joined.
pub static MAXIMUM_CLIQUE: Clique = Clique;

/// The problem of [`MAXIMUM_CLIQUE`].
#[derive(Debug)]
pub struct Clique;

impl Problem for Clique {
    fn name(&self) -> &'static str {
        "clique"
    }

    fn title(&self) -> &'static str {
        "maximum clique"
    }

    fn objective_name(&self) -> &'static str {
        "clique size"
    }

    fn sense(&self) -> Sense {
        Sense::Maximise
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        Box::new(OnResidual {
            environment: MaximumClique::new(graph),
            picks: MaximumClique::picks,
            members: MaximumClique::in_clique,
        })
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        match verify::unjoined_pair(graph, marks) {
            None => Ok(size(marks)),
            Some((u, v)) => Err(format!("nodes {u} and {v} of the clique are not joined")),
        }
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![("max_degree", baselines::max_degree_clique)]
    }
}
