//! The flags of training, which `embed` and `embed eval` share: the preset's settings, then the file's, then the flags'.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use serde::Deserialize as _;
use shardgraph_device::{Device, DeviceKind};
use shardgraph_line::{Config, Loss, Mode, Optimiser, Order, Precision, Preset, SelectConfig};

use crate::exit::BadInput;
use crate::settings_file::{SettingsFile, checked};
use crate::{duration, quantity, world};

/// How ranks exchange rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowsChoice {
    /// Rows go from card to card, through host memory where cards cannot
    Auto,
    /// Rows go through NCCL, all of a round at once
    Nccl,
}

/// What to train, and how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(crate) struct SettingsArgs {
    /// Loss of a sample: sgns as LINE has it, or softmax against negatives that edges share (one table, on the host,
    /// in memory); the default preset tries both [default: sgns]
    #[arg(long, value_name = "sgns|softmax")]
    loss: Option<Loss>,
    /// First-order proximity, second-order, or both side by side; the default preset chooses among those named [default: both]
    #[arg(long, value_name = "1|2|both")]
    order: Option<Order>,
    /// Dimensions of an embedding: of each order [default: 128]
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Passes over the training data: as many samples as there are edges in each; the default preset takes at most as
    /// many [default: 100; 10 with another preset, 5 of softmax]
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Negative samples for each positive one: at most 31, of softmax uniform ones of a chunk [default: 5; 64 of softmax]
    #[arg(long, value_name = "N")]
    negatives: Option<u32>,
    /// Consecutive samples that share their negatives: a power of two [default: 1; 64 of softmax]
    #[arg(long, value_name = "N")]
    shared_negatives: Option<u32>,
    /// Learning rate: at the start; it falls linearly [default: 1.5 / epochs, within 0.025 to 0.3; 0.05 for
    /// adagrad; 0.1 of softmax]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f32>,
    /// Optimiser: sgd, or adagrad (each row has its own rate) [default: sgd]
    #[arg(long, alias = "optimizer", value_name = "sgd|adagrad")]
    optimiser: Option<Optimiser>,
    /// Mode of training: deterministic (the same bits; slow on a device) or, on a device, hogwild
    /// (samples meet at a row) [default: deterministic on the host, hogwild on a device]
    #[arg(long, value_name = "deterministic|hogwild")]
    mode: Option<Mode>,
    /// What tables are made of [default: fp32]
    #[arg(long, value_name = "fp32|fp16")]
    precision: Option<Precision>,
    /// Threads: the result does not depend on them [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where to compute: host, emulated, cuda, cuda:N or auto (the first GPU if there is one)
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: DeviceKind,
    /// Queues of prepared edges, each with a stream; for a device [default: 2]
    #[arg(long, value_name = "N")]
    queues: Option<usize>,
    /// Buckets that wait in a queue at most; for a device [default: 2]
    #[arg(long, value_name = "N")]
    queue_length: Option<usize>,
    /// Samples that a device works on at once, one in each queue or more [default: one for 8 nodes]
    #[arg(long, value_name = "N")]
    edges_in_flight: Option<u32>,
    /// Ranks that share the work, as threads: each with a device, from that of --device on; they exchange the rows of
    /// parts [default: 1]
    #[arg(long, value_name = "P")]
    ranks: Option<u32>,
    /// How ranks reach each other
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "auto",
        hide_short_help = true
    )]
    comm: RowsChoice,
    /// The NCCL library of --comm nccl [default: libnccl.so.2]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    nccl_library: Option<PathBuf>,
    /// Memory of each device: such as 8GiB; tables take it first, and edges that do not fit come from the host on each
    /// pass [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    device_memory: Option<u64>,
    /// Named settings: default (held-back edges choose orders and epochs), line (both orders, 10 epochs, nothing is
    /// chosen), or paper (as line, with the learning rate of LINE's authors, 0.025)
    #[arg(long, value_name = "default|line|paper", default_value = "default")]
    preset: Preset,
    /// Longest time of a search: of the default preset's trials and training; a trial that would not end in time is left out
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    time_limit: Option<f64>,
    /// Share of the edges that the default preset holds back to choose by [default: 0.05]
    #[arg(long, value_name = "SHARE")]
    held_back: Option<f64>,
    /// Parts of each table, a power of two [default: 16, fewer for less than 4096 nodes, up to 128 for more than 196608; on a device the fewest that fit]
    #[arg(long, value_name = "N")]
    pub(crate) parts: Option<u32>,
    /// Settings as TOML or JSON: by the names of the flags of this group but device, comm, preset and parts;
    /// flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SettingsArgs {
    /// The file that is read, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The settings, checked.
    pub(crate) fn config(&self, seed: u64, device: &Device) -> anyhow::Result<Config> {
        self.check_device(device.kind())?;
        if self.preset != Preset::Default {
            let given = [
                ("time-limit", self.time_limit.is_some()),
                ("held-back", self.held_back.is_some()),
            ];
            if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                let message = format!("--{flag} is for the default preset, which chooses");
                return Err(BadInput(message).into());
            }
        }
        let file = self.config.as_deref().map(SettingsFile::read).transpose()?;
        let base = Config {
            threads: available_parallelism().map_or(1, |n| usize::from(n).min(1024)),
            ..self.base(file.as_ref())?
        };
        let make = |file: Option<&SettingsFile>| match file {
            None => Ok(self.under_flags(base.clone(), seed)),
            Some(file) => Ok(self.under_flags(over(&base, file)?, seed)),
        };
        checked(file.as_ref(), make, Config::check)
    }

    /// The settings that hold where neither file nor flag says otherwise: the preset's, or those of
    /// the softmax loss.
    fn base(&self, file: Option<&SettingsFile>) -> Result<Config, BadInput> {
        let of_preset = Config::preset(self.preset);
        let in_file = file.and_then(|file| Some((file, file.get("loss")?)));
        let loss = match (self.loss, in_file) {
            (Some(loss), _) => loss,
            (None, Some((file, value))) => {
                Loss::deserialize(value).map_err(|why| file.wrong("loss", &why))?
            }
            (None, None) => of_preset.loss,
        };
        let softmax = Config::softmax();
        Ok(match (loss, self.preset) {
            (Loss::Sgns, _) => of_preset,
            (Loss::Softmax, Preset::Default) => Config {
                epochs: of_preset.epochs,
                ..softmax
            },
            (Loss::Softmax, _) => softmax,
        })
    }

    /// These flags for a run that cannot choose: the default preset becomes that of LINE.
    pub(crate) fn without_choice(&self) -> SettingsArgs {
        let preset = match self.preset {
            Preset::Default => Preset::Line,
            other => other,
        };
        SettingsArgs {
            preset,
            config: self.config.clone(),
            nccl_library: self.nccl_library.clone(),
            ..*self
        }
    }

    /// How settings are chosen, where the preset chooses.
    pub(crate) fn selection(&self, config: &Config) -> Option<SelectConfig> {
        let base = SelectConfig::default();
        (self.preset == Preset::Default).then(|| SelectConfig {
            held_back: self.held_back.unwrap_or(base.held_back),
            most_epochs: config.epochs,
            time_limit_s: self.time_limit,
            ..base
        })
    }

    /// Settings under the flags'.
    fn under_flags(&self, base: Config, seed: u64) -> Config {
        Config {
            loss: self.loss.unwrap_or(base.loss),
            order: self.order.unwrap_or(base.order),
            dim: self.dim.unwrap_or(base.dim),
            epochs: self.epochs.unwrap_or(base.epochs),
            negatives: self.negatives.unwrap_or(base.negatives),
            shared_negatives: self.shared_negatives.unwrap_or(base.shared_negatives),
            learning_rate: self.learning_rate.or(base.learning_rate),
            optimiser: self.optimiser.unwrap_or(base.optimiser),
            mode: self.mode.or(base.mode),
            precision: self.precision.unwrap_or(base.precision),
            threads: self.threads.unwrap_or(base.threads),
            queues: self.queues.unwrap_or(base.queues),
            queue_length: self.queue_length.unwrap_or(base.queue_length),
            edges_in_flight: self.edges_in_flight.or(base.edges_in_flight),
            ranks: self.ranks.unwrap_or(base.ranks),
            device_memory: self.device_memory.or(base.device_memory),
            seed,
        }
    }

    /// Refuses what the host would take no notice of.
    fn check_device(&self, device: DeviceKind) -> Result<(), BadInput> {
        let given = [
            ("queues", self.queues.is_some()),
            ("queue-length", self.queue_length.is_some()),
            ("edges-in-flight", self.edges_in_flight.is_some()),
            ("device-memory", self.device_memory.is_some()),
        ];
        if self.ranks.is_some_and(|ranks| ranks > 1) && device == DeviceKind::Host {
            let what =
                "--ranks: threads of the host share the work: name a --device, or leave it out";
            return Err(BadInput(what.to_owned()));
        }
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if device == DeviceKind::Host => {
                let what = "it is for a device: name a --device, or leave it out";
                Err(BadInput(format!("{flag}: {what}")))
            }
            _ => Ok(()),
        }
    }

    /// The device, opened.
    pub(crate) fn device(&self) -> anyhow::Result<Device> {
        let library = self.nccl_library.as_deref();
        match self.comm {
            RowsChoice::Nccl => {
                world::over_nccl(self.device, library, || Ok(Device::open(self.device)?))
            }
            RowsChoice::Auto if library.is_some() => {
                let text = "--nccl-library is for --comm nccl: add that, or leave it out";
                Err(BadInput(text.to_owned()).into())
            }
            RowsChoice::Auto => Ok(Device::open(self.device)?),
        }
    }
}

/// `base` with a file's settings over it.
fn over(base: &Config, file: &SettingsFile) -> Result<Config, BadInput> {
    match file.get("seed") {
        Some(_) => Err(file.wrong("seed", &"give it as the flag --seed")),
        None => file.over(base, |_| true),
    }
}
