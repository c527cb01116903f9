//! Formats, compressions, labels and the complement.

use std::fs;
use std::process::Stdio;

use crate::program::{command, finish, run};
use crate::solve::second_opinion;

#[test]
fn every_format_and_compression_gives_the_same_cover() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("g.mtx");
    run("generate ba:70:3 --seed 5 --out {}", &[&plain]).ok();
    let graph = second_opinion::read(&plain);
    let cover = folder.path().join("cover.txt");
    run("solve --method policy {} --out {}", &[&plain, &cover]).ok();
    let expected = fs::read_to_string(&cover).unwrap();
    graph.check_cover(&expected).unwrap();
    for extension in ["mtx", "el", "clq", "graph", "gr", "graphml"] {
        for packing in ["", ".gz", ".zst"] {
            let file = folder.path().join(format!("copy.{extension}{packing}"));
            run("convert {} {}", &[&plain, &file]).ok();
            let answer = run("solve --method policy {} --out {}", &[&file, &cover]).ok();
            let word = match packing {
                "" => ", plain",
                ".gz" => ", gzip",
                _ => ", zstd",
            };
            assert!(answer.stdout.contains(word), "{answer:?}");
            assert_eq!(fs::read_to_string(&cover).unwrap(), expected, "{file:?}");
            if packing != ".zst" && extension != "graphml" {
                assert_eq!(second_opinion::read(&file).edges, graph.edges, "{file:?}");
            }
        }
    }
}

#[test]
fn covers_name_nodes_as_the_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cover) = (folder.path().join("g.txt"), folder.path().join("cover.txt"));
    for (text, expected) in [
        ("hub a\nhub b\nc hub\n", "hub\n"),
        (
            "# ids\n900000000000 7\n900000000000 8\n900000000000 3\n",
            "900000000000\n",
        ),
        // By node id, which for integers is their order and for text the order of first sight.
        ("20 1\n20 2\n20 3\n5 6\n5 7\n5 8\n", "5\n20\n"),
        ("z 1\nz 2\nz 3\nb 6\nb 7\nb 8\n", "z\nb\n"),
        (
            "from,to\nAnna Lee,Bob Ray\nAnna Lee,Cy\nAnna Lee,D\n",
            "Anna Lee\n",
        ),
    ] {
        fs::write(&file, text).unwrap();
        run("solve --method policy {} --out {}", &[&file, &cover]).ok();
        assert_eq!(fs::read_to_string(&cover).unwrap(), expected);
    }
}

#[test]
fn scores_name_nodes_as_the_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (
        folder.path().join("g.txt"),
        folder.path().join("scores.txt"),
    );
    fs::write(&file, "a hub\nb hub\nhub c\nlone lone\n").unwrap();
    let answer = run("score {} --top 1 --out {}", &[&file, &out]).ok();
    assert!(answer.line("hub").parse::<f32>().is_ok(), "{answer:?}");
    let scores = fs::read_to_string(&out).unwrap();
    let names: Vec<&str> = scores.lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(names, ["a", "hub", "b", "c", "lone"]);
    assert!(scores.ends_with("lone nan\n"), "{scores}");
}

#[test]
fn labels_survive_where_the_format_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (named, copy, numbered) = (path("named.el"), path("copy.tsv.gz"), path("numbered.gr"));
    fs::write(&named, "ann bob\nbob cid\n").unwrap();
    run("convert {} {}", &[&named, &copy]).ok();
    let edges = second_opinion::read(&named).edges;
    assert_eq!(second_opinion::read(&copy).edges, edges);
    let lossy = run("convert {} {}", &[&named, &numbered]);
    assert_eq!(lossy.code, Some(0));
    assert!(
        lossy.stderr.starts_with("warning: labels left out"),
        "{lossy:?}"
    );
    let quiet = run("convert {} {} --quiet", &[&named, &numbered]).ok();
    assert_eq!(quiet.line("edges"), "2");
}

#[test]
fn the_complement_is_solved_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, complement, cover) = (path("g.clq"), path("c.gr"), path("cover.txt"));
    run("generate er:60:0.8 --out {}", &[&file]).ok();
    run("convert {} {} --complement", &[&file, &complement]).ok();
    let expected = second_opinion::read(&file).complement();
    assert_eq!(second_opinion::read(&complement).edges, expected.edges);
    let answer = run(
        "solve --method policy {} --complement --out {}",
        &[&file, &cover],
    )
    .ok();
    assert_eq!(answer.line("edges"), expected.edges.len().to_string());
    let size = expected.check_cover(&fs::read_to_string(&cover).unwrap());
    assert_eq!(answer.line("objective"), size.unwrap().to_string());
    assert!(answer.line("graph").ends_with(", complement"));
}

#[test]
fn the_flag_wins_over_the_extension() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.mtx");
    fs::write(&file, "p edge 3 2\ne 1 2\ne 2 3\n").unwrap();
    run("info {}", &[&file]).error(2);
    let answer = run("info {} --input-format dimacs", &[&file]).ok();
    assert_eq!(answer.line("edges"), "2");
    let converted = folder.path().join("g.clq");
    run("convert karate {} --output-format pace", &[&converted]).ok();
    let text = fs::read_to_string(&converted).unwrap();
    assert!(text.starts_with("p td 34 78\n"), "{text}");
}

#[test]
fn a_file_wins_over_a_built_in_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("karate"), "a b\n").unwrap();
    let in_folder = finish(command("info karate", &[]).current_dir(folder.path()));
    assert_eq!(in_folder.ok().line("edges"), "1");
    assert_eq!(run("info karate", &[]).ok().line("edges"), "78");
}

#[cfg(unix)]
#[test]
fn a_graph_may_come_through_a_pipe() {
    let mut cat = std::process::Command::new("printf")
        .arg("a b\nb c\n")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = cat.stdout.take().unwrap();
    let answer = finish(command("solve --method policy /dev/stdin", &[]).stdin(pipe)).ok();
    crate::program::wait(&mut cat);
    assert_eq!(answer.line("objective"), "1");
}
