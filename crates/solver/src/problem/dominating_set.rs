//! Minimum dominating set. Whether a node is dominated, and how many it would dominate, are features of it: the general path
//! of the layers, on the graph of the nodes that would dominate something new.

use std::sync::{Arc, OnceLock};

use shardgraph_environments::{Environment, MinimumDominatingSet, baselines, verify};
use shardgraph_graph::Graph;

use super::{Baseline, Episode, Objective, Problem, Sense, size};
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
            environment: MinimumDominatingSet::new(graph),
            most_new: OnceLock::new(),
        })
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        match verify::undominated_node(graph, marks) {
            None => Ok(size(marks)),
            Some(v) => Err(format!("node {v} is not dominated")),
        }
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![("most_new", baselines::most_new_dominating_set)]
    }
}

#[derive(Clone)]
struct DominationEpisode {
    environment: MinimumDominatingSet,
    /// The most that any node would dominate newly, once it was asked for in this state.
    most_new: OnceLock<u32>,
}

impl Episode for DominationEpisode {
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        let reward = self.environment.step(node)?.reward;
        self.most_new = OnceLock::new();
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
        let most = || state.n_new().iter().copied().max().unwrap_or(0).max(1);
        let most_new = *self.most_new.get_or_init(most);
        let share = state.n_new()[node as usize] as f32 / most_new as f32;
        features.extend([f32::from(is_open), share]);
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
    }
}
