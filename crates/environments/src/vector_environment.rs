//! Several environments of one kind that take their steps together, and what happens to one whose episode ended.

use crate::environment::Environment;
use crate::error::{Error, ErrorKind};

/// When an environment whose episode ended begins the next one. Code that is right for one of these is wrong for another.
///
/// # Source
/// The three autoreset modes of Gymnasium's vector environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// At the next step, which then takes no action: its reward is 0, and the state after it is the first of the new episode.
    /// The state after the last action stays to be seen for one step. Such a step is no transition: see [`VectorStep::began`].
    NextStep,
    /// Within the step that ends the episode: the state after it is the first of the new episode, and the last of the old one is
    /// kept as final state.
    SameStep,
    /// Never by itself: `reset_where` begins episodes, and a step of an environment that is done is an error.
    Disabled,
}

/// What the last step gave, an element for each environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorStep {
    /// The rewards.
    pub rewards: Vec<f32>,
    /// Which episodes reached their end.
    pub terminated: Vec<bool>,
    /// Which episodes were stopped by a limit.
    pub truncated: Vec<bool>,
    /// Which environments began an episode in place of taking their action ([`Autoreset::NextStep`] only): there is nothing to
    /// learn from their step.
    pub began: Vec<bool>,
}

impl VectorStep {
    pub(crate) fn clear(&mut self, n_environments: usize) {
        self.rewards.clear();
        self.rewards.resize(n_environments, 0.0);
        for flags in [&mut self.terminated, &mut self.truncated, &mut self.began] {
            flags.clear();
            flags.resize(n_environments, false);
        }
    }

    /// Whether the last step was the last of an episode of environment `idx`.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn ended(&self, idx: usize) -> bool {
        self.terminated[idx] || self.truncated[idx]
    }
}

/// Environments of one kind side by side, each with its own problem and its own stream of chance.
///
/// It takes every [`Environment`], those over graphs too. Cart and pole has a faster form, [`crate::CartPoles`], that gives the same.
///
/// # Determinism
/// Environment i resets with (seed, i): what it does depends on neither the number nor the actions of the others.
///
/// ```
/// use shardgraph_environments::{Autoreset, MinimumVertexCover, VectorEnvironment};
/// use shardgraph_graph::Graph;
///
/// let star = MinimumVertexCover::new(Graph::from_edges(3, &[(0, 1), (0, 2)])?.into());
/// let path = MinimumVertexCover::new(Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?.into());
/// let mut both = VectorEnvironment::new(vec![star, path], Autoreset::SameStep)?;
/// both.reset(7)?;
/// let step = both.step(&[0, 1])?;
/// assert_eq!(step.terminated, [true, false]);
/// assert_eq!(both.final_state(0).unwrap().n_edges(), 0);
/// assert_eq!(both.state(0).n_edges(), 2); // of the next episode
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct VectorEnvironment<E: Environment> {
    environments: Vec<E>,
    autoreset: Autoreset,
    step: VectorStep,
    final_states: Vec<Option<E::State>>,
}

