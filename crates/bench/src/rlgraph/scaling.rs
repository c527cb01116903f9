//! Figure 5 on paper: what many actors would give, from what one actor and one learner give alone.
//!
//! With A actors of f frames a second, U updates a second of B transitions each, and r draws wanted of each frame, frames come at
//! `min(A f, U B / r)` a second: actors bring `A f`, and the learner uses up `U B / r`. That shards keep up is assumed: their number is a setting.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_agents::{AgentConfig, Algorithm, ApexConfig};

use super::topologies::{Measured, on_threads};
use crate::measure::Context;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Numbers of actors to predict for.
    actors: Vec<u32>,
    /// Of the measurement with an idle learner; the one with a busy learner takes a tenth.
    steps: u64,
    runs: u64,
}

/// Draws of each frame where the learner is to be idle, and where it is to be the slowest.
const FEW_DRAWS: f64 = 0.01;
const MANY_DRAWS: f64 = 64.0;

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    let idle = measure(request, request.steps, FEW_DRAWS)?;
    let busy = measure(request, request.steps / 10, MANY_DRAWS)?;
    for (what, runs) in [("idle", &idle), ("busy", &busy)] {
        out.row(row(what, runs));
    }
    let apex = ApexConfig::default();
    let (f, u) = (
        median(&idle, Measured::frames_per_s),
        median(&busy, Measured::updates_per_s),
    );
    let wanted = apex.replay.samples_per_insert;
    for &n_actors in &request.actors {
        let brought = f64::from(n_actors) * f;
        let used = u * apex.batch_size as f64 / wanted;
        out.row(json!({
                "what": "predicted: actors alone, the learner takes what it can", "actors": n_actors, "frames_per_s": brought,
                "updates_per_s": u, "draws_per_frame": u * apex.batch_size as f64 / brought,
            }));
        let frames = brought.min(used);
        out.row(json!({
                "what": "predicted: with the ratio of the settings", "actors": n_actors, "frames_per_s": frames,
                "updates_per_s": frames * wanted / apex.batch_size as f64, "draws_per_frame": wanted,
            }));
    }
    Ok(())
}

fn measure(request: &Request, steps: u64, draws: f64) -> Result<Vec<Measured>, Failure> {
    let one = |seed| on_threads(one_actor(seed, steps, draws)?);
    (1..=request.runs).map(one).collect()
}

/// Ape-X with one actor that waits for nothing.
pub(super) fn one_actor(seed: u64, steps: u64, draws: f64) -> Result<AgentConfig, Failure> {
    let mut config = AgentConfig::named("cartpole-apex").ok_or("no such settings")?;
    (config.seed, config.steps) = (seed, steps);
    if let Algorithm::Apex(apex) = &mut config.algorithm {
        apex.n_actors = 1;
        apex.replay.min_rows = apex.batch_size;
        apex.replay.samples_per_insert = draws;
    }
    Ok(config)
}

fn row(learner: &str, runs: &[Measured]) -> Value {
    let each = |f: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(f).collect() };
    json!({
        "what": format!("measured: one actor, the learner {learner}"), "actors": 1,
        "frames_per_s": each(Measured::frames_per_s), "updates_per_s": each(Measured::updates_per_s),
        "draws_per_frame": each(Measured::draws_per_frame),
    })
}

fn median(runs: &[Measured], f: fn(&Measured) -> f64) -> f64 {
    let mut sorted: Vec<f64> = runs.iter().map(f).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
