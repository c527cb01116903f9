//! One rank's part of the model: its sources' rows and units, and the parameters that all ranks have alike.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline, Op, Reduction};
use shardgraph_graph::random::Stream;

use super::coefficients::{Coefficients, Form};
use super::gradients::Gradients;
use super::input::{InputRows, Keyed, backward_pairs, forward_pairs};
use super::kernel::{Inputs, Pass, Updates, backward, forward, largest_magnitude};
use super::optimiser::{Moments, Rule};
use super::plan::{LayerPlan, Layout};
use super::shape::Shape;
use super::sums::{ExactSums, FloatSums, scale_for, to_floats};
use super::work::Work;
use crate::config::{Config, Sums};
use crate::{Error, ErrorKind};

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
    /// What each layer made for this rank's nodes: units after the non-linearity, logits at the end.
    pub(crate) made: Vec<Vec<f32>>,
    pub(super) tables: Vec<Vec<f32>>,
    /// What this rank works on where that is not all of its own sources; by layer, else empty.
    pub(super) works: Vec<Arc<Work>>,
    /// What that work read in the last pass forward.
    pub(super) read: Vec<Vec<f32>>,
    pub(super) floats: Vec<f32>,
    pub(super) fixed: Vec<i64>,
    /// Where gradients go instead of into steps, where they are wanted.
    pub(crate) collected: Option<Gradients>,
}

/// A rank's way to the others.
pub(crate) struct Peers<'a> {
    pub(crate) comm: &'a mut Comm,
    pub(crate) deadline: Deadline,
}

impl Peers<'_> {
    pub(crate) fn run(&mut self, op: Op<'_>) -> Result<(), Error> {
        Ok(self.comm.run(op, self.deadline)?)
    }

    /// The greatest of a number over all ranks.
    fn largest(&mut self, value: f32) -> Result<f32, Error> {
        let mut largest = [value];
        let op = Op::AllReduce {
            buf: (&mut largest).into(),
            reduction: Reduction::Max,
        };
        self.run(op)?;
        Ok(largest[0])
    }

    fn are_alone(&self) -> bool {
        self.comm.size() == 1
    }
}

/// The memory for the gradients of shared parameters, all blocks of a rank together.
const GRADIENT_BYTES: u64 = 64 << 20;

/// How many blocks keep the gradients of shared parameters within bounds.
pub(crate) fn max_blocks(config: &Config, n_classes: u32, n_relations: usize) -> u32 {
    let forms = forms(config, n_classes);
    let reduced = forms.iter().map(|(form, shape)| match form {
        Form::Coefficients => n_relations * shape.n_terms,
        Form::Whole | Form::Shared { .. } => n_relations * shape.len(),
    });
    let largest = reduced.max().unwrap_or(1).max(1) as u64;
    (GRADIENT_BYTES / (4 * largest)).clamp(1, 1 << 16) as u32
}

/// The form and the shape of each layer's relations.
fn forms(config: &Config, n_classes: u32) -> Vec<(Form, Shape)> {
    let widths = config.widths(n_classes);
    let hidden = match config.bases {
        0 => Form::Whole,
        n_bases => Form::Shared { n_bases },
    };
    let first = match config.embedding {
        0 => (Form::Coefficients, Shape::new(config.bases, widths[0])),
        width => (hidden, Shape::of_weights(config, width, widths[0])),
    };
    let others = widths
        .windows(2)
        .map(|pair| (hidden, Shape::of_weights(config, pair[0], pair[1])));
    [first].into_iter().chain(others).collect()
}

