//! `shardgraph eval`: rows that other commands confirm, optima that are known, and refusals that leave nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{listing, run};

const POLICY_ROWS: [&str; 2] = ["policy", "policy_reduce"];
const BASELINES: [&str; 5] = [
    "max_degree",
    "max_degree_d2",
    "min_degree_independent_set",
    "degree_one_greedy",
    "reduce_greedy",
];

fn names(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

/// The row of this name.
fn row<'v>(rows: &'v Value, name: &str) -> &'v Value {
    let mut rows = rows.as_array().unwrap().iter();
    rows.find(|row| row["name"] == name).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// An answer without its times.
fn timeless(answer: &Value) -> Value {
    match answer {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, _)| !key.contains("seconds"));
            kept.map(|(key, value)| (key.clone(), timeless(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(timeless).collect(),
        other => other.clone(),
    }
}

#[test]
fn small_graphs_have_their_optimum_and_every_row() {
    let answer = run("eval karate petersen --format json", &[]).json();
    assert_eq!(
        keys(&answer),
        [
            "graphs",
            "policy",
            "policy_problem",
            "problem",
            "select",
            "sense",
            "starts",
            "totals",
            "verified"
        ]
    );
    for (graph, optimum) in [(0, 14.0), (1, 6.0)] {
        let of_graph = &answer["graphs"][graph];
        assert_eq!(
            keys(of_graph),
            ["edges", "graph", "load_seconds", "nodes", "optimum", "rows"]
        );
        assert_eq!(of_graph["optimum"]["value"], optimum);
        assert_eq!(of_graph["optimum"]["source"], "exact");
        let rows = &of_graph["rows"];
        assert_eq!(names(rows), [&POLICY_ROWS[..], &BASELINES].concat());
        for row in rows.as_array().unwrap() {
            let size = row["objective"].as_u64().unwrap() as f64;
            assert!(size >= optimum);
            assert_eq!(row["ratio"].as_f64(), Some(size / optimum));
        }
        assert_eq!(
            row(rows, "policy_reduce")["objective"].as_f64(),
            Some(optimum)
        );
    }
    let totals = answer["totals"].as_array().unwrap();
    assert_eq!(totals.len(), 7);
    assert_eq!(row(&answer["totals"], "policy_reduce")["mean_ratio"], 1.0);
}

#[test]
fn the_policys_rows_are_what_solve_finds() {
    let graph = "er:120:0.08 --seed 5";
    for n_ranks in [1, 3] {
        let answer = run(
            &format!("eval {graph} --ranks {n_ranks} --format json"),
            &[],
        )
        .json();
        let solved = run(
            &format!("solve --method policy {graph} --reduce --compare --format json"),
            &[],
        )
        .json();
        let rows = &answer["graphs"][0]["rows"];
        let stage = |list: &str, name: &str| row(&solved[list], name)["objective"].clone();
        assert_eq!(row(rows, "policy")["objective"], stage("stages", "policy"));
        assert_eq!(
            row(rows, "policy_reduce")["objective"],
            stage("stages", "reduce")
        );
        assert_eq!(
            row(rows, "max_degree")["objective"],
            stage("compare", "greedy")
        );
        assert_eq!(
            row(rows, "reduce_greedy")["objective"],
            stage("compare", "reduce_greedy")
        );
    }
}

#[test]
fn a_policy_for_independent_sets_covers_by_what_is_left() {
    let answer = run("eval er:150:0.15 --model mis-default --format json", &[]).json();
    let set = run(
        "solve --method policy er:150:0.15 --problem mis --format json",
        &[],
    )
    .json();
    let cover = &row(&answer["graphs"][0]["rows"], "policy")["objective"];
    assert_eq!(
        cover.as_u64().unwrap() + set["objective"].as_u64().unwrap(),
        150
    );
    assert_eq!(answer["policy_problem"], "mis");
    // `solve` has the same covers, on any number of ranks.
    for n_ranks in [1, 3] {
        let words = format!(
            "solve --method policy er:150:0.15 --model mis-default --reduce --ranks {n_ranks} --format json"
        );
        let solved = run(&words, &[]).json();
        assert_eq!(
            (&solved["problem"], &solved["verified"]),
            (&"mvc".into(), &true.into())
        );
        let stages = &solved["stages"];
        assert_eq!(&row(stages, "policy")["objective"], cover);
        let reduced = &row(&answer["graphs"][0]["rows"], "policy_reduce")["objective"];
        assert_eq!(&row(stages, "reduce")["objective"], reduced);
    }
    for flag in ["--reduce-inside", "--preset paper"] {
        let message = run(
            &format!("solve --method policy karate --model mis-default {flag}"),
            &[],
        )
        .error(2);
        assert!(message.contains(&format!("without {flag}")), "{message}");
    }
    // The set's own rows, with the optimum that is left of the smallest cover.
    let own = run("eval er:60:0.15 --problem mis --format json", &[]).json();
    let cover = run("eval er:60:0.15 --format json", &[]).json();
    let optimum = |answer: &Value| answer["graphs"][0]["optimum"]["value"].as_f64().unwrap();
    assert!((optimum(&own) + optimum(&cover) - 60.0).abs() < 1e-9);
}

#[test]
fn local_search_starts_from_each_and_repeats_its_steps() {
    let words = "eval er:300:0.05 er:200:0.1 --local-search-steps 3000 --exact 0s --format json";
    let answer = run(words, &[]).json();
    assert_eq!(timeless(&answer), timeless(&run(words, &[]).json()));
    for graph in 0..2 {
        let of_graph = &answer["graphs"][graph];
        assert!(of_graph.get("optimum").is_none());
        let size = |name| row(&of_graph["rows"], name)["objective"].as_u64().unwrap();
        assert!(size("policy_local_search") <= size("policy_reduce"));
        assert!(size("policy_reduce") <= size("policy"));
        assert!(size("polish_from_greedy") < size("max_degree"));
        assert!(size("polish_from_empty") < size("max_degree"));
    }
    // Without any step the search gives back what it began with.
    let begun = run(
        "eval er:300:0.05 --local-search-steps 1 --local-search-seed 9 --exact 0s --format json",
        &[],
    );
    let begun = begun.json();
    let rows = &begun["graphs"][0]["rows"];
    let size = |name| row(rows, name)["objective"].as_u64().unwrap();
    assert!(size("policy_local_search").abs_diff(size("policy_reduce")) <= 1);
}

#[test]
fn other_problems_have_their_own_baselines() {
    for (problem, baseline) in [
        ("mis", "min_degree"),
        ("clique", "max_degree"),
        ("cut", "largest_gain"),
        ("dominating-set", "most_new"),
    ] {
        let words = format!("eval karate --problem {problem} --format json");
        let answer = run(&words, &[]).json();
        let rows = &answer["graphs"][0]["rows"];
        let found = names(rows);
        assert_eq!(found[0], "policy");
        assert!(
            found[1..].iter().any(|name| name.starts_with(baseline)),
            "{found:?}"
        );
    }
}

/// A table of one line.
fn table(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("optima.csv");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn tables_give_optima_and_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "graph,seed,n,m,optimum,solver\ner:250:0.15,1000,250,4827,218,x\nkarate,,34,78,14,y\n";
    let csv = table(folder.path(), text);
    let words = "eval er:250:0.15 karate --seed 1000 --exact 0s --optima {} --format json";
    let answer = run(words, &[&csv]).json();
    let of_graph = &answer["graphs"][0];
    assert_eq!(of_graph["optimum"]["source"], "table");
    let size = |name| row(&of_graph["rows"], name)["objective"].as_f64().unwrap();
    let gap = row(&of_graph["rows"], "policy")["gap_closed"]
        .as_f64()
        .unwrap();
    let expected = (size("max_degree_d2") - size("policy")) / (size("max_degree_d2") - 218.0);
    assert!((gap - expected).abs() < 1e-12);
    assert_eq!(answer["graphs"][1]["optimum"]["value"], 14.0);
    // Another seed is another graph.
    let other = run(
        "eval er:250:0.15 --seed 1001 --exact 0s --optima {} --format json",
        &[&csv],
    );
    assert!(other.json()["graphs"][0].get("optimum").is_none());
    // A file goes by its name.
    let file = folder.path().join("votes.el");
    fs::write(&file, "1 2\n2 3\n").unwrap();
    let csv = table(folder.path(), "graph,optimum\nvotes.el,1\n");
    let answer = run(
        "eval {} --exact 0s --optima {} --format json",
        &[&file, &csv],
    )
    .json();
    assert_eq!(answer["graphs"][0]["optimum"]["value"], 1.0);
}

#[test]
fn wrong_tables_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (text, place, reason) in [
        (
            "graph,optimum,n\nkarate,14,35\n",
            ":2: ",
            "has 34 nodes, not 35",
        ),
        ("graph,optimum\nkarate,many\n", ":2: ", "expected a number"),
        ("graph,size\n", ":1: ", "expected a column `optimum`"),
    ] {
        let csv = table(folder.path(), text);
        let svg = folder.path().join("rows.svg");
        let message = run("eval karate --optima {} --svg {}", &[&csv, &svg]).error(2);
        let expected = format!("error: {}{place}", csv.display());
        assert!(
            message.starts_with(&expected) && message.contains(reason),
            "{message}"
        );
        assert_eq!(listing(folder.path()), ["optima.csv"]);
    }
    // An answer was checked, so a table that says less than it is wrong.
    let csv = table(folder.path(), "graph,optimum\nkarate,40\n");
    let svg = folder.path().join("rows.svg");
    let wrong = run("eval karate petersen --optima {} --svg {}", &[&csv, &svg]);
    // The rows are not lost, but nothing is drawn from a wrong table.
    assert!(wrong.stdout.contains("\ntotals\n"), "{}", wrong.stdout);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("the table is wrong"), "{wrong:?}");
    assert_eq!(listing(folder.path()), ["optima.csv"]);
    let csv = table(folder.path(), "graph,optimum,proved\nkarate,40,no\n");
    run("eval karate --optima {}", &[&csv]).ok();
}

