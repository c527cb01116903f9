//! Other programs, where the user has them: the same graphs, seconds on the wall, and the same judgement of the rows that they leave.
//!
//! A peer is a command whose words may hold `{edges}` (a text file of `u v 1` in both directions, nodes are numbers), `{out}` (where it is to
//! leave its rows, in word2vec's text form), `{dim}`, `{threads}`, `{epochs}`, `{samples}` (epochs times edges), `{millions}` (of these, rounded
//! up) and `{seconds}` (what it may take). Seconds are those of the whole command: reading and writing are among them. A graph on which
//! it fails, or is not done in time, is a skip. A file `{out}.note` is the note of the row.

use std::collections::BTreeMap;
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
    epochs: Vec<u32>,
    runs: u32,
    /// Whether it is judged by link prediction, on 70 % of the edges.
    is_scored: bool,
    /// The longest that one run may take.
    deadline_s: f64,
    /// By graph, seconds that a run may take where they are more than `deadline_s`: what ours took.
    #[serde(default)]
    equal_seconds: BTreeMap<String, f64>,
    /// Edges that the regression is fitted to at most.
    #[serde(default = "usual_fitted_edges")]
    fitted_edges: usize,
}

fn usual_fitted_edges() -> usize {
    EvalConfig::default().fitted_edges
}

/// What one run is asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'r> {
    request: &'r Request,
    graph: &'r str,
    dim: usize,
    threads: usize,
    epochs: u32,
}

/// One row for each graph, number of columns, of threads and of epochs.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        for asked in request.on(name) {
            let row = match request.is_scored {
                true => scores(&graph, asked),
                false => seconds(&graph, asked),
            };
            match row {
                Ok(row) => out.row(asked.labelled(row)),
                Err(why) => {
                    let why = why.to_string().replace('\n', "; ");
                    let method = asked.method();
                    out.skip(&format!("not run: {method} on {}: {why}", shown(name)));
                }
            }
        }
    }
    Ok(())
}

impl Request {
    /// All runs on a graph.
    pub(super) fn on<'r>(&'r self, graph: &'r str) -> Vec<Asked<'r>> {
        let mut all = Vec::new();
        for &dim in &self.dims {
            for &threads in &self.threads {
                all.extend(self.epochs.iter().map(|&epochs| Asked {
                    request: self,
                    graph,
                    dim,
                    threads,
                    epochs,
                }));
            }
        }
        all
    }
}

fn seconds(graph: &Graph, asked: Asked<'_>) -> Result<Value, Failure> {
    let later = |u: u32| graph.neighbors(u).iter().filter(move |&&v| u < v);
    let edges = (0..graph.n_nodes()).flat_map(|u| later(u).map(move |&v| (u, v)));
    let edges: Vec<(u32, u32)> = edges.collect();
    let runs = (0..asked.request.runs).map(|_| Ok(asked.rows(graph.n_nodes(), &edges)?.seconds));
    Ok(json!({"seconds": runs.collect::<Result<Vec<f64>, Failure>>()?}))
}

