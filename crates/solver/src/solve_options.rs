//! How a graph is solved: ranks, steps, starts, the path of the embedding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardgraph_collectives::Timeout;
use shardgraph_device::Device;
use shardgraph_layers::Path;
use shardgraph_shard::Communication;

use crate::error::ErrorKind;
use crate::{Error, Select, TrainedPolicy};

/// Each has the candidates before it to pass over.
const MOST_STARTS: u32 = 65_536;

/// How a graph is solved.
#[derive(Debug, Clone)]
pub struct SolveOptions {
    /// Ranks that share the graph; threads of this process.
    pub n_ranks: u32,
    /// Nodes for each policy evaluation.
    pub select: Select,
    /// Episodes, each from another first pick: the best node, the second best, and so on. The best answer is given, of equal ones the first.
    ///
    /// # Source
    /// Kwon et al., POMO: Policy Optimization with Multiple Optima for Reinforcement Learning, NeurIPS 2020, section 4.
    pub starts: u32,
    /// The path of the embedding; absent means the cheapest exact one.
    pub path: Option<Path>,
    /// Keep picks that earlier picks of the same step have left without an edge, as the paper does.
    pub keep_isolated: bool,
    /// Apply the exact rules that only remove nodes before the first step and after each ([`shardgraph_classical::vertex_cover::Peeling`]). For
    /// vertex covers, on the host; every rank then has lists of the whole graph for them.
    pub reduce_inside: bool,
    /// How ranks share the sums over neighbours; absent means by gathering all rows. Refused where there are none: the closed form has no
    /// use for it.
    pub communication: Option<Communication>,
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// Set, for example by `progress`, it ends the solve after the present step with [`ErrorKind::Cancelled`].
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Where to compute. The closed form runs wholly on a device that is not the host, on one rank; of other paths the
    /// model's operations do, with a stream for each rank.
    pub device: Device,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            select: Select::Fixed(1),
            starts: 1,
            path: None,
            keep_isolated: false,
            reduce_inside: false,
            communication: None,
            deadline: Timeout::default(),
            cancelled: None,
            device: Device::host(),
        }
    }
}

impl SolveOptions {
    /// Refuses numbers that cannot be right.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_ranks(self.n_ranks)?;
        self.select.check()?;
        match self.starts {
            1..=MOST_STARTS => Ok(()),
            n => Err(Error::input(format!(
                "{n} starts were asked for: expected 1 to {MOST_STARTS}"
            ))),
        }
    }

    /// Ends a solve that was cancelled.
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        match &self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(ErrorKind::Cancelled.into()),
            _ => Ok(()),
        }
    }
}

/// Refuses a number of ranks that cannot be right.
pub(crate) fn check_ranks(n_ranks: u32) -> Result<(), Error> {
    match n_ranks {
        1..=1024 => Ok(()),
        _ => Err(Error::input(format!(
            "{n_ranks} ranks were asked for: expected 1 to 1024"
        ))),
    }
}

/// The path to use: the wanted one if it applies, else the cheapest exact one.
pub(crate) fn usable_path(
    policy: &TrainedPolicy,
    is_weighted: bool,
    wanted: Option<Path>,
) -> Result<Path, Error> {
    let best = policy.model.embedding.best_path(is_weighted);
    match wanted {
        None => Ok(best),
        Some(path) if best == Path::General && path != best => Err(Error::input(format!(
            "the policy's embedding has the general path alone, not {path}: leave --path at auto"
        ))),
        Some(Path::Collapsed) if best != Path::Collapsed => Err(Error::input(
            "the collapsed path needs edges without weights and nodes without features: leave --path at auto",
        )),
        Some(path) => Ok(path),
    }
}
