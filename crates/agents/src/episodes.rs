//! Returns of episodes: those that run, and the last that ended.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use shardgraph_job::tags;

use crate::error::Error;

/// How many of the last episodes a mean return is over.
pub const N_RECENT_EPISODES: usize = 100;

/// The most steps of an episode that is waited for: one with more has no end.
pub(crate) const MAX_EPISODE_STEPS: u64 = 1 << 20;

/// Refuses a step of whole episodes beyond the last one that they may have.
pub(crate) fn check_length(n_steps: u64, limit: u64) -> Result<(), Error> {
    if n_steps < limit {
        return Ok(());
    }
    Err(Error::input(format!(
        "an episode of more than {limit} steps: give the environments a limit of steps"
    )))
}

/// An episode that ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The sum of its rewards.
    pub episodic_return: f32,
    /// The number of its steps.
    pub length: u64,
}

impl Episode {
    /// As the metrics have it, with the probability of a random action, if there is one.
    pub(crate) fn scalars(&self, epsilon: Option<f32>) -> Vec<(&'static str, f32)> {
        let mut scalars = vec![
            (tags::EPISODIC_RETURN, self.episodic_return),
            (tags::EPISODIC_LENGTH, self.length as f32),
        ];
        scalars.extend(epsilon.map(|epsilon| (tags::EPSILON, epsilon)));
        scalars
    }
}

/// The running episodes of a vector of environments, and the returns of the last [`N_RECENT_EPISODES`] that ended.
///
/// ```
/// use shardgraph_agents::EpisodeStatistics;
///
/// let mut episodes = EpisodeStatistics::new(2);
/// assert_eq!(episodes.record(0, 1.0, false), None);
/// assert_eq!(episodes.record(0, 2.0, true).unwrap().length, 2);
/// assert_eq!(episodes.mean_return(), Some(3.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeStatistics {
    /// Return and length so far, by environment.
    running: Vec<(f32, u64)>,
    recent: VecDeque<f32>,
    n_episodes: u64,
}

impl EpisodeStatistics {
    /// No steps yet of `n_environments`.
    pub fn new(n_environments: usize) -> EpisodeStatistics {
        EpisodeStatistics {
            running: vec![(0.0, 0); n_environments],
            recent: VecDeque::with_capacity(N_RECENT_EPISODES),
            n_episodes: 0,
        }
    }

    /// Counts a step of environment `idx`; gives the episode that it ended.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn record(&mut self, idx: usize, reward: f32, ended: bool) -> Option<Episode> {
        let (episodic_return, length) = &mut self.running[idx];
        *episodic_return += reward;
        *length += 1;
        if !ended {
            return None;
        }
        let (episodic_return, length) = std::mem::take(&mut self.running[idx]);
        while self.recent.len() >= N_RECENT_EPISODES {
            self.recent.pop_front();
        }
        self.recent.push_back(episodic_return);
        self.n_episodes += 1;
        Some(Episode {
            episodic_return,
            length,
        })
    }

    /// Counts an episode that ended and whose return is none of those that the mean is over.
    pub(crate) fn count(&mut self) {
        self.n_episodes += 1;
    }

    /// The mean return of the last episodes, at most [`N_RECENT_EPISODES`]; `None` before the first ended.
    pub fn mean_return(&self) -> Option<f64> {
        let n = self.recent.len();
        let sum: f64 = self.recent.iter().copied().map(f64::from).sum();
        (n > 0).then(|| sum / n as f64)
    }

    /// The number of episodes that ended.
    pub fn n_episodes(&self) -> u64 {
        self.n_episodes
    }

    /// These returns, where they are of `n` environments.
    pub(crate) fn of_environments(self, n: usize) -> Result<EpisodeStatistics, Error> {
        let given = self.n_environments();
        match given == n {
            true => Ok(self),
            false => Err(Error::input(format!(
                "its episodes are those of {given} environments, not {n}"
            ))),
        }
    }

    /// The number of environments.
    pub fn n_environments(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_hundred_count() {
        let mut episodes = EpisodeStatistics::new(1);
        assert_eq!(episodes.mean_return(), None);
        for episode in 0..N_RECENT_EPISODES + 3 {
            episodes.record(0, if episode < 3 { 1000.0 } else { 2.0 }, true);
        }
        assert_eq!(episodes.mean_return(), Some(2.0));
        assert_eq!(episodes.n_episodes(), 103);
    }

    #[test]
    fn environments_are_kept_apart() {
        let mut episodes = EpisodeStatistics::new(2);
        episodes.record(1, 5.0, false);
        let first = episodes.record(0, 1.0, true).unwrap();
        assert_eq!((first.episodic_return, first.length), (1.0, 1));
        let second = episodes.record(1, 5.0, true).unwrap();
        assert_eq!((second.episodic_return, second.length), (10.0, 2));
    }
}