impl<E: Environment<State: Clone>> VectorEnvironment<E> {
    /// Puts environments together; [`VectorEnvironment::reset`] begins their episodes.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(environments: Vec<E>, autoreset: Autoreset) -> Result<VectorEnvironment<E>, Error> {
        check_count("VectorEnvironment::new", environments.len())?;
        let mut step = VectorStep::default();
        step.clear(environments.len());
        Ok(VectorEnvironment {
            final_states: environments.iter().map(|_| None).collect(),
            environments,
            autoreset,
            step,
        })
    }

    /// Begins an episode everywhere, environment i with (seed, i).
    ///
    /// # Errors
    /// When an episode is done as it begins (a graph without edges): no step could be taken in it.
    pub fn reset(&mut self, seed: u64) -> Result<(), Error> {
        self.step.clear(self.environments.len());
        self.final_states.fill_with(|| None);
        for (index, environment) in (0..).zip(&mut self.environments) {
            environment.reset_seeded(seed, index);
            if environment.is_done() {
                return Err(ErrorKind::EndedAtReset { index }.into());
            }
        }
        Ok(())
    }

    /// Begins the next episode of the environments that are marked, whether theirs ended or not.
    ///
    /// # Errors
    /// When there is not one mark for each environment.
    pub fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        let method = "VectorEnvironment::reset_where";
        check_length(method, "marks", self.len(), marks.len())?;
        for (environment, _) in self
            .environments
            .iter_mut()
            .zip(marks)
            .filter(|(_, mark)| **mark)
        {
            environment.reset();
        }
        Ok(())
    }

    /// Takes an action in every environment.
    ///
    /// # Errors
    /// When there is not one action for each environment, an action is no candidate, or, with [`Autoreset::Disabled`], an
    /// environment is done. The environments stay as they were.
    pub fn step(&mut self, actions: &[u32]) -> Result<&VectorStep, Error> {
        let method = "VectorEnvironment::step";
        check_length(method, "actions", self.len(), actions.len())?;
        self.check_actions(actions)?;
        for (idx, &action) in actions.iter().enumerate() {
            self.step_one(idx, action)
                .map_err(|error| error.of_environment(idx))?;
        }
        Ok(&self.step)
    }

    /// Whether each action can be taken, before any is.
    fn check_actions(&mut self, actions: &[u32]) -> Result<(), Error> {
        let waits = self.autoreset == Autoreset::NextStep;
        for (idx, (environment, &action)) in self.environments.iter_mut().zip(actions).enumerate() {
            let begins = waits && environment.is_done();
            if !begins && !environment.is_candidate(action) {
                // A step that is refused changes nothing, and says why.
                let reason = "is no candidate";
                let refused = environment.step(action).err();
                let refused =
                    refused.unwrap_or_else(|| ErrorKind::NotACandidate { action, reason }.into());
                return Err(refused.of_environment(idx));
            }
        }
        Ok(())
    }

    fn step_one(&mut self, idx: usize, action: u32) -> Result<(), Error> {
        let environment = &mut self.environments[idx];
        self.final_states[idx] = None;
        let begins = environment.is_done();
        self.step.began[idx] = begins;
        if begins {
            environment.reset();
            self.step.rewards[idx] = 0.0;
            self.step.terminated[idx] = false;
            self.step.truncated[idx] = false;
            return Ok(());
        }
        let step = environment.step(action)?;
        self.step.rewards[idx] = step.reward;
        self.step.terminated[idx] = step.terminated;
        self.step.truncated[idx] = step.truncated;
        if environment.is_done() && self.autoreset == Autoreset::SameStep {
            self.final_states[idx] = Some(environment.state().clone());
            environment.reset();
        }
        Ok(())
    }

    /// What the last step gave.
    pub fn last_step(&self) -> &VectorStep {
        &self.step
    }

    /// The number of environments.
    pub fn len(&self) -> usize {
        self.environments.len()
    }

    /// Never: a vector has at least one environment.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Environment `idx`, for its candidates and whatever else it offers.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn environment(&self, idx: usize) -> &E {
        &self.environments[idx]
    }

    /// The present state of environment `idx`.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn state(&self, idx: usize) -> &E::State {
        self.environments[idx].state()
    }

    /// The last state of the episode that ended within the last step ([`Autoreset::SameStep`] only).
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn final_state(&self, idx: usize) -> Option<&E::State> {
        self.final_states[idx].as_ref()
    }
}

/// An environment's index is a part of its key, of 32 bits.
pub(crate) fn check_count(method: &'static str, given: usize) -> Result<(), Error> {
    if given > 0 && u32::try_from(given).is_ok() {
        return Ok(());
    }
    let expected = "1 to 2^32 - 1".into();
    Err(Error::mismatch(
        method,
        "environments",
        expected,
        given.to_string(),
    ))
}

pub(crate) fn check_length(
    method: &'static str,
    what: &'static str,
    expected: usize,
    given: usize,
) -> Result<(), Error> {
    if expected == given {
        return Ok(());
    }
    let expected = format!("{expected}, one for each environment");
    Err(Error::mismatch(method, what, expected, given.to_string()))
}
