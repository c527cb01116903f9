//! The training loop: act in every environment, remember, and learn from what is remembered.

use std::ops::Range;

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks, tags};
use shardgraph_random::KeyedRng;

use super::agent::SacAgent;
use super::config::SacConfig;
use super::update::SacUpdate;
use crate::advance::Advance;
use crate::agent::Agent;
use crate::checkpoint::{Learner, RunState};
use crate::config::AgentConfig;
use crate::dqn::ReplayConfig;
use crate::episodes::Episode;
use crate::error::Error;
use crate::observations::ActionBuffer;
use crate::off_policy::OffPolicyRun;
use crate::rank_trainer::{Place, RankTrainer, Standing};
use crate::rules::Rule;
use crate::run_options::RunOptions;

const TEMPERATURE: &str = "train/temperature";

/// Soft actor-critic in a vector of environments: everything that decides how a run goes on.
///
/// # Determinism
/// As of DQN: steps, updates and weights have the same bits for any number of ranks up to [`SacConfig::gradient_blocks`], and whether or not
/// the state went through a checkpoint in between.
#[derive(Debug)]
pub(crate) struct SacTrainer {
    run: OffPolicyRun,
    sac: SacConfig,
    agent: SacAgent,
    actions: ActionBuffer,
}

impl SacTrainer {
    /// A step in every environment; gives the numbers of these steps.
    fn act(&mut self, episodes: &mut Vec<Episode>) -> Result<Range<u64>, Error> {
        let run = &self.run;
        let mut stream = KeyedRng::new(run.config.seed, "sac actions", run.n_steps);
        let (seen, n) = (run.experience.seen(), run.experience.len());
        match run.n_steps < self.sac.learning_starts {
            true => self.agent.act_at_random(n, &mut stream, &mut self.actions),
            false => self
                .agent
                .act_sampled(seen, &mut stream, &mut self.actions)?,
        }
        self.run.step(self.actions.actions(), episodes)
    }

    fn update(&mut self, comm: &mut Comm, deadline: Timeout) -> Result<SacUpdate, Error> {
        let run = &mut self.run;
        let (seed, n) = (run.config.seed, run.n_updates);
        let mut draws = KeyedRng::new(seed, "replay", n);
        let (rows, _) = run.replay.sample(self.sac.batch_size, 0.0, &mut draws)?;
        let mut noise = KeyedRng::new(seed, "sac noise", n);
        let update = self.agent.update(rows, &mut noise, comm, deadline)?;
        run.n_updates += 1;
        Ok(update)
    }

    fn scalars(&self, update: SacUpdate) -> Vec<(&'static str, f32)> {
        vec![
            (tags::TD_LOSS, update.critic),
            (tags::POLICY_LOSS, update.policy),
            (tags::ENTROPY, update.entropy),
            (tags::Q_VALUES, update.q_mean),
            (TEMPERATURE, self.agent.temperature()),
        ]
    }
}

impl RankTrainer for SacTrainer {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<SacTrainer, Error> {
        let sac = config.algorithm.sac()?;
        let replay = ReplayConfig {
            capacity: sac.replay.capacity,
            prioritized: None,
        };
        Ok(SacTrainer {
            run: OffPolicyRun::new(config, options, &replay, (1, sac.gamma))?,
            agent: SacAgent::of_config(config, options)?,
            actions: ActionBuffer::default(),
            sac: sac.clone(),
        })
    }

    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        Rule::ranks(n_ranks, config.algorithm.sac()?.gradient_blocks).check()
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<SacTrainer, Error> {
        let mut trainer = SacTrainer::new(&RunState::config_of(checkpoint)?, options, place)?;
        let agent = &mut trainer.agent;
        let learner = |weights: &[f32], optimiser: &[u8]| agent.restore(weights, optimiser);
        trainer.run.restore(checkpoint, &options.device, learner)?;
        Ok(trainer)
    }

    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let learner = Learner {
            params: self.agent.params(),
            optimiser: self.agent.optimiser(),
            device: self.agent.device(),
        };
        match ranks.is_first() {
            true => self.run.to_checkpoint(learner).map(Some),
            false => Ok(None),
        }
    }

    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error> {
        let (mut episodes, mut losses) = (Vec::new(), Vec::new());
        let steps = self.act(&mut episodes)?;
        // A step of many environments may have begun before learning does.
        for step in steps.start.max(self.sac.learning_starts)..steps.end {
            if !step.is_multiple_of(self.sac.train_every) {
                continue;
            }
            let update = self.update(comm, timeout)?;
            if self.run.n_updates.is_multiple_of(self.sac.log_updates) {
                losses = vec![self.scalars(update)];
            }
        }
        Ok(Advance {
            n_steps: steps.end - steps.start,
            episodes,
            losses,
            ..Advance::default()
        })
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        self.agent.params()
    }

    fn into_agent(self, _: &RunOptions) -> Result<Box<dyn Agent + Send>, Error> {
        Ok(Box::new(self.agent))
    }
}
