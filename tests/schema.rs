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

/// The keys of an evaluation.
const AGENT_EVAL: [(&str, &str); 14] = [
    ("algorithm", "string"),
    ("environment", "string"),
    ("seed", "count"),
    ("episodes", "count"),
    ("actions", "string"),
    ("steps", "count"),
    ("mean_return", "number"),
    ("min_return", "number"),
    ("max_return", "number"),
    ("seconds", "number"),
    ("env_steps_per_s", "number"),
    ("device", "string"),
    ("weights", "string"),
    ("policy_hash", "string"),
];

#[test]
fn agent() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let keys = |mean_return, weights| {
        [
            ("algorithm", "string"),
            ("environment", "string"),
            ("seed", "count"),
            ("steps", "count"),
            ("episodes", "count"),
            ("updates", "count"),
            ("mean_return", mean_return),
            ("seconds", "number"),
            ("env_steps_per_s", "number"),
            ("ranks", "count"),
            ("device", "string"),
            ("weights", weights),
            ("policy_hash", "string"),
        ]
    };
    let answer = run(
        "agent train cartpole-dqn --steps 1 --quiet --format json",
        &[],
    )
    .json();
    assert_schema(&answer, &keys("null", "null"));
    let words = "agent train cartpole-dqn --steps 300 --run {} --quiet --format json";
    let answer = run(words, &[&out]).json();
    assert_schema(&answer, &keys("number", "string"));
    let weights = out.join("weights.safetensors");
    let words = "agent eval cartpole-dqn --model {} --episodes 2 --format json";
    let answer = run(words, &[&weights]).json();
    assert_schema(&answer, &AGENT_EVAL);
    let listing = run("agent list --format json", &[]).json();
    assert_schema(&listing, &[("agents", "list"), ("environments", "list")]);
    let keys = [
        ("name", "string"),
        ("about", "string"),
        ("settings", "object"),
    ];
    assert_schema(&listing["agents"][0], &keys);
}

#[test]
fn agent_with_a_learner_and_actors() {
    for (name, ratio) in [("cartpole-apex", "number"), ("cartpole-reinforce", "null")] {
        let words = format!("agent train {name} --steps 200 --quiet --format json");
        let answer = run(&words, &[]).json();
        let has_ended = answer["mean_return"].is_number();
        assert_schema(
            &answer,
            &[
                ("algorithm", "string"),
                ("environment", "string"),
                ("seed", "count"),
                ("steps", "count"),
                ("episodes", "count"),
                ("updates", "count"),
                ("mean_return", if has_ended { "number" } else { "null" }),
                ("seconds", "number"),
                ("env_steps_per_s", "number"),
                ("updates_per_s", "number"),
                ("mean_policy_lag", "number"),
                ("max_policy_lag", "count"),
                ("lost", "list"),
                ("samples_per_insert", ratio),
                ("stale_priorities", "count"),
                ("device", "string"),
                ("weights", "null"),
                ("policy_hash", "string"),
            ],
        );
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

/// The settings of a training, as embedding and its evaluation print them.
const EMBED_SETTINGS: [(&str, &str); 15] = [
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
