//! What is read is never written over, and neither is what an earlier run has learned.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::run;

const PLACING: &str = "graphs = ['costgraph:1:6:9']\nreward_evaluations = 60\nsteps = 1\n\
    [genetic]\npopulation = 20\nelites = 4\nmutants = 4\n[policy]\nfeature_evaluations = 60\nhead_width = 8\n";

/// The words that train a small placement policy into a folder.
fn place_train(within: &Path) -> String {
    let settings: PathBuf = within.join("placing.toml");
    fs::write(&settings, PLACING).unwrap();
    format!("place train --config {} --run {{}}", settings.display())
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (policy, placing) = (path("p.safetensors"), path("r.safetensors"));
    let (settings, labels) = (path("e.toml"), path("z.npy.labels"));
    run("train --steps 2 --run {}", &[&path("run")]).ok();
    fs::copy(path("run").join("policy.safetensors"), &policy).unwrap();
    run(&place_train(folder.path()), &[&path("placing")]).ok();
    fs::copy(path("placing").join("policy.safetensors"), &placing).unwrap();
    fs::write(&settings, "dim = 4\nepochs = 1\n").unwrap();
    fs::write(&labels, "dim = 4\nepochs = 1\n").unwrap();
    let place = "place costgraph:1 --evaluations 50 --model {}";
    for (words, paths) in [
        (
            "solve --method policy karate --model {} --out {}".to_owned(),
            [&policy, &policy],
        ),
        (
            "score karate --model {} --out {}".to_owned(),
            [&policy, &policy],
        ),
        (format!("{place} --plan {{}}"), [&placing, &placing]),
        (format!("{place} --trace {{}}"), [&placing, &placing]),
        (format!("{place} --svg {{}}"), [&placing, &placing]),
        (
            "embed karate --config {} --out {}".to_owned(),
            [&settings, &settings],
        ),
        (
            "embed karate --config {} --out {}".to_owned(),
            [&labels, &path("z.npy")],
        ),
    ] {
        let before = fs::read(paths[0]).unwrap();
        let message = run(&words, &paths.map(|path| path.as_path())).error(2);
        let is_told = message.contains("this is the input, which would be lost");
        assert!(is_told, "{words}: {message}");
        assert!(fs::read(paths[0]).unwrap() == before, "{words}");
    }
}

#[test]
fn no_picture_takes_the_place_of_its_classes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (rows, classes) = (path("k.npy"), path("c.svg"));
    run("embed karate --dim 4 --epochs 1 --out {}", &[&rows]).ok();
    fs::write(&classes, "0 a\n1 b\n").unwrap();
    let words = "embed picture --model {} --classes {} --out {}";
    let message = run(words, &[&rows, &classes, &classes]).error(2);
    assert!(message.contains("this is the input"), "{message}");
}

/// The folder of a run without checkpoints: the user made room, or it took no step.
#[test]
fn a_new_run_overwrites_nothing_that_was_learned() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let train = "train --steps 2 --run {}";
    let place = &*place_train(folder.path());
    let agent = "agent train cartpole-dqn --steps 300 --run {}";
    let rgcn = "rgcn train ba-rel:60:2:2 --epochs 1 --run {}";
    let refused = |words: &str, name: &str| {
        let run_folder = tempfile::tempdir().unwrap();
        let file = run_folder.path().join(name);
        fs::write(&file, "mine\n").unwrap();
        let message = run(words, &[run_folder.path()]).error(2);
        assert!(message.contains("would overwrite"), "{words}: {message}");
        assert!(message.contains(name), "{words}: {message}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
        assert_eq!(fs::read_dir(run_folder.path()).unwrap().count(), 1);
    };
    for (words, name) in [
        (train, "policy.safetensors"),
        (train, "policy.json"),
        (train, "metrics.jsonl"),
        (place, "policy.safetensors"),
        (place, "metrics.jsonl"),
        (agent, "weights.safetensors"),
        (agent, "metrics.jsonl"),
        (rgcn, "metrics.jsonl"),
    ] {
        refused(words, name);
    }
    let done: &Path = &path("done");
    run("train --steps 0 --run {}", &[done]).ok();
    let before = fs::read(done.join("policy.safetensors")).unwrap();
    run(train, &[done]).error(2);
    assert!(fs::read(done.join("policy.safetensors")).unwrap() == before);
}
