//! What a rank holds, in bytes: predicted from the layout before there is anything, and counted from the arrays.

use std::ops::Range;
use std::sync::Arc;

use super::built::n_built;
use super::coefficients::Form;
use super::exchange::{N_PIECES, PIECE};
use super::footprint::{LastBlocks, of_work};
use super::network::{Network, forms};
use super::optimiser::Moments;
use super::plan::{LayerPlan, Layout};
use super::shape::Shape;
use super::tiles::{Tiles, Traffic, cut, tile_bytes};
use crate::config::{Config, Optimiser, Sums};
use crate::size::size;
use crate::{Error, ErrorKind};

/// What a rank holds of a step, where messages are dealt by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Rows of the input with the optimiser's numbers, and all messages: what may come and go in tiles.
    pub(crate) streamed: u64,
    /// Parameters, units, sums, and the gradients that are there at the fullest moment of a step.
    pub(crate) resident: u64,
    /// What more there is at that moment where nothing is in tiles: the gradient of an embedding.
    pub(crate) whole: u64,
}

/// A rank's part of one layer in numbers.
#[derive(Clone, Copy, Debug)]
struct Extents {
    n_read: u64,
    n_made: u64,
    n_all_made: u64,
    n_pairs: u64,
    plan_bytes: u64,
    n_blocks: u64,
    n_block_relations: u64,
}

impl Layout<'_> {
    /// `plan` saves a pass over the edges where it is there already.
    fn extents(&self, layer: usize, rank: usize, plan: Option<&LayerPlan>) -> Extents {
        let (mut n_pairs, mut n_sends, mut n_block_relations) = (0u64, 0u64, 0u64);
        let places = self.places(layer, rank);
        match plan {
            Some(plan) => {
                (n_pairs, n_sends) = (plan.n_pairs() as u64, plan.sends.len() as u64);
                for sources in self.places_of_blocks(layer, rank) {
                    n_block_relations += plan.relations_of(sources).len() as u64;
                }
            }
            None => {
                let mut last_blocks = LastBlocks::new(self);
                self.each_source(layer, places.clone(), &mut |place, messages| {
                    let block = self.blocks.of(self.sets[layer].node(place));
                    for pair in messages.chunk_by(|one, other| one.0 == other.0) {
                        n_pairs += 1;
                        n_sends += pair.len() as u64;
                        n_block_relations += last_blocks.note(pair[0].0, block);
                    }
                });
            }
        }
        let n_read = places.len() as u64;
        Extents {
            n_read,
            n_made: self.places(layer + 1, rank).len() as u64,
            n_all_made: self.sets[layer + 1].len() as u64,
            n_pairs,
            plan_bytes: 4 * (n_read + 1 + 2 * n_pairs + 1) + 8 * n_sends,
            n_blocks: self.dealt[rank].len() as u64,
            n_block_relations,
        }
    }
}

/// The input's rows of a model: their length, and whether they are those of pairs.
pub(super) fn rows_of(config: &Config, forms: &[(Form, Shape)]) -> (usize, bool) {
    let shape = forms[0].1;
    match (config.embedding, config.bases) {
        (0, 0) => (shape.width, true),
        (0, _) => (shape.stride, false),
        (width, _) => (Shape::new(width, 1).stride, false),
    }
}

/// How many numbers there are for each parameter.
pub(super) fn copies(config: &Config) -> u64 {
    match config.optimiser {
        Optimiser::Sgd => 1,
        Optimiser::Adam => 3,
    }
}

/// Numbers of a layer's relations: parameters, the table of their rows, and a relation's reduced gradient.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub(super) params: u64,
    pub(super) table: u64,
    pub(super) reduced_row: u64,
}

impl Extents {
    /// Numbers of the input's rows.
    fn n_input(&self, config: &Config, forms: &[(Form, Shape)]) -> u64 {
        let (row_len, by_pair) = rows_of(config, forms);
        let n_rows = if by_pair { self.n_pairs } else { self.n_read };
        n_rows * row_len as u64
    }
}

