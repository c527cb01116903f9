//! What a device holds while a part is trained, counted from the arrays before there are any.

use serde::Serialize;

use super::Load;

/// The two-layer model whose memory and messages are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelShape {
    /// Units of the hidden layer.
    pub hidden: u32,
    /// Bases of each layer; 0 for none, so that each pair (source, relation) has a row of its own.
    pub bases: u32,
    /// Units of the output.
    pub classes: u32,
    /// Whether Adam keeps two more numbers for each weight.
    pub adam: bool,
}

/// Bytes of a device, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Bytes {
    /// Weights of the input layer: the rows of V that the part's sources have, or a row a pair; rows of self loops.
    pub weights: u64,
    /// Adam's two numbers for each of them.
    pub optimiser: u64,
    /// w, the row that each pair (source, relation) sends, kept for the way back.
    pub pair_rows: u64,
    /// The hidden layer and the output with their gradients, of all nodes.
    pub activations: u64,
    /// The part's edges by pair for both layers, and the pairs.
    pub edges: u64,
    /// Coefficients and the weights of the second layer, with their gradients.
    pub parameters: u64,
}

impl Bytes {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.resident() + self.streamed()
    }

    /// What a device holds all the time, however its sources are divided.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.pair_rows + self.activations + self.edges + self.parameters
    }

    /// What comes and goes with the sources where they are divided into tiles.
    #[must_use]
    pub fn streamed(&self) -> u64 {
        self.weights + self.optimiser
    }
}

const F32: u64 = 4;

impl ModelShape {
    /// What a device with that load holds, of a graph of `n_nodes` and `n_relations`.
    #[must_use]
    pub fn bytes(&self, load: &Load, n_nodes: u32, n_relations: u32) -> Bytes {
        let (hidden, bases) = (u64::from(self.hidden), u64::from(self.bases));
        let (classes, n_nodes) = (u64::from(self.classes), u64::from(n_nodes));
        let relations = u64::from(n_relations);
        let rows = self.input_rows(load) + load.n_self_loops;
        let weights = F32 * rows * hidden;
        let second = match bases {
            0 => relations * hidden * classes,
            _ => bases * hidden * classes + relations * bases,
        };
        let pair_rows = if bases == 0 { 0 } else { load.n_pairs };
        Bytes {
            weights,
            optimiser: if self.adam { 2 * weights } else { 0 },
            pair_rows: F32 * pair_rows * hidden,
            activations: 2 * F32 * n_nodes * (hidden + classes),
            edges: 2 * (8 * load.n_edges + 8 * load.n_pairs + 4 * load.n_sources),
            parameters: 2 * F32 * (second + relations * bases + hidden * classes),
        }
    }

    /// Rows of hidden units that the input layer has for a load, self loops apart.
    pub(super) fn input_rows(&self, load: &Load) -> u64 {
        match self.bases {
            0 => load.n_pairs,
            bases => load.n_sources * u64::from(bases),
        }
    }
}
