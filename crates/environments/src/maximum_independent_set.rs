//! Maximum independent set, one node a step: the most nodes of which no two are joined. Its complement is a vertex cover.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::{Error, ErrorKind};
use crate::residual::ResidualGraph;
use crate::space::{Space, Value};

/// Maximum independent set as an episode: each step puts one node in the set and removes it with its neighbours.
///
/// Candidates are the nodes that are still present. Each pick earns 1, so the return is the set's size. The episode
/// terminates when no node is left, and then no node can be added to the set. An observation is [`ResidualGraph::to_value`].
///
/// ```
/// use shardgraph_environments::{Environment, MaximumIndependentSet};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = MaximumIndependentSet::new(star.into());
/// episode.step(1)?;
/// assert_eq!(episode.candidates(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumIndependentSet {
    rest: ResidualGraph,
    picks: Vec<u32>,
    in_set: Vec<bool>,
    step_limit: u32,
}

impl MaximumIndependentSet {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> MaximumIndependentSet {
        MaximumIndependentSet {
            in_set: vec![false; graph.n_nodes() as usize],
            rest: ResidualGraph::new(graph),
            picks: Vec::new(),
            step_limit: u32::MAX,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> MaximumIndependentSet {
        self.step_limit = step_limit;
        self
    }

    /// The picked nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// Which nodes are in the set.
    pub fn in_set(&self) -> &[bool] {
        &self.in_set
    }

    fn take(&mut self, v: u32) {
        self.in_set[v as usize] = true;
        self.picks.push(v);
        self.rest.remove(v);
        let graph = self.rest.graph().clone();
        for &u in graph.neighbors(v) {
            self.rest.remove(u);
        }
    }
}

impl Environment for MaximumIndependentSet {
    type State = ResidualGraph;

    fn reset(&mut self) {
        self.rest.restore();
        self.picks.clear();
        self.in_set.fill(false);
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let n_steps = self.picks.len() as u32;
        if self.is_done() {
            return Err(ErrorKind::Ended { n_steps }.into());
        }
        if !self.is_candidate(action) {
            let reason = match self.in_set.get(action as usize) {
                None => "is no node of the graph",
                Some(true) => "is in the set already",
                Some(false) => "has a neighbour in the set",
            };
            return Err(ErrorKind::NotACandidate { action, reason }.into());
        }
        self.take(action);
        let terminated = self.rest.n_present() == 0;
        Ok(Step {
            reward: 1.0,
            terminated,
            truncated: !terminated && n_steps + 1 >= self.step_limit,
        })
    }

    fn is_done(&self) -> bool {
        self.rest.n_present() == 0 || self.picks.len() >= self.step_limit as usize
    }

    fn n_actions(&self) -> u32 {
        self.rest.graph().n_nodes()
    }

    fn is_candidate(&self, action: u32) -> bool {
        let removed = self.rest.removed().get(action as usize);
        !self.is_done() && removed.is_some_and(|removed| !removed)
    }

    fn state(&self) -> &ResidualGraph {
        &self.rest
    }

    fn observation(&self) -> Value {
        Value::Graph(self.rest.to_value())
    }

    fn observation_space(&self) -> Space {
        ResidualGraph::space()
    }
}
