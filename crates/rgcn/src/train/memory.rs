//! Whether a run fits, said before it begins: the machine's memory, and the budget of each rank's device.

use std::ops::Range;

use serde::Serialize;
use shardgraph_collectives::{Comm, Deadline, Op};
use shardgraph_device::free_host_bytes;

use super::RunOptions;
use crate::model::built::n_built;
use crate::model::memory::{fit, predicted};
use crate::model::network::Network;
use crate::model::plan::Layout;
use crate::size::size;
use crate::{Config, Error, ErrorKind};

/// What the device of a rank held, and what was moved to it and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// The most bytes that it was predicted to hold, the graph not counted.
    pub predicted_bytes: u64,
    /// The most bytes that it held.
    pub peak_bytes: u64,
    /// Of these W_r of the relations that it builds, with [`Execution::Paper`](crate::Execution::Paper); as much again is its gradient. Else 0.
    pub weight_bytes: u64,
    /// Tiles in which it took the sources of the first layer; 1: all at once, and they stayed.
    pub tiles: u64,
    /// Bytes between host and device in an epoch, both ways; 0 without tiles.
    pub moved_bytes: u64,
    /// Milliseconds of an epoch in which they were copied.
    pub copy_ms: f64,
    /// The share of those in which the device worked on another tile; 0 without tiles.
    pub hidden_share: f64,
}

impl DeviceMemory {
    /// Of a network after so many epochs.
    pub(super) fn of(network: &Network<'_>, n_epochs: usize) -> DeviceMemory {
        let report = DeviceMemory {
            predicted_bytes: network.predicted_bytes,
            peak_bytes: network.peak_bytes,
            weight_bytes: 4 * network.built.len() as u64,
            tiles: 1,
            ..DeviceMemory::default()
        };
        let Some((n_tiles, traffic)) = network.traffic() else {
            return report;
        };
        let n_epochs = n_epochs.max(1) as f64;
        DeviceMemory {
            tiles: n_tiles as u64,
            moved_bytes: (traffic.n_bytes as f64 / n_epochs) as u64,
            copy_ms: 1e3 * traffic.copy_s / n_epochs,
            hidden_share: 1.0 - traffic.wait_s / traffic.copy_s.max(f64::MIN_POSITIVE),
            ..report
        }
    }

    /// Those of all ranks, in their order, on each of them.
    pub(super) fn gather(
        self,
        comm: &mut Comm,
        deadline: Deadline,
    ) -> Result<Vec<DeviceMemory>, Error> {
        let own = [
            self.predicted_bytes,
            self.peak_bytes,
            self.weight_bytes,
            self.tiles,
            self.moved_bytes,
            self.copy_ms.to_bits(),
            self.hidden_share.to_bits(),
        ];
        let mut all = vec![0u64; own.len() * comm.size() as usize];
        let op = Op::AllGather {
            send: (&own).into(),
            recv: (&mut all).into(),
        };
        comm.run(op, deadline)?;
        let ranks = all.chunks_exact(own.len());
        let of_rank = |words: &[u64]| DeviceMemory {
            predicted_bytes: words[0],
            peak_bytes: words[1],
            weight_bytes: words[2],
            tiles: words[3],
            moved_bytes: words[4],
            copy_ms: f64::from_bits(words[5]),
            hidden_share: f64::from_bits(words[6]),
        };
        Ok(ranks.map(of_rank).collect())
    }
}

/// The ranks that share this process' memory, of so many.
#[derive(Clone, Copy, Debug)]
pub(super) enum Here {
    All,
    One(usize),
}

/// Refuses a run whose ranks do not fit: none on its device, or those of this process in its memory together.
///
/// # Errors
/// [`ErrorKind::Memory`] with what is needed and what there is.
pub(super) fn check(
    config: &Config,
    layouts: &[&Layout<'_>],
    (options, n_classes): (&RunOptions, u32),
    here: Here,
) -> Result<(), Error> {
    let ranks = match here {
        Here::All => 0..options.n_ranks as usize,
        Here::One(rank) => rank..rank + 1,
    };
    let mut needed = 0;
    for layout in layouts {
        for rank in ranks.clone() {
            needed += predicted(config, layout, (rank, n_classes), None);
        }
        for rank in 0..options.n_ranks as usize {
            if let Some(budget) = options.budget_per_device {
                fit(
                    config,
                    layout,
                    &layout.plans(rank),
                    (rank, n_classes, budget),
                )?;
            }
        }
    }
    let (there_is, whose) = match options.memory {
        Some(memory) => (Some(memory), "--memory allows"),
        None => (free_host_bytes(), "this machine has free"),
    };
    match there_is.filter(|&bytes| bytes < needed) {
        None => Ok(()),
        Some(bytes) => {
            let of_built = of_built(config, layouts, (ranks, n_classes));
            let message = format!(
                "training needs {} beside the graph{of_built}, {whose} {}: choose fewer --bases, narrower layers or --optimiser sgd, or spread the ranks over machines",
                size(needed),
                size(bytes)
            );
            Err(Error::new(ErrorKind::Memory, message))
        }
    }
}

/// How much of what is needed is W_r, where it is built.
fn of_built(
    config: &Config,
    layouts: &[&Layout<'_>],
    (ranks, n_classes): (Range<usize>, u32),
) -> String {
    match layouts.iter().find(|layout| layout.builds_weights) {
        Some(layout) => {
            let n_bytes = ranks.map(|rank| 8 * n_built(config, layout, rank, n_classes));
            format!(", {} of it W_r and its gradient", size(n_bytes.sum()))
        }
        None => String::new(),
    }
}

/// Ends on all ranks alike where one of them cannot begin.
pub(super) fn agree<T>(
    result: Result<T, Error>,
    comm: &mut Comm,
    deadline: Deadline,
) -> Result<T, Error> {
    let own = [u8::from(result.is_err())];
    let mut all = vec![0u8; comm.size() as usize];
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    let met = comm.run(op, deadline);
    let value = result?;
    met?;
    match all.iter().position(|&failed| failed != 0) {
        None => Ok(value),
        Some(rank) => {
            let message = format!("rank {rank} cannot begin; it says why in its own output");
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}
