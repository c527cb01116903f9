//! How a run is carried out.

use shardgraph_collectives::Timeout;
use shardgraph_device::Device;

use crate::config::AgentConfig;
use crate::error::Error;
use crate::run_environments::Environments;

/// How a run is carried out; nothing here but the kind of device changes a bit of what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Ranks that share each batch, at most its `gradient_blocks`; threads of this process.
    pub n_ranks: u32,
    /// The step to stop at, if not that of the settings, which keep deciding how exploration falls.
    pub stop_at: Option<u64>,
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// Where to compute. Kinds of devices differ from each other in the last bits, so a run goes on only on the kind that it began on.
    pub device: Device,
    /// A caller's own environments, in place of those that the settings' name means. On each rank the same.
    pub environments: Option<Environments>,
}

impl RunOptions {
    /// The environments of a run: a caller's own, else those of its settings' name.
    ///
    /// # Errors
    /// When there are none of that name.
    pub fn environments_of(&self, config: &AgentConfig) -> Result<Environments, Error> {
        match &self.environments {
            Some(own) => Ok(own.clone()),
            None => Environments::named(&config.environment),
        }
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            stop_at: None,
            deadline: Timeout::default(),
            device: Device::host(),
            environments: None,
        }
    }
}
