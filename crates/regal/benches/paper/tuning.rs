//! The grid search of "Tuned BRKGA", on graphs that no table reports.

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Objective};
use shardgraph_regal::{GeneticOptions, Grid, PlaceOptions, Tuned, tune, tune_settings};

use crate::sets::Source;
use crate::{Failure, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    sources: Vec<Source>,
    objective: Objective,
    options: PlaceOptions,
    grid: Grid,
    /// The grid is searched on this many graphs, and the best settings then on the others; absent: all of it on all graphs.
    #[serde(default)]
    first_graphs: Option<usize>,
    /// Graphs with more ops are left out.
    #[serde(default)]
    max_ops: Option<usize>,
}

/// How many of the best settings are printed, and come to the second round.
const N_BEST: usize = 12;

pub(crate) fn run(request: &Request) -> Result<(), Failure> {
    let mut clock = clock();
    let mut graphs = Vec::new();
    for source in &request.sources {
        graphs.extend(source.load()?.map(|set| set.graphs).unwrap_or_default());
    }
    graphs.retain(|graph| graph.n_ops() <= request.max_ops.unwrap_or(usize::MAX));
    let options = PlaceOptions {
        objective: request.objective,
        decoder: Some(DecoderKind::Paper),
        ..request.options.clone()
    };
    let start = clock();
    let (tuned, rounds) = search(request, &graphs, &options)?;
    let best = tuned.settings.iter().take(N_BEST);
    let best: Vec<_> = best
        .map(|(setting, ratio)| json!({ "setting": setting, "ratio": ratio }))
        .collect();
    println!(
        "{}",
        json!({
            "rounds": rounds, "graphs": graphs.iter().map(Graph::name).collect::<Vec<_>>(),
            "worst_ratio": tuned.settings.last().map(|(_, ratio)| ratio), "best": best, "seconds": clock() - start,
        })
    );
    Ok(())
}

/// The last round's outcome, and the settings and graphs of each round.
fn search(
    request: &Request,
    graphs: &[Graph],
    options: &PlaceOptions,
) -> Result<(Tuned, Vec<[usize; 2]>), Failure> {
    let devices = DeviceSet::uniform(2, None)?;
    let n_first = request
        .first_graphs
        .unwrap_or(graphs.len())
        .min(graphs.len());
    let (first, others) = graphs.split_at(n_first);
    let tuned = tune(first, &devices, options, &request.grid)?;
    let mut rounds = vec![[tuned.settings.len(), first.len()]];
    if others.is_empty() {
        return Ok((tuned, rounds));
    }
    let best = tuned.settings.iter().take(N_BEST);
    let best: Vec<GeneticOptions> = best.map(|(setting, _)| *setting).collect();
    rounds.push([best.len(), others.len()]);
    Ok((tune_settings(others, &devices, options, best)?, rounds))
}
