//! Cover sizes of the shipped policies beside max-degree greedy and the optimum, each cover checked by a second reader.

use std::fs;

use serde::Deserialize;
use serde_json::json;

use super::cover::{check_cover, max_degree_greedy, read_matrix_market};
use super::optima::{Optimum, optimum_of};
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::report::{Failure, Report, ensure};

/// Graphs of one generator, solved by one policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    spec: String,
    policy: String,
    /// Generator seeds.
    seeds: Vec<i64>,
    /// Table of optima.
    optima: String,
    /// Makes `{scratch}/graph.mtx` of `{spec}` and `{seed}`.
    generate: Vec<String>,
    /// Makes `{scratch}/cover.txt` by `{policy}`.
    solve: Vec<String>,
    paper_ratio: f64,
    paper_note: String,
    /// What we aim at.
    target_ratio: f64,
}

/// Cover sizes of one graph.
struct Sizes {
    ours: usize,
    greedy: usize,
    optimum: usize,
}

/// One row: mean ratios to the optimum, and every cover's size.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let csv = fs::read_to_string(paths::root().join(&request.optima))?;
    let mut all = Vec::new();
    for &seed in &request.seeds {
        let optimum = optimum_of(&csv, &request.spec, seed)?;
        let sizes = request.solve(context, seed, &optimum)?;
        out.progress(&format!(
            "{}, {}, seed {seed}: {} of {}, greedy {}",
            request.spec, request.policy, sizes.ours, sizes.optimum, sizes.greedy
        ));
        all.push(sizes);
    }
    let ratios = |size: fn(&Sizes) -> usize| -> Vec<f64> {
        let ratio = |sizes: &Sizes| size(sizes) as f64 / sizes.optimum as f64;
        all.iter().map(ratio).collect()
    };
    let mean = |ratios: &[f64]| ratios.iter().sum::<f64>() / ratios.len() as f64;
    let (ours, greedy) = (ratios(|sizes| sizes.ours), ratios(|sizes| sizes.greedy));
    let is_reached = mean(&ours) <= request.target_ratio;
    let target = request.target_ratio;
    let verdict = if is_reached { "reached" } else { "MISSED" };
    out.row(json!({
        "graph": request.spec, "policy": request.policy, "mean_ratio": mean(&ours),
        "mean_ratio_max_degree_greedy": mean(&greedy), "ratios": ours, "paper": request.paper_ratio,
        "note": format!("aim {target}: {verdict}; the paper: {}", request.paper_note),
    }));
    Ok(())
}

impl Request {
    fn solve(&self, context: &Context<'_>, seed: i64, optimum: &Optimum) -> Result<Sizes, Failure> {
        let scratch = paths::fresh_scratch("quality")?;
        let mut values = launch::places(&scratch);
        for (key, value) in [("spec", &self.spec), ("policy", &self.policy)] {
            values.insert(key.to_owned(), value.clone());
        }
        values.insert("seed".to_owned(), seed.to_string());
        let run = |words: &[String]| {
            let words = launch::substitute(words, &values)?;
            launch::run_here(&context.program, &words, &scratch)
        };
        run(&self.generate)?;
        let answer = run(&self.solve)?;
        let graph = read_matrix_market(&fs::read_to_string(scratch.join("graph.mtx"))?)?;
        let found = (graph.n_nodes, graph.edges.len());
        ensure(found == (optimum.n_nodes, optimum.n_edges), || {
            format!("{found:?} nodes and edges, other than {optimum:?}: made by another generator")
        })?;
        let ours = check_cover(&graph, &fs::read_to_string(scratch.join("cover.txt"))?)?;
        ensure(ours as f64 >= answer.number("objective")?, || {
            "the answer says more nodes than its cover has".to_owned()
        })?;
        ensure(ours >= optimum.size, || {
            format!(
                "a cover of {ours} nodes, below the optimum {}",
                optimum.size
            )
        })?;
        Ok(Sizes {
            ours,
            greedy: max_degree_greedy(&graph),
            optimum: optimum.size,
        })
    }
}
