//! Any environments side by side, one after the other: the oracle of [`crate::CartPoles`].

use crate::environment::Environment;
use crate::error::Error;
use crate::vector::{Autoreset, VectorStep, check_count, check_length};

/// Environments of one kind side by side, each with its own problem and its own stream of chance.
#[derive(Clone, Debug)]
pub(crate) struct VectorEnvironment<E: Environment> {
    environments: Vec<E>,
    autoreset: Autoreset,
    step: VectorStep,
    final_states: Vec<Option<E::State>>,
}

impl<E: Environment<State: Clone>> VectorEnvironment<E> {
    pub(crate) fn new(
        environments: Vec<E>,
        autoreset: Autoreset,
    ) -> Result<VectorEnvironment<E>, Error> {
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

    pub(crate) fn reset(&mut self, seed: u64) {
        self.step.clear(self.environments.len());
        self.final_states.fill_with(|| None);
        for (index, environment) in (0..).zip(&mut self.environments) {
            environment.reset_seeded(seed, index);
        }
    }

    pub(crate) fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
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

    pub(crate) fn step(&mut self, actions: &[u32]) -> Result<&VectorStep, Error> {
        let method = "VectorEnvironment::step";
        check_length(method, "actions", self.len(), actions.len())?;
        self.check_actions(actions)?;
        for (idx, &action) in actions.iter().enumerate() {
            self.step_one(idx, action)
                .map_err(|error| error.in_vector(idx))?;
        }
        Ok(&self.step)
    }

    fn check_actions(&mut self, actions: &[u32]) -> Result<(), Error> {
        let waits = self.autoreset == Autoreset::NextStep;
        for (idx, (environment, &action)) in self.environments.iter_mut().zip(actions).enumerate() {
            let begins = waits && environment.is_done();
            if !begins && !environment.is_candidate(action) {
                // A step that is refused changes nothing, and says why.
                let reason = "is no candidate";
                let refused = environment.step(action).err();
                let refused = refused.unwrap_or(Error::NotACandidate { action, reason });
                return Err(refused.in_vector(idx));
            }
        }
        Ok(())
    }

    fn step_one(&mut self, idx: usize, action: u32) -> Result<(), Error> {
        let environment = &mut self.environments[idx];
        self.final_states[idx] = None;
        let begins = environment.is_done();
        self.step.reset[idx] = begins;
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

    pub(crate) fn last_step(&self) -> &VectorStep {
        &self.step
    }

    pub(crate) fn len(&self) -> usize {
        self.environments.len()
    }

    pub(crate) fn environment(&self, idx: usize) -> &E {
        &self.environments[idx]
    }

    pub(crate) fn state(&self, idx: usize) -> &E::State {
        self.environments[idx].state()
    }

    pub(crate) fn final_state(&self, idx: usize) -> Option<&E::State> {
        self.final_states[idx].as_ref()
    }
}
