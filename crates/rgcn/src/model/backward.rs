//! The way back through the layers: gradients of units and of shared parameters, and their steps.

use std::ops::Range;

use shardgraph_collectives::Op;

use super::built::backward_built;
use super::coefficients::{Coefficients, Partials};
use super::incoming::Incoming;
use super::input::{Keyed, backward_pairs};
use super::kernel::{Pass, Updates, backward};
use super::network::{Network, Peers};
use super::optimiser::Rule;
use crate::Error;
use crate::config::Sums;

impl Network<'_> {
    /// Takes step `step` along the gradient of the logits of this rank's nodes.
    pub(crate) fn backward(
        &mut self,
        peers: &mut Peers<'_>,
        logits: Vec<f32>,
        step: u32,
    ) -> Result<(), Error> {
        let rule = Rule::new(self.config, step);
        let mut gradient = logits;
        for layer in (0..self.layers.len()).rev() {
            let counts = self.counts(layer);
            let mut gathered = std::mem::take(&mut self.floats);
            let all = match peers.are_alone() {
                true => &gradient,
                false => {
                    gathered.clear();
                    gathered.reserve_exact(counts.iter().sum());
                    gathered.resize(counts.iter().sum(), 0.0);
                    let op = Op::AllGatherV {
                        send: (&gradient).into(),
                        recv: (&mut gathered).into(),
                        counts: &counts,
                    };
                    peers.run(op)?;
                    &gathered
                }
            };
            let all = Incoming::new(all, self.layers[layer].width);
            let (units, partials) = self.layer_backward(layer, rule, (&gradient, &all), peers)?;
            self.floats = gathered;
            self.step_shared(layer, rule, peers, &partials)?;
            gradient = units;
            self.deactivate(layer, &mut gradient);
        }
        Ok(())
    }

    /// The gradients of the units that a layer read, and of its shared parameters.
    fn layer_backward(
        &mut self,
        layer: usize,
        rule: Rule,
        (own, all): (&[f32], &Incoming<'_>),
        peers: &mut Peers<'_>,
    ) -> Result<(Vec<f32>, Partials), Error> {
        let mut partials = self.no_partials(layer, own);
        let step = (rule, self.decay_of(layer));
        let mut gradients = Vec::new();
        match (layer, self.input.keyed) {
            _ if self.tiles.is_some() => {
                gradients =
                    self.tiled_backward(layer, all, step, (&mut partials, peers.deadline))?;
            }
            (0, Keyed::ByPair) if self.works.is_empty() => {
                backward_pairs(&self.plans[0], all, &mut self.input, step);
            }
            (0, Keyed::ByPair) => self.pairs_work_backward(all, step, peers)?,
            (0, Keyed::ByNode) => self.rows_backward(all, step, &mut partials, peers)?,
            (0, Keyed::Embedding) => {
                let rows = std::mem::take(&mut self.input.rows);
                let gradients = self.units_backward(0, all, (&rows, &mut partials), peers)?;
                self.input.rows = rows;
                match &mut self.collected {
                    Some(_) if self.input.is_given => {}
                    Some(collected) => collected.rows = gradients,
                    None => self.input.step(&gradients, step),
                }
            }
            _ => {
                let units = std::mem::take(&mut self.made[layer - 1]);
                gradients = self.units_backward(layer, all, (&units, &mut partials), peers)?;
                self.made[layer - 1] = units;
            }
        }
        let n_partials = partials.rows.capacity() + partials.bias.len();
        let n_floats = own.len() + n_partials + gradients.len();
        self.note_backward(layer, n_floats, peers.are_alone())?;
        Ok((gradients, partials))
    }

    /// Counts what is held at the end of a layer's pass, with so many gradients of units and blocks.
    fn note_backward(
        &mut self,
        layer: usize,
        n_floats: usize,
        is_alone: bool,
    ) -> Result<(), Error> {
        let embedding = match (layer, self.input.keyed, &self.tiles) {
            (0, Keyed::Embedding, None) => self.input.rows.len(),
            _ => 0,
        };
        // What is gathered from others is out of its place.
        let gathered = if is_alone { 0 } else { self.widest_sum() };
        let of_relations = self.tables[layer].len() + self.n_work_gradients(layer);
        let built = if layer == 0 { self.built.len() } else { 0 };
        self.note_held(4 * (n_floats + embedding + gathered + of_relations + built) as u64)
    }

    /// The first layer's pass over rows of the bases, which take their steps in it.
    fn rows_backward(
        &mut self,
        all: &Incoming<'_>,
        (rule, decay): (Rule, f32),
        partials: &mut Partials,
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let mut rows = std::mem::take(&mut self.input.rows);
        let mut moments = std::mem::take(&mut self.input.moments);
        let mut largest = 0.0;
        let mut updates = Updates::Rows {
            rows: &mut rows,
            moments: &mut moments,
            rule,
            decay,
            largest: (self.config.sums == Sums::Exact).then_some(&mut largest),
        };
        self.blocks_backward(0, all, (&mut updates, partials), peers)?;
        self.input.rows = rows;
        self.input.moments = moments;
        self.input.largest = largest;
        Ok(())
    }

    /// Numbers of the sums of the layer that has most of them.
    fn widest_sum(&self) -> usize {
        let layers = 0..self.layers.len();
        let sums = layers.map(|layer| self.counts(layer).iter().sum());
        sums.max().unwrap_or(0)
    }

    /// A pass over units; their gradients.
    fn units_backward(
        &self,
        layer: usize,
        all: &Incoming<'_>,
        (units, partials): (&[f32], &mut Partials),
        peers: &mut Peers<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut gradients = vec![0.0; units.len()];
        let mut updates = Updates::Units {
            units,
            gradients: &mut gradients,
        };
        self.blocks_backward(layer, all, (&mut updates, partials), peers)?;
        Ok(gradients)
    }

    /// A pass, block by block; each block's gradient of the relations goes into `partials`.
    fn blocks_backward(
        &self,
        layer: usize,
        all: &Incoming<'_>,
        (updates, partials): (&mut Updates<'_>, &mut Partials),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        if !self.works.is_empty() {
            return self.work_backward(layer, all, (updates, partials), peers);
        }
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(()); // One-hot input without bases has no relations' parameters.
        };
        let pass = Pass::new(&self.plans[layer], coefficients, &self.tables[layer]);
        let blocks = self.layout.places_of_blocks(layer, self.rank);
        let mut table = vec![0.0; self.tables[layer].len()];
        let built = self.built_gradient(layer, pass, all);
        for sources in blocks {
            let relations = pass.plan.relations_of(sources.clone());
            match &built {
                None => backward(pass, sources, all, updates, &mut table),
                Some((places, built)) => {
                    backward_built(pass, sources, (places, built), updates, &mut table);
                }
            }
            coefficients.reduce(&mut table, &relations, partials);
        }
        Ok(())
    }

    /// The gradients of the bias, block by block, and room for those of relations.
    fn no_partials(&self, layer: usize, own: &[f32]) -> Partials {
        let blocks = self.layout.places_of_blocks(layer + 1, self.rank);
        let (width, n_bias) = (self.layers[layer].width, self.layers[layer].bias.len());
        let coefficients = self.layers[layer].coefficients.as_ref();
        let row_len = coefficients.map_or(0, Coefficients::reduced_row);
        let mut bias = vec![0.0; n_bias * blocks.len()];
        for (places, partial) in blocks.into_iter().zip(bias.chunks_exact_mut(n_bias.max(1))) {
            add_rows(own, width, places, partial);
        }
        Partials {
            rows: Vec::with_capacity(self.n_partials[layer] * row_len),
            relations: Vec::new(),
            bias,
        }
    }

    /// What of a parameter is added to its gradient.
    pub(super) fn decay_of(&self, layer: usize) -> f32 {
        match layer {
            0 => 2.0 * self.config.l2,
            _ => 0.0,
        }
    }

    pub(super) fn reduced_len(&self, layer: usize) -> usize {
        let coefficients = self.layers[layer].coefficients.as_ref();
        coefficients.map_or(0, Coefficients::reduced_len)
    }

    /// Adds the blocks of all ranks and steps the parameters that all have alike.
    fn step_shared(
        &mut self,
        layer: usize,
        rule: Rule,
        peers: &mut Peers<'_>,
        partials: &Partials,
    ) -> Result<(), Error> {
        let reduced_len = self.reduced_len(layer);
        let mut sum = vec![0.0; reduced_len + self.layers[layer].bias.len()];
        if sum.is_empty() {
            return Ok(());
        }
        let (of_relations, of_bias) = sum.split_at_mut(reduced_len);
        let Peers { comm, deadline } = peers;
        if let Some(coefficients) = &self.layers[layer].coefficients {
            let rows = (&partials.rows[..], coefficients.reduced_row());
            comm.exact_sum_rows(rows, &partials.relations, of_relations, *deadline)?;
        }
        if !of_bias.is_empty() {
            comm.exact_sum(&partials.bias, of_bias, *deadline)?;
        }
        match &mut self.collected {
            Some(collected) => collected.shared[layer] = sum,
            None => self.step_layer(layer, rule, &sum),
        }
        Ok(())
    }

    /// From the gradient of the units that layer `layer` read to that of what the layer before summed.
    fn deactivate(&self, layer: usize, gradient: &mut [f32]) {
        if layer == 0 {
            return;
        }
        let scale = match self.config.dropout > 0.0 {
            true => self.kept_scale(),
            false => 1.0,
        };
        for (gradient, &unit) in gradient.iter_mut().zip(&self.made[layer - 1]) {
            *gradient = if unit > 0.0 { *gradient * scale } else { 0.0 };
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
