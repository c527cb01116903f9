//! The training loop's whole state as the files of a checkpoint.

use shardgraph_job::{Checkpoint, Tensors};

use super::trainer::DqnTrainer;
use crate::checkpoint::{NoMore, RunState, restore};
use crate::error::Error;
use crate::run_options::RunOptions;

/// The name of the environments' state.
const ENVIRONMENTS: &str = "environments";

impl DqnTrainer {
    /// Everything that decides how the run goes on.
    ///
    /// # Errors
    /// When the state has no form as files, which is a defect of the program.
    pub fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
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
            episodes: self.episodes().clone(),
            ..RunState::first(&self.config, 0, self.agent.device())
        };
        run.to_checkpoint(NoMore {}, &tensors)
    }

    /// The run that a checkpoint was made of, to go on as if it had never stopped.
    ///
    /// # Errors
    /// When the checkpoint is of another version or kind of device, or its parts do not belong together.
    pub fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
    ) -> Result<DqnTrainer, Error> {
        let (run, NoMore {}) = RunState::of(checkpoint, &options.device)?;
        let mut trainer = DqnTrainer::new(&run.config, options)?;
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
