//! The way back through the layers: gradients of activations and of shared parameters, and their
//! steps.

use std::ops::Range;

use shardgraph_collectives::{Op, SparseRows};

use super::comm::RankComm;
use super::input::{InputTable, backward_pairs};
use super::network::{Gradients, Layer, Network};
use crate::Error;
use crate::config::Sums;
use crate::layer::coefficients::{Coefficients, Partials};
use crate::layer::gradient_rows::GradientRows;
use crate::layer::kernel::backward;
use crate::layer::materialised::{WeightGradient, add_gradient, backward_materialised};
use crate::layer::optimiser::Rule;
use crate::layer::pass::{Pass, Updates};
use crate::layer::values::squares;
use crate::memory::{Array, Purpose};

/// The rules of a step: of the input's rows, and of the layers' parameters.
#[derive(Clone, Copy)]
pub(crate) struct StepRules {
    pub(crate) rows: Rule,
    pub(crate) layers: Rule,
}

impl Network<'_> {
    /// Takes step `step` along the gradient of the logits of this rank's nodes.
    pub(crate) fn backward(
        &mut self,
        ranks: &mut RankComm<'_>,
        logits: Array<f32>,
        step: u32,
    ) -> Result<(), Error> {
        let rule = Rule::new(self.config, step);
        let mut gradient = logits;
        for layer in (0..self.layers.len()).rev() {
            let counts = self.counts(layer);
            let mut gathered = std::mem::take(&mut self.floats);
            let all = match ranks.are_alone() {
                true => &gradient,
                false => {
                    gathered.clear_to(counts.iter().sum());
                    ranks.run(Op::AllGatherV {
                        send: gradient[..].into(),
                        recv: (&mut gathered[..]).into(),
                        counts: &counts,
                    })?;
                    &gathered
                }
            };
            let outputs = GradientRows::new(all, self.layers[layer].width);
            let mut partials = self.no_partials(layer, &gradient);
            let rule = rule.with_decay(self.decay_of(layer));
            let of_inputs = self.layer_backward(layer, rule, &outputs, &mut partials, ranks)?;
            self.floats = gathered;
            self.step_shared(layer, rule, ranks, &partials)?;
            gradient = of_inputs;
            self.deactivate(layer, &mut gradient);
        }
        self.check_limit()
    }

    /// The gradients of the activations that a layer reads; those of its shared parameters go into
    /// `partials`.
    fn layer_backward(
        &mut self,
        layer: usize,
        rule: Rule,
        outputs: &GradientRows<'_>,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<Array<f32>, Error> {
        if self.tiles.is_some() {
            return self.tiled_backward(layer, outputs, rule, partials, ranks.deadline);
        }
        match (layer, self.input.table) {
            (0, InputTable::ByPair) if self.rank_messages.is_empty() => {
                backward_pairs(&self.plans[0], outputs, &mut self.input, rule);
            }
            (0, InputTable::ByPair) => self.dealt_pairs_backward(outputs, rule, ranks)?,
            (0, InputTable::ByNode) => self.rows_backward(outputs, rule, partials, ranks)?,
            (0, InputTable::Embedding) => {
                let rows = std::mem::take(&mut self.input.rows);
                let gradients = self.activations_backward(0, outputs, &rows, partials, ranks)?;
                self.input.rows = rows;
                match &mut self.collected {
                    Some(_) if self.input.is_fixed => {}
                    Some(collected) => collected.rows = gradients,
                    None => self.input.step(&gradients, rule),
                }
            }
            _ => {
                let inputs = std::mem::take(&mut self.activations[layer - 1]);
                let gradients =
                    self.activations_backward(layer, outputs, &inputs, partials, ranks)?;
                self.activations[layer - 1] = inputs;
                return Ok(gradients);
            }
        }
        Ok(Array::default())
    }

    /// The first layer's pass over rows of the bases, which take their steps in it.
    fn rows_backward(
        &mut self,
        outputs: &GradientRows<'_>,
        rule: Rule,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let mut rows = std::mem::take(&mut self.input.rows);
        let mut moments = std::mem::take(&mut self.input.moments);
        let mut largest = 0.0;
        let mut updates = Updates::Rows {
            rows: &mut rows,
            moments: &mut moments,
            rule,
            largest: (self.config.sums == Sums::Exact).then_some(&mut largest),
        };
        self.blocks_backward(0, outputs, &mut updates, partials, ranks)?;
        self.input.rows = rows;
        self.input.moments = moments;
        self.input.largest = largest;
        Ok(())
    }

    /// A pass over activations, or an embedding; their gradients.
    fn activations_backward(
        &self,
        layer: usize,
        outputs: &GradientRows<'_>,
        inputs: &Array<f32>,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<Array<f32>, Error> {
        let mut gradients = self.memory.zeros(Purpose::Gradients, inputs.len());
        let mut updates = Updates::Activations {
            inputs,
            gradients: &mut gradients,
        };
        self.blocks_backward(layer, outputs, &mut updates, partials, ranks)?;
        Ok(gradients)
    }

    /// A pass, block by block; each block's gradient of the relations goes into `partials`.
    fn blocks_backward(
        &self,
        layer: usize,
        outputs: &GradientRows<'_>,
        updates: &mut Updates<'_>,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        if !self.rank_messages.is_empty() {
            return self.dealt_backward(layer, outputs, updates, partials, ranks);
        }
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(()); // One-hot input without bases has no relations' parameters.
        };
        let mut table = self.table_gradient(layer);
        let mut of_weights = self.weight_gradient(layer);
        if self.memory.is_dry() {
            return Ok(());
        }
        let pass = Pass::new(&self.plans[layer], coefficients, &self.tables[layer]);
        let rows = self.rows_to_materialise(layer);
        if let Some(rows) = rows {
            add_gradient(pass, rows, outputs, &mut of_weights);
        }
        let values = &of_weights;
        let weights = rows.map(|rows| WeightGradient { rows, values });
        for sources in self.layout.places_of_blocks(layer, self.rank) {
            let relations = pass.plan.relations_of(sources.clone());
            match &weights {
                None => backward(pass, sources, outputs, updates, &mut table),
                Some(weights) => {
                    backward_materialised(pass, sources, weights, updates, &mut table);
                }
            }
            coefficients.reduce(&mut table, &relations, partials);
        }
        Ok(())
    }

    /// Room for the gradient of a layer's table.
    pub(crate) fn table_gradient(&self, layer: usize) -> Array<f32> {
        let len = self.tables[layer].len();
        self.memory.zeros(Purpose::Gradients, len)
    }

    /// Room for the gradient of the W_r that this rank builds for a layer.
    pub(crate) fn weight_gradient(&self, layer: usize) -> Array<f32> {
        let len = if layer == 0 { self.n_materialised() } else { 0 };
        self.memory.zeros(Purpose::Gradients, len)
    }

    /// The gradients of the bias, block by block, and room for those of relations.
    fn no_partials(&self, layer: usize, own: &[f32]) -> Partials {
        let blocks = self.layout.places_of_blocks(layer + 1, self.rank);
        let (width, n_bias) = (self.layers[layer].width, self.layers[layer].bias.len());
        let coefficients = self.layers[layer].coefficients.as_ref();
        let row_len = coefficients.map_or(0, Coefficients::reduced_row);
        let n_rows = self.sizes(layer).n_block_relations as usize;
        let memory = &self.memory;
        let mut bias = memory.zeros(Purpose::Gradients, n_bias * blocks.len());
        for (places, partial) in blocks.into_iter().zip(bias.chunks_exact_mut(n_bias.max(1))) {
            add_rows(own, width, places, partial);
        }
        Partials {
            rows: memory.with_capacity(Purpose::Gradients, n_rows * row_len),
            relations: Vec::new(),
            bias,
        }
    }

    /// The weight decay of a layer's parameters.
    pub(crate) fn decay_of(&self, layer: usize) -> f32 {
        match layer {
            0 => 2.0 * self.config.l2,
            _ => 0.0,
        }
    }

    fn reduced_len(&self, layer: usize) -> usize {
        let coefficients = self.layers[layer].coefficients.as_ref();
        coefficients.map_or(0, Coefficients::reduced_len)
    }

    /// Adds the blocks of all ranks and steps the parameters that all have alike.
    fn step_shared(
        &mut self,
        layer: usize,
        rule: Rule,
        ranks: &mut RankComm<'_>,
        partials: &Partials,
    ) -> Result<(), Error> {
        let reduced_len = self.reduced_len(layer);
        let len = reduced_len + self.layers[layer].bias.len();
        if len == 0 {
            return Ok(());
        }
        let mut sum = self.memory.zeros(Purpose::Gradients, len);
        let is_dry = self.memory.is_dry();
        let (of_relations, of_bias) = sum.split_at_mut(if is_dry { 0 } else { reduced_len });
        let coefficients = self.layers[layer].coefficients.as_ref();
        if let Some(coefficients) = coefficients.filter(|_| !is_dry) {
            let rows = SparseRows {
                values: &partials.rows,
                row_len: coefficients.reduced_row(),
                places: &partials.relations,
            };
            ranks.timed(|comm, deadline| comm.exact_sum_rows(rows, of_relations, deadline))?;
        }
        if !of_bias.is_empty() {
            let bias = &partials.bias;
            ranks.timed(|comm, deadline| comm.exact_sum(bias, of_bias, deadline))?;
        }
        match &mut self.collected {
            Some(collected) => collected.shared[layer] = sum,
            None if is_dry => {}
            None => self.step_layer(layer, rule, &sum),
        }
        Ok(())
    }

    /// From the gradient of the activations that layer `layer` read to that of the sums before the
    /// non-linearity.
    fn deactivate(&self, layer: usize, gradient: &mut [f32]) {
        if layer == 0 {
            return;
        }
        let scale = match self.config.dropout > 0.0 {
            true => self.kept_scale(),
            false => 1.0,
        };
        for (gradient, &unit) in gradient.iter_mut().zip(&self.activations[layer - 1][..]) {
            *gradient = if unit > 0.0 { *gradient * scale } else { 0.0 };
        }
    }

    /// The gradients of a pass back from those of the logits, without a step.
    pub(crate) fn gradients(
        &mut self,
        ranks: &mut RankComm<'_>,
        logits: Array<f32>,
        step: u32,
    ) -> Result<Gradients, Error> {
        self.collected = Some(Gradients {
            shared: vec![Array::default(); self.layers.len()],
            ..Gradients::default()
        });
        self.backward(ranks, logits, step)?;
        Ok(self.collected.take().unwrap_or_default())
    }

    /// Steps the input's rows and the layers along gradients, each by its rule.
    pub(crate) fn step_along(&mut self, rules: StepRules, gradients: &Gradients) {
        let StepRules { rows, layers } = rules;
        if !gradients.rows.is_empty() {
            let rule = rows.with_decay(self.decay_of(0));
            self.input.step(&gradients.rows, rule);
        }
        for (layer, sum) in gradients.shared.iter().enumerate() {
            if !sum.is_empty() {
                self.step_layer(layer, layers.with_decay(self.decay_of(layer)), sum);
            }
        }
    }

    /// Steps a layer's shared parameters along the sum of all blocks' gradients; biases have no
    /// decay.
    fn step_layer(&mut self, layer: usize, rule: Rule, sum: &[f32]) {
        let reduced_len = self.reduced_len(layer);
        let Layer {
            coefficients,
            bias,
            bias_moments,
            ..
        } = &mut self.layers[layer];
        let (of_relations, of_bias) = sum.split_at(reduced_len);
        if let Some(coefficients) = coefficients {
            coefficients.step(rule, of_relations);
        }
        let rule = rule.with_decay(0.0);
        rule.step(bias, of_bias, bias_moments.of(0..of_bias.len()));
    }

    /// The square of the length of gradients in the parameters' own terms: those of shared bases
    /// are worked out.
    pub(crate) fn squares_of(&self, gradients: &Gradients) -> f64 {
        let mut sum = squares(&gradients.rows);
        for (layer, shared) in self.layers.iter().zip(&gradients.shared) {
            let n_bias = layer.bias.len().min(shared.len());
            let (of_relations, of_bias) = shared.split_at(shared.len() - n_bias);
            sum += squares(of_bias);
            if let Some(coefficients) = &layer.coefficients {
                sum += squares(&coefficients.gradient(of_relations));
            }
        }
        sum
    }
}

impl Gradients {
    /// All of them times a factor.
    pub(crate) fn scale(&mut self, factor: f32) {
        for array in self.shared.iter_mut().chain([&mut self.rows]) {
            array.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// Adds some rows to a sum of one row.
fn add_rows(rows: &[f32], width: usize, range: Range<usize>, sums: &mut [f32]) {
    for row in rows[range.start * width..range.end * width].chunks_exact(width) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
}
