//! Stores in memory and in files hold the same edges; what is no whole store is refused.

use super::*;
use crate::store::import::{ImportOptions, import_file};
use proptest::prelude::*;
use std::fs;

/// The edges of a store as pairs of labels, sorted, and turned so that the smaller label is first.
fn edges_of(store: &Store) -> Vec<(String, String)> {
    let mut edges = Vec::new();
    for i in 0..store.n_parts() {
        for j in 0..store.n_parts() {
            for [from, to] in store.bucket(i, j).unwrap().pairs {
                let label = |node| store.labels().get(node as usize).to_owned();
                let (u, v) = (label(store.node(i, from)), label(store.node(j, to)));
                edges.push((u.clone().min(v.clone()), u.max(v)));
            }
        }
    }
    edges.sort();
    edges
}

fn listed(edges: &[(u32, u32)]) -> Vec<(String, String)> {
    let text = |(u, v): &(u32, u32)| {
        let (u, v) = (u.to_string(), v.to_string());
        (u.clone().min(v.clone()), u.max(v))
    };
    let mut listed: Vec<_> = edges.iter().map(text).collect();
    listed.sort();
    listed
}

fn store_file(
    text: &str,
    options: &ImportOptions,
) -> (tempfile::TempDir, PathBuf, Result<Imported, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("g.txt"), folder.path().join("g.store"));
    fs::write(&input, text).unwrap();
    let imported = import_file(&input, &out, options);
    (folder, out, imported)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_edge_lies_in_one_bucket(
        edges in prop::collection::vec((0u32..65, 0u32..65), 0..300),
        parts in 0u32..4,
    ) {
        let edges: Vec<(u32, u32)> = edges.into_iter().filter(|(u, v)| u != v).collect();
        let store = Store::from_edges(65, &edges, 1 << parts, NodeLabels::numbers(65)).unwrap();
        prop_assert_eq!(edges_of(&store), listed(&edges));
        let text: String = edges.iter().map(|(u, v)| format!("{u} {v}\n")).collect();
        if edges.is_empty() {
            return Ok(());
        }
        let options = ImportOptions { parts: Some(1 << parts), memory: 100_000, ..ImportOptions::default() };
        let (_folder, path, imported) = store_file(&text, &options);
        let imported = imported.unwrap();
        prop_assert_eq!(imported.n_edges, edges.len() as u64);
        prop_assert_eq!(imported.file_bytes, fs::metadata(&path).unwrap().len());
        prop_assert_eq!(edges_of(&Store::open(&path).unwrap()), listed(&edges));
    }
}

#[test]
fn directions_weights_and_text_labels_are_kept() {
    let options = ImportOptions {
        directed: true,
        weighted: true,
        parts: Some(2),
        ..ImportOptions::default()
    };
    let (folder, path, imported) = store_file("b a 2\nc a 0.5\nd b 0\n", &options);
    imported.unwrap();
    let store = Store::open(&path).unwrap();
    let mut found = Vec::new();
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let bucket = store.bucket(i, j).unwrap();
        for ([from, to], weight) in bucket.pairs.iter().zip(&bucket.weights) {
            let label = |part, row| {
                store
                    .labels()
                    .get(store.node(part, row) as usize)
                    .to_owned()
            };
            found.push((label(i, *from), label(j, *to), *weight));
        }
    }
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let expected = [("b", "a", 2.0), ("c", "a", 0.5), ("d", "b", 0.0)];
    assert_eq!(
        found,
        expected.map(|(u, v, w)| (u.to_owned(), v.to_owned(), w))
    );
    let samples: u64 = (0..2)
        .flat_map(|i| (0..2).map(move |j| (i, j)))
        .map(|(i, j)| store.n_samples(i, j))
        .sum();
    assert_eq!(samples, 3);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "scratch files are gone"
    );
}

#[test]
fn a_damaged_store_is_refused_wherever_it_is_damaged() {
    let (_folder, path, imported) = store_file("0 1\n1 2\n2 0\n", &ImportOptions::default());
    imported.unwrap();
    let whole = fs::read(&path).unwrap();
    let read_all = || {
        Store::open(&path)
            .and_then(|store| store.bucket(0, 0))
            .map_err(|e| e.to_string())
    };
    assert!(read_all().is_ok());
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let message = read_all().unwrap_err();
        assert!(message.contains("g.store: "), "{at}: {message}");
        fs::write(&path, &whole[..at]).unwrap();
        assert!(read_all().is_err(), "cut at {at}");
    }
    let mut newer = whole.clone();
    newer[8] = 2;
    fs::write(&path, newer).unwrap();
    assert!(read_all().unwrap_err().contains("version 2, expected 1"));
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(read_all().unwrap_err().contains("bytes by its head"));
}

#[test]
fn bad_input_leaves_no_file() {
    let weighted = ImportOptions {
        weighted: true,
        ..ImportOptions::default()
    };
    let small = ImportOptions {
        memory: 100,
        ..ImportOptions::default()
    };
    let parts = ImportOptions {
        parts: Some(3),
        ..ImportOptions::default()
    };
    for (text, options, reason) in [
        (
            "0 1 -1\n",
            &weighted,
            "1: expected a weight of 0 or more, found -1",
        ),
        ("0 1 nan\n", &weighted, "finite number as weight"),
        ("0 1\n", &weighted, "weight in the third column"),
        (
            "0 1\n",
            &small,
            "memory = 100: importing 2 nodes in 1 parts takes",
        ),
        ("0 1\n", &parts, "parts = 3: expected a power of two"),
        ("0\n", &ImportOptions::default(), "second node id"),
    ] {
        let (folder, _, imported) = store_file(text, options);
        let message = imported.unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{reason}");
    }
}
