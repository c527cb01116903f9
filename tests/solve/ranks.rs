//! The same cover for any number of ranks, on every path and with every selection.

use std::fs;
use std::path::Path;

use crate::program::run;

/// The cover file and the steps of one run.
fn solve(graph: &str, flags: &str, folder: &Path) -> (String, u64) {
    let cover = folder.join("cover.txt");
    let words = format!("solve --method policy {graph} {flags} --out {{}} --format json");
    let answer = run(&words, &[&cover]).json();
    assert_eq!(answer["verified"], true);
    if let Some(path) = flags.strip_prefix("--path ").filter(|path| *path != "auto") {
        let path = path.split(' ').next().unwrap();
        let found = answer["path"].as_str().unwrap();
        assert!(found.starts_with(path), "{flags}: {found}");
    }
    let steps = answer["steps"].as_u64().unwrap();
    (fs::read_to_string(&cover).unwrap(), steps)
}

fn assert_same_on_all_ranks(graphs: &[&str], flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    for graph in graphs {
        for flags in flags {
            let one = solve(graph, &format!("{flags} --ranks 1"), folder.path());
            for n_ranks in 2..=6 {
                let words = format!("{flags} --ranks {n_ranks}");
                let found = solve(graph, &words, folder.path());
                assert_eq!(found, one, "{graph} {words}");
            }
        }
    }
}

#[test]
fn with_every_selection() {
    assert_same_on_all_ranks(
        &["karate", "er:257:0.2", "ba:300:3", "er:5:0"],
        &[
            "--nodes-per-step adaptive",
            "--nodes-per-step 1",
            "--nodes-per-step 8",
            "--nodes-per-step 8 --preset paper",
        ],
    );
}

#[test]
fn on_the_general_paths() {
    assert_same_on_all_ranks(
        &["karate", "er:66:0.05", "er:65:0.3"],
        &["--path general", "--path free-first-layer"],
    );
}

/// Scores are written so that equal text means equal bits.
#[test]
fn scores_have_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("scores.txt");
    for graph in ["karate", "er:257:0.2", "ba:300:3"] {
        let scores = |n_ranks: u32| {
            let words = format!("score {graph} --ranks {n_ranks} --out {{}}");
            run(&words, &[&out]).ok();
            fs::read_to_string(&out).unwrap()
        };
        let one = scores(1);
        assert!(one.lines().count() >= 34, "{one}");
        for n_ranks in 2..=6 {
            assert_eq!(scores(n_ranks), one, "{graph}, {n_ranks} ranks");
        }
    }
}

#[test]
fn every_path_finds_a_cover_of_about_the_same_size() {
    let folder = tempfile::tempdir().unwrap();
    for graph in ["karate", "er:100:0.05", "ba:100:2"] {
        let size = |path: &str| {
            let (cover, _) = solve(graph, &format!("--path {path}"), folder.path());
            cover.lines().count()
        };
        let collapsed = size("collapsed");
        assert_eq!(size("auto"), collapsed);
        // Scores agree to rounding; ties may be broken differently.
        for path in ["general", "free-first-layer"] {
            assert!(size(path).abs_diff(collapsed) <= 3, "{graph} {path}");
        }
    }
}

#[test]
fn more_nodes_a_step_take_fewer_steps() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |flags: &str| solve("er:200:0.1", flags, folder.path()).1;
    let (one, eight, adaptive) = (
        steps("--nodes-per-step 1"),
        steps("--nodes-per-step 8"),
        steps("--nodes-per-step adaptive"),
    );
    assert!(
        eight < adaptive && adaptive < one,
        "{eight} {adaptive} {one}"
    );
}

#[test]
fn preset_paper_keeps_picks_that_cover_nothing() {
    // Two disjoint edges and eight picks a step: paper takes all four nodes at once, the default one end of each.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.el");
    fs::write(&file, "a b\nc d\n").unwrap();
    let size = |flags: &str| {
        let words = format!("solve --method policy {{}} --nodes-per-step 8 --format json {flags}");
        run(&words, &[&file]).json()["objective"].as_u64().unwrap()
    };
    assert_eq!((size(""), size("--preset paper")), (2, 4));
}
