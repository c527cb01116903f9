//! The memory of a rank's network: one account through which training allocates its arrays, and
//! through which a dry run of the same code counts them.
//!
//! The account is that of `job`.

use serde::Serialize;

/// The account of some arrays.
pub(crate) type Memory = shardgraph_job::Memory<Bytes>;

/// Bytes that an account counts for as long as this exists.
pub(crate) type Held = shardgraph_job::Held<Bytes>;

/// An array of numbers of a [`Memory`].
pub(crate) type Array<T> = shardgraph_job::Array<T, Bytes>;

/// Bytes of a device, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Bytes {
    /// Weights of the input layer that the device owns and steps: a row of V for each of its nodes,
    /// or a row a pair.
    pub weights: u64,
    /// Inputs of its messages, where these are dealt by pair and not by source: copies of rows and
    /// activations, its own among them. Materialised weights W_r, where the run has them.
    pub copies: u64,
    /// Adam's two numbers for each weight.
    pub optimiser: u64,
    /// The part's edges and self loops by pair, with their normalisers.
    pub edges: u64,
    /// Outputs of each layer for the part's own nodes.
    pub units: u64,
    /// Sums over all nodes: integers of 8 bytes where they are exact, floats where other devices
    /// have a part in them.
    pub sums: u64,
    /// The other parameters, Adam's numbers for them, and their tables by relation.
    pub parameters: u64,
    /// Gradients that live for a part of a step, and the pieces in which ranks hand rows and
    /// gradients around.
    pub gradients: u64,
}

impl Bytes {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.resident() + self.streamed()
    }

    /// Bytes that a device holds all the time, however its sources are divided.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.copies + self.edges + self.units + self.sums + self.parameters + self.gradients
    }

    /// Bytes that come and go with the sources where they are divided into tiles.
    #[must_use]
    pub fn streamed(&self) -> u64 {
        self.weights + self.optimiser
    }
}

impl shardgraph_job::Bytes for Bytes {
    type Purpose = Purpose;

    fn of(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Weights => &mut self.weights,
            Purpose::Copies => &mut self.copies,
            Purpose::Optimiser => &mut self.optimiser,
            Purpose::Edges => &mut self.edges,
            Purpose::Units => &mut self.units,
            Purpose::Sums => &mut self.sums,
            Purpose::Parameters => &mut self.parameters,
            Purpose::Gradients => &mut self.gradients,
        }
    }

    fn total(&self) -> u64 {
        Bytes::total(self)
    }
}

/// The field of [`Bytes`] that an array counts in.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    Weights,
    Copies,
    Optimiser,
    Edges,
    Units,
    Sums,
    Parameters,
    Gradients,
}
