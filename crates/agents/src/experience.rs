//! Carts with poles that an agent with action values steps, and the transitions that come of it.

use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_job::Tensors;
use shardgraph_replay::{Ending, LeafRef, NStepAssembler, NStepTransition};

use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;

/// Where a transition starts: what was seen, and what was done.
type Start = ([f32; 4], u32);

/// Carts side by side, and the steps of each that wait for the rest of their n rewards.
#[derive(Debug)]
pub(crate) struct Experience {
    carts: CartPoles,
    folders: Vec<NStepAssembler<Start>>,
    episodes: EpisodeStatistics,
    /// What was seen before the last step.
    seen: Vec<[f32; 4]>,
    folded: Vec<NStepTransition<Start>>,
}

impl Experience {
    /// Of episodes that begin in states of `seed`, with returns over `n_step` rewards at the discount `gamma`.
    pub(crate) fn new(
        n_environments: usize,
        (n_step, gamma): (u32, f32),
        seed: u64,
    ) -> Result<Experience, Error> {
        let mut carts = CartPoles::new(n_environments, Autoreset::SameStep)?;
        carts.reset(seed);
        Ok(Experience {
            carts,
            folders: vec![NStepAssembler::new(n_step, gamma); n_environments],
            episodes: EpisodeStatistics::new(n_environments),
            seen: vec![[0.0; 4]; n_environments],
            folded: Vec::new(),
        })
    }

    /// Begins new episodes, in states of another seed; to be called before the first step only.
    pub(crate) fn begin_anew(&mut self, seed: u64) {
        self.carts.reset(seed);
    }

    /// What is seen now, a row for each cart.
    pub(crate) fn observations(&self) -> &[f32] {
        self.carts.observations().as_flattened()
    }

    /// The number of carts.
    pub(crate) fn len(&self) -> usize {
        self.carts.len()
    }

    /// Returns of the episodes so far.
    pub(crate) fn episodes(&self) -> &EpisodeStatistics {
        &self.episodes
    }