/// Bytes of a sum over all nodes, and of a gradient of it where other ranks have a part in both.
pub(super) fn bytes_a_sum(config: &Config, is_alone: bool) -> u64 {
    let fixed = match config.sums {
        Sums::Exact => 8,
        Sums::Float => 0,
    };
    fixed + if is_alone { 0 } else { 4 }
}

/// Bytes of what is built in a layer; as much is its gradient.
fn built_bytes(
    config: &Config,
    layout: &Layout<'_>,
    (rank, n_classes): (usize, u32),
    layer: usize,
) -> u64 {
    match layer == 0 && layout.builds_weights {
        true => 4 * n_built(config, layout, rank, n_classes),
        false => 0,
    }
}

impl Sizes {
    /// Those of a layer; nothing where the first one has no parameters of relations.
    pub(super) fn of(
        config: &Config,
        layout: &Layout<'_>,
        layer: usize,
        (form, shape): (Form, Shape),
    ) -> Sizes {
        match layer > 0 || config.has_first_table() {
            true => form.sizes(shape, layout.n_relations()),
            false => Sizes::default(),
        }
    }
}

impl Footprint {
    /// That of a rank that sends the messages of its own sources.
    ///
    /// # Complexity
    /// Without `plans` a pass over the edges for each layer that has one of its own; nothing of their size is held.
    pub(crate) fn of(
        config: &Config,
        layout: &Layout<'_>,
        (rank, n_classes): (usize, u32),
        plans: Option<&[Arc<LayerPlan>]>,
    ) -> Footprint {
        let forms = forms(config, n_classes);
        let mut footprint = Footprint::default();
        let (mut sums, mut fullest, mut whole) = (0, 0, 0);
        let twins = layout.twins();
        let mut extents: Vec<Extents> = Vec::new();
        for (layer, (form, shape)) in forms.iter().enumerate() {
            let extent = match twins[layer] < layer {
                true => extents[twins[layer]],
                false => layout.extents(layer, rank, plans.map(|plans| &*plans[layer])),
            };
            extents.push(extent);
            if twins[layer] == layer {
                footprint.streamed += extent.plan_bytes;
            }
            if layer == 0 {
                // Given features take no steps.
                let n_copies = if config.features { 1 } else { copies(config) };
                footprint.streamed += 4 * n_copies * extent.n_input(config, &forms);
            }
            let sizes = Sizes::of(config, layout, layer, (*form, *shape));
            let n_read = match layer {
                0 => 0,
                _ => extent.n_read * forms[layer - 1].1.width as u64,
            };
            let built = built_bytes(config, layout, (rank, n_classes), layer);
            footprint.resident += built;
            let moment = built + footprint.add_layer(config, (*shape, sizes), (extent, n_read));
            fullest = fullest.max(moment);
            sums = sums.max(extent.n_all_made * shape.width as u64);
            let embedding = match layer {
                0 if config.embedding > 0 => extent.n_input(config, &forms),
                _ => 0,
            };
            whole = whole.max(moment + 4 * embedding);
        }
        footprint.resident += fullest + sums * bytes_a_sum(config, layout.n_ranks() == 1);
        footprint.whole = whole - fullest;
        footprint
    }

