//! Minimum dominating set. Whether a node is dominated, and how many it would dominate, are features of it: the general path
//! of the layers, on the graph of the nodes that would dominate something new.

use std::sync::Arc;

use shardgraph_environments::{Environment, MinimumDominatingSet, baselines, verify};
use shardgraph_graph::Graph;

use super::{Episode, Objective, Problem, Sense, size};
use crate::Error;

/// The fewest nodes such that every other node has one of them as neighbour.
pub static MINIMUM_DOMINATING_SET: DominatingSet = DominatingSet;

/// The problem of [`MINIMUM_DOMINATING_SET`].
#[derive(Debug)]
pub struct DominatingSet;

impl Problem for DominatingSet {
    fn name(&self) -> &'static str {
        "dominating-set"
    }

    fn title(&self) -> &'static str {
        "minimum dominating set"
    }

    fn objective_name(&self) -> &'static str {
        "set size"
    }

    fn sense(&self) -> Sense {
        Sense::Minimise
    }

    fn n_node_features(&self) -> usize {
        2
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        Box::new(DominationEpisode(MinimumDominatingSet::new(graph)))
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        match verify::undominated_node(graph, marks) {
            None => Ok(size(marks)),
            Some(v) => Err(format!("node {v} is not dominated")),
        }
    }

    fn baselines(&self, graph: &Graph) -> Vec<(&'static str, Vec<u32>)> {
        vec![("most_new", baselines::most_new_dominating_set(graph))]
    }
}

#[derive(Clone)]
struct DominationEpisode(MinimumDominatingSet);

impl Episode for DominationEpisode {
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        Ok(self.0.step(node)?.reward)
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn is_candidate(&self, node: u32) -> bool {
        self.0.is_candidate(node)
    }

    fn picks(&self) -> &[u32] {
        self.0.picks()
    }

    fn in_answer(&self, node: u32) -> bool {
        self.0.state().in_set()[node as usize]
    }

    fn is_present(&self, node: u32) -> bool {
        !self.0.state().residual().removed()[node as usize]
    }

    fn degrees(&self) -> &[u32] {
        self.0.state().residual().degrees()
    }

    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let state = self.0.state();
        let is_open = !state.dominated()[node as usize];
        let n_new = state.n_new()[node as usize];
        features.extend([f32::from(is_open), n_new as f32 * scale]);
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
    }
}
