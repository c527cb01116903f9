//! The agent: policy, temperature, critics and their slow copies in one arena, a program that acts and a program that learns.

use std::path::Path;

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{
    Initialiser, Optimiser, SacDistribution, SacNetworks, SacPolicy, Temperature, TwinCritic,
};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;
use shardgraph_replay::Rows;

use super::config::SacConfig;
use super::update::{SacUpdate, UpdateProgram};
use crate::act_programs::{ActPrograms, Record};
use crate::agent::Agent;
use crate::block_update::Trained;
use crate::config::AgentConfig;
use crate::error::{Call, Error};
use crate::observations::{self, ActionBuffer, Seen};
use crate::run_environments::Spaces;
use crate::run_options::RunOptions;
use crate::weights;

/// A soft actor-critic, with weights that stay on its device.
///
/// # Determinism
/// Actions depend on weights, observations and the stream; an update on weights, optimiser, batch and the stream of its noise. Neither
/// depends on the number of ranks.
///
/// ```
/// use shardgraph_agents::{ActionBuffer, Agent, AgentConfig, RunOptions, SacAgent, Seen};
/// use shardgraph_environments::Actions;
///
/// let config = AgentConfig::named("pendulum-sac").unwrap();
/// let mut agent = SacAgent::of_config(&config, &RunOptions::default())?;
/// let mut chosen = ActionBuffer::default();
/// agent.act_greedily(Seen::from(&[1.0, 0.0, 0.0]), &mut chosen)?;
/// assert!(matches!(chosen.actions(), Actions::Continuous([torque]) if torque.abs() <= 2.0));
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct SacAgent {
    device: Device,
    params: Params,
    policy: SacPolicy,
    temperature: Temperature,
    optimiser: Optimiser,
    update: UpdateProgram,
    acting: ActPrograms,
    drawn: Vec<f32>,
}

impl SacAgent {
    /// An agent for environments of these spaces, with first weights from `seed`.
    ///
    /// # Errors
    /// When the action is neither discrete nor a box with finite bounds, or a setting cannot be right.
    pub fn new(
        config: &SacConfig,
        spaces: &Spaces,
        seed: u64,
        device: &Device,
    ) -> Result<SacAgent, Error> {
        config.check(spaces, 1)?;
        let first = Initialiser {
            seed,
            ..Initialiser::default()
        };
        let (both, hidden) = (spaces.both(), &config.network.hidden[..]);
        let mut params = Params::new();
        let policy = SacPolicy::build(&mut params, "policy", both, hidden, first)?;
        let (initial, is_learned) = (config.temperature.initial, config.temperature.learned);
        let temperature = Temperature::build(&mut params, "temperature", initial, is_learned)?;
        let critics = TwinCritic::build(&mut params, "critics", both, hidden, first)?;
        params.freeze_rest();
        let targets = TwinCritic::build(&mut params, "targets", both, hidden, first)?;
        params.copy_trained_to_frozen()?;
        let networks = SacNetworks {
            policy: &policy,
            temperature: &temperature,
            critics: &critics,
            targets: &targets,
        };
        Ok(SacAgent {
            optimiser: Optimiser::new(config.optimiser, params.trained_len())?,
            update: UpdateProgram::new(config, &params, &networks, spaces, device)?,
            acting: ActPrograms::new("SacAgent", "a number of the policy", policy.n_inputs()),
            device: device.clone(),
            params,
            policy,
            temperature,
            drawn: Vec::new(),
        })
    }

