//! The memory of training that predicts links, found by a dry run before anything is made: the training's own steps on
//! arrays that have lengths and no numbers.

use std::sync::Arc;

use shardgraph_collectives::Comm;

use super::options::LinkOptions;
use super::ranking::LinkScores;
use super::trainer::{LinkInputs, LinkTrainer, Tables};
use crate::Error;
use crate::model::comm::RankComm;
use crate::model::layout::Layout;
use crate::train::memory::check_room;
use crate::train::run::EpochTrainer;

/// The bytes of a run, those of all ranks together.
#[derive(Clone, Copy)]
pub(super) struct LinkMemory {
    /// Of the triples, which the caller has, and what ranks share.
    pub(super) shared_bytes: u64,
    pub(super) predicted_bytes: u64,
}

/// Refuses a run that does not fit.
///
/// # Errors
/// [`Error::Memory`] with the bytes that are needed and those that there are.
/// # Complexity
/// Two steps of each rank without their numbers. An encoder's messages of a step are made.
pub(super) fn check(
    inputs: LinkInputs<'_>,
    tables: &Arc<Tables>,
    options: &LinkOptions,
) -> Result<LinkMemory, Error> {
    let triples = 12 * inputs.data.all().count() as u64;
    let graph = inputs.layout.map_or(0, Layout::n_bytes);
    let shared_bytes = triples + tables.n_bytes() + graph;
    let mut predicted_bytes = shared_bytes;
    for rank in 0..options.n_ranks {
        predicted_bytes += dry_run(inputs, tables, options, rank)?;
    }
    let cure =
        "choose a smaller --dim or --batch, fewer --ranks, or sampled nodes with --loss softmax";
    check_room(predicted_bytes, options.memory, "", cure)?;
    Ok(LinkMemory {
        shared_bytes,
        predicted_bytes,
    })
}

/// The most bytes of a rank's arrays.
fn dry_run(
    inputs: LinkInputs<'_>,
    tables: &Arc<Tables>,
    options: &LinkOptions,
    rank: u32,
) -> Result<u64, Error> {
    let mut comm = Comm::dry_run(rank, options.n_ranks);
    let mut trainer = LinkTrainer::with_tables(inputs, Arc::clone(tables), &comm, true)?;
    let ranks = &mut RankComm::dry(&mut comm);
    let warm = inputs.config.warm_epochs;
    // An epoch of each kind, and one that begins with all that these leave.
    for epoch in [0, warm, warm + 1] {
        trainer.pass(epoch, ranks)?;
        trainer.rank(inputs.data.valid(), ranks)?;
        if !inputs.data.valid().is_empty() {
            trainer.best = None;
            trainer.keep_best(Some(LinkScores::default()));
        }
        if options.folder.is_some() {
            trainer.checkpoint(epoch + 1, ranks)?;
        }
    }
    trainer.take_best(ranks)?;
    trainer.rank(inputs.data.test(), ranks)?;
    Ok(trainer.memory.peak().total())
}
