//! Ape-X in checkpoints. The learner's part is in each of them: settings, counters, weights of both networks, optimiser. A run in lock step
//! adds the shard and the actor, and goes on bit for bit. A run on ranks does not: its shards and actors are elsewhere and never stop at
//! one moment, their memories may be larger than the rest by far, and actors fill empty ones again within `min_rows` transitions.

use serde::{Deserialize, Serialize};
use shardgraph_job::{Checkpoint, Tensors};

use super::actor::Actor;
use super::learner::Learner;
use super::shard::Shard;
use crate::checkpoint::RunState;
use crate::episodes::EpisodeStatistics;
use crate::error::Error;

/// The name of the motion of the actor's carts.
const ENVIRONMENTS: &str = "actor/environments";

/// What Ape-X adds to `run.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct More {
    /// Where shard and actor stand, in lock step.
    pub(super) lock_step: Option<Counters>,
}

/// The counters of the shard and the actor in lock step.
#[derive(Serialize, Deserialize)]
pub(super) struct Counters {
    n_inserted: u64,
    n_sampled: u64,
    n_batches: u64,
    actor_episodes: EpisodeStatistics,
    weights_at: Option<u64>,
    version: u64,
}

/// The learner's part, and in lock step the shard's and the actor's.
pub(super) fn checkpoint_of(
    run: &RunState,
    learner: &Learner,
    lock_step: Option<(&Shard, &Actor)>,
) -> Result<Checkpoint, Error> {
    learner.agent.params().sync()?;
    learner.agent.optimiser().sync()?;
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.agent.params().flat())?;
    tensors.add_u8("optimiser", learner.agent.optimiser().to_bytes())?;
    if let Some((shard, actor)) = lock_step {
        tensors.add_u8("shard/memory", shard.memory.to_bytes())?;
        tensors.add_u8("actor/rows", actor.waiting()?.to_bytes())?;
        tensors.add_f32("actor/weights", actor.weights())?;
        actor.experience.add_to(ENVIRONMENTS, &mut tensors)?;
    }
    let lock_step = lock_step.map(|(shard, actor)| Counters {
        n_inserted: shard.limiter.n_inserted,
        n_sampled: shard.limiter.n_sampled,
        n_batches: shard.n_batches,
        actor_episodes: actor.experience.episodes().clone(),
        weights_at: actor.weights_at,
        version: actor.version,
    });
    run.to_checkpoint(More { lock_step }, &tensors)
}

/// Shard and actor of a run in lock step.
pub(super) fn restore_parts(
    shard: &mut Shard,
    actor: &mut Actor,
    n_steps: u64,
    counters: Counters,
    state: &Tensors<'_>,
) -> Result<(), Error> {
    shard.memory.restore(state.u8s("shard/memory")?)?;
    shard.limiter.n_inserted = counters.n_inserted;
    shard.limiter.n_sampled = counters.n_sampled;
    shard.n_batches = counters.n_batches;
    actor.restore_waiting(state.u8s("actor/rows")?)?;
    actor.set_weights(counters.version, &state.f32s("actor/weights")?)?;
    actor
        .experience
        .restore(ENVIRONMENTS, state, counters.actor_episodes)?;
    (actor.n_steps, actor.weights_at) = (n_steps, counters.weights_at);
    Ok(())
}
