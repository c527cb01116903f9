//! Other programs, where the user has them: the same graphs, seconds on the wall, and the same judgement of the rows that they leave.
//!
//! A peer is a command whose words may hold `{edges}` (a text file of `u v 1` in both directions, nodes are numbers), `{out}` (where it is to
//! leave its rows, in word2vec's text form), `{dim}`, `{threads}`, `{epochs}`, `{samples}` (epochs times edges) and `{millions}` (of these, rounded
//! up). Seconds are those of the whole command: reading and writing are among them.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_line::eval::{EvalConfig, evaluate_rows};
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::{Embedding, NodeLabels};

use super::graphs::{load, shown};
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    graphs: Vec<String>,
    /// What rows call it.
    name: String,
    command: String,
    dims: Vec<usize>,
    threads: Vec<usize>,
    epochs: u32,
    runs: u32,
    /// Whether it is judged by link prediction, on 70 % of the edges.
    is_scored: bool,
    /// The longest that one run may take.
    deadline_s: f64,
    /// Edges that the regression is fitted to at most.
    #[serde(default = "usual_fitted_edges")]
    fitted_edges: usize,
}

fn usual_fitted_edges() -> usize {
    EvalConfig::default().fitted_edges
}

/// What one run is asked for.
#[derive(Clone, Copy)]
struct Asked<'r> {
    request: &'r Request,
    dim: usize,
    threads: usize,
}

/// One row for each graph, number of columns and number of threads.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        for &dim in &request.dims {
            for &threads in &request.threads {
                let asked = Asked {
                    request,
                    dim,
                    threads,
                };
                let mut row = match request.is_scored {
                    true => scores(&graph, asked)?,
                    false => seconds(&graph, asked)?,
                };
                row["graph"] = json!(shown(name));
                row["method"] = json!(request.name);
                if !request.is_scored {
                    row["dim"] = json!(dim);
                    row["threads"] = json!(threads);
                    row["epochs"] = json!(request.epochs);
                }
                out.row(row);
            }
        }
    }
    Ok(())
}

fn seconds(graph: &Graph, asked: Asked<'_>) -> Result<Value, Failure> {
    let later = |u: u32| graph.neighbors(u).iter().filter(move |&&v| u < v);
    let edges = (0..graph.n_nodes()).flat_map(|u| later(u).map(move |&v| (u, v)));
    let edges: Vec<(u32, u32)> = edges.collect();
    let runs = (0..asked.request.runs).map(|_| Ok(asked.rows(graph.n_nodes(), &edges)?.1));
    Ok(json!({"seconds": runs.collect::<Result<Vec<f64>, Failure>>()?}))
}

fn scores(graph: &Graph, asked: Asked<'_>) -> Result<Value, Failure> {
    let mut seconds = Vec::new();
    let mut make = |edges: &[(u32, u32)], _seed: u64| -> Result<Embedding, Failure> {
        let (rows, took) = asked.rows(graph.n_nodes(), edges)?;
        seconds.push(took);
        Ok(rows)
    };
    let eval = EvalConfig {
        runs: asked.request.runs,
        fitted_edges: asked.request.fitted_edges,
        factorised_edges: 0,
        ..EvalConfig::default()
    };
    let scores = evaluate_rows(graph, 1, &eval, &mut make)?;
    let uniform: Vec<f64> = scores.iter().map(|s| s.embedding.uniform).collect();
    let matched: Vec<f64> = scores.iter().map(|s| s.embedding.degree_matched).collect();
    Ok(json!({"seconds": seconds, "auc_uniform": uniform, "auc_degree_matched": matched}))
}

