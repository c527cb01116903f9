//! The flags of R-GCN's settings, over a file's, over a preset.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use shardgraph_rgcn::{
    ClassWeights, Config, Mode, Normaliser, Optimiser, Preset, RelationalGraph, Sums,
};

use crate::exit::BadInput;
use crate::settings_file::{SettingsFile, checked};

/// The model; what is left out is the preset's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Named settings: aifb, mutag, am or paper [default: those of the graph that is nearest in size]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Preset>,
    /// Settings as TOML or JSON: `preset`, and the names that the answer has under `settings`; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Widths of the layers before the last one, as 16 or 32,16; none for a single layer
    #[arg(long, value_name = "WIDTHS")]
    hidden: Option<String>,
    /// Bases that the relations of a layer share; 0: each relation has weights of its own
    #[arg(long, value_name = "N")]
    bases: Option<usize>,
    /// Blocks of block-diagonal weights; 0: whole ones
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Learn a vector of this width for each node as input; 0: one-hot input
    #[arg(long, value_name = "WIDTH")]
    input_dim: Option<usize>,
    /// Leave out the self loop
    #[arg(long)]
    no_self_loop: bool,
    /// Add a bias in each layer
    #[arg(long)]
    bias: bool,
    /// Optimiser: sgd, adagrad or adam [default: of the preset]
    #[arg(long, alias = "optimizer", value_name = "RULE")]
    optimiser: Option<Optimiser>,
    /// Mode of training: full (all nodes in each epoch) or pruned (the receptive field of the training
    /// nodes, with the same result) [default: pruned]
    #[arg(long, value_name = "full|pruned")]
    mode: Option<Mode>,
    /// exact: the same bits for any number of ranks; float: faster [default: exact]
    #[arg(long, value_name = "exact|float")]
    sums: Option<Sums>,
}

/// The model and how it is trained; what is left out is the preset's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Passes over the training data: over the labelled nodes or triples; with --resume, to go to [default: of the preset; with --resume those
    /// of the run]
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<u32>,
    /// Epochs without a better --valid after which training ends; the model is that of the best epoch; 0: training goes on
    /// [default: 20 for classes where there are nodes to validate on, up to four times the epochs; 5 for links; 6 with sampled losses, 0 with
    /// an encoder below them]
    #[arg(long, value_name = "N")]
    pub(crate) patience: Option<u32>,
    /// Training nodes of a step, which is computed from their neighbourhood alone; 0: all nodes in one pass. Of links: questions (a node and a
    /// relation) of a step, or with sampled losses triples; 0: all [default: 0; 256 questions; 2000 triples, with an encoder 10000]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u32>,
    /// Of a batch of nodes: edges of each relation into a node that are drawn for a step; 0: all, which gives the same gradients as the whole
    /// graph [default: 0]
    #[arg(long, value_name = "N")]
    fan_out: Option<u32>,
    /// Divide messages by the edges of their relation into a node, or by all edges into it [default: relation]
    #[arg(long, alias = "normalizer", value_name = "relation|node")]
    normaliser: Option<Normaliser>,
    /// Share of hidden units that an epoch leaves out
    #[arg(long, value_name = "SHARE")]
    dropout: Option<f32>,
    /// Times the squares of the first layer's weights, added to the loss
    #[arg(long, value_name = "X")]
    l2: Option<f32>,
    /// Weights of classes in the loss: none, or balanced (each class counts as much as any other) [default: none]
    #[arg(long, value_name = "none|balanced")]
    class_weights: Option<ClassWeights>,
    /// Learning rate [default: of the preset]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f32>,
    /// Seed of all that is random: the first one of --repeats [default: 1]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

impl ModelArgs {
    /// The preset's settings under the flags', checked.
    pub(crate) fn config(&self, graph: &RelationalGraph) -> anyhow::Result<Config> {
        let file = self.settings()?;
        let base = self.base(graph, file.as_ref())?;
        over(base, file.as_ref(), |base| self.under_flags(base))
    }

    fn settings(&self) -> Result<Option<SettingsFile>, BadInput> {
        self.config.as_deref().map(SettingsFile::read).transpose()
    }

    /// The preset's settings for the graph.
    fn base(&self, graph: &RelationalGraph, file: Option<&SettingsFile>) -> anyhow::Result<Config> {
        let preset = file.map(preset_of).transpose()?.flatten();
        let nearest = || Preset::for_nodes(graph.n_nodes());
        let base = Config::preset(self.preset.or(preset).unwrap_or_else(nearest));
        let Some(features) = graph.features() else {
            return Ok(base);
        };
        if self.input_dim.is_some() {
            let text = "the input is --features or a learnt --input-dim: give one of them";
            return Err(BadInput(text.to_owned()).into());
        }
        Ok(Config {
            embedding: features.width(),
            features: true,
            ..base
        })
    }

    /// Settings under the flags'.
    fn under_flags(&self, base: Config) -> anyhow::Result<Config> {
        Ok(Config {
            hidden: match &self.hidden {
                None => base.hidden,
                Some(text) => widths(text)?,
            },
            // One of the two rules out what the preset has of the other.
            bases: match (self.bases, self.blocks) {
                (None, Some(1..)) => 0,
                (bases, _) => bases.unwrap_or(base.bases),
            },
            blocks: match (self.blocks, self.bases) {
                (None, Some(1..)) => 0,
                (blocks, _) => blocks.unwrap_or(base.blocks),
            },
            embedding: self.input_dim.unwrap_or(base.embedding),
            self_loop: base.self_loop && !self.no_self_loop,
            bias: base.bias || self.bias,
            optimiser: self.optimiser.unwrap_or(base.optimiser),
            mode: self.mode.unwrap_or(base.mode),
            sums: self.sums.unwrap_or(base.sums),
            ..base
        })
    }

