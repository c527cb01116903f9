//! Minimum vertex cover, one node a step: the fewest nodes that touch every edge.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::{Error, ErrorKind};
use crate::residual::ResidualGraph;
use crate::space::{Space, Value};

/// Minimum vertex cover as an episode: each step puts one node in the cover and removes it with its edges.
///
/// Candidates are the nodes outside the cover with an edge left. Each pick costs 1, so the return is minus the cover's size.
/// The episode terminates when no edge is left. An observation is [`ResidualGraph::to_value`].
///
/// ```
/// use shardgraph_environments::{Environment, MinimumVertexCover};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = MinimumVertexCover::new(star.into());
/// assert!(episode.step(0)?.terminated);
/// assert_eq!(episode.picks(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinimumVertexCover {
    rest: ResidualGraph,
    picks: Vec<u32>,
    step_limit: u32,
}

impl MinimumVertexCover {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> MinimumVertexCover {
        MinimumVertexCover {
            rest: ResidualGraph::new(graph),
            picks: Vec::new(),
            step_limit: u32::MAX,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> MinimumVertexCover {
        self.step_limit = step_limit;
        self
    }

    /// The picked nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// Which nodes are in the cover.
    pub fn in_cover(&self) -> &[bool] {
        self.rest.removed()
    }

    /// The number of edges that the cover does not touch yet.
    pub fn n_uncovered_edges(&self) -> u64 {
        self.rest.n_edges()
    }
}

impl Environment for MinimumVertexCover {
    type State = ResidualGraph;

    fn reset(&mut self) {
        self.rest.restore();
        self.picks.clear();
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let n_steps = self.picks.len() as u32;
        if self.is_done() {
            return Err(ErrorKind::Ended { n_steps }.into());
        }
        if !self.is_candidate(action) {
            let reason = match self.rest.removed().get(action as usize) {
                None => "is no node of the graph",
                Some(true) => "is in the cover already",
                Some(false) => "has no uncovered edge",
            };
            return Err(ErrorKind::NotACandidate { action, reason }.into());
        }
        self.rest.remove(action);
        self.picks.push(action);
        let terminated = self.rest.n_edges() == 0;
        Ok(Step {
            reward: -1.0,
            terminated,
            truncated: !terminated && n_steps + 1 >= self.step_limit,
        })
    }

    fn is_done(&self) -> bool {
        self.rest.n_edges() == 0 || self.picks.len() >= self.step_limit as usize
    }

    fn n_actions(&self) -> u32 {
        self.rest.graph().n_nodes()
    }

    fn is_candidate(&self, action: u32) -> bool {
        let degree = self.rest.degrees().get(action as usize);
        !self.is_done() && degree.is_some_and(|&degree| degree > 0)
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
