//! Settings of a training run.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use shardgraph_device::DeviceKind;
use shardgraph_error::words;

use crate::{Error, Store};

/// Proximity that is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// First order: neighbours are alike. One table for both ends of an edge, without directions.
    #[serde(rename = "1")]
    First,
    /// Second order: nodes with the same neighbours are alike. A table of vertices and one of
    /// contexts.
    #[serde(rename = "2")]
    Second,
    /// Both, one after the other, each with its own tables; rows are joined.
    #[serde(rename = "both")]
    Both,
}

impl Order {
    /// True if order 1 is trained.
    #[must_use]
    pub fn is_first_too(self) -> bool {
        self != Order::Second
    }

    /// The order of one number, 1 or 2.
    pub(crate) fn one(number: u32) -> Order {
        match number {
            1 => Order::First,
            _ => Order::Second,
        }
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

words!(Order, Error, Error::setting, "order"; "1" => First, "2" => Second, "both" => Both);

/// Numbers of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 4 B a number.
    Fp32,
    /// 2 B a number, rounded at random so that small steps are not lost.
    Fp16,
}

words!(Precision, Error, Error::setting, "precision"; "fp32" => Fp32, "fp16" => Fp16);

/// Way in which samples that are worked on at once meet at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// On the host: in a round, a thread has its parts to itself, so the bits do not depend on the
    /// number of threads. On a device: batches that are summed row by row, slow.
    Deterministic,
    /// On a device alone: all at once. fp32 numbers are added to atomically; of two updates that
    /// meet at an fp16 number, one may be lost.
    Hogwild,
}

words!(Mode, Error, Error::setting, "mode"; "deterministic" => Deterministic, "hogwild" => Hogwild);

/// Optimiser: how a gradient becomes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// The rate times the gradient.
    Sgd,
    /// Each row's rate falls with the root of the sum of its gradients' mean squares; 4 B a row
    /// more.
    Adagrad,
}

words!(Optimiser, Error, Error::setting, "optimiser"; "sgd" => Sgd, "adagrad" => Adagrad);

/// Loss of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// Skip-gram with negative sampling, as LINE has it: an edge and its negatives, each for
    /// itself.
    Sgns,
    /// The cross entropy of an edge's target among negatives that a chunk of edges shares.
    Softmax,
}

words!(Loss, Error, Error::setting, "loss"; "sgns" => Sgns, "softmax" => Softmax);

/// Settings under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Settings that held-back edges choose ([`crate::Line`]), among at most 100 epochs.
    Default,
    /// Both orders and 10 epochs; nothing is chosen.
    Line,
    /// The learning rate of LINE's authors, 0.025, whatever the number of epochs.
    Paper,
}

words!(
    Preset, Error, Error::setting, "preset";
    "default" => Default,
    "line" => Line,
    "paper" => Paper,
);

