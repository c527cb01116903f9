//! Bytes that a rank's device holds at the fullest moment of a step: one formula, for the plan as
//! for the training.
//!
//! The training counts its arrays too ([`super::held`]), and stops where more is held than was
//! predicted here.

use serde::Serialize;

use crate::config::{Config, Optimiser, Sums};
use crate::layer::coefficients::RelationShape;

/// Numbers that a rank sends at a time: all of them, and their copies on the way, would be several
/// times what it computes with. Tests have small graphs, and several pieces all the same.
pub(crate) const PIECE: usize = if cfg!(test) { 1 << 9 } else { 1 << 18 };

/// Buffers of a piece that a rank has: the sent, the received, and two copies on the way where
/// ranks are threads.
pub(crate) const N_PIECES: usize = 4;

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

/// A rank's part of one layer in numbers: the messages that it computes, and the nodes that it
/// owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayerCounts {
    /// Sources, pairs and edges of the messages that it computes, self loops among them.
    pub(crate) n_sources: u64,
    pub(crate) n_pairs: u64,
    pub(crate) n_sends: u64,
    /// Relations of those, the self loop not counted.
    pub(crate) n_relations: u64,
    /// Distinct pairs of a fixed block of sources and a relation: gradients that it adds up.
    pub(crate) n_block_relations: u64,
    /// Sources that it owns, their pairs, and how often ranks read them.
    pub(crate) n_own_sources: u64,
    pub(crate) n_own_pairs: u64,
    pub(crate) n_own_reads: u64,
    /// Nodes of the output that it owns, and all of them.
    pub(crate) n_own_nodes: u64,
    pub(crate) n_all_nodes: u64,
    /// Fixed blocks of nodes that it owns.
    pub(crate) n_own_blocks: u64,
    /// True if an earlier layer has the same messages, and so their lists.
    pub(crate) shares_lists: bool,
}

/// The model and the way its messages are dealt, as far as they decide bytes.
#[derive(Clone, Debug)]
pub(crate) struct MemoryModel<'a> {
    pub(crate) config: &'a Config,
    pub(crate) layers: Vec<RelationShape>,
    /// Relations of the model, the self loop among them.
    pub(crate) n_relations: usize,
    pub(crate) is_alone: bool,
    /// True if ranks compute messages of others' sources.
    pub(crate) by_pair: bool,
    /// True if each rank reads the rows of all nodes.
    pub(crate) replicates: bool,
    /// Numbers of W_r that the rank builds.
    pub(crate) n_materialised: u64,
    /// True if the input's rows come in tiles, which have their gradients with them.
    pub(crate) is_tiled: bool,
}

/// Numbers in a row of the input.
pub(crate) fn input_row_len(config: &Config, layers: &[RelationShape]) -> usize {
    let shape = layers[0].shape;
    match (config.embedding, config.bases) {
        (0, 0) => shape.width,
        (0, _) => shape.stride,
        (width, _) => width,
    }
}

/// Numbers that there are for each parameter: itself, Adam's means or Adagrad's sum.
pub(crate) fn copies(config: &Config) -> u64 {
    match config.optimiser {
        Optimiser::Sgd => 1,
        Optimiser::Adagrad => 2,
        Optimiser::Adam => 3,
    }
}

impl MemoryModel<'_> {
    /// The bytes of a rank with these counts, layer by layer.
    pub(crate) fn bytes(&self, counts: &[LayerCounts]) -> Bytes {
        let mut bytes = Bytes::default();
        let mut widest_sums = 0;
        for (layer, counts) in counts.iter().enumerate() {
            let of_layer = LayerBytes::new(self, layer, *counts);
            of_layer.add_held(&mut bytes);
            bytes.gradients = bytes.gradients.max(of_layer.moment());
            widest_sums = widest_sums.max(counts.n_all_nodes * of_layer.width);
        }
        bytes.sums = widest_sums * self.bytes_a_sum();
        bytes
    }

    /// Bytes of a sum over all nodes, and of a gradient of it where other ranks have a part in
    /// both.
    fn bytes_a_sum(&self) -> u64 {
        let fixed = match self.config.sums {
            Sums::Exact => 8,
            Sums::Float => 0,
        };
        fixed + if self.is_alone { 0 } else { 4 }
    }
}

/// One layer's part of the formula.
struct LayerBytes<'a> {
    model: &'a MemoryModel<'a>,
    counts: LayerCounts,
    is_first: bool,
    width: u64,
    /// Numbers of a row that the layer reads.
    input_len: u64,
    /// Rows that the rank owns, and rows that its messages are computed from.
    n_own_rows: u64,
    n_rows: u64,
    n_params: u64,
    n_bias: u64,
    reduced_row: u64,
    table: u64,
    n_materialised: u64,
}