    /// A step in every cart. Each transition that it completes goes to `insert`, as the cells of
    /// [`transition_layout`](crate::transition_layout), and each episode that it ends to `ended`.
    pub(crate) fn step(
        &mut self,
        actions: &[u32],
        insert: &mut dyn FnMut(&[LeafRef<'_>; 5]) -> Result<(), Error>,
        ended: &mut Vec<Episode>,
    ) -> Result<(), Error> {
        self.seen.copy_from_slice(self.carts.observations());
        self.carts.step(actions)?;
        for (idx, &action) in actions.iter().enumerate() {
            self.remember(idx, action, insert)?;
            let step = self.carts.last_step();
            let episode = self
                .episodes
                .record(idx, step.rewards[idx], step.ended(idx));
            ended.extend(episode);
        }
        Ok(())
    }

    /// Gives away what the last step of one cart completed.
    fn remember(
        &mut self,
        idx: usize,
        action: u32,
        insert: &mut dyn FnMut(&[LeafRef<'_>; 5]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let step = self.carts.last_step();
        let ending = match (step.terminated[idx], step.truncated[idx]) {
            (true, _) => Some(Ending::Terminated),
            (false, true) => Some(Ending::Truncated),
            (false, false) => None,
        };
        self.folded.clear();
        let start = (self.seen[idx], action);
        self.folders[idx].push(start, step.rewards[idx], ending, &mut self.folded);
        // The carts begin the next episode within the step that ended one: its first observation is not what this one led to.
        let next = self.carts.final_observation(idx);
        let next = next.unwrap_or(&self.carts.observations()[idx]);
        for folded in &self.folded {
            let (observation, action) = &folded.start;
            insert(&[
                LeafRef::F32(observation),
                LeafRef::U32(&[*action]),
                LeafRef::F32(&[folded.reward_sum]),
                LeafRef::F32(next),
                LeafRef::F32(&[folded.discount]),
            ])?;
        }
        Ok(())
    }

    /// What of it goes into a checkpoint beside the returns.
    pub(crate) fn to_parts(&self) -> Parts {
        let mut parts = Parts {
            environments: self.carts.to_bytes(),
            ..Parts::default()
        };
        for folder in &self.folders {
            parts.n.push(folder.pending().count() as u32);
            for ((observation, action), reward) in folder.pending() {
                parts.observations.extend(observation);
                parts.actions.push(*action);
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
        self.carts.restore(state.u8s(environments)?)?;
        Parts::from_tensors(state)?.push_into(&mut self.folders)
    }
}

/// The carts' motion, and the steps that wait for the rest of their rewards, cart by cart.
#[derive(Default)]
pub(crate) struct Parts {
    environments: Vec<u8>,
    /// How many wait, by cart.
    n: Vec<u32>,
    observations: Vec<f32>,
    actions: Vec<u32>,
    rewards: Vec<f32>,
}

impl Parts {
    /// Adds them, the motion under the name `environments`.
    pub(crate) fn add_to<'a>(
        &'a self,
        environments: &str,
        tensors: &mut Tensors<'a>,
    ) -> Result<(), Error> {
        tensors.add_u8(environments, &self.environments)?;
        tensors.add_u32("pending/n", &self.n)?;
        tensors.add_f32("pending/observations", &self.observations)?;
        tensors.add_u32("pending/actions", &self.actions)?;
        Ok(tensors.add_f32("pending/rewards", &self.rewards)?)
    }

    fn from_tensors(state: &Tensors<'_>) -> Result<Parts, Error> {
        Ok(Parts {
            environments: Vec::new(),
            n: state.u32s("pending/n")?,
            observations: state.f32s("pending/observations")?,
            actions: state.u32s("pending/actions")?,
            rewards: state.f32s("pending/rewards")?,
        })
    }

    fn push_into(&self, folders: &mut [NStepAssembler<Start>]) -> Result<(), Error> {
        let (observations, rest) = self.observations.as_chunks::<4>();
        let n_steps = self.n.iter().map(|&n| n as usize).sum::<usize>();
        let lengths = [observations.len(), self.actions.len(), self.rewards.len()];
        if self.n.len() != folders.len() || lengths != [n_steps; 3] || !rest.is_empty() {
            return Err(Error::input(
                "the steps that wait for their rewards do not fit the environments",
            ));
        }
        let starts = observations
            .iter()
            .copied()
            .zip(self.actions.iter().copied());
        let mut steps = starts.zip(self.rewards.iter().copied());
        for (folder, &n) in folders.iter_mut().zip(&self.n) {
            let mut completed = Vec::new();
            for (start, reward) in steps.by_ref().take(n as usize) {
                folder.push(start, reward, None, &mut completed);
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

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

    use super::*;

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
        let mut insert = |cells: &[LeafRef<'_>; 5]| {
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
        experience.step(actions, &mut insert, &mut ended).unwrap();
        (stored, ended)
    }

    /// Carts that a limit stops at their next step: after the header of 12 bytes, 52 a cart, there is at 44 of each the number of its steps.
    pub(crate) fn put_before_the_limit(carts: &mut CartPoles, idx: usize) {
        let mut bytes = carts.to_bytes();
        let at = 12 + 52 * idx + 44;
        bytes[at..at + 4].copy_from_slice(&499u32.to_le_bytes());
        carts.restore(&bytes).unwrap();
    }

    /// The second of two carts is stopped by the limit; by hand, with twins that no limit stops.
    #[test]
    fn a_limit_leaves_the_discount_and_the_last_observation_of_its_own_episode() {
        for n_step in [1u32, 2, 3, 5] {
            let mut experience = Experience::new(2, (n_step, 0.5), 9).unwrap();
            let mut twins = CartPoles::new(2, Autoreset::SameStep).unwrap();
            twins.reset(9);
            let (mut seen, mut stored) = (Vec::new(), Vec::new());
            for actions in [[0, 1], [1, 0], [0, 1]] {
                if seen.len() == 2 {
                    put_before_the_limit(&mut experience.carts, 1);
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
            assert_ne!(experience.observations()[4..], last[..], "a new episode");
        }
    }

    #[test]
    fn a_fall_leaves_no_discount() {
        let mut experience = Experience::new(1, (3, 0.5), 9).unwrap();
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

    #[test]
    fn parts_of_other_environments_are_refused() {
        let experience = Experience::new(2, (3, 0.5), 9).unwrap();
        let parts = experience.to_parts();
        let mut tensors = Tensors::new();
        parts.add_to("environments", &mut tensors).unwrap();
        let mut other = Experience::new(3, (3, 0.5), 9).unwrap();
        for n in [2, 3] {
            let episodes = EpisodeStatistics::new(n);
            assert!(other.restore("environments", &tensors, episodes).is_err());
        }
    }
}
