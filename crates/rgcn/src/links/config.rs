//! The settings of a run that predicts links.

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use crate::config::{ClassWeights, MAX_WIDTH, Mode, Normaliser, Optimiser, Sums};
use crate::{Config, Error};

/// The loss of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLoss {
    /// The mean logistic loss of true and corrupted triples, each for itself: R-GCN's own.
    Logistic,
    /// The mean cross entropy of the true triple among those with its head corrupted, and among
    /// those with its tail corrupted.
    Softmax,
    /// The mean cross entropy of true ends among all nodes. All ends that are true for a node and a
    /// relation are in one step (k-vs-all), and nothing is sampled.
    #[serde(rename = "k-vs-all")]
    KvsAll,
}
words!(
    LinkLoss, Error, Error::config, "loss";
    "logistic" => Logistic,
    "softmax" => Softmax,
    "k-vs-all" => KvsAll,
);

/// The score of a triple from the vectors of its ends and of its relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkDecoder {
    /// The sum of the products of all three.
    DistMult,
    /// The real part of the sum of products of complex numbers, the tail's conjugated: the first
    /// half of a vector has the real parts.
    ComplEx,
}
words!(LinkDecoder, Error, Error::config, "decoder"; "distmult" => DistMult, "complex" => ComplEx);

/// An encoder, a decoder over its units, and how they are trained.
///
/// ```
/// use shardgraph_rgcn::LinkConfig;
///
/// let config = LinkConfig { negatives: 20, ..LinkConfig::paper() };
/// config.check()?;
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// The encoder: an embedding or features, and layers. An epoch is a pass over the training
    /// triples.
    pub encoder: Config,
    /// False: the decoder's vectors of nodes are parameters themselves, and no message goes. With
    /// k-vs-all the encoder's dropout is then that of a question's numbers.
    pub encode: bool,
    /// True: a node's vector is the encoder's input plus its output, so that the layers have only
    /// to add what neighbours know. The input is then as wide as the output.
    pub residual: bool,
    /// Epochs at the beginning in which a residual encoder sends no message: the decoder alone is
    /// learnt. The layers then join with weights of zero, on the best vectors until then.
    pub warm_epochs: u32,
    /// Questions of a step in which messages go along all training triples; 0: all of them.
    pub message_batch: u32,
    /// The learning rate of the layers of such steps; 0: that of all other parameters.
    pub layer_rate: f32,
    /// True: the encoder keeps its random parameters, and the relations' vectors alone are learnt.
    /// A baseline: what the encoder's structure is worth without its training.
    pub freeze_encoder: bool,
    /// The score of a triple.
    pub decoder: LinkDecoder,
    /// True: heads are asked for by a vector of the inverse relation, so that each triple is two
    /// questions for a tail.
    pub reciprocal: bool,
    /// This times the mean over a step's triples of the sums of cubes of their vectors' numbers is
    /// added to the loss (the nuclear 3-norm).
    pub n3: f32,
    /// Epochs without a better MRR of the validation triples after which training ends with the
    /// best parameters; 0: training goes on to the end.
    pub patience: u32,
    /// Features of a node that the decoder reads.
    pub width: usize,
    /// Triples of a step, or with k-vs-all its questions (a node and a relation); 0: all of them.
    /// With sampled losses the messages of a step go along its triples; with k-vs-all along all
    /// training triples but those that are asked about.
    pub batch: u32,
    /// The share of these triples along which no message goes either, from 0 to below 1.
    pub edge_dropout: f32,
    /// Corrupted triples for each true one: half of them, the odd one among them, with another
    /// tail, the others with another head.
    pub negatives: u32,
    /// Consecutive triples of a batch that share one set of corrupting nodes.
    pub share: u32,
    /// The loss.
    pub loss: LinkLoss,
    /// This times the mean square of the nodes' units and that of the relations' vectors is added
    /// to the loss.
    pub decoder_l2: f32,
    /// Longer gradients, of all parameters together, are cut to this length; 0: none is.
    pub clip: f32,
    /// Epochs between two rankings of the validation triples; 0: only at the end.
    pub valid_epochs: u32,
}

impl Default for LinkConfig {
    /// ComplEx alone, learnt against all nodes: the best ranks of the models here, for graphs of
    /// up to [`LinkConfig::MOST_NODES`] nodes.
    ///
    /// # Source
    /// Lacroix et al., "Canonical tensor decomposition for knowledge base completion" (2018):
    /// reciprocal relations, cross entropy over all nodes, N3, Adagrad at 0.1.
    fn default() -> LinkConfig {
        LinkConfig {
            encoder: Config {
                optimiser: Optimiser::Adagrad,
                rate: 0.1,
                ..LinkConfig::sampled().encoder
            },
            decoder: LinkDecoder::ComplEx,
            width: 400,
            batch: 256,
            loss: LinkLoss::KvsAll,
            n3: 0.05,
            valid_epochs: 1,
            patience: 5,
            ..LinkConfig::sampled()
        }
    }
}

impl LinkConfig {
    /// The most nodes against all of which a question is held by default.
    pub const MOST_NODES: u32 = 100_000;

