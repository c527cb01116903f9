//! One rank's part of the model: its sources' rows and activations, and the parameters that all
//! ranks have alike.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_collectives::{Op, Reduction, Timeout};
use shardgraph_random::KeyedRng;

use super::budget::Budget;
use super::comm::RankComm;
use super::input::{InputRows, InputTable, forward_pairs};
use super::layout::{Layout, RankContext};
use super::messages::RankMessages;
use super::tiles::Tiles;
use crate::Error;
use crate::config::{Config, Sums};
use crate::error::diverged;
use crate::layer::coefficients::{Coefficients, RelationShape};
use crate::layer::kernel::forward;
use crate::layer::materialised::{self, MaterialisedRows};
use crate::layer::optimiser::{Moments, Rule};
use crate::layer::pass::{Inputs, Pass};
use crate::layer::plan::LayerPlan;
use crate::layer::sums::{self, ExactSums, FloatSums, scale_for, to_floats};
use crate::layer::values::largest_magnitude;

/// A layer's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// None for one-hot input without bases, whose rows are all there is.
    pub(crate) coefficients: Option<Coefficients>,
    pub(crate) width: usize,
    /// Empty where the model has no biases.
    pub(crate) bias: Vec<f32>,
    pub(crate) bias_moments: Moments,
}

/// One rank's part of the model.
pub(crate) struct Network<'a> {
    pub(crate) config: &'a Config,
    pub(crate) layout: &'a Layout<'a>,
    pub(crate) rank: usize,
    pub(crate) plans: Vec<Arc<LayerPlan>>,
    pub(crate) input: InputRows,
    pub(crate) layers: Vec<Layer>,
    /// The output of each layer for this rank's nodes: after the non-linearity, and logits at the
    /// end.
    pub(crate) activations: Vec<Vec<f32>>,
    pub(crate) tables: Vec<Vec<f32>>,
    /// The messages that this rank computes where they are not those of its own sources; by layer,
    /// else empty.
    pub(crate) rank_messages: Vec<Arc<RankMessages>>,
    /// The inputs of those messages in the last pass forward.
    pub(crate) gathered: Vec<Vec<f32>>,
    /// The rows of W_r that this rank builds in the first layer; none where none is built.
    pub(crate) materialised_rows: Option<MaterialisedRows>,
    /// They; else empty.
    pub(crate) materialised_weights: Vec<f32>,
    pub(crate) floats: Vec<f32>,
    pub(crate) fixed: Vec<i64>,
    /// The tiles of a budget that does not hold all sources at once.
    pub(crate) tiles: Option<Tiles>,
    pub(crate) budget: Budget,
    /// Gradients in the place of steps, where they are wanted.
    pub(crate) collected: Option<Gradients>,
}

/// Gradients that are kept until all of them are there: a bound on their common length needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gradients {
    /// Of the nodes' vectors.
    pub(crate) rows: Vec<f32>,
    /// Of each layer's relations, reduced, then of its bias.
    pub(crate) shared: Vec<Vec<f32>>,
}

impl Layer {
    /// Those of layer `layer` before the first step.
    fn new(config: &Config, layer: usize, relations: RelationShape, n_relations: usize) -> Layer {
        let has_table = layer > 0 || config.has_first_table();
        let width = relations.shape.width;
        let n_bias = if config.bias { width } else { 0 };
        let coefficients = || Coefficients::new(config, layer as u64, relations, n_relations);
        Layer {
            coefficients: has_table.then(coefficients),
            width,
            bias: vec![0.0; n_bias],
            bias_moments: Moments::new(config.optimiser, n_bias),
        }
    }
}

/// The numbers that some sources' messages are computed from.
#[derive(Clone, Copy)]
pub(crate) struct MessageInputs<'a> {
    pub(crate) plan: &'a LayerPlan,
    pub(crate) values: &'a [f32],
}

impl<'a> Network<'a> {
    /// A rank's part before the first step.
    pub(crate) fn new(context: RankContext<'a>) -> Result<Network<'a>, Error> {
        let RankContext {
            config,
            layout,
            rank,
            n_classes,
        } = context;
        let plans = layout.plans(rank);
        let relations = RelationShape::of_layers(config, n_classes).into_iter();
        let layers = relations
            .enumerate()
            .map(|(layer, relations)| Layer::new(config, layer, relations, layout.n_relations()));
        let input = InputRows::new(context, &plans[0])?;
        Network::assemble(context, plans, layers.collect(), input)
    }

    /// A network of these parts, with nothing computed yet.
    pub(crate) fn assemble(
        context: RankContext<'a>,
        plans: Vec<Arc<LayerPlan>>,
        layers: Vec<Layer>,
        input: InputRows,
    ) -> Result<Network<'a>, Error> {
        let RankContext {
            config,
            layout,
            rank,
            ..
        } = context;
        let (budget, tiles) = Budget::new(context, &plans)?;
        let rank_messages = layout.rank_messages(rank);
        Ok(Network {
            config,
            layout,
            rank,
            materialised_rows: materialised_rows(layout, rank, &rank_messages),
            plans,
            input,
            activations: vec![Vec::new(); layers.len()],
            tables: vec![Vec::new(); layers.len()],
            rank_messages,
            gathered: vec![Vec::new(); layers.len()],
            layers,
            materialised_weights: Vec::new(),
            floats: Vec::new(),
            fixed: Vec::new(),
            tiles,
            budget,
            collected: None,
        })
    }

