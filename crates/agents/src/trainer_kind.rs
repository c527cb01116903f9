//! Which trainer the settings ask for.

use crate::apex::lock_step::ApexLockStep;
use crate::impala::lock_step::ImpalaLockStep;
use crate::reinforce::ReinforceTrainer;
use shardgraph_job::Checkpoint;

use crate::config::{AgentConfig, Algorithm};
use crate::dqn::DqnTrainer;
use crate::error::Error;
use crate::ppo::PpoTrainer;
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::run_options::RunOptions;
use crate::sac::SacTrainer;

type Made = Result<Box<dyn RankTrainer>, Error>;

/// The trainer of an algorithm, as functions.
pub(crate) struct TrainerKind {
    pub(crate) check_ranks: fn(&AgentConfig, u32) -> Result<(), Error>,
    pub(crate) new: fn(&AgentConfig, &RunOptions, Place) -> Made,
    pub(crate) of_checkpoint: fn(&Checkpoint, &RunOptions, Place) -> Made,
}

impl TrainerKind {
    /// By the algorithm of these settings; DQN for those of actors on ranks, which it refuses by name.
    pub(crate) fn of(config: &AgentConfig) -> TrainerKind {
        match &config.algorithm {
            Algorithm::Apex(apex) if apex.lock_step => TrainerKind::by::<ApexLockStep>(),
            Algorithm::Impala(impala) if impala.lock_step => TrainerKind::by::<ImpalaLockStep>(),
            Algorithm::Reinforce(_) => TrainerKind::by::<ReinforceTrainer>(),
            Algorithm::Ppo(_) => TrainerKind::by::<PpoTrainer>(),
            Algorithm::Sac(_) => TrainerKind::by::<SacTrainer>(),
            _ => TrainerKind::by::<DqnTrainer>(),
        }
    }

    fn by<T: StartTrainer + 'static>() -> TrainerKind {
        TrainerKind {
            check_ranks: T::check_ranks,
            new: |config, options, place| Ok(Box::new(T::new(config, options, place)?)),
            of_checkpoint: |newest, options, place| {
                Ok(Box::new(T::of_checkpoint(newest, options, place)?))
            },
        }
    }
}
