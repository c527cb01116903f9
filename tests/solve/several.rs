//! `solve G1 G2 ...`: the answers of single solves, in one process.

use std::fs;

use serde_json::Value;

use crate::program::{listing, run};
#[cfg(unix)]
use crate::ranks::processes::run_all;

const GRAPHS: [&str; 4] = ["karate", "er:70:0.1", "petersen", "er:0:0.5"];

/// An answer without its times, which are those of the batch, and without what ranks exchanged.
fn timeless(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let keys = answer.as_object_mut().unwrap();
    keys.remove("rows");
    keys.retain(|key, _| !key.contains("seconds") && key != "exchange");
    for stage in keys
        .get_mut("stages")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let is_time = |key: &str| key.contains("seconds") || key == "steps_per_s";
        stage
            .as_object_mut()
            .unwrap()
            .retain(|key, _| !is_time(key));
    }
    for table in ["reduction"] {
        if let Some(table) = keys.get_mut(table).and_then(Value::as_object_mut) {
            table.remove("seconds");
        }
    }
    answer
}

#[test]
fn answers_are_those_of_single_solves() {
    let all = GRAPHS.join(" ");
    for flags in [
        "--problem mvc",
        "--problem mvc --model mvc-three-layers --nodes-per-step adaptive",
        "--problem mvc --reduce --local-search-steps 50",
        "--problem mis",
        "--problem clique --nodes-per-step 2",
        "--problem cut",
        "--problem dominating-set",
    ] {
        let alone = GRAPHS.map(|graph| {
            let answer = run(
                &format!("solve --method policy {graph} {flags} --format json"),
                &[],
            )
            .json();
            timeless(&answer)
        });
        for n_ranks in [1, 3] {
            let words =
                format!("solve --method policy {all} {flags} --ranks {n_ranks} --format json");
            let together = run(&words, &[]).json();
            let answers = together["answers"].as_array().unwrap();
            assert_eq!(answers.len(), GRAPHS.len());
            for (answer, alone) in answers.iter().zip(&alone) {
                let mut alone = alone.clone();
                alone["ranks"] = n_ranks.into();
                assert_eq!(timeless(answer), alone, "{flags}");
            }
        }
    }
}

#[test]
fn texts_come_one_after_the_other() {
    let together = run("solve --method policy karate petersen --problem mis", &[]).ok();
    let blocks: Vec<&str> = together.stdout.split("\n\n").collect();
    assert_eq!(blocks.len(), 2);
    assert!(blocks[0].contains("independent nodes in karate (built in)"));
    assert!(blocks[1].contains("4 independent nodes in petersen (built in)"));
    assert!(blocks[1].contains("\nobjective "), "{}", blocks[1]);
}

#[test]
fn one_graph_that_cannot_be_read_leaves_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.mtx");
    fs::write(
        &path,
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n9 1\n",
    )
    .unwrap();
    for problem in ["mvc", "cut"] {
        let words = format!("solve --method policy karate {{}} --problem {problem}");
        let message = run(&words, &[&path]).error(2);
        assert!(message.contains("bad.mtx"), "{message}");
        let out = folder.path().join("answer.txt");
        let words = format!("solve --method policy karate petersen --problem {problem} --out {{}}");
        let message = run(&words, &[&out]).error(2);
        assert!(
            message.contains("--out is the file of one answer"),
            "{message}"
        );
    }
    assert_eq!(listing(folder.path()), ["bad.mtx"]);
}

#[cfg(unix)]
#[test]
fn processes_answer_together() {
    for problem in ["mvc", "mis"] {
        let words = format!(
            "solve --method policy karate er:70:0.1 petersen --problem {problem} --format json"
        );
        let one = run(&words, &[]).json();
        let mut runs = run_all(3, &words, &[]).into_iter();
        let first = runs.next().unwrap().json();
        let answers = |all: &Value| all["answers"].as_array().unwrap().clone();
        for (found, one) in answers(&first).iter().zip(answers(&one)) {
            let mut one = timeless(&one);
            one["ranks"] = 3.into();
            assert_eq!(timeless(found), one);
        }
        assert!(runs.all(|run| run.ok().stdout.is_empty()));
    }
}
