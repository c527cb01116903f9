//! The keys of the answers of `embed`.

use crate::program::run;
use crate::schema::assert_schema;

/// The settings of a training, as embedding and its evaluation print them.
const EMBED_SETTINGS: [(&str, &str); 17] = [
    ("loss", "string"),
    ("order", "string"),
    ("dim", "count"),
    ("epochs", "count"),
    ("negatives", "count"),
    ("shared_negatives", "count"),
    ("learning_rate", "null"),
    ("optimiser", "string"),
    ("precision", "string"),
    ("threads", "count"),
    ("queues", "count"),
    ("queue_length", "count"),
    ("edges_in_flight", "null"),
    ("ranks", "count"),
    ("device_memory", "null"),
    ("seed", "count"),
    ("first_rate", "number"),
];

/// The keys of a training, but for its settings; tables on disk have an object of their own.
fn embed_keys(disk: &'static str, selection: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("graph", "string"),
        ("nodes", "count"),
        ("edges", "count"),
        ("shared_by", "count"),
        ("directed", "boolean"),
        ("weighted", "boolean"),
        ("parts", "count"),
        ("columns", "count"),
        ("selection", selection),
        ("samples", "count"),
        ("seconds", "number"),
        ("training_seconds", "number"),
        ("samples_per_s", "number"),
        ("mode", "string"),
        ("device", "string"),
        ("preparation_seconds", "number"),
        ("update_seconds", "number"),
        ("bytes_per_sample", "number"),
        ("bytes_moved", "number"),
        ("to_device_bytes", "count"),
        ("exchanged_bytes", "count"),
        ("peak_memory_bytes", "count"),
        ("load_seconds", "number"),
        ("disk", disk),
        ("out", "string"),
    ]
}

#[test]
fn embed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, work) = (folder.path().join("e.npy"), folder.path().join("work"));
    let answer = run("embed karate --dim 4 --out {} --format json", &[&out]).json();
    assert_schema(
        &answer,
        &[&embed_keys("null", "object")[..], &EMBED_SETTINGS].concat(),
    );
    let selection = [
        ("baselines", "object"),
        ("components", "list"),
        ("auc", "object"),
        ("held_back_edges", "count"),
        ("trials", "list"),
        ("is_cut_short", "boolean"),
        ("seconds", "number"),
    ];
    assert_schema(&answer["selection"], &selection);
    let words = "embed karate --dim 4 --work {} --out {} --format json";
    let answer = run(words, &[&work, &out]).json();
    assert_schema(
        &answer,
        &[&embed_keys("object", "null")[..], &EMBED_SETTINGS].concat(),
    );
    let disk = [
        ("groups", "count"),
        ("loads", "count"),
        ("read_bytes", "count"),
        ("written_bytes", "count"),
        ("peak_row_bytes", "count"),
        ("predicted_bytes", "count"),
        ("held_bytes", "count"),
        ("stall_seconds", "number"),
        ("reading_stall_seconds", "number"),
        ("writing_stall_seconds", "number"),
        ("making_seconds", "number"),
        ("checkpoint_seconds", "number"),
        ("disk_seconds", "number"),
        ("overlap_seconds", "number"),
        ("resumed_samples", "count"),
    ];
    assert_schema(&answer["disk"], &disk);
    let near = run("embed near 1 --model {} --format json", &[&out]).json();
    assert_schema(&near, &[("node", "string"), ("near", "list")]);
    assert_schema(
        &near["near"][0],
        &[("node", "string"), ("cosine", "number")],
    );
}

#[test]
fn embed_eval() {
    let answer = run("embed eval karate --dim 4 --format json", &[]).json();
    let own = [
        ("graph", "string"),
        ("nodes", "count"),
        ("edges", "count"),
        ("auc_uniform", "number"),
        ("auc_degree_matched", "number"),
        ("auc_uniform_spread", "number"),
        ("auc_degree_matched_spread", "number"),
        ("operators", "object"),
        ("degree_product", "object"),
        ("common_neighbors", "object"),
        ("adamic_adar", "object"),
        ("factorised", "object"),
        ("against", "null"),
        ("selections", "list"),
        ("operator", "string"),
        ("seconds", "number"),
        ("training_seconds", "number"),
        ("samples", "count"),
        ("samples_per_s", "number"),
        ("unseen_nodes", "count"),
        ("train_share", "number"),
        ("nodes_by_class", "null"),
        ("mode", "null"),
        ("load_seconds", "number"),
        ("runs", "list"),
    ];
    assert_schema(&answer, &[&own[..], &EMBED_SETTINGS].concat());
    let auc = [("uniform", "number"), ("degree_matched", "number")];
    assert_schema(&answer["adamic_adar"], &auc);
    let factorised = [
        ("spectral", "object"),
        ("truncated_svd", "object"),
        ("netmf", "object"),
    ];
    assert_schema(&answer["factorised"], &factorised);
    assert_schema(&answer["factorised"]["netmf"], &auc);
}

#[test]
fn embed_import() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("k.store");
    let imported = run("embed import karate --out {} --format json", &[&out]).json();
    let keys = [
        ("graph", "string"),
        ("nodes", "count"),
        ("edges", "count"),
        ("parts", "count"),
        ("self_loops_dropped", "count"),
        ("zero_weights", "count"),
        ("file_bytes", "count"),
        ("memory_bytes", "count"),
        ("seconds", "number"),
        ("resumed", "boolean"),
        ("out", "string"),
    ];
    assert_schema(&imported, &keys);
}
