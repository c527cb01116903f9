//! A layer's passes over tiles, for a rank whose device does not hold its rows.

use std::ops::Range;

use shardgraph_collectives::Timeout;

use super::input::{InputRows, InputTable, backward_pairs};
use super::network::{MessageInputs, Network};
use super::tiles::{Rows, Store, Tile, TileRows, Tiles, Traffic};
use crate::Error;
use crate::layer::coefficients::Partials;
use crate::layer::gradient_rows::GradientRows;
use crate::layer::kernel::backward;
use crate::layer::optimiser::Rule;
use crate::layer::pass::{Pass, Updates};
use crate::layer::plan::LayerPlan;
use crate::layer::sums::Sums;
use crate::layer::values::largest_magnitude;
use crate::memory::{Array, Purpose};

impl Network<'_> {
    /// The bytes moved for all tiles; none where everything stays.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
        Some(self.tiles.as_ref()?.traffic.get())
    }

    /// The tiles of the first layer; 1 where everything stays.
    pub(crate) fn n_tiles(&self) -> usize {
        self.tiles.as_ref().map_or(1, |tiles| tiles.layers[0].len())
    }

    /// Numbers of a row that a layer reads.
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
            shape: TileRows {
                row_len: self.read_len(layer),
                by_pair: layer == 0 && self.input.table == InputTable::ByPair,
                ..TileRows::default()
            },
            has_gradients: layer == 0 && self.input.table == InputTable::Embedding,
            memory: self.memory.clone(),
        }
    }

    /// Sends the messages of all sources, tile by tile.
    pub(crate) fn tiled_messages(
        &self,
        layer: usize,
        tiles: &Tiles,
        sums: &mut impl Sums,
        deadline: Timeout,
    ) -> Result<(), Error> {
        let rows = match layer {
            0 => Rows::Read(&self.input.rows),
            _ => Rows::None,
        };
        let len = self.read_len(layer);
        tiles.pass(layer, self.store(layer, rows), deadline, &mut |tile| {
            let values = match layer {
                0 => &tile.rows,
                _ => &self.activations[layer - 1][tile.sources.start * len..tile.sources.end * len],
            };
            let inputs = MessageInputs {
                plan: &tile.plan,
                values,
            };
            self.send_from(layer, inputs, sums);
            Ok(())
        })
    }

    /// The pass over a whole layer, tile by tile: the gradients of the relations go into
    /// `partials`, rows take their steps, and the gradients of units come back, for layers that
    /// read some.
    pub(crate) fn tiled_backward(
        &mut self,
        layer: usize,
        outputs: &GradientRows<'_>,
        rule: Rule,
        partials: &mut Partials,
        deadline: Timeout,
    ) -> Result<Array<f32>, Error> {
        let n_activations = match layer {
            0 => 0,
            _ => self.activations[layer - 1].len(),
        };
        let activations = self.memory.zeros(Purpose::Gradients, n_activations);
        let table = self.table_gradient(layer);
        if let Some(tiles) = self.tiles.as_ref().filter(|_| self.memory.is_dry()) {
            tiles.dry_pass(layer, true, &self.memory);
            return Ok(activations);
        }
        let Some(tiles) = self.tiles.take() else {
            return Ok(activations);
        };
        let mut rows = std::mem::take(&mut self.input.rows);
        let mut moments = std::mem::take(&mut self.input.moments);
        let mut work = Backward {
            network: self,
            layer,
            outputs,
            rule,
            activations,
            table,
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
        let Backward {
            activations,
            largest,
            ..
        } = work;
        self.input.rows = rows;
        self.input.moments = moments;
        self.tiles = Some(tiles);
        if layer == 0 {
            self.input.largest = largest;
        }
        Ok(activations)
    }
}

/// A pass backward over a layer's tiles.
struct Backward<'n, 'a> {
    network: &'n Network<'a>,
    layer: usize,
    outputs: &'n GradientRows<'n>,
    rule: Rule,
    /// Gradients of the units that the layer reads.
    activations: Array<f32>,
    /// Gradients of the relations of the block in work, which may go on in the next tile.
    table: Array<f32>,
    blocks: Vec<Range<usize>>,
    partials: &'n mut Partials,
    largest: f32,
}

impl Backward<'_, '_> {
    fn tile(&mut self, tile: &mut Tile) {
        match (self.layer, self.network.input.table) {
            (0, InputTable::ByPair) => self.pairs(tile),
            (0, InputTable::ByNode) => self.rows(tile),
            (0, InputTable::Embedding) => self.embedding(tile),
            _ => self.hidden(tile),
        }
    }

    fn pairs(&mut self, tile: &mut Tile) {
        let mut input = InputRows {
            table: InputTable::ByPair,
            shape: self.network.input.shape,
            rows: std::mem::take(&mut tile.rows),
            moments: std::mem::take(&mut tile.moments),
            largest: 0.0,
            is_fixed: false,
        };
        backward_pairs(&tile.plan, self.outputs, &mut input, self.rule);
        self.largest = self.largest.max(input.largest);
        (tile.rows, tile.moments) = (input.rows, input.moments);
    }

    fn rows(&mut self, tile: &mut Tile) {
        let mut largest = self.largest;
        let mut updates = Updates::Rows {
            rows: &mut tile.rows,
            moments: &mut tile.moments,
            rule: self.rule,
            largest: Some(&mut largest),
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        self.largest = largest;
    }

    fn embedding(&mut self, tile: &mut Tile) {
        let mut updates = Updates::Activations {
            inputs: &tile.rows,
            gradients: &mut tile.gradients,
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        let moments = tile.moments.of(0..tile.rows.len());
        self.rule.step(&mut tile.rows, &tile.gradients, moments);
        self.largest = self.largest.max(largest_magnitude(&tile.rows));
    }

    fn hidden(&mut self, tile: &mut Tile) {
        let len = self.network.read_len(self.layer);
        let range = tile.sources.start * len..tile.sources.end * len;
        let mut gradients = std::mem::take(&mut self.activations);
        let mut updates = Updates::Activations {
            inputs: &self.network.activations[self.layer - 1][range.clone()],
            gradients: &mut gradients[range],
        };
        self.pieces(&tile.plan, &tile.sources, &mut updates);
        self.activations = gradients;
    }

    /// Runs the parts of all blocks that are in a tile, and hands on the gradients of the blocks
    /// that end in it.
    fn pieces(&mut self, plan: &LayerPlan, sources: &Range<usize>, updates: &mut Updates<'_>) {
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
            backward(pass, piece, self.outputs, updates, &mut self.table);
            if range.end <= sources.end {
                let relations = network.plans[layer].relations_of(range.clone());
                coefficients.reduce(&mut self.table, &relations, self.partials);
            }
        }
    }
}
