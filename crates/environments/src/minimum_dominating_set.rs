//! Minimum dominating set, one node a step: the fewest nodes such that every other node has one of them as neighbour.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::{Error, ErrorKind};
use crate::residual::ResidualGraph;
use crate::space::{GraphValue, Space, Value};

/// A graph with a set of nodes, what the set dominates, and what each node would dominate beside it.
///
/// A node dominates itself and its neighbours. The residual graph has the nodes that would dominate something new; all nodes
/// that are not dominated are among them.
#[derive(Clone, Debug)]
pub struct Domination {
    rest: ResidualGraph,
    in_set: Vec<bool>,
    dominated: Vec<bool>,
    n_new: Vec<u32>,
    n_undominated: u32,
}

impl Domination {
    /// The empty set.
    pub fn new(graph: Arc<Graph>) -> Domination {
        let mut state = Domination {
            rest: ResidualGraph::new(graph),
            in_set: Vec::new(),
            dominated: Vec::new(),
            n_new: Vec::new(),
            n_undominated: 0,
        };
        state.restore();
        state
    }

    /// Back to the empty set.
    pub fn restore(&mut self) {
        self.rest.restore();
        let graph = self.rest.graph();
        let n_nodes = graph.n_nodes();
        for marks in [&mut self.in_set, &mut self.dominated] {
            marks.clear();
            marks.resize(n_nodes as usize, false);
        }
        self.n_new.clear();
        self.n_new.extend((0..n_nodes).map(|v| graph.degree(v) + 1));
        self.n_undominated = n_nodes;
    }

    /// Puts `v` in the set.
    ///
    /// # Panics
    /// When the graph has no node `v`.
    ///
    /// # Complexity
    /// O(deg v), and O(deg w) for each node w that is newly dominated: O(n + m) for a whole episode.
    pub fn add(&mut self, v: u32) {
        self.in_set[v as usize] = true;
        let graph = self.rest.graph().clone();
        self.dominate(&graph, v);
        for &w in graph.neighbors(v) {
            self.dominate(&graph, w);
        }
    }

    fn dominate(&mut self, graph: &Graph, w: u32) {
        if std::mem::replace(&mut self.dominated[w as usize], true) {
            return;
        }
        self.n_undominated -= 1;
        self.lower(w);
        for &x in graph.neighbors(w) {
            self.lower(x);
        }
    }

    fn lower(&mut self, x: u32) {
        self.n_new[x as usize] -= 1;
        if self.n_new[x as usize] == 0 {
            self.rest.remove(x);
        }
    }

    /// The graph of the nodes that would dominate something new.
    pub fn residual(&self) -> &ResidualGraph {
        &self.rest
    }

    /// Which nodes are in the set.
    pub fn in_set(&self) -> &[bool] {
        &self.in_set
    }

    /// Which nodes are in the set or have a neighbour there.
    pub fn dominated(&self) -> &[bool] {
        &self.dominated
    }

    /// How many nodes each node would dominate that are not dominated yet, itself included.
    pub fn n_new(&self) -> &[u32] {
        &self.n_new
    }
}

/// Minimum dominating set as an episode: each step puts one node in the set.
///
/// Candidates are the nodes that would dominate something new. Each pick costs 1, so the return is minus the set's size. The
/// episode terminates when every node is dominated. Every smallest dominating set can be picked so, in any order: each of its nodes
/// dominates one that no other does.
///
/// An observation has the edges between candidates, and for each node whether it is in the set and whether it is dominated (0 or 1), and
/// how many nodes it would dominate newly.
///
/// ```
/// use shardgraph_environments::{Environment, MinimumDominatingSet};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = MinimumDominatingSet::new(star.into());
/// episode.step(1)?;
/// assert_eq!(episode.state().n_new(), [2, 0, 1, 1]); // 0 and 1 are dominated
/// assert!(episode.step(0)?.terminated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinimumDominatingSet {
    state: Domination,
    picks: Vec<u32>,
    step_limit: u32,
}

impl MinimumDominatingSet {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> MinimumDominatingSet {
        MinimumDominatingSet {
            state: Domination::new(graph),
            picks: Vec::new(),
            step_limit: u32::MAX,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> MinimumDominatingSet {
        self.step_limit = step_limit;
        self
    }

    /// The picked nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }
}

impl Environment for MinimumDominatingSet {
    type State = Domination;

    fn reset(&mut self) {
        self.state.restore();
        self.picks.clear();
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let n_steps = self.picks.len() as u32;
        if self.is_done() {
            return Err(ErrorKind::Ended { n_steps }.into());
        }
        if !self.is_candidate(action) {
            let reason = match self.state.in_set.get(action as usize) {
                None => "is no node of the graph",
                Some(true) => "is in the set already",
                Some(false) => "dominates nothing new",
            };
            return Err(ErrorKind::NotACandidate { action, reason }.into());
        }
        self.state.add(action);
        self.picks.push(action);
        let terminated = self.state.n_undominated == 0;
        Ok(Step {
            reward: -1.0,
            terminated,
            truncated: !terminated && n_steps + 1 >= self.step_limit,
        })
    }

    fn is_done(&self) -> bool {
        self.state.n_undominated == 0 || self.picks.len() >= self.step_limit as usize
    }

    fn n_actions(&self) -> u32 {
        self.state.rest.graph().n_nodes()
    }

    fn is_candidate(&self, action: u32) -> bool {
        let n_new = self.state.n_new.get(action as usize);
        !self.is_done() && n_new.is_some_and(|&n_new| n_new > 0)
    }

    fn state(&self) -> &Domination {
        &self.state
    }

    fn observation(&self) -> Value {
        let state = &self.state;
        let of_node = |v: usize| {
            let marks = [state.in_set[v], state.dominated[v]].map(f32::from);
            [marks[0], marks[1], state.n_new[v] as f32]
        };
        let nodes = 0..state.n_new.len();
        Value::Graph(GraphValue {
            node_features: nodes.flat_map(of_node).collect(),
            ..state.rest.to_value()
        })
    }

    fn observation_space(&self) -> Space {
        Space::graph(3, 0).expect("three features")
    }
}
