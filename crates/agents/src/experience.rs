//! Environments that an agent with action values steps, and the transitions that come of it.

use shardgraph_environments::{Actions, VectorEnvironment};
use shardgraph_job::Tensors;
use shardgraph_replay::{Ending, LeafRef, NStepAssembler, NStepTransition};

use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::observations::{ActionBuffer, Seen};
use crate::run_environments::{Environments, final_observation};

/// Where a transition starts: the slot of what was seen and what was done.
pub(crate) type Start = u32;

/// Takes a transition, as the cells of its layout.
pub(crate) type Insert<'a> = dyn FnMut(&[LeafRef<'_>]) -> Result<(), Error> + 'a;

/// Environments side by side, and the steps of each that wait for the rest of their n rewards.
#[derive(Debug)]
pub(crate) struct Experience {
    vector: Box<dyn VectorEnvironment>,
    folders: Vec<NStepAssembler<Start>>,
    episodes: EpisodeStatistics,
    /// What was seen before the last n steps: of each environment n rows, used in turn.
    seen: Vec<f32>,
    /// What was done then, as rows of the same slots.
    done: ActionBuffer,
    /// Numbers or elements of an action.
    action_width: usize,
    n_slots: u32,
    /// The row of each environment that the next step uses.
    slots: Vec<u32>,
    /// Floats of an observation.
    width: usize,
    n_actions: usize,
    has_mask: bool,
    /// Of the next observation's state.
    next_mask: Vec<u8>,
    folded: Vec<NStepTransition<Start>>,
}

impl Experience {
    /// Of episodes that begin in states of `seed`, with returns over `n_step` rewards at the discount `gamma`.
    pub(crate) fn new(
        environments: &Environments,
        n_environments: usize,
        n_step: u32,
        gamma: f32,
        seed: u64,
    ) -> Result<Experience, Error> {
        let mut vector = environments.vector(n_environments)?;
        vector.reset(seed);
        let width = environments.spaces().n_features();
        let (is_box, action_width) = environments.spaces().action_form();
        Ok(Experience {
            vector,
            folders: vec![NStepAssembler::new(n_step, gamma); n_environments],
            episodes: EpisodeStatistics::new(n_environments),
            seen: vec![0.0; n_environments * n_step as usize * width],
            done: ActionBuffer::zeros(is_box, n_environments * n_step as usize * action_width),
            action_width,
            n_slots: n_step,
            slots: vec![0; n_environments],
            width,
            n_actions: environments.spaces().n_action_columns(),
            has_mask: environments.spaces().has_mask(),
            next_mask: Vec::new(),
            folded: Vec::new(),
        })
    }

    /// Begins new episodes, in states of another seed; to be called before the first step only.
    pub(crate) fn begin_anew(&mut self, seed: u64) {
        self.vector.reset(seed);
    }

