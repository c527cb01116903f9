//! The interface of all environments: reset, step, the actions that may be taken next, and the
//! spaces of observations and actions.

use crate::Error;
use crate::space::{Space, Value};

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The reward of this step.
    pub reward: f32,
    /// The episode reached its end: no reward follows, whatever is done.
    pub terminated: bool,
    /// The episode was stopped by a limit before its end: rewards would have followed.
    pub truncated: bool,
}

/// A problem as a sequence of choices among numbered actions.
///
/// # Determinism
/// A step depends on the state and the action alone; chance enters through who chooses, and, in
/// environments that have several first states, through [`Environment::reset_seeded`].
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MaximumIndependentSet};
/// use shardgraph_graph::Graph;
///
/// fn first_candidate(environment: &mut impl Environment) -> Result<f32, shardgraph_environments::Error> {
///     environment.reset();
///     let mut total = 0.0;
///     while !environment.is_done() {
///         total += environment.step(environment.candidates()[0])?.reward;
///     }
///     Ok(total)
/// }
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// let mut episode = Episode::<MaximumIndependentSet>::new(path.into());
/// assert_eq!(first_candidate(&mut episode)?, 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Environment {
    /// The state, in the form in which the environment keeps it.
    type State;

    /// Begins a new episode.
    fn reset(&mut self);

    /// Begins a new episode and keys the chance of this episode and of those that
    /// [`Environment::reset`] begins after it: environments with equal (seed, index) begin alike,
    /// and others are independent. Without chance it is a reset.
    fn reset_seeded(&mut self, seed: u64, index: u32) {
        let _ = (seed, index);
        self.reset();
    }

    /// Takes `action`.
    ///
    /// # Errors
    /// When `action` is not a candidate or the episode is done; the state stays as it was.
    fn step(&mut self, action: u32) -> Result<Step, Error>;

    /// True if the episode ended, by itself or by a limit.
    fn is_done(&self) -> bool;

    /// The number of actions there can ever be; actions are `0..n_actions`.
    fn n_actions(&self) -> u32;

    /// True if `action` may be taken now.
    fn is_candidate(&self, action: u32) -> bool;

    /// The actions that may be taken now, ascending; none when the episode is done.
    ///
    /// # Complexity
    /// O(n_actions) and a new list; loops over [`Environment::is_candidate`] take no memory.
    fn candidates(&self) -> Vec<u32> {
        (0..self.n_actions())
            .filter(|&action| self.is_candidate(action))
            .collect()
    }

    /// The present state.
    fn state(&self) -> &Self::State;

    /// The present state as a value of [`Environment::observation_space`], in new memory.
    fn observation(&self) -> Value;

    /// The space of observations, in every episode.
    fn observation_space(&self) -> Space;

    /// The discrete space of `0..n_actions`. Which of them may be taken now is not a part of the
    /// space: [`Environment::is_candidate`] is the mask.
    ///
    /// # Errors
    /// When there is no action at all (a graph without nodes).
    fn action_space(&self) -> Result<Space, Error> {
        Space::discrete(self.n_actions())
    }
}
