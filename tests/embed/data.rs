//! `embed`'s data side: imports of every sort and what breaks them, classes, communities, pictures.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::program::{command, finish, run, wait};

fn n_files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// A list of edges with text ids that takes more than any scratch file keeps in memory.
fn named_edges(n: u32) -> String {
    let edge = |i: u32| format!("node-{} node-{}\n", i % 1999, (i * 7 + 1) % 2999);
    (0..n).map(edge).collect()
}

fn gzip(path: &Path, text: &str) {
    let file = File::create(path).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
}

#[test]
fn packed_text_ids_come_in_with_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    gzip(&path("g.txt.gz"), &named_edges(30_000));
    fs::write(path("g.txt"), named_edges(30_000)).unwrap();
    let is_loop = |line: &&str| line.split_once(' ').is_some_and(|(u, v)| u == v);
    let n_loops = named_edges(30_000).lines().filter(is_loop).count();
    assert!(n_loops > 0);
    for (input, memory, out) in [
        ("g.txt.gz", "300KB", "small.store"),
        ("g.txt", "4GiB", "large.store"),
    ] {
        let words =
            format!("embed import {{}} --memory-limit {memory} --parts 4 --out {{}} --format json");
        let answer = run(&words, &[&path(input), &path(out)]).json();
        assert_eq!(answer["nodes"], 2999);
        assert_eq!(answer["self_loops_dropped"], n_loops);
        assert!(answer["memory_bytes"].as_u64().unwrap() <= 4 << 30);
    }
    let bytes = ["small.store", "large.store"].map(|name| fs::read(path(name)).unwrap());
    assert!(bytes[0] == bytes[1]);
    assert_eq!(n_files(folder.path()), 4, "scratch files are gone");
}

#[test]
fn a_truncated_archive_is_named_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    gzip(&path("g.txt.gz"), &named_edges(30_000));
    let whole = fs::read(path("g.txt.gz")).unwrap();
    for len in [whole.len() / 2, whole.len() - 1] {
        fs::write(path("g.txt.gz"), &whole[..len]).unwrap();
        let words = "embed import {} --memory-limit 300KB --out {}";
        let message = run(words, &[&path("g.txt.gz"), &path("g.store")]).error(2);
        assert!(
            message.contains("g.txt.gz:") && message.contains("damaged or ends early"),
            "{message}"
        );
        assert_eq!(n_files(folder.path()), 1);
    }
}

#[test]
fn ids_that_do_not_fit_are_refused_where_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let edge = |i: u64| format!("{} {}\n", i << 40, (i + 1) << 40);
    fs::write(path("g.txt"), (0..100_000).map(edge).collect::<String>()).unwrap();
    let words = "embed import {} --memory-limit 1MB --out {}";
    let message = run(words, &[&path("g.txt"), &path("g.store")]).error(2);
    assert!(
        message.contains("g.txt:") && message.contains("at most 500000 bytes"),
        "{message}"
    );
    run(
        "embed import {} --memory-limit 100MB --out {}",
        &[&path("g.txt"), &path("g.store")],
    )
    .ok();
    for (words, reason) in [
        (
            "embed import karate --directed --out {}",
            "directed and weighted are for files",
        ),
        (
            "embed import karate --weighted --out {}",
            "directed and weighted are for files",
        ),
    ] {
        let message = run(words, &[&path("k.store")]).error(2);
        assert!(message.contains(reason), "{message}");
    }
    fs::write(path("g.gr"), "p td 3 2\n1 2\n2 3\n").unwrap();
    let message = run(
        "embed import {} --directed --out {}",
        &[&path("g.gr"), &path("k.store")],
    )
    .error(2);
    assert!(message.contains("has no directions"), "{message}");
}

/// Every file that is written may be the one that no longer fits: the limit on a file's length rises until all goes well.
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("g.txt"), named_edges(20_000)).unwrap();
    for words in [
        "embed import {} --memory-limit 200KB --out {}",
        "embed {} --order 1 --dim 4 --epochs 1 --memory-limit 200KB --out {}",
    ] {
        let mut n_refused = 0;
        for blocks in (0..).step_by(16) {
            let own = command(words, &[&path("g.txt"), &path("out.npy")]);
            let mut limited = Command::new("sh");
            limited.args(["-c", "trap '' XFSZ; ulimit -f $0; exec \"$@\""]);
            limited
                .arg(blocks.to_string())
                .arg(own.get_program())
                .args(own.get_args());
            let run = finish(&mut limited);
            if run.code == Some(0) {
                break;
            }
            n_refused += 1;
            let message = run.error(2);
            assert!(
                message.contains("cannot write: File too large"),
                "{message}"
            );
            assert_eq!(
                n_files(folder.path()),
                1,
                "{words}, {blocks} blocks: {message}"
            );
        }
        assert!(n_refused > 3, "{words}: {n_refused}");
        for name in ["out.npy", "out.npy.labels"] {
            let _ = fs::remove_file(path(name));
        }
        assert_eq!(n_files(folder.path()), 1, "{words}");
    }
}

