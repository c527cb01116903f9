//! One rank's part of the model: its sources' rows and units, and the parameters that all ranks have alike.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline, Op, Reduction};
use shardgraph_graph::random::Stream;

use super::built::BuiltRows;
use super::coefficients::{Coefficients, Form};
use super::gradients::Gradients;
use super::input::{InputRows, Keyed, forward_pairs};
use super::kernel::{Inputs, Pass, forward, largest_magnitude};
use super::memory::{fit, predicted};
use super::optimiser::{Moments, Rule};
use super::plan::{LayerPlan, Layout};
use super::shape::Shape;
use super::sums::{ExactSums, FloatSums, scale_for, to_floats};
use super::tiles::Tiles;
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
    /// By layer, how many gradients of relations the blocks of nodes have together: a row for each relation that a block has.
    pub(super) n_partials: Vec<usize>,
    /// Which rows of W_r this rank builds in the first layer; none where none is built.
    pub(super) to_build: Option<BuiltRows>,
    /// They; else empty.
    pub(crate) built: Vec<f32>,
    pub(super) floats: Vec<f32>,
    pub(super) fixed: Vec<i64>,
    /// Where a budget does not hold all sources at once.
    pub(super) tiles: Option<Tiles>,
    /// The most bytes that the device has held.
    pub(crate) peak_bytes: u64,
    /// The most that it was predicted to hold.
    pub(crate) predicted_bytes: u64,
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
    pub(crate) fn largest(&mut self, value: f32) -> Result<f32, Error> {
        let mut largest = [value];
        let op = Op::AllReduce {
            buf: (&mut largest).into(),
            reduction: Reduction::Max,
        };
        self.run(op)?;
        Ok(largest[0])
    }

    /// The greatest of a count over all ranks.
    pub(super) fn most(&mut self, count: u64) -> Result<u64, Error> {
        let mut most = [count];
        let op = Op::AllReduce {
            buf: (&mut most).into(),
            reduction: Reduction::Max,
        };
        self.run(op)?;
        Ok(most[0])
    }

    pub(super) fn are_alone(&self) -> bool {
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

/// The tiles of a rank, and what its device will hold at most; where there is a budget that is not infinite.
fn tiles_of(
    config: &Config,
    layout: &Layout<'_>,
    plans: &[Arc<LayerPlan>],
    (rank, n_classes): (usize, u32),
) -> Result<(Option<Tiles>, u64), Error> {
    let fitted = match layout.budget {
        None => None,
        Some(budget) => fit(config, layout, plans, (rank, n_classes, budget))?,
    };
    Ok(match fitted {
        Some((tiles, bytes)) => (Some(tiles), bytes),
        None => (
            None,
            predicted(config, layout, (rank, n_classes), Some(plans)),
        ),
    })
}

/// The form and the shape of each layer's relations.
pub(super) fn forms(config: &Config, n_classes: u32) -> Vec<(Form, Shape)> {
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
    ) -> Result<Network<'a>, Error> {
        let plans = layout.plans(rank);
        let (tiles, predicted_bytes) = tiles_of(config, layout, &plans, (rank, n_classes))?;
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
        let works = layout.works(rank);
        Ok(Network {
            config,
            layout,
            rank,
            n_partials: layout.n_partials(rank, (&plans, &works)),
            to_build: layout.built_rows(rank, &works),
            input: InputRows::new(config, layout, rank, &plans[0], layers[0].width),
            plans,
            made: vec![Vec::new(); layers.len()],
            tables: vec![Vec::new(); layers.len()],
            works,
            read: vec![Vec::new(); layers.len()],
            layers,
            built: Vec::new(),
            floats: Vec::new(),
            fixed: Vec::new(),
            tiles,
            peak_bytes: 0,
            predicted_bytes,
            collected: None,
        })
    }

    /// The parameters of this network for other outputs; rows that training did not touch are made as it would have left them.
    pub(crate) fn for_outputs<'b>(
        &self,
        layout: &'b Layout<'b>,
        n_steps: u32,
    ) -> Result<Network<'b>, Error>
    where
        'a: 'b,
    {
        let plans = layout.plans(self.rank);
        let n_classes = self.layers.last().map_or(0, |layer| layer.width as u32);
        let (tiles, predicted_bytes) =
            tiles_of(self.config, layout, &plans, (self.rank, n_classes))?;
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
        let works = layout.works(self.rank);
        Ok(Network {
            n_partials: layout.n_partials(self.rank, (&plans, &works)),
            to_build: layout.built_rows(self.rank, &works),
            config: self.config,
            layout,
            rank: self.rank,
            plans,
            input,
            layers: self.layers.clone(),
            made: vec![Vec::new(); self.layers.len()],
            tables: vec![Vec::new(); self.layers.len()],
            works,
            read: vec![Vec::new(); self.layers.len()],
            built: Vec::new(),
            floats: Vec::new(),
            fixed: Vec::new(),
            tiles,
            peak_bytes: 0,
            predicted_bytes,
            collected: None,
        })
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
    pub(super) fn counts(&self, layer: usize) -> Vec<usize> {
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
                let read = std::mem::take(&mut self.read[layer]);
                self.read[layer] = self.read_inputs(layer, (work, read), peers)?;
            }
            if layer == 0 {
                self.build_weights();
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
        floats.reserve_exact(counts.iter().sum());
        floats.resize(counts.iter().sum(), 0.0);
        self.messages(layer, &mut FloatSums(&mut floats), peers.deadline)?;
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
        fixed.reserve_exact(counts.iter().sum());
        fixed.resize(counts.iter().sum(), 0);
        self.messages(
            layer,
            &mut ExactSums {
                sums: &mut fixed,
                scale,
            },
            peers.deadline,
        )?;
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
        let of_peers = if peers.are_alone() { 0 } else { 8 };
        // `made` is out of its place.
        self.note_held((4 + of_peers) * made.len() as u64)
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
    fn messages(
        &self,
        layer: usize,
        sums: &mut impl super::sums::Sums,
        deadline: Deadline,
    ) -> Result<(), Error> {
        if let Some(tiles) = &self.tiles {
            return self.tiled_messages(layer, tiles, sums, deadline);
        }
        let (plan, read, sources) = match (self.works.get(layer), layer) {
            (Some(work), _) => (&work.plan, &self.read[layer], 0..work.n_sources()),
            (None, 0) => (&*self.plans[0], &self.input.rows, self.sources(0)),
            (None, _) => (
                &*self.plans[layer],
                &self.made[layer - 1],
                self.sources(layer),
            ),
        };
        self.send_from(layer, (plan, read, sources), sums);
        Ok(())
    }

    /// Sends the messages of some sources of a plan, which read these numbers.
    pub(super) fn send_from(
        &self,
        layer: usize,
        (plan, read, sources): (&LayerPlan, &[f32], Range<usize>),
        sums: &mut impl super::sums::Sums,
    ) {
        let Some(coefficients) = &self.layers[layer].coefficients else {
            forward_pairs(plan, self.layers[layer].width, read, sums);
            return;
        };
        let inputs = match (layer, self.input.keyed) {
            (0, Keyed::ByNode) => Inputs::Rows(read),
            _ => Inputs::Units(read),
        };
        let pass = Pass::new(plan, coefficients, &self.tables[layer]);
        if let Some(places) = self.rows_to_build(layer) {
            self.send_built(pass, places, sums);
            return;
        }
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
        for unit in made.iter_mut() {
            *unit = if *unit < 0.0 { 0.0 } else { *unit };
        }
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
    pub(super) fn kept_scale(&self) -> f32 {
        1.0 / (1.0 - self.config.dropout)
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

pub(crate) fn diverged() -> Error {
    let message =
        "training left the range of numbers: expected finite weights; choose a smaller --rate";
    Error::new(ErrorKind::Diverged, message)
}
