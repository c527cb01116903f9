//! `shardgraph rgcn train`, `eval` and `predict`: ranks that change nothing, runs that go on, accuracy on real data, bad input.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{listing, run};

const SMALL: &str = "rgcn train ba-rel:1500:2.5:6 --preset paper --epochs 4 --format json";

/// The files of a data set beside the checkout, or a printed skip.
fn data(name: &str, files: [&str; 3]) -> Option<[PathBuf; 3]> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rdf");
    let folder = shared.join(name);
    if folder.is_dir() {
        return Some(files.map(|file| folder.join(file)));
    }
    println!(
        "SKIPPED: training on {name} (no folder {})",
        folder.display()
    );
    None
}

fn number(answer: &Value, key: &str) -> f64 {
    let value = answer[key].as_f64();
    value.unwrap_or_else(|| panic!("no number {key} in {answer}"))
}

/// What would do nothing is refused.
#[test]
fn checkpoints_without_a_folder_are_refused() {
    for (words, reason) in [
        ("--checkpoint-epochs 1", "checkpoints need a folder"),
        ("--checkpoint-interval 1", "checkpoints need a folder"),
        ("--checkpoint-interval=-1 --run x", "expected a duration"),
        (
            "--seed 18446744073709551615 --repeats 3",
            "there are no 3 seeds",
        ),
    ] {
        let words = format!("rgcn train ba-rel:60:2:2 --epochs 1 {words}");
        let message = run(&words, &[]).error(2);
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn ranks_and_modes_change_nothing() {
    let whole = run(SMALL, &[]).json();
    assert_eq!(
        (&whole["mode"], &whole["ranks"]),
        (&"pruned".into(), &1.into())
    );
    let parts = run(&format!("{SMALL} --ranks 3"), &[]).json();
    for key in ["final_loss", "params_hash", "evaluation"] {
        assert_eq!(whole[key], parts[key], "{key}");
    }
    assert_eq!(parts["bytes_per_rank"].as_array().unwrap().len(), 3);
    let full = run(&format!("{SMALL} --mode full"), &[]).json();
    let (full, pruned) = (number(&full, "final_loss"), number(&whole, "final_loss"));
    assert!((full / pruned - 1.0).abs() < 1e-5, "{full} {pruned}");
    let other = run(&format!("{SMALL} --seed 1"), &[]).json();
    assert_ne!(other["params_hash"], whole["params_hash"]);
}

/// A file's settings lie over the preset's and under the flags'; what is none is refused, with its file and key.
#[test]
fn settings_come_from_a_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let (toml, json) = (path("c.toml"), path("c.json"));
    fs::write(
        &toml,
        "preset = 'paper'\nhidden = [5]\nrate = 0.5\nsums = 'float'\n",
    )
    .unwrap();
    let text = r#"{"preset": "paper", "hidden": [5], "rate": 0.5, "sums": "float"}"#;
    fs::write(&json, text).unwrap();
    let words = "rgcn train ba-rel:300:2.5:5 --epochs 2 --format json";
    let flags = format!("{words} --preset paper --hidden 5 --learning-rate 0.25 --sums float");
    let expected = run(&flags, &[]).json();
    for file in [&toml, &json] {
        let found = run(
            &format!("{words} --config {{}} --learning-rate 0.25"),
            &[file],
        )
        .json();
        assert_eq!(found["settings"], expected["settings"]);
        assert_eq!(found["params_hash"], expected["params_hash"]);
    }
    for (text, key) in [
        ("hiden = [5]\n", "hiden"),
        ("hidden = [nan]\n", "`hidden`: expected a finite number"),
        ("preset = 3\n", "`preset`: invalid type: integer `3`"),
        ("rate = 'fast'\n", "rate"),
        ("rate = nan\n", "rate"),
        (
            "features = true\n",
            "expected false, or the flag --features",
        ),
        ("features = 1\n", "expected false, or the flag --features"),
        ("preset = 'none'\n", "preset"),
        ("rate = -1\n", "rate"),
    ] {
        fs::write(&toml, text).unwrap();
        let message = run(&format!("{words} --config {{}}"), &[&toml]).error(2);
        assert!(message.contains(key), "{text}: {message}");
    }
    let message = run(&format!("{words} --config {{}}"), &[&path("none")]).error(2);
    assert!(message.contains("none"), "{message}");
}

/// Weights of classes are a setting of the answer, and any number of ranks has the same bits.
#[test]
fn balanced_classes_are_a_setting() {
    let words = "rgcn train ba-rel:300:2.5:5 --epochs 3 --hidden 8 --format json";
    let plain = run(words, &[]).json();
    assert_eq!(plain["settings"]["class_weights"], "none");
    let balanced = run(&format!("{words} --class-weights balanced"), &[]).json();
    assert_eq!(balanced["settings"]["class_weights"], "balanced");
    let ranks = run(&format!("{words} --class-weights balanced --ranks 3"), &[]).json();
    assert_eq!(balanced["params_hash"], ranks["params_hash"]);
    let message = run(&format!("{words} --class-weights heavy"), &[]).error(2);
    assert!(message.contains("none or balanced"), "{message}");
}

/// What an answer says of its settings is a file of settings.
#[test]
fn the_settings_of_an_answer_are_read_again() {
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("c.json");
    let words = "rgcn train ba-rel:300:2.5:5 --epochs 2 --format json";
    let expected = run(&format!("{words} --hidden 5 --sums float"), &[]).json();
    for features in [json!(false), Value::Null] {
        let mut settings = expected["settings"].clone();
        assert_eq!(settings["features"], false);
        settings["features"] = features;
        fs::write(&json, settings.to_string()).unwrap();
        let found = run(&format!("{words} --config {{}}"), &[&json]).json();
        assert_eq!(found["settings"], expected["settings"]);
        assert_eq!(found["params_hash"], expected["params_hash"]);
    }
}

/// The baseline of the paper builds W_r of all relations and nodes: the same model, its bytes said, and a run that cannot be is refused.
#[test]
fn the_baseline_builds_all_weights_for_the_same_model() {
    let words = "rgcn train ba-rel:300:2.5:5 --preset paper --mode full --epochs 3 --format json";
    let whole = run(words, &[]).json();
    let built = run(&format!("{words} --execution paper"), &[]).json();
    for key in ["final_loss", "params_hash", "evaluation", "weight_bytes"] {
        assert_eq!(whole[key], built[key], "{key}");
    }
    // Five relations, their inverses and the self loop, 300 nodes, 16 units of 4 bytes.
    let n_bytes = 11 * 300 * 16 * 4;
    assert_eq!(built["weight_bytes"], n_bytes);
    let held = |answer: &Value| answer["bytes_per_rank"][0].as_u64().unwrap();
    assert_eq!(held(&built) - held(&whole), n_bytes);
    // Two ranks deal the relations: W_r of each is built once, and gradients are added in another order.
    let dealt = format!("{words} --execution paper --ranks 2 --partition m1");
    let dealt = run(&dealt, &[]).json();
    let devices = dealt["devices"].as_array().unwrap().iter();
    let weights: Vec<u64> = devices
        .map(|device| device["weight_bytes"].as_u64().unwrap())
        .collect();
    assert!(weights.len() == 2 && weights.iter().all(|&bytes| bytes > 0));
    assert_eq!(weights.iter().sum::<u64>(), n_bytes);
    let loss = |answer: &Value| number(answer, "final_loss");
    assert!((loss(&dealt) / loss(&whole) - 1.0).abs() < 1e-4);
    for (flags, expected) in [
        ("--ranks 2", "execution = paper"),
        ("--bases 0", "execution = paper"),
        ("--device-memory 1MiB", "execution = paper"),
        ("--memory-limit 1MiB", "of it W_r and its gradient"),
    ] {
        let message = run(&format!("{words} --execution paper {flags}"), &[]).error(2);
        assert!(message.contains(expected), "{flags}: {message}");
    }
}

#[test]
fn a_run_goes_on_and_its_model_is_read_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (whole, parts) = (scratch.path().join("whole"), scratch.path().join("parts"));
    let words = "rgcn train ba-rel:1500:2.5:6 --preset paper --checkpoint-epochs 1 --format json";
    let expected = run(&format!("{words} --epochs 5 --run {{}}"), &[&whole]).json();
    run(
        &format!("{words} --epochs 2 --run {{}} --ranks 2"),
        &[&parts],
    )
    .ok();
    let again = "rgcn train ba-rel:1500:2.5:6 --epochs 5 --format json --run {} --resume";
    let resumed = run(again, &[&parts]).json();
    for key in ["final_loss", "params_hash", "evaluation"] {
        assert_eq!(expected[key], resumed[key], "{key}");
    }
    assert_eq!(resumed["settings"]["bases"], 40);
    let to_its_end = "rgcn train ba-rel:1500:2.5:6 --format json --run {} --resume";
    let at_its_end = run(to_its_end, &[&parts]).json();
    assert_eq!(at_its_end["params_hash"], expected["params_hash"]);
    let metrics = |folder: &Path| fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    assert_eq!(metrics(&whole), metrics(&parts));
    let evaluation = run(
        "rgcn eval ba-rel:1500:2.5:6 --model {} --format json",
        &[&parts],
    )
    .json();
    assert_eq!(evaluation["test"], expected["evaluation"]["test"]);
    assert_eq!(evaluation["confusion"], expected["evaluation"]["confusion"]);
    let words = "rgcn predict ba-rel:1500:2.5:6 --model {} --node 7 --node 3 --format json";
    let answer = run(words, &[&parts]).json();
    let predictions = answer["predictions"].as_array().unwrap();
    assert_eq!(
        (predictions.len(), &predictions[1]["node"]),
        (2, &"3".into())
    );
    classes_of_many_nodes(&parts, &predictions[1]);
}

