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
        (n_step, gamma): (u32, f32),
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

    /// What of it goes into a checkpoint beside the returns.
    pub(crate) fn to_parts(&self) -> Parts {
        let mut parts = Parts {
            environments: self.vector.to_bytes(),
            actions: self.done.emptied(),
            ..Parts::default()
        };
        for (idx, folder) in self.folders.iter().enumerate() {
            parts.n.push(folder.pending().count() as u32);
            for (&slot, reward) in folder.pending() {
                let row = self.row(idx, slot);
                parts.observations.extend(&self.seen[row..row + self.width]);
                let slot = self.slot(idx, slot);
                parts.actions.push_row(&self.done, slot, self.action_width);
                parts.rewards.push(reward);
            }
        }
        parts
    }

    /// Takes over what [`Parts::add_to`] added, and the returns.
    pub(crate) fn restore(
        &mut self,
        environments: &str,
        state: &Tensors<'_>,
        episodes: EpisodeStatistics,
    ) -> Result<(), Error> {
        self.episodes = episodes.of_environments(self.len())?;
        self.vector.restore(state.u8s(environments)?)?;
        self.take(&Parts::from_tensors(state, self.done.emptied())?)
    }

    /// Takes over the steps that wait.
    fn take(&mut self, parts: &Parts) -> Result<(), Error> {
        parts.check(self.len(), self.width, self.action_width)?;
        let observations = parts.observations.chunks_exact(self.width);
        let mut steps = parts.rewards.iter().zip(observations).enumerate();
        for (idx, &n) in parts.n.iter().enumerate() {
            let mut completed = Vec::new();
            for (step, (&reward, seen)) in steps.by_ref().take(n as usize) {
                let slot = self.slots[idx];
                let row = self.row(idx, slot);
                self.seen[row..row + self.width].copy_from_slice(seen);
                let (to, actions) = (self.slot(idx, slot), parts.actions.actions());
                self.done.copy_row(to, actions, step, self.action_width);
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

/// The environments' state, and the steps that wait for the rest of their rewards, environment by environment.
#[derive(Default)]
pub(crate) struct Parts {
    environments: Vec<u8>,
    /// How many wait, by environment.
    n: Vec<u32>,
    observations: Vec<f32>,
    actions: ActionBuffer,
    rewards: Vec<f32>,
}

impl Parts {
    /// Adds them, the state under the name `environments`.
    pub(crate) fn add_to<'a>(
        &'a self,
        environments: &str,
        tensors: &mut Tensors<'a>,
    ) -> Result<(), Error> {
        tensors.add_u8(environments, &self.environments)?;
        tensors.add_u32("pending/n", &self.n)?;
        tensors.add_f32("pending/observations", &self.observations)?;
        match &self.actions {
            ActionBuffer::Discrete(actions) => tensors.add_u32(ACTIONS, actions)?,
            ActionBuffer::Continuous(actions) => tensors.add_f32(ACTIONS, actions)?,
        }
        Ok(tensors.add_f32("pending/rewards", &self.rewards)?)
    }

    /// With actions of the kind of `kind`.
    fn from_tensors(state: &Tensors<'_>, kind: ActionBuffer) -> Result<Parts, Error> {
        Ok(Parts {
            environments: Vec::new(),
            n: state.u32s("pending/n")?,
            observations: state.f32s("pending/observations")?,
            actions: match kind {
                ActionBuffer::Discrete(_) => ActionBuffer::Discrete(state.u32s(ACTIONS)?),
                ActionBuffer::Continuous(_) => ActionBuffer::Continuous(state.f32s(ACTIONS)?),
            },
            rewards: state.f32s("pending/rewards")?,
        })
    }

    fn check(&self, n_environments: usize, width: usize, action_width: usize) -> Result<(), Error> {
        let n_steps = self.n.iter().map(|&n| n as usize).sum::<usize>();
        let lengths = [
            self.observations.len(),
            self.actions.len(),
            self.rewards.len(),
        ];
        let expected = [n_steps * width, n_steps * action_width, n_steps];
        if self.n.len() == n_environments && lengths == expected {
            return Ok(());
        }
        Err(Error::input(
            "the steps that wait for their rewards do not fit the environments",
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

    use shardgraph_environments::{Autoreset, CartPoles};

    use super::*;
    use crate::tests::environments::{LIMIT, cartpole, corridors};

    /// A transition as a memory gets it.
    #[derive(Debug, PartialEq)]
    struct Stored {
        observation: Vec<f32>,
        action: u32,
        reward: f32,
        next: Vec<f32>,
        discount: f32,
    }

    fn step(experience: &mut Experience, actions: &[u32]) -> (Vec<Stored>, Vec<Episode>) {
        let (mut stored, mut ended) = (Vec::new(), Vec::new());
        let mut insert = |cells: &[LeafRef<'_>]| {
            let [
                LeafRef::F32(observation),
                LeafRef::U32([action]),
                LeafRef::F32([reward]),
                LeafRef::F32(next),
                LeafRef::F32([discount]),
            ] = cells
            else {
                panic!("another layout");
            };
            stored.push(Stored {
                observation: observation.to_vec(),
                action: *action,
                reward: *reward,
                next: next.to_vec(),
                discount: *discount,
            });
            Ok(())
        };
        let actions = Actions::Discrete(actions);
        experience.step(actions, &mut insert, &mut ended).unwrap();
        (stored, ended)
    }

    /// Carts that a limit stops at their next step: after the header of 12 bytes, 52 a cart, there is at 44 of each the number of its steps.
    pub(crate) fn put_before_the_limit(carts: &mut dyn VectorEnvironment, idx: usize) {
        let mut bytes = carts.to_bytes();
        let at = 12 + 52 * idx + 44;
        bytes[at..at + 4].copy_from_slice(&499u32.to_le_bytes());
        carts.restore(&bytes).unwrap();
    }

    /// A cart whose pole falls at its next step: its angle and the velocity of that are at 28 and 36 of its bytes.
    pub(crate) fn put_before_the_fall(carts: &mut dyn VectorEnvironment, idx: usize) {
        let mut bytes = carts.to_bytes();
        let at = 12 + 52 * idx + 28;
        bytes[at..at + 8].copy_from_slice(&0.2f64.to_le_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&3.0f64.to_le_bytes());
        carts.restore(&bytes).unwrap();
    }

    /// The second of two carts is stopped by the limit; by hand, with twins that no limit stops.
    #[test]
    fn a_limit_leaves_the_discount_and_the_last_observation_of_its_own_episode() {
        for n_step in [1u32, 2, 3, 5] {
            let mut experience = Experience::new(&cartpole(), 2, (n_step, 0.5), 9).unwrap();
            let mut twins = CartPoles::new(2, Autoreset::SameStep).unwrap();
            twins.reset(9);
            let (mut seen, mut stored) = (Vec::new(), Vec::new());
            for actions in [[0, 1], [1, 0], [0, 1]] {
                if seen.len() == 2 {
                    put_before_the_limit(experience.vector.as_mut(), 1);
                }
                seen.push((twins.observations()[1].to_vec(), actions[1]));
                let (own, ended) = step(&mut experience, &actions);
                assert_eq!(ended.len(), usize::from(seen.len() == 3), "{n_step}");
                twins.step(&actions).unwrap();
                // Of the second cart: its own observations are those of the twin.
                let is_own = |of: &Stored| seen.iter().any(|(seen, _)| *seen == of.observation);
                stored.extend(own.into_iter().filter(is_own));
            }
            let last = twins.observations()[1].to_vec();
            let n_rest = seen.len().min(n_step as usize);
            let rest = &stored[stored.len() - n_rest..];
            for (of, n_rewards) in rest.iter().zip((1..=n_rest as i32).rev()) {
                let (observation, action) = &seen[seen.len() - n_rewards as usize];
                let expected = Stored {
                    observation: observation.clone(),
                    action: *action,
                    reward: 2.0 - 0.5f32.powi(n_rewards - 1), // 1 + 1/2 + ...
                    next: last.clone(),
                    discount: 0.5f32.powi(n_rewards),
                };
                assert_eq!(of, &expected, "{n_step}");
            }
            assert_eq!(stored.len(), 3, "{n_step}");
            assert_ne!(
                experience.seen().observations[4..],
                last[..],
                "a new episode"
            );
        }
    }

    #[test]
    fn a_fall_leaves_no_discount() {
        let mut experience = Experience::new(&cartpole(), 1, (3, 0.5), 9).unwrap();
        let (mut n_steps, mut twin) = (0, CartPoles::new(1, Autoreset::Disabled).unwrap());
        twin.reset(9);
        let stored = loop {
            let (stored, ended) = step(&mut experience, &[1]);
            twin.step(&[1]).unwrap();
            n_steps += 1;
            if let [episode] = ended[..] {
                assert_eq!(episode.length, n_steps);
                break stored;
            }
            assert!(stored.iter().all(|of| of.discount == 0.125));
        };
        assert_eq!(stored.len(), 3);
        for of in &stored {
            assert_eq!(
                (of.discount, &of.next[..]),
                (0.0, &twin.observations()[0][..])
            );
        }
    }

    /// A limit stops an episode in the third cell, where it is not allowed to stand still; the next one begins in the first, where it is.
    #[test]
    fn a_limit_leaves_the_mask_of_its_own_episode() {
        let mut experience = Experience::new(&corridors(false), 1, (1, 0.5), 9).unwrap();
        let mut masks = Vec::new();
        let mut insert = |cells: &[LeafRef<'_>]| {
            let [.., LeafRef::U8(mask)] = cells else {
                panic!("another layout");
            };
            masks.push(mask.to_vec());
            Ok(())
        };
        let (turns, mut ended) = ([1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], Vec::new());
        assert_eq!(turns.len(), LIMIT as usize);
        for turn in turns {
            let actions = Actions::Discrete(&[turn]);
            experience.step(actions, &mut insert, &mut ended).unwrap();
        }
        assert_eq!(ended.len(), 1);
        assert_eq!(masks[LIMIT as usize - 1], [1, 1, 0]);
        assert_eq!(experience.seen().mask, Some(&[false, true, true][..]));
    }

    #[test]
    fn parts_of_other_environments_are_refused() {
        let experience = Experience::new(&cartpole(), 2, (3, 0.5), 9).unwrap();
        let parts = experience.to_parts();
        let mut tensors = Tensors::new();
        parts.add_to("environments", &mut tensors).unwrap();
        let mut other = Experience::new(&cartpole(), 3, (3, 0.5), 9).unwrap();
        for n in [2, 3] {
            let episodes = EpisodeStatistics::new(n);
            assert!(other.restore("environments", &tensors, episodes).is_err());
        }
    }
}
