//! Instances of a published table, with the best objective that is known of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::report::Failure;

/// Where best known objectives come from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum Known {
    /// A table with a head; the two columns are named. A value that is absent is not known.
    Csv {
        file: String,
        name: String,
        objective: String,
    },
    /// By the name of the graph.
    Values(BTreeMap<String, f64>),
    /// The labels of the ML4CO format: the nodes of a set, or the sides of a cut.
    Labels(Labels),
}

/// What labels of 0 and 1 stand for.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Labels {
    Members,
    Sides,
}

/// A graph of a table.
pub(super) struct Instance {
    /// File name without endings; with its place in the file where there are several.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) index: Option<usize>,
    pub(super) best: Option<f64>,
}

/// The instances of some files and folders, in their order; those of a folder by name.
pub(super) fn of(graphs: &[String], known: &Known) -> Result<Vec<Instance>, Failure> {
    let mut files = Vec::new();
    for graph in graphs {
        let path = PathBuf::from(graph);
        match path.is_dir() {
            true => files.extend(of_folder(&path)?),
            false => files.push(path),
        }
    }
    let best = match known {
        Known::Csv {
            file,
            name,
            objective,
        } => read_csv(file, name, objective)?,
        Known::Values(values) => values.clone(),
        Known::Labels(_) => BTreeMap::new(),
    };
    let mut instances = Vec::new();
    for path in files {
        let name = short_name(&path);
        match known {
            Known::Labels(labels) => {
                for (index, line) in unpacked(&path)?.lines().enumerate() {
                    instances.push(Instance {
                        name: format!("{name}, {index}"),
                        path: path.clone(),
                        index: Some(index),
                        best: Some(labelled(line, *labels)?),
                    });
                }
            }
            _ => instances.push(Instance {
                best: best.get(&name).copied(),
                name,
                path,
                index: None,
            }),
        }
    }
    Ok(instances)
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_table = ["csv", "md"]
            .iter()
            .any(|end| path.extension().is_some_and(|e| e == *end));
        if !is_table {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The file's name up to the first full stop that an ending begins with.
fn short_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = Path::new(name).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn read_csv(file: &str, name: &str, objective: &str) -> Result<BTreeMap<String, f64>, Failure> {
    let text = fs::read_to_string(file)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |wanted: &str| {
        let found = head.iter().position(|column| *column == wanted);
        found.ok_or_else(|| format!("{file}: no column {wanted:?}"))
    };
    let (name, objective) = (place(name)?, place(objective)?);
    let mut values = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let value = cells.get(objective).copied().unwrap_or_default();
        if !value.is_empty() {
            values.insert(cells[name].to_owned(), value.parse()?);
        }
    }
    Ok(values)
}

fn unpacked(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path)?;
    let mut text = String::new();
    match path.extension().is_some_and(|end| end == "gz") {
        true => flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?,
        false => bytes.as_slice().read_to_string(&mut text)?,
    };
    Ok(text)
}

/// Objective of the labels of a line `u v u v ... label l l l ...`.
fn labelled(line: &str, labels: Labels) -> Result<f64, Failure> {
    let (edges, ones) = line.split_once("label").ok_or("a line without labels")?;
    let ones: Vec<&str> = ones.split_whitespace().collect();
    if let Labels::Members = labels {
        return Ok(ones.iter().filter(|one| **one == "1").count() as f64);
    }
    let ids: Result<Vec<usize>, _> = edges.split_whitespace().map(str::parse).collect();
    // Some files list an edge in both directions.
    let edge = |pair: &[usize]| (pair[0].min(pair[1]), pair[0].max(pair[1]));
    let edges: BTreeSet<(usize, usize)> = ids?.chunks_exact(2).map(edge).collect();
    let is_cut = |(u, v): &&(usize, usize)| ones.get(*u) != ones.get(*v);
    Ok(edges.iter().filter(is_cut).count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted() {
        let line = "0 1 1 2 2 3 1 0 label 0 1 1 0";
        assert_eq!(
            labelled(line, Labels::Members).unwrap().total_cmp(&2.0),
            std::cmp::Ordering::Equal
        );
        assert_eq!(
            labelled(line, Labels::Sides).unwrap().total_cmp(&2.0),
            std::cmp::Ordering::Equal
        );
        assert!(labelled("0 1", Labels::Sides).is_err());
    }

    #[test]
    fn names_lose_their_endings() {
        assert_eq!(
            short_name(Path::new("a/vc-exact_001.gr.gz")),
            "vc-exact_001"
        );
        assert_eq!(short_name(Path::new("frb30-15-1.mis")), "frb30-15-1");
    }
}
