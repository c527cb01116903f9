//! What settings must be, each with its name: rules that several algorithms have, and what is counted for them.

use serde::Serialize;
use shardgraph_components::{ActorCriticShape, QNetworkShape};

use crate::error::{Error, ErrorKind};
use crate::run_environments::Spaces;

/// More weights than this are a mistake: half a GiB of them.
pub(crate) const MAX_WEIGHTS: u64 = 1 << 27;
/// More weights than this do not fit a queue between ranks, of 64 MiB, with some words beside them.
pub(crate) const MAX_SENT_WEIGHTS: u64 = (1 << 24) - (1 << 18);
/// Rows of more transitions than this do not fit a message between ranks.
pub(crate) const MAX_ROWS: u64 = 1 << 20;
/// More actors or shards than this are a mistake.
pub(crate) const MAX_RANKS: u64 = 1 << 10;

/// Weights and biases of layers of these widths, one behind the other; 0 where a width is 0. In floats, which do not overflow and are
/// exact up to far more weights than any network may have.
pub(crate) fn n_weights_of_layers(n_inputs: usize, widths: &[usize]) -> f64 {
    if widths.contains(&0) {
        return 0.0;
    }
    let inputs = std::iter::once(&n_inputs).chain(widths);
    let layers = inputs.zip(widths);
    layers
        .map(|(&n, &width)| (n as f64 + 1.0) * width as f64)
        .sum()
}

/// What the widths of a network's first and last layers are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Floats of an observation.
    pub n_features: usize,
    /// Columns of what is said of actions: their number, where they are discrete.
    pub n_actions: usize,
}

impl Widths {
    /// Of these spaces.
    pub fn of(spaces: &Spaces) -> Widths {
        Widths {
            n_features: spaces.n_features(),
            n_actions: spaces.n_action_columns(),
        }
    }
}

/// Weights and biases of a policy with its values; 0 where a width is 0.
pub(crate) fn n_weights_of_policy(shape: &ActorCriticShape, widths: Widths) -> f64 {
    if shape.hidden.contains(&0) || shape.lstm == Some(0) {
        return 0.0;
    }
    let n_features = *shape.hidden.last().unwrap_or(&widths.n_features);
    let n_outputs = shape.lstm.unwrap_or(n_features);
    let memory = match shape.lstm.map(|n_hidden| n_hidden as f64) {
        None => 0.0,
        Some(n_hidden) => 4.0 * n_hidden * (n_features as f64 + n_hidden + 1.0),
    };
    let torso = n_weights_of_layers(widths.n_features, &shape.hidden);
    torso + memory + n_weights_of_layers(n_outputs, &[widths.n_actions + 1])
}

/// Weights and biases of a Q-network; 0 where a width is 0.
pub(crate) fn n_weights_of_values(shape: &QNetworkShape, widths: Widths) -> f64 {
    let of_stream = shape.dueling.as_deref().unwrap_or_default();
    if shape
        .hidden
        .iter()
        .chain(of_stream)
        .any(|&width| width == 0)
    {
        return 0.0;
    }
    let n_features = *shape.hidden.last().unwrap_or(&widths.n_features);
    let stream =
        |n_outputs: usize| n_weights_of_layers(n_features, &[of_stream, &[n_outputs]].concat());
    let of_value = shape.dueling.as_ref().map_or(0.0, |_| stream(1));
    n_weights_of_layers(widths.n_features, &shape.hidden) + stream(widths.n_actions) + of_value
}

/// An error of a part of the settings, with its name.
pub(crate) fn setting<T>(
    field: &str,
    checked: Result<T, shardgraph_components::Error>,
) -> Result<T, Error> {
    checked.map_err(|error| Error::input(format!("agent settings: `{field}`: {error}")))
}

/// What a setting must be.
pub(crate) struct Rule {
    /// The setting, with the tables that it is in.
    pub(crate) field: &'static str,
    pub(crate) holds: bool,
    pub(crate) expected: String,
    pub(crate) given: String,
}

