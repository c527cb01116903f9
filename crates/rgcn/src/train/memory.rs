//! The check before a run begins that it fits: the machine's memory, and the budget of each rank's
//! device.

use std::ops::Range;

use serde::Serialize;
use shardgraph_device::free_host_bytes;

use super::options::RunOptions;
use crate::model::comm::RankComm;
use crate::model::layout::{Layout, RankContext};
use crate::model::network::Network;
use crate::size::size;
use crate::{Config, Error};

/// The memory of a rank's device, and the bytes moved to it and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// The most bytes that it was predicted to hold, the graph not counted.
    pub predicted_bytes: u64,
    /// The most bytes that it held.
    pub peak_bytes: u64,
    /// Of these W_r of the relations that it builds, with
    /// [`Execution::Paper`](crate::Execution::Paper); as much again is its gradient. Else 0.
    pub weight_bytes: u64,
    /// Tiles in which it took the sources of a layer; 1: all at once.
    pub tiles: u64,
    /// Bytes between host and device in an epoch, both ways; 0 where the input's rows stayed on the device.
    pub moved_bytes: u64,
    /// Milliseconds of an epoch in which they were copied; 0 on a GPU, where they are not timed.
    pub copy_ms: f64,
    /// The share of those in which the device worked on another tile; 0 without tiles, and on a GPU.
    pub hidden_share: f64,
}

impl DeviceMemory {
    /// That of a network after so many epochs.
    pub(super) fn of(network: &Network<'_>, n_epochs: usize) -> DeviceMemory {
        let mut report = DeviceMemory {
            predicted_bytes: network.predicted_bytes,
            peak_bytes: network.memory.peak().total(),
            weight_bytes: 4 * network.materialised_weights.len() as u64,
            tiles: network.n_tiles() as u64,
            ..DeviceMemory::default()
        };
        if let Some(traffic) = network.traffic() {
            let n_epochs = n_epochs.max(1) as f64;
            report.moved_bytes = (traffic.n_bytes as f64 / n_epochs) as u64;
            report.copy_ms = 1e3 * traffic.copy_s / n_epochs;
            report.hidden_share = 1.0 - traffic.wait_s / traffic.copy_s.max(f64::MIN_POSITIVE);
        }
        report
    }

    /// Those of all ranks, in their order, on each of them.
    pub(super) fn gather(self, ranks: &mut RankComm<'_>) -> Result<Vec<DeviceMemory>, Error> {
        let own = [
            self.predicted_bytes,
            self.peak_bytes,
            self.weight_bytes,
            self.tiles,
            self.moved_bytes,
            self.copy_ms.to_bits(),
            self.hidden_share.to_bits(),
        ];
        let all = ranks.gather(&own)?;
        let of_rank = |words: &[u64]| DeviceMemory {
            predicted_bytes: words[0],
            peak_bytes: words[1],
            weight_bytes: words[2],
            tiles: words[3],
            moved_bytes: words[4],
            copy_ms: f64::from_bits(words[5]),
            hidden_share: f64::from_bits(words[6]),
        };
        Ok(all.chunks_exact(own.len()).map(of_rank).collect())
    }
}

/// The ranks that share this process' memory, of so many.
#[derive(Clone, Copy, Debug)]
pub(super) enum Here {
    All,
    One(usize),
}

impl Here {
    /// Those of `n_ranks` ranks that are here.
    pub(super) fn ranks(self, n_ranks: u32) -> Range<usize> {
        match self {
            Here::All => 0..n_ranks as usize,
            Here::One(rank) => rank..rank + 1,
        }
    }
}

/// The layouts of a run's training, and of the outputs that it makes at its end where epochs do not reach them.
#[derive(Clone, Copy)]
pub(super) struct RunLayouts<'l> {
    pub(super) trained: &'l Layout<'l>,
    pub(super) evaluated: Option<&'l Layout<'l>>,
}

/// Refuses a run whose ranks do not fit: none on its device, or those of this process in its memory
/// together.
///
/// # Errors
/// [`Error::Memory`] with the bytes that are needed and those that there are.
pub(super) fn check(
    config: &Config,
    n_classes: u32,
    layouts: RunLayouts<'_>,
    options: &RunOptions,
    here: Here,
) -> Result<(), Error> {
    let all = 0..options.n_ranks as usize;
    let ranks = here.ranks(options.n_ranks);
    let (mut needed, mut n_materialised) = (0, 0);
    let RunLayouts { trained, evaluated } = layouts;
    let context = |layout, rank| RankContext {
        config,
        layout,
        rank,
        n_classes,
    };
    for rank in ranks {
        needed += context(trained, rank).dry_run_with(evaluated)?;
        n_materialised += trained.n_materialised(rank, config.widths(n_classes)[0]);
    }
    if options.budget_per_device.is_some() && options.device.is_host() {
        for layout in [trained].into_iter().chain(evaluated) {
            all.clone()
                .try_for_each(|rank| context(layout, rank).check_fit())?;
        }
    }
    let materialised = match n_materialised {
        0 => String::new(),
        n => format!(", {} of it W_r and its gradient", size(8 * n)),
    };
    let cure = "choose fewer --bases, narrower layers or --optimiser sgd, or spread the ranks over machines";
    check_room(
        needed,
        options.memory,
        &format!(" beside the graph{materialised}"),
        cure,
    )
}

/// Refuses training of more bytes than `limit`, or without one than this machine has free.
pub(crate) fn check_room(
    needed: u64,
    limit: Option<u64>,
    detail: &str,
    cure: &str,
) -> Result<(), Error> {
    let (there_is, whose) = match limit {
        Some(memory) => (Some(memory), "--memory-limit allows"),
        None => (free_host_bytes(), "this machine has free"),
    };
    let Some(there_is) = there_is.filter(|&bytes| bytes < needed) else {
        return Ok(());
    };
    let (needed, there_is) = (size(needed), size(there_is));
    let message = format!("training needs {needed}{detail}, {whose} {there_is}: {cure}");
    Err(Error::new(Error::Memory, message))
}
