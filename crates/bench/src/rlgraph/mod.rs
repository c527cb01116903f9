//! Figures of the RLgraph paper, with cart and pole in place of Pong and DMLab.
//!
//! A file measures one kind of figure; requests are in `benches/rlgraph/`.

mod acting;
mod building;
mod games;
mod learning;
mod peers;
mod processes;
mod replicas;
mod scaling;
mod stepping;
mod tasks;
mod topologies;

use anyhow::{Error, Result};
use serde_json::Value;

use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};

/// Figure 4b: acting by number of environments.
pub(crate) fn act(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    acting::run(&parsed(request)?, out)
}

/// Figure 4a: seconds that building takes.
pub(crate) fn build(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    building::run(&parsed(request)?, out)
}

/// Figure 6b: returns by step over several seeds.
pub(crate) fn learn(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    learning::run(&parsed(request)?, context.options, out)
}

/// Scores of MinAtar's games over several seeds.
pub(crate) fn games(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    games::run(&parsed(request)?, out)
}

/// Figure 7: one update by number of replicas.
pub(crate) fn replicas(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    replicas::run(&parsed(request)?, out)
}

/// Figure 5: frames by number of actors that this machine does not have, by a law.
pub(crate) fn scale(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    scaling::run(&parsed(request)?, out)
}

/// Stepping of environments alone, by name, size and threads.
pub(crate) fn steps(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    stepping::run(&parsed(request)?, context.options, out)
}

/// Figure 6a: a single actor by task size.
pub(crate) fn tasks(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    tasks::run(&parsed(request)?, out)
}

/// Figures 5 and 8: learner and actors, as threads and as processes.
pub(crate) fn topology(_: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    topologies::run(&parsed(request)?, out)
}

/// One process of a topology, started by [`topology`].
pub(crate) fn run_rank(request: &str) -> Result<()> {
    let rank = serde_json::from_str(request)?;
    processes::run_rank(&rank).map_err(Error::from_boxed)
}
