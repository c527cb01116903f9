//! Ape-X in checkpoints. The learner's part is in each of them: settings, counters, weights of both networks, optimiser. A run in lock step
//! adds the shard and the actor, and goes on bit for bit. A run on ranks does not: its shards and actors are elsewhere and never stop at
//! one moment, their memories may be larger than the rest by far, and actors fill empty ones again within `min_rows` transitions.

use serde::{Deserialize, Serialize};
use shardgraph_device::Device;
use shardgraph_replay::NStepFolder;
use shardgraph_runs::{Checkpoint, Folder, Tensors};

use super::actor::Actor;
use super::config::ApexConfig;
use super::learner::Learner;
use super::shard::Shard;
use crate::config::{AgentConfig, Algorithm};
use crate::dqn::{FILES, Pending, kind_of};
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::run::{RunOptions, Start};
use crate::topology::Books;

pub(super) const STATE: &str = FILES[0];
const RUN: &str = FILES[1];
const VERSION: u32 = 1;

/// What `run.json` holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) config: AgentConfig,
    pub(super) n_steps: u64,
    pub(super) n_updates: u64,
    pub(super) episodes: EpisodeStatistics,
    device: String,
    /// Where shard and actor stand, in lock step.
    pub(super) lock_step: Option<Counters>,
}

/// The counters of the shard and the actor in lock step.
#[derive(Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) n_inserted: u64,
    pub(super) n_sampled: u64,
    pub(super) n_batches: u64,
    pub(super) actor_episodes: EpisodeStatistics,
    pub(super) weights_at: Option<u64>,
    pub(super) version: u64,
}

impl Run {
    pub(super) fn of(checkpoint: &Checkpoint, device: &Device) -> Result<Run, Error> {
        let run: Run = checkpoint.json(RUN, VERSION)?;
        if run.device == kind_of(device) {
            return Ok(run);
        }
        Err(Error::input(format!(
            "{}: the run computes on `{1}`, and another kind of device rounds otherwise: resume it with --device {1}",
            checkpoint.origin(),
            run.device
        )))
    }

    pub(super) fn apex(&self) -> Result<ApexConfig, Error> {
        match &self.config.algorithm {
            Algorithm::Apex(apex) => Ok(apex.clone()),
            other => Err(Error::input(format!(
                "the checkpoint is of `{}`, expected `apex`",
                other.name()
            ))),
        }
    }
}

/// The learner and its books, at the start of a run or where its newest checkpoint was made.
pub(super) fn learner_of(
    (config, apex): (&AgentConfig, &ApexConfig),
    start: &Start,
    options: &RunOptions,
) -> Result<(Learner, Books), Error> {
    let mut learner = Learner::new(apex, config.seed, &options.device)?;
    let (mut n_steps, mut episodes) = (0, EpisodeStatistics::new(1));
    let folder = match start {
        Start::New { folder, .. } => {
            let folder = folder
                .as_deref()
                .map(|path| Folder::of_new_run(path, FILES));
            folder.transpose()?
        }
        Start::Resumed { folder } => {
            let (folder, checkpoint) = Folder::of_old_run(folder, FILES)?;
            let run = Run::of(&checkpoint, &options.device)?;
            restore_learner(&mut learner, run.n_updates, &checkpoint.tensors(STATE)?)?;
            (n_steps, episodes) = (run.n_steps, run.episodes);
            Some(folder)
        }
    };
    let counters = (n_steps, learner.n_updates);
    let books = Books::open(
        config.clone(),
        counters,
        episodes,
        (folder, options.stop_at),
    )?;
    Ok((learner, books))
}

pub(super) fn restore_learner(
    learner: &mut Learner,
    n_updates: u64,
    state: &Tensors<'_>,
) -> Result<(), Error> {
    learner.n_updates = n_updates;
    learner
        .agent
        .restore(&state.f32s("weights")?, state.u8s("optimiser")?)
}

/// The learner's part.
pub(super) fn learner_checkpoint(learner: &Learner, books: &Books) -> Result<Checkpoint, Error> {
    checkpoint_of(
        learner,
        (books.n_steps, &books.config, &books.episodes),
        None,
    )
}

pub(super) fn checkpoint_of(
    learner: &Learner,
    (n_steps, config, episodes): (u64, &AgentConfig, &EpisodeStatistics),
    lock_step: Option<(&Shard, &Actor)>,
) -> Result<Checkpoint, Error> {
    let optimiser = learner.agent.optimiser().to_bytes();
    let parts = lock_step.map(|(shard, actor)| Parts::of(shard, actor));
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.agent.all_weights())?;
    tensors.add_u8("optimiser", &optimiser)?;
    if let Some(parts) = &parts {
        parts.add_to(&mut tensors)?;
    }
    let mut checkpoint = Checkpoint::new(n_steps);
    checkpoint.add(STATE, tensors.to_bytes()?)?;
    let run = Run {
        config: config.clone(),
        n_steps,
        n_updates: learner.n_updates,
        episodes: episodes.clone(),
        device: kind_of(learner.agent.device()),
        lock_step: lock_step.map(|(shard, actor)| Counters {
            n_inserted: shard.limiter.n_inserted,
            n_sampled: shard.limiter.n_sampled,
            n_batches: shard.n_batches,
            actor_episodes: actor.episodes.clone(),
            weights_at: actor.weights_at,
            version: actor.version,
        }),
    };
    checkpoint.add_json(RUN, VERSION, &run)?;
    Ok(checkpoint)
}

/// The state of shard and actor as bytes.
struct Parts {
    memory: Vec<u8>,
    environments: Vec<u8>,
    rows: Vec<u8>,
    actor_weights: Vec<f32>,
    pending: Pending,
}

impl Parts {
    fn of(shard: &Shard, actor: &Actor) -> Parts {
        Parts {
            memory: shard.memory.to_bytes(),
            environments: actor.carts.to_bytes(),
            rows: actor.rows.to_bytes(),
            actor_weights: actor.weights().to_vec(),
            pending: Pending::of(&actor.folders),
        }
    }

    fn add_to<'a>(&'a self, tensors: &mut Tensors<'a>) -> Result<(), Error> {
        tensors.add_u8("shard/memory", &self.memory)?;
        tensors.add_u8("actor/environments", &self.environments)?;
        tensors.add_u8("actor/rows", &self.rows)?;
        tensors.add_f32("actor/weights", &self.actor_weights)?;
        self.pending.add_to(tensors)
    }
}

/// Shard and actor of a run in lock step.
pub(super) fn restore_parts(
    (shard, actor): (&mut Shard, &mut Actor),
    (n_steps, counters): (u64, Counters),
    state: &Tensors<'_>,
) -> Result<(), Error> {
    shard.memory.restore(state.u8s("shard/memory")?)?;
    shard.limiter.n_inserted = counters.n_inserted;
    shard.limiter.n_sampled = counters.n_sampled;
    shard.n_batches = counters.n_batches;
    actor.carts.restore(state.u8s("actor/environments")?)?;
    actor.rows.restore(state.u8s("actor/rows")?)?;
    actor.set_weights(counters.version, &state.f32s("actor/weights")?)?;
    let folders: &mut [NStepFolder<_>] = &mut actor.folders;
    Pending::from_tensors(state)?.push_into(folders)?;
    if counters.actor_episodes.n_environments() != actor.episodes.n_environments() {
        return Err(Error::input(
            "its episodes are those of another number of environments",
        ));
    }
    actor.episodes = counters.actor_episodes;
    (actor.n_steps, actor.weights_at) = (n_steps, counters.weights_at);
    Ok(())
}
