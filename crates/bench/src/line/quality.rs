//! AUC of link prediction, and the seconds until a stated one.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_line::Config;
use shardgraph_line::eval::{Auc, EvalConfig, RunScore, evaluate};

use super::graphs::{Variant, load, shown, variant};
use crate::measure::Context;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    graphs: Vec<String>,
    variants: Vec<String>,
    epochs: Vec<u32>,
    runs: u32,
}

/// Samples whose gradients are taken before any row changes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InFlight {
    graphs: Vec<String>,
    variants: Vec<String>,
    edges_in_flight: Vec<u32>,
    epochs: u32,
    runs: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Goal {
    graph: String,
    variants: Vec<String>,
    /// Ascending; a variant stops at the first number with which every run reaches both.
    epochs: Vec<u32>,
    runs: u32,
    uniform: f64,
    degree_matched: f64,
}

/// One row for each graph, variant and number of epochs, and one for each score that needs no training.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        let mut scores = Vec::new();
        for variant in &request.variants {
            for &epochs in &request.epochs {
                scores = of_variant(&graph, variant, None, epochs, request.runs)?;
                let method = format!("ours, {variant}, {epochs} epochs");
                let mut row = row(shown(name), &method, &scores, |score| score.embedding);
                row["seconds"] = seconds(&scores);
                out.row(row);
            }
        }
        let product = row(shown(name), "degree product", &scores, |s| s.degree_product);
        let common = row(shown(name), "Adamic-Adar", &scores, |s| s.adamic_adar);
        out.row(product);
        out.row(common);
    }
    Ok(())
}

/// One row for each graph, variant and number of samples in flight; 0 stands for none but the one that is worked on.
pub(crate) fn in_flight(
    _: &Context<'_>,
    request: &InFlight,
    out: &mut Report,
) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        for variant in &request.variants {
            for &n in &request.edges_in_flight {
                let edges_in_flight = (n > 0).then_some(n);
                let scores = of_variant(
                    &graph,
                    variant,
                    edges_in_flight,
                    request.epochs,
                    request.runs,
                )?;
                let method = format!("ours, {variant}");
                let mut row = row(shown(name), &method, &scores, |score| score.embedding);
                row["edges_in_flight"] = json!(n);
                row["epochs"] = json!(request.epochs);
                row["seconds"] = seconds(&scores);
                out.row(row);
            }
        }
    }
    Ok(())
}

fn of_variant(
    graph: &Graph,
    name: &str,
    edges_in_flight: Option<u32>,
    epochs: u32,
    runs: u32,
) -> Result<Vec<RunScore>, Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let Variant { config, parts } = variant(name)?;
    let config = Config {
        epochs,
        threads,
        edges_in_flight,
        ..config
    };
    let eval = EvalConfig {
        runs,
        parts,
        factorised_edges: 0,
        ..EvalConfig::default()
    };
    Ok(evaluate(
        graph,
        &config,
        &eval,
        &Device::host(),
        &mut |_| {},
    )?)
}

fn row(graph: &str, method: &str, scores: &[RunScore], of: fn(&RunScore) -> Auc) -> Value {
    let uniform: Vec<f64> = scores.iter().map(|score| of(score).uniform).collect();
    let matched: Vec<f64> = scores
        .iter()
        .map(|score| of(score).degree_matched)
        .collect();
    json!({"graph": graph, "method": method, "auc_uniform": uniform, "auc_degree_matched": matched})
}

fn seconds(scores: &[RunScore]) -> Value {
    scores.iter().map(|score| score.seconds).collect()
}

/// A row for each number of epochs that was tried.
pub(crate) fn time_to_auc(_: &Context<'_>, goal: &Goal, out: &mut Report) -> Result<(), Failure> {
    let Some(graph) = load(&goal.graph, out)? else {
        return Ok(());
    };
    for variant in &goal.variants {
        for &epochs in &goal.epochs {
            let scores = of_variant(&graph, variant, None, epochs, goal.runs)?;
            let is_reached = scores.iter().all(|score| {
                let Auc {
                    uniform,
                    degree_matched,
                } = score.embedding;
                uniform >= goal.uniform && degree_matched >= goal.degree_matched
            });
            let method = format!("ours, {variant}");
            let mut row = row(shown(&goal.graph), &method, &scores, |score| {
                score.embedding
            });
            row["epochs"] = json!(epochs);
            row["seconds"] = seconds(&scores);
            row["reached"] = json!(if is_reached { "yes" } else { "no" });
            out.row(row);
            if is_reached {
                break;
            }
        }
    }
    Ok(())
}
