//! Every problem of `--problem`: trained and solved as a user does, answers checked by plain loops over the edges of the graph's file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{listing, run};
#[cfg(unix)]
use crate::ranks::processes::{World, finish_all, run_all};
use crate::solve::second_opinion;

const PROBLEMS: [&str; 4] = ["mis", "clique", "cut", "dominating-set"];

/// Edges between names, and all names that have an edge.
struct Plain {
    edges: Vec<(String, String)>,
    names: BTreeSet<String>,
}

impl Plain {
    fn read(path: &Path) -> Plain {
        let edges = second_opinion::read(path).edges;
        let ends = edges.iter().flat_map(|(a, b)| [a.clone(), b.clone()]);
        Plain {
            names: ends.collect(),
            edges,
        }
    }

    /// What an answer file is worth; panics where it is no answer.
    fn worth(&self, problem: &str, answer: &str) -> u64 {
        let set: BTreeSet<&str> = answer.lines().collect();
        assert_eq!(set.len(), answer.lines().count(), "each node once");
        assert!(set.iter().all(|name| self.names.contains(*name)));
        let both =
            |(a, b): &&(String, String)| set.contains(a.as_str()) && set.contains(b.as_str());
        let inside = self.edges.iter().filter(both).count();
        let size = set.len();
        match problem {
            "mis" => assert_eq!(inside, 0),
            "clique" => assert_eq!(inside, size * size.saturating_sub(1) / 2),
            "dominating-set" => {
                let mut reached: BTreeSet<&str> = set.clone();
                for (a, b) in &self.edges {
                    reached.extend(set.contains(a.as_str()).then_some(b.as_str()));
                    reached.extend(set.contains(b.as_str()).then_some(a.as_str()));
                }
                assert_eq!(reached.len(), self.names.len());
            }
            _ => {
                let is_cut = |(a, b): &&(String, String)| {
                    set.contains(a.as_str()) != set.contains(b.as_str())
                };
                return self.edges.iter().filter(is_cut).count() as u64;
            }
        }
        size as u64
    }
}

#[test]
fn each_problem_trains_and_solves_alike_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let graph = path("karate.el");
    run("convert karate {}", &[&graph]).ok();
    let plain = Plain::read(&graph);
    for problem in PROBLEMS {
        let train = |n_ranks: u32| {
            let out = path(&format!("{problem}-{n_ranks}"));
            let words = format!(
                "train --problem {problem} --steps 70 --ranks {n_ranks} --run {{}} --format json"
            );
            let answer = run(&words, &[&out]).json();
            assert_eq!(answer["problem"], problem);
            assert!(answer["episodes"].as_u64().unwrap() > 0);
            let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
            assert!(metrics.contains("\"objective\":"), "{metrics}");
            (fs::read(out.join("policy.safetensors")).unwrap(), metrics)
        };
        let one = train(1);
        assert!(train(3) == one, "{problem}: 3 ranks differ from one");
        let policy = path(&format!("{problem}-1/policy.safetensors"));
        let solve = |n_ranks: u32| {
            let out = path("answer.txt");
            let words = format!(
                "solve --method policy {{}} --problem {problem} --model {{}} --ranks {n_ranks} --out {{}} --format json"
            );
            let answer = run(&words, &[&graph, &policy, &out]).json();
            let text = fs::read_to_string(&out).unwrap();
            assert_eq!(answer["objective"], plain.worth(problem, &text), "{answer}");
            text
        };
        let one = solve(1);
        for n_ranks in 2..=6 {
            assert_eq!(solve(n_ranks), one, "{problem}");
        }
    }
}

/// Sorted.
const KEYS: [&str; 24] = [
    "bound",
    "bound_source",
    "device",
    "edges",
    "found_by",
    "gap",
    "graph",
    "load_seconds",
    "method",
    "nodes",
    "objective",
    "optimal",
    "path",
    "policy",
    "problem",
    "ranks",
    "rows",
    "seconds",
    "seconds_per_step",
    "seed",
    "sense",
    "solution",
    "steps",
    "verified",
];

