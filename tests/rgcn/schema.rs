//! The JSON of the `rgcn` commands: exactly these keys, in this order, of these types.

use crate::program::run;
use crate::schema::assert_schema;

#[test]
fn rgcn_info() {
    let answer = run("rgcn info ba-rel:40:2:3 --format json", &[]).json();
    let expected = [
        ("graph", "string"),
        ("nodes", "count"),
        ("edges", "count"),
        ("relations", "count"),
        ("inverse_relations", "count"),
        ("pairs", "count"),
        ("largest_relation", "string"),
        ("largest_relation_edges", "count"),
        ("busiest_node", "string"),
        ("busiest_node_edges", "count"),
        ("classes", "count"),
        ("train_labels", "count"),
        ("test_labels", "count"),
        ("valid_labels", "count"),
        ("load_seconds", "number"),
        ("import", "null"),
    ];
    assert_schema(&answer, &expected);
}

const RGCN_PLAN: [(&str, &str); 23] = [
    ("graph", "string"),
    ("nodes", "count"),
    ("edges", "count"),
    ("relations", "count"),
    ("pairs", "count"),
    ("method", "string"),
    ("model", "object"),
    ("mode", "string"),
    ("cost_max_over_mean", "number"),
    ("device", "string"),
    ("edges_max_over_mean", "number"),
    ("bytes_per_device", "list"),
    ("bytes_whole", "count"),
    ("nccl_bytes_per_device", "count"),
    ("replicated_bytes", "count"),
    ("split_relations", "count"),
    ("messages_per_step", "count"),
    ("exchanges", "list"),
    ("budget_per_device", "null"),
    ("devices", "list"),
    ("seconds", "number"),
    ("load_seconds", "number"),
    ("import", "null"),
];

#[test]
fn rgcn_plan() {
    for method in ["m1", "source"] {
        let words =
            format!("rgcn plan ba-rel:40:2:3 --devices 2 --partition {method} --format json");
        let answer = run(&words, &[]).json();
        assert_schema(&answer, &RGCN_PLAN);
        let device = [
            ("n_edges", "count"),
            ("n_pairs", "count"),
            ("n_sources", "count"),
            ("n_self_loops", "count"),
            ("n_relations", "count"),
            ("n_own_nodes", "count"),
            ("n_own_pairs", "count"),
            ("n_own_sources", "count"),
            ("n_own_reads", "count"),
            ("n_foreign_sources", "count"),
            ("n_foreign_pairs", "count"),
            ("cost", "count"),
            ("bytes", "object"),
            ("tiles", "count"),
            ("held_bytes", "count"),
        ];
        assert_schema(&answer["devices"][0], &device);
        let exchange = [("layer", "count"), ("what", "string"), ("bytes", "count")];
        assert_schema(&answer["exchanges"][0], &exchange);
    }
}

const RGCN_TRAIN: [(&str, &str); 34] = [
    ("graph", "string"),
    ("nodes", "count"),
    ("edges", "count"),
    ("relations", "count"),
    ("mode", "string"),
    ("ranks", "count"),
    ("partition", "string"),
    ("execution", "string"),
    ("weight_bytes", "null"),
    ("device", "string"),
    ("idle_ranks", "count"),
    ("seeds", "list"),
    ("settings", "object"),
    ("accuracy_of", "string"),
    ("accuracies", "list"),
    ("accuracy_mean", "number"),
    ("accuracy_std", "number"),
    ("accuracy_interval", "number"),
    ("best_epochs", "list"),
    ("epoch_ms", "number"),
    ("forward_ms", "number"),
    ("backward_ms", "number"),
    ("final_loss", "number"),
    ("peak_mib", "number"),
    ("rank_times", "list"),
    ("bytes_per_rank", "list"),
    ("budget_per_device", "null"),
    ("devices", "list"),
    ("seconds", "number"),
    ("load_seconds", "number"),
    ("classes", "list"),
    ("evaluation", "object"),
    ("params_hash", "list"),
    ("import", "null"),
];

#[test]
fn rgcn_train() {
    let words = "rgcn train ba-rel:400:2:3 --epochs 2 --repeats 2 --format json";
    let answer = run(words, &[]).json();
    assert_schema(&answer, &RGCN_TRAIN);
    let folder = tempfile::tempdir().unwrap();
    let (curve, out) = (folder.path().join("c.svg"), folder.path().join("run"));
    let one = "rgcn train ba-rel:400:2:3 --epochs 1 --svg {} --run {} --format json";
    let written = run(one, &[&curve, &out]).json();
    assert_eq!(written["curve"].as_str(), curve.to_str());
    assert_eq!(written["out"].as_str(), out.to_str());
    let found = &answer["evaluation"];
    let expected = [
        ("train", "object"),
        ("valid", "null"),
        ("test", "object"),
        ("confusion", "list"),
    ];
    assert_schema(found, &expected);
    let scores = [
        ("n_nodes", "count"),
        ("n_right", "count"),
        ("accuracy", "number"),
        ("low", "number"),
        ("high", "number"),
    ];
    assert_schema(&found["train"], &scores);
}