fn scores(graph: &Graph, asked: Asked<'_>) -> Result<Value, Failure> {
    let (mut seconds, mut note) = (Vec::new(), String::new());
    let mut make = |edges: &[(u32, u32)], _seed: u64| -> Result<Embedding, Failure> {
        let left = asked.rows(graph.n_nodes(), edges)?;
        seconds.push(left.seconds);
        note = left.note;
        Ok(left.rows)
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
    let mut row =
        json!({"seconds": seconds, "auc_uniform": uniform, "auc_degree_matched": matched});
    if !note.is_empty() {
        row["note"] = json!(note);
    }
    Ok(row)
}

/// What a run leaves.
pub(super) struct Left {
    pub(super) rows: Embedding,
    pub(super) seconds: f64,
    /// Empty where the peer leaves none.
    pub(super) note: String,
}

impl Asked<'_> {
    pub(super) fn method(self) -> String {
        let Request {
            name,
            command,
            is_scored,
            ..
        } = self.request;
        let placeholders = ["{epochs}", "{samples}", "{millions}"];
        match *is_scored && placeholders.iter().any(|word| command.contains(word)) {
            true => format!("{name}, {} epochs", self.epochs),
            false => name.clone(),
        }
    }

    fn labelled(self, mut row: Value) -> Value {
        row["graph"] = json!(shown(self.graph));
        row["method"] = json!(self.method());
        if !self.request.is_scored {
            row["dim"] = json!(self.dim);
            row["threads"] = json!(self.threads);
            row["epochs"] = json!(self.epochs);
        }
        row
    }

    fn deadline_s(self) -> f64 {
        let equal = self.request.equal_seconds.get(self.graph).copied();
        self.request.deadline_s.max(equal.unwrap_or(0.0))
    }

    /// What the command leaves for these edges.
    pub(super) fn rows(self, n_nodes: u32, edges: &[(u32, u32)]) -> Result<Left, Failure> {
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
        let seconds = ended_well(&words, self.deadline_s())?;
        let found = formats::read(&out, Some(FileFormat::Word2vecText))?;
        let note = std::fs::read_to_string(folder.path().join("rows.txt.note"));
        Ok(Left {
            rows: by_node(&found, n_nodes)?,
            seconds,
            note: note.map_or(String::new(), |note| note.trim().to_owned()),
        })
    }

    fn words(self, n_edges: usize, text: &Path, out: &Path) -> Vec<String> {
        let samples = u64::from(self.epochs) * n_edges as u64;
        let values = [
            ("{edges}", text.display().to_string()),
            ("{out}", out.display().to_string()),
            ("{dim}", self.dim.to_string()),
            ("{threads}", self.threads.to_string()),
            ("{epochs}", self.epochs.to_string()),
            ("{samples}", samples.to_string()),
            ("{millions}", samples.div_ceil(1_000_000).to_string()),
            ("{seconds}", self.deadline_s().to_string()),
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
    let (path, words) = words.split_first().ok_or("an empty command")?;
    // A record names the program, not where it lies on one machine.
    let program = path.rsplit('/').next().unwrap_or(path);
    let failed = |e: std::io::Error| format!("{program}: {e}");
    let mut command = Command::new(path);
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
                return Err(format!("{program}: not done within {deadline_s:.1} s"));
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
        let awk = r#"awk -v d="$3" '{ n[$1]++ } END { print length(n), d; for (u in n) { printf "%s", u; for (k = 1; k <= d; k++) printf " %f", n[u] / k; print "" } }' "$1" > "$2"; echo "of $4 s" > "$2.note""#;
        std::fs::write(&script, awk).unwrap();
        let request = |command: &str, is_scored: bool| Request {
            graphs: vec!["sbm:200:4:0.3:0.01".to_owned()],
            name: "degrees".to_owned(),
            command: command.to_owned(),
            dims: vec![4],
            threads: vec![1],
            epochs: vec![2, 3],
            runs: 2,
            is_scored,
            deadline_s: 60.0,
            equal_seconds: BTreeMap::new(),
            fitted_edges: 60_000,
        };
        let own = format!(
            "sh {} {{edges}} {{out}} {{dim}} {{seconds}} {{epochs}}",
            script.display()
        );
        run(&request(&own, false), &mut out).unwrap();
        let longer = Request {
            equal_seconds: BTreeMap::from([("sbm:200:4:0.3:0.01".to_owned(), 61.5)]),
            ..request(&own, true)
        };
        run(&longer, &mut out).unwrap();
        assert_eq!(
            (out.lines.len(), out.skips.len()),
            (4, 0),
            "{:?}",
            out.skips
        );
        assert_eq!(out.lines[1]["epochs"], 3);
        assert_eq!(out.lines[3]["method"], "degrees, 3 epochs");
        assert_eq!(out.lines[3]["note"], "of 61.5 s");
        let hurried = Request {
            deadline_s: 0.05,
            ..request("sleep 600", false)
        };
        let no_node = "cp {edges} {out}";
        for (request, reason) in [
            (request("false", false), "exit status: 1"),
            (request("no-such-program {out}", false), "no-such-program"),
            (hurried, "sleep: not done within 0.1 s"),
            (request(no_node, false), "rows.txt"),
        ] {
            out.skips.clear();
            run(&request, &mut out).unwrap();
            assert_eq!(out.skips.len(), 2);
            assert!(out.skips[0].contains(reason), "{}", out.skips[0]);
        }
    }
}
