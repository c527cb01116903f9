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
        Box::new(DominationEpisode {
            most_new: graph.max_degree() + 1,
            environment: MinimumDominatingSet::new(graph),
        })
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
struct DominationEpisode {
    environment: MinimumDominatingSet,
    /// The most that any node would dominate newly.
    most_new: u32,
}

impl Episode for DominationEpisode {
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        let reward = self.environment.step(node)?.reward;
        let n_new = self.environment.state().n_new().iter();
        self.most_new = n_new.copied().max().unwrap_or(0);
        Ok(reward)
    }

    fn is_done(&self) -> bool {
        self.environment.is_done()
    }

    fn is_candidate(&self, node: u32) -> bool {
        self.environment.is_candidate(node)
    }

    fn picks(&self) -> &[u32] {
        self.environment.picks()
    }

    fn in_answer(&self, node: u32) -> bool {
        self.environment.state().in_set()[node as usize]
    }

    fn is_present(&self, node: u32) -> bool {
        !self.environment.state().residual().removed()[node as usize]
    }

    fn degrees(&self) -> &[u32] {
        self.environment.state().residual().degrees()
    }

    /// What a node would dominate goes in as a share of the most that any would: late in an episode it is few for each, however
    /// large the degrees still are.
    fn push_features(&self, node: u32, _: f32, features: &mut Vec<f32>) {
        let state = self.environment.state();
        let is_open = !state.dominated()[node as usize];
        let share = state.n_new()[node as usize] as f32 / self.most_new.max(1) as f32;
        features.extend([f32::from(is_open), share]);
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
    }
}