#[test]
fn bounds_that_are_proved_stand_beside_the_rows() {
    // Reductions alone prove this optimum; the small cliques are searched for.
    for words in [
        "eval er:5000:0.0003 --seed 2",
        "eval er:60:0.3 --problem clique",
    ] {
        let answer = run(words, &[]).ok();
        assert_eq!(
            (answer.line("source"), answer.line("proved")),
            ("exact", "yes")
        );
    }
    for problem in ["dominating-set", "mis"] {
        let answer = run(&format!("eval er:250:0.15 --problem {problem}"), &[]).ok();
        assert!(answer.line("bound").parse::<f64>().is_ok(), "{answer:?}");
    }
    let text = run("eval er:250:0.15 --problem mis --exact 0s", &[])
        .ok()
        .stdout;
    assert!(
        !text.contains("bound") && !text.contains("optimum"),
        "{text}"
    );
}

#[test]
fn the_picture_has_a_bar_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("rows.svg");
    let text = run("eval karate petersen --svg {}", &[&svg]).ok().stdout;
    assert!(
        text.contains("\ntotals\n") && text.contains("proved  yes"),
        "{text}"
    );
    let picture = fs::read_to_string(&svg).unwrap();
    assert_eq!(
        picture.matches("<rect").count(),
        1 + 7,
        "the page and the bars"
    );
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn graphs_without_work_and_graphs_of_one_shape() {
    let folder = tempfile::tempdir().unwrap();
    let star = folder.path().join("star.el");
    fs::write(&star, "0 1\n0 2\n0 3\n0 4\n").unwrap();
    let apart = folder.path().join("apart.el");
    fs::write(&apart, "0 1\n2 3\n3 4\n5 6\n").unwrap();
    let words = "eval er:0:0.5 er:1:0.5 er:9:0 er:8:1 {} {} --local-search-steps 20 --format json";
    let answer = run(words, &[&star, &apart]).json();
    let expected = [0.0, 0.0, 0.0, 7.0, 1.0, 3.0];
    for (of_graph, optimum) in answer["graphs"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(
            of_graph["optimum"]["value"], optimum,
            "{}",
            of_graph["graph"]
        );
        assert_eq!(row(&of_graph["rows"], "policy_local_search")["ratio"], 1.0);
    }
    for problem in ["mis", "clique", "cut", "dominating-set"] {
        let words = words.replace("--local-search-steps 20", &format!("--problem {problem}"));
        let answer = run(&words, &[&star, &apart]).json();
        assert_eq!(answer["graphs"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn bad_input_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("rows.svg");
    for (words, reason) in [
        (
            "karate --model clique-default",
            "is for problem `clique`, not `mvc`",
        ),
        (
            "karate --problem clique --model mis-default",
            "is for problem `mis`, not `clique`",
        ),
        ("karate --model no-such-policy", "no-such-policy"),
        ("karate --problem tsp", "--problem"),
        (
            "karate --problem mis --local-search 1s",
            "--local-search is for vertex covers",
        ),
        (
            "karate --problem mis --local-search-steps 5",
            "--local-search is for vertex covers",
        ),
        ("karate no-such-graph", "no-such-graph"),
        (
            "karate --optima no-such-table.csv",
            "no-such-table.csv: cannot read",
        ),
    ] {
        let message = run(&format!("eval {words} --svg {{}}"), &[&svg]).error(2);
        assert!(message.contains(reason), "{words}: {message}");
        assert!(listing(folder.path()).is_empty(), "{words}");
    }
}

#[test]
fn bad_files_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = tempfile::tempdir().unwrap();
    let torn = inputs.path().join("torn.safetensors");
    fs::write(&torn, [9, 0, 0, 0, 0, 0, 0, 0, b'{']).unwrap();
    let heavy = inputs.path().join("heavy.mtx");
    fs::write(
        &heavy,
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n",
    )
    .unwrap();
    let svg = folder.path().join("rows.svg");
    let message = run("eval karate --model {} --svg {}", &[&torn, &svg]).error(2);
    assert!(message.contains("torn.safetensors"), "{message}");
    let message = run("eval {} --problem cut --weighted --svg {}", &[&heavy, &svg]).error(2);
    assert!(message.contains("heavy.mtx:3:5"), "{message}");
    let message = run(
        "eval karate --svg {}",
        &[&folder.path().join("none/rows.svg")],
    )
    .error(2);
    assert!(message.contains("folder does not exist"), "{message}");
    assert!(listing(folder.path()).is_empty());
}

#[test]
fn no_picture_takes_the_place_of_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.el"), "1 2\n").unwrap();
    fs::write(path("b.el"), "1 2\n2 3\n").unwrap();
    fs::write(path("optima.csv"), "graph,optimum\nb.el,1\n").unwrap();
    fs::copy(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../solver/policies/mvc-default.safetensors"
        ),
        path("own.safetensors"),
    )
    .unwrap();
    for input in ["a.el", "b.el", "optima.csv", "own.safetensors"] {
        let before = fs::read(path(input)).unwrap();
        let message = run(
            "eval {} {} --optima {} --model {} --svg {}",
            &[
                &path("a.el"),
                &path("b.el"),
                &path("optima.csv"),
                &path("own.safetensors"),
                &path(input),
            ],
        )
        .error(2);
        assert!(message.contains("this is the input"), "{input}: {message}");
        assert_eq!(fs::read(path(input)).unwrap(), before, "{input}");
    }
}
