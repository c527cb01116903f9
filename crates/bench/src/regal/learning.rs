//! Seconds of a step of training, and of what a policy costs beside the search that it serves.

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, ModelOptions, Objective, Problem};
use shardgraph_regal::{
    PlaceOptions, Policy, PolicyConfig, Preset, TrainConfig, Trainer, features, search,
};

use crate::measure::Context;
use crate::report::{Failure, Report, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Request {
    /// Nodes of each graph without source and sink; by default the mean of the paper's synthetic ones.
    n_nodes: u32,
    /// Of a search that a policy serves, features included.
    evaluations: u64,
    /// Of a search behind a reward.
    reward_evaluations: u64,
    /// How often everything is timed.
    runs: u32,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            n_nodes: 125,
            evaluations: 5000,
            reward_evaluations: 1000,
            runs: 30,
        }
    }
}

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    let recipe = Synthetic {
        min_nodes: request.n_nodes,
        max_nodes: request.n_nodes,
        ..Synthetic::default()
    };
    // One of each random graph model.
    let graphs = (0..4).map(|index| synthetic(&recipe, 1, index));
    let graphs: Vec<Graph> = graphs.collect::<Result<_, _>>()?;
    for threads in [1, 2] {
        let config = TrainConfig {
            reward_evaluations: request.reward_evaluations,
            ..TrainConfig::preset(Preset::Synthetic)
        };
        let mut trainer = Trainer::new(&config, &graphs, threads)?;
        // Features and denominators are known from then on.
        for _ in 0..8 {
            trainer.step()?;
        }
        let name = format!("step of training, {threads} threads");
        timed(&name, request.runs, out, &mut || {
            trainer.step()?;
            Ok(())
        })?;
    }
    policy(request, &graphs[1], out)
}

fn policy(request: &Request, graph: &Graph, out: &mut Report) -> Result<(), Failure> {
    let devices = DeviceSet::uniform(2, None)?;
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 1)?;
    let options = PlaceOptions {
        decoder: Some(DecoderKind::Paper),
        evaluations: request.evaluations,
        ..PlaceOptions::default()
    };
    let model = ModelOptions::default();
    let problem = Problem::new(graph, &devices, Objective::Runtime, model)?;
    let found = features(&problem, &options, 400)?;
    timed("features", request.runs, out, &mut || {
        features(&problem, &options, 400)?;
        Ok(())
    })?;
    timed("proposals", request.runs, out, &mut || {
        policy.propose(&problem, &found, 1)?;
        Ok(())
    })?;
    timed("search", request.runs, out, &mut || {
        search(&problem, &options, Vec::new(), None)?;
        Ok(())
    })
}

/// Prints the best and the median of some runs.
fn timed(
    what: &str,
    runs: u32,
    out: &mut Report,
    run: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut clock = clock();
    let mut seconds = Vec::new();
    for _ in 0..runs {
        let begin = clock();
        run()?;
        seconds.push(clock() - begin);
    }
    out.row(json!({ "what": what, "seconds": seconds }));
    Ok(())
}
