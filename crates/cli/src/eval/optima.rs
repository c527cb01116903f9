//! Known optima: a table of the user's, as CSV.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use shardgraph_graph::Graph;
use shardgraph_storage::read_bounded;

use crate::exit::BadInput;
use crate::graph_argument::GraphArgs;
use crate::settings_file::text;

/// The best that an answer can be, as far as it is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Optimum {
    pub(super) value: f64,
    /// False for the best that anybody has found.
    pub(super) proved: bool,
    /// `table` or `exact`.
    pub(super) source: &'static str,
}

/// A table of them.
pub(super) struct Optima {
    path: PathBuf,
    entries: Vec<Entry>,
}

/// One line.
struct Entry {
    line: usize,
    graph: String,
    seed: Option<u64>,
    problem: String,
    n_nodes: Option<u64>,
    n_edges: Option<u64>,
    optimum: f64,
    proved: bool,
}

/// What is read of a table, with the other names that a column may have.
/// Most bytes of a table: a million rows.
const MAX_TABLE_BYTES: u64 = 64 << 20;

const COLUMNS: [(&str, &[&str]); 7] = [
    ("graph", &["graph"]),
    ("optimum", &["optimum"]),
    ("seed", &["seed"]),
    ("nodes", &["n", "nodes"]),
    ("edges", &["m", "edges"]),
    ("problem", &["problem"]),
    ("proved", &["proved"]),
];

impl Optima {
    /// Reads a table; empty lines and those that begin with # say nothing.
    pub(super) fn read(path: &Path) -> Result<Optima, BadInput> {
        let bytes = read_bounded(path, MAX_TABLE_BYTES)
            .map_err(|e| BadInput(format!("{}: cannot read: {e}", path.display())))?;
        Optima::parse(path, &text(path, bytes)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Optima, BadInput> {
        let at = |line: usize, why: String| BadInput(format!("{}:{line}: {why}", path.display()));
        let lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let head = lines
            .next()
            .ok_or_else(|| at(1, "no line of column names".into()))?;
        let columns = columns(head.1).map_err(|why| at(head.0, why))?;
        let mut optima = Optima {
            path: path.to_owned(),
            entries: Vec::new(),
        };
        let mut lines_of = BTreeMap::new();
        for (line, text) in lines {
            let entry = Entry::parse(line, text, &columns).map_err(|why| at(line, why))?;
            let key = (entry.graph.clone(), entry.seed, entry.problem.clone());
            if let Some(other) = lines_of.insert(key, line) {
                let why = format!("{} has an optimum in line {other} already", entry.graph);
                return Err(at(line, why));
            }
            optima.entries.push(entry);
        }
        Ok(optima)
    }

    /// The optimum of a graph, whose size the table must agree with where it says one.
    pub(super) fn of(
        &self,
        given: &GraphArgs,
        graph: &Graph,
        problem: &str,
    ) -> Result<Option<Optimum>, BadInput> {
        let (name, seed) = (given.argument(), given.seed_of_generated());
        let found = self.entries.iter().find(|entry| {
            let file = Path::new(&name)
                .file_name()
                .map(|name| name.to_string_lossy());
            let is_named = entry.graph == name
                || given.file().is_some() && file.is_some_and(|file| file == entry.graph);
            is_named && entry.problem == problem && entry.seed == seed
        });
        let Some(entry) = found else {
            return Ok(None);
        };
        let sizes = [
            ("nodes", entry.n_nodes, u64::from(graph.n_nodes())),
            ("edges", entry.n_edges, graph.n_edges()),
        ];
        for (what, said, is) in sizes {
            if said.is_some_and(|said| said != is) {
                return Err(BadInput(format!(
                    "{}:{}: {name} has {is} {what}, not {}: the optimum is of another graph",
                    self.path.display(),
                    entry.line,
                    said.unwrap_or(0),
                )));
            }
        }
        Ok(Some(Optimum {
            value: entry.optimum,
            proved: entry.proved,
            source: "table",
        }))
    }
}

/// Where each column is.
fn columns(head: &str) -> Result<BTreeMap<&'static str, usize>, String> {
    let mut found = BTreeMap::new();
    for (i, word) in head.split(',').enumerate() {
        let word = word.trim();
        let known = COLUMNS.iter().find(|(_, names)| names.contains(&word));
        if let Some((name, _)) = known
            && found.insert(*name, i).is_some()
        {
            return Err(format!("two columns of {name}"));
        }
    }
    for needed in ["graph", "optimum"] {
        if !found.contains_key(needed) {
            return Err(format!("expected a column `{needed}`, found `{head}`"));
        }
    }
    Ok(found)
}

/// One line's values by the names of their columns.
struct Values<'t> {
    words: Vec<&'t str>,
    columns: &'t BTreeMap<&'static str, usize>,
}

