//! What a device holds while a part is trained in full mode, counted from the trainer's arrays before there are any.

use serde::Serialize;

use super::Load;
use crate::config::{Config, Optimiser, Sums};
use crate::model::blocks::Blocks;
use crate::model::exchange::{N_PIECES, PIECE};
use crate::model::network::max_blocks;
use crate::model::shape::Shape;

/// The model whose memory and messages are predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelShape {
    /// Its settings.
    pub config: Config,
    /// Units of the output.
    pub classes: u32,
}

/// Bytes of a device, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Bytes {
    /// Weights of the input layer that the device owns and steps: a row of V for each of its nodes, or a row a pair.
    pub weights: u64,
    /// What its messages are made of, where they are dealt by pair and not by source: copies of rows and units, its own among them.
    pub copies: u64,
    /// Adam's two numbers for each of them.
    pub optimiser: u64,
    /// The part's edges and self loops by pair, with their normalisers.
    pub edges: u64,
    /// What each layer makes of the part's own nodes.
    pub units: u64,
    /// Sums over all nodes: integers of 8 bytes where they are exact, floats where other devices have a part in them.
    pub sums: u64,
    /// The other parameters, Adam's numbers for them, and their tables by relation.
    pub parameters: u64,
    /// Gradients that live for a part of a step, and the pieces in which ranks hand rows and gradients around.
    pub gradients: u64,
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
        self.copies + self.edges + self.units + self.sums + self.parameters + self.gradients
    }

    /// What comes and goes with the sources where they are divided into tiles.
    #[must_use]
    pub fn streamed(&self) -> u64 {
        self.weights + self.optimiser
    }
}

const F32: u64 = 4;
const I64: u64 = 8;

/// Parameters, their table by relation, and the gradients that a block adds up, of one layer; in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayerSize {
    params: u64,
    table: u64,
    pub(super) reduced: u64,
}

impl ModelShape {
    /// Widths of all layers.
    pub(super) fn widths(&self) -> Vec<u64> {
        let widths = self.config.widths(self.classes);
        widths.into_iter().map(|width| width as u64).collect()
    }

    /// Nodes of the blocks that training sums gradients over, and between which sources are cut.
    pub(super) fn block(&self, n_nodes: u32, n_relations: u32) -> u32 {
        self.blocks(n_nodes, n_relations).size()
    }

    fn blocks(&self, n_nodes: u32, n_relations: u32) -> Blocks {
        let relations = self.relations(n_relations) as usize;
        Blocks::new(n_nodes, max_blocks(&self.config, self.classes, relations))
    }

    /// Relations of the model: those of the graph, and the self loop.
    fn relations(&self, n_relations: u32) -> u64 {
        u64::from(n_relations) + u64::from(self.config.self_loop)
    }

    /// Numbers in a row of the input's weights, padding included.
    pub(super) fn row_len(&self) -> u64 {
        let width = self.config.widths(self.classes)[0];
        match (self.config.embedding, self.config.bases) {
            (0, 0) => width as u64,
            (0, bases) => Shape::new(bases, width).stride as u64,
            (embedding, _) => embedding as u64,
        }
    }

    /// Whether rows are those of nodes, which relations share; else each pair (source, relation) has its own.
    pub(super) fn is_by_node(&self) -> bool {
        self.config.has_first_table()
    }

    /// The sizes of each layer's shared parameters.
    pub(super) fn layers(&self, n_relations: u32) -> Vec<LayerSize> {
        let relations = self.relations(n_relations);
        let bases = self.config.bases as u64;
        let widths = self.config.widths(self.classes);
        let shared = |shape: Shape| LayerSize {
            params: match bases {
                0 => relations * shape.len() as u64,
                _ => bases * (relations + shape.len() as u64),
            },
            table: relations * shape.stride as u64,
            reduced: relations * shape.len() as u64,
        };
        let first = match (self.config.embedding, self.config.bases) {
            (0, 0) => LayerSize::default(),
            (0, n_bases) => LayerSize {
                params: relations * bases,
                table: relations * Shape::new(n_bases, widths[0]).stride as u64,
                reduced: relations * bases,
            },
            (embedding, _) => shared(Shape::of_weights(&self.config, embedding, widths[0])),
        };
        let others = widths
            .windows(2)
            .map(|pair| shared(Shape::of_weights(&self.config, pair[0], pair[1])));
        [first].into_iter().chain(others).collect()
    }