    /// Adds what stays of a layer; the gradients of its fullest moment.
    fn add_layer(
        &mut self,
        config: &Config,
        (shape, sizes): (Shape, Sizes),
        (extent, n_read): (Extents, u64),
    ) -> u64 {
        let width = shape.width as u64;
        let n_bias = if config.bias { width } else { 0 };
        let units = extent.n_made * width;
        self.resident += 4 * (copies(config) * (sizes.params + n_bias) + sizes.table + units);
        let rows = extent.n_block_relations * sizes.reduced_row;
        let partials = rows + extent.n_blocks * n_bias;
        let backward = 4 * (units + partials + sizes.table + n_read);
        // Forward, a rank gets its part of the others' sums.
        match config.sums {
            Sums::Exact if extent.n_made < extent.n_all_made => backward.max(8 * units),
            _ => backward,
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.streamed + self.resident + self.whole
    }
}

impl Form {
    fn sizes(self, shape: Shape, n_relations: usize) -> Sizes {
        let (n_relations, len) = (n_relations as u64, shape.len() as u64);
        let reduced_row = match self {
            Form::Coefficients => shape.n_terms as u64,
            Form::Whole | Form::Shared { .. } => len,
        };
        Sizes {
            params: match self {
                Form::Coefficients | Form::Whole => n_relations * reduced_row,
                Form::Shared { n_bases } => n_bases as u64 * (n_relations + len),
            },
            table: n_relations * shape.stride as u64,
            reduced_row,
        }
    }
}

/// What a rank is predicted to hold in a step, where everything stays.
pub(crate) fn predicted(
    config: &Config,
    layout: &Layout<'_>,
    (rank, n_classes): (usize, u32),
    plans: Option<&[Arc<LayerPlan>]>,
) -> u64 {
    if layout.is_dealt_by_pair() {
        return of_work(config, layout, (rank, n_classes));
    }
    Footprint::of(config, layout, (rank, n_classes), plans).total()
}

/// The tiles of a rank within a budget, and what they will hold at most; none where everything fits.
///
/// # Errors
/// [`ErrorKind::Memory`] with the least budget that does, where no tiles would fit, and where messages are not dealt by source.
pub(crate) fn fit(
    config: &Config,
    layout: &Layout<'_>,
    plans: &[Arc<LayerPlan>],
    (rank, n_classes, budget): (usize, u32, u64),
) -> Result<Option<(Tiles, u64)>, Error> {
    let footprint = Footprint::of(config, layout, (rank, n_classes), Some(plans));
    if footprint.total() <= budget && !layout.is_dealt_by_pair() {
        return Ok(None);
    }
    let refuse = |why: String| Err(Error::new(ErrorKind::Memory, why));
    if layout.is_dealt_by_pair() {
        return refuse(format!(
            "budget_per_device = {}: expected --partition source, whose ranks hold no copies and can take their sources in tiles",
            size(budget)
        ));
    }
    let source = TileSource {
        plans,
        rows: rows_of(config, &forms(config, n_classes)),
        // Embeddings have a gradient beside them.
        n_copies: copies(config) as usize + usize::from(config.embedding > 0),
    };
    let least = footprint.resident + 2 * source.largest();
    if least > budget {
        return refuse(format!(
            "budget_per_device = {}: rank {rank} needs {} in one piece, and with the smallest tiles {} ({least} bytes), which is the least budget for {} ranks",
            size(budget),
            size(footprint.total()),
            size(least),
            layout.n_ranks()
        ));
    }
    let (layers, held) = source.cut((budget - footprint.resident) / 2);
    Ok(Some((Tiles::new(layers), footprint.resident + held)))
}

/// What tiles are cut from.
struct TileSource<'a> {
    plans: &'a [Arc<LayerPlan>],
    rows: (usize, bool),
    n_copies: usize,
}

impl TileSource<'_> {
    fn bytes(&self, layer: usize, sources: &Range<usize>) -> u64 {
        match layer {
            0 => tile_bytes(&self.plans[0], sources, self.rows, self.n_copies),
            _ => tile_bytes(&self.plans[layer], sources, (0, false), 0),
        }
    }

    fn n_sources(&self, layer: usize) -> usize {
        self.plans[layer].pair_starts.len() - 1
    }

    /// Bytes of the largest source.
    fn largest(&self) -> u64 {
        let layers = 0..self.plans.len();
        let of_layer = |layer| {
            let sources = 0..self.n_sources(layer);
            sources.map(move |source| self.bytes(layer, &(source..source + 1)))
        };
        layers.flat_map(of_layer).max().unwrap_or(0)
    }

    /// The tiles of each layer, and the most bytes of two that are there at a time.
    fn cut(&self, capacity: u64) -> (Vec<Vec<Range<usize>>>, u64) {
        let cut_layer = |layer| {
            let bytes = |sources: &Range<usize>| self.bytes(layer, sources);
            cut(self.n_sources(layer), capacity, bytes)
        };
        let layers: Vec<Vec<_>> = (0..self.plans.len()).map(cut_layer).collect();
        let held = layers.iter().enumerate().map(|(layer, tiles)| {
            let of_two = |two: &[Range<usize>]| -> u64 {
                two.iter().map(|tile| self.bytes(layer, tile)).sum()
            };
            match tiles.len() {
                0 | 1 => of_two(tiles),
                _ => tiles.windows(2).map(of_two).max().unwrap_or(0),
            }
        });
        let held = held.max().unwrap_or(0);
        (layers, held)
    }
}

