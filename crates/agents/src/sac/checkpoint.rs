//! The training loop's whole state as the files of a checkpoint.

use shardgraph_job::{Checkpoint, Tensors};

use super::trainer::SacTrainer;
use crate::checkpoint::{NoMore, RunState, restore};
use crate::error::Error;
use crate::rank_trainer::{Place, RankTrainer};
use crate::run_options::RunOptions;

/// The name of the environments' state.
const ENVIRONMENTS: &str = "environments";

impl SacTrainer {
    /// Everything that decides how the run goes on.
    pub(super) fn checkpoint(&self) -> Result<Checkpoint, Error> {
        let (optimiser, replay) = (self.agent.optimiser().to_bytes(), self.replay.to_bytes());
        let experience = self.experience.to_parts();
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.agent.params().flat())?;
        tensors.add_u8("optimiser", &optimiser)?;
        tensors.add_u8("replay", &replay)?;
        experience.add_to(ENVIRONMENTS, &mut tensors)?;
        let run = RunState {
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.experience.episodes().clone(),
            ..RunState::first(&self.config, 0, self.agent.device())
        };
        run.to_checkpoint(NoMore {}, &tensors)
    }

    /// The run that a checkpoint was made of, to go on as if it had never stopped.
    pub(super) fn restored(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<SacTrainer, Error> {
        let (run, NoMore {}) = RunState::of(checkpoint, &options.device)?;
        let mut trainer = SacTrainer::new(&run.config, options, place)?;
        (trainer.n_steps, trainer.n_updates) = (run.n_steps, run.n_updates);
        restore(checkpoint, |state| {
            let (weights, optimiser) = (state.f32s("weights")?, state.u8s("optimiser")?);
            trainer.agent.restore(&weights, optimiser)?;
            trainer.replay.restore(state.u8s("replay")?)?;
            trainer
                .experience
                .restore(ENVIRONMENTS, state, run.episodes)
        })?;
        Ok(trainer)
    }
}
