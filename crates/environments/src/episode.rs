//! The episode of a graph problem: what every problem shares (picks, the step limit, the end,
//! refused picks) around the [`ProblemState`], which holds what differs.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::environment::{Environment, Step};
use crate::error::Error;
use crate::residual::ResidualGraph;
use crate::space::{GraphValue, Space, Value};

/// The state of a graph problem: what a pick changes, and what a policy reads.
///
/// Node numbers that reach its methods are nodes of the graph. A state follows from the graph and
/// the picks alone: neither rank nor time enters, so all ranks can play the same episode.
pub trait ProblemState: CloneState + Send + Sync {
    /// The state before the first pick.
    fn new(graph: Arc<Graph>) -> Self
    where
        Self: Sized;

    /// The nodes that take part in the sums over neighbours, with the edges between them.
    fn residual(&self) -> &ResidualGraph;

    /// Puts a candidate in the answer; gives the change of the objective, negative for a cost.
    fn pick(&mut self, node: u32) -> f64;

    /// True if no candidate is left: by default, when no node is present.
    fn is_complete(&self) -> bool {
        self.residual().n_present() == 0
    }

    /// True if a node may be picked now: by default, when it is present.
    fn is_candidate(&self, node: u32) -> bool {
        self.residual().is_present(node)
    }

    /// Writes a flag for each node from `first` on: true if it may be picked now.
    fn write_candidates(&self, first: u32, out: &mut [bool]) {
        for (node, out) in (first..).zip(out) {
            *out = self.is_candidate(node);
        }
    }

    /// True if the residual graph is all that a policy's scores follow from: candidates are the present nodes, and
    /// [`ProblemState::edge_scale`] is the default one. Scores in closed form are then kept from pick to pick, and a pick costs the nodes
    /// around it; else all nodes are scored at each step.
    fn follows_residual(&self) -> bool {
        false
    }

    /// The reason why a node is no candidate, as a clause: one for nodes of the answer, one for
    /// others.
    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "is in the answer already",
            false => "has left the residual graph",
        }
    }

    /// The reward that a policy learns from, by the change of the objective that a pick made.
    ///
    /// It should not grow with weights or degrees, or a policy trained on small graphs serves no
    /// large one.
    fn reward(&self, change: f64) -> f32 {
        change as f32
    }

    /// The weight of an edge that makes states of all sizes alike: by default 1 / the largest
    /// degree.
    fn edge_scale(&self) -> f32 {
        let degrees = self.residual().degrees().iter();
        1.0 / degrees.copied().max().unwrap_or(0).max(1) as f32
    }

    /// Appends the further features of a node, as many as [`crate::Problem::n_node_features`] says,
    /// in a state whose edges weigh `scale`.
    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let _ = (node, scale, features);
    }

    /// The state as a value of [`ProblemState::observation_space`]; `in_answer` has a mark for each
    /// node.
    fn observation(&self, in_answer: &[bool]) -> GraphValue {
        let _ = in_answer;
        self.residual().to_value()
    }

    /// The space of observations.
    fn observation_space(&self) -> Space {
        ResidualGraph::space()
    }
}

/// Copies of a state behind a pointer; every state that is `Clone` has them.
pub trait CloneState {
    /// A copy of this state.
    fn clone_boxed(&self) -> Box<dyn ProblemState>;
}

impl<S: ProblemState + Clone + 'static> CloneState for S {
    fn clone_boxed(&self) -> Box<dyn ProblemState> {
        Box::new(self.clone())
    }
}

/// An episode of a graph problem: each step puts one node in the answer.
///
/// `Episode<S>` is an [`Environment`] whose state has a known type; `Episode` alone is one of any
/// problem, as [`crate::Problem::begin`] gives it.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MaximumIndependentSet};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = Episode::<MaximumIndependentSet>::new(star.into());
/// assert_eq!(episode.step(1)?.reward, 1.0);
/// assert_eq!(episode.candidates(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Episode<S: ProblemState + ?Sized = dyn ProblemState> {
    picks: Vec<u32>,
    in_answer: Vec<bool>,
    step_limit: u32,
    is_done: bool,
    state: Box<S>,
}

