//! Stores in memory and in files hold the same edges; what is no whole store is refused.

use super::*;
use crate::edges::import::options::REPORT_EVERY;
use crate::edges::import::{
    ImportOptions, ImportProgress, ImportStage, import_file, import_stream,
};
use crate::memory::Memory;
use crate::{Config, DeviceMemory};
use proptest::prelude::*;
use std::fs;

mod one_reader;

/// The edges of a store as pairs of labels, sorted, and turned so that the smaller label is first.
fn edges_of(store: &Store) -> Vec<(String, String)> {
    let mut edges = Vec::new();
    for i in 0..store.n_parts() {
        for j in 0..store.n_parts() {
            for [from, to] in store
                .bucket(i, j, &Memory::default())
                .unwrap()
                .pairs
                .iter()
                .copied()
            {
                let label = |node| store.labels().unwrap().get(node as usize).to_owned();
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

fn numbered(n_nodes: u32, n_labels: u32) -> InputSummary {
    InputSummary {
        nodes: Some((n_nodes, shardgraph_graph::Labels::offset(0, n_labels))),
        ..InputSummary::default()
    }
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

/// An import's file, byte by byte, whatever it may hold in memory.
#[test]
fn memory_makes_no_difference() {
    let mut stream = shardgraph_random::KeyedRng::new(1, "test", 0);
    let mut numbers = String::new();
    let mut names = String::new();
    for _ in 0..20_000 {
        let (u, v, w) = (
            stream.below_u32(900),
            stream.below_u32(900),
            stream.below_u32(9),
        );
        numbers.push_str(&format!("{u} {v} {w}\n"));
        names.push_str(&format!("node-{u} node-{v} {w}\n"));
    }
    for (text, weighted) in [(&numbers, false), (&names, false), (&names, true)] {
        let bytes = [4u64 << 30, 60_000].map(|memory| {
            let options = ImportOptions {
                memory,
                weighted,
                parts: Some(4),
                ..ImportOptions::default()
            };
            let (folder, path, imported) = store_file(text, &options);
            assert!(imported.unwrap().memory <= memory);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
            fs::read(&path).unwrap()
        });
        assert!(bytes[0] == bytes[1], "weighted {weighted}");
    }
}

/// Numbering by files gives what the reader's own table gives.
#[test]
fn text_ids_are_numbered_as_the_reader_does() {
    let text = "x y\ny y\nloop loop\nz x\nq y\nx y\n";
    let read = shardgraph_graph::ReadOptions::default();
    let import = shardgraph_graph::read_bytes("g.txt", text.as_bytes(), &read).unwrap();
    let (_folder, path, imported) = store_file(text, &ImportOptions::default());
    assert_eq!(imported.unwrap().n_edges, 4, "loops are dropped");
    let store = Store::open(&path).unwrap();
    let expected: Vec<String> = (0..import.labels.n_nodes())
        .map(|v| import.labels.get(v))
        .collect();
    assert_eq!(store.labels().unwrap().iter().collect::<Vec<_>>(), expected);
    let mut streamed = Vec::new();
    let fresh = Store::open(&path).unwrap();
    fresh
        .each_label(|label| {
            streamed.push(String::from_utf8(label.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
    assert_eq!(streamed, expected, "without having all in memory");
}

#[test]
fn integer_ids_may_be_larger_than_u32() {
    let text = "18446744073709551615 4294967296\n4294967296 7\n";
    let (_folder, path, imported) = store_file(text, &ImportOptions::default());
    assert_eq!(imported.unwrap().n_nodes, 3);
    let store = Store::open(&path).unwrap();
    let labels: Vec<&str> = store.labels().unwrap().iter().collect();
    assert_eq!(labels, ["7", "4294967296", "18446744073709551615"]);
}

/// What a killed import left goes with the next one; files of others, and those of imports that
/// run, stay.
#[test]
fn leftovers_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (dead, alive) = ("18c0ffee00000001", "18c0ffee00000002");
    let kept = [
        "g.store.spill".to_owned(),
        "g.store.import-20231105-notes".to_owned(),
        "g.store.import-4294967294-edges".to_owned(),
        format!("h.store.import-{dead}-edges"),
        format!("g.store.import-{dead}-notes"),
        format!("g.store.import-{alive}-lock"),
        format!("g.store.import-{alive}-partial"),
        "g.store.import-18c0ffee00000003-partial".to_owned(), // without a lock file
    ];
    let scratch = ["lock", "edges", "numbers-3-labels-ends", "partial", "store"];
    let scratch = scratch.map(|what| format!("g.store.import-{dead}-{what}"));
    for name in kept.iter().chain(&scratch) {
        fs::write(path(name), "x").unwrap();
    }
    let lock = fs::File::open(path(&kept[5])).unwrap();
    lock.lock().unwrap();
    fs::write(path("g.txt"), "0 1\n").unwrap();
    import_file(&path("g.txt"), &path("g.store"), &ImportOptions::default()).unwrap();
    for name in &kept {
        assert!(path(name).exists(), "{name}");
    }
    for name in &scratch {
        assert!(!path(name).exists(), "{name}");
    }
    let n_files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(n_files, kept.len() + 2, "the text and the store");
}

/// The files of an import that is past its reading, as a kill would leave them: those of any name,
/// for the name `g.store`.
fn files_of_a_killed_import(options: &ImportOptions, text: bool) -> (tempfile::TempDir, Vec<u8>) {
    let (running, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = running.path().join("g.store");
    let mut copy = |progress: ImportProgress| {
        if progress.stage == ImportStage::Dealing {
            for entry in fs::read_dir(running.path()).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
            }
        }
    };
    let imported = import_stream(&out, options, &mut copy, |sink| {
        for k in 0..REPORT_EVERY as u32 + 2000 {
            let (u, v) = (k % 997, (k * 7 + 1) % 1009);
            match text {
                true => sink.named_edge(&format!("n{u}"), &format!("n{v}"), 1.5)?,
                false => sink.edge(u, v + 1009 * u32::from(u == v), 1.5)?,
            }
        }
        Ok(InputSummary {
            self_loops_dropped: 3,
            ..if text {
                InputSummary::default()
            } else {
                numbered(2018, 2018)
            }
        })
    });
    let imported = imported.unwrap();
    assert!(!imported.is_resumed && imported.n_edges > 200_000);
    let bytes = fs::read(&out).unwrap();
    (killed, bytes)
}

fn resumable(weighted: bool) -> ImportOptions {
    ImportOptions {
        weighted,
        memory: 1 << 20,
        parts: Some(4),
        source: Some("the same".to_owned()),
        ..ImportOptions::default()
    }
}

#[test]
fn an_import_that_was_killed_behind_its_reading_goes_on_there() {
    for (weighted, text) in [(false, false), (true, false), (true, true)] {
        let options = resumable(weighted);
        let (folder, expected) = files_of_a_killed_import(&options, text);
        let out = folder.path().join("g.store");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert!(
            left >= 6,
            "lock, state, edges, degrees, labels, partial: {left}"
        );
        let imported = import_stream(&out, &options, &mut |_| {}, |_| panic!("read again"));
        let imported = imported.unwrap();
        assert_eq!(
            (imported.is_resumed, imported.self_loops_dropped),
            (true, 3)
        );
        assert!(fs::read(&out).unwrap() == expected);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "scratch files are gone");
    }
}

/// What becomes of the files, and of what is asked for.
type Damage<'d> = dyn Fn(&Path, &mut ImportOptions) + 'd;

/// An import of a graph of one edge, once what a killed one left has changed: whether it goes on,
/// and how many edges it has.
fn after(change: &Damage<'_>) -> Result<(bool, u64), Error> {
    let mut options = resumable(false);
    let (folder, _) = files_of_a_killed_import(&options, false);
    change(folder.path(), &mut options);
    let out = folder.path().join("g.store");
    let imported = import_stream(&out, &options, &mut |_| {}, |sink| {
        sink.edge(0, 1, 1.0)?;
        Ok(numbered(2, 2))
    });
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert!(left <= 1, "{left} files");
    imported.map(|imported| (imported.is_resumed, imported.n_edges))
}

fn file_of(folder: &Path, what: &str) -> PathBuf {
    let mut names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(what);
    names.find(is_it).unwrap()
}

#[test]
fn what_a_killed_import_left_is_taken_for_nothing_else() {
    let changes: [&Damage<'_>; 5] = [
        &|_, options| options.source = Some("another".to_owned()),
        &|_, options| options.source = None,
        &|_, options| options.directed = true,
        &|folder, _| {
            let path = file_of(folder, "-state");
            let text = fs::read_to_string(&path).unwrap();
            let other = text.replace("\"n_nodes\":2018", "\"n_nodes\":9018");
            assert_ne!(text, other);
            fs::write(&path, other).unwrap();
        },
        &|folder, _| {
            let edges = fs::File::options()
                .write(true)
                .open(file_of(folder, "-edges"));
            edges.unwrap().set_len(800).unwrap();
        },
    ];
    for change in changes {
        assert_eq!(after(change).unwrap(), (false, 1));
    }
}

/// Of the right length and damaged: found when it is read.
#[test]
fn damage_in_what_a_killed_import_left_is_found() {
    for (what, at) in [("-edges", 777), ("-edges", 4 * 777), ("-degrees", 77)] {
        let damaged = after(&|folder, _| {
            let path = file_of(folder, what);
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        });
        let error = damaged.unwrap_err();
        assert!(matches!(error, Error::File(_)), "{error}");
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}

/// While an import runs, another one to the same name leaves its files alone.
#[test]
fn two_imports_to_one_name_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("g.txt"), "0 1\n1 2\n").unwrap();
    let options = ImportOptions {
        memory: 1 << 20, // the spool is written to a file
        ..ImportOptions::default()
    };
    let imported = import_stream(&path("g.store"), &options, &mut |_| {}, |sink| {
        for node in 0..10_000 {
            sink.edge(node, node + 1, 1.0)?;
        }
        let names = || {
            fs::read_dir(folder.path())
                .unwrap()
                .map(|e| e.unwrap().file_name())
        };
        let before: Vec<_> = names().collect();
        assert!(before.len() >= 3, "text, lock and edges: {before:?}");
        import_file(&path("g.txt"), &path("g.store"), &options).unwrap();
        let now: Vec<_> = names().collect();
        assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
        Ok(numbered(10_001, 10_001))
    });
    assert_eq!(imported.unwrap().n_edges, 10_000);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_link_to_a_store_is_followed_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("stores")).unwrap();
    fs::write(path("stores/real.store"), "an earlier one").unwrap();
    std::os::unix::fs::symlink(path("stores/real.store"), path("g.store")).unwrap();
    fs::write(path("g.txt"), "0 1\n").unwrap();
    import_file(&path("g.txt"), &path("g.store"), &ImportOptions::default()).unwrap();
    assert!(path("g.store").is_symlink());
    assert_eq!(
        Store::open(&path("stores/real.store")).unwrap().n_nodes(),
        2
    );
}

/// A hub of more edges than f32 can count by ones.
#[test]
fn degrees_are_counted_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("g.store");
    let options = ImportOptions {
        weighted: true,
        ..ImportOptions::default()
    };
    import_stream(&out, &options, &mut |_| {}, |sink| {
        sink.edge(0, 1, 16_777_216.0)?;
        for _ in 0..1000 {
            sink.edge(0, 2, 1.0)?;
        }
        Ok(numbered(3, 3))
    })
    .unwrap();
    let store = Store::open(&out).unwrap();
    let degrees = store.degrees_of(0);
    assert!((degrees[0] - 16_778_216.0).abs() < 1.0, "{degrees:?}");
}

#[test]
fn parts_grow_where_memory_is_small() {
    let options = |memory| ImportOptions {
        memory,
        ..ImportOptions::default()
    };
    // 32 parts of 33.6 GB / p within 4 GiB.
    assert_eq!(options(4 << 30).parts_for(65_608_366, 0), 256);
    assert_eq!(options(1 << 40).parts_for(65_608_366, 0), 128);
    assert_eq!(options(4 << 30).parts_for(34, 0), 1);
    assert_eq!(options(1000).parts_for(100, 0), 1, "buffers are to fit");
    assert_eq!(options(50_000).parts_for(100, 0), 4);
    // A device has one bucket where it has the memory, and more than one where it has not.
    let on_device = |bytes, n_edges| {
        let device = DeviceMemory::new(bytes, &Config::default());
        let options = ImportOptions {
            device: Some(device),
            ..ImportOptions::default()
        };
        options.parts_for(65_608_366, n_edges)
    };
    assert_eq!(on_device(80 << 30, 1 << 24), 1);
    assert_eq!(on_device(80 << 30, 1 << 28), 4);
    assert_eq!(on_device(1 << 30, 1 << 24), 128, "tables do not fit");
}

#[test]
fn a_feed_that_contradicts_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("g.store");
    for (n_nodes, n_labels) in [(2, 2), (3, 2)] {
        let error = import_stream(&out, &ImportOptions::default(), &mut |_| {}, |sink| {
            sink.edge(0, 2, 1.0)?;
            Ok(numbered(n_nodes, n_labels))
        });
        let message = error.unwrap_err().to_string();
        assert!(message.contains("expected one number"), "{message}");
    }
    let error = Store::from_edges(3, &[(0, 1)], 1, NodeLabels::numbers(2)).unwrap_err();
    assert!(error.to_string().contains("2 labels"), "{error}");
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
        let bucket = store.bucket(i, j, &Memory::default()).unwrap();
        for ([from, to], weight) in bucket.pairs.iter().zip(bucket.weights.iter()) {
            let label = |part, row| {
                store
                    .labels()
                    .unwrap()
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
    assert_eq!(store.samples(0.3).of_all(), 3);
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
            .and_then(|store| store.bucket(0, 0, &Memory::default()))
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
    newer[8] = 3;
    fs::write(&path, newer).unwrap();
    assert!(read_all().unwrap_err().contains("version 3, expected 2"));
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(read_all().unwrap_err().contains("bytes by its head"));
}

/// Makes a head or its records wrong.
type Change<'c> = &'c dyn Fn(&mut Head, &mut Vec<u8>);

/// Another program may write right fingerprints over what makes no sense.
#[test]
fn a_store_that_names_what_is_not_there_is_refused() {
    let (folder, path, imported) = store_file("0 1\n1 2\n2 0\n", &ImportOptions::default());
    imported.unwrap();
    let whole = fs::read(&path).unwrap();
    let forged = folder.path().join("forged.store");
    let write = |change: Change<'_>| {
        let store = Store::open(&path).unwrap();
        let labels = store.labels().unwrap().clone();
        let (mut head, mut records) = (store.head, whole[whole.len() - 24..].to_vec());
        change(&mut head, &mut records);
        head.hashes = vec![shardgraph_storage::hash(&records)];
        let mut bytes = Vec::new();
        head.write(&mut bytes, &|out| labels.write(out)).unwrap();
        fs::write(&forged, [bytes, records].concat()).unwrap();
        Store::open(&forged).and_then(|store| store.bucket(0, 0, &Memory::default()))
    };
    assert!(write(&|_, _| ()).is_ok());
    let changes: [Change<'_>; 5] = [
        &|head, _| head.order[0] = head.order[1],
        &|head, _| head.order[2] = 3,
        &|head, _| head.degrees[1] = f32::NAN,
        &|head, _| head.weights[0] = -1.0,
        &|_, records| records[4..8].copy_from_slice(&3u32.to_le_bytes()),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert!(write(change).is_err(), "change {at}");
    }
}

fn assert_refused(text: &str, options: &ImportOptions, reason: &str) {
    let (folder, _, imported) = store_file(text, options);
    let message = imported.unwrap_err().to_string();
    assert!(message.contains(reason), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{reason}");
}

#[test]
fn weights_that_make_no_sense_leave_no_file() {
    let weighted = ImportOptions {
        weighted: true,
        ..ImportOptions::default()
    };
    for (text, reason) in [
        ("0 1 -1\n", "1: expected a weight of 0 or more, found -1"),
        ("0 1 nan\n", "finite number of at most 3.4e38 as weight"),
        ("0 1\n", "weight in the third column"),
        (
            "0 1 3e38\n0 2 3e38\n",
            "g.txt:2: expected weights whose sum",
        ),
        (
            "a b 3e38\na c 3e38\n",
            "edge 2 of the list: expected weights whose sum",
        ),
        ("a b 0\nb c 0\n", "have weight 0: expected one above 0"),
    ] {
        assert_refused(text, &weighted, reason);
    }
}

#[test]
fn bad_input_leaves_no_file() {
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
            "0 1\n",
            &small,
            "memory = 100: importing 2 nodes in 1 parts takes",
        ),
        ("0 1\n", &parts, "parts = 3: expected a power of two"),
        ("0\n", &ImportOptions::default(), "second node id"),
    ] {
        assert_refused(text, options, reason);
    }
}
