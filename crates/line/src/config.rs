//! What a training run is asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use shardgraph_device::DeviceKind;

use crate::{Error, Store};

/// Which proximity is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// First order: neighbours are alike. One table for both ends of an edge; directions count for nothing.
    #[serde(rename = "1")]
    First,
    /// Second order: nodes with the same neighbours are alike. A table of vertices and one of contexts.
    #[serde(rename = "2")]
    Second,
    /// Both, one after the other, each with its own tables; rows are joined.
    #[serde(rename = "both")]
    Both,
}

impl Order {
    /// Whether order 1 is trained.
    #[must_use]
    pub fn is_first_too(self) -> bool {
        self != Order::Second
    }

    /// The orders to train, as numbers.
    pub(crate) fn each(self) -> &'static [u32] {
        match self {
            Order::First => &[1],
            Order::Second => &[2],
            Order::Both => &[1, 2],
        }
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Order, Error> {
        match text {
            "1" => Ok(Order::First),
            "2" => Ok(Order::Second),
            "both" => Ok(Order::Both),
            _ => Err(Error::config("order", text, "1, 2 or both")),
        }
    }
}

/// What tables are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 4 B a number.
    Fp32,
    /// 2 B a number, rounded at random so that small steps are not lost.
    Fp16,
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Precision, Error> {
        match text {
            "fp32" => Ok(Precision::Fp32),
            "fp16" => Ok(Precision::Fp16),
            _ => Err(Error::config("precision", text, "fp32 or fp16")),
        }
    }
}

/// How threads, or the samples of a device, meet at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// On the host: in a round, a thread has the parts that it works on to itself, so the bits do not depend on the number of
    /// threads. On a device: batches that are summed up row by row, slow.
    Deterministic,
    /// Threads work on the same rows, each number is added with a compare-and-exchange, and no update is lost. Slow on the host.
    Atomic,
    /// Threads work on the same rows; of two updates of a number that meet, one may be lost.
    Hogwild,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Deterministic => "deterministic",
            Mode::Atomic => "atomic",
            Mode::Hogwild => "hogwild",
        })
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Mode, Error> {
        match text {
            "deterministic" => Ok(Mode::Deterministic),
            "atomic" => Ok(Mode::Atomic),
            "hogwild" => Ok(Mode::Hogwild),
            _ => Err(Error::config(
                "mode",
                text,
                "deterministic, atomic or hogwild",
            )),
        }
    }
}

/// How a gradient becomes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// The rate times the gradient.
    Sgd,
    /// Each row has a rate of its own, which falls with the root of the sum of its gradients' mean squares; 4 B a row more.
    Adagrad,
}

impl FromStr for Optimiser {
    type Err = Error;

    fn from_str(text: &str) -> Result<Optimiser, Error> {
        match text {
            "sgd" => Ok(Optimiser::Sgd),
            "adagrad" => Ok(Optimiser::Adagrad),
            _ => Err(Error::config("optimiser", text, "sgd or adagrad")),
        }
    }
}

/// Settings under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The defaults.
    Default,
    /// The learning rate of LINE's authors, 0.025, whatever the number of epochs.
    Paper,
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Preset, Error> {
        match text {
            "default" => Ok(Preset::Default),
            "paper" => Ok(Preset::Paper),
            _ => Err(Error::config("preset", text, "default or paper")),
        }
    }
}

/// The settings of a run; names are those of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which proximity is trained; default both.
    pub order: Order,
    /// Columns of each order's table; default 128.
    pub dim: usize,
    /// Passes of as many samples as there are edges; default 10.
    pub epochs: u32,
    /// Negatives of a sample, up to 31; default 5.
    pub negatives: u32,
    /// Consecutive samples that share their negatives, a power of two; default 1, LINE's own way. Fewer do in small parts:
    /// [`Config::share_in`].
    pub share: u32,
    /// The learning rate at the start; it falls in a line to a ten-thousandth of that. Default: 1.5 / epochs, within 0.025 to
    /// 0.3, and 0.05 for Adagrad.
    pub rate: Option<f32>,
    /// How a gradient becomes a step; default sgd.
    pub optimiser: Optimiser,
    /// How threads meet at a row; default deterministic on the host, hogwild on a device.
    pub mode: Option<Mode>,
    /// What tables are made of; default fp32.
    pub precision: Precision,
    /// Threads; default 1. On the host they train, and in the deterministic mode the result does not depend on their number; for a
    /// device they prepare edges.
    pub threads: usize,
    /// Queues of prepared edges for a device, each with a stream of its own; default 2.
    pub queues: usize,
    /// Buckets that wait in a queue at most; default 2.
    pub queue_length: usize,
    /// Samples that a device works on at once, over all its queues, so at least one for each; default: as many as it can. On the host,
    /// in the deterministic mode alone: samples of a bucket (up to 8192) whose gradients are all taken from the rows before any of them
    /// changes, the most that so many in flight can do to the answer; slow, and there to be measured. Default there: one.
    pub edges_in_flight: Option<u32>,
    /// The one seed; default 1.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            order: Order::Both,
            dim: 128,
            epochs: 10,
            negatives: 5,
            share: 1,
            rate: None,
            optimiser: Optimiser::Sgd,
            mode: None,
            precision: Precision::Fp32,
            threads: 1,
            queues: 2,
            queue_length: 2,
            edges_in_flight: None,
            seed: 1,
        }
    }
}

