//! Maximum clique, one node a step: the most nodes of which every two are joined. It is the maximum independent set of the
//! complement, which is never made.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::{Error, ErrorKind};
use crate::residual::ResidualGraph;
use crate::space::{Space, Value};

/// Maximum clique as an episode: each step puts one node in the clique and keeps the common neighbours of the clique alone.
///
/// Candidates are the nodes that are joined to the whole clique; the residual graph is the one that they induce. Each pick earns 1,
/// so the return is the clique's size. The episode terminates when no node is left, and then no node can be added to the
/// clique. An observation is [`ResidualGraph::to_value`].
///
/// # Complexity
/// An episode takes O(n + m), whatever the complement's size: each node leaves once, with its edges.
///
/// ```
/// use shardgraph_environments::{Environment, MaximumClique};
/// use shardgraph_graph::Graph;
///
/// let kite = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?;
/// let mut episode = MaximumClique::new(kite.into());
/// episode.step(2)?;
/// assert_eq!(episode.candidates(), [0, 1, 3]);
/// episode.step(0)?;
/// assert_eq!(episode.candidates(), [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumClique {
    rest: ResidualGraph,
    /// The present nodes, ascending.
    common: Vec<u32>,
    picks: Vec<u32>,
    in_clique: Vec<bool>,
    step_limit: u32,
}

impl MaximumClique {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> MaximumClique {
        MaximumClique {
            common: (0..graph.n_nodes()).collect(),
            in_clique: vec![false; graph.n_nodes() as usize],
            rest: ResidualGraph::new(graph),
            picks: Vec::new(),
            step_limit: u32::MAX,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> MaximumClique {
        self.step_limit = step_limit;
        self
    }

    /// The picked nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// Which nodes are in the clique.
    pub fn in_clique(&self) -> &[bool] {
        &self.in_clique
    }

    fn take(&mut self, v: u32) {
        self.in_clique[v as usize] = true;
        self.picks.push(v);
        let graph = self.rest.graph().clone();
        let mut joined = graph.neighbors(v).iter().copied().peekable();
        let rest = &mut self.rest;
        self.common.retain(|&u| {
            while joined.next_if(|&w| w < u).is_some() {}
            let stays = joined.next_if_eq(&u).is_some();
            if !stays {
                rest.remove(u);
            }
            stays
        });
    }
}

impl Environment for MaximumClique {
    type State = ResidualGraph;

    fn reset(&mut self) {
        self.rest.restore();
        self.common.clear();
        self.common.extend(0..self.rest.graph().n_nodes());
        self.picks.clear();
        self.in_clique.fill(false);
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let n_steps = self.picks.len() as u32;
        if self.is_done() {
            return Err(ErrorKind::Ended { n_steps }.into());
        }
        if !self.is_candidate(action) {
            let reason = match self.in_clique.get(action as usize) {
                None => "is no node of the graph",
                Some(true) => "is in the clique already",
                Some(false) => "is not joined to the whole clique",
            };
            return Err(ErrorKind::NotACandidate { action, reason }.into());
        }
        self.take(action);
        let terminated = self.common.is_empty();
        Ok(Step {
            reward: 1.0,
            terminated,
            truncated: !terminated && n_steps + 1 >= self.step_limit,
        })
    }

    fn is_done(&self) -> bool {
        self.common.is_empty() || self.picks.len() >= self.step_limit as usize
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
