//! What the answers of `shardgraph agent train` have in common, whatever the algorithm.

use serde::Serialize;
use shardgraph_agents::{RunOptions, Start, TrainOutcome};

use crate::report::ReportArgs;

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

impl Head {
    /// Warns of a run that made steps and learned nothing by them.
    pub(crate) fn new(outcome: &TrainOutcome, seconds: f64, report: &ReportArgs) -> Head {
        if outcome.n_steps > 0 && outcome.n_updates == 0 {
            report
                .warning("there were too few steps for an update: the weights are those of before");
        }
        Head {
            algorithm: outcome.config.algorithm.name(),
            environment: outcome.config.environment.name.clone(),
            seed: outcome.config.seed,
            steps: outcome.n_steps,
            episodes: outcome.n_episodes,
            updates: outcome.n_updates,
            mean_return: outcome.mean_return,
            seconds,
            env_steps_per_s: outcome.n_steps as f64 / seconds.max(1e-9),
        }
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
