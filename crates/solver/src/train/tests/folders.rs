//! Folders of runs: resumed, damaged, foreign and wrong ones.

use std::fs;

use super::*;

#[test]
fn a_resumed_run_is_the_uninterrupted_one() {
    for target in [TargetRule::Recomputed, TargetRule::Stored] {
        let n_step = if target == TargetRule::Stored { 1 } else { 3 };
        let config = |steps| TrainConfig {
            target,
            n_step,
            ..small(steps)
        };
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let want = run(&config(90), &in_folder(whole.path(), false, 1));
        run(&config(37), &in_folder(parts.path(), false, 1)); // ends in the middle of an episode
        let got = run(&config(90), &in_folder(parts.path(), true, 2));
        assert_eq!(bits(&got), bits(&want));
        assert_eq!(got.reports, want.reports[37..]);
        for name in [
            "metrics.jsonl",
            "policy.safetensors",
            "checkpoint-0000000090/state.safetensors",
        ] {
            assert_eq!(file(parts.path(), name), file(whole.path(), name), "{name}");
        }
        assert_eq!(scalars(parts.path()), scalars(whole.path()));
    }
}

#[test]
fn the_event_file_says_what_the_lines_say() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(&small(40), &in_folder(folder.path(), false, 1));
    let mut want = Vec::new();
    for report in &outcome.reports {
        let mut put = |tag: &str, value: f32| {
            want.push((report.step, tag.to_string(), value.to_bits()));
        };
        put("train/epsilon", report.epsilon);
        if let Some(loss) = report.loss {
            put("train/loss", loss);
        }
        if let Some(size) = report.cover {
            put("train/objective", size as f32);
        }
    }
    assert!(want.len() > 40);
    assert_eq!(scalars(folder.path()), want);
}

/// A kill between two checkpoints leaves later metrics, perhaps a torn line, and perhaps half a checkpoint.
#[test]
fn a_damaged_newest_checkpoint_falls_back_to_the_one_before() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&small(60), &in_folder(whole.path(), false, 1));
    run(&small(40), &in_folder(parts.path(), false, 1));
    let newest = parts.path().join("checkpoint-0000000040");
    let state = newest.join("state.safetensors");
    let mut bytes = fs::read(&state).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&state, bytes).unwrap();
    fs::create_dir(parts.path().join("checkpoint-0000000060")).unwrap(); // no MANIFEST yet
    let metrics = parts.path().join("metrics.jsonl");
    let mut text = fs::read_to_string(&metrics).unwrap();
    text += "{\"step\":41,\"lo";
    fs::write(&metrics, text).unwrap();
    assert_eq!(scalars(parts.path()).last().unwrap().0, 40);
    let resumed = run(&small(60), &in_folder(parts.path(), true, 1));
    assert_eq!(resumed.reports[0].step, 21);
    for name in ["metrics.jsonl", "policy.safetensors"] {
        assert_eq!(file(parts.path(), name), file(whole.path(), name), "{name}");
    }
    assert_eq!(scalars(parts.path()), scalars(whole.path()));
}

#[test]
fn foreign_and_incomplete_folders_do_not_cost_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    run(&small(40), &in_folder(folder.path(), false, 1));
    for name in [
        "checkpoint-best",
        "checkpoint-0000009999",
        "checkpoint-0000009998",
    ] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("checkpoint-notes"), "mine").unwrap();
    run(&small(80), &in_folder(folder.path(), true, 1));
    let mut left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("checkpoint-"))
        .collect();
    left.sort();
    let want = [
        "checkpoint-0000000060",
        "checkpoint-0000000080",
        "checkpoint-best",
        "checkpoint-notes",
    ];
    assert_eq!(left, want);
}

/// While the memory fills up, ranks do not communicate: each must have what it needs from the start.
#[test]
fn many_ranks_resume_together() {
    let folder = tempfile::tempdir().unwrap();
    let config = |steps| TrainConfig {
        batch_size: 500,
        checkpoint_steps: 1,
        ..small(steps)
    };
    run(&config(5), &in_folder(folder.path(), false, 1));
    let got = run(&config(25), &in_folder(folder.path(), true, 16));
    assert_eq!(got.reports.len(), 20);
}

