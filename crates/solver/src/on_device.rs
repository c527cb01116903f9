//! An episode of the closed-form policy with graph, state and loop on a device that is not the host.

#[cfg(test)]
pub(crate) mod tests;

use std::num::NonZeroU32;

use shardgraph_device::Device;
use shardgraph_layers::ScoreTable;
use shardgraph_ops::{Adjacency as Block, ResidentAdjacency};
use shardgraph_shard::Adjacency;

use crate::inference::{Episode, Rules};
use crate::kernels::cover;
use crate::{AdjacencyScale, Error, Select};

/// Runs an episode to its end on one rank; the host only asks now and then how far it is.
///
/// The cover is the host's cover: the state is integers, and a score is the same f32 operations in the same order.
pub(crate) fn run_on_device(
    device: &Device,
    adjacency: &Adjacency,
    table: &ScoreTable,
    scale: AdjacencyScale,
    rules: Rules<'_>,
) -> Result<Episode, Error> {
    let graph = ResidentAdjacency::upload(device, block(adjacency))?;
    let (starts, alpha, beta) = table.pieces();
    let on_device = cover::Rules {
        score: cover::ScorePieces {
            starts,
            alpha,
            beta,
        },
        scale: match scale {
            AdjacencyScale::One => cover::Scale::One,
            AdjacencyScale::LargestDegree => cover::Scale::LargestDegree,
        },
        select: match rules.select {
            Select::Adaptive => cover::Select::Adaptive,
            // A selection of no node is refused before any episode begins.
            Select::Fixed(d) => cover::Select::Fixed(NonZeroU32::new(d).unwrap_or(NonZeroU32::MIN)),
        },
        keep_isolated: rules.keep_isolated,
    };
    let mut episode = cover::Episode::start(device, &graph, on_device)?;
    loop {
        let progress = episode.advance()?;
        if progress.n_steps > 0 {
            (rules.progress)(progress.n_candidates, progress.n_cover as usize);
        }
        rules.options.check_cancelled()?;
        if progress.is_done {
            return Ok(Episode {
                cover: episode.cover()?,
                n_steps: progress.n_steps.into(),
                exchange: None,
            });
        }
    }
}

fn block(adjacency: &Adjacency) -> Block<'_> {
    match adjacency {
        Adjacency::Csr(graph) => Block::Csr {
            row_ptr: graph.offsets(),
            columns: graph.columns(),
            values: None,
        },
        Adjacency::Bits(bits) => Block::Bits {
            words: bits.words(),
            words_per_row: bits.words_per_row(),
        },
    }
}
