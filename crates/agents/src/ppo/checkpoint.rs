//! What of all ranks goes into a checkpoint and into the metrics: the blocks' environments and episodes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_job::{Checkpoint, Ranks, Tensors};

use super::block::Block;
use crate::checkpoint::{Learner, RunState};
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::topology::wire::{from_bytes, to_bytes};

/// What PPO adds to `run.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct More {
    /// The running episodes of each block.
    pub(super) blocks: Vec<EpisodeStatistics>,
}

/// What a block has between two rollouts.
#[derive(Serialize, Deserialize)]
struct BlockState {
    index: u64,
    environments: Vec<u8>,
    episodes: EpisodeStatistics,
}

/// The checkpoint of this moment, on the first rank.
pub(super) fn checkpoint_of(
    run: &RunState,
    learner: Learner<'_>,
    own_blocks: &[Block],
    ranks: &mut Ranks<'_>,
) -> Result<Option<Checkpoint>, Error> {
    let own = own_blocks.iter().map(|block| BlockState {
        index: block.index,
        environments: block.vector.to_bytes(),
        episodes: block.episodes.clone(),
    });
    let mut blocks = gather(own.collect(), ranks.comm, ranks.timeout)?;
    if !ranks.is_first() {
        return Ok(None);
    }
    blocks.sort_by_key(|block| block.index);
    learner.sync()?;
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.params.flat())?;
    tensors.add_u8("optimiser", learner.optimiser.to_bytes())?;
    for block in &blocks {
        tensors.add_u8(&name_of(block.index), &block.environments)?;
    }
    let blocks = blocks.iter().map(|block| block.episodes.clone());
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
    let mut all = gather(all, comm, timeout)?;
    all.sort_by_key(|&(t, place, _)| (t, place));
    Ok(all.into_iter().map(|(.., episode)| episode).collect())
}

/// The lists of all ranks, one behind the other.
fn gather<T: Serialize + DeserializeOwned>(
    own: Vec<T>,
    comm: &mut Comm,
    timeout: Timeout,
) -> Result<Vec<T>, Error> {
    if comm.size() == 1 {
        return Ok(own);
    }
    let own = to_bytes(&own);
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
        send: own.as_slice().into(),
        recv: (&mut all).into(),
        counts: &counts,
    };
    comm.run(op, timeout)?;
    let (mut lists, mut rest) = (Vec::new(), &all[..]);
    for &n in &counts {
        let (part, behind) = rest.split_at(n);
        lists.extend(from_bytes::<Vec<T>>("a list of a rank", part)?);
        rest = behind;
    }
    Ok(lists)
}
