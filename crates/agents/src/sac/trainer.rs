//! Soft actor-critic as an agent of the off-policy loop: draws of its own policy, and updates with keyed noise.

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::tags;
use shardgraph_random::KeyedRng;

use super::agent::SacAgent;
use crate::agent::Agent;
use crate::checkpoint::Learner;
use crate::config::AgentConfig;
use crate::dqn::ReplayConfig;
use crate::error::Error;
use crate::observations::ActionBuffer;
use crate::off_policy::{OffPolicyAgent, OffPolicyRun, OffPolicyTrainer, Scalars, Transitions};
use crate::rules::BatchSettings;
use crate::run_options::RunOptions;

const TEMPERATURE: &str = "train/temperature";

pub(crate) type SacTrainer = OffPolicyTrainer<SacAgent>;

impl OffPolicyAgent for SacAgent {
    fn begin(config: &AgentConfig, options: &RunOptions) -> Result<SacAgent, Error> {
        SacAgent::of_config(config, options)
    }

    fn transitions(config: &AgentConfig) -> Result<Transitions, Error> {
        let sac = config.algorithm.sac()?;
        Ok(Transitions {
            replay: ReplayConfig {
                capacity: sac.replay.capacity,
                prioritized: None,
            },
            n_step: 1,
            gamma: sac.gamma,
        })
    }

    fn batch_settings(config: &AgentConfig) -> Result<BatchSettings, Error> {
        Ok(config.algorithm.sac()?.batch_settings())
    }

    fn explore(
        &mut self,
        run: &OffPolicyRun,
        actions: &mut ActionBuffer,
    ) -> Result<Option<f32>, Error> {
        let mut stream = KeyedRng::new(run.config.seed, "sac actions", run.n_steps);
        let (seen, n) = (run.experience.seen(), run.experience.len());
        match run.n_steps < run.config.algorithm.sac()?.learning_starts {
            true => self.act_at_random(n, &mut stream, actions),
            false => self.act_sampled(seen, &mut stream, actions)?,
        }
        Ok(None)
    }

    fn learn(
        &mut self,
        run: &mut OffPolicyRun,
        _: u64,
        comm: &mut Comm,
        timeout: Timeout,
    ) -> Result<Scalars, Error> {
        let batch_size = run.config.algorithm.sac()?.batch_size;
        let (seed, n) = (run.config.seed, run.n_updates);
        let mut draws = KeyedRng::new(seed, "replay", n);
        let (rows, _) = run.replay.sample(batch_size, 0.0, &mut draws)?;
        let mut noise = KeyedRng::new(seed, "sac noise", n);
        let update = self.update(rows, &mut noise, comm, timeout)?;
        Ok(vec![
            (tags::TD_LOSS, update.critic),
            (tags::POLICY_LOSS, update.policy),
            (tags::ENTROPY, update.entropy),
            (tags::Q_VALUES, update.q_mean),
            (TEMPERATURE, self.temperature()),
        ])
    }

    fn learner(&self) -> Learner<'_> {
        Learner {
            params: self.params(),
            optimiser: self.optimiser(),
            device: self.device(),
        }
    }

    fn restore(&mut self, all_weights: &[f32], optimiser: &[u8]) -> Result<(), Error> {
        SacAgent::restore(self, all_weights, optimiser)
    }
}
