//! What a rank holds, in bytes: predicted from the layout before there is anything, and counted from the arrays.

use std::ops::Range;
use std::sync::Arc;

use super::coefficients::Form;
use super::network::{Network, forms};
use super::optimiser::Moments;
use super::plan::{LayerPlan, Layout};
use super::tiles::{Tiles, Traffic, cut, tile_bytes};
use crate::config::{Config, Optimiser, Sums};
use crate::partition::ModelShape;
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
}

impl Layout<'_> {
    /// `plan` saves a pass over the edges where it is there already.
    fn extents(&self, layer: usize, rank: usize, plan: Option<&LayerPlan>) -> Extents {
        let (mut n_pairs, mut n_sends) = (0u64, 0u64);
        let places = self.places(layer, rank);
        match plan {
            Some(plan) => (n_pairs, n_sends) = (plan.n_pairs() as u64, plan.sends.len() as u64),
            None => self.each_source(layer, places.clone(), &mut |_, messages| {
                n_pairs += messages.chunk_by(|one, other| one.0 == other.0).count() as u64;
                n_sends += messages.len() as u64;
            }),
        }
        let n_read = places.len() as u64;
        Extents {
            n_read,
            n_made: self.places(layer + 1, rank).len() as u64,
            n_all_made: self.sets[layer + 1].len() as u64,
            n_pairs,
            plan_bytes: 4 * (n_read + 1 + 2 * n_pairs + 1) + 8 * n_sends,
            n_blocks: self.dealt[rank].len() as u64,
        }
    }
}

/// The input's rows of a model: their length, and whether they are those of pairs.
fn rows_of(config: &Config, forms: &[(Form, super::shape::Shape)]) -> (usize, bool) {
    let shape = forms[0].1;
    match (config.embedding, config.bases) {
        (0, 0) => (shape.width, true),
        (0, _) => (shape.stride, false),
        (width, _) => (super::shape::Shape::new(width, 1).stride, false),
    }
}

/// How many numbers there are for each parameter.
fn copies(config: &Config) -> u64 {
    match config.optimiser {
        Optimiser::Sgd => 1,
        Optimiser::Adam => 3,
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
        let ((row_len, by_pair), copies) = (rows_of(config, &forms), copies(config));
        let is_alone = layout.n_ranks() == 1;
        let mut footprint = Footprint::default();
        let (mut sums, mut others) = (0, 0);
        let (mut fullest, mut whole) = (0, 0);
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
            let n_rows = match (layer, by_pair) {
                (0, true) => extent.n_pairs,
                (0, false) => extent.n_read,
                _ => 0,
            };
            footprint.streamed += 4 * copies * n_rows * row_len as u64;
            let has_table = layer > 0 || config.has_first_table();
            let (params, table, reduced) = match has_table {
                true => form.sizes(*shape, layout.n_relations()),
                false => (0, 0, 0),
            };
            let width = shape.width as u64;
            let n_bias = if config.bias { width } else { 0 };
            let units = 4 * extent.n_made * width;
            footprint.resident += 4 * (copies * (params + n_bias) + table) + units;
            sums = sums.max(extent.n_all_made * width);
            if !is_alone && config.sums == Sums::Exact {
                fullest = fullest.max(2 * units); // what a rank gets of the sums
            }
            others = others.max(extent.n_all_made * width);
            let embedding = match layer {
                0 if config.embedding > 0 => extent.n_read * row_len as u64,
                _ => 0,
            };
            let of_units = match layer {
                0 => 0,
                _ => extent.n_read * forms[layer - 1].1.width as u64,
            };
            let partials = extent.n_blocks * (reduced + n_bias);
            let moment = units + 4 * (partials + table + of_units);
            fullest = fullest.max(moment);
            whole = whole.max(moment + 4 * embedding);
        }
        footprint.resident += fullest;
        footprint.whole = whole.max(fullest) - fullest;
        footprint.resident += match config.sums {
            Sums::Exact => 8 * sums,
            Sums::Float => 0,
        };
        footprint.resident += if is_alone { 0 } else { 4 * others };
        footprint
    }

    pub(crate) fn total(self) -> u64 {
        self.streamed + self.resident + self.whole
    }
}

