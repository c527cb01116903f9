//! What the answers of `shardgraph agent train` have in common, whatever the algorithm.

use serde::Serialize;
use shardgraph_agents::{AgentConfig, RunOptions, Start};

/// What they begin with, about the steps that the call took. The fields are keys of the JSON object, in its order.
#[derive(Serialize)]
pub(crate) struct Head {
    algorithm: &'static str,
    environment: String,
    seed: u64,
    steps: u64,
    episodes: u64,
    updates: u64,
    /// Over the last 100 episodes of the run; with Ape-X of the actor that explores the least.
    mean_return: Option<f64>,
    seconds: f64,
    env_steps_per_s: f64,
}

/// What a run has counted.
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) episodes: u64,
    pub(crate) updates: u64,
}

impl Head {
    pub(crate) fn new(
        config: &AgentConfig,
        counts: &Counts,
        mean_return: Option<f64>,
        seconds: f64,
    ) -> Head {
        Head {
            algorithm: config.algorithm.name(),
            environment: config.environment.name.clone(),
            seed: config.seed,
            steps: counts.steps,
            episodes: counts.episodes,
            updates: counts.updates,
            mean_return,
            seconds,
            env_steps_per_s: counts.steps as f64 / seconds.max(1e-9),
        }
    }

    /// What to say of a run that made steps and learned nothing by them.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        let is_idle = self.steps > 0 && self.updates == 0;
        is_idle.then_some("there were too few steps for an update: the weights are those of before")
    }
}

/// What they end with.
#[derive(Serialize)]
pub(crate) struct Tail {
    device: String,
    weights: Option<String>,
    policy_hash: String,
}

impl Tail {
    pub(crate) fn new(start: &Start, options: &RunOptions, weights_hash: u64) -> Tail {
        let folder = start.folder();
        let weights = folder.map(|folder| folder.join("weights.safetensors"));
        Tail {
            device: options.device.kind().to_string(),
            weights: weights.map(|path| path.display().to_string()),
            policy_hash: format!("{weights_hash:016x}"),
        }
    }
}
