//! The settings of a model and its training.

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use crate::{Error, Features, RelationalGraph};

/// The optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// The rate times the gradient.
    Sgd,
    /// Duchi et al.: the rate over the root of a parameter's sum of squared gradients, which is one
    /// more number for it.
    Adagrad,
    /// Kingma and Ba, with 0.9, 0.999 and 1e-8; two more numbers for each parameter.
    Adam,
}

/// The part of the graph that an epoch works on. Both give the same loss and parameters, to
/// rounding: bit for bit on one rank with float sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All edges and nodes, as frameworks do.
    Full,
    /// Only what the training nodes' outputs depend on, at each depth.
    Pruned,
}

/// The sums of the messages to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sums {
    /// Integers of a common scale: the same bits for every number of ranks.
    Exact,
    /// Floats of 32 bits, in each rank's order: other numbers of ranks round differently.
    Float,
}

/// The divisor of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normaliser {
    /// The edges of its relation into its target: the usual one for classes of nodes.
    Relation,
    /// All edges into its target: what R-GCN's authors predict links with.
    Node,
}

/// Weights of the classes in the loss of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassWeights {
    /// Each training node counts as much as any other.
    None,
    /// Each class counts as much as any other: a node of a class weighs the mean class's training
    /// nodes over its own class's.
    Balanced,
}

/// Settings under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Of R-GCN's authors for AIFB: no bases, hidden width 16, Adam at 0.01, 50 epochs.
    Aifb,
    /// Of R-GCN's authors for MUTAG: as for AIFB, with 30 bases and L2 of 5e-4.
    Mutag,
    /// Of R-GCN's authors for AM: 40 bases, hidden width 10, L2 of 5e-4.
    Am,
    /// Of the paper on relations over devices: 40 bases, hidden width 16, SGD. The rate is not in
    /// the paper: 1 here.
    Paper,
}

words!(
    Optimiser, Error, Error::config, "optimiser";
    "sgd" => Sgd,
    "adagrad" => Adagrad,
    "adam" => Adam,
);
words!(Mode, Error, Error::config, "mode"; "full" => Full, "pruned" => Pruned);
words!(Sums, Error, Error::config, "sums"; "exact" => Exact, "float" => Float);
words!(Normaliser, Error, Error::config, "normaliser"; "relation" => Relation, "node" => Node);
words!(ClassWeights, Error, Error::config, "class_weights"; "none" => None, "balanced" => Balanced);
words!(
    Preset, Error, Error::config, "preset";
    "aifb" => Aifb,
    "mutag" => Mutag,
    "am" => Am,
    "paper" => Paper,
);

/// The model and how it is trained.
///
/// ```
/// use shardgraph_rgcn::{Config, Preset};
///
/// let config = Config { epochs: 20, ..Config::preset(Preset::Mutag) };
/// assert_eq!((config.hidden.as_slice(), config.bases), (&[16][..], 30));
/// config.check()?;
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The widths of the layers before the last one, whose width is the number of classes.
    pub hidden: Vec<usize>,
    /// Bases that the relations of a layer share; 0: each relation has weights of its own.
    pub bases: usize,
    /// Blocks of block-diagonal weights, of each relation and the self loop; 0 or 1: whole ones.
    /// One-hot input has a row for each node and relation instead, and blocks begin at the second
    /// layer.
    pub blocks: usize,
    /// The divisor of a message.
    pub normaliser: Normaliser,
    /// The width of a vector that is learnt for each node and is the input; 0: one-hot input.
    pub embedding: usize,
    /// True if the input is the graph's features and not learnt; `embedding` is then their width.
    pub features: bool,
    /// True if each node also sends to itself, along one more relation.
    pub self_loop: bool,
    /// True if a layer adds a bias.
    pub bias: bool,
    /// The share of hidden units that an epoch leaves out, from 0 to below 1.
    pub dropout: f32,
    /// This times the sum of the squares of the input's and the first layer's parameters, biases
    /// excepted, is added to the loss.
    pub l2: f32,
    /// Weights of the classes in the loss.
    pub class_weights: ClassWeights,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The learning rate.
    pub rate: f32,
    /// Passes over the training nodes; the most of them where validation ends training.
    pub epochs: u32,
    /// Epochs without a better accuracy of the validation nodes after which training ends with the
    /// parameters of the best one; of equal accuracies the one with the lower loss is better. 0:
    /// training goes on to the end, and keeps the last parameters.
    pub patience: u32,
    /// Training nodes of a step, whose neighbourhood alone is computed with; 0: all of them.
    pub batch: u32,
    /// With batches, the most edges of each relation into a node along which messages go, drawn
    /// anew for each step; 0: all of them, which gives the gradients of the whole graph.
    pub fan_out: u32,
    /// The seed of all random draws.
    pub seed: u64,
    /// The part of the graph that an epoch works on.
    pub mode: Mode,
    /// The sums of the messages to a node.
    pub sums: Sums,
}

