//! A rank's lists, accounts and tiles before it has parameters; and the dry run that says what it
//! will hold.

use std::sync::Arc;

use shardgraph_collectives::Comm;

use super::comm::RankComm;
use super::input::InputRows;
use super::layout::{Layout, RankContext};
use super::messages::RankMessages;
use super::network::{Layer, Network};
use super::tiles::{TileRows, TileSource, Tiles};
use crate::Error;
use crate::layer::coefficients::RelationShape;
use crate::layer::materialised::MaterialisedRows;
use crate::layer::optimiser::n_moments;
use crate::layer::plan::LayerPlan;
use crate::memory::{Array, Bytes, Held, Memory, Purpose};
use crate::size::size;

/// A rank's lists, accounts and tiles.
pub(crate) struct Frame<'a> {
    context: RankContext<'a>,
    pub(crate) plans: Vec<Arc<LayerPlan>>,
    rank_messages: Vec<Arc<RankMessages>>,
    n_list_bytes: u64,
    /// The account of all arrays.
    pub(crate) memory: Memory,
    /// That of the input's rows and of the lists: another one where they come in tiles.
    pub(crate) storage: Memory,
    tiles: Option<Tiles>,
    predicted_bytes: u64,
}

impl<'a> Frame<'a> {
    /// That of a rank, with tiles where a budget asks for them.
    ///
    /// # Errors
    /// [`Error::Memory`] with the least budget that does, where no tiles would fit, and where
    /// messages are not dealt by source.
    pub(crate) fn new(context: RankContext<'a>) -> Result<Frame<'a>, Error> {
        let RankContext { layout, rank, .. } = context;
        let plans = layout.plans(rank);
        let fit = context.fit(&plans)?;
        let rank_messages = layout.rank_messages(rank);
        let memory = Memory::default();
        Ok(Frame {
            context,
            n_list_bytes: list_bytes(&plans, &rank_messages),
            plans,
            rank_messages,
            storage: match fit.tiles {
                None => memory.clone(),
                Some(_) => memory.beside(),
            },
            memory,
            tiles: fit.tiles,
            predicted_bytes: fit.predicted_bytes,
        })
    }

    /// That of a dry run, which has no lists but their bytes.
    pub(crate) fn dry(context: RankContext<'a>, tiles: Option<Tiles>) -> Frame<'a> {
        let RankContext { layout, rank, .. } = context;
        let memory = Memory::dry();
        let counts = layout.counts().iter().map(|of_layer| &of_layer[rank]);
        Frame {
            context,
            plans: vec![Arc::default(); layout.n_layers()],
            rank_messages: match layout.is_dealt_by_pair() {
                true => vec![Arc::default(); layout.n_layers()],
                false => Vec::new(),
            },
            n_list_bytes: counts
                .map(|counts| counts.list_bytes(layout.is_dealt_by_pair()))
                .sum(),
            storage: match tiles {
                None => memory.clone(),
                Some(_) => memory.beside(),
            },
            memory,
            tiles,
            predicted_bytes: 0,
        }
    }

    /// The network before the first step.
    ///
    /// # Errors
    /// Where features on disk cannot be read.
    pub(crate) fn begin(self) -> Result<Network<'a>, Error> {
        let RankContext {
            config,
            layout,
            n_classes,
            ..
        } = self.context;
        let relations = RelationShape::of_layers(config, n_classes).into_iter();
        let layers = relations.enumerate().map(|(layer, relations)| {
            Layer::new(&self.memory, config, layer, relations, layout.n_relations())
        });
        let layers = layers.collect();
        let input = InputRows::new(self.context, &self.plans[0], &self.storage)?;
        let input = input.with_moments(config.optimiser, &self.storage);
        Ok(self.network(layers, input))
    }

    /// A network of these parameters, with nothing computed yet.
    pub(crate) fn network(self, layers: Vec<Layer>, input: InputRows) -> Network<'a> {
        let RankContext {
            config,
            layout,
            rank,
            ..
        } = self.context;
        let memory = &self.memory;
        let arrays = |purpose| -> Vec<Array<f32>> {
            let empty = layers.iter().map(|_| memory.zeros(purpose, 0));
            empty.collect()
        };
        Network {
            config,
            layout,
            rank,
            materialised_rows: match memory.is_dry() {
                true => None,
                false => materialised_rows(layout, rank, &self.rank_messages),
            },
            activations: arrays(Purpose::Units),
            tables: arrays(Purpose::Parameters),
            gathered: arrays(Purpose::Copies),
            materialised_weights: memory.zeros(Purpose::Copies, 0),
            floats: memory.zeros(Purpose::Sums, 0),
            fixed: memory.zeros(Purpose::Sums, 0),
            _lists: self.storage.hold(Purpose::Edges, self.n_list_bytes),
            plans: self.plans,
            input,
            rank_messages: self.rank_messages,
            layers,
            memory: self.memory,
            storage: self.storage,
            tiles: self.tiles,
            predicted_bytes: self.predicted_bytes,
            collected: None,
        }
    }
}

/// The tiles of a rank where it needs some, and the most bytes that it will hold.
struct Fit {
    tiles: Option<Tiles>,
    predicted_bytes: u64,
}