#[test]
fn the_json_has_these_keys() {
    for problem in PROBLEMS {
        for graph in ["karate", "er:5:0", "er:0:0.5", "er:1:0.5"] {
            let words = format!("solve --method policy {graph} --problem {problem} --format json");
            let answer = run(&words, &[]).json();
            let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
            assert_eq!(keys, KEYS);
            assert_eq!(answer["problem"], problem);
            assert_eq!(answer["verified"], true);
            assert_eq!(answer["policy"], format!("{problem}-default"));
            assert!(answer["objective"].is_u64());
            let is_small = problem == "dominating-set";
            let sense = if is_small { "minimise" } else { "maximise" };
            assert_eq!(answer["sense"], sense);
            assert!(answer["seconds_per_step"].is_f64());
            for row in answer["rows"].as_array().unwrap() {
                let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
                assert_eq!(keys, ["name", "objective", "seconds"]);
                assert!(row["objective"].is_u64() && row["name"].is_string());
            }
        }
    }
}

#[test]
fn the_text_names_what_was_found() {
    let answer = run(
        "solve --method policy petersen --problem dominating-set --ranks 2",
        &[],
    )
    .ok();
    assert_eq!(answer.line("problem"), "dominating-set");
    assert_eq!(answer.line("verified"), "yes");
    assert!((3..=10).contains(&answer.line("objective").parse::<u32>().unwrap()));
    let answer = run(
        "solve --method policy karate --problem clique --nodes-per-step adaptive",
        &[],
    )
    .ok();
    assert!((3..=5).contains(&answer.line("objective").parse::<u32>().unwrap()));
    assert_eq!(answer.line("path"), "collapsed+csr");
}

/// The default is never worse than a row that it prints, and says which row it is.
#[test]
fn the_best_answer_is_no_worse_than_any_row() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("answer.txt");
    for problem in ["mvc", "mis", "clique", "cut", "dominating-set"] {
        for graph in ["karate", "er:60:0.2", "ba:200:3", "er:5:0", "er:0:0.5"] {
            let words = format!(
                "solve {graph} --problem {problem} --compare --local-search-steps 500 --format json --out {{}}"
            );
            let answer = run(&words, &[&out]).json();
            assert_eq!(answer["verified"], true);
            let best = answer["objective"].as_u64().unwrap();
            let rows = answer["rows"].as_array().unwrap();
            assert!(!rows.is_empty());
            for row in rows {
                let other = row["objective"].as_u64().unwrap();
                let is_worse = match answer["sense"].as_str().unwrap() {
                    "minimise" => other < best,
                    _ => other > best,
                };
                assert!(!is_worse, "{problem} on {graph}: {best}, but {row}");
            }
            let n_lines = fs::read_to_string(&out).unwrap().lines().count() as u64;
            assert!(problem == "cut" || n_lines == best, "{problem} on {graph}");
        }
    }
}

/// Scores that no number holds are told with the graph that they are of.
#[test]
fn a_graph_without_an_answer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, out) = (path("huge.el"), path("out.txt"));
    fs::write(&file, "a b 3e38\nb c 3e38\n").unwrap();
    let message = run(
        "solve --method policy {} --weighted --out {}",
        &[&file, &out],
    )
    .error(1);
    assert!(
        message.contains("huge.el: the scores leave the range of numbers"),
        "{message}"
    );
    assert_eq!(listing(folder.path()), ["huge.el"]);
}

/// Weights of either sign make the objective a sum; those that are no numbers are told by line.
#[test]
fn cuts_have_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, out) = (path("g.el"), path("side.txt"));
    fs::write(&file, "a b 2.5\nb c -1\nc d 0.25\nd a -4\n").unwrap();
    let words = "solve --method policy {} --problem cut --weighted --format json";
    let answer = run(words, &[&file]).json();
    let weight = answer["objective"].as_f64().unwrap();
    assert!(weight > 0.0 && weight <= 2.75, "{weight}");
    let without: Value = run(
        "solve --method policy {} --problem cut --format json",
        &[&file],
    )
    .json();
    assert!(without["objective"].as_u64().unwrap() <= 4);
    for weight in ["nan", "inf", "x"] {
        fs::write(&file, format!("a b 2.5\nb c {weight}\n")).unwrap();
        let words = "solve --method policy {} --problem cut --weighted --out {}";
        let message = run(words, &[&file, &out]).error(2);
        assert!(
            message.contains("g.el:2") && message.contains("finite number"),
            "{message}"
        );
    }
    assert_eq!(listing(folder.path()), ["g.el"]);
}