impl Network<'_> {
    /// Bytes that this rank holds besides the graph: parameters, moments, plans, units and sums.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_streamed_bytes() + self.n_resident_bytes()
    }

    /// Rows of the input with the optimiser's numbers, and all messages.
    fn n_streamed_bytes(&self) -> u64 {
        let moments = &self.input.moments;
        let n_floats = self.input.rows.len() + moments.first.len() + moments.second.len();
        let mut n_bytes = 4 * n_floats as u64;
        for (layer, plan) in self.plans.iter().enumerate() {
            let is_first = !self.plans[..layer]
                .iter()
                .any(|other| Arc::ptr_eq(other, plan));
            n_bytes += if is_first { plan.n_bytes() } else { 0 };
            if let Some(work) = self.works.get(layer).filter(|_| is_first) {
                n_bytes += work.n_bytes();
            }
        }
        n_bytes
    }

    /// What stays on the device all the time, but for gradients.
    fn n_resident_bytes(&self) -> u64 {
        let moments = |moments: &Moments| moments.first.len() + moments.second.len();
        let mut n_floats = self.floats.capacity();
        for layer in &self.layers {
            n_floats += layer.bias.len() + moments(&layer.bias_moments);
            let shared = layer.coefficients.as_ref();
            n_floats += shared.map_or(0, |shared| shared.params.len() + moments(&shared.moments));
        }
        let kept = self.made.iter().chain(&self.tables).chain(&self.read);
        n_floats += kept.map(Vec::len).sum::<usize>() + self.built.len();
        4 * n_floats as u64 + 8 * self.fixed.capacity() as u64
    }

    /// How many tiles the first layer has, and what was moved for all of them; none where everything stays.
    pub(crate) fn traffic(&self) -> Option<(usize, Traffic)> {
        let tiles = self.tiles.as_ref()?;
        Some((tiles.layers[0].len(), tiles.traffic.get()))
    }

    /// Numbers of the gradients of messages that are handed back to the sources' owners, and of the pieces in which they are.
    pub(super) fn n_work_gradients(&self, layer: usize) -> usize {
        let Some(work) = self.works.get(layer) else {
            return 0;
        };
        if layer == 0 && self.layout.replicates() {
            return self.read[0].len() + self.input.rows.len();
        }
        let width = self.layers[layer].width;
        let pieces = N_PIECES * PIECE.min(work.plan.n_pairs() * width);
        (work.plan.n_pairs() + work.workers.len()) * width + pieces
    }

    /// Counts what the device holds at this moment, gradients of `extra` bytes among it.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] where that is more than the budget: what was predicted was wrong.
    pub(super) fn note_held(&mut self, extra: u64) -> Result<(), Error> {
        let sources = match &self.tiles {
            None => self.n_streamed_bytes(),
            Some(tiles) => tiles.traffic.get().held_bytes,
        };
        let held = sources + self.n_resident_bytes() + extra;
        self.peak_bytes = self.peak_bytes.max(held);
        match self.layout.budget.filter(|&budget| held > budget) {
            None => Ok(()),
            Some(budget) => Err(Error::new(
                ErrorKind::Memory,
                format!(
                    "budget_per_device = {budget}: {held} bytes are held, which was not predicted"
                ),
            )),
        }
    }
}