impl Rule {
    pub(crate) fn at_least_1(field: &'static str, value: u64) -> Rule {
        Rule {
            field,
            holds: value >= 1,
            expected: "at least 1".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn between(field: &'static str, value: u64, largest: u64) -> Rule {
        Rule {
            field,
            holds: (1..=largest).contains(&value),
            expected: format!("1 to {largest}"),
            given: value.to_string(),
        }
    }

    pub(crate) fn not_negative(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: value.is_finite() && value >= 0.0,
            expected: "a finite number not below 0".to_owned(),
            given: value.to_string(),
        }
    }

    /// The layers of a network, of which there are the numbers of weights that `n_weights` says.
    pub(crate) fn network(shape: &impl Serialize, n_weights: f64, largest: u64) -> Rule {
        Rule {
            field: "algorithm.network",
            holds: (1.0..=largest as f64).contains(&n_weights),
            expected: format!("layers of at least 1, with at most {largest} weights in all"),
            given: serde_json::to_string(shape).unwrap_or_default(),
        }
    }

    /// Learners that share batches of so many blocks.
    pub(crate) fn learners(n_learners: u32, gradient_blocks: usize) -> Rule {
        Rule {
            field: "algorithm.n_learners",
            holds: n_learners >= 1 && n_learners as usize <= gradient_blocks,
            expected: format!("1 to `gradient_blocks`, {gradient_blocks}"),
            given: n_learners.to_string(),
        }
    }

    /// A block of every batch for each of so many ranks.
    pub(crate) fn ranks(n_ranks: u32, gradient_blocks: usize) -> Rule {
        Rule {
            field: "algorithm.gradient_blocks",
            holds: n_ranks as usize <= gradient_blocks,
            expected: format!("at least {n_ranks}, a block for each rank"),
            given: gradient_blocks.to_string(),
        }
    }

    pub(crate) fn above_0(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: value.is_finite() && value > 0.0,
            expected: "a finite number above 0".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn fraction(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: (0.0..=1.0).contains(&value),
            expected: "0 to 1".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        if self.holds {
            return Ok(());
        }
        Err(ErrorKind::Setting {
            field: self.field,
            expected: self.expected,
            given: self.given,
        }
        .into())
    }
}

/// The settings of batches that are drawn from a replay memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSettings {
    pub(crate) batch_size: usize,
    pub(crate) gradient_blocks: usize,
    pub(crate) learning_starts: u64,
    pub(crate) train_every: u64,
    pub(crate) log_updates: u64,
    pub(crate) capacity: usize,
    /// Steps whose transitions are not complete yet.
    pub(crate) n_waiting: u64,
}

impl BatchSettings {
    /// The memory must hold a batch when the first update comes, and its blocks must be equal.
    pub(crate) fn rules(self) -> [Rule; 7] {
        let n_needed = self.batch_size as u64 + self.n_waiting;
        [
            Rule::between("algorithm.batch_size", self.batch_size as u64, MAX_ROWS),
            Rule::at_least_1("algorithm.gradient_blocks", self.gradient_blocks as u64),
            Rule {
                field: "algorithm.gradient_blocks",
                holds: self.gradient_blocks > 0
                    && self.batch_size.is_multiple_of(self.gradient_blocks),
                expected: format!("a number that divides `batch_size`, {}", self.batch_size),
                given: self.gradient_blocks.to_string(),
            },
            Rule::at_least_1("algorithm.train_every", self.train_every),
            Rule::at_least_1("algorithm.log_updates", self.log_updates),
            Rule {
                field: "algorithm.replay.capacity",
                holds: (self.batch_size..=u32::MAX as usize).contains(&self.capacity),
                expected: format!("`batch_size`, {}, to 2^32 - 1", self.batch_size),
                given: self.capacity.to_string(),
            },
            Rule {
                field: "algorithm.learning_starts",
                holds: self.learning_starts >= n_needed,
                expected: format!(
                    "at least {n_needed} steps, after which the memory holds a batch"
                ),
                given: self.learning_starts.to_string(),
            },
        ]
    }
}
