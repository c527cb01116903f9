//! Scores of MinAtar's games: training by the settings that come with the program, over several seeds, and episodes played afterwards.
//!
//! Each run has a folder below `target/minatar`, from whose newest checkpoint a figure that was cut off goes on: it has the bits of one that
//! never stopped. `seconds` are those of the call that ended the run, and `frames_per_s` is of the steps that it took.

use serde::Deserialize;
use serde_json::json;
use shardgraph_agents::{AgentConfig, Choice, Evaluation, RunOptions, Start, train};
use shardgraph_device::Timer;

use crate::paths;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Settings by name.
    agents: Vec<String>,
    seeds: u64,
    /// Of all environments together.
    steps: u64,
    /// Episodes that are played afterwards.
    episodes: usize,
}

pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for agent in &request.agents {
        let mut scores = Vec::new();
        let mut hours = 0.0;
        for seed in 1..=request.seeds {
            let (score, seconds) = one(request, agent, seed, out)?;
            scores.push(score);
            hours += seconds / 3600.0;
        }
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        out.row(json!({
            "agent": agent, "seeds": request.seeds, "steps": request.steps, "score": mean, "hours": hours,
        }));
    }
    Ok(())
}

/// The score and the seconds of a run.
fn one(request: &Request, agent: &str, seed: u64, out: &mut Report) -> Result<(f64, f64), Failure> {
    let mut config = AgentConfig::named(agent).ok_or_else(|| format!("no settings {agent}"))?;
    (config.seed, config.steps) = (seed, request.steps);
    let name = format!("{agent}-{seed}-{:016x}", config.fingerprint()?);
    let folder = paths::target().join("minatar").join(name);
    let options = RunOptions::default();
    let environments = options.environments_of(&config)?;
    let resumed = Start::Resumed {
        folder: folder.clone(),
    };
    let start = match resumed.config() {
        Ok(_) => resumed,
        Err(_) => {
            // What a kill before the first checkpoint left is no run.
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(paths::target().join("minatar"))?;
            Start::New {
                config,
                folder: Some(folder),
            }
        }
    };
    let timer = Timer::wall();
    let mut outcome = train(&start, &options, &mut |_| ())?;
    let seconds = timer.elapsed_s();
    let episodes = (request.episodes, Choice::Sampled);
    let played = Evaluation::play(outcome.agent.as_mut(), &environments, episodes, seed)?;
    let score = played.mean_return();
    ensure(score.is_finite(), || format!("{agent}: a score of {score}"))?;
    out.row(json!({
        "agent": agent, "seed": seed, "steps": request.steps, "mean_return": outcome.mean_return, "score": score,
        "seconds": seconds, "frames_per_s": outcome.n_steps as f64 / seconds,
    }));
    Ok((score, seconds))
}