/// kill -9 at any moment leaves no store, and the next import none of its scratch files.
#[test]
fn a_killed_import_starts_clean() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("g.txt"), named_edges(400_000)).unwrap();
    let words = "embed import {} --memory-limit 1MB --parts 8 --out {}";
    let (mut n_killed, mut n_left) = (0, 0);
    for attempt in 0..6 {
        let mut child = command(words, &[&path("g.txt"), &path("g.store")])
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(10 + 40 * attempt));
        let _ = child.kill();
        if !wait(&mut child).success() {
            n_killed += 1;
            n_left = n_left.max(n_files(folder.path()));
            assert!(!path("g.store").exists());
        } else {
            fs::remove_file(path("g.store")).unwrap();
        }
    }
    assert!(
        n_killed > 0 && n_left > 1,
        "{n_killed} killed, {n_left} files"
    );
    run(words, &[&path("g.txt"), &path("g.store")]).ok();
    assert_eq!(n_files(folder.path()), 2);
}

/// kill -9 once the text is read: the next import does not read it again.
#[test]
fn an_import_killed_behind_its_reading_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("g.txt"), named_edges(400_000)).unwrap();
    let words = "embed import {} --memory-limit 1MB --parts 8 --out {} --format json";
    let answer = run(words, &[&path("g.txt"), &path("calm.store")]).json();
    assert_eq!(answer["resumed"], false);
    let is_read = || {
        let mut files = fs::read_dir(folder.path()).unwrap().flatten();
        files.any(|file| {
            let name = file.file_name();
            let is_state = name.to_str().is_some_and(|name| name.ends_with("-state"));
            is_state && file.metadata().is_ok_and(|known| known.len() > 0)
        })
    };
    let mut child = command(words, &[&path("g.txt"), &path("g.store")])
        .spawn()
        .unwrap();
    while !is_read() && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    assert!(!wait(&mut child).success(), "it ended before it was killed");
    let resumed = run(words, &[&path("g.txt"), &path("g.store")]).json();
    assert_eq!(resumed["resumed"], true);
    for key in ["nodes", "edges", "self_loops_dropped"] {
        assert_eq!(resumed[key], answer[key]);
    }
    assert!(fs::read(path("calm.store")).unwrap() == fs::read(path("g.store")).unwrap());
    assert_eq!(n_files(folder.path()), 3);
}

/// The block of each node of `sbm:N:K:...`, whose blocks are runs of nodes.
fn blocks(n: u32, k: u32) -> String {
    (0..n)
        .map(|v| format!("{v},block-{}\n", v * k / n))
        .collect()
}

const SBM: &str = "sbm:400:4:0.2:0.005 --dim 16 --epochs 40 --learning-rate 0.1";

#[test]
fn eval_says_what_rows_tell_of_classes() {
    let folder = tempfile::tempdir().unwrap();
    let classes = folder.path().join("blocks.csv");
    fs::write(&classes, blocks(400, 4)).unwrap();
    let words =
        format!("embed eval {SBM} --classes {{}} --train-shares 0.1,0.5 --draws 3 --format json");
    let answer = run(&words, &[&classes]).json();
    let by_class = &answer["nodes_by_class"];
    let counts = (&by_class["classes"], &by_class["classified_nodes"]);
    assert_eq!(counts, (&4.into(), &400.into()));
    for of_share in by_class["classification"].as_array().unwrap() {
        for key in ["micro_f1", "macro_f1"] {
            assert!(of_share[key].as_f64().unwrap() > 0.9, "{by_class}");
        }
    }
    let nmi = by_class["communities"]["nmi"].as_f64().unwrap();
    assert!(nmi > 0.85, "{by_class}");
}

#[test]
fn an_embedding_is_judged_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("blocks.csv"), blocks(400, 4)).unwrap();
    run(&format!("embed {SBM} --out {{}}"), &[&path("e.npy")]).ok();
    let files = [path("e.npy"), path("blocks.csv"), path("e.svg")];
    let judged = [files[0].as_path(), files[1].as_path()];
    let words = "embed classify --model {} --classes {}";
    let answer = run(&format!("{words} --format json"), &judged).json();
    let nmi = answer["communities"]["nmi"].as_f64().unwrap();
    assert!(nmi > 0.85, "{answer}");
    let text = run(words, &judged).ok();
    assert_eq!(text.line("mutual information"), format!("{nmi:.4}"));
    assert_eq!((text.line("clusters"), text.line("nodes")), ("4", "400"));
    // Where every node has two classes, clusters have nothing to be judged by.
    let two = |v: u32| format!("{v} a-{} b-{}\n", v % 2, v / 2 % 2);
    fs::write(path("two.csv"), (0..400).map(two).collect::<String>()).unwrap();
    let two = [files[0].as_path(), &path("two.csv")];
    let answer = run(&format!("{words} --format json"), &two).json();
    let found = &answer["communities"];
    assert!(found["nmi"].is_null() && found["nodes"] == 0, "{answer}");
    let text = run(words, &two).ok().stdout;
    assert!(!text.contains("mutual information"), "{text}");
    let words = "embed picture --model {} --classes {} --out {} --format json";
    let answer = run(words, &files.each_ref().map(|file| file.as_path())).json();
    let counts = (&answer["nodes"], &answer["points"]);
    assert_eq!(counts, (&400.into(), &400.into()));
    let svg = fs::read_to_string(path("e.svg")).unwrap();
    assert_eq!(
        svg.matches("<title>").count(),
        401,
        "of the picture and of each node"
    );
    assert!(svg.contains("block-3") && svg.ends_with("</svg>\n"));
}