impl<'a> LayerBytes<'a> {
    fn new(model: &'a MemoryModel<'a>, layer: usize, counts: LayerCounts) -> LayerBytes<'a> {
        let (config, relations) = (model.config, model.layers[layer]);
        let is_first = layer == 0;
        let width = relations.shape.width as u64;
        let (n_own_rows, n_rows) = match is_first && !config.has_first_table() {
            true => (counts.n_own_pairs, counts.n_pairs),
            false => (counts.n_own_sources, counts.n_sources),
        };
        LayerBytes {
            model,
            counts,
            is_first,
            width,
            input_len: match is_first {
                true => input_row_len(config, &model.layers) as u64,
                false => model.layers[layer - 1].shape.width as u64,
            },
            n_own_rows,
            n_rows,
            n_params: relations.n_params(model.n_relations) as u64,
            n_bias: if config.bias { width } else { 0 },
            reduced_row: relations.reduced_row() as u64,
            table: (model.n_relations * relations.shape.stride) as u64,
            n_materialised: if is_first { model.n_materialised } else { 0 },
        }
    }

    /// Adds the bytes that stay.
    fn add_held(&self, bytes: &mut Bytes) {
        let (model, counts) = (self.model, &self.counts);
        let copies = copies(model.config);
        if self.is_first {
            bytes.weights = 4 * self.n_own_rows * self.input_len;
            // Given features take no steps.
            let is_learnt = u64::from(!model.config.features);
            bytes.optimiser = is_learnt * (copies - 1) * bytes.weights;
        }
        let n_copied = if model.by_pair {
            self.n_rows * self.input_len
        } else {
            0
        };
        bytes.copies += 4 * (n_copied + self.n_materialised);
        if !counts.shares_lists {
            bytes.edges += self.list_bytes();
        }
        bytes.units += 4 * counts.n_own_nodes * self.width;
        bytes.parameters += 4 * (copies * (self.n_params + self.n_bias) + self.table);
    }

    /// Bytes of the lists of pairs and messages; where they are dealt by pair, also of the pairs of
    /// own sources, of the ranks that compute them, and of the sources that each rank reads.
    fn list_bytes(&self) -> u64 {
        let counts = &self.counts;
        let computed = 4 * (counts.n_sources + 1 + 2 * counts.n_pairs + 1) + 8 * counts.n_sends;
        if !self.model.by_pair {
            return computed;
        }
        let own = 4 * (counts.n_own_sources + 1 + counts.n_own_pairs);
        computed + own + 4 * counts.n_own_reads + 2 * counts.n_own_pairs
    }

    /// Bytes that live for a part of a step: backward, gradients of the outputs and inputs, those
    /// of each fixed block's shared parameters and of one table, and where messages are dealt by
    /// pair theirs, and pieces on their way; forward, a part of others' sums.
    fn moment(&self) -> u64 {
        let (model, counts) = (self.model, &self.counts);
        let n_outputs = counts.n_own_nodes * self.width;
        // Rows take their steps as their gradients come; activations and embeddings have theirs
        // beside them.
        let has_gradients = match self.is_first {
            true => model.config.embedding > 0 && !model.is_tiled,
            false => true,
        };
        let gradients = if has_gradients {
            self.n_own_rows * self.input_len
        } else {
            0
        };
        let rows = counts.n_block_relations * self.reduced_row;
        let partials = rows + counts.n_own_blocks * self.n_bias + self.table;
        let messages = match (model.by_pair, self.is_first && model.replicates) {
            (false, _) => 0,
            (true, true) => (self.n_rows + self.n_own_rows) * self.input_len,
            (true, false) => self.n_message_gradients(),
        };
        let backward = 4 * (n_outputs + gradients + partials + messages + self.n_materialised);
        match model.config.sums {
            Sums::Exact if !model.is_alone => backward.max(8 * n_outputs),
            _ => backward,
        }
    }

    /// Numbers of the gradients of messages, there and back, and of the pieces on their way.
    fn n_message_gradients(&self) -> u64 {
        let (n_pairs, n_own_pairs) = (self.counts.n_pairs, self.counts.n_own_pairs);
        let pieces = N_PIECES as u64 * (n_pairs * self.width).min(PIECE as u64);
        (n_pairs + n_own_pairs) * self.width + pieces
    }
}
