//! Default training for several seeds: what each policy finds on graphs of its kind that it never
//! saw, beside the best of the greedy algorithms.

use serde::Deserialize;
use serde_json::json;

use crate::field::is_better;
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::report::{Failure, Report};

/// Policies for one problem and one kind of graph.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    problem: String,
    /// Generator of the graphs to train on; none: the default of `train`.
    #[serde(default)]
    trained_on: Option<String>,
    /// Generator of the graphs to solve.
    solved: String,
    /// Seeds of the graphs to solve.
    graphs: Vec<u64>,
    /// Seeds of training.
    seeds: Vec<u64>,
    /// Further words of `train`.
    #[serde(default)]
    train: Vec<String>,
}

/// A row a seed of training, and one of all.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let (mut n_no_worse, mut slowest) = (0usize, 0f64);
    for &seed in &request.seeds {
        let folder = paths::fresh_scratch(&format!("{}/run", context.figure.path()))?;
        let run = folder.join("run").display().to_string();
        let seed_word = seed.to_string();
        let mut words = vec!["train", "--problem", &request.problem, "--run", &run];
        words.extend(["--seed", &seed_word, "--format", "json"]);
        let graphs = request.trained_on.as_deref();
        words.extend(graphs.into_iter().flat_map(|spec| ["--graphs", spec]));
        words.extend(request.train.iter().map(String::as_str));
        let watch = crate::process::Stopwatch::start();
        run_words(context, &words)?;
        let seconds = watch.seconds();
        slowest = slowest.max(seconds);
        let (mut policy, mut greedy) = (0.0, 0.0);
        for graph in &request.graphs {
            let (own, best) = request.solve(context, &run, *graph)?;
            policy += own;
            greedy += best;
        }
        let is_worse = is_better(&request.problem, greedy, policy);
        n_no_worse += usize::from(!is_worse);
        out.row(json!({
            "problem": request.problem, "trained on": graphs.unwrap_or("the default"),
            "solved": request.solved, "seed": seed, "policy": policy, "best greedy": greedy,
            "training_seconds": seconds,
            "note": if is_worse { "WORSE than greedy" } else { "" },
        }));
    }
    out.row(json!({
        "problem": request.problem, "trained on": request.trained_on.as_deref().unwrap_or("the default"),
        "solved": request.solved, "no worse than greedy": n_no_worse, "of": request.seeds.len(),
    }));
    Ok(())
}

fn run_words(context: &Context<'_>, words: &[&str]) -> Result<crate::answer::Answer, Failure> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    Ok(launch::run_here(
        &context.program,
        &words,
        &context.scratch,
    )?)
}

impl Request {
    /// Objectives of the policy and of the best greedy algorithm.
    fn solve(&self, context: &Context<'_>, run: &str, seed: u64) -> Result<(f64, f64), Failure> {
        let seed = seed.to_string();
        let common = [
            "--problem",
            &self.problem,
            "--seed",
            &seed,
            "--format",
            "json",
        ];
        let solve = |words: &[&str]| -> Result<f64, Failure> {
            let words = [&["solve", self.solved.as_str()], words, &common].concat();
            Ok(run_words(context, &words)?.number("objective")?)
        };
        let policy = solve(&["--method", "policy", "--model", run])?;
        Ok((policy, solve(&["--method", "greedy"])?))
    }
}
