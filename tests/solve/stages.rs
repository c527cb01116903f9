//! `solve --reduce --local-search --compare`: every stage has its row, the file holds the best of them, and nothing gets worse.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{listing, run};
use crate::ranks::processes::{World, finish_all};
use crate::solve::second_opinion;

/// The objective of a named row.
fn objective(rows: &Value, name: &str) -> u64 {
    let rows = rows.as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("no row {name}: {rows:?}"));
    row["objective"].as_u64().unwrap()
}

fn names(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap();
    rows.iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

const ALL: &str = "--reduce --local-search-steps 2000 --compare --format json";

#[test]
fn each_stage_has_its_row_and_the_best_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cover) = (folder.path().join("g.el"), folder.path().join("cover.txt"));
    for (graph, seed) in [
        ("ba:400:3", 1),
        ("er:300:0.02", 7),
        ("er:120:0.15", 3),
        ("ws:200:6:0.2", 4),
    ] {
        run(
            &format!("generate {graph} --seed {seed} --out {{}}"),
            &[&file],
        )
        .ok();
        let answer = run(
            &format!("solve --method policy {{}} {ALL} --out {{}}"),
            &[&file, &cover],
        )
        .json();
        let (stages, compare) = (&answer["stages"], &answer["compare"]);
        let all = ["policy", "reduce", "polish", "polish_from_empty"];
        assert_eq!(names(stages), all);
        let rows = ["greedy", "reduce_greedy", "polish_from_greedy"];
        assert_eq!(names(compare), rows);
        assert!(objective(stages, "polish") <= objective(stages, "reduce"));
        assert!(objective(compare, "polish_from_greedy") <= objective(compare, "greedy"));
        let best = all.map(|name| objective(stages, name)).into_iter();
        assert_eq!(answer["objective"].as_u64(), best.min());
        assert!(answer["bound"].as_u64().unwrap() <= answer["objective"].as_u64().unwrap());
        let listed = second_opinion::read(&file);
        let size = listed
            .check_cover(&fs::read_to_string(&cover).unwrap())
            .unwrap();
        assert_eq!(answer["objective"], size, "{graph}");
    }
}

#[test]
fn a_count_of_steps_gives_the_same_cover_every_time_and_on_any_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let mut covers = Vec::new();
    for n_ranks in [1, 1, 3] {
        let cover = folder.path().join("cover.txt");
        let words = format!(
            "solve --method policy er:200:0.05 --reduce --local-search-steps 3000 --ranks {n_ranks} --out {{}}"
        );
        run(&words, &[&cover]).ok();
        covers.push(fs::read(&cover).unwrap());
    }
    assert!(covers[0] == covers[1] && covers[0] == covers[2]);
    let words = "solve --method policy er:200:0.05 --reduce --local-search-steps 3000 --out {}";
    let cover = folder.path().join("processes.txt");
    let world = World::new(2);
    let ranks = (0..2).map(|rank| world.rank(rank, words, &[&cover]));
    // Steps alone have no time in which they end.
    for finished in finish_all(ranks.collect()) {
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
    let words = "solve --method policy er:200:0.05 --reduce --local-search 60s --local-search-steps 3000 --out {}";
    let world = World::new(2);
    let ranks = (0..2).map(|rank| world.rank(rank, words, &[&cover]));
    for finished in finish_all(ranks.collect()) {
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }
    assert_eq!(fs::read(&cover).unwrap(), covers[0]);
}

#[test]
fn what_reductions_solve_is_said_to_be_smallest() {
    let answer = run("solve --method policy ba:500:2 --reduce", &[]).ok();
    assert_eq!(answer.line("kernel nodes"), "0");
    assert_eq!(answer.line("offset"), answer.line("objective"));
    assert_eq!(answer.line("bound"), answer.line("objective"));
    assert_eq!(answer.line("bound source"), "reductions");
    for line in ["stages", "  policy ", "  reduce ", "  removed"] {
        assert!(
            answer.stdout.lines().any(|l| l.starts_with(line)),
            "{line}: {answer:?}"
        );
    }
    let json = run("solve --method policy ba:500:2 --reduce --format json", &[]).json();
    let removed = json["reduction"]["removed"].as_object().unwrap();
    let n_removed: u64 = removed.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(n_removed, 500);
}

