//! Link prediction by what `embed` does unless it is told otherwise, beside what needs no training.

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_line::eval::{Auc, EvalConfig, RunScore, evaluate_line};
use shardgraph_line::{Config, Line, Preset, SelectConfig, Selection};

use super::graphs::{load, shown};
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    graphs: Vec<String>,
    /// Most epochs of a trial, in one row each: more are to be no worse.
    most_epochs: Vec<u32>,
    dim: usize,
    fitted_edges: usize,
}

/// For each graph a row for each number of epochs, and one for each baseline.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        let mut baselines = None;
        for &most_epochs in &request.most_epochs {
            let (score, selection) = default_of(&graph, request, most_epochs)?;
            let method = format!("ours, at most {most_epochs} epochs");
            let mut row = row(shown(name), &method, score.embedding);
            row["seconds"] = json!(score.seconds);
            row["note"] = json!(chosen(&selection));
            out.row(row);
            baselines = Some(score);
        }
        for (method, auc) in baselines.iter().flat_map(each_baseline) {
            out.row(row(shown(name), method, auc));
        }
    }
    Ok(())
}

fn default_of(
    graph: &Graph,
    request: &Request,
    most_epochs: u32,
) -> Result<(RunScore, Selection), Failure> {
    let config = Config {
        dim: request.dim,
        epochs: most_epochs,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Config::preset(Preset::Default)
    };
    let line = Line::new(config).selecting(SelectConfig {
        most_epochs,
        ..SelectConfig::default()
    });
    let eval = EvalConfig {
        fitted_edges: request.fitted_edges,
        ..EvalConfig::default()
    };
    let (scores, selections) = evaluate_line(graph, &line, &eval, &Device::host(), &mut |_| {})?;
    let both = scores.into_iter().next().zip(selections.into_iter().next());
    both.ok_or_else(|| "an evaluation without a run".into())
}

/// What a selection has chosen, in words.
fn chosen(selection: &Selection) -> String {
    let components = selection.components.iter().map(ToString::to_string);
    components.collect::<Vec<String>>().join(" + ")
}

fn each_baseline(score: &RunScore) -> Vec<(&'static str, Auc)> {
    let without_rows = [
        ("degree product", score.degree_product),
        ("common neighbours", score.common_neighbors),
        ("Adamic-Adar", score.adamic_adar),
    ];
    let factorised = score.factorised.iter().flat_map(|all| all.each());
    without_rows.into_iter().chain(factorised).collect()
}

fn row(graph: &str, method: &str, auc: Auc) -> Value {
    json!({
        "graph": graph, "method": method,
        "auc_uniform": auc.uniform, "auc_degree_matched": auc.degree_matched,
    })
}