    fn is_set(&self) -> bool {
        self.preset.is_some()
            || self.config.is_some()
            || self.hidden.is_some()
            || self.bases.is_some()
            || self.blocks.is_some()
            || self.input_dim.is_some()
            || self.no_self_loop
            || self.bias
            || self.optimiser.is_some()
            || self.mode.is_some()
            || self.sums.is_some()
    }
}

impl SettingsArgs {
    /// The file that is read, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.model.config.as_deref()
    }

    /// The preset's settings under the flags', checked; with nodes to validate on, these say when training ends.
    pub(crate) fn config(
        &self,
        graph: &RelationalGraph,
        has_validation: bool,
    ) -> anyhow::Result<Config> {
        let file = self.model.settings()?;
        let base = self.model.base(graph, file.as_ref())?;
        let base = match has_validation {
            true => base.with_validation(),
            false => base,
        };
        over(base, file.as_ref(), |base| self.under_flags(base))
    }

    /// Settings under the flags', checked, for a task that has no presets.
    pub(crate) fn without_preset(&self, base: Config) -> anyhow::Result<Config> {
        let file = self.model.settings()?;
        match &file {
            Some(file) if file.get("preset").is_some() => {
                Err(file.wrong("preset", &"it is not for --task links").into())
            }
            _ => over(base, file.as_ref(), |base| self.under_flags(base)),
        }
    }

    /// Settings under the flags'.
    fn under_flags(&self, base: Config) -> anyhow::Result<Config> {
        let base = self.model.under_flags(base)?;
        Ok(Config {
            normaliser: self.normaliser.unwrap_or(base.normaliser),
            dropout: self.dropout.unwrap_or(base.dropout),
            l2: self.l2.unwrap_or(base.l2),
            class_weights: self.class_weights.unwrap_or(base.class_weights),
            rate: self.learning_rate.unwrap_or(base.rate),
            epochs: self.epochs.unwrap_or(base.epochs),
            patience: self.patience.unwrap_or(base.patience),
            batch: self.batch.unwrap_or(base.batch),
            fan_out: self.fan_out.unwrap_or(base.fan_out),
            seed: self.seed.unwrap_or(base.seed),
            ..base
        })
    }

    /// A flag that is given and that only layers have.
    pub(crate) fn encoder_flag(&self) -> Option<&'static str> {
        let model = &self.model;
        let flags = [
            ("--hidden", model.hidden.is_some()),
            ("--bases", model.bases.is_some()),
            ("--blocks", model.blocks.is_some()),
            ("--normaliser", self.normaliser.is_some()),
            ("--input-dim", model.input_dim.is_some()),
            ("--no-self-loop", model.no_self_loop),
            ("--bias", model.bias),
            ("--l2", self.l2.is_some()),
            ("--mode", model.mode.is_some()),
            ("--sums", model.sums.is_some()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }

    /// Whether something but the epochs is asked for: a run that goes on has the rest from its checkpoint.
    pub(crate) fn is_set(&self) -> bool {
        self.model.is_set()
            || self.patience.is_some()
            || self.batch.is_some()
            || self.fan_out.is_some()
            || self.normaliser.is_some()
            || self.dropout.is_some()
            || self.l2.is_some()
            || self.class_weights.is_some()
            || self.learning_rate.is_some()
            || self.seed.is_some()
    }
}

/// Settings under the flags', checked.
fn over(
    base: Config,
    file: Option<&SettingsFile>,
    under_flags: impl Fn(Config) -> anyhow::Result<Config>,
) -> anyhow::Result<Config> {
    let make = |file: Option<&SettingsFile>| match file {
        None => under_flags(base.clone()),
        Some(file) => under_flags(over_file(file, &base)?),
    };
    checked(file, make, Config::check)
}

/// The preset that a file names.
fn preset_of(file: &SettingsFile) -> Result<Option<Preset>, BadInput> {
    let Some(named) = file.get("preset") else {
        return Ok(None);
    };
    let name = String::deserialize(named).map_err(|why| file.wrong("preset", &why))?;
    let preset = name.parse().map_err(|why| file.wrong("preset", &why))?;
    Ok(Some(preset))
}

/// Settings with a file's over them. Whether there are features is the flags' to say: the file may repeat it.
fn over_file(file: &SettingsFile, base: &Config) -> Result<Config, BadInput> {
    match file.get("features") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(features)) if *features == base.features => {}
        Some(_) if base.features => {
            return Err(file.wrong("features", &"expected true, as with --features FILE"));
        }
        Some(_) => {
            let expected = "expected false, or the flag --features FILE beside it";
            return Err(file.wrong("features", &expected));
        }
    }
    file.over(base, |key| !["preset", "features"].contains(&key))
}

/// `none`, or numbers with commas between them.
fn widths(text: &str) -> Result<Vec<usize>, BadInput> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let parsed: Result<_, _> = text.split(',').map(|width| width.trim().parse()).collect();
    parsed.map_err(|_| {
        let expected = "numbers with commas between them, or none";
        BadInput(format!("hidden = {text}: expected {expected}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_numbers_or_none() {
        assert_eq!(widths("none").unwrap(), Vec::<usize>::new());
        assert_eq!(widths("32, 16").unwrap(), [32, 16]);
        assert!(widths("16,").is_err() && widths("-1").is_err() && widths("").is_err());
    }
}