/// All nodes, or those of a file, with probabilities that sum to 1; `third` is the prediction of node 3.
fn classes_of_many_nodes(model: &Path, third: &Value) {
    let scratch = tempfile::tempdir().unwrap();
    let (table, list) = (
        scratch.path().join("classes.csv"),
        scratch.path().join("list.txt"),
    );
    let words = "rgcn predict ba-rel:1500:2.5:6 --model {} --all-nodes --out {} --format json";
    let answer = run(words, &[model, &table]).json();
    assert_eq!(answer["predicted_nodes"], 1500);
    let text = fs::read_to_string(&table).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), &rows[0][..2]), (1501, &["node", "class"][..]));
    for row in &rows[1..] {
        let probabilities = row[2..].iter().map(|p| p.parse::<f64>().unwrap());
        let probabilities: Vec<f64> = probabilities.collect();
        let sum: f64 = probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{row:?}");
        let largest = probabilities.iter().copied().fold(0.0, f64::max);
        let class = rows[0].iter().position(|name| *name == row[1]).unwrap();
        assert!(largest - probabilities[class - 2] < 1e-6, "{row:?}");
    }
    assert_eq!(rows[4][1], third["class"].as_str().unwrap());
    fs::write(&list, "3\n\n7\n").unwrap();
    let words = "rgcn predict ba-rel:1500:2.5:6 --model {} --node-file {} --format json";
    let answer = run(words, &[model, &list]).json();
    assert_eq!(&answer["predictions"][0], third);
    fs::write(&list, "3\nnobody\n").unwrap();
    let message = run(words, &[model, &list]).error(2);
    assert!(
        message.contains("list.txt:2: nobody: the graph has no such node"),
        "{message}"
    );
}

