//! The numbers of figures 5 and 6 and of table 2 for a set of graphs.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_costgraph::generate::RandomGraph;
use shardgraph_costgraph::statistics::{GraphStatistics, SetStatistics, Spread};

use crate::Failure;
use crate::sets::{Candidate, SetName, Source};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    source: Source,
}

pub(crate) fn run(request: &Request) -> Result<(), Failure> {
    let Some(set) = request.source.load()? else {
        return Ok(());
    };
    let statistics: Vec<GraphStatistics> = set.graphs.iter().map(GraphStatistics::of).collect();
    let of_set = SetStatistics::of(&statistics).ok_or("the set is empty")?;
    let mut line = json!({
        "set": request.source.set,
        "n_graphs": of_set.n_graphs,
        "n_available": set.n_available,
        "n_in_degree_sequences": of_set.n_in_degree_sequences,
        "n_structures": of_set.n_structures,
        "nodes": spread(&of_set.n_ops),
        "edges": spread(&of_set.n_uses),
        "diameter": spread(&of_set.diameter),
        "depth": spread(&of_set.depth),
        "tensors": spread_of(&statistics, |graph| graph.n_tensors),
        "free_ops_percent": spread_of(&statistics, |graph| 100 * graph.n_free_ops / graph.n_ops.max(1)),
    });
    if request.source.set == SetName::Synthetic {
        line["models"] = RandomGraph::PAPER
            .iter()
            .map(|model| of_model(model, &set.candidates))
            .collect();
    }
    println!("{line}");
    Ok(())
}

fn spread_of(statistics: &[GraphStatistics], number: fn(&GraphStatistics) -> u64) -> Value {
    Spread::of(statistics.iter().map(number)).map_or(Value::Null, |values| spread(&values))
}

fn spread(values: &Spread) -> Value {
    json!({
        "min": values.min, "p10": values.p10, "p50": values.p50, "p90": values.p90, "max": values.max, "mean": values.mean,
    })
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
        "model": model.name(),
        "parameters": format!("{model:?}"),
        "n_candidates": own.len(),
        "n_kept": kept.len(),
        "mean_gain": mean(&all),
        "mean_gain_of_kept": mean(&kept),
    })
}