#[test]
fn shapes_at_the_border() {
    for graph in [
        "er:0:0.5", "er:1:0.5", "er:9:0", "er:9:1", "karate", "petersen",
    ] {
        for flags in ["--reduce", "--local-search-steps 50", ALL] {
            let flags = flags.replace("--format json", "");
            let answer = run(
                &format!("solve --method policy {graph} {flags} --format json"),
                &[],
            )
            .json();
            assert_eq!(answer["verified"], true, "{graph} {flags}");
            let expected = match graph {
                "er:9:1" => Some(8),
                "karate" => Some(14),
                "petersen" => None,
                _ => Some(0),
            };
            if let Some(expected) = expected {
                assert_eq!(answer["objective"], expected, "{graph} {flags}");
            }
        }
    }
    let polished = run(
        "solve --method policy petersen --local-search-steps 100 --format json",
        &[],
    )
    .json();
    assert_eq!(polished["objective"], 6);
}

#[test]
fn a_polish_in_seconds_ends() {
    let answer = run(
        "solve --method policy er:300:0.1 --local-search 300ms --format json",
        &[],
    )
    .json();
    let polish = &answer["stages"][1];
    let seconds = polish["seconds"].as_f64().unwrap();
    assert!((0.3..100.0).contains(&seconds), "{seconds}");
    assert!(polish["search_steps"].as_u64().unwrap() > 0);
    assert!(polish["steps_per_s"].as_f64().unwrap() > 0.0);
    assert!(polish["best_seconds"].as_f64().unwrap() <= seconds);
    assert!(objective(&answer["stages"], "polish") <= objective(&answer["stages"], "policy"));
}

#[test]
fn what_makes_no_sense_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let cover: &Path = &folder.path().join("cover.txt");
    for flags in [
        "--local-search 0s",
        "--local-search 10x",
        "--local-search soon",
        "--local-search-steps 0",
        "--reduce --weighted",
        "--local-search-seed 5",
        "--local-search-seed 5 --problem cut",
        "--weighted",
    ] {
        run(
            &format!("solve --method policy karate {flags} --out {{}}"),
            &[cover],
        )
        .error(2);
        assert!(listing(folder.path()).is_empty(), "{flags}");
    }
}

/// The optimum of real graphs, where their files are beside the checkout.
#[test]
fn real_graphs_are_solved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    for (name, flags, optimum) in [
        ("wiki-Vote.txt.gz", "", 2249),
        ("ca-GrQc.txt.gz", "", 2783),
        (
            "facebook_combined.txt.gz",
            "--local-search-steps 300000",
            2993,
        ),
    ] {
        let file = folder.join(name);
        if !file.is_file() {
            println!("SKIPPED: reducing {name} (no file {})", file.display());
            continue;
        }
        let words = format!("solve --method policy {{}} --reduce {flags} --format json");
        let answer = run(&words, &[&file]).json();
        assert_eq!(answer["objective"], optimum, "{name}");
        assert!(answer["bound"].as_u64().unwrap() <= optimum);
    }
}

#[test]
fn rules_inside_the_episode_have_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let cover = folder.path().join("cover.txt");
    let words = "solve --method policy ba:300:3 --seed 2 --reduce-inside --format json --out {}";
    let solve = |more: &str| {
        let answer = run(&format!("{words} {more}"), &[&cover]).json();
        (answer, fs::read_to_string(&cover).unwrap())
    };
    let (answer, text) = solve("");
    assert_eq!(names(&answer["stages"]), ["policy", "reduce_inside"]);
    let inside = objective(&answer["stages"], "reduce_inside");
    assert!(inside < objective(&answer["stages"], "policy"));
    assert_eq!(answer["objective"], inside);
    assert_eq!(text.lines().count() as u64, inside);
    for n_ranks in [2, 5] {
        let (found, again) = solve(&format!("--ranks {n_ranks}"));
        assert_eq!(
            (&found["objective"], again),
            (&answer["objective"], text.clone())
        );
    }
    let (all, _) = solve("--reduce --local-search-steps 500");
    assert_eq!(
        names(&all["stages"]),
        [
            "policy",
            "reduce_inside",
            "reduce",
            "polish",
            "polish_from_empty"
        ]
    );
    for (flags, reason) in [
        ("--problem mis", "are for vertex covers"),
        ("--preset paper", "keeps picks that the rules remove"),
    ] {
        let message = run(
            &format!("solve --method policy karate --reduce-inside {flags}"),
            &[],
        )
        .error(2);
        assert!(message.contains(reason), "{message}");
    }
}
