//! Maximum cut, one node a step: the two sides between which the edges weigh most.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::{Error, ErrorKind};
use crate::space::{GraphValue, Space, Value};

/// A graph whose nodes stand on one of two sides, with what moving each node over would add to the cut.
///
/// # Units
/// Edges without weights weigh 1. Gains and the cut's weight are f64 sums of f32 weights: exact for weights that are integers, or
/// alike in size.
#[derive(Clone, Debug)]
pub struct Cut {
    graph: Arc<Graph>,
    moved: Vec<bool>,
    gains: Vec<f64>,
    weight: f64,
    /// How many nodes that did not move would add to the cut.
    n_gaining: u32,
}

impl Cut {
    /// All nodes on one side.
    pub fn new(graph: Arc<Graph>) -> Cut {
        let mut cut = Cut {
            graph,
            moved: Vec::new(),
            gains: Vec::new(),
            weight: 0.0,
            n_gaining: 0,
        };
        cut.restore();
        cut
    }

    /// Brings all nodes back to the first side.
    pub fn restore(&mut self) {
        let n_nodes = self.graph.n_nodes();
        self.moved.clear();
        self.moved.resize(n_nodes as usize, false);
        self.gains.clear();
        let total = |v| match self.graph.weights_of(v) {
            Some(weights) => weights.iter().copied().map(f64::from).sum(),
            None => f64::from(self.graph.degree(v)),
        };
        self.gains.extend((0..n_nodes).map(total));
        self.weight = 0.0;
        self.n_gaining = self.gains.iter().filter(|&&gain| gain > 0.0).count() as u32;
    }

    /// Moves `v` to the second side, for good; gives what the cut gained.
    ///
    /// # Panics
    /// When the graph has no node `v`, or it was moved before.
    ///
    /// # Complexity
    /// O(deg v)
    pub fn move_over(&mut self, v: u32) -> f64 {
        assert!(!self.moved[v as usize], "node {v} was moved before");
        let gain = self.gains[v as usize];
        self.n_gaining -= u32::from(gain > 0.0);
        self.moved[v as usize] = true;
        self.gains[v as usize] = -gain;
        self.weight += gain;
        let graph = Arc::clone(&self.graph);
        let weights = graph.weights_of(v);
        for (i, &u) in graph.neighbors(v).iter().enumerate() {
            let weight = weights.map_or(1.0, |weights| f64::from(weights[i]));
            self.change_edge(u, weight);
        }
        gain
    }

    /// The other end of one of the edges of `u` has moved over.
    fn change_edge(&mut self, u: u32, weight: f64) {
        let gain = &mut self.gains[u as usize];
        if self.moved[u as usize] {
            *gain += 2.0 * weight;
            return;
        }
        self.n_gaining -= u32::from(*gain > 0.0);
        *gain -= 2.0 * weight;
        self.n_gaining += u32::from(*gain > 0.0);
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Which nodes are on the second side.
    pub fn moved(&self) -> &[bool] {
        &self.moved
    }

    /// What the cut gains when a node changes its side, whichever it is on; below 0 for what it loses.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// The weight of the edges between the sides.
    pub fn weight(&self) -> f64 {
        self.weight
    }
}

/// Maximum cut as an episode: each step moves one node to the second side, and none moves back.
///
/// Candidates are the nodes of the first side that add to the cut. What the cut gains is the reward, so the return is
/// the cut's weight. The episode terminates when no candidate is left. With weights that are not negative a best cut can be
/// reached: take a smallest side of one; each of its nodes, in any order, adds to the cut. With negative weights it can be out of
/// reach.
///
/// An observation has every edge with its weight as feature, and for each node its side (0 or 1) and its gain.
///
/// # Source
/// The states and actions are those of S2V-DQN (Khalil et al., 2017), which lets nodes move that add nothing.
///
/// ```
/// use shardgraph_environments::{Environment, MaximumCut};
/// use shardgraph_graph::Graph;
///
/// let square = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])?;
/// let mut episode = MaximumCut::new(square.into());
/// assert_eq!(episode.step(0)?.reward, 2.0);
/// assert_eq!(episode.candidates(), [2]); // 1 and 3 would add nothing
/// assert!(episode.step(2)?.terminated);
/// assert_eq!(episode.state().weight(), 4.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumCut {
    cut: Cut,
    picks: Vec<u32>,
    step_limit: u32,
}

impl MaximumCut {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> MaximumCut {
        MaximumCut {
            cut: Cut::new(graph),
            picks: Vec::new(),
            step_limit: u32::MAX,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> MaximumCut {
        self.step_limit = step_limit;
        self
    }

    /// The moved nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }
}

impl Environment for MaximumCut {
    type State = Cut;

    fn reset(&mut self) {
        self.cut.restore();
        self.picks.clear();
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let n_steps = self.picks.len() as u32;
        if self.is_done() {
            return Err(ErrorKind::Ended { n_steps }.into());
        }
        if !self.is_candidate(action) {
            let reason = match self.cut.moved.get(action as usize) {
                None => "is no node of the graph",
                Some(true) => "has moved already",
                Some(false) => "adds nothing to the cut",
            };
            return Err(ErrorKind::NotACandidate { action, reason }.into());
        }
        let gain = self.cut.move_over(action);
        self.picks.push(action);
        let terminated = self.cut.n_gaining == 0;
        Ok(Step {
            reward: gain.min(f64::from(f32::MAX)) as f32,
            terminated,
            truncated: !terminated && n_steps + 1 >= self.step_limit,
        })
    }

    fn is_done(&self) -> bool {
        self.cut.n_gaining == 0 || self.picks.len() >= self.step_limit as usize
    }

    fn n_actions(&self) -> u32 {
        self.cut.graph.n_nodes()
    }

    fn is_candidate(&self, action: u32) -> bool {
        let v = action as usize;
        let is_open = self.cut.moved.get(v).is_some_and(|moved| !moved);
        is_open && self.cut.gains[v] > 0.0 && !self.is_done()
    }

    fn state(&self) -> &Cut {
        &self.cut
    }

    fn observation(&self) -> Value {
        let Cut {
            graph,
            moved,
            gains,
            ..
        } = &self.cut;
        let limit = f64::from(f32::MAX);
        let of_node =
            |(&moved, &gain): (&bool, &f64)| [f32::from(moved), gain.clamp(-limit, limit) as f32];
        Value::Graph(GraphValue {
            n_nodes: graph.n_nodes(),
            edges: graph.edges().map(|(u, v)| [u, v]).collect(),
            node_features: moved.iter().zip(gains).flat_map(of_node).collect(),
            edge_features: graph.weighted_edges().map(|edge| edge.2).collect(),
        })
    }

    fn observation_space(&self) -> Space {
        Space::graph(2, 1).expect("three features")
    }
}
