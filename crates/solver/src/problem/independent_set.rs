//! Maximum independent set.

use std::sync::Arc;

use shardgraph_environments::{MaximumIndependentSet, baselines, verify};
use shardgraph_graph::Graph;

use super::{Baseline, Episode, Objective, OnResidual, Problem, Sense, size};

/// The most nodes of which no two are joined.
pub static MAXIMUM_INDEPENDENT_SET: IndependentSet = IndependentSet;

/// The problem of [`MAXIMUM_INDEPENDENT_SET`].
#[derive(Debug)]
pub struct IndependentSet;

impl Problem for IndependentSet {
    fn name(&self) -> &'static str {
        "mis"
    }

    fn title(&self) -> &'static str {
        "maximum independent set"
    }

    fn objective_name(&self) -> &'static str {
        "set size"
    }

    fn sense(&self) -> Sense {
        Sense::Maximise
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        Box::new(OnResidual {
            environment: MaximumIndependentSet::new(graph),
            picks: MaximumIndependentSet::picks,
            members: MaximumIndependentSet::in_set,
        })
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        match verify::joined_pair(graph, marks) {
            None => Ok(size(marks)),
            Some((u, v)) => Err(format!("nodes {u} and {v} of the set are joined")),
        }
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![
            ("min_degree", baselines::min_degree_independent_set),
            ("max_degree_cover", |graph| {
                let mut outside = vec![true; graph.n_nodes() as usize];
                for v in baselines::max_degree_greedy(graph) {
                    outside[v as usize] = false;
                }
                let nodes = 0..graph.n_nodes();
                nodes.filter(|&v| outside[v as usize]).collect()
            }),
        ]
    }
}