    /// The parameters of this network for other outputs; rows that training did not touch are those
    /// that it would have left.
    pub(crate) fn for_outputs<'b>(
        &self,
        layout: &'b Layout<'b>,
        n_steps: u32,
    ) -> Result<Network<'b>, Error>
    where
        'a: 'b,
    {
        let context = RankContext {
            config: self.config,
            layout,
            rank: self.rank,
            n_classes: self.layers.last().map_or(0, |layer| layer.width as u32),
        };
        let plans = layout.plans(self.rank);
        let mut input = InputRows::new(context, &plans[0])?;
        if !input.is_fixed {
            self.copy_rows(layout, &plans[0], &mut input, n_steps);
        }
        input.moments = Moments::default();
        input.largest = largest_magnitude(&input.rows);
        Network::assemble(context, plans, self.layers.clone(), input)
    }

    /// Fills the rows of `input` from those trained, and decays the others for as many steps as
    /// were taken.
    fn copy_rows(
        &self,
        layout: &Layout<'_>,
        plan: &LayerPlan,
        input: &mut InputRows,
        n_steps: u32,
    ) {
        let len = input.row_len();
        let decay = self.decay_of(0);
        let rules: Vec<Rule> = match decay > 0.0 {
            true => Rule::first(self.config, n_steps),
            false => Vec::new(),
        };
        let rules: Vec<Rule> = rules
            .into_iter()
            .map(|rule| rule.with_decay(decay))
            .collect();
        let first = self.layout.places(0, self.rank).start;
        let own = self.layout.places(0, self.rank);
        for (source, place) in layout.places(0, self.rank).enumerate() {
            let node = layout.sets[0].node(place);
            let trained = self.layout.sets[0]
                .place(node)
                .filter(|place| own.contains(place));
            let trained = trained.map(|place| place - first);
            for row in input.rows_of(plan, source) {
                let trained = match input.table {
                    InputTable::ByNode | InputTable::Embedding => trained,
                    InputTable::ByPair => trained.and_then(|trained| {
                        let pairs = self.plans[0].pairs(trained);
                        let relations = &self.plans[0].relations[pairs.clone()];
                        let found = relations.binary_search(&plan.relations[row]);
                        found.ok().map(|found| pairs.start + found)
                    }),
                };
                let row = &mut input.rows[row * len..][..len];
                match trained {
                    Some(trained) => row.copy_from_slice(&self.input.rows[trained * len..][..len]),
                    None => self.decay(row, &rules),
                }
            }
        }
    }

    /// The steps of a row that never had a gradient; none without decay.
    fn decay(&self, row: &mut [f32], rules: &[Rule]) {
        let gradient = vec![0.0; row.len()];
        let mut moments = Moments::new(self.config.optimiser, row.len());
        for rule in rules {
            rule.step(row, &gradient, moments.of(0..row.len()));
        }
    }

    /// Refuses parameters that are no numbers, on all ranks alike.
    pub(crate) fn check_finite(&self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        let mut largest = largest_magnitude(&self.input.rows);
        for layer in &self.layers {
            let shared = layer.coefficients.iter().map(|shared| &shared.params);
            for params in shared.chain([&layer.bias]) {
                largest = largest.max(largest_magnitude(params));
            }
        }
        match ranks.largest(largest)?.is_finite() {
            true => Ok(()),
            false => Err(diverged()),
        }
    }

    /// The output of the last layer for this rank's nodes.
    pub(crate) fn logits(&self) -> &[f32] {
        self.activations.last().map_or(&[], Vec::as_slice)
    }

    /// Numbers of each rank's rows in the output of a layer.
    pub(crate) fn counts(&self, layer: usize) -> Vec<usize> {
        let width = self.layers[layer].width;
        let ranks = 0..self.layout.n_ranks();
        ranks
            .map(|rank| self.layout.places(layer + 1, rank).len() * width)
            .collect()
    }

    /// Runs all layers; then there are each layer's activations and the logits. With an epoch,
    /// activations are dropped at random.
    pub(crate) fn forward(
        &mut self,
        ranks: &mut RankComm<'_>,
        epoch: Option<u32>,
    ) -> Result<(), Error> {
        for layer in 0..self.layers.len() {
            let coefficients = &self.layers[layer].coefficients;
            self.tables[layer] = coefficients
                .as_ref()
                .map(Coefficients::table)
                .unwrap_or_default();
            let mut outputs = std::mem::take(&mut self.activations[layer]);
            let len = self.counts(layer)[self.rank];
            outputs.resize(len, 0.0);
            if !self.rank_messages.is_empty() {
                self.gather_inputs(layer, ranks)?;
            }
            if layer == 0 {
                self.materialise();
            }
            match self.config.sums {
                Sums::Float => self.send_floats(layer, ranks, &mut outputs)?,
                Sums::Exact => self.send_exact(layer, ranks, &mut outputs)?,
            }
            self.activate(layer, &mut outputs, epoch);
            self.activations[layer] = outputs;
        }
        Ok(())
    }

    fn send_floats(
        &mut self,
        layer: usize,
        ranks: &mut RankComm<'_>,
        outputs: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let counts = self.counts(layer);
        let reused = if ranks.are_alone() {
            &mut *outputs
        } else {
            &mut self.floats
        };
        let mut floats = std::mem::take(reused);
        floats.clear();
        floats.reserve_exact(counts.iter().sum());
        floats.resize(counts.iter().sum(), 0.0);
        self.messages(layer, &mut FloatSums(&mut floats), ranks.deadline)?;
        if ranks.are_alone() {
            *outputs = floats;
            return Ok(());
        }
        let op = Op::ReduceScatterV {
            send: (&floats).into(),
            recv: outputs.into(),
            counts: &counts,
            reduction: Reduction::Sum,
        };
        ranks.run(op)?;
        self.floats = floats;
        Ok(())
    }

    fn send_exact(
        &mut self,
        layer: usize,
        ranks: &mut RankComm<'_>,
        outputs: &mut [f32],
    ) -> Result<(), Error> {
        let counts = self.counts(layer);
        let bound = ranks.largest(self.message_bound(layer))?;
        let scale = scale_for(bound, self.layout.n_relations()).ok_or_else(diverged)?;
        let mut fixed = std::mem::take(&mut self.fixed);
        fixed.clear();
        fixed.reserve_exact(counts.iter().sum());
        fixed.resize(counts.iter().sum(), 0);
        self.messages(
            layer,
            &mut ExactSums {
                sums: &mut fixed,
                scale,
            },
            ranks.deadline,
        )?;
        if ranks.are_alone() {
            to_floats(&fixed, scale, outputs);
        } else {
            let mut own = vec![0i64; outputs.len()];
            let op = Op::ReduceScatterV {
                send: (&fixed).into(),
                recv: (&mut own).into(),
                counts: &counts,
                reduction: Reduction::Sum,
            };
            ranks.run(op)?;
            to_floats(&own, scale, outputs);
        }
        self.fixed = fixed;
        let of_peers = if ranks.are_alone() { 0 } else { 8 };
        // The outputs are out of their place.
        self.note_held((4 + of_peers) * outputs.len() as u64)
    }

    /// No message of this rank's sources is larger, rounding included.
    fn message_bound(&self, layer: usize) -> f32 {
        let inputs = match layer {
            0 => self.input.largest,
            _ => largest_magnitude(&self.activations[layer - 1]),
        };
        match &self.layers[layer].coefficients {
            None => inputs,
            Some(coefficients) => {
                let n_terms = coefficients.shape.n_terms as f32;
                1.01 * n_terms * inputs * largest_magnitude(&self.tables[layer])
            }
        }
    }

    /// Sends the messages of all sources.
    fn messages(
        &self,
        layer: usize,
        sums: &mut impl sums::Sums,
        deadline: Timeout,
    ) -> Result<(), Error> {
        if let Some(tiles) = &self.tiles {
            return self.tiled_messages(layer, tiles, sums, deadline);
        }
        let inputs = match (self.rank_messages.get(layer), layer) {
            (Some(messages), _) => MessageInputs {
                plan: &messages.plan,
                values: &self.gathered[layer],
            },
            (None, 0) => MessageInputs {
                plan: &self.plans[0],
                values: &self.input.rows,
            },
            (None, _) => MessageInputs {
                plan: &self.plans[layer],
                values: &self.activations[layer - 1],
            },
        };
        self.send_from(layer, inputs, sums);
        Ok(())
    }

    /// Sends the messages of all sources of a plan.
    pub(crate) fn send_from(
        &self,
        layer: usize,
        inputs: MessageInputs<'_>,
        sums: &mut impl sums::Sums,
    ) {
        let MessageInputs { plan, values } = inputs;
        let Some(coefficients) = &self.layers[layer].coefficients else {
            forward_pairs(plan, self.layers[layer].width, values, sums);
            return;
        };
        let pass = Pass::new(plan, coefficients, &self.tables[layer]);
        if let Some(rows) = self.rows_to_materialise(layer) {
            materialised::send(pass, rows, &self.materialised_weights, sums);
            return;
        }
        let inputs = match (layer, self.input.table) {
            (0, InputTable::ByNode) => Inputs::Rows(values),
            _ => Inputs::Activations(values),
        };
        forward(pass, 0..plan.n_sources(), inputs, sums);
    }

    /// The rows of W_r that this rank builds for a layer.
    pub(crate) fn rows_to_materialise(&self, layer: usize) -> Option<&MaterialisedRows> {
        self.materialised_rows.as_ref().filter(|_| layer == 0)
    }

    /// Builds all W_r of the first layer that this rank has to.
    fn materialise(&mut self) {
        let (Some(coefficients), Some(rows)) =
            (&self.layers[0].coefficients, &self.materialised_rows)
        else {
            return;
        };
        let (plan, v) = match self.rank_messages.first() {
            Some(messages) => (&messages.plan, &self.gathered[0]),
            None => (&*self.plans[0], &self.input.rows),
        };
        let pass = Pass::new(plan, coefficients, &self.tables[0]);
        let mut weights = std::mem::take(&mut self.materialised_weights);
        weights.resize(rows.n_rows() * coefficients.shape.width, 0.0);
        materialised::build(pass, rows, v, &mut weights);
        self.materialised_weights = weights;
    }

    /// Adds the bias and, but for the last layer, cuts at zero and drops units at random.
    fn activate(&self, layer: usize, outputs: &mut [f32], epoch: Option<u32>) {
        let Layer { width, bias, .. } = &self.layers[layer];
        if !bias.is_empty() {
            for row in outputs.chunks_exact_mut(*width) {
                row.iter_mut()
                    .zip(bias)
                    .for_each(|(unit, bias)| *unit += bias);
            }
        }
        if layer + 1 == self.layers.len() {
            return;
        }
        // Not `max`, which would hide what is not a number.
        for unit in outputs.iter_mut() {
            *unit = if *unit < 0.0 { 0.0 } else { *unit };
        }
        let dropout = self.config.dropout;
        if let Some(epoch) = epoch.filter(|_| dropout > 0.0) {
            let purpose = format!("rgcn dropout {layer}");
            let places = self.layout.places(layer + 1, self.rank);
            for (place, row) in places.zip(outputs.chunks_exact_mut(*width)) {
                let node = self.layout.sets[layer + 1].node(place);
                let key = u64::from(epoch) << 32 | u64::from(node);
                let mut stream = KeyedRng::new(self.config.seed, &purpose, key);
                for unit in row {
                    let is_kept = stream.uniform_f32() >= dropout;
                    *unit = if is_kept {
                        *unit * self.kept_scale()
                    } else {
                        0.0
                    };
                }
            }
        }
    }

    /// The factor of activations that are not dropped, which keeps their expectation.
    pub(crate) fn kept_scale(&self) -> f32 {
        1.0 / (1.0 - self.config.dropout)
    }

    /// The input's rows of each block of this rank.
    pub(crate) fn input_blocks(&self) -> Vec<&[f32]> {
        let blocks = self.layout.places_of_blocks(0, self.rank);
        let rows_before = |source: usize| match self.input.table {
            InputTable::ByNode | InputTable::Embedding => source,
            InputTable::ByPair => self.plans[0].pair_starts[source] as usize,
        };
        let len = self.input.row_len();
        let rows = |sources: Range<usize>| {
            &self.input.rows[rows_before(sources.start) * len..rows_before(sources.end) * len]
        };
        blocks.into_iter().map(rows).collect()
    }
}

/// The rows of W_r that a rank builds of the first layer; none where the layout has none.
fn materialised_rows(
    layout: &Layout<'_>,
    rank: usize,
    messages: &[Arc<RankMessages>],
) -> Option<MaterialisedRows> {
    if !layout.materialises {
        return None;
    }
    let n_relations = layout.graph.n_relations();
    let own = layout.places(0, rank);
    let (relations, n_sources, loops) = match messages.first() {
        None => ((0..n_relations).collect(), own.len(), 0..own.len()),
        Some(messages) => {
            let mut relations = messages.plan.relations_of(0..messages.n_sources());
            relations.retain(|&relation| relation != n_relations);
            (relations, layout.sets[0].len(), own)
        }
    };
    let loops = if layout.self_loop { loops } else { 0..0 };
    Some(MaterialisedRows::new(
        relations,
        n_relations,
        n_sources,
        loops,
    ))
}