#[test]
fn folders_are_not_overwritten_and_resuming_needs_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let why = |steps, options: &RunOptions| {
        train(&small(steps), options, &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    let fresh = in_folder(folder.path(), false, 1);
    let resumed = in_folder(folder.path(), true, 1);
    assert!(why(5, &resumed).contains("no complete checkpoint"));
    run(&small(25), &fresh);
    assert!(why(5, &fresh).contains("has a run already"));
    assert!(why(24, &resumed).contains("the run is at step 25 already"));
    assert!(
        why(
            5,
            &RunOptions {
                n_ranks: 0,
                ..RunOptions::default()
            }
        )
        .contains("expected 1 to 1024")
    );
    if cfg!(unix) {
        let held = fs::File::open(folder.path()).unwrap();
        held.lock().unwrap();
        assert!(why(50, &resumed).contains("another process trains in this folder"));
    }
}

#[test]
fn a_checkpoint_under_another_step_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(&small(20), &in_folder(folder.path(), false, 1));
    let path = |step: u64| folder.path().join(format!("checkpoint-{step:010}"));
    fs::rename(path(20), path(30)).unwrap();
    let resumed = in_folder(folder.path(), true, 1);
    let error = train(&small(40), &resumed, &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("its folder was renamed"),
        "{error}"
    );
}

#[test]
fn an_empty_manifest_is_an_incomplete_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    run(&small(40), &in_folder(folder.path(), false, 1));
    fs::write(folder.path().join("checkpoint-0000000040/MANIFEST"), "").unwrap();
    let resumed = run(&small(45), &in_folder(folder.path(), true, 1));
    assert_eq!(resumed.reports[0].step, 21);
}

#[test]
fn wrong_graphs_leave_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for graph in ["er:10:0", "er:0:0.5", "nowhere.txt"] {
        let config = TrainConfig {
            graphs: vec![graph.into()],
            ..small(5)
        };
        assert!(train(&config, &in_folder(&out, false, 1), &mut |_| ()).is_err());
        assert!(!out.exists(), "{graph}");
    }
}

#[test]
fn metrics_with_a_damaged_line_keep_the_others() {
    let folder = tempfile::tempdir().unwrap();
    run(&small(30), &in_folder(folder.path(), false, 1));
    let path = folder.path().join("metrics.jsonl");
    let want = fs::read(&path).unwrap();
    let mut damaged = want.clone();
    damaged.extend_from_slice(b"\xff\xfe");
    fs::write(&path, damaged).unwrap();
    run(&small(30), &in_folder(folder.path(), true, 1));
    assert_eq!(fs::read(&path).unwrap(), want);
}

#[test]
fn graph_files_train_without_their_weights_and_must_stay_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let header = |kind: &str| format!("%%MatrixMarket matrix coordinate {kind} symmetric\n6 6 7\n");
    let edges = ["2 1", "3 1", "4 2", "5 3", "6 4", "6 5", "5 2"];
    let weighted: Vec<String> = edges.iter().map(|edge| format!("{edge} 2.5")).collect();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let plain = write("plain.mtx", header("pattern") + &edges.join("\n") + "\n");
    let heavy = write("heavy.mtx", header("real") + &weighted.join("\n") + "\n");
    let config = |graph: &str| TrainConfig {
        graphs: vec![graph.into()],
        n_layers: 3,
        ..small(40)
    };
    let outcome = |graph: &str| bits(&run(&config(graph), &RunOptions::default()));
    assert_eq!(outcome(&plain), outcome(&heavy));

    let out = folder.path().join("run");
    run(&config(&plain), &in_folder(&out, false, 1));
    write(
        "plain.mtx",
        header("pattern").replace(" 7", " 6") + &edges[..6].join("\n") + "\n",
    );
    let longer = TrainConfig {
        steps: 60,
        ..config(&plain)
    };
    let error = train(&longer, &in_folder(&out, true, 1), &mut |_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("is not the graph that the run was started with"),
        "{error}"
    );
}
