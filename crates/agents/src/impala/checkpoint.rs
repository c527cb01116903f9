//! IMPALA in checkpoints: the learner's part in each of them, and in lock step the actor's too, so that the run goes on bit for bit. On
//! ranks the actors are elsewhere; they begin new episodes, and what was on its way is made again.

use serde::{Deserialize, Serialize};
use shardgraph_device::Device;
use shardgraph_runs::{Checkpoint, Folder, Tensors};

use super::actor::Actor;
use super::config::ImpalaConfig;
use super::learner::Learner;
use crate::config::{AgentConfig, Algorithm};
use crate::dqn::{FILES, kind_of};
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
    /// The actor's, in lock step.
    pub(super) actor_episodes: Option<EpisodeStatistics>,
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

    pub(super) fn impala(&self) -> Result<ImpalaConfig, Error> {
        match &self.config.algorithm {
            Algorithm::Impala(impala) => Ok(impala.clone()),
            other => Err(Error::input(format!(
                "the checkpoint is of `{}`, expected `impala`",
                other.name()
            ))),
        }
    }
}

/// The learner and its books, at the start of a run or where its newest checkpoint was made.
pub(super) fn learner_of(
    (config, impala): (&AgentConfig, &ImpalaConfig),
    start: &Start,
    options: &RunOptions,
) -> Result<(Learner, Books), Error> {
    let mut learner = Learner::new(impala, config.seed, &options.device)?;
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
    learner.params.set_flat(&state.f32s("weights")?)?;
    learner.optimiser.restore(state.u8s("optimiser")?)?;
    learner.n_updates = n_updates;
    Ok(())
}

/// The learner's part, and in lock step the actor's.
pub(super) fn checkpoint_of(
    learner: &Learner,
    (n_steps, config, episodes): (u64, &AgentConfig, &EpisodeStatistics),
    actor: Option<&Actor>,
) -> Result<Checkpoint, Error> {
    let optimiser = learner.optimiser.to_bytes();
    let environments = actor.map(|actor| actor.carts.to_bytes());
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.params.flat())?;
    tensors.add_u8("optimiser", &optimiser)?;
    if let (Some(actor), Some(environments)) = (actor, &environments) {
        tensors.add_u8("actor/environments", environments)?;
        tensors.add_f32("actor/begins", &actor.state.begins)?;
        tensors.add_f32("actor/hidden", &actor.state.hidden)?;
        tensors.add_f32("actor/cell", &actor.state.cell)?;
    }
    let mut checkpoint = Checkpoint::new(n_steps);
    checkpoint.add(STATE, tensors.to_bytes()?)?;
    let run = Run {
        config: config.clone(),
        n_steps,
        n_updates: learner.n_updates,
        episodes: episodes.clone(),
        device: kind_of(&learner.device),
        actor_episodes: actor.map(|actor| actor.episodes.clone()),
    };
    checkpoint.add_json(RUN, VERSION, &run)?;
    Ok(checkpoint)
}

/// The actor of a run in lock step, whose weights are the learner's.
pub(super) fn restore_actor(
    actor: &mut Actor,
    (learner, n_steps): (&Learner, u64),
    episodes: EpisodeStatistics,
    state: &Tensors<'_>,
) -> Result<(), Error> {
    actor.carts.restore(state.u8s("actor/environments")?)?;
    let lists = ["actor/begins", "actor/hidden", "actor/cell"].map(|name| state.f32s(name));
    let [begins, hidden, cell] = lists;
    let (begins, hidden, cell) = (begins?, hidden?, cell?);
    let lengths = [
        actor.state.begins.len(),
        actor.state.hidden.len(),
        actor.state.cell.len(),
    ];
    let is_one = episodes.n_environments() == actor.episodes.n_environments();
    if [begins.len(), hidden.len(), cell.len()] != lengths || !is_one {
        return Err(Error::input(
            "the actor of the checkpoint has another number of environments",
        ));
    }
    actor.state.begins = begins;
    actor.state.hidden = hidden;
    actor.state.cell = cell;
    actor.episodes = episodes;
    actor.n_steps = n_steps;
    actor.set_weights(learner.n_updates, learner.params.trained())
}
