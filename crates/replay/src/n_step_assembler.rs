//! n-step returns of steps that come one after the other, for memories that store transitions
//! whole.

use std::collections::VecDeque;

use crate::episode_memory::Ending;
use crate::n_step::{NStep, sum_rewards};

/// A transition over up to n steps. All that come out of one push end in one state: the one after
/// the pushed step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NStepTransition<S> {
    /// The start that was pushed with the first step: its observation and action.
    pub start: S,
    /// The number of summed rewards: n, or fewer before the end of an episode.
    pub n_rewards: u32,
    /// r_0 + gamma r_1 + ... over these rewards.
    pub reward_sum: f32,
    /// The factor of the last state's value: gamma to the number of rewards; 0 when that state is
    /// terminal. A memory that stores it needs no flag for the end.
    pub discount: f32,
    /// The state of the episode there, when this transition reaches its end.
    pub ending: Option<Ending>,
}

/// Folds the steps of one environment into n-step transitions; a vector of environments has one for
/// each.
///
/// A step that ends its episode completes every window that is open: with a discount of 0 if the
/// episode terminated, and otherwise with the value of the last state to come, which is the final
/// state of the old episode and not the first of the new. A step at which a vector only began an
/// episode is not pushed.
///
/// # Complexity
/// O(n) for each step; n starts are kept at most.
///
/// # Source
/// Sutton and Barto, Reinforcement Learning, 2nd ed., section 7.1, equation 7.1.
///
/// ```
/// use shardgraph_replay::{Ending, NStepAssembler};
///
/// let mut folder = NStepAssembler::new(2, 0.5);
/// let mut folded = Vec::new();
/// folder.push("s0", 1.0, None, &mut folded);
/// assert!(folded.is_empty()); // one reward of two
/// folder.push("s1", 2.0, None, &mut folded);
/// assert_eq!((folded[0].start, folded[0].reward_sum, folded[0].discount), ("s0", 2.0, 0.25));
/// folded.clear();
/// folder.push("s2", 4.0, Some(Ending::Terminated), &mut folded);
/// let ends: Vec<_> = folded.iter().map(|f| (f.start, f.reward_sum, f.discount)).collect();
/// assert_eq!(ends, [("s1", 4.0, 0.0), ("s2", 4.0, 0.0)]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NStepAssembler<S> {
    n: usize,
    gamma: f32,
    /// Starts and rewards of the windows that are open, the oldest first.
    open: VecDeque<(S, f32)>,
}

impl<S> NStepAssembler<S> {
    /// Folds `n` rewards at the discount `gamma`.
    ///
    /// # Panics
    /// When `n` is 0.
    pub fn new(n: u32, gamma: f32) -> NStepAssembler<S> {
        assert!(n > 0, "an n-step return has at least one reward");
        NStepAssembler {
            n: n as usize,
            gamma,
            open: VecDeque::new(),
        }
    }

    /// Takes a step: where it began, what it earned, and how its episode ended if it did. Adds the
    /// transitions that it completes to `out`, the oldest first.
    pub fn push(
        &mut self,
        start: S,
        reward: f32,
        ending: Option<Ending>,
        out: &mut Vec<NStepTransition<S>>,
    ) {
        self.open.push_back((start, reward));
        match ending {
            Some(ending) => self.finish(ending, out),
            None if self.open.len() == self.n => self.complete(None, out),
            None => {}
        }
    }

    /// Completes the open windows at the state after the last step, whose episode goes on: the end
    /// of a fragment. What is pushed next begins anew.
    pub fn cut(&mut self, out: &mut Vec<NStepTransition<S>>) {
        self.finish(Ending::Cut, out);
    }

    /// The steps that wait for their windows' other rewards, the oldest first. Pushed into a new
    /// folder they make an equal one: that is how a checkpoint keeps them.
    pub fn pending(&self) -> impl Iterator<Item = (&S, f32)> {
        self.open.iter().map(|(start, reward)| (start, *reward))
    }

    fn finish(&mut self, ending: Ending, out: &mut Vec<NStepTransition<S>>) {
        while !self.open.is_empty() {
            self.complete(Some(ending), out);
        }
    }

    /// Folds every reward from the oldest start on.
    fn complete(&mut self, ending: Option<Ending>, out: &mut Vec<NStepTransition<S>>) {
        let n_rewards = self.open.len() as u32;
        let (sum, discount) = sum_rewards(self.open.iter().map(|&(_, reward)| reward), self.gamma);
        let NStep {
            reward_sum,
            discount,
            ending,
            ..
        } = NStep::new(sum, discount, n_rewards, ending);
        if let Some((start, _)) = self.open.pop_front() {
            out.push(NStepTransition {
                start,
                n_rewards,
                reward_sum,
                discount,
                ending,
            });
        }
    }
}