/// The settings of a run; names are those of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Loss of a sample; default sgns. [`Config::softmax`] has the settings of the other one.
    pub loss: Loss,
    /// Proximity that is trained; default both.
    pub order: Order,
    /// Columns of each order's table; default 128.
    pub dim: usize,
    /// Passes of as many samples as there are edges; default 10.
    pub epochs: u32,
    /// Negatives of a sample, up to 31; default 5. With the softmax loss uniform ones of a chunk,
    /// up to 1024; default 64.
    pub negatives: u32,
    /// Consecutive samples that share their negatives, a power of two; default 1, as in LINE.
    /// Fewer do in small parts: [`Config::shared_negatives_in`]. With the softmax loss the edges of
    /// a chunk, whose targets are negatives of one another; default 64.
    pub shared_negatives: u32,
    /// Learning rate at the start; it falls in a line to a ten-thousandth of that. Default:
    /// 1.5 / epochs, within 0.025 to 0.3, and 0.05 for Adagrad. With the softmax loss it does not
    /// fall; default 0.1.
    pub learning_rate: Option<f32>,
    /// Optimiser; default sgd.
    pub optimiser: Optimiser,
    /// Way in which samples meet at a row; default deterministic on the host, which has no other,
    /// and hogwild on a device.
    pub mode: Option<Mode>,
    /// Numbers of the tables; default fp32.
    pub precision: Precision,
    /// Threads; default 1. On the host they train, and the result does not depend on their number.
    /// For a device they prepare edges.
    pub threads: usize,
    /// Queues of prepared edges for a device, one for each of its streams; default 2.
    pub queues: usize,
    /// Buckets that wait in a queue at most; default 2.
    pub queue_length: usize,
    /// Samples that a device works on at once, over all its queues; default: one for 8 rows of a bucket's part, as far as it can.
    ///
    /// On the host, with sgd alone: samples of a bucket (up to 8192) whose
    /// gradients are all taken before any row changes. This is the worst that samples in flight
    /// can do to the answer; slow, for measurements. Default there: one.
    pub edges_in_flight: Option<u32>,
    /// Devices that train: the run's and those behind it, each with its own queues; default 1. They
    /// hold the rows of their parts and exchange the others between rounds.
    pub ranks: u32,
    /// Bytes of a device's memory that a run may take; default: what is free.
    ///
    /// Rows take it first; edges that do not fit beside them come from the host on each pass.
    pub device_memory: Option<u64>,
    /// Seed; default 1.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            loss: Loss::Sgns,
            order: Order::Both,
            dim: 128,
            epochs: 10,
            negatives: 5,
            shared_negatives: 1,
            learning_rate: None,
            optimiser: Optimiser::Sgd,
            mode: None,
            precision: Precision::Fp32,
            threads: 1,
            queues: 2,
            queue_length: 2,
            edges_in_flight: None,
            ranks: 1,
            device_memory: None,
            seed: 1,
        }
    }
}

