//! Figures of the RLgraph paper, with cart and pole in place of Pong and DMLab.
//!
//! A file measures one kind of figure; requests are in `benches/rlgraph/`.

pub(crate) mod acting;
pub(crate) mod building;
pub(crate) mod games;
pub(crate) mod learning;
mod peers;
mod processes;
pub(crate) mod replicas;
pub(crate) mod scaling;
pub(crate) mod stepping;
pub(crate) mod tasks;
pub(crate) mod topologies;

use anyhow::{Error, Result};

/// One process of a topology, started by [`topologies`].
pub(crate) fn run_rank(request: &str) -> Result<()> {
    let rank = serde_json::from_str(request)?;
    processes::run_rank(&rank).map_err(Error::from_boxed)
}
