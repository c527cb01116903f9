//! An episode with graph, state and loop on a device that is not the host, by the closed form or by the model.

#[cfg(test)]
pub(crate) mod tests;

use std::num::NonZeroU32;

use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_layers::ScoreTable;
use shardgraph_ops::{Adjacency as Block, ResidentAdjacency};
use shardgraph_shard::Adjacency;

use crate::inference::{Episode, Rules, unbounded_scores};
use crate::kernels::cover;
use crate::model_scorer::ModelScorer;
use crate::{AdjacencyScale, Error, Select};

/// Runs an episode to its end on one rank; the host only asks now and then how far it is.
///
/// The cover is the host's cover: the state is integers, and a score is the same f32 operations in the same order.
pub(crate) fn run_on_device(
    device: &Device,
    adjacency: &Adjacency,
    table: &ScoreTable,
    scale: AdjacencyScale,
    mut rules: Rules<'_>,
) -> Result<Episode, Error> {
    let graph = ResidentAdjacency::upload(device, block(adjacency))?;
    let (starts, alpha, beta) = table.pieces();
    let on_device = cover::Rules {
        score: cover::ScorePieces {
            starts,
            alpha,
            beta,
        },
        scale: scale_on_device(scale),
        select: select_on_device(rules.select),
        keep_isolated: rules.keep_isolated,
    };
    let mut episode = cover::Episode::start(device, &graph, on_device)?;
    loop {
        let progress = episode.advance()?;
        if is_done(progress, &mut rules)? {
            return Ok(ended(progress, episode.cover()?));
        }
    }
}

/// Tells how far an episode is; true at its end.
fn is_done(progress: cover::Progress, rules: &mut Rules<'_>) -> Result<bool, Error> {
    if progress.n_steps > 0 {
        (rules.progress)(progress.n_candidates, progress.n_cover as usize);
    }
    rules.options.check_cancelled()?;
    Ok(progress.is_done)
}

fn ended(progress: cover::Progress, cover: Vec<u32>) -> Episode {
    Episode {
        cover,
        n_steps: progress.n_steps.into(),
        exchange: None,
    }
}

/// Steps between two looks at the state, at most: each step behind the end is an evaluation for nothing.
const MAX_STEPS_AT_ONCE: u32 = 8;

/// Runs an episode of the model to its end on one rank: a step is one launch, and the host only asks now and then how far it is.
///
/// The picks are those of the loop on the host with the same scores: the order of scores and nodes is total, and what is
/// removed is counted in integers.
pub(crate) fn run_model_on_device(
    scorer: &mut ModelScorer<'_>,
    scale: AdjacencyScale,
    mut rules: Rules<'_>,
    comm: &mut Comm,
) -> Result<Episode, Error> {
    let (device, shard) = (scorer.model.device.clone(), scorer.model.shard.clone());
    let Some(graph) = shard.resident_adjacency() else {
        return Err(Error::internal(
            "the graph of an episode is not on its device",
        ));
    };
    let picks = cover::PickRules {
        scale: scale_on_device(scale),
        select: select_on_device(rules.select),
        keep_isolated: rules.keep_isolated,
    };
    let mut episode = cover::ModelEpisode::start(&device, graph, picks)?;
    let step = scorer.capture(comm, |model| {
        episode.write_rows(model.rows()?)?;
        Ok(episode.pick(model.scores()?)?)
    })?;
    let at_once = (rules.n_nodes / 8).clamp(1, MAX_STEPS_AT_ONCE);
    let mut n_launched = 0;
    loop {
        let look = episode.look()?;
        if look.is_unbounded {
            return Err(unbounded_scores());
        }
        if is_done(look.progress, &mut rules)? {
            return Ok(ended(look.progress, episode.cover()?));
        }
        if n_launched > rules.n_nodes {
            return Err(Error::internal("an episode has more steps than nodes")); // each picks one
        }
        for _ in 0..at_once {
            step.launch()?;
        }
        n_launched += at_once;
    }
}

fn scale_on_device(scale: AdjacencyScale) -> cover::Scale {
    match scale {
        AdjacencyScale::One => cover::Scale::One,
        AdjacencyScale::LargestDegree => cover::Scale::LargestDegree,
    }
}

fn select_on_device(select: Select) -> cover::Select {
    match select {
        Select::Adaptive => cover::Select::Adaptive,
        // A selection of no node is refused before any episode begins.
        Select::Fixed(d) => cover::Select::Fixed(NonZeroU32::new(d).unwrap_or(NonZeroU32::MIN)),
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
