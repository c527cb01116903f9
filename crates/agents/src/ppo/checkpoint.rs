//! What of all ranks goes into a checkpoint and into the metrics: the blocks' environments and episodes.

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_job::{Checkpoint, Ranks, Tensors};

use super::block::Block;
use crate::checkpoint::{Learner, RunState};
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::topology::{Reader, Writer};

/// What PPO adds to `run.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct More {
    /// The running episodes of each block.
    pub(super) blocks: Vec<EpisodeStatistics>,
}

/// The checkpoint of this moment, on the first rank.
pub(super) fn checkpoint_of(
    run: &RunState,
    learner: Learner<'_>,
    own_blocks: &[Block],
    ranks: &mut Ranks<'_>,
) -> Result<Option<Checkpoint>, Error> {
    let mut own = Vec::new();
    for block in own_blocks {
        let episodes = serde_json::to_vec(&block.episodes)
            .map_err(|error| Error::internal(format!("returns without a form: {error}")))?;
        let writer = Writer::new()
            .u64(block.index)
            .bytes(&block.vector.to_bytes())
            .bytes(&episodes);
        own.push(writer.finish());
    }
    let own = own
        .iter()
        .fold(Writer::new(), |writer, block| writer.bytes(block));
    let count = own_blocks.len();
    let own = Writer::new()
        .u64(count as u64)
        .bytes(&own.finish())
        .finish();
    let of_ranks = gather(&own, ranks.comm, ranks.timeout)?;
    if !ranks.is_first() {
        return Ok(None);
    }
    let mut blocks = Vec::new();
    for bytes in &of_ranks {
        let mut reader = Reader::new("the blocks of a rank", bytes);
        let count = reader.u64()?;
        let mut inner = Reader::new("the blocks of a rank", reader.bytes()?);
        for _ in 0..count {
            let mut block = Reader::new("a block", inner.bytes()?);
            let index = block.u64()?;
            let (environments, episodes) = (block.bytes()?, block.bytes()?);
            let episodes: EpisodeStatistics = serde_json::from_slice(episodes)
                .map_err(|error| Error::internal(format!("returns of a block: {error}")))?;
            blocks.push((index, environments, episodes));
        }
    }
    blocks.sort_by_key(|(index, ..)| *index);
    let optimiser = learner.optimiser.to_bytes();
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.params.flat())?;
    tensors.add_u8("optimiser", &optimiser)?;
    for (index, environments, _) in &blocks {
        tensors.add_u8(&name_of(*index), environments)?;
    }
    let blocks = blocks.iter().map(|(.., episodes)| episodes.clone());
    let more = More {
        blocks: blocks.collect(),
    };
    run.to_checkpoint(more, &tensors).map(Some)
}

fn name_of(index: u64) -> String {
    format!("environments/{index}")
}

/// The environments of a rank's blocks where a checkpoint was made, of whose blocks `episodes` are.
pub(super) fn restore_blocks(
    blocks: &mut [Block],
    episodes: &[EpisodeStatistics],
    state: &Tensors<'_>,
) -> Result<(), Error> {
    for block in blocks {
        block.vector.restore(state.u8s(&name_of(block.index))?)?;
        let own = episodes.get(block.index as usize).cloned();
        let own = own.ok_or_else(|| Error::input("a block has no running episodes"))?;
        block.episodes = own.of_environments(block.vector.n_environments())?;
    }
    Ok(())
}

/// The episodes of all ranks that ended in the last rollout, by time and environment, on every rank.
pub(super) fn gather_episodes(
    blocks: &[Block],
    comm: &mut Comm,
    timeout: Timeout,
) -> Result<Vec<Episode>, Error> {
    let mut all = Vec::new();
    for block in blocks {
        for &(t, idx, episode) in &block.rollout.episodes {
            all.push((t, block.index << 32 | u64::from(idx), episode));
        }
    }
    if comm.size() > 1 {
        let returns: Vec<f32> = all.iter().map(|(.., of)| of.episodic_return).collect();
        let own = Writer::new()
            .u64s(all.iter().map(|&(t, ..)| u64::from(t)))
            .u64s(all.iter().map(|&(_, place, _)| place))
            .u64s(all.iter().map(|(.., of)| of.length))
            .f32s(&returns);
        let of_ranks = gather(&own.finish(), comm, timeout)?;
        all.clear();
        for bytes in &of_ranks {
            let mut reader = Reader::new("the episodes of a rank", bytes);
            let (times, places) = (reader.u64s()?, reader.u64s()?);
            let (lengths, returns) = (reader.u64s()?, reader.f32s()?);
            reader.end()?;
            let keys = times.iter().zip(&places);
            for (((&t, &place), &length), &episodic_return) in keys.zip(&lengths).zip(&returns) {
                let episode = Episode {
                    episodic_return,
                    length,
                };
                all.push((t as u32, place, episode));
            }
        }
    }
    all.sort_by_key(|&(t, place, _)| (t, place));
    Ok(all.into_iter().map(|(.., episode)| episode).collect())
}

/// The bytes of every rank, by rank.
fn gather(own: &[u8], comm: &mut Comm, timeout: Timeout) -> Result<Vec<Vec<u8>>, Error> {
    let mut lengths = vec![0u64; comm.size() as usize];
    let send = [own.len() as u64];
    let op = Op::AllGather {
        send: (&send).into(),
        recv: (&mut lengths).into(),
    };
    comm.run(op, timeout)?;
    let counts: Vec<usize> = lengths.iter().map(|&n| n as usize).collect();
    let mut all = vec![0u8; counts.iter().sum()];
    let op = Op::AllGatherV {
        send: own.into(),
        recv: (&mut all).into(),
        counts: &counts,
    };
    comm.run(op, timeout)?;
    let mut rest = &all[..];
    let parts = counts.iter().map(|&n| {
        let (part, behind) = rest.split_at(n);
        rest = behind;
        part.to_vec()
    });
    Ok(parts.collect())
}
