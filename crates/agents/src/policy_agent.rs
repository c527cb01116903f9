//! An agent with a policy: what IMPALA, PPO and REINFORCE train.

use std::path::Path;

use shardgraph_autodiff::Params;
use shardgraph_components::{ActionDistribution, ActorCritic, Initialisation, Initialiser};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;

use crate::agent::Agent;
use crate::config::{AgentConfig, Algorithm};
use crate::error::{Call, Error};
use crate::observations::{self, ActionBuffer, Seen};
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy_by};
use crate::run_options::RunOptions;
use crate::weights;

#[cfg(test)]
mod tests;

/// A policy, perhaps with a memory, that takes its likeliest actions or draws them.
///
/// ```
/// use shardgraph_agents::{ActionBuffer, Agent, AgentConfig, PolicyAgent, RunOptions, Seen};
/// use shardgraph_environments::Actions;
///
/// let config = AgentConfig::named("cartpole-reinforce").unwrap();
/// let mut agent = PolicyAgent::of_config(&config, &RunOptions::default())?;
/// let mut chosen = ActionBuffer::default();
/// agent.begin_episodes(2)?;
/// agent.act_greedily(Seen::from(&[0.0, 0.1, 0.0, -0.1, 0.0, -0.1, 0.0, 0.1]), &mut chosen)?;
/// assert!(matches!(chosen.actions(), Actions::Discrete(actions) if actions.len() == 2));
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct PolicyAgent {
    device: Device,
    params: Params,
    network: ActorCritic,
    policy: ActionDistribution,
    /// Means of continuous actions.
    drawn: Vec<f32>,
    has_mask: bool,
    episodes: Option<Episodes>,
}

/// Of the environments that it acts in.
#[derive(Debug)]
struct Episodes {
    program: PolicyProgram,
    state: MemoryState,
    said: Said,
}

/// What a policy says of observations.
struct Rows<'a> {
    policy: &'a ActionDistribution,
    logits: &'a [f32],
    drawn: &'a mut Vec<f32>,
}

impl PolicyAgent {
    /// The agent of a run's settings with its first weights.
    ///
    /// # Errors
    /// When a setting cannot be right, or the algorithm has no policy.
    pub fn of_config(config: &AgentConfig, options: &RunOptions) -> Result<PolicyAgent, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let shape = match &config.algorithm {
            Algorithm::Impala(impala) => &impala.network,
            Algorithm::Reinforce(reinforce) => &reinforce.network,
            Algorithm::Ppo(ppo) => &ppo.network,
            other => return Err(other.is_not("impala, ppo or reinforce")),
        };
        let rule = match &config.algorithm {
            Algorithm::Ppo(ppo) => ppo.initialisation,
            _ => Initialisation::default(),
        };
        let initialiser = Initialiser {
            rule,
            seed: config.seed,
        };
        let (params, network) = build_policy_by(&environments, shape, initialiser)?;
        Ok(PolicyAgent {
            device: options.device.clone(),
            params,
            has_mask: environments.spaces().has_mask(),
            policy: ActionDistribution::build("policy", environments.spaces().action())?,
            drawn: Vec::new(),
            network,
            episodes: None,
        })
    }

    /// The policy, its rows for observations, which it remembers, and a list for drawn elements.
    fn logits(&mut self, seen: Seen<'_>) -> Result<Rows<'_>, Error> {
        let call = Call::new("PolicyAgent", "act");
        let width = self.network.n_inputs();
        let n_given = observations::check(call, width, seen.observations)?;
        if self.episodes.is_none() {
            self.begin_episodes(n_given)?;
        }
        let Some(Episodes {
            program,
            state,
            said,
        }) = &mut self.episodes
        else {
            return Err(Error::internal("an agent without episodes"));
        };
        let n = state.begins.len();
        if n_given != n {
            let expected = format!("{n}, as episodes began");
            return Err(call.mismatch("the number of observations", expected, n_given));
        }
        program.run(&self.params, seen, state, said)?;
        state.begins.fill(0.0);
        std::mem::swap(&mut state.hidden, &mut said.hidden);
        std::mem::swap(&mut state.cell, &mut said.cell);
        self.drawn.clear();
        Ok(Rows {
            policy: &self.policy,
            logits: &said.logits,
            drawn: &mut self.drawn,
        })
    }
}

impl Agent for PolicyAgent {
    fn begin_episodes(&mut self, n_environments: usize) -> Result<(), Error> {
        if n_environments == 0 {
            let call = Call::new("PolicyAgent", "begin_episodes");
            return Err(call.mismatch("the number of environments", "at least 1", 0));
        }
        self.episodes = Some(Episodes {
            program: PolicyProgram::new(
                &self.params,
                &self.network,
                n_environments,
                self.has_mask,
                &self.device,
            )?,
            state: MemoryState::new(&self.network, n_environments),
            said: Said::default(),
        });
        Ok(())
    }

    fn act_greedily(&mut self, seen: Seen<'_>, actions: &mut ActionBuffer) -> Result<(), Error> {
        let rows = self.logits(seen)?;
        match rows.policy {
            ActionDistribution::Softmax(policy) => {
                policy.best_into(rows.logits, actions.discrete());
            }
            ActionDistribution::Gaussian(policy) => {
                policy.means_into(rows.logits, rows.drawn);
                policy.actions_into(rows.drawn, actions.continuous());
            }
        }
        Ok(())
    }

    fn act_sampled(
        &mut self,
        seen: Seen<'_>,
        stream: &mut KeyedRng,
        actions: &mut ActionBuffer,
    ) -> Result<(), Error> {
        let rows = self.logits(seen)?;
        match rows.policy {
            ActionDistribution::Softmax(policy) => {
                policy.sample_into(rows.logits, stream, actions.discrete())?;
            }
            ActionDistribution::Gaussian(policy) => {
                policy.sample_into(rows.logits, stream, rows.drawn)?;
                policy.actions_into(rows.drawn, actions.continuous());
            }
        }
        Ok(())
    }

    fn end_episode(&mut self, environment: usize) -> Result<(), Error> {
        let begins = self.episodes.as_mut().map(|of| &mut of.state.begins[..]);
        let begins = begins.unwrap_or_default();
        let n = begins.len();
        let Some(begins) = begins.get_mut(environment) else {
            let call = Call::new("PolicyAgent", "end_episode");
            return Err(call.mismatch("the environment", format!("below {n}"), environment));
        };
        *begins = 1.0;
        Ok(())
    }

    fn weights(&self) -> &[f32] {
        self.params.trained()
    }

    fn set_weights(&mut self, weights: &[f32]) -> Result<(), Error> {
        weights::check("PolicyAgent", self.params.trained_len(), weights)?;
        self.params.set_trained(weights)?;
        if let Some(episodes) = &mut self.episodes {
            episodes.program.weights_changed();
        }
        Ok(())
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        weights::write(path, &self.params)
    }

    fn import(&mut self, path: &Path) -> Result<(), Error> {
        self.set_weights(&weights::read(path, &self.params)?)
    }
}
