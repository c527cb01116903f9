//! A policy's best cover of several starts, beside the best greedy algorithm and the optimum.

use std::fs;

use serde::Deserialize;
use serde_json::json;

use super::optima::optimum_of;
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::process::Stopwatch;
use crate::report::{Failure, Report, ensure};

/// Graphs of one generator, covered by one policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    policy: String,
    spec: String,
    /// Generator seeds.
    seeds: Vec<i64>,
    /// Episodes of each graph, of which the best counts; a row each.
    starts: Vec<u32>,
    /// Table of optima; none where `optimum` is that of each graph.
    #[serde(default)]
    optima: Option<String>,
    #[serde(default)]
    optimum: Option<usize>,
}

/// A row a number of starts: sums over the graphs.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let optimum = request.optimum()?;
    let greedy = request.sum(context, &["--method", "greedy"])?;
    for starts in &request.starts {
        let watch = Stopwatch::start();
        let starts_word = starts.to_string();
        let words = ["--method", "policy", "--model", request.policy.as_str()];
        let words = [&words[..], &["--starts", starts_word.as_str()]].concat();
        let policy = request.sum(context, &words)?;
        ensure(policy >= optimum, || {
            format!("{policy} nodes are below the optimum {optimum}")
        })?;
        let closed_pct = 100.0 * (greedy - policy) / (greedy - optimum);
        out.row(json!({
            "graphs": request.spec, "policy": request.policy, "starts": starts, "nodes": policy,
            "best greedy": greedy, "optimum": optimum, "closed_pct": closed_pct,
            "seconds": watch.seconds(),
        }));
    }
    Ok(())
}

impl Request {
    /// The sum over the graphs.
    fn optimum(&self) -> Result<f64, Failure> {
        let Some(table) = &self.optima else {
            let each = self.optimum.unwrap_or(0);
            return Ok((each * self.seeds.len()) as f64);
        };
        let csv = fs::read_to_string(paths::root().join(table))?;
        let mut sum = 0;
        for &seed in &self.seeds {
            sum += optimum_of(&csv, &self.spec, seed)?.size;
        }
        Ok(sum as f64)
    }

    /// The nodes of all covers that `solve` finds by these words.
    fn sum(&self, context: &Context<'_>, words: &[&str]) -> Result<f64, Failure> {
        let mut sum = 0.0;
        for seed in &self.seeds {
            let seed = seed.to_string();
            let of_graph = ["solve", &self.spec, "--seed", &seed, "--format", "json"];
            let words = of_graph.iter().chain(words).map(|&word| word.to_owned());
            let words: Vec<String> = words.collect();
            let answer = launch::run_here(&context.program, &words, &context.scratch)?;
            sum += answer.number("objective")?;
        }
        Ok(sum)
    }
}
