//! Link prediction by what `embed` does unless it is told otherwise, beside what needs no training.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};
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
    threads: usize,
    /// The least that a peer may take. It may take as long as our default, where that is more.
    least_peer_seconds: f64,
}

impl Request {
    /// What peers are asked for: the same graphs, columns and threads, and the seconds of ours by graph.
    pub(super) fn of_peers(
        &self,
        seconds: &BTreeMap<String, f64>,
    ) -> Result<Map<String, Value>, Failure> {
        let keys = json!({
            "graphs": self.graphs, "dims": [self.dim], "threads": [self.threads], "runs": 1,
            "is_scored": true, "fitted_edges": self.fitted_edges,
            "deadline_s": self.least_peer_seconds, "equal_seconds": seconds,
        });
        Ok(serde_json::from_value(keys)?)
    }
}

/// A row for each number of epochs, one for half of the first one's seconds, and one for each
/// baseline; by graph the seconds of the first row.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<BTreeMap<String, f64>, Failure> {
    let mut seconds = BTreeMap::new();
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        let mut n_rows = 0;
        let mut add = |method: String, select: SelectConfig| -> Result<RunScore, Failure> {
            n_rows += 1;
            let (score, selection) = default_of(&graph, request, select, n_rows == 1)?;
            let mut row = row(shown(name), &method, score.embedding);
            row["seconds"] = json!(score.seconds);
            row["note"] = json!(chosen(&selection));
            out.row(row);
            Ok(score)
        };
        let mut scores = Vec::new();
        for &most_epochs in &request.most_epochs {
            let method = format!("ours, at most {most_epochs} epochs");
            let select = SelectConfig {
                most_epochs,
                ..SelectConfig::default()
            };
            scores.push(add(method, select)?);
        }
        let Some(first) = scores.first() else {
            continue;
        };
        let select = SelectConfig {
            most_epochs: request.most_epochs[0],
            time_limit_s: Some(0.5 * first.seconds),
            ..SelectConfig::default()
        };
        add("ours, half of the seconds".to_owned(), select)?;
        for (method, auc) in each_baseline(first) {
            out.row(row(shown(name), method, auc));
        }
        seconds.insert(name.clone(), first.seconds);
    }
    Ok(seconds)
}

fn default_of(
    graph: &Graph,
    request: &Request,
    select: SelectConfig,
    has_factorised: bool,
) -> Result<(RunScore, Selection), Failure> {
    let config = Config {
        dim: request.dim,
        epochs: select.most_epochs,
        threads: request.threads,
        ..Config::preset(Preset::Default)
    };
    let line = Line::new(config).selecting(select);
    let usual = EvalConfig::default();
    let eval = EvalConfig {
        fitted_edges: request.fitted_edges,
        factorised_edges: if has_factorised {
            usual.factorised_edges
        } else {
            0
        },
        ..usual
    };
    let (scores, selections) = evaluate_line(graph, &line, &eval, &Device::host(), &mut |_| {})?;
    let both = scores.into_iter().next().zip(selections.into_iter().next());
    both.ok_or_else(|| "an evaluation without a run".into())
}

/// The number of graphs on which our first row is at least the best of theirs, and of those on
/// which our second one, which may train longer, is below it. None without rows of a peer.
pub(super) fn comparison(ours: &[Value], theirs: &[Value]) -> Option<Value> {
    let graphs: BTreeSet<&str> = theirs
        .iter()
        .filter_map(|row| row["graph"].as_str())
        .collect();
    if graphs.is_empty() {
        return None;
    }
    let mut row = json!({"graph": "all", "method": "graphs with a peer", "graphs": graphs.len()});
    for (name, wins, losses) in [
        (
            "auc_uniform",
            "at_least_best_peer_uniform",
            "longer_is_worse_uniform",
        ),
        (
            "auc_degree_matched",
            "at_least_best_peer_matched",
            "longer_is_worse_matched",
        ),
    ] {
        let of = |rows: &[Value], graph: &str| -> Vec<f64> {
            let rows = rows.iter().filter(|row| row["graph"] == graph);
            rows.filter_map(|row| number(&row[name])).collect()
        };
        let n_graphs = |holds: &dyn Fn(&[f64], &[f64]) -> bool| {
            let holds = |graph: &&&str| holds(&of(ours, graph), &of(theirs, graph));
            graphs.iter().filter(holds).count()
        };
        row[wins] = json!(n_graphs(&|ours, theirs| theirs
            .iter()
            .all(|auc| ours[0] >= *auc)));
        row[losses] = json!(n_graphs(&|ours, _| ours[1] < ours[0]));
    }
    Some(row)
}

/// A number, or the first of a list.
fn number(value: &Value) -> Option<f64> {
    value.get(0).unwrap_or(value).as_f64()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_won_by_the_best_of_the_peers_alone() {
        let of = |graph: &str, uniform: f64, matched: f64| {
            row(
                graph,
                "",
                Auc {
                    uniform,
                    degree_matched: matched,
                },
            )
        };
        let ours = [
            of("a", 0.9, 0.8),
            of("a", 0.9, 0.7),
            of("b", 0.6, 0.5),
            of("b", 0.7, 0.6),
        ];
        assert_eq!(comparison(&ours, &[]), None);
        let listed = json!({"graph": "b", "auc_uniform": [0.5], "auc_degree_matched": [0.55]});
        let theirs = [of("a", 0.9, 0.7), of("a", 0.1, 0.81), listed];
        let row = comparison(&ours, &theirs).unwrap();
        assert_eq!(row["graphs"], 2);
        let of_row = |name: &str| row[name].as_u64().unwrap();
        assert_eq!(of_row("at_least_best_peer_uniform"), 2);
        assert_eq!(of_row("at_least_best_peer_matched"), 0);
        assert_eq!(of_row("longer_is_worse_uniform"), 0);
        assert_eq!(of_row("longer_is_worse_matched"), 1);
    }
}