impl<'t> Values<'t> {
    /// Nothing for a column that the table does not have.
    fn word(&self, name: &str) -> Result<&'t str, String> {
        let Some(&i) = self.columns.get(name) else {
            return Ok("");
        };
        let n_words = self.words.len();
        let word = self.words.get(i).copied();
        word.ok_or_else(|| format!("expected {} values at least, found {n_words}", i + 1))
    }

    fn count(&self, name: &str) -> Result<Option<u64>, String> {
        let text = self.word(name)?;
        if text.is_empty() {
            return Ok(None);
        }
        let count = text.parse().map(Some);
        count.map_err(|_| format!("{name}: expected a whole number, found `{text}`"))
    }
}

impl Entry {
    fn parse(
        line: usize,
        text: &str,
        columns: &BTreeMap<&'static str, usize>,
    ) -> Result<Entry, String> {
        if text.contains('"') {
            return Err("values in quotes are not read: leave the quotes out".into());
        }
        let values = Values {
            words: text.split(',').map(str::trim).collect(),
            columns,
        };
        let value = values.word("optimum")?;
        let optimum = value.parse::<f64>().ok().filter(|value| value.is_finite());
        let problem = values.word("problem")?;
        Ok(Entry {
            line,
            graph: values.word("graph")?.to_owned(),
            seed: values.count("seed")?,
            problem: if problem.is_empty() { "mvc" } else { problem }.to_owned(),
            n_nodes: values.count("nodes")?,
            n_edges: values.count("edges")?,
            optimum: optimum
                .ok_or_else(|| format!("optimum: expected a number, found `{value}`"))?,
            proved: match values.word("proved")? {
                "" | "yes" => true,
                "no" => false,
                other => return Err(format!("proved: expected yes or no, found `{other}`")),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Optima, String> {
        Optima::parse(Path::new("t.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_go_by_their_names() {
        let optima =
            parse("# proved by hand\nsolver,optimum,n,graph\nx, 14 ,34,karate\n\n").unwrap();
        let entry = &optima.entries[0];
        assert_eq!(
            (entry.graph.as_str(), entry.n_nodes, entry.line),
            ("karate", Some(34), 3)
        );
        assert!(entry.proved && entry.seed.is_none() && entry.problem == "mvc");
        let known = parse("graph,optimum,proved,seed,problem\na,1.5,no,7,cut\n").unwrap();
        assert!(!known.entries[0].proved);
        assert_eq!(known.entries[0].seed, Some(7));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, wanted) in [
            ("", "t.csv:1: no line of column names"),
            ("graph,size\n", "t.csv:1: expected a column `optimum`"),
            ("graph,optimum,graph\n", "t.csv:1: two columns of graph"),
            ("graph,optimum\nkarate\n", "t.csv:2: expected 2 values"),
            (
                "graph,optimum\nkarate,many\n",
                "t.csv:2: optimum: expected a number",
            ),
            (
                "graph,optimum\nkarate,NaN\n",
                "t.csv:2: optimum: expected a number",
            ),
            (
                "graph,optimum,n\nkarate,14,-1\n",
                "t.csv:2: nodes: expected a whole number",
            ),
            (
                "graph,optimum,proved\nkarate,14,maybe\n",
                "t.csv:2: proved: expected yes or no",
            ),
            ("graph,optimum\n\"a,b\",1\n", "t.csv:2: values in quotes"),
            (
                "graph,optimum\na,1\nb,1\na,2\n",
                "t.csv:4: a has an optimum in line 2 already",
            ),
        ] {
            let error = parse(text).err().unwrap_or_default();
            assert!(error.starts_with(wanted), "{text:?}: {error}");
        }
    }
}
