//! Batch and time ranks: values of a space in front of which stand a batch, a time, or both, and how two ranks become one.

use serde::{Deserialize, Serialize};

use super::{Space, Value};
use crate::error::Error;

/// Which of the two ranks is the outer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Major {
    /// Steps of time, each with a batch: `[T, B, ..]`.
    Time,
    /// Sequences, each with steps of time: `[B, T, ..]`.
    Batch,
}

/// The ranks in front of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ranks {
    /// Whether there is a batch.
    pub batch: bool,
    /// Whether there is a time, and which rank is the outer one where there is a batch too.
    pub time: Option<Major>,
}

/// A space with ranks in front of it: what a component's input is.
///
/// ```
/// use shardgraph_environments::space::{Major, RankedSpace, Space};
///
/// let observation = RankedSpace::new(Space::boxed(&[4], -1.0, 1.0)?);
/// assert_eq!(observation.leading_shape(8, 32), [0; 0]);
/// let sequences = observation.with_batch().with_time(Major::Time);
/// assert_eq!(sequences.leading_shape(8, 32), [8, 32]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedSpace {
    /// What each place holds a value of.
    pub space: Space,
    /// Which ranks there are.
    #[serde(default)]
    pub ranks: Ranks,
}

impl RankedSpace {
    /// One value of `space`, without ranks.
    pub fn new(space: Space) -> RankedSpace {
        RankedSpace {
            space,
            ranks: Ranks::default(),
        }
    }

    /// The same with a batch.
    pub fn with_batch(mut self) -> RankedSpace {
        self.ranks.batch = true;
        self
    }

    /// The same with a time.
    pub fn with_time(mut self, major: Major) -> RankedSpace {
        self.ranks.time = Some(major);
        self
    }

    /// The extents of the ranks that there are, the outer one first.
    pub fn leading_shape(&self, n_steps: usize, batch_size: usize) -> Vec<usize> {
        match (self.ranks.time, self.ranks.batch) {
            (None, false) => vec![],
            (None, true) => vec![batch_size],
            (Some(_), false) => vec![n_steps],
            (Some(Major::Time), true) => vec![n_steps, batch_size],
            (Some(Major::Batch), true) => vec![batch_size, n_steps],
        }
    }
}

/// The shape with its two outer ranks as one: `[T, B, ..]` to `[T * B, ..]`, or `[B, T, ..]` likewise. Row-major data stay as they
/// are.
///
/// # Errors
/// When there are less than two ranks, the first one is 0 (it could not be found again), or the product is too large.
///
/// ```
/// use shardgraph_environments::space::{fold_time, unfold_time};
///
/// assert_eq!(fold_time(&[8, 32, 4])?, [256, 4]);
/// assert_eq!(unfold_time(&[256, 4], 8)?, [8, 32, 4]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
pub fn fold_time(shape: &[usize]) -> Result<Vec<usize>, Error> {
    let folded = match shape {
        [first, second, rest @ ..] if *first > 0 => first
            .checked_mul(*second)
            .map(|product| [&[product], rest].concat()),
        _ => None,
    };
    folded.ok_or_else(|| {
        let expected = "two ranks or more, the first one not 0, whose product fits";
        Error::mismatch(
            "fold_time",
            "the shape",
            expected.into(),
            format!("{shape:?}"),
        )
    })
}

/// The inverse of [`fold_time`]: the first rank as two, the outer one of extent `n_outer`.
///
/// # Errors
/// When there is no rank, or the first one is no multiple of `n_outer`.
pub fn unfold_time(shape: &[usize], n_outer: usize) -> Result<Vec<usize>, Error> {
    match shape {
        [first, rest @ ..] if n_outer > 0 && first % n_outer == 0 => {
            Ok([&[n_outer, first / n_outer], rest].concat())
        }
        _ => {
            let expected = format!("a first rank that is a multiple of {n_outer}, which is not 0");
            Err(Error::mismatch(
                "unfold_time",
                "the shape",
                expected,
                format!("{shape:?}"),
            ))
        }
    }
}

/// [`fold_time`] of values: those of the first step, then those of the second one, and so on.
///
/// # Errors
/// When there is no step, or the steps have not all as many values.
pub fn fold_time_values(steps: Vec<Vec<Value>>) -> Result<Vec<Value>, Error> {
    let lengths: Vec<_> = steps.iter().map(Vec::len).collect();
    let is_even = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    if lengths.is_empty() || !is_even {
        let expected = "one or more, each with as many values".into();
        let given = format!("{lengths:?}");
        return Err(Error::mismatch(
            "fold_time_values",
            "the steps",
            expected,
            given,
        ));
    }
    Ok(steps.into_iter().flatten().collect())
}

/// [`unfold_time`] of values: the inverse of [`fold_time_values`].
///
/// # Errors
/// When the number of values is no multiple of `n_outer`.
pub fn unfold_time_values(values: Vec<Value>, n_outer: usize) -> Result<Vec<Vec<Value>>, Error> {
    let shape = unfold_time(&[values.len()], n_outer)?;
    let mut values = values.into_iter();
    let step = |_| values.by_ref().take(shape[1]).collect();
    Ok((0..n_outer).map(step).collect())
}
