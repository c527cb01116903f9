//! Minimum vertex cover, as all problems go; [`crate::solve`] is the fast way for this one.

use std::sync::Arc;

use shardgraph_environments::{MinimumVertexCover, baselines, verify};
use shardgraph_graph::Graph;

use super::{Baseline, Episode, Objective, OnResidual, Problem, Sense, size};

/// The fewest nodes that touch every edge.
pub static MINIMUM_VERTEX_COVER: VertexCover = VertexCover;

/// The problem of [`MINIMUM_VERTEX_COVER`].
#[derive(Debug)]
pub struct VertexCover;

impl Problem for VertexCover {
    fn name(&self) -> &'static str {
        "mvc"
    }

    fn title(&self) -> &'static str {
        "minimum vertex cover"
    }

    fn objective_name(&self) -> &'static str {
        "cover size"
    }

    fn sense(&self) -> Sense {
        Sense::Minimise
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        Box::new(OnResidual {
            environment: MinimumVertexCover::new(graph),
            picks: MinimumVertexCover::picks,
            members: MinimumVertexCover::in_cover,
        })
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        match verify::uncovered_edge(graph, marks) {
            None => Ok(size(marks)),
            Some((u, v)) => Err(format!("the edge between nodes {u} and {v} is not covered")),
        }
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![
            ("max_degree", baselines::max_degree_greedy),
            ("max_degree_d2", baselines::max_degree_greedy_d2),
            ("min_degree_independent_set", baselines::min_degree_cover),
        ]
    }
}
