//! Node classification from rows: micro and macro F1 at half of the listed nodes, ours beside a peer's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_line::nodes::{Classes, classify};
use shardgraph_line::{Config, Embedding, Line, NodeLabels, Preset};

use super::peers;
use crate::report::{Failure, Report};

/// The share of the listed nodes that the regression is fitted to.
const TRAIN_SHARE: f64 = 0.5;
/// Random draws of that share.
const DRAWS: u64 = 10;

/// A graph and the classes of some of its nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: String,
    /// N-Triples (`.nt.gz`), whose relations do not count, or a text of edges; either may be gzipped.
    graph: String,
    /// A table with a head.
    classes: String,
    /// Names of its columns.
    node_column: String,
    class_column: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    sets: Vec<Set>,
    dim: usize,
    threads: usize,
    /// The least that a peer may take. It may take as long as our default, where that is more.
    least_peer_seconds: f64,
}

/// A set, read, with the seconds of our default.
pub(super) struct Known {
    name: String,
    graph: Graph,
    classes: Classes,
    seconds: f64,
}

/// Two rows for each set: the default, which held-back edges choose, and the paper's way.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<Vec<Known>, Failure> {
    let mut all = Vec::new();
    for set in &request.sets {
        if let Some(file) = [&set.graph, &set.classes]
            .into_iter()
            .find(|f| !Path::new(f).is_file())
        {
            let file = super::graphs::shown(file);
            out.skip(&format!("data absent: {}: no file {file}", set.name));
            continue;
        }
        let (labels, edges) = edges_of(&text_of(&set.graph)?, set.graph.contains(".nt"));
        let classes = classes_of(set, &labels)?;
        let graph = Graph::from_edges(labels.len() as u32, &edges)?;
        let mut seconds = 0.0;
        for (preset, method) in [
            (Preset::Default, "ours"),
            (Preset::Line, "ours, preset line"),
        ] {
            let config = Config {
                dim: request.dim,
                threads: request.threads,
                ..Config::preset(preset)
            };
            let (rows, took) = rows_of(&graph, config, preset)?;
            if preset == Preset::Default {
                seconds = took;
            }
            let judged = Judged {
                rows: &rows,
                classes: &classes,
                seconds: took,
            };
            out.row(judged.row(&set.name, method)?);
        }
        all.push(Known {
            name: set.name.clone(),
            graph,
            classes,
            seconds,
        });
    }
    Ok(all)
}

impl Request {
    /// What peers are asked for.
    pub(super) fn of_peers(&self, all: &[Known]) -> Value {
        let seconds: BTreeMap<&str, f64> = all
            .iter()
            .map(|known| (known.name.as_str(), known.seconds))
            .collect();
        json!({
            "graphs": all.iter().map(|known| &known.name).collect::<Vec<&String>>(),
            "dims": [self.dim], "threads": [self.threads], "epochs": [1], "runs": 1,
            "is_scored": true, "deadline_s": self.least_peer_seconds, "equal_seconds": seconds,
        })
    }
}

/// A row for each set and peer; a set on which it fails is a skip.
pub(super) fn of_peer(
    request: &peers::Request,
    all: &[Known],
    out: &mut Report,
) -> Result<(), Failure> {
    for known in all {
        let edges: Vec<(u32, u32)> = known.graph.edges().collect();
        for asked in request.on(&known.name) {
            let made = asked.rows(known.graph.n_nodes(), &edges);
            let row = made.and_then(|left| {
                let judged = Judged {
                    rows: &left.rows,
                    classes: &known.classes,
                    seconds: left.seconds,
                };
                let mut row = judged.row(&known.name, &asked.method())?;
                row["note"] = json!(left.note);
                Ok(row)
            });
            match row {
                Ok(row) => out.row(row),
                Err(why) => {
                    let why = why.to_string().replace('\n', "; ");
                    out.skip(&format!(
                        "not run: {} on {}: {why}",
                        asked.method(),
                        known.name
                    ));
                }
            }
        }
    }
    Ok(())
}

fn rows_of(graph: &Graph, config: Config, preset: Preset) -> Result<(Embedding, f64), Failure> {
    if preset == Preset::Default {
        let fitted = Line::new(config).fit(graph)?;
        let seconds = fitted.seconds + fitted.selection.seconds;
        return Ok((fitted.embedding, seconds));
    }
    let labels = NodeLabels::numbers(graph.n_nodes());
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    let n_parts = shardgraph_line::Store::default_parts(graph.n_nodes());
    let store = shardgraph_line::Store::from_edges(graph.n_nodes(), &edges, n_parts, labels)?;
    let trained = shardgraph_line::train(&store, &config, &Device::host(), &mut |_| {})?;
    Ok((trained.embedding, trained.seconds))
}

