//! Steps of several environments at once, their actions, and the start of the next episode of one whose
//! episode ended.

use crate::error::Error;

/// Two structs whose fields are the first and the second parts of pairs.
macro_rules! both_parts {
    ($kind:ident { $($field:ident: $pair:expr),* $(,)? }) => {{
        $(let $field = $pair;)*
        ($kind { $($field: $field.0),* }, $kind { $($field: $field.1),* })
    }};
}
pub(crate) use both_parts;

/// The time at which an environment whose episode ended begins the next one.
///
/// Code that is right for one of these is wrong for another.
///
/// # Source
/// The three autoreset modes of Gymnasium's vector environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// At the next step, which then takes no action: its reward is 0, and the state after it is the
    /// first of the new episode. The state after the last action stays visible for one step. Such a
    /// step is no transition: see [`VectorStep::reset`].
    NextStep,
    /// Within the step that ends the episode: the state after it is the first of the new episode,
    /// and the last of the old one is kept as final state.
    SameStep,
    /// Never by itself: `reset_where` begins episodes, and a step of an environment that is done is
    /// an error.
    Disabled,
}

/// The actions of one step, row-major: a row for each environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Actions<'a> {
    /// Numbers of a discrete space; of a tuple of discrete spaces, one number for each member.
    Discrete(&'a [u32]),
    /// Elements of a box.
    Continuous(&'a [f32]),
}

impl<'a> Actions<'a> {
    /// The first `n` numbers, and the others.
    pub(crate) fn split_at(self, n: usize) -> (Actions<'a>, Actions<'a>) {
        match self {
            Actions::Discrete(numbers) => {
                let (left, right) = numbers.split_at(n);
                (Actions::Discrete(left), Actions::Discrete(right))
            }
            Actions::Continuous(elements) => {
                let (left, right) = elements.split_at(n);
                (Actions::Continuous(left), Actions::Continuous(right))
            }
        }
    }
}

/// The result of a step, an element for each environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorStep {
    /// The rewards.
    pub rewards: Vec<f32>,
    /// True if the episode reached its end.
    pub terminated: Vec<bool>,
    /// True if a limit stopped the episode.
    pub truncated: Vec<bool>,
    /// True if the environment began an episode in place of taking its action
    /// ([`Autoreset::NextStep`] only): there is nothing to learn from such a step.
    pub reset: Vec<bool>,
}

/// The result of a step for neighbouring environments, to be written.
#[derive(Debug)]
pub(crate) struct StepMut<'a> {
    pub(crate) rewards: &'a mut [f32],
    pub(crate) terminated: &'a mut [bool],
    pub(crate) truncated: &'a mut [bool],
    pub(crate) reset: &'a mut [bool],
}

impl<'a> StepMut<'a> {
    pub(crate) fn split_at(self, n: usize) -> (StepMut<'a>, StepMut<'a>) {
        both_parts!(StepMut {
            rewards: self.rewards.split_at_mut(n),
            terminated: self.terminated.split_at_mut(n),
            truncated: self.truncated.split_at_mut(n),
            reset: self.reset.split_at_mut(n),
        })
    }
}

impl VectorStep {
    pub(crate) fn as_mut(&mut self) -> StepMut<'_> {
        StepMut {
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            reset: &mut self.reset,
        }
    }

    pub(crate) fn clear(&mut self, n_environments: usize) {
        self.rewards.clear();
        self.rewards.resize(n_environments, 0.0);
        for flags in [&mut self.terminated, &mut self.truncated, &mut self.reset] {
            flags.clear();
            flags.resize(n_environments, false);
        }
    }

    /// True if the last step was the last of an episode of environment `idx`.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn ended(&self, idx: usize) -> bool {
        self.terminated[idx] || self.truncated[idx]
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
