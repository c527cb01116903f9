//! The agent of a run's settings.

use crate::agent::Agent;
use crate::config::{AgentConfig, Algorithm};
use crate::dqn::DqnAgent;
use crate::error::Error;
use crate::policy_agent::PolicyAgent;
use crate::run_options::RunOptions;
use crate::sac::SacAgent;

impl AgentConfig {
    /// The agent of these settings, with its first weights.
    ///
    /// # Errors
    /// When a setting cannot be right, or the device refuses.
    ///
    /// An example is at [`Agent`].
    pub fn agent(&self, options: &RunOptions) -> Result<Box<dyn Agent + Send>, Error> {
        Ok(match &self.algorithm {
            Algorithm::Dqn(_) | Algorithm::Apex(_) => Box::new(DqnAgent::of_config(self, options)?),
            Algorithm::Sac(_) => Box::new(SacAgent::of_config(self, options)?),
            Algorithm::Impala(_) | Algorithm::Ppo(_) | Algorithm::Reinforce(_) => {
                Box::new(PolicyAgent::of_config(self, options)?)
            }
        })
    }
}