impl Config {
    /// The settings of a preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Config {
        Config {
            epochs: match preset {
                Preset::Default => 100,
                Preset::Line | Preset::Paper => 10,
            },
            learning_rate: match preset {
                Preset::Default | Preset::Line => None,
                Preset::Paper => Some(0.025),
            },
            ..Config::default()
        }
    }

    /// The settings of the softmax loss: one table, Adagrad, chunks of 64 edges with 64 uniform
    /// negatives, 5 epochs.
    ///
    /// # Source
    /// Lerer et al., "PyTorch-BigGraph" (2019), whose chunks and uniform negatives are 50 each.
    #[must_use]
    pub fn softmax() -> Config {
        Config {
            loss: Loss::Softmax,
            order: Order::First,
            epochs: 5,
            negatives: 64,
            shared_negatives: 64,
            optimiser: Optimiser::Adagrad,
            ..Config::default()
        }
    }

    /// The learning rate at the start.
    ///
    /// # Source
    /// The default is a fit to measured AUC between 1 and 50 epochs, not theory.
    #[must_use]
    pub fn first_rate(&self) -> f32 {
        let fitted = match (self.loss, self.optimiser) {
            (Loss::Softmax, _) => 0.1,
            (Loss::Sgns, Optimiser::Sgd) => (1.5 / self.epochs.max(1) as f32).clamp(0.025, 0.3),
            (Loss::Sgns, Optimiser::Adagrad) => 0.05,
        };
        self.learning_rate.unwrap_or(fitted)
    }

    /// Columns of the embedding: `dim` for each order.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.order.each().len() * self.dim
    }

    /// Bytes that one sample moves between tables and processor.
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
    /// [`crate::Error::Setting`], which names the setting.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=65536).contains(&self.dim) {
            return Err(Error::setting("dim", self.dim, "1 to 65536 columns"));
        }
        let (most, expected) = match self.loss {
            Loss::Sgns => (31, "at most 31"),
            Loss::Softmax => (1024, "at most 1024"),
        };
        if self.negatives > most {
            return Err(Error::setting("negatives", self.negatives, expected));
        }
        if !self.shared_negatives.is_power_of_two() || self.shared_negatives > 1024 {
            return Err(Error::setting(
                "shared_negatives",
                self.shared_negatives,
                "a power of two up to 1024",
            ));
        }
        if !(1..=1 << 20).contains(&self.epochs) {
            return Err(Error::setting("epochs", self.epochs, "1 to 1048576"));
        }
        for (name, value, most) in [
            ("threads", self.threads, 1024),
            ("queues", self.queues, 64),
            ("queue_length", self.queue_length, 1024),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::setting(name, value, &format!("1 to {most}")));
            }
        }
        if self.edges_in_flight == Some(0) {
            return Err(Error::setting("edges_in_flight", 0, "1 or more"));
        }
        if !(1..=64).contains(&self.ranks) {
            return Err(Error::setting("ranks", self.ranks, "1 to 64"));
        }
        if self.device_memory == Some(0) {
            return Err(Error::setting("device_memory", 0, "a number of bytes"));
        }
        if self.loss == Loss::Softmax {
            self.check_softmax()?;
        }
        match self.learning_rate {
            Some(rate) if !(rate > 0.0 && rate <= 10.0) => Err(Error::setting(
                "learning_rate",
                rate,
                "a number above 0, at most 10",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses settings that the softmax loss does not have.
    fn check_softmax(&self) -> Result<(), Error> {
        let refuse = |field: &str, given: &dyn std::fmt::Display, expected: &str| {
            Err(Error::setting(field, given, expected))
        };
        if self.order != Order::First {
            let given = if self.order == Order::Both {
                "both"
            } else {
                "2"
            };
            return refuse(
                "order",
                &given,
                "1 with the softmax loss, which has one table",
            );
        }
        if self.optimiser != Optimiser::Adagrad {
            return refuse("optimiser", &"sgd", "adagrad with the softmax loss");
        }
        if self.precision != Precision::Fp32 {
            return refuse("precision", &"fp16", "fp32 with the softmax loss");
        }
        if let Some(mode) = self.mode.filter(|&mode| mode != Mode::Deterministic) {
            return refuse("mode", &mode, "deterministic with the softmax loss");
        }
        match self.edges_in_flight {
            Some(n) => refuse("edges_in_flight", &n, "none with the softmax loss"),
            None => Ok(()),
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

    /// Bytes of each number of a table.
    pub(crate) fn cell_bytes(&self) -> u64 {
        match self.precision {
            Precision::Fp32 => 4,
            Precision::Fp16 => 2,
        }
    }

    /// Consecutive samples that share their negatives in parts of `rows_of_part` rows.
    ///
    /// As [`Config::shared_negatives`], but at most one for every 128 rows: small parts lie in the
    /// cache, where sharing saves little. Where parts allow less than four, none share: to set a
    /// block up for two samples takes longer than it saves.
    ///
    /// # Source
    /// A fit to the AUC of wiki-Vote and to samples a second on two cores, not theory.
    #[must_use]
    pub fn shared_negatives_in(&self, rows_of_part: u32) -> u32 {
        match rows_of_part / 128 {
            0..4 => 1,
            most => self.shared_negatives.min(1 << most.ilog2()),
        }
    }

    /// These settings with as many samples for each draw of negatives as a store's parts allow.
    #[must_use]
    pub fn sharing_in(&self, store: &Store) -> Config {
        if self.loss == Loss::Softmax {
            return self.clone();
        }
        Config {
            shared_negatives: self.shared_negatives_in(store.partition().n_rows(0)),
            ..self.clone()
        }
    }

    /// Bytes of a row, with its sum of squares.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let squares = match self.optimiser {
            Optimiser::Sgd => 0,
            Optimiser::Adagrad => 4,
        };
        self.dim as u64 * self.cell_bytes() + squares
    }

    /// Of the device's kernels; each order has its own seed.
    pub(crate) fn settings(&self) -> crate::kernels::sgns::Settings {
        crate::kernels::sgns::Settings {
            dim: self.dim,
            n_negatives: self.negatives,
            group: self.shared_negatives,
            seed: self.seed,
            mode: crate::kernels::sgns::Mode::Hogwild,
        }
    }
}
