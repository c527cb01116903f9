//! The JSON of every subcommand: exactly these keys, in this order, of these types.

use serde_json::Value;

use crate::program::run;

/// Checks an object's keys and types. Numbers: `count` has no fraction, `number` is written with one.
pub(crate) fn assert_schema(object: &Value, expected: &[(&str, &str)]) {
    let object = object.as_object().unwrap();
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (key, value) in object {
        found.push((key, type_name(value)));
    }
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "count",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

const SOLVE: [(&str, &str); 25] = [
    ("graph", "string"),
    ("problem", "string"),
    ("nodes", "count"),
    ("edges", "count"),
    ("objective", "count"),
    ("verified", "boolean"),
    ("method", "string"),
    ("sense", "string"),
    ("optimal", "boolean"),
    ("bound", "count"),
    ("bound_source", "string"),
    ("gap", "number"),
    ("found_by", "string"),
    ("rows", "list"),
    ("seed", "count"),
    ("solution", "list"),
    ("steps", "count"),
    ("seconds", "number"),
    ("seconds_per_step", "number"),
    ("load_seconds", "number"),
    ("ranks", "count"),
    ("device", "string"),
    ("path", "string"),
    ("policy", "string"),
    ("stages", "list"),
];

#[test]
fn solve() {
    // Without an edge too: no steps must not make a number of seconds null.
    for graph in ["karate", "er:5:0", "er:0:0.5"] {
        let answer = run(
            &format!("solve --method policy {graph} --format json --ranks 2"),
            &[],
        )
        .json();
        assert_schema(&answer, &SOLVE);
        assert_eq!(answer["verified"], true);
        assert_eq!(answer["problem"], "mvc");
        assert_eq!(answer["ranks"], 2);
        let stages = answer["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 1);
        assert_schema(
            &stages[0],
            &[
                ("name", "string"),
                ("objective", "count"),
                ("seconds", "number"),
            ],
        );
        assert_eq!(stages[0]["name"], "policy");
        assert_eq!(stages[0]["objective"], answer["objective"]);
    }
}

/// What the reductions of `solve` did, and the rules that they name.
const REDUCTION: [(&str, &str); 8] = [
    ("kernel_nodes", "count"),
    ("kernel_edges", "count"),
    ("offset", "count"),
    ("lower_bound", "count"),
    ("rounds", "count"),
    ("steps", "count"),
    ("seconds", "number"),
    ("removed", "object"),
];
const REMOVED: [&str; 11] = [
    "degree_zero",
    "degree_one",
    "triangle",
    "fold",
    "funnel",
    "struction",
    "domination",
    "unconfined",
    "linear_program",
    "high_degree",
    "given",
];

#[test]
fn solve_in_stages() {
    let words =
        "solve --method policy er:80:0.1 --reduce --local-search-steps 100 --compare --format json";
    let answer = run(words, &[]).json();
    let own = [("reduction", "object"), ("compare", "list")];
    assert_schema(&answer, &[&SOLVE[..], &own].concat());
    let plain = [
        ("name", "string"),
        ("objective", "count"),
        ("seconds", "number"),
    ];
    let search = [
        ("search_steps", "count"),
        ("steps_per_s", "number"),
        ("best_seconds", "number"),
    ];
    for rows in [&answer["stages"], &answer["compare"]] {
        for row in rows.as_array().unwrap() {
            let has_search = row["name"].as_str().unwrap().starts_with("polish");
            let keys = [&plain[..], if has_search { &search } else { &[] }].concat();
            assert_schema(row, &keys);
        }
    }
    assert_schema(&answer["reduction"], &REDUCTION);
    let removed = &answer["reduction"]["removed"];
    assert_schema(removed, &REMOVED.map(|rule| (rule, "count")));
}

#[test]
fn score() {
    let answer = run("score karate --top 3 --format json", &[]).json();
    let keys = [
        ("graph", "string"),
        ("problem", "string"),
        ("nodes", "count"),
        ("edges", "count"),
        ("ranks", "count"),
        ("path", "string"),
        ("policy", "string"),
        ("seconds", "number"),
        ("load_seconds", "number"),
        ("top", "list"),
    ];
    assert_schema(&answer, &keys);
    let top = answer["top"].as_array().unwrap();
    assert_eq!(top.len(), 3);
    for scored in top {
        assert_schema(scored, &[("node", "string"), ("score", "number")]);
    }
    let empty = run("score er:0:0.5 --format json", &[]).json();
    assert_schema(&empty, &keys);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("scores.txt");
    let written = run("score karate --top 3 --format json --out {}", &[&out]).json();
    assert_schema(&written, &[&keys[..], &[("out", "string")]].concat());
}

#[test]
fn train() {
    let keys = |final_loss| {
        [
            ("problem", "string"),
            ("steps", "count"),
            ("seconds", "number"),
            ("seconds_per_step", "number"),
            ("learning_step_seconds", final_loss),
            ("ranks", "count"),
            ("batch_ranks", "count"),
            ("device", "string"),
            ("final_loss", final_loss),
            ("policy", "string"),
            ("policy_hash", "string"),
            ("episodes", "count"),
        ]
    };
    for (n_steps, final_loss) in [(3, "null"), (70, "number")] {
        let folder = tempfile::tempdir().unwrap();
        let words = format!("train --problem mvc --steps {n_steps} --run {{}} --format json");
        let answer = run(&words, &[folder.path()]).json();
        assert_schema(&answer, &keys(final_loss));
        assert_eq!(answer["steps"], n_steps);
        assert_eq!(
            answer["policy"].as_str(),
            folder.path().join("policy.safetensors").to_str()
        );
        let hash = answer["policy_hash"].as_str().unwrap();
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert!(hash.len() == 16 && hash.chars().all(is_hex), "{hash}");
    }
}

#[test]
fn info() {
    for graph in ["karate", "er:0:0.5", "er:1:0.5"] {
        let answer = run(&format!("info {graph} --format json"), &[]).json();
        assert_schema(
            &answer,
            &[
                ("graph", "string"),
                ("format", "null"),
                ("packing", "null"),
                ("listed_edges", "null"),
                ("nodes", "count"),
                ("edges", "count"),
                ("density", "number"),
                ("min_degree", "count"),
                ("mean_degree", "number"),
                ("max_degree", "count"),
                ("isolated_nodes", "count"),
                ("self_loops_dropped", "count"),
                ("duplicates_merged", "count"),
                ("storage", "string"),
                ("storage_bytes", "count"),
                ("load_seconds", "number"),
            ],
        );
    }
}

#[test]
fn generate_and_convert() {
    let folder = tempfile::tempdir().unwrap();
    let (made, converted) = (folder.path().join("g.mtx"), folder.path().join("g.gr"));
    let answer = run("generate ba:30:2 --seed 3 --out {} --format json", &[&made]).json();
    assert_schema(
        &answer,
        &[
            ("graph", "string"),
            ("seed", "count"),
            ("nodes", "count"),
            ("edges", "count"),
            ("seconds", "number"),
            ("format", "string"),
            ("out", "string"),
        ],
    );
    assert_eq!(
        (&answer["nodes"], &answer["edges"]),
        (&30.into(), &56.into())
    );
    let answer = run("convert {} {} --format json", &[&made, &converted]).json();
    assert_schema(
        &answer,
        &[
            ("graph", "string"),
            ("nodes", "count"),
            ("edges", "count"),
            ("seconds", "number"),
            ("load_seconds", "number"),
            ("format", "string"),
            ("out", "string"),
        ],
    );
    assert_eq!(answer["format"], "pace");
    let answer = run("info {} --format json", &[&converted]).json();
    let what = ["format", "packing", "listed_edges"].map(|key| answer[key].clone());
    assert_eq!(
        serde_json::json!(what),
        serde_json::json!(["pace", "plain", 56])
    );
}
