//! Figures 5 and 8: frames and updates a second of Ape-X and IMPALA by number of actors, which are threads or processes.

use serde::{Deserialize, Serialize};
use serde_json::json;
use shardgraph_agents::{AgentConfig, Algorithm, RunOptions, Start, TrainOutcome, train};
use shardgraph_device::Timer;

use super::processes;
use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Settings by name.
    agent: String,
    /// Numbers of actors.
    actors: Vec<u32>,
    launches: Vec<Launch>,
    /// Of all environments together.
    steps: u64,
    runs: u64,
}

/// What a rank is.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Launch {
    Threads,
    Processes,
}

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    for &launch in &request.launches {
        for &n_actors in &request.actors {
            report(request, launch, n_actors, out)?;
        }
    }
    Ok(())
}

fn report(
    request: &Request,
    launch: Launch,
    n_actors: u32,
    out: &mut Report,
) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for seed in 1..=request.runs {
        let mut config = AgentConfig::named(&request.agent).ok_or("no such settings")?;
        (config.seed, config.steps) = (seed, request.steps);
        set_actors(&mut config, n_actors)?;
        runs.push(match launch {
            Launch::Threads => on_threads(config)?,
            Launch::Processes => {
                let (outcome, seconds) = processes::train(config)?;
                Measured::of(outcome, seconds)?
            }
        });
    }
    let each = |f: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(f).collect() };
    out.row(json!({
        "actors": n_actors, "launch": launch,
        "frames_per_s": each(Measured::frames_per_s),
        "updates_per_s": each(Measured::updates_per_s),
        "mean_lag": each(|run| run.outcome.lag.mean()),
        "max_lag": each(|run| run.outcome.lag.max() as f64),
        "draws_per_frame": each(Measured::draws_per_frame),
        "mean_return": each(|run| run.outcome.mean_return.unwrap_or(f64::NAN)),
    }));
    Ok(())
}

fn set_actors(config: &mut AgentConfig, n_actors: u32) -> Result<(), Failure> {
    match &mut config.algorithm {
        Algorithm::Apex(apex) => apex.n_actors = n_actors,
        Algorithm::Impala(impala) => impala.n_actors = n_actors,
        other => return Err(format!("{} has no actors", other.name()).into()),
    }
    Ok(())
}

/// A run that passed its checks.
pub(super) struct Measured {
    pub(super) outcome: TrainOutcome,
    pub(super) seconds: f64,
}

impl Measured {
    /// Checks what a run says of itself.
    pub(super) fn of(outcome: TrainOutcome, seconds: f64) -> Result<Measured, Failure> {
        ensure(outcome.lost.is_empty(), || {
            format!("ranks were lost: {:?}", outcome.lost)
        })?;
        ensure(outcome.n_steps >= outcome.config.steps, || {
            format!("{} of {} steps", outcome.n_steps, outcome.config.steps)
        })?;
        ensure(outcome.mean_return.is_none_or(f64::is_finite), || {
            format!("the mean return is {:?}", outcome.mean_return)
        })?;
        ensure(
            outcome.agent.weights().iter().all(|x| x.is_finite()),
            || "a weight is not finite".to_owned(),
        )?;
        Ok(Measured { outcome, seconds })
    }

    pub(super) fn frames_per_s(&self) -> f64 {
        self.outcome.n_steps as f64 / self.seconds
    }

    pub(super) fn updates_per_s(&self) -> f64 {
        self.outcome.n_updates as f64 / self.seconds
    }

    /// How often a transition was drawn from the replay memory.
    pub(super) fn draws_per_frame(&self) -> f64 {
        self.outcome.replayed.n_sampled as f64 / self.outcome.n_steps as f64
    }
}

/// From the start of the first thread to the end of the last.
pub(super) fn on_threads(config: AgentConfig) -> Result<Measured, Failure> {
    let start = Start::New {
        config,
        folder: None,
    };
    let timer = Timer::wall();
    let outcome = train(&start, &RunOptions::default(), &mut |_| ())?;
    Measured::of(outcome, timer.elapsed_s())
}
