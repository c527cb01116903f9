//! The encoder of links: an R-GCN over the nodes' vectors, whose output the decoder reads, alone or
//! added to those vectors.

use std::sync::Arc;

use shardgraph_collectives::Op;

use super::config::LinkConfig;
use super::embeddings::Embeddings;
use super::kvsall::NodeBlocks;
use crate::Error;
use crate::layer::coefficients::WeightScheme;
use crate::layer::plan::LayerPlan;
use crate::memory::{Array, Held, Purpose};
use crate::model::backward::StepRules;
use crate::model::comm::RankComm;
use crate::model::frame::{Frame, list_bytes};
use crate::model::layout::{Layout, RankContext};
use crate::model::network::{Gradients, Network};

/// An R-GCN cut over ranks, and the units of all nodes that it made last.
pub(super) struct Encoder<'a> {
    pub(super) network: Network<'a>,
    /// The messages along all training triples.
    whole: Vec<Arc<LayerPlan>>,
    /// The bytes of a step's own messages.
    step_lists: Held,
    /// A row for each node, those of other ranks too.
    pub(super) units: Array<f32>,
    is_residual: bool,
}

/// The messages of a pass.
pub(super) enum Messages<'m> {
    /// None: a node's vector is its unit. For residual encoders.
    None,
    /// Along all training triples.
    All,
    /// Along the edges that are kept of the layout's graph.
    Along(&'m [bool]),
    /// By plans of another graph.
    Planned(Vec<Arc<LayerPlan>>),
}

impl<'a> Encoder<'a> {
    /// An encoder before the first step, or that of a dry run. A residual one has the vectors that a
    /// decoder alone begins with.
    pub(super) fn new(
        config: &'a LinkConfig,
        layout: &'a Layout<'a>,
        rank: usize,
        is_dry: bool,
    ) -> Result<Encoder<'a>, Error> {
        let context = RankContext {
            config: &config.encoder,
            layout,
            rank,
            n_classes: config.width as u32,
        };
        let mut network = match is_dry {
            true => Frame::dry(context, None).begin()?,
            false => Network::new(context)?,
        };
        if config.residual {
            let n_nodes = layout.graph.n_nodes();
            let blocks = NodeBlocks::new(n_nodes, 0, 1);
            let vectors = Embeddings::new(config, n_nodes, blocks, &network.memory);
            let own = layout.places(0, rank);
            let own = vectors
                .values
                .part(own.start * config.width..own.end * config.width);
            network.input.rows.copy_from_slice(own);
        }
        if config.warm_epochs > 0 && !is_dry {
            silence(&mut network);
        }
        Ok(Encoder {
            whole: network.plans.clone(),
            step_lists: Held::default(),
            units: network.memory.zeros(Purpose::Copies, 0),
            network,
            is_residual: config.residual,
        })
    }

    /// Makes the units of all nodes; with a step, hidden units are dropped at random.
    pub(super) fn encode(
        &mut self,
        messages: Messages<'_>,
        step: Option<u32>,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        // Those of the step before are given back first.
        self.network.plans = self.whole.clone();
        self.step_lists = Held::default();
        let is_dry = self.network.memory.is_dry();
        let network = &mut self.network;
        let plans = match messages {
            Messages::None => return self.take_units(false, ranks),
            Messages::All => self.whole.clone(),
            Messages::Along(is_kept) => {
                let n_bytes = network.layout.normaliser_bytes();
                let _normalisers = network.memory.hold(Purpose::Edges, n_bytes);
                network.layout.plans_along(network.rank, is_kept)
            }
            Messages::Planned(plans) => plans,
        };
        if !Arc::ptr_eq(&plans[0], &self.whole[0]) {
            let n_bytes = list_bytes(&plans, &[]);
            self.step_lists = network.memory.hold(Purpose::Edges, n_bytes);
        }
        if !is_dry {
            network.plans = plans;
        }
        network.forward(ranks, step)?;
        self.take_units(true, ranks)
    }

    /// Gathers the units of all ranks' nodes.
    fn take_units(&mut self, has_messages: bool, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        let network = &self.network;
        let mut own = network.memory.duplicate(
            Purpose::Copies,
            match (has_messages, network.activations.last()) {
                (true, Some(logits)) => logits,
                _ => &network.input.rows,
            },
        );
        if has_messages && self.is_residual {
            add(&network.input.rows, &mut own);
        }
        if ranks.are_alone() {
            self.units = own;
            return Ok(());
        }
        let counts = network.counts(network.layers.len() - 1);
        self.units.resize(counts.iter().sum());
        ranks.run(Op::AllGatherV {
            send: own[..].into(),
            recv: (&mut self.units[..]).into(),
            counts: &counts,
        })
    }

    /// This rank's gradients from those of all nodes' units; without messages they are those of the
    /// nodes' vectors alone.
    pub(super) fn gradients(
        &mut self,
        of_units: &Array<f32>,
        has_messages: bool,
        n_steps: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Gradients, Error> {
        let network = &mut self.network;
        let places = network.layout.places(network.layers.len(), network.rank);
        let width = of_units.len() / network.layout.graph.n_nodes().max(1) as usize;
        let numbers = places.start * width..places.end * width;
        let own = of_units.part(numbers.clone());
        let mut of_logits = network.memory.zeros(Purpose::Gradients, numbers.len());
        of_logits.copy_from_slice(own);
        if !has_messages {
            return Ok(Gradients {
                rows: of_logits,
                shared: Vec::new(),
            });
        }
        let mut gradients = network.gradients(ranks, of_logits, n_steps)?;
        if self.is_residual {
            add(own, &mut gradients.rows);
        }
        Ok(gradients)
    }

    /// Steps along gradients; a dry run has none.
    pub(super) fn step(&mut self, rules: StepRules, gradients: &Gradients) {
        if !self.network.memory.is_dry() {
            self.network.step_along(rules, gradients);
        }
    }
}

/// Makes the last layer's weights zero, so that it sends nothing until it has learnt.
fn silence(network: &mut Network<'_>) {
    let Some(coefficients) = network
        .layers
        .last_mut()
        .and_then(|layer| layer.coefficients.as_mut())
    else {
        return;
    };
    // Of shared bases the coefficients keep their numbers: zeros in both would have no gradient.
    let first = match coefficients.scheme {
        WeightScheme::Shared { n_bases } => n_bases * coefficients.n_relations,
        WeightScheme::Whole | WeightScheme::Coefficients => 0,
    };
    coefficients.params[first..].fill(0.0);
}

/// sum += values.
fn add(values: &[f32], sum: &mut [f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
}
