//! What agents see and what they do: rows of finite numbers, one for each environment, the actions that
//! may be taken, and those that are.

use shardgraph_environments::{Actions, VectorEnvironment};
use shardgraph_replay::LeafRef;

use crate::error::{Call, Error};

/// What is seen of environments: a row for each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen<'a> {
    /// Rows of the observation space, flat.
    pub observations: &'a [f32],
    /// Rows of flags: the actions that may be taken; `None` where all may.
    pub mask: Option<&'a [bool]>,
}

impl<'a> Seen<'a> {
    /// What a vector of environments shows now.
    pub fn of(environments: &'a dyn VectorEnvironment) -> Seen<'a> {
        Seen {
            observations: environments.observations(),
            mask: environments.action_mask(),
        }
    }

    /// How many rows there are of `width` numbers, with flags for `n_actions` where there is a mask.
    ///
    /// # Errors
    /// When that is no whole number, a number is not finite, or a row has no action that may be taken.
    pub(crate) fn check(&self, call: Call, width: usize, n_actions: usize) -> Result<usize, Error> {
        let n = check(call, width, self.observations)?;
        let Some(mask) = self.mask else {
            return Ok(n);
        };
        if mask.len() != n * n_actions {
            return Err(call.mismatch("the flags of the mask", n * n_actions, mask.len()));
        }
        match mask
            .chunks_exact(n_actions)
            .position(|row| !row.contains(&true))
        {
            None => Ok(n),
            Some(row) => {
                let what = format!("the mask of environment {row}");
                Err(call.mismatch(what, "an action that may be taken", "none"))
            }
        }
    }
}

impl<'a> From<&'a [f32]> for Seen<'a> {
    fn from(observations: &'a [f32]) -> Seen<'a> {
        Seen {
            observations,
            mask: None,
        }
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Seen<'a> {
    fn from(observations: &'a [f32; N]) -> Seen<'a> {
        Seen::from(&observations[..])
    }
}

/// Actions for a vector of environments, used again for the next ones.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionBuffer {
    /// Numbers; a tuple of discrete spaces has one for each member.
    Discrete(Vec<u32>),
    /// Elements of a box.
    Continuous(Vec<f32>),
}

impl Default for ActionBuffer {
    fn default() -> ActionBuffer {
        ActionBuffer::Discrete(Vec::new())
    }
}

impl ActionBuffer {
    /// The actions, as environments take them.
    pub fn actions(&self) -> Actions<'_> {
        match self {
            ActionBuffer::Discrete(actions) => Actions::Discrete(actions),
            ActionBuffer::Continuous(actions) => Actions::Continuous(actions),
        }
    }

    /// An empty list for numbers.
    pub(crate) fn discrete(&mut self) -> &mut Vec<u32> {
        if !matches!(self, ActionBuffer::Discrete(_)) {
            *self = ActionBuffer::default();
        }
        match self {
            ActionBuffer::Discrete(actions) => {
                actions.clear();
                actions
            }
            ActionBuffer::Continuous(_) => unreachable!("it was made discrete above"),
        }
    }
}

/// Rows of actions, of which each has `width` numbers or elements.
impl ActionBuffer {
    /// So many zeros, for actions of a box or for numbers.
    pub(crate) fn zeros(is_box: bool, len: usize) -> ActionBuffer {
        match is_box {
            false => ActionBuffer::Discrete(vec![0; len]),
            true => ActionBuffer::Continuous(vec![0.0; len]),
        }
    }

    /// An empty one of this kind.
    pub(crate) fn emptied(&self) -> ActionBuffer {
        match self {
            ActionBuffer::Discrete(_) => ActionBuffer::Discrete(Vec::new()),
            ActionBuffer::Continuous(_) => ActionBuffer::Continuous(Vec::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            ActionBuffer::Discrete(actions) => actions.len(),
            ActionBuffer::Continuous(actions) => actions.len(),
        }
    }

    /// Row `row` of this one becomes row `from` of `actions`, which have its kind.
    pub(crate) fn copy_row(&mut self, row: usize, actions: Actions<'_>, from: usize, width: usize) {
        let (to, from) = (row * width, from * width);
        match (self, actions) {
            (ActionBuffer::Discrete(own), Actions::Discrete(actions)) => {
                own[to..to + width].copy_from_slice(&actions[from..from + width]);
            }
            (ActionBuffer::Continuous(own), Actions::Continuous(actions)) => {
                own[to..to + width].copy_from_slice(&actions[from..from + width]);
            }
            _ => unreachable!("the environments have taken actions of another kind"),
        }
    }

    /// Adds row `row` of another one of its kind.
    pub(crate) fn push_row(&mut self, other: &ActionBuffer, row: usize, width: usize) {
        match (self, other) {
            (ActionBuffer::Discrete(own), ActionBuffer::Discrete(other)) => {
                own.extend(&other[row * width..(row + 1) * width]);
            }
            (ActionBuffer::Continuous(own), ActionBuffer::Continuous(other)) => {
                own.extend(&other[row * width..(row + 1) * width]);
            }
            _ => unreachable!("both are of one space"),
        }
    }

    /// Row `row`, as a cell of a transition.
    pub(crate) fn row(&self, row: usize, width: usize) -> LeafRef<'_> {
        match self {
            ActionBuffer::Discrete(actions) => {
                LeafRef::U32(&actions[row * width..(row + 1) * width])
            }
            ActionBuffer::Continuous(actions) => {
                LeafRef::F32(&actions[row * width..(row + 1) * width])
            }
        }
    }

    /// An empty list for elements.
    pub(crate) fn continuous(&mut self) -> &mut Vec<f32> {
        if !matches!(self, ActionBuffer::Continuous(_)) {
            *self = ActionBuffer::Continuous(Vec::new());
        }
        match self {
            ActionBuffer::Continuous(actions) => {
                actions.clear();
                actions
            }
            ActionBuffer::Discrete(_) => unreachable!("it was made continuous above"),
        }
    }
}

/// What is added to the logit or the value of an action that may not be taken: its probability is 0.
pub(crate) const FORBIDDEN: f32 = -1e9;

/// A mask as numbers to add: 0 where an action may be taken, else [`FORBIDDEN`].
pub(crate) fn penalties(mask: impl IntoIterator<Item = bool>) -> impl Iterator<Item = f32> {
    mask.into_iter()
        .map(|may| if may { 0.0 } else { FORBIDDEN })
}

/// How many rows of `width` numbers there are.
///
/// # Errors
/// When that is no whole number, or one of them is not finite.
pub(crate) fn check(call: Call, width: usize, observations: &[f32]) -> Result<usize, Error> {
    if !observations.len().is_multiple_of(width) {
        let expected = format!("rows of {width}");
        let given = format!("{} numbers", observations.len());
        return Err(call.mismatch("the observations", expected, given));
    }
    // A loop without an exit goes through vectors of numbers.
    let are_finite = observations.iter().fold(true, |are, x| are & x.is_finite());
    let first = || observations.iter().position(|x| !x.is_finite());
    match (!are_finite).then(first).flatten() {
        None => Ok(observations.len() / width),
        Some(at) => {
            let (column, row) = (at % width, at / width);
            let what = format!("element {column} of the observation of environment {row}");
            Err(call.mismatch(what, "a finite number", observations[at]))
        }
    }
}
