//! IMPALA in checkpoints: the learner's part in each of them, and in lock step the actor's too, so that the run goes on bit for bit. On
//! ranks the actors are elsewhere; they begin new episodes, and what was on its way is made again.

use serde::{Deserialize, Serialize};
use shardgraph_job::{Checkpoint, Tensors};

use super::actor::Actor;
use super::learner::Learner;
use crate::checkpoint::RunState;
use crate::episodes::EpisodeStatistics;
use crate::error::Error;

/// What IMPALA adds to `run.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct More {
    /// The actor's, in lock step.
    pub(super) actor_episodes: Option<EpisodeStatistics>,
}

/// The learner's part, and in lock step the actor's.
pub(super) fn checkpoint_of(
    run: &RunState,
    learner: &Learner,
    actor: Option<&Actor>,
) -> Result<Checkpoint, Error> {
    learner.params.sync()?;
    learner.optimiser.sync()?;
    let mut tensors = Tensors::new();
    tensors.add_f32("weights", learner.params.flat())?;
    tensors.add_u8("optimiser", learner.optimiser.to_bytes())?;
    if let Some(actor) = actor {
        tensors.add_u8("actor/environments", actor.vector.to_bytes())?;
        tensors.add_f32("actor/begins", &actor.state.begins)?;
        tensors.add_f32("actor/hidden", &actor.state.hidden)?;
        tensors.add_f32("actor/cell", &actor.state.cell)?;
    }
    let actor_episodes = actor.map(|actor| actor.episodes.clone());
    run.to_checkpoint(More { actor_episodes }, &tensors)
}

/// The actor of a run in lock step, whose weights are the learner's.
pub(super) fn restore_actor(
    actor: &mut Actor,
    learner: &Learner,
    n_steps: u64,
    episodes: EpisodeStatistics,
    state: &Tensors<'_>,
) -> Result<(), Error> {
    actor.vector.restore(state.u8s("actor/environments")?)?;
    let lists = ["actor/begins", "actor/hidden", "actor/cell"].map(|name| state.f32s(name));
    let [begins, hidden, cell] = lists;
    let (begins, hidden, cell) = (begins?, hidden?, cell?);
    let lengths = [
        actor.state.begins.len(),
        actor.state.hidden.len(),
        actor.state.cell.len(),
    ];
    if [begins.len(), hidden.len(), cell.len()] != lengths {
        return Err(Error::input(
            "the actor of the checkpoint has another number of environments",
        ));
    }
    actor.state.begins = begins;
    actor.state.hidden = hidden;
    actor.state.cell = cell;
    actor.episodes = episodes.of_environments(actor.episodes.n_environments())?;
    actor.n_steps = n_steps;
    actor.set_weights(learner.n_updates, learner.params.trained())
}
