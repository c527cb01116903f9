//! What a search gives back.

use serde::Serialize;

/// What a decoder returns: two numbers, compared one after the other, smaller is better.
///
/// One objective goes into the first and 0 into the second. A limit goes before the objective: (excess over the limit, cost),
/// so that every chromosome within the limit beats every other. An objective to maximise is subtracted from a constant.
pub type Fitness = (u64, u64);

/// A chromosome and what it decoded to.
#[derive(Clone, Debug, PartialEq)]
pub struct Individual {
    /// What the decoder returned for `keys`.
    pub fitness: Fitness,
    /// The chromosome: f32 numbers of [0, 1).
    pub keys: Vec<f32>,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// All evaluations are used.
    Evaluations,
    /// The target fitness is reached.
    Target,
    /// No better best for `stall_generations` generations.
    Stall,
    /// The caller asked for the outcome before the end.
    Caller,
}

/// The state after one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// Decodings so far.
    pub evaluations: u64,
    /// The best fitness so far.
    pub best: Fitness,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The best chromosome of all populations; of equals the one of the first population, and there the oldest.
    pub best: Individual,
    /// Decodings that were made.
    pub evaluations: u64,
    /// Why it ended.
    pub stop: Stop,
    /// One entry a generation; the first is the initial population.
    pub history: Vec<Generation>,
    /// The last generation of every population, best first: its elites are the first `elites` of it.
    pub populations: Vec<Vec<Individual>>,
}