impl<S: ProblemState> Episode<S> {
    /// The first episode on `graph`.
    pub fn new(graph: Arc<Graph>) -> Episode<S> {
        let n_nodes = graph.n_nodes() as usize;
        let state = Box::new(S::new(graph));
        Episode {
            picks: Vec::new(),
            in_answer: vec![false; n_nodes],
            step_limit: u32::MAX,
            is_done: state.is_complete(),
            state,
        }
    }

    /// Truncates episodes after `step_limit` steps.
    pub fn with_step_limit(mut self, step_limit: u32) -> Episode<S> {
        self.step_limit = step_limit;
        self.is_done = self.is_over();
        self
    }
}

impl<S: ProblemState + 'static> Episode<S> {
    /// The same episode, as one of any problem.
    pub fn erased(self) -> Episode {
        Episode {
            picks: self.picks,
            in_answer: self.in_answer,
            step_limit: self.step_limit,
            is_done: self.is_done,
            state: self.state,
        }
    }
}

impl<S: ProblemState + ?Sized> Episode<S> {
    /// The state of the problem.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The picked nodes, in order.
    pub fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// For each node whether it is in the answer.
    pub fn in_answer(&self) -> &[bool] {
        &self.in_answer
    }

    /// True if the episode ended, by itself or by its step limit.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// True if a node may be picked now; false for a number that is no node.
    pub fn is_candidate(&self, node: u32) -> bool {
        !self.is_done && (node as usize) < self.in_answer.len() && self.state.is_candidate(node)
    }

    /// Writes a flag for each node from `first` on: true if it may be picked now.
    ///
    /// # Panics
    /// When the graph has not as many nodes.
    pub fn write_candidates(&self, first: u32, out: &mut [bool]) {
        match self.is_done {
            true => out.fill(false),
            false => self.state.write_candidates(first, out),
        }
    }

    /// Puts a candidate in the answer; gives [`ProblemState::reward`].
    ///
    /// # Errors
    /// When the node is no candidate or the episode is done; the state stays as it was.
    pub fn pick(&mut self, node: u32) -> Result<f32, Error> {
        let change = self.take(node)?;
        Ok(self.state.reward(change))
    }

    /// Puts a candidate in the answer; gives the change of the objective.
    fn take(&mut self, node: u32) -> Result<f64, Error> {
        if self.is_done {
            let n_steps = self.picks.len() as u32;
            return Err(Error::Ended { n_steps });
        }
        if !self.is_candidate(node) {
            let reason = match self.in_answer.get(node as usize) {
                None => "is no node of the graph",
                Some(&is_picked) => self.state.refusal(is_picked),
            };
            let action = node;
            return Err(Error::NotACandidate { action, reason });
        }
        let change = self.state.pick(node);
        self.in_answer[node as usize] = true;
        self.picks.push(node);
        self.is_done = self.is_over();
        Ok(change)
    }

    fn is_over(&self) -> bool {
        self.state.is_complete() || self.picks.len() >= self.step_limit as usize
    }
}

impl<S: ProblemState + Clone> Clone for Episode<S> {
    fn clone(&self) -> Episode<S> {
        Episode {
            picks: self.picks.clone(),
            in_answer: self.in_answer.clone(),
            state: self.state.clone(),
            ..*self
        }
    }
}

impl Clone for Episode {
    fn clone(&self) -> Episode {
        Episode {
            picks: self.picks.clone(),
            in_answer: self.in_answer.clone(),
            state: self.state.clone_boxed(),
            ..*self
        }
    }
}

impl<S: ProblemState> Environment for Episode<S> {
    type State = S;

    fn reset(&mut self) {
        let graph = Arc::clone(self.state.residual().graph());
        *self = Episode::new(graph).with_step_limit(self.step_limit);
    }

    fn step(&mut self, action: u32) -> Result<Step, Error> {
        let change = self.take(action)?;
        let terminated = self.state.is_complete();
        Ok(Step {
            reward: change.min(f64::from(f32::MAX)) as f32,
            terminated,
            truncated: self.is_done && !terminated,
        })
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn n_actions(&self) -> u32 {
        self.in_answer.len() as u32
    }

    fn is_candidate(&self, action: u32) -> bool {
        Episode::is_candidate(self, action)
    }

    fn state(&self) -> &S {
        &self.state
    }

    fn observation(&self) -> Value {
        Value::Graph(self.state.observation(&self.in_answer))
    }

    fn observation_space(&self) -> Space {
        self.state.observation_space()
    }
}