#[test]
fn what_cannot_be_right_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (out, triples) = (scratch.path().join("out"), scratch.path().join("g.nt"));
    fs::write(&triples, "<http://a> <http://r> <http://b> .\n").unwrap();
    let message = run("rgcn train {} --run {}", &[&triples, &out]).error(2);
    assert!(message.contains("training needs labels"), "{message}");
    let graph = "rgcn train ba-rel:400:2:3 --run {}";
    for (flags, expected) in [
        ("--learning-rate 0", "rate = 0"),
        ("--hidden 0", "hidden = [0]"),
        ("--hidden x", "hidden = x"),
        ("--dropout 1", "dropout = 1"),
        ("--bases 9999", "bases = 9999"),
        ("--epochs 0", "epochs = 0"),
        ("--ranks 0", "ranks = 0"),
        ("--mode half", "full or pruned"),
        ("--repeats 2", "cannot be used with"),
    ] {
        let message = run(&format!("{graph} {flags}"), &[&out]).error(2);
        assert!(message.contains(expected), "{flags}: {message}");
        assert!(!out.exists(), "{flags}");
    }
    let diverged = "rgcn train ba-rel:400:2:3 --optimiser sgd --bases 2 --learning-rate 1e30";
    let message = run(diverged, &[]).error(1);
    assert!(message.contains("smaller --learning-rate"), "{message}");
    run("rgcn train ba-rel:400:2:3 --epochs 2 --run {}", &[&out]).ok();
    let files = listing(&out);
    let taken = run("rgcn train ba-rel:400:2:3 --epochs 2 --run {}", &[&out]).error(2);
    assert!(taken.contains("has a run already"), "{taken}");
    let other = run(
        "rgcn train ba-rel:401:2:3 --epochs 3 --run {} --resume",
        &[&out],
    )
    .error(2);
    assert!(other.contains("another graph"), "{other}");
    let settings = run(
        "rgcn train ba-rel:400:2:3 --epochs 3 --learning-rate 1 --run {} --resume",
        &[&out],
    )
    .error(2);
    assert!(settings.contains("--epochs alone"), "{settings}");
    let unknown = run("rgcn predict ba-rel:400:2:3 --model {} --node 400", &[&out]).error(2);
    assert!(unknown.contains("no such node"), "{unknown}");
    assert_eq!(listing(&out), files);
}