impl<'a> RankContext<'a> {
    /// The bytes of the rank at the fullest moment of an epoch, with its sources in tiles or whole.
    ///
    /// Two epochs run on arrays without numbers: the second begins with all that the first leaves.
    ///
    /// # Errors
    /// None but those of the code that runs.
    /// # Complexity
    /// O(layers + blocks) behind [`Layout::counts`].
    pub(crate) fn dry_run(self, tiles: Option<Tiles>) -> Result<Bytes, Error> {
        Ok(self.dry_epochs(tiles)?.memory.peak())
    }

    /// The network of a dry run after two epochs.
    fn dry_epochs(self, tiles: Option<Tiles>) -> Result<Network<'a>, Error> {
        let mut network = Frame::dry(self, tiles).begin()?;
        let mut comm = Comm::dry_run(self.rank as u32, self.layout.n_ranks() as u32);
        let ranks = &mut RankComm::dry(&mut comm);
        let mut best = Held::default();
        for epoch in [0, 1] {
            network.forward(ranks, Some(epoch))?;
            let gradient = network.logits_gradient();
            network.backward(ranks, gradient, epoch + 1)?;
            drop(best);
            best = match self.config.patience > 0 {
                true => network.hold_params(),
                false => Held::default(),
            };
        }
        Ok(network)
    }

    /// The most bytes of the rank in a run that trains, and then makes the outputs of another layout.
    ///
    /// # Errors
    /// As [`RankContext::dry_run`].
    /// # Complexity
    /// As [`RankContext::dry_run`] for both layouts.
    pub(crate) fn dry_run_with(self, evaluated: Option<&Layout<'_>>) -> Result<u64, Error> {
        let mut network = self.dry_epochs(None)?;
        let trained = network.memory.peak().total();
        let Some(layout) = evaluated else {
            return Ok(trained);
        };
        network.keep_parameters();
        let mut wider = network.for_outputs(layout, 2)?;
        // The layers' parameters are counted where they were.
        let kept = network.memory.clone();
        let both = kept.held().total() + wider.memory.peak().total();
        drop(network);
        let mut comm = Comm::dry_run(self.rank as u32, layout.n_ranks() as u32);
        wider.forward(&mut RankComm::dry(&mut comm), None)?;
        let evaluated = kept.held().total() + wider.memory.peak().total();
        Ok(trained.max(both).max(evaluated))
    }

    /// The tiles within the layout's budget; none where everything fits.
    fn fit(self, plans: &[Arc<LayerPlan>]) -> Result<Fit, Error> {
        let predicted_bytes = self.dry_run(None)?.total();
        match self.layout.budget {
            Some(limit) if predicted_bytes > limit || self.layout.is_dealt_by_pair() => {
                self.tile(plans, limit, predicted_bytes)
            }
            _ => Ok(Fit {
                tiles: None,
                predicted_bytes,
            }),
        }
    }

    /// Tiles within a limit of a rank that needs `whole` bytes in one piece.
    fn tile(self, plans: &[Arc<LayerPlan>], limit: u64, whole: u64) -> Result<Fit, Error> {
        let (config, rank) = (self.config, self.rank);
        let refuse = |why: String| Err(Error::new(Error::Memory, why));
        if self.layout.is_dealt_by_pair() {
            return refuse(format!(
                "--device-memory {}: expected --partition source, whose ranks hold no copies and can take their sources in tiles",
                size(limit)
            ));
        }
        let source = TileSource {
            plans,
            rows: TileRows {
                row_len: InputRows::empty(config, self.n_classes).row_len(),
                by_pair: !config.has_first_table(),
                // Embeddings have a gradient beside them.
                n_copies: 1 + n_moments(config.optimiser) + usize::from(config.embedding > 0),
            },
        };
        let resident = self.dry_run(Some(Tiles::default()))?.total();
        let least = resident + 2 * source.largest();
        if least > limit {
            return refuse(format!(
                "--device-memory {}: rank {rank} needs {} in one piece, and with the smallest tiles {} ({least} bytes), which is the least budget for {} ranks",
                size(limit),
                size(whole),
                size(least),
                self.layout.n_ranks()
            ));
        }
        let tiles = source.cut((limit - resident) / 2);
        Ok(Fit {
            predicted_bytes: self.dry_run(Some(tiles.dry()))?.total(),
            tiles: Some(tiles),
        })
    }

    /// Refuses a budget that the rank does not fit in.
    ///
    /// # Errors
    /// As [`Frame::new`].
    pub(crate) fn check_fit(self) -> Result<(), Error> {
        self.fit(&self.layout.plans(self.rank)).map(drop)
    }
}

/// Bytes of lists, of which layers with the same messages share one copy.
pub(crate) fn list_bytes(plans: &[Arc<LayerPlan>], messages: &[Arc<RankMessages>]) -> u64 {
    let is_new = |layer: &usize| {
        let earlier = &plans[..*layer];
        !earlier.iter().any(|plan| Arc::ptr_eq(plan, &plans[*layer]))
    };
    let of_layer = |layer: usize| {
        let messages = messages.get(layer).map_or(0, |messages| messages.n_bytes());
        plans[layer].n_bytes() + messages
    };
    (0..plans.len()).filter(is_new).map(of_layer).sum()
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
