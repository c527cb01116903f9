//! The keys of the answers of `place`.

use crate::program::run;
use crate::schema::assert_schema;

/// What `place` says of every graph.
const SUBJECT: [(&str, &str); 11] = [
    ("graph", "string"),
    ("index", "count"),
    ("ops", "count"),
    ("tensors", "count"),
    ("edges", "count"),
    ("devices", "count"),
    ("links", "object"),
    ("costs", "object"),
    ("persistent_bytes", "count"),
    ("counts_persistent", "boolean"),
    ("objective", "string"),
];

/// The figures of a plan.
const FIGURES: [(&str, &str); 10] = [
    ("method", "string"),
    ("runtime", "count"),
    ("peak_bytes", "count"),
    ("excess_bytes", "count"),
    ("lower_bound", "count"),
    ("gap", "number"),
    ("evaluations", "count"),
    ("evals_per_s", "number"),
    ("seconds", "number"),
    ("verified", "boolean"),
];

/// What its answers end with.
const CIRCUMSTANCES: [(&str, &str); 4] = [
    ("verify_seconds", "number"),
    ("load_seconds", "number"),
    ("seed", "count"),
    ("threads", "count"),
];

#[test]
fn place() {
    for (flags, decoder, memory, proposals) in [
        ("--evaluations 20", "null", "null", "null"),
        (
            "--objective memory --device-memory 1GiB --threads 2 --evaluations 20",
            "null",
            "count",
            "null",
        ),
        ("--method heft", "null", "null", "null"),
        (
            "--links unlimited --model runtime --method seeded-regal --evaluations 420",
            "string",
            "null",
            "number",
        ),
    ] {
        let answer = run(&format!("place costgraph:1 {flags} --format json"), &[]).json();
        let object = |key: &str| match answer[key].is_null() {
            true => "null",
            false => "object",
        };
        let speedup = match answer["method"] == "portfolio" {
            true => "number",
            false => "null",
        };
        let own = [
            ("decoder", decoder),
            ("memory_bytes", memory),
            ("speedup", speedup),
            ("baselines", "list"),
            ("idle_shares", "list"),
            ("busiest_link", object("busiest_link")),
            ("critical_path", "object"),
            ("proposal_seconds", proposals),
            ("proposal_share", proposals),
        ];
        assert_schema(
            &answer,
            &[&SUBJECT[..], &own, &FIGURES, &CIRCUMSTANCES].concat(),
        );
    }
}

#[test]
fn place_compares() {
    let words = "place costgraph:1 --compare --evaluations 20 --format json";
    let table = run(words, &[]).json();
    let own = [
        ("memory_bytes", "null"),
        ("lower_bound", "count"),
        ("verified", "boolean"),
        ("seconds", "number"),
        ("rows", "list"),
    ];
    assert_schema(&table, &[&SUBJECT[..], &own, &CIRCUMSTANCES].concat());
    for row in table["rows"].as_array().unwrap() {
        let decoder = match row["decoder"].is_null() {
            true => "null",
            false => "string",
        };
        let own = [
            ("decoder", decoder),
            ("gap_to_best", "number"),
            ("improvement", "number"),
        ];
        assert_schema(row, &[&FIGURES[..], &own].concat());
    }
}

#[test]
fn generate_computation_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("g.jsonl");
    let answer = run("generate costgraph:3 --out {} --format json", &[&out]).json();
    assert_schema(
        &answer,
        &[
            ("graph", "string"),
            ("seed", "count"),
            ("graphs", "count"),
            ("ops", "count"),
            ("tensors", "count"),
            ("edges", "count"),
            ("seconds", "number"),
            ("format", "string"),
            ("out", "string"),
        ],
    );
    assert_eq!(answer["graphs"], 3);
}
