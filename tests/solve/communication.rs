//! Ways of sharing neighbour sums, and layers other than the paper's, from the command line.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{listing, run};

const WAYS: [&str; 4] = ["paper", "gather", "halo", "grid"];

fn cover(graph: &str, flags: &str, folder: &Path) -> (String, Value) {
    let out = folder.join("cover.txt");
    let words = format!("solve --method policy {graph} {flags} --out {{}} --format json");
    let answer = run(&words, &[&out]).json();
    assert_eq!(answer["verified"], true);
    (fs::read_to_string(&out).unwrap(), answer)
}

#[test]
fn solve_shares_sums_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    for graph in ["karate", "er:66:0.05", "er:130:0.2"] {
        let policy = "--model mvc-three-layers";
        let (alone, answer) = cover(graph, policy, folder.path());
        assert!(answer.get("exchange").is_none());
        for way in WAYS {
            for n_ranks in [1, 2, 3, 4, 6] {
                let flags = format!("{policy} --ranks {n_ranks} --communication {way}");
                let (found, answer) = cover(graph, &flags, folder.path());
                if way == "gather" || way == "halo" {
                    assert_eq!(found, alone, "{graph} {flags}");
                }
                check_exchange(&answer, way, n_ranks > 1);
            }
        }
    }
    let words =
        "solve --method policy karate --model mvc-three-layers --ranks 2 --communication halo";
    let answer = run(words, &[]).ok();
    assert_eq!(answer.line("communication"), "halo");
    // L = 3, K = 32, N = 34: 4 (3 * 32 * 34 + 32).
    assert_eq!(answer.line("paper bytes per step"), "13.18 KB");
}

fn check_exchange(answer: &Value, way: &str, is_sent: bool) {
    let exchange = answer["exchange"].as_object().unwrap();
    let keys: Vec<&String> = exchange.keys().collect();
    let wanted = [
        "communication",
        "matrix_bytes",
        "paper_bytes_per_step",
        "paper_matrix_bytes",
        "received_bytes_per_step",
    ];
    assert_eq!(keys, wanted); // sorted
    assert_eq!(exchange["communication"], way);
    let received = exchange["received_bytes_per_step"].as_u64().unwrap();
    assert_eq!(received > 0, is_sent, "{exchange:?}");
    assert!(exchange["matrix_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn score_shares_sums_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let scores = |flags: &str| {
        let out = folder.path().join("scores.txt");
        let words = format!("score er:90:0.1 --path general {flags} --out {{}} --format json");
        let answer = run(&words, &[&out]).json();
        (fs::read_to_string(&out).unwrap(), answer)
    };
    let (alone, _) = scores("");
    for way in WAYS {
        let (text, answer) = scores(&format!("--ranks 4 --communication {way}"));
        check_exchange(&answer, way, true);
        match way {
            "gather" | "halo" => assert_eq!(text, alone, "{way}"),
            _ => assert_eq!(text.lines().count(), alone.lines().count()),
        }
    }
}

#[test]
fn train_shares_sums_and_takes_other_layers() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    let text = "batch_size = 8\nembed_dim = 6\nembedding = \"sage\"\ncommunication = \"halo\"\n";
    fs::write(&config, text).unwrap();
    let train = |name: &str, flags: &str| {
        let out = folder.path().join(name);
        let words = format!("train --steps 24 --config {{}} {flags} --run {{}} --format json");
        let answer = run(&words, &[&config, &out]).json();
        (answer["policy_hash"].clone(), answer)
    };
    let (alone, _) = train("alone", "--head mlp");
    for (name, flags) in [
        ("halo", "--ranks 3"),
        ("gather", "--ranks 4 --batch-ranks 2 --communication gather"),
    ] {
        let (hash, answer) = train(name, &format!("--head mlp {flags}"));
        assert_eq!(hash, alone, "{flags}");
        check_exchange(&answer, name, true);
    }
    assert_ne!(train("q", "").0, alone);
    let policy = folder.path().join("halo/policy.safetensors");
    check_solves(&policy, folder.path());
    let (_, answer) = train(
        "grid",
        "--head mlp --ranks 4 --communication grid --layers 3",
    );
    check_exchange(&answer, "grid", true);
    // The layers come from the checkpoint.
    let resume = "train --run {} --resume --steps 30 --format json";
    let more = run(resume, &[&folder.path().join("halo")]).json();
    let through = run(resume, &[&folder.path().join("gather")]).json();
    assert_eq!(more["policy_hash"], through["policy_hash"]);
}

/// The same cover on any number of ranks.
fn check_solves(policy: &Path, folder: &Path) {
    let solve = |flags: &str| {
        let out = folder.join("cover.txt");
        let words = format!("solve --method policy er:80:0.1 --model {{}} {flags} --out {{}}");
        run(&words, &[policy, &out]).ok();
        fs::read_to_string(&out).unwrap()
    };
    let one = solve("");
    for n_ranks in 2..=6 {
        let flags = format!("--ranks {n_ranks} --communication halo");
        assert_eq!(solve(&flags), one, "{flags}");
    }
}

/// Commands, and what their refusals say.
const REFUSED: [(&str, &str); 8] = [
    (
        "solve --method policy karate --communication ring --out {}",
        "expected paper, gather, halo or grid, not `ring`",
    ),
    (
        "solve --method policy karate --ranks 2 --communication halo --out {}",
        "communication `halo`",
    ),
    (
        "score karate --communication grid --out {}",
        "communication `grid`",
    ),
    (
        "solve --method policy karate --problem mis --communication paper --out {}",
        "communication `paper`",
    ),
    (
        "train --steps 5 --communication halo --run {}",
        "communication `halo`",
    ),
    (
        "train --steps 5 --embedding gat --run {}",
        "expected s2v or sage",
    ),
    (
        "train --steps 5 --head dueling --run {}",
        "expected q or mlp",
    ),
    (
        "train --steps 5 --embedding sage --layers 0 --run {}",
        "layers",
    ),
];

#[test]
fn what_cannot_be_shared_or_is_unknown_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (words, text) in REFUSED {
        let refused = run(words, &[&out]);
        assert_eq!(refused.code, Some(2), "{words}: {}", refused.stderr);
        assert!(refused.stderr.contains(text), "{words}: {}", refused.stderr);
        assert!(listing(folder.path()).is_empty(), "{words}");
    }
}
