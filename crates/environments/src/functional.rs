//! Environments as functions of a state: what a new environment has to say.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use shardgraph_random::KeyedRng;

use crate::space::Space;

/// The result of a transition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transition {
    /// The reward.
    pub reward: f32,
    /// The episode reached its end. Limits of steps are the vector's matter.
    pub terminated: bool,
}

/// The action of one environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action<'a> {
    /// A number of a discrete space; of a tuple of them, a number for each member.
    Discrete(&'a [u32]),
    /// Elements of a box.
    Continuous(&'a [f32]),
}

impl Action<'_> {
    /// The number of a discrete action.
    ///
    /// # Panics
    /// When the action is continuous: a vector hands over what the action space says.
    pub fn number(&self) -> u32 {
        match self {
            Action::Discrete(numbers) => numbers[0],
            Action::Continuous(_) => panic!("a discrete action space has discrete actions"),
        }
    }

    /// The first element of a continuous action.
    ///
    /// # Panics
    /// When the action is discrete.
    pub fn element(&self) -> f32 {
        match self {
            Action::Continuous(elements) => elements[0],
            Action::Discrete(_) => panic!("a box has continuous actions"),
        }
    }
}

/// An environment as functions of its state: the smallest thing that agents can train on.
///
/// Chance comes from the generator that each function is given; it is keyed by (seed, environment,
/// episode, step), so that a state needs no generator. [`crate::FunctionalVector`] makes a vector of copies.
///
/// # Source
/// Gymnasium's functional environments (`FuncEnv`): initial, transition, observation, reward and
/// terminal; reward and end come with the transition here.
///
/// ```
/// use shardgraph_environments::space::Space;
/// use shardgraph_environments::{Action, Actions, Autoreset, FunctionalEnvironment, FunctionalVector};
/// use shardgraph_environments::{Transition, VectorEnvironment};
/// use shardgraph_random::KeyedRng;
///
/// /// Five cells in a row; the last one is the goal.
/// #[derive(Clone, Debug)]
/// struct Corridor;
///
/// impl FunctionalEnvironment for Corridor {
///     type State = u32;
///
///     fn observation_space(&self) -> Space {
///         Space::boxed(&[1], 0.0, 4.0).expect("a box")
///     }
///     fn action_space(&self) -> Space {
///         Space::discrete(2).expect("two actions")
///     }
///     fn initial(&self, _rng: &mut KeyedRng) -> u32 {
///         0
///     }
///     fn transition(&self, cell: &mut u32, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
///         *cell = if action.number() == 1 { *cell + 1 } else { cell.saturating_sub(1) };
///         Transition { reward: -1.0, terminated: *cell == 4 }
///     }
///     fn observe(&self, cell: &u32, out: &mut [f32]) {
///         out[0] = *cell as f32;
///     }
/// }
///
/// let mut corridors = FunctionalVector::new(Corridor, 8, Autoreset::SameStep, Some(20))?;
/// corridors.reset(1);
/// let step = corridors.step(Actions::Discrete(&[1; 8]))?;
/// assert_eq!(step.rewards, [-1.0; 8]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
pub trait FunctionalEnvironment: Clone + Debug + Send + Sync {
    /// Everything that decides what comes next, but for chance.
    type State: Clone + Debug + Send + Serialize + DeserializeOwned;

    /// True if [`FunctionalEnvironment::observe_instead`] writes less than a whole observation. A vector
    /// then keeps the last state of each copy's last episode.
    const OBSERVES_CHANGES: bool = false;

    /// The space of observations.
    fn observation_space(&self) -> Space;

    /// The space of actions: discrete, a tuple of discrete spaces, or a box.
    fn action_space(&self) -> Space;

    /// The first state of an episode.
    fn initial(&self, rng: &mut KeyedRng) -> Self::State;

    /// Takes an action, which is inside the action space and allowed by the mask.
    fn transition(
        &self,
        state: &mut Self::State,
        action: Action<'_>,
        rng: &mut KeyedRng,
    ) -> Transition;

    /// Writes the observation of a state: as many floats as the flat width of the observation
    /// space, in the order of its leaves. What `out` holds before is not defined.
    fn observe(&self, state: &Self::State, out: &mut [f32]);

    /// Brings the observation of the state before a transition up to date with the state after it: the same
    /// floats as [`FunctionalEnvironment::observe`] writes, which it calls where an environment does not know better.
    fn observe_change(&self, state: &Self::State, out: &mut [f32]) {
        self.observe(state, out);
    }

    /// Brings `out`, the observation of the state `shown`, up to date with any other state: the same floats as
    /// [`FunctionalEnvironment::observe`] writes.
    fn observe_instead(&self, shown: &Self::State, state: &Self::State, out: &mut [f32]) {
        let _ = shown;
        self.observe(state, out);
    }

    /// True if `state` is one that the environment can be in. States come from checkpoints, too: an
    /// environment that indexes by its state refuses here what it could not index.
    fn is_state(&self, state: &Self::State) -> bool {
        let _ = state;
        true
    }

    /// True if some actions may not be taken in some states: then [`FunctionalEnvironment::mask`]
    /// says which may.
    fn has_mask(&self) -> bool {
        false
    }

    /// Writes a flag for each discrete action: true if it may be taken.
    fn mask(&self, state: &Self::State, out: &mut [bool]) {
        let _ = state;
        out.fill(true);
    }
}
