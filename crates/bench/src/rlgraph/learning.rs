//! Figure 6b: returns by step over several seeds, ours and peers'.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_agents::{
    AgentConfig, Algorithm, Choice, DqnTrainer, Evaluation, RunOptions, Start, TrainOutcome, train,
};
use shardgraph_device::Timer;

use super::peers;
use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
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
    /// So many greedy episodes after each `every` steps decide, and a run of DQN ends with the goal; absent: the last 100 episodes of
    /// training do, and the run goes on.
    evaluation_episodes: Option<usize>,
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

pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    let (mut curves, mut n_good) = (Vec::new(), 0);
    for seed in request.first_seed..request.first_seed + request.seeds {
        let last = match request.evaluation_episodes {
            Some(n_episodes) => learn_until(request, seed, n_episodes, out)?,
            None => {
                let (curve, last) = learn(request, seed, out)?;
                curves.push(curve);
                last
            }
        };
        n_good += u64::from(last >= request.goal);
    }
    let has_curves = !curves.is_empty();
    for (idx, step) in (request.every..=request.steps)
        .step_by(request.every as usize)
        .enumerate()
        .filter(|_| has_curves)
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
            "evaluation": request.evaluation_episodes.map(|n| json!({"episodes": n, "every": request.every})),
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
    let start = Start::New {
        config: settings(request, seed)?,
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

/// A run of DQN up to the first evaluation that comes to the goal; the seconds are those of training alone. Gives the last mean return.
fn learn_until(
    request: &Request,
    seed: u64,
    n_episodes: usize,
    out: &mut Report,
) -> Result<f64, Failure> {
    let config = settings(request, seed)?;
    let options = RunOptions::default();
    let environments = options.environments_of(&config)?;
    let mut trainer = DqnTrainer::begin(&config, &options)?;
    let (mut seconds, mut mean_return) = (0.0, f64::NEG_INFINITY);
    while trainer.n_steps() < request.steps && mean_return < request.goal {
        let (timer, next) = (Timer::wall(), trainer.n_steps() + request.every);
        trainer.advance_to(next)?;
        seconds += timer.elapsed_s();
        let agent = trainer.agent_mut();
        mean_return =
            Evaluation::play(agent, &environments, n_episodes, Choice::Greedy, seed)?.mean_return();
    }
    let is_reached = mean_return >= request.goal;
    let n_steps = trainer.n_steps();
    out.row(json!({
            "what": "seed", "seed": seed, "mean_return": mean_return, "episodes": trainer.n_episodes(),
            "seconds": seconds, "frames_per_s": n_steps as f64 / seconds,
            "steps_to_goal": is_reached.then_some(n_steps), "seconds_to_goal": is_reached.then_some(seconds),
        }));
    Ok(mean_return)
}

/// The settings of a seed's run.
fn settings(request: &Request, seed: u64) -> Result<AgentConfig, Failure> {
    let mut config = AgentConfig::named(&request.agent).ok_or("no such settings")?;
    (config.seed, config.steps) = (seed, request.steps);
    if let Some(algorithm) = &request.algorithm {
        config.algorithm = algorithm.clone();
    }
    Ok(config)
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
