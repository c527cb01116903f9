//! An own reader of graph files and an own check of cover files, as plain as they can be.
//!
//! Nothing here is shared with the program, so that a mistake there cannot hide itself.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

/// What a graph file lists: edges between names, without self-loops, each pair once.
#[derive(Debug, PartialEq)]
pub(crate) struct ListedGraph {
    /// For formats that number their nodes from 1: how many there are.
    pub(crate) n_numbered: Option<u64>,
    /// Ascending pairs, ascending.
    pub(crate) edges: Vec<(String, String)>,
}

/// Reads a well-formed file, plain or `.gz`; the extension says which format.
pub(crate) fn read(path: &Path) -> ListedGraph {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    let plain_name = match name.strip_suffix(".gz") {
        Some(plain_name) => {
            let mut decoder = flate2::read::GzDecoder::new(file);
            decoder.read_to_string(&mut text).unwrap();
            plain_name
        }
        None => {
            text = fs::read_to_string(path).unwrap();
            name
        }
    };
    read_text(&text, plain_name.rsplit('.').next().unwrap())
}

fn read_text(text: &str, extension: &str) -> ListedGraph {
    let rows = |comments: &'static [&'static str]| {
        let is_comment = |line: &str| comments.iter().any(|comment| line.starts_with(comment));
        let lines = text.lines().filter(move |line| !is_comment(line));
        lines.map(|line| line.split_whitespace().collect::<Vec<&str>>())
    };
    let mut n_numbered = None;
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    match extension {
        // A size line, then row, column and perhaps a value.
        "mtx" => {
            for row in rows(&["%"]) {
                match n_numbered {
                    None => n_numbered = Some(row[0].parse().unwrap()),
                    Some(_) => pairs.push((row[0], row[1])),
                }
            }
        }
        "clq" | "col" | "mis" => {
            for row in rows(&["c", "n"]) {
                match row[0] {
                    "p" => n_numbered = Some(row[2].parse().unwrap()),
                    _ => pairs.push((row[1], row[2])),
                }
            }
        }
        "gr" => {
            for row in rows(&["c"]) {
                match n_numbered {
                    None => n_numbered = Some(row[row.len() - 2].parse().unwrap()),
                    Some(_) => pairs.push((row[0], row[1])),
                }
            }
        }
        "graph" => return read_adjacency(text),
        _ => pairs.extend(rows(&["#", "%"]).map(|row| (row[0], row[1]))),
    }
    ListedGraph {
        n_numbered,
        edges: simple(pairs),
    }
}

/// METIS without weights: a line a node.
fn read_adjacency(text: &str) -> ListedGraph {
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let names: Vec<String> = (1..=lines.clone().count()).map(|i| i.to_string()).collect();
    let mut pairs = Vec::new();
    for (name, line) in names.iter().zip(lines) {
        pairs.extend(line.split_whitespace().map(|other| (name.as_str(), other)));
    }
    ListedGraph {
        n_numbered: header.split(' ').next().unwrap().parse().ok(),
        edges: simple(pairs),
    }
}

fn simple<'a>(mut pairs: Vec<(&'a str, &'a str)>) -> Vec<(String, String)> {
    pairs.retain(|(u, v)| u != v);
    for pair in &mut pairs {
        *pair = (pair.0.min(pair.1), pair.0.max(pair.1));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let owned = |(u, v): (&str, &str)| (u.to_owned(), v.to_owned());
    pairs.into_iter().map(owned).collect()
}

impl ListedGraph {
    /// The edges that a numbered graph lacks.
    pub(crate) fn complement(&self) -> ListedGraph {
        let n = self.n_numbered.unwrap();
        let present: BTreeSet<&(String, String)> = self.edges.iter().collect();
        let names: Vec<String> = (1..=n).map(|i| i.to_string()).collect();
        let mut edges = Vec::new();
        for (i, u) in names.iter().enumerate() {
            for v in &names[i + 1..] {
                edges.push((u.min(v).clone(), u.max(v).clone()));
            }
        }
        edges.retain(|edge| !present.contains(edge));
        edges.sort_unstable();
        ListedGraph {
            n_numbered: self.n_numbered,
            edges,
        }
    }

    /// The number of nodes in a cover file, once it is right: known names, none twice, every edge covered.
    pub(crate) fn check_cover(&self, cover_file: &str) -> Result<usize, String> {
        let cover: BTreeSet<&str> = cover_file.lines().collect();
        let is_whole = cover_file.is_empty() || cover_file.ends_with('\n');
        if !is_whole || cover.len() != cover_file.lines().count() {
            return Err("a node twice, or an unfinished line".into());
        }
        if let Some(name) = self.unknown(&cover) {
            return Err(format!("an unknown node {name}"));
        }
        let is_open =
            |(u, v): &&(String, String)| !cover.contains(u.as_str()) && !cover.contains(v.as_str());
        match self.edges.iter().find(is_open) {
            Some(edge) => Err(format!("the edge {edge:?} is not covered")),
            None => Ok(cover.len()),
        }
    }

    /// Some name that the graph does not have.
    fn unknown<'a>(&self, names: &BTreeSet<&'a str>) -> Option<&'a str> {
        let known: BTreeSet<&str> = match self.n_numbered {
            None => self.edges.iter().flat_map(|(u, v)| [&**u, &**v]).collect(),
            Some(n) => {
                let is_known = |name: &&str| name.parse().is_ok_and(|i| (1..=n).contains(&i));
                names.iter().copied().filter(is_known).collect()
            }
        };
        names.iter().copied().find(|name| !known.contains(name))
    }
}

#[test]
fn the_reader_reads() {
    let path = [("1", "2"), ("2", "3")].map(|(u, v)| (u.to_owned(), v.to_owned()));
    for (text, extension) in [
        ("%%banner\n% c\n3 3 3\n2 1\n3 2\n2 2\n", "mtx"),
        ("c hi\np edge 3 2\ne 1 2\ne 3 2\n", "clq"),
        ("c hi\np td 3 2\n1 2\n2 3\n", "gr"),
        ("3 2\n1 2\n2 3\n", "gr"),
        ("3 2\n2\n1 3\n2\n", "graph"),
    ] {
        let graph = read_text(text, extension);
        assert_eq!((graph.n_numbered, &graph.edges[..]), (Some(3), &path[..]));
    }
    let listed = read_text("# c\n2\t1\n1 2\n3 2\n", "txt");
    assert_eq!((listed.n_numbered, &listed.edges[..]), (None, &path[..]));
    let complement = read_text("3 2\n1 2\n2 3\n", "gr").complement();
    assert_eq!(complement.edges, [("1".to_owned(), "3".to_owned())]);
}

#[test]
fn the_check_finds_what_is_wrong() {
    for (text, extension) in [("3 2\n1 2\n2 3\n", "gr"), ("1 2\n2 3\n", "txt")] {
        let graph = read_text(text, extension);
        assert_eq!(graph.check_cover("2\n"), Ok(1));
        assert_eq!(graph.check_cover("1\n3\n"), Ok(2));
        for wrong in ["", "1\n", "2\n2\n", "2", "2\n9\n", "2\n\n", "x\n2\n"] {
            assert!(graph.check_cover(wrong).is_err(), "{wrong:?}");
        }
    }
}
