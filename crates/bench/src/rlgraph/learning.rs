//! Figure 6b: returns by step over several seeds, ours and peers'.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_agents::{AgentConfig, Algorithm, RunOptions, Start, TrainOutcome, train};
use shardgraph_device::Timer;

use super::peers;
use crate::options::Options;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Settings by name.
    agent: String,
    /// How many seeds.
    seeds: u64,
    /// The first one: settings that were chosen on some seeds are measured on others.
    #[serde(default = "first")]
    first_seed: u64,
    steps: u64,
    /// Steps between two points of a curve, a multiple of 1000.
    every: u64,
    /// The return that a seed is to reach.
    goal: f64,
    /// How many seeds must.
    at_least: u64,
    /// Threads that share a batch.
    #[serde(default = "one")]
    ranks: u32,
    /// Another algorithm than that of the settings.
    algorithm: Option<Algorithm>,
    /// Peers, for `--peer-python`.
    #[serde(default)]
    peers: Vec<Peer>,
}

/// A peer and its hyper-parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    peer: String,
    algorithm: String,
    settings: Value,
}

fn one() -> u32 {
    1
}

fn first() -> u64 {
    1
}

/// One seed: the mean return over the last 100 episodes, at each point.
type Curve = Vec<f64>;

pub(super) fn run(request: &Request, options: &Options, out: &mut Report) -> Result<(), Failure> {
    let (mut curves, mut n_good) = (Vec::new(), 0);
    for seed in request.first_seed..request.first_seed + request.seeds {
        let (curve, last) = learn(request, seed, out)?;
        n_good += u64::from(last >= request.goal);
        curves.push(curve);
    }
    for (idx, step) in (request.every..=request.steps)
        .step_by(request.every as usize)
        .enumerate()
    {
        // A run may end a few steps behind its last point.
        let mut at_point: Vec<f64> = curves.iter().filter_map(|c| c.get(idx)).copied().collect();
        at_point.sort_by(|a, b| b.total_cmp(a));
        let best = &at_point[..at_point.len().min(3)];
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        out.row(json!({
                "what": "curve", "step": step, "lowest": at_point.last(), "mean": mean(&at_point), "highest": at_point.first(),
                "mean_of_best_3": mean(best),
            }));
    }
    let asked = request.peers.iter().map(|peer| {
        json!({
            "task": "learn", "peer": peer.peer, "algorithm": peer.algorithm, "settings": peer.settings,
            "seeds": request.seeds, "first_seed": request.first_seed, "goal": request.goal, "threads": request.ranks,
        })
    });
    asked
        .into_iter()
        .try_for_each(|asked| peers::run(options, &asked, out))?;
    out.row(json!({"what": format!("seeds with a mean return of at least {}", request.goal), "reached": n_good, "seeds": request.seeds}));
    ensure(n_good >= request.at_least, || {
        format!(
            "{n_good} seeds reached {}, expected at least {}",
            request.goal, request.at_least
        )
    })
}

fn learn(request: &Request, seed: u64, out: &mut Report) -> Result<(Curve, f64), Failure> {
    let mut config = AgentConfig::named(&request.agent).ok_or("no such settings")?;
    (config.seed, config.steps) = (seed, request.steps);
    if let Some(algorithm) = &request.algorithm {
        config.algorithm = algorithm.clone();
    }
    let start = Start::New {
        config,
        folder: None,
    };
    let (mut curve, every, timer) = (Vec::new(), request.every, Timer::wall());
    let options = RunOptions {
        n_ranks: request.ranks,
        ..RunOptions::default()
    };
    let mut reached = None;
    let outcome = train(&start, &options, &mut |progress| {
        let mean_return = progress.mean_return.unwrap_or(f64::NAN);
        while progress.step / every > curve.len() as u64 {
            curve.push(mean_return);
        }
        if mean_return >= request.goal && reached.is_none() {
            reached = Some((progress.step, timer.elapsed_s()));
        }
    })?;
    let seconds = timer.elapsed_s();
    let last = checked(&outcome)?;
    out.row(json!({
            "what": "seed", "seed": seed, "mean_return": last, "episodes": outcome.n_episodes, "updates": outcome.n_updates,
            "seconds": seconds, "frames_per_s": outcome.n_steps as f64 / seconds,
            "steps_to_goal": reached.map(|(step, _)| step), "seconds_to_goal": reached.map(|(_, seconds)| seconds),
        }));
    Ok((curve, last))
}

/// The mean return at the end.
fn checked(outcome: &TrainOutcome) -> Result<f64, Failure> {
    let last = outcome.mean_return.unwrap_or(f64::NAN);
    ensure(outcome.n_steps >= outcome.config.steps, || {
        format!("{} of {} steps", outcome.n_steps, outcome.config.steps)
    })?;
    // An episode of cart and pole has 1 to 500 steps, each of which earns 1.
    ensure((1.0..=500.0).contains(&last), || {
        format!("the mean return is {last}")
    })?;
    Ok(last)
}