    /// Units of a block of the weights of a residual encoder.
    pub const BLOCK: usize = 10;

    /// The default settings for a graph of some nodes: against all of them, or where they are too
    /// many against sampled ones.
    #[must_use]
    pub fn for_nodes(n_nodes: u32) -> LinkConfig {
        match n_nodes <= LinkConfig::MOST_NODES {
            true => LinkConfig::default(),
            false => LinkConfig::sampled(),
        }
    }

    /// The default settings with an encoder for a graph of some nodes, as
    /// [`LinkConfig::for_nodes`] has them without one.
    #[must_use]
    pub fn encoder_for_nodes(n_nodes: u32) -> LinkConfig {
        match n_nodes <= LinkConfig::MOST_NODES {
            true => LinkConfig::with_encoder(),
            false => LinkConfig::paper(),
        }
    }

    /// DistMult alone, learnt against sampled nodes.
    #[must_use]
    pub fn sampled() -> LinkConfig {
        let base = LinkConfig::paper();
        LinkConfig {
            encode: false,
            reciprocal: true,
            encoder: Config {
                hidden: Vec::new(),
                blocks: 1,
                embedding: 1,
                dropout: 0.0,
                epochs: 30,
                ..base.encoder
            },
            batch: 2000,
            valid_epochs: 3,
            patience: 6,
            decoder_l2: 0.0,
            n3: 0.02,
            clip: 0.0,
            ..base
        }
    }

    /// R-GCN beside ComplEx: the default decoder is learnt first, then the layers add to its
    /// vectors.
    #[must_use]
    pub fn with_encoder() -> LinkConfig {
        let decoder = LinkConfig::default();
        LinkConfig {
            encoder: Config {
                blocks: decoder.width / LinkConfig::BLOCK,
                embedding: decoder.width,
                sums: Sums::Exact,
                ..decoder.encoder
            },
            encode: true,
            residual: true,
            warm_epochs: 14,
            message_batch: 4096,
            layer_rate: 0.003,
            edge_dropout: 0.0,
            ..decoder
        }
    }

    /// The same with a warm-up of at most half of the epochs, so that an encoder's layers join in a
    /// short run too.
    #[must_use]
    pub fn with_short_warm_up(self) -> LinkConfig {
        LinkConfig {
            warm_epochs: self.warm_epochs.min(self.encoder.epochs / 2),
            ..self
        }
    }

    /// R-GCN below DistMult as its authors have it, for graphs of the size of FB15k-237 and larger.
    /// (They have 500 units, 10 negatives of each triple's own and the logistic loss.)
    #[must_use]
    pub fn paper() -> LinkConfig {
        LinkConfig {
            encoder: Config {
                hidden: vec![200],
                blocks: 40,
                normaliser: Normaliser::Node,
                embedding: 200,
                dropout: 0.2,
                epochs: 200,
                mode: Mode::Full,
                sums: Sums::Float,
                ..Config::default()
            },
            residual: false,
            warm_epochs: 0,
            message_batch: 0,
            layer_rate: 0.0,
            encode: true,
            freeze_encoder: false,
            decoder: LinkDecoder::DistMult,
            reciprocal: false,
            n3: 0.0,
            patience: 0,
            width: 200,
            batch: 10_000,
            edge_dropout: 0.3,
            negatives: 256,
            share: 32,
            loss: LinkLoss::Softmax,
            decoder_l2: 0.01,
            clip: 1.0,
            valid_epochs: 0,
        }
    }
}

