//! A layer's passes over tiles, for a rank whose device does not hold its rows.

use std::ops::Range;

use shardgraph_collectives::Deadline;

use super::coefficients::Partials;
use super::incoming::Incoming;
use super::input::{InputRows, Keyed, backward_pairs};
use super::kernel::{Pass, Updates, backward, largest_magnitude};
use super::network::Network;
use super::optimiser::Rule;
use super::sums::Sums;
use super::tiles::{Rows, Store, Tile, Tiles};
use crate::Error;

impl Network<'_> {
    /// Numbers of a row of what a layer reads.
    fn read_len(&self, layer: usize) -> usize {
        match layer {
            0 => self.input.row_len(),
            _ => self.layers[layer - 1].width,
        }
    }

    fn store<'s>(&'s self, layer: usize, rows: Rows<'s>) -> Store<'s> {
        Store {
            plan: &self.plans[layer],
            rows,
            row_len: self.read_len(layer),
            has_gradients: layer == 0 && self.input.keyed == Keyed::Embedding,
            by_pair: layer == 0 && self.input.keyed == Keyed::ByPair,
        }
    }

    /// Sends the messages of all sources, tile by tile.
    pub(super) fn tiled_messages(
        &self,
        layer: usize,
        tiles: &Tiles,
        sums: &mut impl Sums,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let rows = match layer {
            0 => Rows::Read(&self.input.rows),
            _ => Rows::None,
        };
        let len = self.read_len(layer);
        tiles.pass(layer, self.store(layer, rows), deadline, &mut |tile| {
            let n_sources = tile.sources.len();
            let read = match layer {
                0 => &tile.rows,
                _ => &self.made[layer - 1][tile.sources.start * len..tile.sources.end * len],
            };
            self.send_from(layer, (&tile.plan, read, 0..n_sources), sums);
            Ok(())
        })
    }

    /// As the pass over a whole layer: the gradients of the relations go into `partials`, rows take their steps, and the gradients of units come
    /// back, for layers that read some.
    pub(super) fn tiled_backward(
        &mut self,
        layer: usize,
        all: &Incoming<'_>,
        step: (Rule, f32),
        (partials, deadline): (&mut Partials, Deadline),
    ) -> Result<Vec<f32>, Error> {
        let Some(tiles) = self.tiles.take() else {
            return Ok(Vec::new());
        };
        let mut rows = std::mem::take(&mut self.input.rows);
        let mut moments = std::mem::take(&mut self.input.moments);
        let n_units = match layer {
            0 => 0,
            _ => self.made[layer - 1].len(),
        };
        let mut work = Backward {
            network: self,
            layer,
            all,
            step,
            units: vec![0.0; n_units],
            table: vec![0.0; self.tables[layer].len()],
            blocks: self.layout.places_of_blocks(layer, self.rank),
            partials,
            largest: 0.0,
        };
        let stepped = match layer {
            0 => Rows::Step(&mut rows, &mut moments),
            _ => Rows::None,
        };
        let store = self.store(layer, stepped);
        tiles.pass(layer, store, deadline, &mut |tile| {
            work.tile(tile);
            Ok(())
        })?;
        let Backward { units, largest, .. } = work;
        self.input.rows = rows;
        self.input.moments = moments;
        self.tiles = Some(tiles);
        if layer == 0 {
            self.input.largest = largest;
        }
        Ok(units)
    }
}

/// A pass backward over a layer's tiles.
struct Backward<'n, 'a> {
    network: &'n Network<'a>,
    layer: usize,
    all: &'n Incoming<'n>,
    step: (Rule, f32),
    /// Gradients of the units that the layer reads.
    units: Vec<f32>,
    /// Gradients of the relations of the block in work, which may go on in the next tile.
    table: Vec<f32>,
    blocks: Vec<Range<usize>>,
    partials: &'n mut Partials,
    largest: f32,
}

impl Backward<'_, '_> {
    fn tile(&mut self, tile: &mut Tile) {
        match (self.layer, self.network.input.keyed) {
            (0, Keyed::ByPair) => self.pairs(tile),
            (0, Keyed::ByNode) => self.rows(tile),
            (0, Keyed::Embedding) => self.embedding(tile),
            _ => self.hidden(tile),
        }
    }

    fn pairs(&mut self, tile: &mut Tile) {
        let mut input = InputRows {
            keyed: Keyed::ByPair,
            shape: self.network.input.shape,
            rows: std::mem::take(&mut tile.rows),
            moments: std::mem::take(&mut tile.moments),
            largest: 0.0,
            is_given: false,
        };
        backward_pairs(&tile.plan, self.all, &mut input, self.step);
        self.largest = self.largest.max(input.largest);
        (tile.rows, tile.moments) = (input.rows, input.moments);
    }

    fn rows(&mut self, tile: &mut Tile) {
        let ((rule, decay), mut largest) = (self.step, self.largest);
        let mut updates = Updates::Rows {
            rows: &mut tile.rows,
            moments: &mut tile.moments,
            rule,
            decay,
            largest: Some(&mut largest),
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        self.largest = largest;
    }

    fn embedding(&mut self, tile: &mut Tile) {
        let mut updates = Updates::Units {
            units: &tile.rows,
            gradients: &mut tile.gradients,
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        let ((rule, decay), whole) = (self.step, 0..tile.rows.len());
        let moments = tile.moments.of(whole);
        rule.step(&mut tile.rows, &tile.gradients, decay, moments);
        self.largest = self.largest.max(largest_magnitude(&tile.rows));
    }

    fn hidden(&mut self, tile: &mut Tile) {
        let len = self.network.read_len(self.layer);
        let range = tile.sources.start * len..tile.sources.end * len;
        let mut gradients = std::mem::take(&mut self.units);
        let mut updates = Updates::Units {
            units: &self.network.made[self.layer - 1][range.clone()],
            gradients: &mut gradients[range],
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        self.units = gradients;
    }

    /// Runs the parts of all blocks that are in a tile, and hands on the gradients of the blocks that end in it.
    fn pieces(
        &mut self,
        plan: &super::plan::LayerPlan,
        sources: &Range<usize>,
        updates: &mut Updates<'_>,
    ) {
        let (network, layer) = (self.network, self.layer);
        let Some(coefficients) = &network.layers[layer].coefficients else {
            return;
        };
        let pass = Pass::new(plan, coefficients, &network.tables[layer]);
        let first = self
            .blocks
            .partition_point(|block| block.end <= sources.start);
        for range in &self.blocks[first..] {
            let (start, end) = (range.start.max(sources.start), range.end.min(sources.end));
            if range.start >= sources.end {
                break;
            }
            let piece = start - sources.start..end.max(start) - sources.start;
            backward(pass, piece, self.all, updates, &mut self.table);
            if range.end <= sources.end {
                let relations = network.plans[layer].relations_of(range.clone());
                coefficients.reduce(&mut self.table, &relations, self.partials);
            }
        }
    }
}
