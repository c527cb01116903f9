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
use crate::memory::Purpose;
use crate::model::backward::StepRules;
use crate::model::comm::RankComm;
use crate::model::layout::{Layout, RankContext};
use crate::model::network::{Gradients, Network};

/// An R-GCN cut over ranks, and the units of all nodes that it made last.
pub(super) struct Encoder<'a> {
    pub(super) network: Network<'a>,
    /// The messages along all training triples.
    whole: Vec<Arc<LayerPlan>>,
    /// A row for each node, those of other ranks too.
    pub(super) units: Vec<f32>,
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
    /// An encoder before the first step. A residual one has the vectors that a decoder alone begins
    /// with.
    pub(super) fn new(
        config: &'a LinkConfig,
        layout: &'a Layout<'a>,
        rank: usize,
    ) -> Result<Encoder<'a>, Error> {
        let mut network = Network::new(RankContext {
            config: &config.encoder,
            layout,
            rank,
            n_classes: config.width as u32,
        })?;
        if config.residual {
            let n_nodes = layout.graph.n_nodes();
            let vectors = Embeddings::new(config, n_nodes, NodeBlocks::new(n_nodes, 0, 1));
            let own = layout.places(0, rank);
            let own = own.start * config.width..own.end * config.width;
            network.input.rows.copy_from_slice(&vectors.values[own]);
        }
        if config.warm_epochs > 0 {
            silence(&mut network);
        }
        Ok(Encoder {
            whole: network.plans.clone(),
            network,
            units: Vec::new(),
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
        let network = &mut self.network;
        network.plans = match messages {
            Messages::None => return self.take_units(false, ranks),
            Messages::All => self.whole.clone(),
            Messages::Along(is_kept) => network.layout.plans_along(network.rank, is_kept),
            Messages::Planned(plans) => plans,
        };
        network.forward(ranks, step)?;
        self.take_units(true, ranks)
    }

    /// Gathers the units of all ranks' nodes.
    fn take_units(&mut self, has_messages: bool, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        let network = &self.network;
        let mut own = match has_messages {
            true => network.logits().to_vec(),
            false => network.input.rows.to_vec(),
        };
        if has_messages && self.is_residual {
            add(&network.input.rows, &mut own);
        }
        if ranks.are_alone() {
            self.units = own;
            return Ok(());
        }
        let counts = network.counts(network.layers.len() - 1);
        self.units.resize(counts.iter().sum(), 0.0);
        ranks.run(Op::AllGatherV {
            send: (&own).into(),
            recv: (&mut self.units).into(),
            counts: &counts,
        })
    }

    /// This rank's gradients from those of all nodes' units; without messages they are those of the
    /// nodes' vectors alone.
    pub(super) fn gradients(
        &mut self,
        of_units: &[f32],
        has_messages: bool,
        n_steps: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Gradients, Error> {
        let network = &mut self.network;
        let places = network.layout.places(network.layers.len(), network.rank);
        let width = of_units.len() / network.layout.graph.n_nodes().max(1) as usize;
        let own = &of_units[places.start * width..places.end * width];
        if !has_messages {
            return Ok(Gradients {
                rows: own.to_vec(),
                shared: Vec::new(),
            });
        }
        let of_logits = network.memory.copy(Purpose::Gradients, own);
        let mut gradients = network.gradients(ranks, of_logits, n_steps)?;
        if self.is_residual {
            add(own, &mut gradients.rows);
        }
        Ok(gradients)
    }

    /// Steps along gradients.
    pub(super) fn step(&mut self, rules: StepRules, gradients: &Gradients) {
        self.network.step_along(rules, gradients);
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
