//! Every family of random graphs, at the sizes where words of a bit matrix and small cases begin and end.

use std::fs;

use crate::program::run;
use crate::solve::second_opinion;

const SPECS: [&str; 35] = [
    "er:0:0.5",
    "er:1:0.5",
    "er:2:1",
    "er:2:0",
    "er:63:0.1",
    "er:64:0.02",
    "er:64:0.9",
    "er:65:0.1",
    "er:65:1",
    "ba:2:1",
    "ba:3:2",
    "ba:63:3",
    "ba:64:1",
    "ba:65:20",
    "ws:1:0:0.5",
    "ws:2:0:0.5",
    "ws:3:2:0",
    "ws:63:4:0.1",
    "ws:64:2:1",
    "ws:65:30:0.2",
    "sbm:1:1:1:0",
    "sbm:2:2:0:1",
    "sbm:63:3:0.3:0.02",
    "sbm:64:2:0:0.5",
    "sbm:65:65:0:0.1",
    "rb:1:1:0.5:1",
    "rb:1:2:0.5:1",
    "rb:2:1:0.5:3",
    "rb:9:7:0.25:2.78",
    "rb:8:8:0.25:2.78",
    "rb:13:5:0.3:1",
    "cl:1:0:3",
    "cl:65:6:2.2",
    "er:257:0.03",
    "er:255:0.04",
];

/// A file in every format, solved from the file and from the specification: the same cover, and a right one.
#[test]
fn are_covered_whichever_way_they_come() {
    let extensions = ["gr", "mtx", "clq", "graph"];
    for (i, spec) in SPECS.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("g.{}", extensions[i % 4]));
        let (from_file, from_spec) = (folder.path().join("a"), folder.path().join("b"));
        let seed = i + 1;
        run(
            &format!("generate {spec} --seed {seed} --out {{}}"),
            &[&file],
        )
        .ok();
        let answer = run(
            "solve --method policy {} --out {} --format json",
            &[&file, &from_file],
        )
        .json();
        let words = format!("solve --method policy {spec} --seed {seed} --out {{}} --ranks 2");
        run(&words, &[&from_spec]).ok();

        let graph = second_opinion::read(&file);
        let cover = fs::read_to_string(&from_file).unwrap();
        let size = graph.check_cover(&cover);
        let size = size.unwrap_or_else(|why| panic!("{spec}: {why}"));
        assert_eq!(answer["objective"], size, "{spec}");
        assert_eq!(answer["edges"], graph.edges.len(), "{spec}");
        assert_eq!(answer["nodes"].as_u64(), graph.n_numbered, "{spec}");
        assert!(answer["bound"].as_u64().unwrap() <= size as u64);
        assert_eq!(cover, counted_from_one(&from_spec), "{spec}");
        assert!(size >= planted_optimum(spec), "{spec}: {size} is too few");
    }
}

/// Generated nodes are numbered from 0, those of these files from 1.
fn counted_from_one(cover: &std::path::Path) -> String {
    let cover = fs::read_to_string(cover).unwrap();
    let number = |line: &str| line.parse::<u64>().unwrap() + 1;
    cover
        .lines()
        .map(|line| format!("{}\n", number(line)))
        .collect()
}

/// Model RB hides an independent set with a node of each clique: no cover is smaller than the rest.
fn planted_optimum(spec: &str) -> usize {
    let fields: Vec<&str> = spec.split(':').collect();
    match fields[..] {
        ["rb", n_cliques, clique_size, ..] => {
            let count = |text: &str| text.parse::<usize>().unwrap();
            count(n_cliques) * (count(clique_size) - 1)
        }
        _ => 0,
    }
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b", "c"].map(|name| folder.path().join(format!("{name}.mtx")));
    for spec in [
        "er:65:0.2",
        "ba:65:3",
        "ws:65:4:0.3",
        "sbm:65:3:0.3:0.1",
        "rb:8:8:0.3:1",
    ] {
        for (file, seed) in files.iter().zip([1, 1, 2]) {
            run(
                &format!("generate {spec} --seed {seed} --out {{}}"),
                &[file],
            )
            .ok();
        }
        let [a, b, c] = files.each_ref().map(|file| fs::read(file).unwrap());
        assert_eq!(a, b, "{spec}");
        assert_ne!(a, c, "{spec}");
    }
}