impl Form {
    /// Parameters, numbers of the table, and of a reduced gradient.
    fn sizes(self, shape: super::shape::Shape, n_relations: usize) -> (u64, u64, u64) {
        let (n_relations, len) = (n_relations as u64, shape.len() as u64);
        let table = n_relations * shape.stride as u64;
        let n_terms = shape.n_terms as u64;
        match self {
            Form::Coefficients => (n_relations * n_terms, table, n_relations * n_terms),
            Form::Whole => (n_relations * len, table, n_relations * len),
            Form::Shared { n_bases } => {
                let n_params = n_bases as u64 * (n_relations + len);
                (n_params, table, n_relations * len)
            }
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
    let Some(loads) = layout.loads.as_ref().filter(|_| layout.is_dealt_by_pair()) else {
        return Footprint::of(config, layout, (rank, n_classes), plans).total();
    };
    let shape = ModelShape {
        config: config.clone(),
        classes: n_classes,
    };
    let sizes = (layout.graph.n_nodes(), layout.graph.n_relations());
    shape.bytes(&loads.as_slice()[rank], sizes, true).total()
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
    let forms = forms(config, n_classes);
    let rows = rows_of(config, &forms);
    // Embeddings have a gradient beside them.
    let n_copies = copies(config) as usize + usize::from(config.embedding > 0);
    let bytes = |layer: usize, sources: &Range<usize>| match layer {
        0 => tile_bytes(&plans[0], sources, rows, n_copies),
        _ => tile_bytes(&plans[layer], sources, (0, false), 0),
    };
    let n_sources = |layer: usize| layout.places(layer, rank).len();
    let of_layers = 0..plans.len();
    let single = of_layers.clone().flat_map(|layer| {
        let sources = 0..n_sources(layer);
        sources.map(move |source| (layer, source))
    });
    let largest = single.map(|(layer, source)| bytes(layer, &(source..source + 1)));
    let largest = largest.max().unwrap_or(0);
    let least = footprint.resident + 2 * largest;
    if least > budget {
        return refuse(format!(
            "budget_per_device = {}: rank {rank} needs {} in one piece, and with the smallest tiles {} ({least} bytes), which is the least budget for {} ranks",
            size(budget),
            size(footprint.total()),
            size(least),
            layout.n_ranks()
        ));
    }
    let capacity = (budget - footprint.resident) / 2;
    let layers: Vec<_> = of_layers
        .map(|layer| cut(n_sources(layer), capacity, |sources| bytes(layer, sources)))
        .collect();
    let held = layers.iter().enumerate().map(|(layer, tiles)| {
        let of_two = |two: &[Range<usize>]| two.iter().map(|tile| bytes(layer, tile)).sum::<u64>();
        match tiles.len() {
            0 | 1 => of_two(tiles),
            _ => tiles.windows(2).map(of_two).max().unwrap_or(0),
        }
    });
    let predicted = footprint.resident + held.max().unwrap_or(0);
    Ok(Some((Tiles::new(layers), predicted)))
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
        n_floats += kept.map(Vec::len).sum::<usize>();
        4 * n_floats as u64 + 8 * self.fixed.capacity() as u64
    }

    /// How many tiles the first layer has, and what was moved for all of them; none where everything stays.
    pub(crate) fn traffic(&self) -> Option<(usize, Traffic)> {
        let tiles = self.tiles.as_ref()?;
        Some((tiles.layers[0].len(), tiles.traffic.get()))
    }

    /// Numbers of the gradients of messages that are handed back to the sources' owners.
    pub(super) fn n_work_gradients(&self, layer: usize) -> usize {
        let Some(work) = self.works.get(layer) else {
            return 0;
        };
        let n_messages = work.plan.n_pairs() + 2 * work.workers.len();
        n_messages * self.layers[layer].width
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