impl LinkConfig {
    /// Refuses settings out of their range.
    ///
    /// # Errors
    /// [`Error::Config`] with the field, its value and what would have been right.
    pub fn check(&self) -> Result<(), Error> {
        self.encoder.check()?;
        self.check_encoder()?;
        if !(1..=MAX_WIDTH).contains(&self.width) || self.width < self.encoder.blocks {
            let expected = match self.encoder.blocks {
                0 | 1 => format!("1 to {MAX_WIDTH}"),
                blocks => format!("{blocks} to {MAX_WIDTH}: one for each block of weights"),
            };
            return Err(Error::config("width", self.width, &expected));
        }
        if !(0.0..1.0).contains(&self.edge_dropout) {
            let expected = "0 to below 1";
            return Err(Error::config("edge_dropout", self.edge_dropout, expected));
        }
        for (field, value) in [("negatives", self.negatives), ("share", self.share)] {
            if !(1..=MAX_NEGATIVES).contains(&value) {
                return Err(Error::config(field, value, "1 to 65536"));
            }
        }
        self.check_decoder()?;
        let numbers = [
            ("decoder_l2", self.decoder_l2),
            ("clip", self.clip),
            ("n3", self.n3),
            ("layer_rate", self.layer_rate),
        ];
        for (field, value) in numbers {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::config(field, value, "a number from 0 on"));
            }
        }
        Ok(())
    }

    /// Refuses decoders that cannot be.
    fn check_decoder(&self) -> Result<(), Error> {
        if self.decoder == LinkDecoder::ComplEx && !self.reciprocal {
            let expected = "true: complex has vectors of inverse relations";
            return Err(Error::config("reciprocal", false, expected));
        }
        if self.decoder == LinkDecoder::ComplEx && !self.width.is_multiple_of(2) {
            let expected = "an even number: real and imaginary parts";
            return Err(Error::config("width", self.width, expected));
        }
        if self.loss == LinkLoss::KvsAll {
            self.check_all_nodes()?;
        } else if !self.encode && self.encoder.dropout > 0.0 {
            let expected = "0 without an encoder, except with k-vs-all";
            return Err(Error::config("dropout", self.encoder.dropout, expected));
        }
        if self.patience > 0 && self.valid_epochs == 0 {
            let expected = "1 or more, for patience";
            return Err(Error::config("valid_epochs", 0, expected));
        }
        Ok(())
    }

    /// Refuses settings that the loss over all nodes does not have.
    fn check_all_nodes(&self) -> Result<(), Error> {
        if !self.reciprocal {
            let expected = "true: k-vs-all asks for heads by vectors of inverse relations";
            return Err(Error::config("reciprocal", false, expected));
        }
        for (field, value) in [("clip", self.clip), ("decoder_l2", self.decoder_l2)] {
            if value > 0.0 {
                let expected = "0 with k-vs-all, which n3 regularises";
                return Err(Error::config(field, value, expected));
            }
        }
        Ok(())
    }

    /// Refuses encoders that cannot predict links.
    fn check_encoder(&self) -> Result<(), Error> {
        let encoder = &self.encoder;
        if !self.encode && !encoder.hidden.is_empty() {
            let expected = "[] without an encoder";
            return Err(Error::config(
                "hidden",
                format!("{:?}", encoder.hidden),
                expected,
            ));
        }
        if self.freeze_encoder && !self.encode {
            let expected = "false without an encoder";
            return Err(Error::config("freeze_encoder", true, expected));
        }
        self.check_residual()?;
        if encoder.embedding == 0 {
            let expected = "1 or more: links are predicted from vectors of nodes";
            return Err(Error::config("embedding", 0, expected));
        }
        if encoder.class_weights != ClassWeights::None {
            let expected = "none: links have no classes";
            return Err(Error::config(
                "class_weights",
                encoder.class_weights,
                expected,
            ));
        }
        if encoder.patience > 0 {
            let expected = "0: links have a patience beside the encoder's settings";
            return Err(Error::config(
                "encoder.patience",
                encoder.patience,
                expected,
            ));
        }
        if encoder.batch > 0 {
            let expected = "0: links have a batch beside the encoder's settings";
            return Err(Error::config("encoder.batch", encoder.batch, expected));
        }
        if encoder.features {
            let expected = "false: links are predicted from an embedding";
            return Err(Error::config("features", true, expected));
        }
        if !encoder.self_loop {
            let expected = "true: a step's messages do not reach all nodes";
            return Err(Error::config("self_loop", false, expected));
        }
        if encoder.mode != Mode::Full {
            let expected = "full: all nodes' units are scored";
            return Err(Error::config("mode", encoder.mode, expected));
        }
        Ok(())
    }
}

impl LinkConfig {
    /// Refuses residual encoders that cannot be, and what only they have.
    fn check_residual(&self) -> Result<(), Error> {
        let embedding = self.encoder.embedding;
        if self.residual && !self.encode {
            return Err(Error::config("residual", true, "false without an encoder"));
        }
        if self.residual && embedding != self.width {
            let expected = format!("{}, the decoder's width, for residual", self.width);
            return Err(Error::config("embedding", embedding, &expected));
        }
        let has_warm_up = self.residual && !self.freeze_encoder && self.loss == LinkLoss::KvsAll;
        if self.warm_epochs > 0 && !has_warm_up {
            let expected = "0 but for residual encoders that are learnt with k-vs-all";
            return Err(Error::config("warm_epochs", self.warm_epochs, expected));
        }
        Ok(())
    }
}

/// The most negatives of a triple, and the most triples that share them.
const MAX_NEGATIVES: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut LinkConfig)| {
            let mut config = LinkConfig::paper();
            config.check().unwrap();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        let starts = [
            (refused(&|c| c.width = 0), "width = 0: expected 40 to"),
            (refused(&|c| c.edge_dropout = 1.0), "edge_dropout = 1"),
            (refused(&|c| c.negatives = 0), "negatives = 0"),
            (refused(&|c| c.share = 0), "share = 0"),
            (refused(&|c| c.clip = f32::NAN), "clip = NaN"),
            (refused(&|c| c.decoder_l2 = -1.0), "decoder_l2 = -1"),
            (refused(&|c| c.encoder.embedding = 0), "embedding = 0"),
            (
                refused(&|c| c.encoder.self_loop = false),
                "self_loop = false",
            ),
            (refused(&|c| c.encoder.mode = Mode::Pruned), "mode = pruned"),
            (
                refused(&|c| c.encoder.class_weights = ClassWeights::Balanced),
                "class_weights = balanced",
            ),
            (refused(&|c| c.encoder.rate = 0.0), "rate = 0"),
        ];
        for (found, expected) in starts {
            assert!(found.starts_with(expected), "{found} {expected}");
        }
    }
}