    /// What is seen now.
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen::of(self.vector.as_ref())
    }

    /// The number of environments.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns of the episodes so far.
    pub(crate) fn episodes(&self) -> &EpisodeStatistics {
        &self.episodes
    }

    /// A step in every environment. Each transition that it completes goes to `insert`, as the cells of the environments' layout, and each
    /// episode that it ends to `ended`.
    pub(crate) fn step(
        &mut self,
        actions: Actions<'_>,
        insert: &mut Insert<'_>,
        ended: &mut Vec<Episode>,
    ) -> Result<(), Error> {
        let seen = self.vector.observations().chunks_exact(self.width);
        for (idx, seen) in seen.enumerate() {
            let row = self.row(idx, self.slots[idx]);
            self.seen[row..row + self.width].copy_from_slice(seen);
        }
        self.vector.step(actions)?;
        for idx in 0..self.len() {
            let slot = self.slot(idx, self.slots[idx]);
            self.done.copy_row(slot, actions, idx, self.action_width);
            self.remember(idx, insert)?;
            let step = self.vector.last_step();
            let episode = self
                .episodes
                .record(idx, step.rewards[idx], step.ended(idx));
            ended.extend(episode);
        }
        Ok(())
    }

    /// The slot of an environment among those of all.
    fn slot(&self, idx: usize, slot: u32) -> usize {
        idx * self.n_slots as usize + slot as usize
    }

    /// Where a row of `seen` begins.
    fn row(&self, idx: usize, slot: u32) -> usize {
        self.slot(idx, slot) * self.width
    }

    /// Gives away what the last step of one environment completed.
    fn remember(&mut self, idx: usize, insert: &mut Insert<'_>) -> Result<(), Error> {
        let step = self.vector.last_step();
        let ending = match (step.terminated[idx], step.truncated[idx]) {
            (true, _) => Some(Ending::Terminated),
            (false, true) => Some(Ending::Truncated),
            (false, false) => None,
        };
        self.folded.clear();
        let slot = self.slots[idx];
        self.folders[idx].push(slot, step.rewards[idx], ending, &mut self.folded);
        self.slots[idx] = (slot + 1) % self.n_slots;
        if self.folded.is_empty() {
            return Ok(());
        }
        self.set_next_mask(idx, ending)?;
        // The next episode begins within the step that ended one: its first observation is not what this one led to.
        let vector = self.vector.as_ref();
        let next = match ending {
            Some(_) => final_observation(vector, idx)?,
            None => &vector.observations()[idx * self.width..][..self.width],
        };
        for folded in &self.folded {
            let row = self.row(idx, folded.start);
            let slot = self.slot(idx, folded.start);
            let cells = [
                LeafRef::F32(&self.seen[row..row + self.width]),
                self.done.row(slot, self.action_width),
                LeafRef::F32(&[folded.reward_sum]),
                LeafRef::F32(next),
                LeafRef::F32(&[folded.discount]),
                LeafRef::U8(&self.next_mask),
            ];
            insert(&cells[..5 + usize::from(self.has_mask)])?;
        }
        Ok(())
    }

    /// The actions that the state after the last step allows; all where nothing comes after it.
    fn set_next_mask(&mut self, idx: usize, ending: Option<Ending>) -> Result<(), Error> {
        if !self.has_mask {
            return Ok(());
        }
        let vector = self.vector.as_ref();
        self.next_mask.clear();
        let flags = match ending {
            Some(Ending::Terminated) => {
                self.next_mask.resize(self.n_actions, 1);
                return Ok(());
            }
            None => vector
                .action_mask()
                .map(|mask| &mask[idx * self.n_actions..][..self.n_actions]),
            Some(_) => vector.final_action_mask(idx),
        };
        let flags = flags.ok_or_else(|| {
            Error::input(format!(
                "VectorEnvironment::final_action_mask: environment {idx} has masks, and a limit \
                 stopped its episode: expected the mask of its last state, given none"
            ))
        })?;
        self.next_mask.extend(flags.iter().copied().map(u8::from));
        Ok(())
    }

    /// Adds what goes into a checkpoint beside the returns: the environments' state, under the name `environments`, and the steps that wait
    /// for the rest of their rewards, environment by environment.
    pub(crate) fn add_to(
        &self,
        environments: &str,
        tensors: &mut Tensors<'_>,
    ) -> Result<(), Error> {
        let (mut n, mut observations, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        let mut actions = self.done.emptied();
        for (idx, folder) in self.folders.iter().enumerate() {
            n.push(folder.pending().count() as u32);
            for (&slot, reward) in folder.pending() {
                let row = self.row(idx, slot);
                observations.extend(&self.seen[row..row + self.width]);
                actions.push_row(&self.done, self.slot(idx, slot), self.action_width);
                rewards.push(reward);
            }
        }
        tensors.add_u8(environments, self.vector.to_bytes())?;
        tensors.add_u32("pending/n", &n)?;
        tensors.add_f32("pending/observations", &observations)?;
        match &actions {
            ActionBuffer::Discrete(actions) => tensors.add_u32(ACTIONS, actions)?,
            ActionBuffer::Continuous(actions) => tensors.add_f32(ACTIONS, actions)?,
        }
        Ok(tensors.add_f32("pending/rewards", &rewards)?)
    }

    /// Takes over what [`Experience::add_to`] added, and the returns.
    pub(crate) fn restore(
        &mut self,
        environments: &str,
        state: &Tensors<'_>,
        episodes: EpisodeStatistics,
    ) -> Result<(), Error> {
        self.episodes = episodes.of_environments(self.len())?;
        self.vector.restore(state.u8s(environments)?)?;
        let (n, rewards) = (state.u32s("pending/n")?, state.f32s("pending/rewards")?);
        let observations = state.f32s("pending/observations")?;
        let actions = match &self.done {
            ActionBuffer::Discrete(_) => ActionBuffer::Discrete(state.u32s(ACTIONS)?),
            ActionBuffer::Continuous(_) => ActionBuffer::Continuous(state.f32s(ACTIONS)?),
        };
        let n_steps = n.iter().map(|&n| n as usize).sum::<usize>();
        let lengths = [observations.len(), actions.len(), rewards.len()];
        let expected = [n_steps * self.width, n_steps * self.action_width, n_steps];
        if n.len() != self.len() || lengths != expected {
            return Err(Error::input(
                "the steps that wait for their rewards do not fit the environments",
            ));
        }
        let seen = observations.chunks_exact(self.width);
        let mut steps = rewards.iter().zip(seen).enumerate();
        for (idx, &n) in n.iter().enumerate() {
            let mut completed = Vec::new();
            for (step, (&reward, seen)) in steps.by_ref().take(n as usize) {
                let slot = self.slots[idx];
                let row = self.row(idx, slot);
                self.seen[row..row + self.width].copy_from_slice(seen);
                let to = self.slot(idx, slot);
                self.done
                    .copy_row(to, actions.actions(), step, self.action_width);
                self.folders[idx].push(slot, reward, None, &mut completed);
                self.slots[idx] = (slot + 1) % self.n_slots;
            }
            if !completed.is_empty() {
                return Err(Error::input(
                    "more steps wait for their rewards than a return has",
                ));
            }
        }
        Ok(())
    }
}

const ACTIONS: &str = "pending/actions";

#[cfg(test)]
pub(crate) mod tests;
