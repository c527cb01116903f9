//! One rank's part of the model: its sources' rows and activations, and the parameters that all
//! ranks have alike.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_collectives::{Op, Reduction, Timeout};
use shardgraph_random::KeyedRng;

use super::comm::RankComm;
use super::counts::LayerCounts;
use super::frame::Frame;
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
use crate::memory::{Array, Held, Memory, Purpose};

/// A layer's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// None for one-hot input without bases, whose rows are all there is.
    pub(crate) coefficients: Option<Coefficients>,
    pub(crate) width: usize,
    /// Empty where the model has no biases.
    pub(crate) bias: Array<f32>,
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
    pub(crate) activations: Vec<Array<f32>>,
    pub(crate) tables: Vec<Array<f32>>,
    /// The messages that this rank computes where they are not those of its own sources; by layer,
    /// else empty.
    pub(crate) rank_messages: Vec<Arc<RankMessages>>,
    /// The inputs of those messages in the last pass forward.
    pub(crate) gathered: Vec<Array<f32>>,
    /// The rows of W_r that this rank builds in the first layer; none where none is built.
    pub(crate) materialised_rows: Option<MaterialisedRows>,
    /// They; else empty.
    pub(crate) materialised_weights: Array<f32>,
    pub(crate) floats: Array<f32>,
    pub(crate) fixed: Array<i64>,
    /// The account of all arrays; but with tiles the input's rows and the lists are in `storage`,
    /// the host's memory, from where they come.
    pub(crate) memory: Memory,
    pub(crate) storage: Memory,
    /// The bytes of all lists.
    pub(crate) _lists: Held,
    /// The tiles of a budget that does not hold all sources at once.
    pub(crate) tiles: Option<Tiles>,
    /// The most bytes that the rank was predicted to hold.
    pub(crate) predicted_bytes: u64,
    /// Gradients in the place of steps, where they are wanted.
    pub(crate) collected: Option<Gradients>,
}

/// Gradients that are kept until all of them are there: a bound on their common length needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gradients {
    /// Of the nodes' vectors.
    pub(crate) rows: Array<f32>,
    /// Of each layer's relations, reduced, then of its bias.
    pub(crate) shared: Vec<Array<f32>>,
}

impl Layer {
    /// Those of layer `layer` before the first step.
    pub(crate) fn new(
        memory: &Memory,
        config: &Config,
        layer: usize,
        relations: RelationShape,
        n_relations: usize,
    ) -> Layer {
        let has_table = layer > 0 || config.has_first_table();
        let width = relations.shape.width;
        let n_bias = if config.bias { width } else { 0 };
        let coefficients =
            || Coefficients::new(memory, config, layer as u64, relations, n_relations);
        Layer {
            coefficients: has_table.then(coefficients),
            width,
            bias: memory.zeros(Purpose::Parameters, n_bias),
            bias_moments: Moments::new(memory, Purpose::Parameters, config.optimiser, n_bias),
        }
    }

    /// Numbers of its parameters, and of these with their moments.
    fn n_params(&self) -> [usize; 2] {
        let relations = self.coefficients.as_ref();
        let n_relations = relations.map_or(0, |relations| relations.params.len());
        let n_moments = relations.map_or(0, |relations| relations.moments.len());
        let n_params = self.bias.len() + n_relations;
        [n_params, n_params + n_moments + self.bias_moments.len()]
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
        Frame::new(context)?.begin()
    }

    /// Gives back all arrays but the parameters: moments of rows, activations, sums and tables.
    pub(crate) fn keep_parameters(&mut self) {
        self.input.moments = Moments::default();
        let by_layer = [&mut self.activations, &mut self.tables, &mut self.gathered];
        for array in by_layer.into_iter().flatten() {
            *array = Array::default();
        }
        self.materialised_weights = Array::default();
        self.floats = Array::default();
        self.fixed = Array::default();
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
        let frame = match self.memory.is_dry() {
            true => Frame::dry(context, None),
            false => Frame::new(context)?,
        };
        let plan = &frame.plans[0];
        let mut input = InputRows::new(context, plan, &frame.storage)?;
        if !input.is_fixed && !self.memory.is_dry() {
            self.copy_rows(layout, plan, &mut input, n_steps);
        }
        input.largest = largest_magnitude(&input.rows);
        Ok(frame.network(self.layers.clone(), input))
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
        let (memory, optimiser) = (Memory::default(), self.config.optimiser);
        let mut moments = Moments::new(&memory, Purpose::Optimiser, optimiser, row.len());
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
        self.activations.last().map_or(&[], |logits| logits)
    }