impl<'a> Network<'a> {
    /// A rank's part before the first step.
    pub(crate) fn new(
        config: &'a Config,
        layout: &'a Layout<'a>,
        rank: usize,
        n_classes: u32,
    ) -> Network<'a> {
        let plans = layout.plans(rank);
        let layers = (0u64..)
            .zip(forms(config, n_classes))
            .map(|(layer, (form, shape))| {
                let has_table = layer > 0 || config.has_first_table();
                let n_bias = if config.bias { shape.width } else { 0 };
                Layer {
                    coefficients: has_table.then(|| {
                        Coefficients::new(config, layer, form, shape, layout.n_relations())
                    }),
                    width: shape.width,
                    bias: vec![0.0; n_bias],
                    bias_moments: Moments::new(config.optimiser, n_bias),
                }
            });
        let layers: Vec<Layer> = layers.collect();
        Network {
            config,
            layout,
            rank,
            input: InputRows::new(config, layout, rank, &plans[0], layers[0].width),
            plans,
            made: vec![Vec::new(); layers.len()],
            tables: vec![Vec::new(); layers.len()],
            works: layout.works(rank),
            read: vec![Vec::new(); layers.len()],
            layers,
            floats: Vec::new(),
            fixed: Vec::new(),
            collected: None,
        }
    }

    /// The parameters of this network for other outputs; rows that training did not touch are made as it would have left them.
    pub(crate) fn for_outputs<'b>(&self, layout: &'b Layout<'b>, n_steps: u32) -> Network<'b>
    where
        'a: 'b,
    {
        let plans = layout.plans(self.rank);
        let mut input = InputRows::new(
            self.config,
            layout,
            self.rank,
            &plans[0],
            self.layers[0].width,
        );
        if !input.is_given {
            self.copy_rows(layout, &plans[0], &mut input, n_steps);
        }
        input.moments = Moments::default();
        input.largest = largest_magnitude(&input.rows);
        Network {
            config: self.config,
            layout,
            rank: self.rank,
            plans,
            input,
            layers: self.layers.clone(),
            made: vec![Vec::new(); self.layers.len()],
            tables: vec![Vec::new(); self.layers.len()],
            works: layout.works(self.rank),
            read: vec![Vec::new(); self.layers.len()],
            floats: Vec::new(),
            fixed: Vec::new(),
            collected: None,
        }
    }

    /// Fills the rows of `input` from those trained, and decays the others for as many steps as were taken.
    fn copy_rows(
        &self,
        layout: &Layout<'_>,
        plan: &LayerPlan,
        input: &mut InputRows,
        n_steps: u32,
    ) {
        let len = input.row_len();
        let rules = match self.decay_of(0) > 0.0 {
            true => Rule::first(self.config, n_steps),
            false => Vec::new(),
        };
        let first = self.layout.places(0, self.rank).start;
        let own = self.layout.places(0, self.rank);
        for (source, place) in layout.places(0, self.rank).enumerate() {
            let node = layout.sets[0].node(place);
            let trained = self.layout.sets[0]
                .place(node)
                .filter(|place| own.contains(place));
            let trained = trained.map(|place| place - first);
            for row in input.rows_of(plan, source) {
                let trained = match input.keyed {
                    Keyed::ByNode | Keyed::Embedding => trained,
                    Keyed::ByPair => trained.and_then(|trained| {
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
            rule.step(row, &gradient, self.decay_of(0), moments.of(0..row.len()));
        }
    }

    /// Refuses parameters that are no numbers, on all ranks alike.
    pub(crate) fn check_finite(&self, peers: &mut Peers<'_>) -> Result<(), Error> {
        let mut largest = largest_magnitude(&self.input.rows);
        for layer in &self.layers {
            let shared = layer.coefficients.iter().map(|shared| &shared.params);
            for params in shared.chain([&layer.bias]) {
                largest = largest.max(largest_magnitude(params));
            }
        }
        match peers.largest(largest)?.is_finite() {
            true => Ok(()),
            false => Err(diverged()),
        }
    }

    /// Numbers of each rank's rows in what a layer makes.
    fn counts(&self, layer: usize) -> Vec<usize> {
        let width = self.layers[layer].width;
        let ranks = 0..self.layout.n_ranks();
        ranks
            .map(|rank| self.layout.places(layer + 1, rank).len() * width)
            .collect()
    }

    /// This rank's sources in a layer.
    pub(super) fn sources(&self, layer: usize) -> Range<usize> {
        0..self.layout.places(layer, self.rank).len()
    }

    /// Runs all layers; `made` then has each layer's units and the logits. With an epoch, units are dropped at random.
    pub(crate) fn forward(
        &mut self,
        peers: &mut Peers<'_>,
        epoch: Option<u32>,
    ) -> Result<(), Error> {
        for layer in 0..self.layers.len() {
            let coefficients = &self.layers[layer].coefficients;
            self.tables[layer] = coefficients
                .as_ref()
                .map(Coefficients::table)
                .unwrap_or_default();
            let mut made = std::mem::take(&mut self.made[layer]);
            let len = self.counts(layer)[self.rank];
            made.resize(len, 0.0);
            if let Some(work) = self.works.get(layer) {
                self.read[layer] = self.read_inputs(layer, work, peers)?;
            }
            match self.config.sums {
                Sums::Float => self.send_floats(layer, peers, &mut made)?,
                Sums::Exact => self.send_exact(layer, peers, &mut made)?,
            }
            self.activate(layer, &mut made, epoch);
            self.made[layer] = made;
        }
        Ok(())
    }

    fn send_floats(
        &mut self,
        layer: usize,
        peers: &mut Peers<'_>,
        made: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let counts = self.counts(layer);
        let reused = if peers.are_alone() {
            &mut *made
        } else {
            &mut self.floats
        };
        let mut floats = std::mem::take(reused);
        floats.clear();
        floats.resize(counts.iter().sum(), 0.0);
        self.messages(layer, &mut FloatSums(&mut floats));
        if peers.are_alone() {
            *made = floats;
            return Ok(());
        }
        let op = Op::ReduceScatterV {
            send: (&floats).into(),
            recv: made.into(),
            counts: &counts,
            reduction: Reduction::Sum,
        };
        peers.run(op)?;
        self.floats = floats;
        Ok(())
    }

    fn send_exact(
        &mut self,
        layer: usize,
        peers: &mut Peers<'_>,
        made: &mut [f32],
    ) -> Result<(), Error> {
        let counts = self.counts(layer);
        let bound = peers.largest(self.message_bound(layer))?;
        let scale = scale_for(bound, self.layout.n_relations()).ok_or_else(diverged)?;
        let mut fixed = std::mem::take(&mut self.fixed);
        fixed.clear();
        fixed.resize(counts.iter().sum(), 0);
        self.messages(
            layer,
            &mut ExactSums {
                sums: &mut fixed,
                scale,
            },
        );
        if peers.are_alone() {
            to_floats(&fixed, scale, made);
        } else {
            let mut own = vec![0i64; made.len()];
            let op = Op::ReduceScatterV {
                send: (&fixed).into(),
                recv: (&mut own).into(),
                counts: &counts,
                reduction: Reduction::Sum,
            };
            peers.run(op)?;
            to_floats(&own, scale, made);
        }
        self.fixed = fixed;
        Ok(())
    }

    /// No message of this rank's sources is larger, rounding included.
    fn message_bound(&self, layer: usize) -> f32 {
        let inputs = match layer {
            0 => self.input.largest,
            _ => largest_magnitude(&self.made[layer - 1]),
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
    fn messages(&self, layer: usize, sums: &mut impl super::sums::Sums) {
        let (plan, read, sources) = match (self.works.get(layer), layer) {
            (Some(work), _) => (&work.plan, &self.read[layer], 0..work.n_sources()),
            (None, 0) => (&*self.plans[0], &self.input.rows, self.sources(0)),
            (None, _) => (
                &*self.plans[layer],
                &self.made[layer - 1],
                self.sources(layer),
            ),
        };
        let Some(coefficients) = &self.layers[layer].coefficients else {
            forward_pairs(plan, self.layers[layer].width, read, sums);
            return;
        };
        let inputs = match (layer, self.input.keyed) {
            (0, Keyed::ByNode) => Inputs::Rows(read),
            _ => Inputs::Units(read),
        };
        let pass = Pass {
            plan,
            shape: coefficients.shape,
            table: &self.tables[layer],
        };
        forward(pass, sources, inputs, sums);
    }

    /// Adds the bias and, but for the last layer, cuts at zero and drops units at random.
    fn activate(&self, layer: usize, made: &mut [f32], epoch: Option<u32>) {
        let Layer { width, bias, .. } = &self.layers[layer];
        if !bias.is_empty() {
            for row in made.chunks_exact_mut(*width) {
                row.iter_mut()
                    .zip(bias)
                    .for_each(|(unit, bias)| *unit += bias);
            }
        }
        if layer + 1 == self.layers.len() {
            return;
        }
        // Not `max`, which would hide what is not a number.
        made.iter_mut()
            .filter(|unit| **unit < 0.0)
            .for_each(|unit| *unit = 0.0);
        let dropout = self.config.dropout;
        if let Some(epoch) = epoch.filter(|_| dropout > 0.0) {
            let purpose = format!("rgcn dropout {layer}");
            let places = self.layout.places(layer + 1, self.rank);
            for (place, row) in places.zip(made.chunks_exact_mut(*width)) {
                let node = self.layout.sets[layer + 1].node(place);
                let key = u64::from(epoch) << 32 | u64::from(node);
                let mut stream = Stream::new(self.config.seed, &purpose, key);
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

    /// What units that are not dropped are multiplied by, so that their expectation stays.
    fn kept_scale(&self) -> f32 {
        1.0 / (1.0 - self.config.dropout)
    }

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
            let (units, partials) = self.layer_backward(layer, rule, (&gradient, all), peers)?;
            self.floats = gathered;
            self.step_shared(layer, rule, peers, &partials)?;
            gradient = units;
            self.deactivate(layer, &mut gradient);
        }
        Ok(())
    }

    /// The gradients of the units that a layer read, and of its shared parameters, a run of numbers for each block: relations, then bias.
    fn layer_backward(
        &mut self,
        layer: usize,
        rule: Rule,
        (own, all): (&[f32], &[f32]),
        peers: &mut Peers<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let mut partials = self.bias_partials(layer, own);
        let step = (rule, self.decay_of(layer));
        let mut gradients = Vec::new();
        match (layer, self.input.keyed) {
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
        Ok((gradients, partials))
    }

    /// The first layer's pass over rows of the bases, which take their steps in it.
    fn rows_backward(
        &mut self,
        all: &[f32],
        (rule, decay): (Rule, f32),
        partials: &mut [f32],
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

    /// A pass over units; their gradients.
    fn units_backward(
        &self,
        layer: usize,
        all: &[f32],
        (units, partials): (&[f32], &mut [f32]),
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

    /// A pass, block by block; each block's gradient of the relations goes into its part of `partials`.
    fn blocks_backward(
        &self,
        layer: usize,
        all: &[f32],
        (updates, partials): (&mut Updates<'_>, &mut [f32]),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        if !self.works.is_empty() {
            return self.work_backward(layer, all, (updates, partials), peers);
        }
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(()); // One-hot input without bases has no relations' parameters.
        };
        let pass = Pass {
            plan: &self.plans[layer],
            shape: coefficients.shape,
            table: &self.tables[layer],
        };
        let reduced_len = self.reduced_len(layer);
        let partials = partials.chunks_exact_mut(self.n_shared(layer).max(1));
        let blocks = self.layout.places_of_blocks(layer, self.rank);
        let mut table = vec![0.0; self.tables[layer].len()];
        for (sources, partial) in blocks.into_iter().zip(partials) {
            let relations = pass.plan.relations_of(sources.clone());
            backward(pass, sources, all, updates, &mut table);
            coefficients.reduce(&mut table, &relations, &mut partial[..reduced_len]);
        }
        Ok(())
    }

    /// The gradients of the bias, block by block, with room for those of the relations before each.
    fn bias_partials(&self, layer: usize, own: &[f32]) -> Vec<f32> {
        let (n_shared, reduced_len) = (self.n_shared(layer), self.reduced_len(layer));
        let blocks = self.layout.places_of_blocks(layer + 1, self.rank);
        // Work that is not of own sources may be of any block.
        let (n_blocks, first) = match self.works.is_empty() {
            true => (blocks.len(), 0),
            false => (
                self.layout.blocks.count(),
                self.layout.dealt[self.rank].start,
            ),
        };
        let mut partials = vec![0.0; n_shared * n_blocks];
        let width = self.layers[layer].width;
        let own_partials = partials.chunks_exact_mut(n_shared.max(1)).skip(first);
        for (places, partial) in blocks.into_iter().zip(own_partials) {
            add_rows(own, width, places, &mut partial[reduced_len..]);
        }
        partials
    }

    /// What of a parameter is added to its gradient.
    pub(super) fn decay_of(&self, layer: usize) -> f32 {
        match layer {
            0 => 2.0 * self.config.l2,
            _ => 0.0,
        }
    }

    /// Numbers in a block's gradient of the parameters that all nodes share.
    pub(super) fn n_shared(&self, layer: usize) -> usize {
        self.reduced_len(layer) + self.layers[layer].bias.len()
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
        partials: &[f32],
    ) -> Result<(), Error> {
        let reduced_len = self.reduced_len(layer);
        let mut sum = vec![0.0; reduced_len + self.layers[layer].bias.len()];
        if sum.is_empty() {
            return Ok(());
        }
        peers.comm.exact_sum(partials, &mut sum, peers.deadline)?;
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

    /// The input's rows of each block of this rank.
    pub(crate) fn input_blocks(&self) -> Vec<&[f32]> {
        let blocks = self.layout.places_of_blocks(0, self.rank);
        let rows_before = |source: usize| match self.input.keyed {
            Keyed::ByNode | Keyed::Embedding => source,
            Keyed::ByPair => self.plans[0].pair_starts[source] as usize,
        };
        let len = self.input.row_len();
        let rows = |sources: Range<usize>| {
            &self.input.rows[rows_before(sources.start) * len..rows_before(sources.end) * len]
        };
        blocks.into_iter().map(rows).collect()
    }
}

/// Adds some rows to a sum of one row; nothing where the sum is empty.
fn add_rows(rows: &[f32], width: usize, range: Range<usize>, sums: &mut [f32]) {
    if sums.is_empty() {
        return;
    }
    for row in rows[range.start * width..range.end * width].chunks_exact(width) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

pub(crate) fn diverged() -> Error {
    let message =
        "training left the range of numbers: expected finite weights; choose a smaller --rate";
    Error::new(ErrorKind::Diverged, message)
}
