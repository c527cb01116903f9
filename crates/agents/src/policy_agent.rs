//! An agent with a policy: what IMPALA and REINFORCE train.

use std::path::Path;

use shardgraph_autodiff::Params;
use shardgraph_components::{ActorCritic, SoftmaxPolicy};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;

use crate::agent::{Agent, first_best};
use crate::config::{AgentConfig, Algorithm, cart_pole_spaces};
use crate::error::{Error, ErrorKind};
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};
use crate::{observations, weights};

#[cfg(test)]
mod tests;

/// A policy, perhaps with a memory, that takes its likeliest actions or draws them.
///
/// ```
/// use shardgraph_agents::{Agent, AgentConfig, PolicyAgent};
/// use shardgraph_device::Device;
///
/// let config = AgentConfig::named("cartpole-reinforce").unwrap();
/// let mut agent = PolicyAgent::of_config(&config, &Device::host())?;
/// let mut actions = Vec::new();
/// agent.begin_episodes(2)?;
/// agent.act_greedily(&[0.0, 0.1, 0.0, -0.1, 0.0, -0.1, 0.0, 0.1], &mut actions)?;
/// assert_eq!(actions.len(), 2);
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct PolicyAgent {
    device: Device,
    params: Params,
    network: ActorCritic,
    policy: SoftmaxPolicy,
    episodes: Option<Episodes>,
}

/// Of the environments that it acts in.
#[derive(Debug)]
struct Episodes {
    program: PolicyProgram,
    state: MemoryState,
    said: Said,
}

impl PolicyAgent {
    /// The agent of a run's settings with its first weights.
    ///
    /// # Errors
    /// When a setting cannot be right, or the algorithm has no policy.
    pub fn of_config(config: &AgentConfig, device: &Device) -> Result<PolicyAgent, Error> {
        config.check()?;
        let shape = match &config.algorithm {
            Algorithm::Impala(impala) => &impala.network,
            Algorithm::Reinforce(reinforce) => &reinforce.network,
            other => return Err(other.is_not("impala or reinforce")),
        };
        let (params, network) = build_policy(shape, config.seed)?;
        Ok(PolicyAgent {
            device: device.clone(),
            params,
            policy: SoftmaxPolicy::build("policy", &cart_pole_spaces()?.1)?,
            network,
            episodes: None,
        })
    }

    /// Says that the episode of one environment has ended: its next observation is the first of another one, and nothing of before is
    /// remembered there. The others go on.
    ///
    /// # Errors
    /// When there is no such environment among those that [`Agent::begin_episodes`] was told of.
    pub fn end_episode(&mut self, environment: usize) -> Result<(), Error> {
        let begins = self.episodes.as_mut().map(|of| &mut of.state.begins[..]);
        let begins = begins.unwrap_or_default();
        let n = begins.len();
        let Some(begins) = begins.get_mut(environment) else {
            let (expected, given) = (format!("below {n}"), environment.to_string());
            return Err(mismatch(
                "end_episode",
                "the environment",
                (expected, given),
            ));
        };
        *begins = 1.0;
        Ok(())
    }

    /// An action for each observation, into `actions`, by the probabilities that the policy gives them.
    ///
    /// # Shapes
    /// As [`Agent::act_greedily`].
    /// # Errors
    /// As [`Agent::act_greedily`].
    pub fn act(
        &mut self,
        observations: &[f32],
        stream: &mut KeyedRng,
        actions: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let (policy, logits) = self.logits(observations)?;
        actions.clear();
        Ok(policy.sample_into(logits, stream, actions)?)
    }

    /// The policy, and its logits for observations, which it remembers.
    fn logits(&mut self, observations: &[f32]) -> Result<(&SoftmaxPolicy, &[f32]), Error> {
        let n_given = observations::check("PolicyAgent", self.network.n_inputs(), observations)?;
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
            let (expected, given) = (format!("{n}, as episodes began"), n_given.to_string());
            let what = "the number of observations";
            return Err(mismatch("act", what, (expected, given)));
        }
        program.run(&self.params, observations, state, said)?;
        state.begins.fill(0.0);
        std::mem::swap(&mut state.hidden, &mut said.hidden);
        std::mem::swap(&mut state.cell, &mut said.cell);
        Ok((&self.policy, &said.logits))
    }
}

impl Agent for PolicyAgent {
    fn begin_episodes(&mut self, n_environments: usize) -> Result<(), Error> {
        if n_environments == 0 {
            let numbers = ("at least 1".to_owned(), "0".to_owned());
            let what = "the number of environments";
            return Err(mismatch("begin_episodes", what, numbers));
        }
        self.episodes = Some(Episodes {
            program: PolicyProgram::new(&self.params, &self.network, n_environments, &self.device)?,
            state: MemoryState::new(&self.network, n_environments),
            said: Said::default(),
        });
        Ok(())
    }

    fn act_greedily(&mut self, observations: &[f32], actions: &mut Vec<u32>) -> Result<(), Error> {
        let n_actions = self.network.n_actions();
        let rows = self.logits(observations)?.1.chunks_exact(n_actions);
        actions.clear();
        actions.extend(rows.map(first_best));
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

#[cold]
fn mismatch(method: &'static str, what: &str, (expected, given): (String, String)) -> Error {
    ErrorKind::Mismatch {
        component: "PolicyAgent",
        method,
        what: what.to_owned(),
        expected,
        given,
    }
    .into()
}