    /// Room for the gradient of the logits.
    pub(crate) fn logits_gradient(&self) -> Array<f32> {
        let len = self.activations.last().map_or(0, Array::len);
        self.memory.zeros(Purpose::Gradients, len)
    }

    /// The counts of this rank's part of a layer.
    pub(crate) fn sizes(&self, layer: usize) -> &LayerCounts {
        &self.layout.counts()[layer][self.rank]
    }

    /// Bytes that this rank holds besides the graph: parameters, moments, plans, activations and
    /// sums; with tiles those in the host's memory too.
    pub(crate) fn n_bytes(&self) -> u64 {
        match self.tiles {
            None => self.memory.held().total(),
            // The weights on the device are copies.
            Some(_) => self.memory.held().resident() + self.storage.held().total(),
        }
    }

    /// Counts a copy of this rank's trained parameters.
    pub(crate) fn hold_params(&self) -> Held {
        let rows = match self.input.is_fixed {
            true => 0,
            false => self.input.rows.len(),
        };
        let of_layers = self.layers.iter().map(|layer| layer.n_params()[0]);
        let n_params = rows + of_layers.sum::<usize>();
        self.storage.hold(Purpose::Copies, 4 * n_params as u64)
    }

    /// Numbers of the parameters of all ranks, and of these with their moments, where a row is a node's.
    pub(crate) fn n_params(&self) -> [usize; 2] {
        let n_nodes = self.layout.sets[0].len();
        let n_own = self.layout.places(0, self.rank).len().max(1);
        let (rows, moments) = (self.input.rows.len(), self.input.moments.len());
        let of_input = [rows, rows + moments].map(|own| own / n_own * n_nodes);
        let of_layers = self.layers.iter().map(Layer::n_params);
        of_layers.fold(of_input, |sum, of_layer| {
            [sum[0] + of_layer[0], sum[1] + of_layer[1]]
        })
    }

    /// Refuses more bytes than the limit: the prediction was wrong.
    pub(crate) fn check_limit(&self) -> Result<(), Error> {
        let held = self.memory.peak().total();
        let limit = self.layout.budget.filter(|_| !self.memory.is_dry());
        let Some(limit) = limit.filter(|&limit| held > limit) else {
            return Ok(());
        };
        let message =
            format!("--device-memory {limit}: {held} bytes are held, which was not predicted");
        Err(Error::new(Error::Memory, message))
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
            if let Some(coefficients) = &self.layers[layer].coefficients {
                coefficients.fill(&mut self.tables[layer]);
            }
            let mut outputs = std::mem::take(&mut self.activations[layer]);
            outputs.resize(self.counts(layer)[self.rank]);
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
        self.check_limit()
    }

    fn send_floats(
        &mut self,
        layer: usize,
        ranks: &mut RankComm<'_>,
        outputs: &mut Array<f32>,
    ) -> Result<(), Error> {
        let counts = self.counts(layer);
        let reused = if ranks.are_alone() {
            &mut *outputs
        } else {
            &mut self.floats
        };
        let mut floats = std::mem::take(reused);
        floats.clear_to(counts.iter().sum());
        self.messages(layer, &mut FloatSums(&mut floats), ranks.deadline)?;
        if ranks.are_alone() {
            *outputs = floats;
            return Ok(());
        }
        let op = Op::ReduceScatterV {
            send: floats[..].into(),
            recv: (&mut outputs[..]).into(),
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
        fixed.clear_to(counts.iter().sum());
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
            let n_own = counts[self.rank];
            let mut own = self.memory.zeros::<i64>(Purpose::Gradients, n_own);
            let op = Op::ReduceScatterV {
                send: fixed[..].into(),
                recv: (&mut own[..]).into(),
                counts: &counts,
                reduction: Reduction::Sum,
            };
            ranks.run(op)?;
            to_floats(&own, scale, outputs);
        }
        self.fixed = fixed;
        Ok(())
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
        if self.memory.is_dry() {
            if let Some(tiles) = &self.tiles {
                tiles.dry_pass(layer, false, &self.memory);
            }
            return Ok(());
        }
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
        self.materialised_weights.resize(self.n_materialised());
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
        materialised::build(pass, rows, v, &mut self.materialised_weights);
    }

    /// Numbers of the W_r that this rank builds.
    pub(crate) fn n_materialised(&self) -> usize {
        self.layout.n_materialised(self.rank, self.layers[0].width) as usize
    }

    /// Adds the bias and, but for the last layer, cuts at zero and drops units at random.
    fn activate(&self, layer: usize, outputs: &mut [f32], epoch: Option<u32>) {
        let Layer { width, bias, .. } = &self.layers[layer];
        if !bias.is_empty() {
            for row in outputs.chunks_exact_mut(*width) {
                row.iter_mut()
                    .zip(&bias[..])
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