    /// The agent of a run's settings before its first step.
    ///
    /// # Errors
    /// As [`SacAgent::new`], and for another algorithm.
    pub fn of_config(config: &AgentConfig, options: &RunOptions) -> Result<SacAgent, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let sac = config.algorithm.sac()?;
        SacAgent::new(sac, environments.spaces(), config.seed, &options.device)
    }

    /// What a nat of the policy's entropy is worth now.
    pub fn temperature(&self) -> f32 {
        self.temperature.of_params(&self.params)
    }

    /// Actions of equal probability, in place of the policy's.
    pub(super) fn act_at_random(
        &mut self,
        n: usize,
        stream: &mut KeyedRng,
        actions: &mut ActionBuffer,
    ) {
        match self.policy.distribution() {
            SacDistribution::Squashed(policy) => {
                self.drawn.clear();
                let draw = |_| 2.0 * stream.uniform_f32() - 1.0;
                self.drawn.extend((0..n * policy.n_elements()).map(draw));
                policy.actions_into(&self.drawn, actions.continuous());
            }
            SacDistribution::Softmax(policy) => {
                let n_actions = policy.n_actions() as u32;
                let draws = (0..n).map(|_| stream.below_u32(n_actions));
                actions.discrete().extend(draws);
            }
        }
    }

    fn act(
        &mut self,
        seen: Seen<'_>,
        stream: Option<&mut KeyedRng>,
        actions: &mut ActionBuffer,
    ) -> Result<(), Error> {
        let call = Call::new("SacAgent", "act");
        let n = observations::check(call, self.policy.n_inputs(), seen.observations)?;
        let policy = &self.policy;
        let record: Record<'_> = &|record, seen| policy.rows(record, seen);
        let rows = self
            .acting
            .rows(&self.params, &self.device, seen.observations, n, record)?;
        match (policy.distribution(), stream) {
            (SacDistribution::Squashed(policy), stream) => {
                self.drawn.clear();
                match stream {
                    None => policy.means_into(&rows, &mut self.drawn),
                    Some(stream) => policy.sample_into(&rows, stream, &mut self.drawn)?,
                }
                policy.actions_into(&self.drawn, actions.continuous());
            }
            (SacDistribution::Softmax(policy), None) => policy.best_into(&rows, actions.discrete()),
            (SacDistribution::Softmax(policy), Some(stream)) => {
                policy.sample_into(&rows, stream, actions.discrete())?;
            }
        }
        Ok(())
    }

    /// One step of the optimiser on a batch of transitions, and one of the target critics. All ranks of `comm` call it with the same batch
    /// and stream; each computes its blocks of it.
    pub(super) fn update(
        &mut self,
        rows: &Rows,
        stream: &mut KeyedRng,
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<SacUpdate, Error> {
        let distribution = self.policy.distribution();
        let trained = Trained {
            params: &mut self.params,
            optimiser: &mut self.optimiser,
        };
        let update = self
            .update
            .step(trained, distribution, rows, stream, comm, deadline)?;
        self.acting.weights_changed();
        Ok(update)
    }

    pub(super) fn restore(&mut self, all_weights: &[f32], optimiser: &[u8]) -> Result<(), Error> {
        self.optimiser.restore(optimiser)?;
        self.params.set_flat(all_weights)?;
        self.acting.weights_changed();
        Ok(())
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn optimiser(&self) -> &Optimiser {
        &self.optimiser
    }

    pub(super) fn params(&self) -> &Params {
        &self.params
    }
}

impl Agent for SacAgent {
    fn act_greedily(&mut self, seen: Seen<'_>, actions: &mut ActionBuffer) -> Result<(), Error> {
        self.act(seen, None, actions)
    }

    fn act_sampled(
        &mut self,
        seen: Seen<'_>,
        stream: &mut KeyedRng,
        actions: &mut ActionBuffer,
    ) -> Result<(), Error> {
        self.act(seen, Some(stream), actions)
    }

    /// Of policy, temperature and critics.
    fn weights(&self) -> &[f32] {
        self.params.trained()
    }

    /// The target critics stay.
    fn set_weights(&mut self, weights: &[f32]) -> Result<(), Error> {
        weights::check("SacAgent", self.params.trained_len(), weights)?;
        self.params.set_trained(weights)?;
        self.acting.weights_changed();
        Ok(())
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        weights::write(path, &self.params)
    }

    /// The target critics become copies of the critics.
    fn import(&mut self, path: &Path) -> Result<(), Error> {
        self.set_weights(&weights::read(path, &self.params)?)?;
        Ok(self.params.copy_trained_to_frozen()?)
    }
}
