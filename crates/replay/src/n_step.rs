//! n-step returns out of a memory: rewards summed up to n steps ahead, and where the rest of the
//! return is to be read.

use crate::episode_memory::{Ending, EpisodeMemory, Transition};

/// The first n rewards from a transition on, and the state at which the rest is estimated.
///
/// The target is `reward_sum + discount * value(picks[..bootstrap_step])`, or `reward_sum` alone
/// without a bootstrap step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NStep {
    /// r_0 + gamma r_1 + ... over the rewards that are there, at most n.
    pub reward_sum: f32,
    /// The number of picks that lead to the state after the last summed reward; `None` when that
    /// state is terminal.
    pub bootstrap_step: Option<u32>,
    /// gamma to the number of summed rewards; 0 when the state after them is terminal.
    pub discount: f32,
    /// The state of the episode there, when the sum reached its last recorded step; `None` when it
    /// goes on.
    pub ending: Option<Ending>,
}

impl EpisodeMemory {
    /// The n-step return from `transition`; `None` when it is stale.
    ///
    /// An episode that was truncated or is still running gives fewer than n rewards near its end,
    /// and a bootstrap step at the last state it reached; only a terminated one has nothing more to
    /// come.
    ///
    /// # Panics
    /// When `n` is 0.
    ///
    /// # Source
    /// Sutton and Barto, Reinforcement Learning, 2nd ed., section 7.1, equation 7.1.
    pub fn n_step(&self, transition: &Transition, n: u32, gamma: f32) -> Option<NStep> {
        assert!(n > 0, "an n-step return has at least one reward");
        let episode = self.episode_of(transition)?;
        let last = episode
            .end()
            .min(transition.generation.saturating_add(u64::from(n)));
        let rewards = (transition.generation..last).map(|generation| self.slot(generation).reward);
        let ending = (last == episode.end()).then_some(episode.ending);
        let (sum, discount) = sum_rewards(rewards, gamma);
        let n_picks = (last - episode.first) as u32;
        Some(NStep::new(sum, discount, n_picks, ending))
    }
}

impl NStep {
    /// Of rewards that lead to the state after `n_picks` picks, at which the episode stands as
    /// `ending` says if it goes no further.
    pub(crate) fn new(
        reward_sum: f32,
        discount: f32,
        n_picks: u32,
        ending: Option<Ending>,
    ) -> NStep {
        let is_terminal = ending == Some(Ending::Terminated);
        NStep {
            reward_sum,
            bootstrap_step: (!is_terminal).then_some(n_picks),
            discount: if is_terminal { 0.0 } else { discount },
            ending,
        }
    }
}

/// r_0 + gamma r_1 + ..., and gamma to the number of rewards.
pub(crate) fn sum_rewards(rewards: impl Iterator<Item = f32>, gamma: f32) -> (f32, f32) {
    rewards.fold((0.0, 1.0), |(sum, discount), reward| {
        (sum + discount * reward, discount * gamma)
    })
}
