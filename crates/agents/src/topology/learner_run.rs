//! Where the run of a learner with actors on other ranks stands: steps and episodes of all of them, and the ranks that came and were lost.

use std::collections::BTreeMap;

use shardgraph_storage::hash_numbers;

use crate::advance::Advance;
use crate::checkpoint::RunState;
use crate::episodes::Episode;
use crate::error::Error;
use crate::run::last_step;

const LOST: &str = "train/lost_ranks";

/// See the head of this file.
pub(crate) struct LearnerRun {
    /// Each return counts as an episode of one step.
    pub(crate) state: RunState,
    stop_at: u64,
    /// Steps and updates before this call.
    begun_at: (u64, u64),
    lost: Vec<String>,
    /// How many of these were reported: one that ends the run is in its error.
    n_lost_reported: usize,
    /// Where actors explore differently, the probability of random actions of the one that explores the least: returns are of its episodes.
    least_epsilon: Option<f32>,
    /// How many of each rank's number have come.
    n_arrivals: BTreeMap<u32, u64>,
}

/// What an actor did.
#[derive(Debug)]
pub(crate) struct Acted<'a> {
    pub(crate) n_steps: u64,
    /// The episodes that ended.
    pub(crate) episodes: &'a [Episode],
    /// The probability of its random actions, if it has one.
    pub(crate) epsilon: Option<f32>,
    /// How many updates old its weights were.
    pub(crate) lag: u64,
}

impl LearnerRun {
    /// Of a run that begins, or goes on where `state` stands.
    pub(crate) fn new(
        state: RunState,
        stop_at: Option<u64>,
        least_epsilon: Option<f32>,
    ) -> Result<LearnerRun, Error> {
        Ok(LearnerRun {
            stop_at: last_step(&state.config, state.n_steps, stop_at)?,
            begun_at: (state.n_steps, state.n_updates),
            state,
            lost: Vec::new(),
            n_lost_reported: 0,
            least_epsilon,
            n_arrivals: BTreeMap::new(),
        })
    }

    /// The step that the run goes to.
    pub(crate) fn stop_at(&self) -> u64 {
        self.stop_at
    }

    /// Whether there are steps enough.
    pub(crate) fn is_full(&self) -> bool {
        self.state.n_steps >= self.stop_at
    }

    /// Counts a rank that comes. The key tells it from those of its number who were there before it, in this call or before the checkpoint that
    /// this call began at: 0 is for the first one of a run from its first step.
    pub(crate) fn arrival(&mut self, rank: u32) -> u64 {
        let n_arrivals = self.n_arrivals.entry(rank).or_default();
        let n_before = *n_arrivals;
        *n_arrivals += 1;
        let (n_steps, n_updates) = self.begun_at;
        match [n_steps, n_updates, n_before] {
            [0, 0, 0] => 0,
            which => hash_numbers(which).max(1),
        }
    }

    /// Counts what an actor did, and reports it, with the ranks that were lost meanwhile.
    pub(crate) fn count(&mut self, acted: &Acted<'_>, advance: &mut Advance) {
        self.state.n_steps += acted.n_steps;
        for episode in acted.episodes {
            let is_of_least = match (acted.epsilon, self.least_epsilon) {
                (Some(epsilon), Some(least)) => epsilon <= least,
                _ => true,
            };
            match is_of_least {
                true => drop(self.state.episodes.record(0, episode.episodic_return, true)),
                false => self.state.episodes.count(),
            }
        }
        advance.n_steps += acted.n_steps;
        advance.episodes.extend_from_slice(acted.episodes);
        (advance.epsilon, advance.lag) = (acted.epsilon, Some(acted.lag));
        advance.lost = self.lost[self.n_lost_reported..].to_vec();
        self.n_lost_reported = self.lost.len();
    }

    /// The ranks that are gone before their time, and why.
    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    /// Counts a rank that is gone before its time.
    pub(crate) fn lose(&mut self, which_and_why: String) {
        self.lost.push(which_and_why);
    }

    /// A line of losses, with what else is worth a curve.
    pub(crate) fn log(&self, mut scalars: Vec<(&'static str, f32)>, advance: &mut Advance) {
        scalars.push((LOST, self.lost.len() as f32));
        advance.losses.push(scalars);
    }
}

#[cfg(test)]
mod tests {
    use shardgraph_device::Device;

    use super::*;
    use crate::config::AgentConfig;

    /// What is given to ranks 1, 1, 2 and 1 in a run that goes on at so many steps and updates.
    fn keys(n_steps: u64, n_updates: u64) -> [u64; 4] {
        let config = AgentConfig::named("cartpole-apex").unwrap();
        let run = RunState {
            n_steps,
            n_updates,
            ..RunState::first(&config, 1, &Device::host())
        };
        let mut run = LearnerRun::new(run, None, None).unwrap();
        [1, 1, 2, 1].map(|rank| run.arrival(rank))
    }

    #[test]
    fn the_mean_return_is_of_who_explores_the_least() {
        let config = AgentConfig::named("cartpole-apex").unwrap();
        let state = RunState::first(&config, 1, &Device::host());
        let mut run = LearnerRun::new(state, None, Some(0.01)).unwrap();
        let mut count = |episodic_return, epsilon| {
            let episode = Episode {
                episodic_return,
                length: 9,
            };
            let acted = Acted {
                n_steps: 9,
                episodes: &[episode],
                epsilon: Some(epsilon),
                lag: 0,
            };
            run.count(&acted, &mut Advance::default());
            let episodes = &run.state.episodes;
            (episodes.mean_return(), episodes.n_episodes())
        };
        assert_eq!(count(100.0, 0.4), (None, 1));
        assert_eq!(count(20.0, 0.01), (Some(20.0), 2));
        assert_eq!(count(100.0, 0.4), (Some(20.0), 3));
        assert_eq!(count(30.0, 0.01), (Some(25.0), 4));
    }

    #[test]
    fn only_who_is_first_in_a_new_run_has_no_key() {
        let new = keys(0, 0);
        assert!(new[0] == 0 && new[2] == 0 && new[1] > 0 && new[3] > 0 && new[1] != new[3]);
        // Before the first update too.
        let resumed = [keys(500, 0), keys(1000, 0), keys(1000, 7)];
        for of_run in &resumed {
            assert!(of_run[0] > 0 && of_run[0] == of_run[2] && of_run[0] != of_run[1]);
        }
        assert!(resumed[0][0] != resumed[1][0] && resumed[1][0] != resumed[2][0]);
    }
}