    /// What a device with that load holds, of a graph of `n_nodes` and `n_relations`; the graph itself is not counted. `by_pair`: whether there are
    /// other devices, and messages are not dealt by source.
    #[must_use]
    pub fn bytes(&self, load: &Load, (n_nodes, n_relations): (u32, u32), by_pair: bool) -> Bytes {
        let widths = self.widths();
        let (n_units, widest) = widths.iter().fold((0, 0), |(n, w), &x| (n + x, x.max(w)));
        let all = u64::from(n_nodes);
        let is_adam = self.config.optimiser == Optimiser::Adam;
        let copies = if is_adam { 3 } else { 1 };
        let n_bias = if self.config.bias { n_units } else { 0 };
        let layers = self.layers(n_relations);
        let params: u64 = layers.iter().map(|layer| layer.params).sum();
        let tables: u64 = layers.iter().map(|layer| layer.table).sum();
        let n_own_pairs = load.n_own_pairs + load.n_self_loops;
        let weights = F32 * self.input_rows(load.n_own_sources, n_own_pairs) * self.row_len();
        let n_sends = load.n_edges + load.n_self_loops;
        let n_pairs = load.n_pairs + load.n_self_loops;
        let (mut copied, mut lists) = (0, 0);
        if by_pair {
            let hidden: u64 = widths[..widths.len() - 1].iter().sum();
            copied =
                self.input_rows(load.n_sources, n_pairs) * self.row_len() + load.n_sources * hidden;
            lists = 4 * (load.n_own_sources + 1 + n_own_pairs) // the pairs of its own sources,
                + 4 * load.n_own_reads // who reads them,
                + 2 * n_own_pairs; // and who works on them
        }
        Bytes {
            weights,
            copies: F32 * copied,
            optimiser: u64::from(!self.config.features) * (copies - 1) * weights,
            edges: 4 * (load.n_sources + 1 + 2 * n_pairs + 1) + 8 * n_sends + lists,
            units: F32 * load.n_own_nodes * n_units,
            sums: all * widest * self.bytes_a_sum(load.n_own_nodes == all),
            parameters: F32 * (copies * (params + n_bias) + tables),
            gradients: self.gradients(load, (n_nodes, n_relations), by_pair),
        }
    }

    /// Bytes of what lives for a part of a step, at the layer that has most: back, gradients of what it makes and reads, those of each fixed block's
    /// shared parameters and of one table, and where messages are dealt by pair theirs, and pieces on their way; forward, a part of others' sums.
    fn gradients(&self, load: &Load, (n_nodes, n_relations): (u32, u32), by_pair: bool) -> u64 {
        let widths = self.widths();
        let relations = self.relations(n_relations).max(1);
        let n_blocks = self.blocks(n_nodes, n_relations).count() as u64;
        let n_own_blocks = (n_blocks * load.n_own_nodes).div_ceil(u64::from(n_nodes.max(1)));
        let (n_pairs, n_own_pairs) = (
            load.n_pairs + load.n_self_loops,
            load.n_own_pairs + load.n_self_loops,
        );
        let is_alone = load.n_own_nodes == u64::from(n_nodes);
        let of_layer = |(layer, size): (usize, LayerSize)| {
            let width = widths[layer];
            let n_bias = if self.config.bias { width } else { 0 };
            let read = match layer {
                0 => load.n_own_sources * self.config.embedding as u64,
                _ => load.n_own_nodes * widths[layer - 1],
            };
            let messages = match by_pair {
                true => {
                    (n_pairs + n_own_pairs) * width
                        + N_PIECES as u64 * (n_pairs * width).min(PIECE as u64)
                }
                false => 0,
            };
            let rows = load.n_block_relations * (size.reduced / relations);
            let blocks = rows + n_own_blocks * n_bias + size.table;
            let back = F32 * (load.n_own_nodes * width + read + blocks + messages);
            match self.config.sums {
                Sums::Exact if !is_alone => back.max(I64 * load.n_own_nodes * width),
                _ => back,
            }
        };
        let layers = self.layers(n_relations).into_iter().enumerate();
        layers.map(of_layer).max().unwrap_or(0)
    }

    /// Bytes of a sum over all nodes: an integer where sums are exact; a float for sums or gradients of other devices, where there are any.
    fn bytes_a_sum(&self, is_alone: bool) -> u64 {
        let of_others = if is_alone { 0 } else { F32 };
        match self.config.sums {
            Sums::Exact => I64 + of_others,
            Sums::Float => of_others,
        }
    }

    /// Rows of the input's weights for some sources and their pairs, self loops among them.
    fn input_rows(&self, n_sources: u64, n_pairs: u64) -> u64 {
        match self.is_by_node() {
            true => n_sources,
            false => n_pairs,
        }
    }
}
