//! Seconds of 5000 evaluations by size of graph and number of threads, for the peers in Python to stand beside.

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::generate::{RandomGraph, Synthetic, synthetic};
use shardgraph_costgraph::{DecoderKind, DeviceSet, ModelOptions, Objective, Problem};
use shardgraph_regal::{GeneticOptions, PlaceOptions, search};

use crate::measure::Context;
use crate::report::{Failure, Report, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Sizes, without source and sink.
    n_ops: Vec<u32>,
    evaluations: u64,
    /// How often.
    runs: u32,
    #[serde(default)]
    genetic: GeneticOptions,
}

/// Name, decoder, threads, and the first shape of the Beta distribution of mutants (1: uniform).
const SERIES: [(&str, DecoderKind, usize, f64); 4] = [
    ("paper", DecoderKind::Paper, 1, 1.0),
    ("paper, Beta(2, 4)", DecoderKind::Paper, 1, 2.0),
    ("paper, 2 threads", DecoderKind::Paper, 2, 1.0),
    ("list", DecoderKind::List, 1, 1.0),
];

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    for &n_ops in &request.n_ops {
        let recipe = Synthetic {
            models: vec![RandomGraph::WattsStrogatz { k: 4, p: 0.3 }],
            min_nodes: n_ops,
            max_nodes: n_ops,
        };
        let graph = synthetic(&recipe, 1, 0)?;
        let devices = DeviceSet::uniform(2, None)?;
        let problem = Problem::new(
            &graph,
            &devices,
            Objective::Runtime,
            ModelOptions::default(),
        )?;
        for (name, decoder, threads, alpha) in SERIES {
            let genetic = GeneticOptions {
                alpha,
                beta: alpha * alpha,
                ..request.genetic
            };
            let options = PlaceOptions {
                decoder: Some(decoder),
                evaluations: request.evaluations,
                threads,
                genetic,
                ..PlaceOptions::default()
            };
            let (seconds, runtime_ns) = timed(request.runs, &problem, &options)?;
            out.row(json!({
                "table": "By size", "search": format!("shardgraph, {name}"), "x": graph.n_ops(),
                "n_keys": problem.n_keys(), "seconds": seconds, "runtime_ns": runtime_ns,
            }));
        }
    }
    Ok(())
}

/// The seconds of every run, and the runtime that all of them found.
fn timed(
    runs: u32,
    problem: &Problem<'_>,
    options: &PlaceOptions,
) -> Result<(Vec<f64>, u64), Failure> {
    let mut clock = clock();
    let mut seconds = Vec::new();
    let mut runtime_ns = 0;
    for _ in 0..runs {
        let start = clock();
        runtime_ns = search(problem, options, Vec::new(), None)?.best.fitness.1;
        seconds.push(clock() - start);
    }
    Ok((seconds, runtime_ns))
}
