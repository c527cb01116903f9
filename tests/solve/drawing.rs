//! Answers with their graph: GraphML, Graphviz and SVG, by every method, checked by plain counts.

use std::fs;

use crate::program::{listing, run};

#[test]
fn every_method_shows_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("answer.svg");
    let methods = [
        "--method best",
        "--method policy",
        "--method policy --problem cut",
        "--method greedy --problem clique",
    ];
    for method in methods {
        for graph in ["karate", "petersen", "ba:30:2"] {
            for ending in ["dot", "graphml"] {
                let out = folder.path().join("answer").with_extension(ending);
                let words = format!("solve {graph} {method} --format json --out {{}} --svg {{}}");
                let answer = run(&words, &[&out, &svg]).ok().json();
                let number = |key: &str| answer[key].as_u64().unwrap();
                let text = fs::read_to_string(&out).unwrap();
                let count = |what: &str| text.matches(what).count() as u64;
                let n_inside = count("in_answer=true") + count("\"in_answer\">true<");
                match method.contains("cut") {
                    true => assert!(n_inside > 0, "{text}"),
                    false => assert_eq!(n_inside, number("objective"), "{words}"),
                }
                assert_eq!(count("<node ") + count("[label="), number("nodes"));
                assert_eq!(count("<edge ") + count(" -- "), number("edges"));
                let picture = fs::read_to_string(&svg).unwrap();
                assert_eq!(picture.matches("<circle").count() as u64, number("nodes"));
            }
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("large.svg");
    let why = run("solve ba:1200:2 --svg {}", &[&svg]).error(2);
    assert!(
        why.contains("at most 1000") && why.contains(".graphml"),
        "{why}"
    );
    let why = run("solve ba:1200:2 --method policy --svg {}", &[&svg]).error(2);
    assert!(why.contains("at most 1000"), "{why}");
    let why = run("solve karate petersen --svg {}", &[&svg]).error(2);
    assert!(why.contains("--svg is the file of one answer"), "{why}");
    let why = run("solve karate --svg {} --out {}", &[&svg, &svg]).error(2);
    assert!(why.contains("name one file"), "{why}");
    assert!(listing(folder.path()).is_empty());
}
