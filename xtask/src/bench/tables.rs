//! The table by which the library chooses algorithms, made from measurements of each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::points::{self, Limit, Point};
use crate::host::{self, Host};
use crate::project;

/// The file that is written.
const TABLE: &str = "crates/collectives/src/algorithm/table.rs";

/// Back ends that have a choice, with the table's name, their operations and algorithms. The first algorithm is kept where no other one is clearly faster.
const CHOICES: [(&str, &str, &str, &str); 2] = [
    (
        "tcp",
        "TCP",
        "all_reduce,broadcast",
        "whole,parts,tree,chain",
    ),
    ("mpi", "MPI", "all_reduce", "whole,parts"),
];

/// An algorithm takes over at a size where it is faster than the one before by this factor; else the tables would follow the noise.
const CLEARLY_FASTER: f64 = 0.9;

/// On one machine no connection is a bottleneck. So that the table does harm nowhere else, an all-reduce that brings everything to one rank is no
/// candidate for more bytes than this, unless there are only two.
const MAX_AT_ONE_RANK_BYTES: u64 = 1 << 20;

/// Measures each algorithm; `words` are the flags of the run before.
pub(crate) fn measure(
    program: &Path,
    words: &[String],
    limit: &Limit,
    points: &mut Vec<Point>,
) -> Result<Vec<String>> {
    let mut skips = Vec::new();
    for (backend, _, ops, algorithms) in CHOICES {
        let own = [
            "--backends",
            backend,
            "--ops",
            ops,
            "--algorithms",
            algorithms,
        ];
        // Beyond 16 MiB all work on pieces of the same size.
        let own = own.into_iter().chain(["-e", "16M"]).map(str::to_owned);
        let words: Vec<String> = words.iter().cloned().chain(own).collect();
        skips.extend(points::run(program, &words, limit.left()?, |point| {
            points.push(point)
        })?);
    }
    Ok(skips)
}