/// Answers of such rows would look like answers.
#[test]
fn rows_that_are_no_embedding_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.txt");
    for (text, reason) in [
        (
            "2 2\na 1 0\nb nan 1\n",
            "row 1 (`b`): expected finite numbers",
        ),
        (
            "2 2\na 1 0\nb 0 inf\n",
            "row 1 (`b`): expected finite numbers",
        ),
        ("3 1\na 1\nb 2\na 3\n", "rows 0 and 2 are both called `a`"),
    ] {
        fs::write(&rows, text).unwrap();
        let message = run("embed near a --model {}", &[&rows]).error(2);
        assert!(message.contains(reason), "{message}");
        assert!(message.contains("rows.txt"), "{message}");
    }
    let edges = folder.path().join("z.el");
    fs::write(&edges, "0 1 0\n1 2 0\n").unwrap();
    let words = "embed {} --weighted --epochs 1 --dim 4 --out {}";
    let message = run(words, &[&edges, &folder.path().join("z.npy")]).error(2);
    assert!(
        message.contains("all edges of the graph have weight 0"),
        "{message}"
    );
}

#[test]
fn bad_classes_and_pictures_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    run(
        "embed karate --dim 4 --epochs 5 --out {}",
        &[&path("k.npy")],
    )
    .ok();
    fs::write(path("c.txt"), "0 a\n99 b\n").unwrap();
    let words = "embed classify --model {} --classes {}";
    let message = run(words, &[&path("k.npy"), &path("c.txt")]).error(2);
    assert!(
        message.contains("c.txt:2: expected a node of the graph, found `99`"),
        "{message}"
    );
    for (words, reason) in [
        (
            "embed classify --model {} --classes none.txt",
            "cannot read",
        ),
        (
            "embed classify --model {} --classes x --train-shares 0.5,1",
            "train_shares = 1",
        ),
        (
            "embed classify --model {} --classes x --draws 0",
            "draws = 0",
        ),
        (
            "embed picture --model {} --out e.png",
            "pictures are SVG: name a .svg file",
        ),
        (
            "embed picture --model {} --points 0 --out e.svg",
            "points = 0",
        ),
    ] {
        let message = run(words, &[&path("k.npy")]).error(2);
        assert!(message.contains(reason), "{message}");
    }
    let message = run("embed eval karate --weighted", &[]).error(2);
    assert!(message.contains("without weights"), "{message}");
}

/// A run's folder has a line for each trial and for each pass of the training, which `report` draws.
#[test]
fn a_run_leaves_its_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (rows, picture, page) = (path("rows.npy"), path("curve.svg"), path("page.html"));
    let lines = |run: &Path| -> Vec<serde_json::Value> {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let chosen = path("chosen");
    let words = "embed sbm:300:6:0.3:0.01 --dim 8 --epochs 10 --run {} --out {} --format json";
    let answer = run(words, &[&chosen, &rows]).json();
    let trials = answer["selection"]["trials"].as_array().unwrap();
    let kept = fs::read(chosen.join("result.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["selection"], answer["selection"]);
    let found = lines(&chosen);
    for (trial, line) in trials.iter().zip(&found) {
        assert_eq!(
            (&line["stage"], &line["auc_uniform"]),
            (&"trial".into(), &trial["auc"]["uniform"])
        );
    }
    assert!(
        found[trials.len()..]
            .iter()
            .all(|line| line["stage"] == "training")
    );
    let fixed = path("fixed");
    let words = "embed karate --preset line --dim 8 --epochs 6 --run {} --svg {} --out {}";
    run(words, &[&fixed, &picture, &rows]).ok();
    let found = lines(&fixed);
    assert_eq!(found.len(), 12, "two orders of six epochs");
    for (number, line) in found.iter().enumerate() {
        assert_eq!(
            (&line["step"], &line["epoch"]),
            (&(number + 1).into(), &(number % 6 + 1).into())
        );
        assert!(
            line["loss"].as_f64().unwrap() > 0.0 && line["row_norm"].is_number(),
            "{line}"
        );
    }
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(
        svg.contains("loss before updates") && svg.contains("order 1"),
        "{svg}"
    );
    run("report {} --out {}", &[&fixed, &page]).ok();
    assert!(fs::read_to_string(&page).unwrap().contains("row_norm"));
    let message = run("embed karate --run {} --out {}", &[&fixed, &rows]).error(2);
    assert!(message.contains("result.json"), "{message}");
}
