//! Properties of training: ranks, resuming, checkpoints, settings, and that it learns.

use std::fs;
use std::path::Path;

use super::{Preset, RunOptions, StepReport, TargetRule, TrainConfig, TrainOutcome, train};

fn small(steps: u64) -> TrainConfig {
    TrainConfig {
        steps,
        batch_size: 8,
        embed_dim: 8,
        graphs_per_generator: 5,
        checkpoint_steps: 20,
        target_sync_steps: 15,
        epsilon_decay_steps: 30,
        ..TrainConfig::default()
    }
}

fn run(config: &TrainConfig, options: &RunOptions) -> TrainOutcome {
    train(config, options, &mut |_| ()).unwrap()
}

fn bits(outcome: &TrainOutcome) -> Vec<u32> {
    outcome
        .policy
        .params
        .flat()
        .iter()
        .map(|x| x.to_bits())
        .collect()
}

#[test]
fn ranks_train_the_same_bits() {
    let variants = [
        small(50),
        TrainConfig {
            n_layers: 3,
            gradient_iterations: 2,
            ..small(50)
        },
        TrainConfig {
            batch_size: 8,
            embed_dim: 8,
            steps: 50,
            ..TrainConfig::preset(Preset::Paper)
        },
        TrainConfig {
            graphs: vec!["er:70:0.1".to_string()],
            huber_delta: Some(1.0),
            ..small(50)
        },
    ];
    for config in variants {
        let want = run(&config, &RunOptions::default());
        assert!(
            want.reports.iter().any(|report| report.loss.is_some()),
            "it did train"
        );
        for n_ranks in 2..=6 {
            let got = run(
                &config,
                &RunOptions {
                    n_ranks,
                    ..RunOptions::default()
                },
            );
            assert_eq!(bits(&got), bits(&want), "{n_ranks} ranks");
            assert_eq!(got.reports, want.reports);
        }
    }
}

fn in_folder(folder: &Path, resume: bool, n_ranks: u32) -> RunOptions {
    RunOptions {
        folder: Some(folder.to_path_buf()),
        resume,
        n_ranks,
        ..RunOptions::default()
    }
}

fn file(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

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
    }
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
    let resumed = run(&small(60), &in_folder(parts.path(), true, 1));
    assert_eq!(resumed.reports[0].step, 21);
    for name in ["metrics.jsonl", "policy.safetensors"] {
        assert_eq!(file(parts.path(), name), file(whole.path(), name), "{name}");
    }
}

#[test]
fn folders_are_not_overwritten_and_resuming_needs_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let why = |options: &RunOptions| {
        train(&small(5), options, &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(why(&in_folder(folder.path(), true, 1)).contains("no complete checkpoint"));
    run(&small(5), &in_folder(folder.path(), false, 1));
    assert!(why(&in_folder(folder.path(), false, 1)).contains("has a run already"));
    assert!(
        why(&RunOptions {
            n_ranks: 0,
            ..RunOptions::default()
        })
        .contains("expected 1 to 1024")
    );
}

#[test]
fn wrong_settings_are_named() {
    let why = |config: TrainConfig| {
        train(&config, &RunOptions::default(), &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    let base = || small(5);
    assert!(
        why(TrainConfig {
            batch_size: 0,
            ..base()
        })
        .contains("batch_size: at least 1")
    );
    assert!(
        why(TrainConfig {
            gamma: 1.5,
            ..base()
        })
        .contains("gamma: 0 to 1")
    );
    assert!(
        why(TrainConfig {
            learning_rate: f32::NAN,
            ..base()
        })
        .contains("learning_rate: above 0")
    );
    assert!(
        why(TrainConfig {
            graphs: vec![],
            ..base()
        })
        .contains("graphs: at least one")
    );
    assert!(
        why(TrainConfig {
            graphs: vec!["er:20:0".into()],
            ..base()
        })
        .contains("at least one edge")
    );
    assert!(
        why(TrainConfig {
            graphs: vec!["nowhere.txt".into()],
            ..base()
        })
        .contains("nowhere.txt")
    );
    assert!(
        why(TrainConfig {
            embed_dim: 0,
            ..base()
        })
        .contains("embedding columns")
    );
    assert!(
        why(TrainConfig {
            learning_rate: 1e30,
            ..small(60)
        })
        .contains("training diverged")
    );
    let unknown = serde_json::from_str::<TrainConfig>("{\"sttps\": 3}")
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("unknown field `sttps`"), "{unknown}");
}

#[test]
fn a_short_run_learns_to_cover_small_graphs() {
    let config = TrainConfig {
        steps: 700,
        seed: 3,
        ..TrainConfig::default()
    };
    let outcome = run(&config, &RunOptions::default());
    let mean = |reports: &[StepReport]| {
        let losses: Vec<f32> = reports.iter().filter_map(|report| report.loss).collect();
        losses.iter().sum::<f32>() / losses.len() as f32
    };
    let (early, late) = (mean(&outcome.reports[..100]), mean(&outcome.reports[600..]));
    assert!(late < 0.5 * early, "loss {early} became {late}");
}