#[test]
fn aifb_is_learnt() {
    let files = ["aifb_stripped.nt.gz", "trainingSet.tsv", "testSet.tsv"];
    let Some([graph, train, test]) = data("aifb", files) else {
        return;
    };
    let words = "rgcn train {} --train {} --test {} --repeats 2 --format json";
    let answer = run(words, &[&graph, &train, &test]).json();
    assert!(number(&answer, "accuracy_mean") > 0.85, "{answer}");
    assert!(number(&answer, "final_loss") < 0.1, "{answer}");
    assert_eq!(answer["evaluation"]["test"]["n_nodes"], 36);
}

#[test]
fn a_curve_has_a_line_for_each_seed() {
    let scratch = tempfile::tempdir().unwrap();
    let curve = scratch.path().join("curve.svg");
    let words = "rgcn train ba-rel:400:2:3 --epochs 3 --repeats 2 --input-dim 4 --svg {}";
    run(words, &[&curve]).ok();
    let svg = fs::read_to_string(&curve).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 4);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    let (graph, labels) = (scratch.path().join("g.csv"), scratch.path().join("t.csv"));
    fs::write(&graph, "0,0,1\n1,0,2\n2,0,3\n").unwrap();
    fs::write(&labels, "0,3\n1,5\n").unwrap();
    let words = "rgcn train {} --train {} --epochs 3 --svg {}";
    let lost = run(words, &[&graph, &labels, &labels]).error(2);
    assert!(lost.contains("would be lost"), "{lost}");
    let settings = scratch.path().join("c.toml");
    fs::write(&settings, "rate = 0.5\n").unwrap();
    let words = "rgcn train {} --train {} --epochs 3 --config {} --svg {}";
    let lost = run(words, &[&graph, &labels, &settings, &settings]).error(2);
    assert!(lost.contains("would be lost"), "{lost}");
    assert_eq!(fs::read(&settings).unwrap(), b"rate = 0.5\n");
    let out = scratch.path().join("out");
    let trained = "rgcn train {} --train {} --epochs 30 --run {} --format json";
    let answer = run(trained, &[&graph, &labels, &out]).json();
    assert_eq!(answer["accuracy_of"], "train");
    let named = run("rgcn predict {} --model {} --node 1", &[&graph, &out]).ok();
    assert_eq!(named.stdout, "1\t5\n", "the class as its file calls it");
    fs::write(&labels, "0,3\n1,7\n").unwrap();
    let other = run(
        "rgcn eval {} --train {} --model {}",
        &[&graph, &labels, &out],
    )
    .error(2);
    assert!(other.contains("expected those of the run, 3, 5"), "{other}");
    let nowhere = scratch.path().join("no/curve.svg");
    let words = "rgcn train ba-rel:400:2:3 --epochs 3 --svg {}";
    let message = run(words, &[&nowhere]).error(2);
    assert!(message.contains("its folder does not exist"), "{message}");
}

