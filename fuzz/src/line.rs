//! LINE's files: a store's head and buckets, embeddings in every form.

use std::fs;
use std::path::Path;

use shardgraph_device::Device;
use shardgraph_graph::builtin;
use shardgraph_job::{Checkpoint, Folder, RunRecorder};
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::nodes::Classes;
use shardgraph_line::{
    Config, DiskOptions, DiskRun, Embedding, NodeLabels, Order, Store, train, train_on_disk,
};

use shardgraph_storage::hash;

use crate::bytes::scratch;

/// A store that opens is trained on, or says which bucket is wrong.
///
/// The fingerprint of the head is put right first: no input would get past it otherwise.
///
/// # Panics
/// When a rule is broken.
pub fn edge_store(data: &[u8]) {
    let path = scratch("store");
    for bytes in [data.to_vec(), marked(data)] {
        fs::write(&path, bytes).expect("room for a file");
        let store = match Store::open(&path) {
            Ok(store) => store,
            Err(error) => {
                let named = error.to_string().contains(&path.display().to_string());
                assert!(named, "{error}");
                continue;
            }
        };
        if let Ok(labels) = store.labels() {
            assert_eq!(labels.len(), store.n_nodes() as usize);
        }
        let config = Config {
            dim: 2,
            epochs: 1,
            ..Config::default()
        };
        if store.n_nodes() < 1000 && store.n_edges() < 1000 && store.n_parts() < 16 {
            // Whether it can or not.
            let _ = train(&store, &config, &Device::host(), &mut |_| {});
        }
    }
}

/// With the right fingerprint behind the head, where there is room for one.
fn marked(data: &[u8]) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    let (n_nodes, n_parts, labels) = (word(16), word(20) & 0xff, word(24));
    let len = (32 + 24 * n_parts * n_parts + 8 * n_nodes + labels) as usize;
    let mut bytes = data.to_vec();
    if let Some(stored) = bytes.get_mut(len..len + 8) {
        stored.copy_from_slice(&hash(&data[..len]).to_le_bytes());
    }
    bytes
}

/// As each form; what was read is written in the same form and read again with the same bits.
///
/// # Panics
/// When a rule is broken.
pub fn embedding_file(data: &[u8]) {
    for (name, format) in [
        ("e.npy", FileFormat::Npy),
        ("e.csv", FileFormat::Csv),
        ("e.vec", FileFormat::Word2vecText),
        ("e.bin", FileFormat::Word2vecBinary),
        ("e.safetensors", FileFormat::Safetensors),
    ] {
        let path = scratch(name);
        // Of the input before.
        let _ = fs::remove_file(formats::labels_path(&path));
        fs::write(&path, data).expect("room for a file");
        let embedding = match formats::read(&path, Some(format)) {
            Ok(embedding) => embedding,
            Err(error) => {
                let named = error.to_string().contains(&path.display().to_string());
                assert!(named, "{error}");
                continue;
            }
        };
        // The text form has no place for what is no number, and word2vec's forms none for labels with a blank.
        let is_nan = embedding.values().iter().any(|x| x.is_nan());
        if is_nan || formats::check_labels(&path, embedding.labels(), Some(format)).is_err() {
            continue;
        }
        if embedding
            .labels()
            .iter()
            .any(|label| label.contains(['\n', '\r']))
        {
            continue;
        }
        formats::write(&path, &embedding, Some(format)).expect("room for a file");
        let again = formats::read(&path, Some(format)).expect("what was written can be read");
        assert_eq!(bits(&again), bits(&embedding), "{name}");
        assert_eq!(again.labels(), embedding.labels(), "{name}");
    }
}

fn bits(embedding: &Embedding) -> Vec<u32> {
    embedding.values().iter().map(|x| x.to_bits()).collect()
}

/// Classes of the nodes `ann` and `bob`: errors name the line, listed nodes ascend and have ascending classes.
///
/// # Panics
/// When a rule is broken.
pub fn class_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Classes::parse("classes.txt", &text, &NodeLabels::new(["ann", "bob"])) {
        Err(error) => assert!(error.to_string().starts_with("classes.txt:"), "{error}"),
        Ok(classes) => {
            assert!(
                classes
                    .of_nodes()
                    .windows(2)
                    .all(|pair| pair[0].0 < pair[1].0)
            );
            for (node, own) in classes.of_nodes() {
                assert!(*node < 2 && own.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(
                    own.last()
                        .is_some_and(|&last| (last as usize) < classes.names().len())
                );
            }
        }
    }
}

/// Name of a run's state in its checkpoint.
pub const RUN_STATE: &str = "run.json";

/// As the state of a run in a whole checkpoint of step 1: it is refused by a name or a setting, or the run ends with finite rows.
///
/// # Panics
/// When a rule is broken.
pub fn line_run(data: &[u8]) {
    let (work, out) = (scratch("work"), scratch("rows.npy"));
    let _ = fs::remove_dir_all(&work); // of the input before
    let mut checkpoint = Checkpoint::new(1);
    let added = checkpoint.add(RUN_STATE, data.to_vec());
    added.expect("the name of a file");
    let folder = Folder::of_new_run(&work, &[RUN_STATE], &[]).expect("a new folder");
    let recorder = RunRecorder::open(folder).expect("room for files");
    let written = recorder.write_checkpoint(&checkpoint);
    written.expect("room for a checkpoint");
    drop(recorder);
    let store = karate();
    match on_disk(&store, &work, &out) {
        Ok(()) => {
            let rows = formats::read(&out, None).expect("what was written can be read");
            assert_eq!(rows.n_nodes(), store.n_nodes() as usize);
            assert!(rows.values().iter().all(|x| x.is_finite()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn karate() -> Store {
    let graph = builtin::by_name("karate").expect("a built-in graph");
    let later = |u: u32| graph.neighbors(u).iter().filter(move |&&v| u < v);
    let edges: Vec<(u32, u32)> = (0..graph.n_nodes())
        .flat_map(|u| later(u).map(move |&v| (u, v)))
        .collect();
    let labels = NodeLabels::numbers(graph.n_nodes());
    Store::from_edges(graph.n_nodes(), &edges, 2, labels).expect("a store")
}

fn on_disk(store: &Store, work: &Path, npy: &Path) -> Result<(), shardgraph_line::Error> {
    let config = Config {
        order: Order::Second,
        dim: 2,
        epochs: 1,
        ..Config::default()
    };
    let disk = DiskRun {
        work,
        metrics: None,
        npy,
        options: &DiskOptions::default(),
    };
    train_on_disk(store, &config, &Device::host(), disk, &mut |_| {}).map(drop)
}

/// State of the run of [`line_run`] when its one pass is over: its answer has no folder to lie in.
///
/// # Errors
/// When the state cannot be read, or the answer found a place.
pub fn ended_run_state(folder: &Path) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let work = folder.join("work");
    if on_disk(&karate(), &work, &folder.join("none/rows.npy")).is_ok() {
        return Err("the folder `none` should not be there".into());
    }
    let newest = Checkpoint::newest(&work, &[RUN_STATE])?.ok_or("a checkpoint")?;
    Ok(newest.file(RUN_STATE)?.to_vec())
}