/// Writes the table; a back end that was not measured keeps its part of the file.
pub(crate) fn write(points: &[Point], command: &str) -> Result<PathBuf> {
    let path = project::root().join(TABLE);
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let host = Host::here(None);
    let mut text = format!(
        "//! Made by `{command}`, not by hand: what was fastest, per operation, number of ranks and length up to 16 MiB.\n\
         //!\n//! {}, {}, {} cores, {}.\n\n\
         use super::Algorithm::{{Chain, Parts, Tree, Whole}};\nuse super::{{Algorithm, Row}};\nuse crate::op::OpKind;\n\n\
         const fn row(op: OpKind, n_ranks: u32, from_bytes: usize, algorithm: Algorithm) -> Row {{\n    Row {{\n        op,\n        n_ranks,\n        from_bytes,\n        algorithm,\n    }}\n}}\n",
        host::today()?,
        host.cpu,
        host.n_cores,
        host.system
    );
    for (backend, name, ops, _) in CHOICES {
        let rows: Vec<String> = ops
            .split(',')
            .flat_map(|op| rows(points, backend, op))
            .collect();
        text.push_str(&match rows.is_empty() {
            false => format!(
                "\n#[rustfmt::skip]\npub(super) const {name}: [Row; {}] = [\n{}];\n",
                rows.len(),
                rows.concat()
            ),
            true => kept(&old, name)?,
        });
    }
    text = with_used_names(&text);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The part of the old file that has this table.
fn kept(old: &str, name: &str) -> Result<String> {
    let start = old.find(&format!("#[rustfmt::skip]\npub(super) const {name}:"));
    let part = &old[start.with_context(|| format!("{TABLE} has no {name}"))?..];
    let end = part.find("];\n").context("a table without an end")?;
    ensure!(!part[..end].is_empty(), "an empty table");
    Ok(format!("\n{}];\n", &part[..end]))
}

/// An import that no row uses would be a warning.
fn with_used_names(text: &str) -> String {
    let names = ["Chain", "Parts", "Tree", "Whole"];
    let used: Vec<&str> = names
        .into_iter()
        .filter(|name| text.contains(&format!(", {name})")))
        .collect();
    let import = match used.as_slice() {
        [one] => format!("use super::Algorithm::{one};"),
        used => format!("use super::Algorithm::{{{}}};", used.join(", ")),
    };
    text.replace(
        "use super::Algorithm::{Chain, Parts, Tree, Whole};",
        &import,
    )
}

fn is_candidate(point: &Point) -> bool {
    let to_one_rank = ["whole", "tree"].contains(&point.text("algorithm"));
    match point.text("algorithm") {
        "auto" => false,
        _ if point.text("op") == "all_reduce" && to_one_rank && point.ranks() > 2 => {
            point.bytes() < MAX_AT_ONE_RANK_BYTES
        }
        _ => true,
    }
}

/// The rows of one operation of a back end: a row where the fastest algorithm changes.
fn rows(points: &[Point], backend: &str, op: &str) -> Vec<String> {
    let mut times: BTreeMap<u64, BTreeMap<u64, BTreeMap<&str, f64>>> = BTreeMap::new();
    for point in points {
        let is_ours = point.text("backend") == backend && point.text("op") == op;
        if is_ours && is_candidate(point) {
            let of_ranks = times.entry(point.ranks()).or_default();
            let of_size = of_ranks.entry(point.bytes()).or_default();
            of_size.insert(point.text("algorithm"), point.best_seconds());
        }
    }
    let kind = match op {
        "broadcast" => "Broadcast",
        _ => "AllReduce",
    };
    let of_ranks = times.iter().flat_map(|(ranks, sizes)| {
        let changes = changes(sizes).into_iter();
        changes.map(move |(bytes, algorithm)| {
            let (first, rest) = algorithm.split_at(1);
            let algorithm = format!("{}{rest}", first.to_uppercase());
            format!("    row(OpKind::{kind}, {ranks}, {bytes}, {algorithm}),\n")
        })
    });
    of_ranks.collect()
}

/// From which size on which algorithm is to be taken. What counts at a size is the mean over it and its neighbours.
fn changes<'a>(sizes: &BTreeMap<u64, BTreeMap<&'a str, f64>>) -> Vec<(u64, &'a str)> {
    let mut changes: Vec<(u64, &'a str)> = Vec::new();
    let all: Vec<_> = sizes.iter().collect();
    for (size_idx, (bytes, times)) in all.iter().enumerate() {
        let near = &all[size_idx.saturating_sub(1)..all.len().min(size_idx + 2)];
        let slowness = |name: &str| -> f64 {
            if !times.contains_key(name) {
                return f64::INFINITY;
            }
            let relative = near.iter().filter_map(|(_, times)| {
                let best = times.values().copied().fold(f64::INFINITY, f64::min);
                Some(times.get(name)? / best)
            });
            let relative: Vec<f64> = relative.collect();
            relative.iter().sum::<f64>() / relative.len() as f64
        };
        let fastest = times
            .keys()
            .copied()
            .min_by(|a, b| slowness(a).total_cmp(&slowness(b)));
        let Some(fastest) = fastest else { continue };
        match changes.last() {
            None => changes.push((0, fastest)),
            Some((_, current)) if slowness(fastest) < CLEARLY_FASTER * slowness(current) => {
                changes.push((**bytes, fastest));
            }
            Some(_) => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(times: &[(u64, &str, f64)]) -> Vec<Point> {
        let point = |&(bytes, algorithm, us): &(u64, &str, f64)| {
            let line = format!(
                "POINT backend=tcp op=broadcast ranks=4 bytes={bytes} algorithm={algorithm} seconds={}",
                us * 1e-6
            );
            Point::parse(&line).unwrap().unwrap()
        };
        times.iter().map(point).collect()
    }

    #[test]
    fn a_row_where_the_fastest_changes() {
        let points = points(&[
            (8, "whole", 10.0),
            (8, "tree", 12.0),
            (64, "whole", 10.0),
            (64, "tree", 9.9),
            (512, "whole", 30.0),
            (512, "tree", 20.0),
            (4096, "whole", 100.0),
            (4096, "tree", 50.0),
            (4096, "auto", 1.0),
        ]);
        let rows = rows(&points, "tcp", "broadcast");
        let wanted = [
            "(OpKind::Broadcast, 4, 0, Whole)",
            "(OpKind::Broadcast, 4, 512, Tree)",
        ];
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(
            rows.iter()
                .zip(wanted)
                .all(|(row, wanted)| row.contains(wanted)),
            "{rows:?}"
        );
        assert!(super::rows(&points, "mpi", "broadcast").is_empty());
    }

    #[test]
    fn long_all_reduces_do_not_go_to_one_rank() {
        let sums = |points: &[Point]| {
            let lines = points
                .iter()
                .map(|point| point.line().replace("broadcast", "all_reduce"));
            let points: Vec<Point> = lines
                .map(|line| Point::parse(&line).unwrap().unwrap())
                .collect();
            super::rows(&points, "tcp", "all_reduce")
        };
        let (short, long) = (1 << 19, 1 << 20);
        let times = |bytes| [(bytes, "tree", 1.0), (bytes, "chain", 2.0)];
        assert!(sums(&points(&times(short)))[0].contains("Tree"));
        assert!(sums(&points(&times(long)))[0].contains("Chain"));
        // Neither where the size before it has one, nor because it is not there.
        let both = [times(short), times(long)].concat();
        let rows = sums(&points(&both));
        assert!(
            rows.len() == 2 && rows[1].contains("1048576, Chain"),
            "{rows:?}"
        );
    }

    #[test]
    fn a_table_that_was_not_measured_is_kept() {
        let old = fs::read_to_string(project::root().join(TABLE)).unwrap();
        let kept = kept(&old, "MPI").unwrap();
        assert!(kept.starts_with("\n#[rustfmt::skip]") && kept.ends_with("];\n"));
        assert!(super::kept(&old, "NONE").is_err());
    }
}
