//! Built-in graphs, graphs without edges, and what the printed answer says.

use std::fs;

use shardgraph_graph::builtin;

use crate::program::{listing, run};
use crate::solve::second_opinion;

#[test]
fn every_built_in_graph_is_covered() {
    for name in builtin::names() {
        let folder = tempfile::tempdir().unwrap();
        let (file, cover) = (folder.path().join("g.el"), folder.path().join("cover.txt"));
        run(&format!("convert {name} {{}}"), &[&file]).ok();
        let answer = run(
            &format!("solve --method policy {name} --out {{}}"),
            &[&cover],
        )
        .ok();
        let graph = second_opinion::read(&file);
        let size = graph.check_cover(&fs::read_to_string(&cover).unwrap());
        let size = size.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(answer.line("objective"), size.to_string());
        assert_eq!(answer.line("edges"), graph.edges.len().to_string());
        let optimum = builtin::minimum_vertex_cover(name).unwrap();
        assert!(size >= optimum as usize, "{name}: {size} below {optimum}");
    }
}

#[test]
fn the_answer_says_what_it_promises() {
    let answer = run("solve --method policy karate", &[]).ok();
    assert_eq!(answer.line("graph"), "karate (built in)");
    assert_eq!(answer.line("nodes"), "34");
    assert_eq!(answer.line("edges"), "78");
    assert_eq!(answer.line("objective"), "14");
    assert_eq!(answer.line("verified"), "yes");
    assert_eq!(answer.line("bound"), "11");
    assert_eq!(answer.line("bound source"), "maximal matching");
    assert_eq!(answer.line("ranks"), "1");
    assert_eq!(answer.line("path"), "collapsed+bits");
    assert_eq!(answer.line("policy"), "mvc-default");
    let n_steps: f64 = answer.line("steps").parse().unwrap();
    assert!((1.0..=14.0).contains(&n_steps));
    for seconds in ["time ", "time per step", "load time"] {
        let found: Vec<&str> = answer
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix(seconds)?.strip_prefix(' '))
            .filter(|value| {
                value.ends_with('s') && value.trim().starts_with(|c: char| c.is_ascii_digit())
            })
            .collect();
        assert_eq!(found.len(), 1, "{seconds}: {answer:?}");
    }
}

#[test]
fn graphs_without_edges_have_the_empty_cover() {
    let folder = tempfile::tempdir().unwrap();
    let cover = folder.path().join("cover.txt");
    let files = [
        ("g.gr", "p td 5 0\n"),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n2 2\n",
        ),
        ("g.clq", "p edge 2 0\n"),
        ("g.graph", "2 0\n\n\n"),
        ("g.el", "# nothing\n"),
        ("loops.el", "a a\nb b\n"),
    ];
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        for n_ranks in [1, 3] {
            let words = format!("solve --method policy {{}} --ranks {n_ranks} --out {{}}");
            let answer = run(&words, &[&file, &cover]).ok();
            assert_eq!(answer.line("verified"), "yes", "{name}");
            assert_eq!(answer.line("objective"), "0", "{name}");
            assert_eq!(answer.line("steps"), "0", "{name}");
            assert_eq!(fs::read(&cover).unwrap(), b"", "{name}");
            fs::remove_file(&cover).unwrap();
        }
    }
}

#[test]
fn what_reading_dropped_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.el");
    fs::write(&file, "a b\nb a\nb c\nc c\na b\n").unwrap();
    let answer = run("solve --method policy {}", &[&file]).ok();
    for line in [
        "  format: edge list (by extension), plain",
        "  edges listed: 5",
        "  self-loops dropped: 1",
        "  duplicates merged: 2",
    ] {
        assert!(
            answer.stdout.lines().any(|l| l == line),
            "{line}: {answer:?}"
        );
    }
    assert_eq!(answer.line("edges"), "2");
    let info = run("info {}", &[&file]).ok();
    assert_eq!(info.line("max degree"), "2");
    assert!(info.stdout.contains("  duplicates merged: 2\n"), "{info:?}");
}

#[test]
fn info_counts() {
    let answer = run("info petersen", &[]).ok();
    assert_eq!(answer.line("nodes"), "10");
    assert_eq!(answer.line("edges"), "15");
    assert_eq!(answer.line("density"), "0.3333");
    assert_eq!(answer.line("min degree"), "3");
    assert_eq!(answer.line("mean degree"), "3.0000");
    assert_eq!(answer.line("max degree"), "3");
    assert_eq!(answer.line("isolated nodes"), "0");
    assert!(answer.line("storage") == "bits");
    let complement = run("info petersen --complement", &[]).ok();
    assert_eq!(complement.line("edges"), "30");
    let sparse = run("info ba:500:1", &[]).ok();
    assert!(sparse.line("storage") == "csr");
    assert_eq!(run("info er:9:0", &[]).ok().line("isolated nodes"), "9");
}

#[test]
fn edge_weights_count_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cover) = (folder.path().join("g.el"), folder.path().join("cover.txt"));
    fs::write(&file, "a b 2.5\nb c 1\nc d 0.5\nd e 4\n").unwrap();
    let plain = run("solve --method policy {}", &[&file]).ok();
    assert!(plain.line("path").starts_with("collapsed+"), "{plain:?}");
    let weighted = run(
        "solve --method policy {} --weighted --out {}",
        &[&file, &cover],
    )
    .ok();
    assert_eq!(weighted.line("path"), "free-first-layer+csr");
    let graph = second_opinion::read(&file);
    graph
        .check_cover(&fs::read_to_string(&cover).unwrap())
        .unwrap();
    let message = run(
        "solve --method policy {} --weighted --path collapsed",
        &[&file],
    )
    .error(2);
    assert!(message.contains("without weights"), "{message}");
}

#[test]
fn every_file_appears_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let cover = folder.path().join("cover.txt");
    fs::write(&cover, "old\n").unwrap();
    run("solve --method policy karate --out {} --ranks 0", &[&cover]).error(2);
    assert_eq!(fs::read(&cover).unwrap(), b"old\n");
    run("solve --method policy karate --out {}", &[&cover]).ok();
    assert_eq!(fs::read_to_string(&cover).unwrap().lines().count(), 14);
    assert_eq!(listing(folder.path()), ["cover.txt"]);
}