/// Rows and the classes that they are to tell.
struct Judged<'r> {
    rows: &'r Embedding,
    classes: &'r Classes,
    /// Of making the rows.
    seconds: f64,
}

impl Judged<'_> {
    /// Means over the draws.
    fn row(&self, set: &str, method: &str) -> Result<Value, Failure> {
        let (mut micro, mut mean) = (0.0, 0.0);
        for draw in 0..DRAWS {
            let f1 = classify(self.rows, self.classes, TRAIN_SHARE, 1 + draw)?;
            micro += f1.micro / DRAWS as f64;
            mean += f1.mean / DRAWS as f64;
        }
        Ok(json!({
            "graph": set, "method": method, "micro_f1": micro, "macro_f1": mean,
            "seconds": self.seconds,
        }))
    }
}

/// A file's text, gzipped or not.
fn text_of(path: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    match path.ends_with(".gz") {
        true => MultiGzDecoder::new(file).read_to_end(&mut bytes)?,
        false => {
            let mut file = file;
            file.read_to_end(&mut bytes)?
        }
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Nodes by first sight, and the edges; of triples those whose object is a node, whatever the relation.
fn edges_of(text: &str, are_triples: bool) -> (NodeLabels, Vec<(u32, u32)>) {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut labels, mut edges) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(u), Some(v)) = (words.next(), words.nth(usize::from(are_triples))) else {
            continue;
        };
        if v.starts_with('"') {
            continue; // a literal
        }
        let [u, v] = [u, v].map(|name| {
            let name = name.trim_start_matches('<').trim_end_matches('>');
            *numbers.entry(name).or_insert_with(|| {
                labels.push(name);
                labels.len() as u32 - 1
            })
        });
        edges.push((u, v));
    }
    (NodeLabels::new(labels), edges)
}

/// The classes of those nodes of the table that the graph has.
fn classes_of(set: &Set, labels: &NodeLabels) -> Result<Classes, Failure> {
    let text = text_of(&set.classes)?;
    let known: BTreeSet<&str> = labels.iter().collect();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let column = |name: &String| {
        let at = head.iter().position(|other| other.trim() == name);
        at.ok_or_else(|| format!("{}: no column `{name}`", set.classes))
    };
    let (node, class) = (column(&set.node_column)?, column(&set.class_column)?);
    let mut list = String::new();
    for line in lines {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        if let (Some(&node), Some(&class)) = (cells.get(node), cells.get(class))
            && known.contains(node)
        {
            list += &format!("{node} {}\n", class.replace([' ', ','], "_"));
        }
    }
    Ok(Classes::parse(&set.classes, &list, labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_and_a_table_become_a_graph_and_classes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let triples = "<a> <knows> <b> .\n<b> <name> \"x y\" .\n<b> <likes> <c> .\n<c> <p> <d> .\n";
        std::fs::write(path("g.nt"), triples).unwrap();
        std::fs::write(
            path("c.tsv"),
            "id\tnode\tkind\n1\ta\tx\n2\tb\ty, z\n3\tno\tx\n4\tc\tx\n",
        )
        .unwrap();
        let set = Set {
            name: "toy".to_owned(),
            graph: path("g.nt"),
            classes: path("c.tsv"),
            node_column: "node".to_owned(),
            class_column: "kind".to_owned(),
        };
        let (labels, edges) = edges_of(&text_of(&set.graph).unwrap(), true);
        assert_eq!(labels, NodeLabels::new(["a", "b", "c", "d"]));
        assert_eq!(edges, [(0, 1), (1, 2), (2, 3)]);
        let classes = classes_of(&set, &labels).unwrap();
        assert_eq!(
            classes.of_nodes(),
            [(0, vec![0]), (1, vec![1]), (2, vec![0])]
        );
        let request = Request {
            sets: vec![set],
            dim: 4,
            threads: 1,
            least_peer_seconds: 1.0,
        };
        let mut out = Report::default();
        let known = run(&request, &mut out).unwrap();
        assert_eq!((out.lines.len(), known.len()), (2, 1));
        let request: peers::Request = serde_json::from_value({
            let mut keys = request.of_peers(&known);
            (keys["name"], keys["command"]) = (json!("none"), json!("false"));
            keys
        })
        .unwrap();
        of_peer(&request, &known, &mut out).unwrap();
        assert_eq!(out.skips.len(), 1, "{:?}", out.skips);
    }
}
