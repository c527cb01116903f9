//! The numbers of figures 5 and 6 and of table 2 for a set of graphs.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_costgraph::generate::RandomGraph;

use super::graph_statistics::{GraphStatistics, SetStatistics, Spread};
use super::sets::{Candidate, SetName, Source};
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    source: Source,
}

pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let Some(set) = request.source.load(out)? else {
        return Ok(());
    };
    let statistics: Vec<GraphStatistics> = set.graphs.iter().map(GraphStatistics::of).collect();
    let of_set = SetStatistics::of(&statistics).ok_or("the set is empty")?;
    let set_name = request.source.set;
    let columns = [
        ("nodes", of_set.n_ops),
        ("edges", of_set.n_uses),
        ("diameter", of_set.diameter),
        ("depth", of_set.depth),
    ];
    let tensors = Spread::of(statistics.iter().map(|graph| graph.n_tensors));
    let columns = columns.into_iter().chain(tensors.map(|of| ("tensors", of)));
    for (column, spread) in columns {
        out.row(json!({
            "set": set_name, "number": column,
            "graphs": of_set.n_graphs, "in_degree_sequences": of_set.n_in_degree_sequences,
            "min": spread.min, "p10": spread.p10, "p50": spread.p50, "p90": spread.p90, "max": spread.max,
            "mean": spread.mean,
        }));
    }
    if set_name == SetName::Synthetic {
        for model in &RandomGraph::PAPER {
            out.row(of_model(model, &set.candidates));
        }
    }
    Ok(())
}

/// A model's parameters, and what the filter made of its candidates.
fn of_model(model: &RandomGraph, candidates: &[Candidate]) -> Value {
    let own: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.model == model.name())
        .collect();
    let kept: Vec<f64> = own.iter().filter(|c| c.is_kept).map(|c| c.gain).collect();
    let mean =
        |gains: &[f64]| gains.iter().fold(0.0, |sum, gain| sum + gain) / gains.len().max(1) as f64;
    let all: Vec<f64> = own.iter().map(|c| c.gain).collect();
    json!({
        "table": "The generator (A.1.4, table 2)",
        "model": model.name(),
        "parameters": format!("{model:?}"),
        "candidates": own.len(),
        "kept": kept.len(),
        "mean_gain_percent": 100.0 * mean(&all),
        "mean_gain_of_kept_percent": 100.0 * mean(&kept),
    })
}