/// Held-back labels find the number of epochs, with which all of them are learnt from; batches with whole
/// neighbourhoods learn the same classes.
#[test]
fn validation_and_batches_are_in_the_answer() {
    let words = "rgcn train ba-rel:400:2.5:4 --bases 4 --hidden 4 --format json";
    let chosen = run(
        &format!("{words} --valid-share 0.2 --epochs 6 --repeats 2"),
        &[],
    )
    .json();
    let epochs = chosen["best_epochs"].as_array().unwrap();
    assert!(
        epochs.len() == 2
            && epochs
                .iter()
                .all(|n| (1..=24).contains(&n.as_u64().unwrap()))
    );
    let first = epochs[0].as_u64().unwrap();
    let fixed = run(&format!("{words} --epochs {first}"), &[]).json();
    assert_eq!(fixed["params_hash"][0], chosen["params_hash"][0]);
    assert_eq!(chosen["rank_times"].as_array().unwrap().len(), 1);
    let batches = run(&format!("{words} --epochs 3 --batch 16 --fan-out 2"), &[]).json();
    assert!(number(&batches, "accuracy_mean") > 0.0);
    let words_of_ranks = format!("{words} --epochs 3 --batch 16 --fan-out 2 --ranks 2");
    let shared = run(&words_of_ranks, &[]).json();
    for key in ["params_hash", "final_loss", "evaluation"] {
        assert_eq!(shared[key], batches[key], "{key}");
    }
    assert_eq!(shared["rank_times"].as_array().unwrap().len(), 2);
    let message = run(&format!("{words} --patience 3"), &[]).error(2);
    assert!(message.contains("patience = 3: expected 0"), "{message}");
}

/// A model of features knows the nodes of a larger file, whose relations come in another order; one-hot input does not.
#[test]
fn new_nodes_are_classified_where_features_are_given() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let known = "a\tlikes\tb\nb\tknows\tc\nc\tlikes\td\n";
    write("known.tsv", known);
    write("larger.tsv", &format!("e\tknows\tc\n{known}e\tlikes\tb\n"));
    write("stranger.tsv", &format!("{known}e\thates\tb\n"));
    write("known.csv", "node,x\na,1\nb,0\nc,1\nd,0\n");
    write("larger.csv", "node,x\na,1\nb,0\nc,1\nd,0\ne,1\n");
    write("labels.csv", "node,class\na,red\nb,blue\nc,red\nd,blue\n");
    let file = |name: &str| path(name).display().to_string();
    let train = |run_name: &str, more: &str| {
        let words = format!(
            "rgcn train {} --train {} --epochs 60",
            file("known.tsv"),
            file("labels.csv")
        );
        run(&format!("{words} --run {} {more}", file(run_name)), &[]).ok();
    };
    train("given", &format!("--features {}", file("known.csv")));
    train("one-hot", "");
    let ask = |graph: &str, model: &str, more: &str| {
        run(
            &format!(
                "rgcn predict {} --model {} {more}",
                file(graph),
                file(model)
            ),
            &[],
        )
    };
    let given = format!("--features {} --node e --node b", file("larger.csv"));
    assert_eq!(
        ask("larger.tsv", "given", &given).ok().stdout,
        "e\tred\nb\tblue\n"
    );
    let message = ask("stranger.tsv", "given", &given).error(2);
    assert!(
        message.contains("hates: the model has not learnt this relation"),
        "{message}"
    );
    let message = ask("larger.tsv", "one-hot", "--node e").error(2);
    assert!(
        message.contains("models with --features alone"),
        "{message}"
    );
}
