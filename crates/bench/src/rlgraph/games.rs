//! Scores of MinAtar's games: training by the settings that come with the program, over several seeds, and episodes played afterwards.
//!
//! Each run has a folder below `target/minatar`, from whose newest checkpoint a figure that was cut off goes on: it has the bits of one that
//! never stopped. `seconds` are those of the call that ended the run, and `frames_per_s` is of the steps that it took. A whole record removes
//! the folders; whoever changes the code between two calls removes them by hand.

use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::json;
use shardgraph_agents::{AgentConfig, Choice, Evaluation, RunOptions, Start, train};
use shardgraph_device::Timer;

use crate::measure::Context;
use crate::paths;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Settings by name.
    agents: Vec<String>,
    seeds: u64,
    /// Of all environments together.
    steps: u64,
    /// Episodes that are played afterwards.
    episodes: usize,
    /// Runs at a time.
    at_once: usize,
}

/// A run by its settings and its seed.
#[derive(Clone, Copy)]
struct SeededAgent<'a> {
    agent: &'a str,
    seed: u64,
}

/// The result of a run, which its folder keeps until the record is whole.
#[derive(Serialize, Deserialize)]
struct Played {
    n_steps: u64,
    mean_return: Option<f64>,
    score: f64,
    seconds: f64,
}

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    let runs: Vec<SeededAgent<'_>> = request
        .agents
        .iter()
        .flat_map(|agent| (1..=request.seeds).map(move |seed| SeededAgent { agent, seed }))
        .collect();
    let played = play_all(request, &runs)?;
    for (run, played) in runs.iter().zip(&played) {
        out.row(json!({
            "agent": run.agent, "seed": run.seed, "steps": request.steps, "mean_return": played.mean_return, "score": played.score,
            "seconds": played.seconds, "frames_per_s": played.n_steps as f64 / played.seconds,
        }));
    }
    for (agent, played) in request
        .agents
        .iter()
        .zip(played.chunks(request.seeds as usize))
    {
        let n = played.len() as f64;
        let score = played.iter().map(|played| played.score).sum::<f64>() / n;
        let hours = played.iter().map(|played| played.seconds).sum::<f64>() / 3600.0;
        out.row(json!({
            "agent": agent, "seeds": request.seeds, "steps": request.steps, "score": score, "hours": hours,
        }));
    }
    // A record of other code must not take these for its own.
    for run in &runs {
        let (_, folder) = run.config(request)?;
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Plays all runs, `at_once` of them at a time, each on a thread.
fn play_all(request: &Request, runs: &[SeededAgent<'_>]) -> Result<Vec<Played>, Failure> {
    let waiting = Mutex::new(runs.iter().enumerate());
    let next = || waiting.lock().ok()?.next();
    let work = || {
        let mut played = Vec::new();
        while let Some((idx, run)) = next() {
            played.push((idx, run.play(request)?));
        }
        Ok::<_, Failure>(played)
    };
    let mut played = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..request.at_once).map(|_| scope.spawn(work)).collect();
        let mut played = Vec::with_capacity(runs.len());
        for thread in threads {
            played.extend(thread.join().map_err(|_| "a run has panicked")??);
        }
        Ok::<_, Failure>(played)
    })?;
    played.sort_by_key(|(idx, _)| *idx);
    Ok(played.into_iter().map(|(_, played)| played).collect())
}

impl SeededAgent<'_> {
    /// The settings, and the folder that keeps the run.
    fn config(&self, request: &Request) -> Result<(AgentConfig, PathBuf), Failure> {
        let agent = self.agent;
        let mut config = AgentConfig::named(agent).ok_or_else(|| format!("no settings {agent}"))?;
        (config.seed, config.steps) = (self.seed, request.steps);
        let name = format!("{agent}-{}-{:016x}", self.seed, config.fingerprint()?);
        Ok((config, paths::target().join("minatar").join(name)))
    }

    fn play(&self, request: &Request) -> Result<Played, Failure> {
        let (config, folder) = self.config(request)?;
        let result = folder.join("played.json");
        if let Ok(text) = std::fs::read_to_string(&result) {
            return Ok(serde_json::from_str(&text)?);
        }
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
        let (agent, choice) = (outcome.agent.as_mut(), Choice::Sampled);
        let score = Evaluation::play(agent, &environments, request.episodes, choice, self.seed)?
            .mean_return();
        ensure(score.is_finite(), || {
            format!("{}: a score of {score}", self.agent)
        })?;
        let played = Played {
            n_steps: outcome.n_steps,
            mean_return: outcome.mean_return,
            score,
            seconds,
        };
        std::fs::write(result, serde_json::to_string(&played)?)?;
        Ok(played)
    }
}