impl Asked<'_> {
    /// The rows that the command leaves for these edges, and its seconds.
    fn rows(self, n_nodes: u32, edges: &[(u32, u32)]) -> Result<(Embedding, f64), Failure> {
        let folder = tempfile::tempdir()?;
        let (text, out) = (
            folder.path().join("edges.txt"),
            folder.path().join("rows.txt"),
        );
        let mut lines = String::new();
        for (u, v) in edges {
            let _ = writeln!(lines, "{u} {v} 1\n{v} {u} 1"); // to a string: cannot fail
        }
        std::fs::write(&text, lines)?;
        let words = self.words(edges.len(), &text, &out);
        let seconds = ended_well(&words, self.request.deadline_s)?;
        let found = formats::read(&out, Some(FileFormat::Word2vecText))?;
        Ok((by_node(&found, n_nodes)?, seconds))
    }

    fn words(self, n_edges: usize, text: &Path, out: &Path) -> Vec<String> {
        let samples = u64::from(self.request.epochs) * n_edges as u64;
        let values = [
            ("{edges}", text.display().to_string()),
            ("{out}", out.display().to_string()),
            ("{dim}", self.dim.to_string()),
            ("{threads}", self.threads.to_string()),
            ("{epochs}", self.request.epochs.to_string()),
            ("{samples}", samples.to_string()),
            ("{millions}", samples.div_ceil(1_000_000).to_string()),
        ];
        let filled = |word: &str| {
            let put = |word: String, (key, value): &(&str, String)| word.replace(key, value);
            values.iter().fold(word.to_owned(), put)
        };
        self.request
            .command
            .split_whitespace()
            .map(filled)
            .collect()
    }
}

/// Runs a command; its seconds, or why it did not end well.
fn ended_well(words: &[String], deadline_s: f64) -> Result<f64, String> {
    let (program, words) = words.split_first().ok_or("an empty command")?;
    let failed = |e: std::io::Error| format!("{program}: {e}");
    let mut command = Command::new(program);
    // Its standard output is no row of ours.
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0); // with all that it starts
    let timer = Timer::wall();
    let mut child = command.spawn().map_err(failed)?;
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(timer.elapsed_s()),
            Some(status) => return Err(format!("{program}: {status}")),
            None if timer.elapsed_s() > deadline_s => {
                let group = format!("-{}", child.id());
                // It may have ended by now.
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program}: not done within {deadline_s} s"));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Rows in the order of nodes; a node that the peer has left out has zeros.
fn by_node(found: &Embedding, n_nodes: u32) -> Result<Embedding, Failure> {
    let dim = found.dim();
    let mut values = vec![0.0; n_nodes as usize * dim];
    for (at, label) in (0u32..).zip(found.labels().iter()) {
        let node: u32 = match label.parse() {
            Ok(node) if node < n_nodes => node,
            _ => {
                let what = format!("a row of `{label}`, expected a node below {n_nodes}");
                return Err(what.into());
            }
        };
        values[node as usize * dim..][..dim].copy_from_slice(found.row(at));
    }
    Ok(Embedding::new(dim, values, NodeLabels::numbers(n_nodes))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that is three lines of shell; one that fails, one that takes too long, and one whose rows are of no node.
    #[test]
    fn small() {
        let mut out = Report::default();
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("peer.sh");
        let awk = r#"awk -v d="$3" '{ n[$1]++ } END { print length(n), d; for (u in n) { printf "%s", u; for (k = 1; k <= d; k++) printf " %f", n[u] / k; print "" } }' "$1" > "$2""#;
        std::fs::write(&script, awk).unwrap();
        let request = |command: &str, is_scored: bool| Request {
            graphs: vec!["sbm:200:4:0.3:0.01".to_owned()],
            name: "degrees".to_owned(),
            command: command.to_owned(),
            dims: vec![4],
            threads: vec![1],
            epochs: 2,
            runs: 2,
            is_scored,
            deadline_s: 60.0,
            fitted_edges: 60_000,
        };
        let own = format!("sh {} {{edges}} {{out}} {{dim}}", script.display());
        run(&request(&own, false), &mut out).unwrap();
        run(&request(&own, true), &mut out).unwrap();
        let hurried = Request {
            deadline_s: 0.05,
            ..request("sleep 600", false)
        };
        let no_node = "cp {edges} {out}";
        for (request, reason) in [
            (request("false", false), "exit status: 1"),
            (request("no-such-program {out}", false), "no-such-program"),
            (hurried, "not done within 0.05 s"),
            (request(no_node, false), "rows.txt"),
        ] {
            let message = run(&request, &mut out).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
