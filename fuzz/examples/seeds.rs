//! Writes seeds for every target into `corpus/`: the test files of costgraph, and what this project writes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use shardgraph_environments::space::Space;
use shardgraph_graph::{Format, WriteOptions, builtin, write_graph};
use shardgraph_job::{Checkpoint, Folder, Tensors};
use shardgraph_line::{Embedding, ImportOptions, NodeLabels, formats, import_file};
use shardgraph_replay::{Ending, EpisodeMemory, LeafRef, Rows};
use shardgraph_solver::TrainedPolicy;

/// Test files by target.
const FILES: [(&str, &[&str]); 6] = [
    ("cost_graph_binary", &["VGG16_fwd.pb.gz"]),
    ("cost_graph_text", &["tiny.pbtxt", "g0018.pbtxt"]),
    (
        "onnx",
        &[
            "light_zfnet512.onnx",
            "light_bvlc_alexnet.onnx",
            "light_squeezenet.onnx",
        ],
    ),
    ("jsonl", &["tiny.jsonl"]),
    ("pipedream", &["tiny.pipedream.txt"]),
    ("msr", &["tiny.msr.json"]),
];

/// Three tasks between the entry and the exit, which take no time.
const STG: &[u8] = b"3\n0 0 0\n1 4 1 0\n2 3 1 0\n3 5 2 1 2\n4 0 1 3\n";

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = |target: &str| {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    for (target, names) in FILES {
        for name in names {
            let from = here.join("../crates/costgraph-io/tests/corpus").join(name);
            fs::copy(from, folder(target)?.join(name))?;
        }
    }
    for format in Format::ALL {
        graphs(format, &folder(&format.name().replace('-', "_"))?)?;
    }
    triples(&folder("triples")?)?;
    for (target, bytes) in [
        ("stg", STG.to_vec()),
        (
            "measured_costs",
            b"op,seconds,output_bytes\nend,0.001,\n".to_vec(),
        ),
        ("features", b"node,x,y\n0,1,2\n1,3,4\n2,5,6\n".to_vec()),
        ("node_labels", b"node,class\n1,a\n2,b\n".to_vec()),
        (
            "class_file",
            b"# who plays what\nann flute\nbob flute,drums\n".to_vec(),
        ),
        ("episode_memory", memory()?.to_bytes()),
        ("rows", rows()?.to_bytes()),
        ("space", serde_json::to_vec(&space()?)?),
    ] {
        fs::write(folder(target)?.join("seed"), bytes)?;
    }
    run_files(&folder("checkpoint")?, &folder("metrics")?)?;
    line_files(&folder("edge_store")?, &folder("embedding_file")?)?;
    let scratch = tempfile::tempdir()?;
    let state = shardgraph_fuzz::line::ended_run_state(scratch.path())?;
    fs::write(folder("line_run")?.join("ended"), state)?;
    Ok(TrainedPolicy::shipped()?.write(&folder("policy")?.join("shipped"))?)
}

/// A file of each form of triples, behind the byte that names it.
fn triples(folder: &Path) -> Result<(), Box<dyn Error>> {
    let forms: [&[u8]; 5] = [
        b"\x00<a:s> <a:p> \"x\\u00e9\"@en .\n",
        b"\x01@prefix a: <a:> .\na:s a:p [ a:q 1 ] .\n",
        b"\x020, 0, 1\n1, 1, 0\n",
        b"\x032\n0 1 0\n1 0 0\n",
        b"\x04s\tp\to\n",
    ];
    for (idx, form) in forms.iter().enumerate() {
        fs::write(folder.join(format!("{idx}")), form)?;
    }
    Ok(())
}

/// The small built-in graphs in one format.
fn graphs(format: Format, folder: &Path) -> Result<(), Box<dyn Error>> {
    for name in builtin::names() {
        let graph = builtin::by_name(name).ok_or("a name of the list")?;
        let options = WriteOptions {
            format: Some(format),
            ..WriteOptions::default()
        };
        if graph.n_nodes() < 200 {
            write_graph(&folder.join(name), &graph, None, options)?;
        }
    }
    Ok(())
}

/// Stores with and without weights, and an embedding in every form.
fn line_files(stores: &Path, embeddings: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let text = scratch.path().join("g.txt");
    fs::write(&text, "ann bob 1\nbob cid 2\ncid ann 0.5\n")?;
    for weighted in [false, true] {
        let options = ImportOptions {
            weighted,
            parts: Some(2),
            ..ImportOptions::default()
        };
        import_file(
            &text,
            &stores.join(format!("weighted-{weighted}")),
            &options,
        )?;
    }
    let labels = NodeLabels::new(["ann", "bob"]);
    let embedding = Embedding::new(2, vec![1.0, 0.5, -3.0, 0.1], labels)?;
    for name in ["e.npy", "e.csv", "e.vec", "e.bin", "e.safetensors"] {
        formats::write(&embeddings.join(name), &embedding, None)?;
    }
    Ok(())
}

/// A block of one row.
fn rows() -> Result<Rows, Box<dyn Error>> {
    let mut rows = shardgraph_fuzz::bytes::empty_rows();
    rows.push(&[LeafRef::F32(&[0.5, -1.0]), LeafRef::U32(&[1])])?;
    Ok(rows)
}

/// A space of every form.
fn space() -> Result<Space, Box<dyn Error>> {
    let limits = ([f32::NEG_INFINITY, 0.5], f32::INFINITY);
    let number = Space::tuple(vec![Space::discrete(5)?, Space::multi_binary(3)?])?;
    Ok(Space::dict(vec![
        ("box", Space::boxed(&[2], limits.0, limits.1)?),
        ("number", number),
        ("graph", Space::graph(1, 2)?),
    ])?)
}

/// A MANIFEST, a checkpoint for another rank, tensors, and both files of the metrics.
fn run_files(checkpoints: &Path, metrics: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let run = Folder::of_new_run(scratch.path(), &[], &[])?;
    let mut written = run.open_metrics(1e9)?;
    for step in 1..=4 {
        let line = BTreeMap::from([("step", step)]);
        written.append(1e9, &line, &[("train/loss", 0.5), ("train/epsilon", 1.0)])?;
    }
    let mut tensors = Tensors::new();
    tensors.add_f32("params", &[0.5, -1.0])?;
    let mut checkpoint = Checkpoint::new(3);
    for name in ["a", "b"] {
        checkpoint.add(name, Vec::new())?;
    }
    run.write_checkpoint(&checkpoint, &written)?;
    let manifest = scratch.path().join("checkpoint-0000000003/MANIFEST");
    fs::copy(manifest, checkpoints.join("manifest"))?;
    fs::write(checkpoints.join("tensors"), tensors.to_bytes()?)?;
    fs::write(checkpoints.join("bytes"), checkpoint.to_bytes())?;
    let lines = scratch.path().join("metrics.jsonl");
    fs::copy(lines, metrics.join("lines"))?;
    fs::copy(written.events_path(), metrics.join("events"))?;
    Ok(())
}

/// A memory with an episode that ended, one that lost its first steps, and one that is open.
fn memory() -> Result<EpisodeMemory, Box<dyn Error>> {
    let mut memory = EpisodeMemory::new(7);
    for graph_id in 0..3 {
        memory.begin_episode(graph_id);
        for step in 0..4 {
            let target = (step % 2 == 0).then_some(0.5);
            memory.record(step, -1.0, target)?;
        }
        if graph_id == 1 {
            memory.end_episode(Ending::Terminated)?;
        }
    }
    Ok(memory)
}
