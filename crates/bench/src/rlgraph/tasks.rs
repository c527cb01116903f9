//! Figure 6a: frames a second of a single actor by the number of samples that it is asked for at a time, and by its environments.

use serde::Deserialize;
use serde_json::json;
use shardgraph_agents::{Algorithm, EnvironmentConfig};

use super::scaling::one_actor;
use super::topologies::{Measured, on_threads};
use crate::measure::Context;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    environments: Vec<usize>,
    /// Transitions in a block.
    samples: Vec<usize>,
    steps: u64,
    runs: u64,
}

/// The learner is idle: only the actor is measured, with its folding, first priorities and messages.
const DRAWS: f64 = 0.01;

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    for &n_environments in &request.environments {
        for &samples in &request.samples {
            let one = |seed| -> Result<Measured, Failure> {
                let mut config = one_actor(seed, request.steps, DRAWS)?;
                config.environment = EnvironmentConfig::named("cartpole", n_environments);
                if let Algorithm::Apex(apex) = &mut config.algorithm {
                    apex.block_rows = samples;
                }
                on_threads(config)
            };
            let runs: Vec<Measured> = (1..=request.runs).map(one).collect::<Result<_, _>>()?;
            let rates: Vec<f64> = runs.iter().map(Measured::frames_per_s).collect();
            out.row(
                json!({"environments": n_environments, "samples": samples, "frames_per_s": rates}),
            );
        }
    }
    Ok(())
}