impl Config {
    /// The settings of a preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Config {
        Config {
            rate: match preset {
                Preset::Default => None,
                Preset::Paper => Some(0.025),
            },
            ..Config::default()
        }
    }

    /// The learning rate at the start.
    ///
    /// # Source
    /// The default is a fit to measured AUC between 1 and 50 epochs, not theory.
    #[must_use]
    pub fn first_rate(&self) -> f32 {
        let fitted = match self.optimiser {
            Optimiser::Sgd => (1.5 / self.epochs.max(1) as f32).clamp(0.025, 0.3),
            Optimiser::Adagrad => 0.05,
        };
        self.rate.unwrap_or(fitted)
    }

    /// Columns of the embedding: `dim` for each order.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.order.each().len() * self.dim
    }

    /// The bytes that one sample moves between tables and processor.
    #[must_use]
    pub fn bytes_per_sample(&self) -> f64 {
        let settings = self.settings();
        match self.precision {
            Precision::Fp32 => settings.bytes_per_sample::<f32>(),
            Precision::Fp16 => settings.bytes_per_sample::<u16>(),
        }
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`], which names the setting.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=65536).contains(&self.dim) {
            return Err(Error::config("dim", self.dim, "1 to 65536 columns"));
        }
        if self.negatives > 31 {
            return Err(Error::config("negatives", self.negatives, "at most 31"));
        }
        if !self.share.is_power_of_two() || self.share > 1024 {
            return Err(Error::config(
                "share",
                self.share,
                "a power of two up to 1024",
            ));
        }
        if !(1..=1 << 20).contains(&self.epochs) {
            return Err(Error::config("epochs", self.epochs, "1 to 1048576"));
        }
        for (name, value, most) in [
            ("threads", self.threads, 1024),
            ("queues", self.queues, 64),
            ("queue_length", self.queue_length, 1024),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::config(name, value, &format!("1 to {most}")));
            }
        }
        if self.edges_in_flight == Some(0) {
            return Err(Error::config("edges_in_flight", 0, "1 or more"));
        }
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= 10.0) => {
                Err(Error::config("rate", rate, "a number above 0, at most 10"))
            }
            _ => Ok(()),
        }
    }

    /// The mode on a device of this kind.
    #[must_use]
    pub fn mode_on(&self, device: DeviceKind) -> Mode {
        let usual = match device {
            DeviceKind::Host => Mode::Deterministic,
            _ => Mode::Hogwild,
        };
        self.mode.unwrap_or(usual)
    }

    /// The bytes that each number of a table takes.
    pub(crate) fn cell_bytes(&self) -> u64 {
        match self.precision {
            Precision::Fp32 => 4,
            Precision::Fp16 => 2,
        }
    }

    /// Consecutive samples that share their negatives where these come from parts of so many rows: [`Config::share`], but at most one
    /// for every 128 rows. Small parts lie in the cache, where sharing saves little, and make the worst of it. Where parts allow less than four, none
    /// share: to set a block up for two samples takes longer than it saves.
    ///
    /// # Source
    /// A fit to the AUC of wiki-Vote and to samples a second on two cores, not theory.
    #[must_use]
    pub fn share_in(&self, rows_of_part: u32) -> u32 {
        match rows_of_part / 128 {
            0..4 => 1,
            most => self.share.min(1 << most.ilog2()),
        }
    }

    /// These settings with as many samples to a draw of negatives as a store's parts allow.
    #[must_use]
    pub fn sharing_in(&self, store: &Store) -> Config {
        Config {
            share: self.share_in(store.deal().n_rows(0)),
            ..self.clone()
        }
    }

    /// The bytes of a row, with the sum of squares that goes with it.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let squares = match self.optimiser {
            Optimiser::Sgd => 0,
            Optimiser::Adagrad => 4,
        };
        self.dim as u64 * self.cell_bytes() + squares
    }

    /// Of the device's kernels; each order has its own seed.
    pub(crate) fn settings(&self) -> shardgraph_device::sgns::Settings {
        shardgraph_device::sgns::Settings {
            dim: self.dim,
            n_negatives: self.negatives,
            group: self.share,
            seed: self.seed,
            mode: shardgraph_device::sgns::Mode::Hogwild,
        }
    }
}
