//! Bytes that a rank holds, counted from its arrays: the check of the prediction in
//! [`super::bytes`].

use std::sync::Arc;

use super::bytes::{N_PIECES, PIECE};
use super::input::InputTable;
use super::network::Network;
use super::tiles::Traffic;
use crate::Error;

impl Network<'_> {
    /// Bytes that this rank holds besides the graph: parameters, moments, plans, activations and
    /// sums.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_streamed_bytes() + self.n_resident_bytes()
    }

    /// Rows of the input with the optimiser's numbers, and all messages.
    fn n_streamed_bytes(&self) -> u64 {
        let mut n_bytes = 4 * (self.input.rows.len() + self.input.moments.len()) as u64;
        for (layer, plan) in self.plans.iter().enumerate() {
            let earlier = &self.plans[..layer];
            if earlier.iter().any(|other| Arc::ptr_eq(other, plan)) {
                continue;
            }
            let messages = self.rank_messages.get(layer);
            n_bytes += plan.n_bytes() + messages.map_or(0, |messages| messages.n_bytes());
        }
        n_bytes
    }

    /// Bytes that stay on the device all the time, but for gradients.
    fn n_resident_bytes(&self) -> u64 {
        let mut n_floats = self.floats.capacity() + self.materialised_weights.len();
        for layer in &self.layers {
            n_floats += layer.bias.len() + layer.bias_moments.len();
            let shared = layer.coefficients.as_ref();
            n_floats += shared.map_or(0, |shared| shared.params.len() + shared.moments.len());
        }
        let kept = [&self.activations, &self.tables, &self.gathered];
        n_floats += kept.into_iter().flatten().map(Vec::len).sum::<usize>();
        4 * n_floats as u64 + 8 * self.fixed.capacity() as u64
    }

    /// The bytes moved for all tiles; none where everything stays.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
        Some(self.tiles.as_ref()?.traffic.get())
    }

    /// The tiles of the first layer; 1 where everything stays.
    pub(crate) fn n_tiles(&self) -> usize {
        self.tiles.as_ref().map_or(1, |tiles| tiles.layers[0].len())
    }

    /// Counts the bytes that are held at this moment, gradients of `extra` bytes among them.
    ///
    /// # Errors
    /// Those of [`super::budget::Budget::note`].
    pub(crate) fn note_held(&mut self, extra: u64) -> Result<(), Error> {
        let sources = match &self.tiles {
            None => self.n_streamed_bytes(),
            Some(tiles) => tiles.traffic.get().held_bytes,
        };
        let held = sources + self.n_resident_bytes() + extra;
        self.budget.note(held)
    }

    /// Counts the bytes at the end of a layer's pass backward, with so many gradients of
    /// activations and blocks.
    pub(crate) fn note_backward(
        &mut self,
        layer: usize,
        n_floats: usize,
        is_alone: bool,
    ) -> Result<(), Error> {
        let embedding = match (layer, self.input.table, &self.tiles) {
            (0, InputTable::Embedding, None) => self.input.rows.len(),
            _ => 0,
        };
        // The buffer of gathered gradients is out of its place.
        let gathered = if is_alone { 0 } else { self.widest_sum() };
        let of_relations = self.tables[layer].len() + self.n_message_gradients(layer);
        let n_materialised = if layer == 0 {
            self.materialised_weights.len()
        } else {
            0
        };
        let n_floats = n_floats + embedding + gathered + of_relations + n_materialised;
        self.note_held(4 * n_floats as u64)
    }

    /// Numbers of the sums of the layer that has most of them.
    fn widest_sum(&self) -> usize {
        let layers = 0..self.layers.len();
        let sums = layers.map(|layer| self.counts(layer).iter().sum());
        sums.max().unwrap_or(0)
    }

    /// Numbers of the gradients of messages that are handed back to the sources' owners, and of the
    /// pieces in which they are.
    fn n_message_gradients(&self, layer: usize) -> usize {
        let Some(messages) = self.rank_messages.get(layer) else {
            return 0;
        };
        if layer == 0 && self.layout.replicates() {
            return self.gathered[0].len() + self.input.rows.len();
        }
        let (width, n_pairs) = (self.layers[layer].width, messages.plan.n_pairs());
        let pieces = N_PIECES * PIECE.min(n_pairs * width);
        (n_pairs + messages.computing_ranks.len()) * width + pieces
    }
}
