//! The interface of vectors of environments: copies of one environment that take their steps
//! together, with observations, actions and masks in flat rows.

use std::fmt::Debug;

use crate::error::Error;
use crate::space::Space;
use crate::threads::Threads;
use crate::vector::{Actions, VectorStep};

/// Copies of one environment that take their steps together.
///
/// # Shapes
/// N environments; an observation is a row of F floats, `observation_space().flat_width()`, in the
/// order of the space's leaves; a mask is a row of A flags, one for each discrete action.
///
/// # Determinism
/// Environment i of `reset(seed)` begins its episodes by the key (seed, i). A step depends on the
/// states and the actions alone: not on N, and not on the number of threads.
///
/// # Source
/// Gymnasium's `VectorEnv`.
pub trait VectorEnvironment: Debug + Send {
    /// N.
    fn n_environments(&self) -> usize;

    /// The space of one environment's observations.
    fn observation_space(&self) -> Space;

    /// The space of one environment's actions: discrete, a tuple of discrete spaces, or a box.
    fn action_space(&self) -> Space;

    /// Begins an episode everywhere, environment i by the key (seed, i).
    fn reset(&mut self, seed: u64);

    /// Begins the next episode of the environments that are marked, whether theirs ended or not.
    ///
    /// # Errors
    /// When there is not one mark for each environment.
    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error>;

    /// Takes an action in every environment.
    ///
    /// # Errors
    /// When the actions are of another kind or number, or one is outside the space or masked; the
    /// environments stay as they were.
    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error>;

    /// Lets threads share the next steps. A vector that is not made of shards keeps its one thread.
    fn set_threads(&mut self, threads: &Threads) {
        let _ = threads;
    }

    /// The result of the last step.
    fn last_step(&self) -> &VectorStep;

    /// The present observations, N rows of F floats.
    fn observations(&self) -> &[f32];

    /// The last observation of the episode that ended in environment `idx` within the last step
    /// ([`crate::Autoreset::SameStep`] only).
    ///
    /// # Panics
    /// When there is no environment `idx`.
    fn final_observation(&self, idx: usize) -> Option<&[f32]>;

    /// The actions that may be taken now, N rows of A flags; `None` where all always may.
    fn action_mask(&self) -> Option<&[bool]> {
        None
    }

    /// The actions that the last state of the episode allows that ended in environment `idx` within
    /// the last step ([`crate::Autoreset::SameStep`] only). An environment with masks whose episodes
    /// a limit may stop has it: what follows that state is estimated there.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    fn final_action_mask(&self, _idx: usize) -> Option<&[bool]> {
        None
    }

    /// Everything that decides what comes next, as bytes, for checkpoints.
    fn to_bytes(&self) -> Vec<u8>;

    /// Takes the state that [`VectorEnvironment::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged, or of another environment, number or autoreset mode; the
    /// environments stay as they were.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), Error>;
}