/// Flags of a solve and two parts of the message that refuses them.
const REFUSED: [(&str, [&str; 2]); 8] = [
    (
        "--problem cut --model mis-default",
        ["for problem `mis`", "not `cut`"],
    ),
    (
        "--model clique-default",
        ["for problem `clique`", "not `mvc`"],
    ),
    (
        "--problem mis --model mvc-default",
        ["for problem `mvc`", "not `mis`"],
    ),
    (
        "--problem tsp",
        ["mvc, mis, clique, cut or dominating-set", "found tsp"],
    ),
    (
        "--problem mis --weighted",
        [
            "g.el: maximum independent set reads no edge weights",
            "--weighted",
        ],
    ),
    (
        "--problem cut --path collapsed",
        ["collapsed path", "features"],
    ),
    (
        "--problem cut --preset paper",
        ["--preset paper", "vertex covers"],
    ),
    ("--problem cut --ranks 0", ["1 to 1024", ""]),
];

#[test]
fn what_does_not_fit_is_refused_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.txt");
    let graph = folder.path().join("g.el");
    fs::write(&graph, "a b 1\nb c 1\n").unwrap();
    for (flags, parts) in REFUSED {
        let words = format!("solve --method policy {{}} {flags} --out {{}}");
        let message = run(&words, &[&graph, &out]).error(2);
        let has = |part: &&str| message.contains(part);
        assert!(parts.iter().all(has), "{flags}: {message}");
        assert!(!out.exists());
    }
    let message = run("score karate --model cut-default", &[]).error(2);
    assert!(
        message.contains("for problem `cut`, not `mvc`"),
        "{message}"
    );
}

/// The first process prints and writes what one process would; all end alike where a process has another graph.
#[cfg(unix)]
#[test]
fn processes_answer_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    for problem in PROBLEMS {
        let words = format!("solve --method policy er:70:0.1 --problem {problem} --out {{}}");
        run(&format!("{words} --ranks 1"), &[&one]).ok();
        let mut answers = run_all(3, &words, &[&many]).into_iter();
        let first = answers.next().unwrap().ok();
        assert_eq!(first.line("ranks"), "3");
        assert!(answers.all(|other| other.ok().stdout.is_empty()));
        assert_eq!(
            fs::read(&many).unwrap(),
            fs::read(&one).unwrap(),
            "{problem}"
        );
    }
    let world = World::new(2);
    let graphs = ["er:70:0.1", "er:71:0.1"].iter().zip(0..);
    let ranks = graphs.map(|(graph, rank)| {
        let words = format!("solve --method policy {graph} --problem cut --comm tcp");
        world.rank(rank, &words, &[])
    });
    for run in finish_all(ranks.collect()) {
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stdout.is_empty(), "{run:?}");
    }
}

#[test]
fn a_resumed_run_knows_its_problem() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    run("train --problem mis --steps 3 --run {}", &[&out]).ok();
    let answer = run("train --run {} --resume --steps 5 --format json", &[&out]).json();
    assert_eq!(answer["problem"], "mis");
}

#[test]
fn nodes_that_weigh_differ_from_nodes_that_count() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, weights) = (folder.path().join("star.el"), folder.path().join("w.csv"));
    fs::write(&graph, "hub a\nhub b\nhub c\n").unwrap();
    fs::write(&weights, "node,weight\nhub,10\na,1\nb,2\nc,3\n").unwrap();
    let solve = |problem: &str| {
        let words = format!("solve {{}} --problem {problem} --node-weights {{}} --format json");
        run(&words, &[&graph, &weights]).ok().json()
    };
    let cover = solve("mvc");
    assert_eq!(
        (&cover["objective"], &cover["optimal"]),
        (&6.0.into(), &true.into())
    );
    assert_eq!(cover["solution"], serde_json::json!(["a", "b", "c"]));
    let set = solve("mis");
    assert_eq!(
        (&set["objective"], &set["solution"]),
        (&10.0.into(), &serde_json::json!(["hub"]))
    );
    let metis = folder.path().join("star.graph");
    fs::write(&metis, "4 3 010\n10 2 3 4\n1 1\n2 1\n3 1\n").unwrap();
    let own = run("solve {} --node-weights graph --format json", &[&metis])
        .ok()
        .json();
    assert_eq!(own["objective"], 6.0);
    fs::write(&weights, "hub,10\na,1\nb,2\n").unwrap();
    let why = run("solve {} --node-weights {}", &[&graph, &weights]).error(2);
    assert!(why.contains("node c has no weight"), "{why}");
    let why = run("solve {} --node-weights graph", &[&graph]).error(2);
    assert!(why.contains("no node weights"), "{why}");
    let why = run(
        "solve {} --problem cut --node-weights {}",
        &[&graph, &weights],
    )
    .error(2);
    assert!(why.contains("--problem mvc and mis"), "{why}");
}