impl Preset {
    /// The published settings of the graph that is nearest in size.
    #[must_use]
    pub fn for_nodes(n_nodes: u32) -> Preset {
        match n_nodes {
            0..14_000 => Preset::Aifb,
            14_000..200_000 => Preset::Mutag,
            _ => Preset::Am,
        }
    }
}

impl Default for Config {
    /// [`Preset::Aifb`], pruned, with exact sums and seed 0.
    fn default() -> Config {
        Config {
            hidden: vec![16],
            bases: 0,
            blocks: 0,
            normaliser: Normaliser::Relation,
            embedding: 0,
            features: false,
            self_loop: true,
            bias: false,
            dropout: 0.0,
            l2: 0.0,
            class_weights: ClassWeights::None,
            optimiser: Optimiser::Adam,
            rate: 0.01,
            epochs: 50,
            patience: 0,
            batch: 0,
            fan_out: 0,
            seed: 0,
            mode: Mode::Pruned,
            sums: Sums::Exact,
        }
    }
}

/// The widest layer and the most bases.
pub(crate) const MAX_WIDTH: usize = 4096;
/// The most layers.
const MAX_LAYERS: usize = 16;

impl Config {
    /// The settings of a preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Config {
        let aifb = Config::default();
        match preset {
            Preset::Aifb => aifb,
            Preset::Mutag => Config {
                bases: 30,
                l2: 5e-4,
                ..aifb
            },
            Preset::Am => Config {
                bases: 40,
                hidden: vec![10],
                l2: 5e-4,
                ..aifb
            },
            Preset::Paper => Config {
                bases: 40,
                optimiser: Optimiser::Sgd,
                rate: 1.0,
                ..aifb
            },
        }
    }

    /// The same settings where nodes to validate on say when training ends: up to four times the
    /// epochs, until 20 of them bring nothing better.
    #[must_use]
    pub fn with_validation(self) -> Config {
        Config {
            epochs: self.epochs.saturating_mul(4),
            patience: 20,
            ..self
        }
    }

    /// Refuses settings out of their range.
    ///
    /// # Errors
    /// [`Error::Config`] with the field, its value and what would have been right.
    pub fn check(&self) -> Result<(), Error> {
        let is_width = |width: &usize| (1..=MAX_WIDTH).contains(width);
        if self.hidden.len() >= MAX_LAYERS || !self.hidden.iter().all(is_width) {
            let value = format!("{:?}", self.hidden);
            return Err(Error::config(
                "hidden",
                value,
                "at most 15 widths, each from 1 to 4096",
            ));
        }
        if self.bases > MAX_WIDTH {
            return Err(Error::config("bases", self.bases, "0 to 4096"));
        }
        if self.embedding > MAX_WIDTH {
            return Err(Error::config("embedding", self.embedding, "0 to 4096"));
        }
        self.check_blocks()?;
        if self.features && self.embedding == 0 {
            let expected = "the width of the features";
            return Err(Error::config("embedding", 0, expected));
        }
        self.check_batches()?;
        if self.epochs == 0 {
            return Err(Error::config("epochs", 0, "1 or more"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::config("dropout", self.dropout, "0 to below 1"));
        }
        if !(self.l2 >= 0.0 && self.l2.is_finite()) {
            return Err(Error::config("l2", self.l2, "a number from 0 on"));
        }
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(Error::config("rate", self.rate, "a number above 0"));
        }
        Ok(())
    }

    /// Refuses a graph whose features are not the input that is asked for.
    pub(crate) fn check_features(&self, graph: &RelationalGraph) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(Error::Config, message));
        match (self.features, graph.features().map(Features::width)) {
            (true, Some(width)) if width == self.embedding => Ok(()),
            (true, Some(width)) => refuse(format!(
                "features of width {width}: expected {}, as the model reads them",
                self.embedding
            )),
            (true, None) => refuse(format!(
                "the graph has no features: expected those of width {} that the model reads (--features of the program)",
                self.embedding
            )),
            (false, _) => Ok(()),
        }
    }

    /// Refuses batches of inputs that are no rows of nodes, and neighbours without batches.
    fn check_batches(&self) -> Result<(), Error> {
        if self.batch == 0 && self.fan_out > 0 {
            let expected = "0 without a batch";
            return Err(Error::config("fan_out", self.fan_out, expected));
        }
        if self.batch > 0 && !self.has_first_table() {
            let expected = "0 for one-hot input without bases, which has a row for each node and relation: give --bases, --input-dim or --features";
            return Err(Error::config("batch", self.batch, expected));
        }
        if self.batch > 0 && !self.self_loop {
            let expected = "0 without a self loop";
            return Err(Error::config("batch", self.batch, expected));
        }
        Ok(())
    }

    /// Refuses blocks beside bases, and more of them than a layer has units.
    fn check_blocks(&self) -> Result<(), Error> {
        if self.blocks > 0 && self.bases > 0 {
            let expected = "0 where relations share bases: weights are of one kind";
            return Err(Error::config("blocks", self.blocks, expected));
        }
        if self.blocks > 1 && self.embedding == 0 && self.hidden.is_empty() {
            let expected = "0 for a single layer with one-hot input, which has rows of its own: blocks cut weights between units";
            return Err(Error::config("blocks", self.blocks, expected));
        }
        let embedding = (self.embedding > 0).then_some(self.embedding);
        let narrowest = self.hidden.iter().copied().chain(embedding).min();
        match narrowest.filter(|&width| width < self.blocks) {
            None => Ok(()),
            Some(width) => {
                let expected = format!("at most {width}, the units of the narrowest layer");
                Err(Error::config("blocks", self.blocks, &expected))
            }
        }
    }

    /// True if the first layer has a table of relations: all but one-hot input without bases.
    pub(crate) fn has_first_table(&self) -> bool {
        self.bases > 0 || self.embedding > 0
    }

    /// The widths of all layers' outputs for `n_classes`.
    pub(crate) fn widths(&self, n_classes: u32) -> Vec<usize> {
        let hidden = self.hidden.iter().copied();
        hidden.chain([n_classes as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let config = Config::default();
        let refused = |config: Config| config.check().unwrap_err().to_string();
        let with = |hidden: &[usize]| Config {
            hidden: hidden.into(),
            ..config.clone()
        };
        assert!(refused(with(&[0])).starts_with("hidden = [0]"));
        assert!(refused(with(&[4; 16])).starts_with("hidden = "));
        assert!(
            refused(Config {
                bases: 4097,
                ..config.clone()
            })
            .starts_with("bases = 4097")
        );
        assert!(
            refused(Config {
                dropout: 1.0,
                ..config.clone()
            })
            .starts_with("dropout = 1")
        );
        assert!(
            refused(Config {
                l2: f32::NAN,
                ..config.clone()
            })
            .starts_with("l2 = NaN")
        );
        assert!(
            refused(Config {
                rate: 0.0,
                ..config.clone()
            })
            .starts_with("rate = 0")
        );
        assert!(with(&[]).check().is_ok());
    }

    #[test]
    fn blocks_need_a_layer_that_reads_units() {
        let refused = |config: Config| config.check().unwrap_err().to_string();
        let blocks = |hidden: &[usize]| Config {
            bases: 0,
            blocks: 4,
            hidden: hidden.into(),
            ..Config::default()
        };
        assert!(refused(blocks(&[])).starts_with("blocks = 4: expected 0 for a single layer"));
        assert!(blocks(&[8]).check().is_ok());
    }

    #[test]
    fn names_are_read_back() {
        for preset in [Preset::Aifb, Preset::Mutag, Preset::Am, Preset::Paper] {
            assert_eq!(preset.to_string().parse::<Preset>().unwrap(), preset);
            assert!(Config::preset(preset).check().is_ok());
        }
        assert_eq!("pruned".parse::<Mode>().unwrap(), Mode::Pruned);
        assert_eq!("float".parse::<Sums>().unwrap(), Sums::Float);
        let refused = "rmsprop".parse::<Optimiser>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "optimiser = rmsprop: expected sgd, adagrad or adam"
        );
    }
}
