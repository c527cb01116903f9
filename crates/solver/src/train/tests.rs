//! Properties of training: ranks, resuming, checkpoints, settings, and that it learns.

use std::fs;
use std::path::Path;

use shardgraph_collectives::tcp;
use shardgraph_job::{Scalar, read_scalars};

use super::{
    InitialRule, PickRule, Preset, RunOptions, StepReport, TargetRule, TrainConfig, TrainOutcome,
    train, train_as_rank,
};
use shardgraph_error::Class;

mod counted;
mod folders;
mod parallel;
mod sharing;
mod validation;

pub(super) fn small(steps: u64) -> TrainConfig {
    TrainConfig {
        steps,
        batch_size: 8,
        embed_dim: 8,
        graphs_per_generator: 5,
        checkpoint_steps: 20,
        target_sync_steps: 15,
        epsilon_decay_steps: 30,
        picks: PickRule::Answer,
        initial: InitialRule::Random,
        ..TrainConfig::default()
    }
}

pub(super) fn run(config: &TrainConfig, options: &RunOptions) -> TrainOutcome {
    train(config, options, &mut |_| ()).unwrap()
}

pub(super) fn bits(outcome: &TrainOutcome) -> Vec<u32> {
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

/// Training on a device that launches kernels: near the host's parameters after some steps, and the same bits for every
/// number of ranks and over a resume.
#[test]
fn devices_train() {
    for device in crate::on_device::tests::gpus() {
        for n_layers in [2, 3] {
            let config = TrainConfig {
                n_layers,
                checkpoint_steps: 8,
                ..small(16)
            };
            let on = |n_ranks: u32| RunOptions {
                device: device.clone(),
                n_ranks,
                ..RunOptions::default()
            };
            let want = run(&config, &on(1));
            assert!(want.reports.iter().any(|report| report.loss.is_some()));
            let host = run(&config, &RunOptions::default());
            assert_eq!(host.reports.len(), want.reports.len());
            let (got, on_host) = (want.policy.params.flat(), host.policy.params.flat());
            let far = got
                .iter()
                .zip(on_host)
                .find(|(a, b)| (**a - **b).abs() > 1e-3);
            assert!(far.is_none(), "{far:?} after 16 steps");
            assert_eq!(bits(&run(&config, &on(3))), bits(&want), "3 ranks");
            let folder = tempfile::tempdir().unwrap();
            let stopped = TrainConfig {
                steps: 8,
                ..config.clone()
            };
            let resumed = |resume| RunOptions {
                device: device.clone(),
                ..in_folder(folder.path(), resume, 1)
            };
            run(&stopped, &resumed(false));
            assert_eq!(
                bits(&run(&config, &resumed(true))),
                bits(&want),
                "after a resume"
            );
        }
    }
}

pub(super) fn in_folder(folder: &Path, resume: bool, n_ranks: u32) -> RunOptions {
    RunOptions {
        folder: Some(folder.to_path_buf()),
        resume,
        n_ranks,
        ..RunOptions::default()
    }
}

pub(super) fn file(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// The event file but for its times.
pub(super) fn scalars(folder: &Path) -> Vec<(u64, String, u32)> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let is_events = |name: &str| name.starts_with("events.out.tfevents.");
    let mut events = names.filter(|entry| entry.file_name().to_str().is_some_and(is_events));
    let path = events.next().expect("an event file").path();
    assert!(events.next().is_none(), "one event file");
    let bits = |scalar: Scalar| (scalar.step, scalar.tag, scalar.value.to_bits());
    read_scalars(&path).unwrap().into_iter().map(bits).collect()
}

/// Why a run with these settings ends.
pub(super) fn why(config: TrainConfig) -> String {
    train(&config, &RunOptions::default(), &mut |_| ())
        .unwrap_err()
        .to_string()
}

#[test]
fn wrong_settings_are_named() {
    let base = || small(5);
    assert!(
        why(TrainConfig {
            batch_size: 0,
            ..base()
        })
        .contains("training settings: `batch_size`: expected at least 1; found 0")
    );
    assert!(
        why(TrainConfig {
            gamma: 1.5,
            ..base()
        })
        .contains("`gamma`: expected 0 to 1; found 1.5")
    );
    assert!(
        why(TrainConfig {
            learning_rate: f32::NAN,
            ..base()
        })
        .contains("`learning_rate`: expected above 0; found NaN")
    );
    assert!(
        why(TrainConfig {
            graphs: vec![],
            ..base()
        })
        .contains("`graphs`: expected at least one; found none")
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
        .contains("`embed_dim`: expected 1 to 4096; found 0")
    );
    assert!(
        why(TrainConfig {
            n_layers: 65,
            ..base()
        })
        .contains("`n_layers`: expected 1 to 64; found 65")
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

/// A run whose scores leave the range of numbers says so, whatever reads them first.
#[test]
fn scores_beyond_numbers_are_a_run_that_diverged() {
    // Picks by the policy alone: the scores tell before a loss does.
    assert!(
        why(TrainConfig {
            learning_rate: 1e30,
            epsilon_start: 0.0,
            epsilon_end: 0.0,
            ..small(60)
        })
        .contains("a score is")
    );
    // Stored targets are read off the scores before any loss is; random picks ask for none.
    let stored = why(TrainConfig {
        learning_rate: 1e30,
        target: TargetRule::Stored,
        n_step: 1,
        epsilon_start: 1.0,
        epsilon_end: 1.0,
        ..small(60)
    });
    assert!(stored.contains("training diverged at step"), "{stored}");
}

#[test]
fn the_number_of_graphs_has_bounds() {
    for n_graphs in [0, (1 << 32) + 1, 1 << 63, u64::MAX] {
        let why = why(TrainConfig {
            graphs_per_generator: n_graphs,
            ..small(5)
        });
        let found = format!("`graphs_per_generator`: expected 1 to 2^32; found {n_graphs}");
        assert!(why.contains(&found), "{why}");
    }
}

/// Covers of held-out graphs, larger than those of training.
fn covers(policy: &crate::TrainedPolicy) -> usize {
    let spec: shardgraph_graph::generate::GeneratorSpec = "er:60:0.15".parse().unwrap();
    let cover = |seed: u64| {
        let graph = shardgraph_shard::Adjacency::from_graph(spec.graph(seed).unwrap());
        let options = crate::SolveOptions::default();
        crate::solve(&graph, policy, &options, &mut |_, _| ())
            .unwrap()
            .nodes
            .len()
    };
    (7000..7020).map(cover).sum()
}

#[test]
fn short_runs_learn_to_cover_graphs_that_they_never_saw() {
    let mean = |reports: &[StepReport]| {
        let losses: Vec<f32> = reports.iter().filter_map(|report| report.loss).collect();
        losses.iter().sum::<f32>() / losses.len() as f32
    };
    // A random policy can be lucky, so three runs count together.
    let (mut untrained, mut trained) = (0, 0);
    for seed in 1..=3 {
        let config = TrainConfig {
            steps: 700,
            seed,
            picks: PickRule::Answer,
            initial: InitialRule::Random,
            // Without a discount the values, and so the losses, grow before they settle.
            gamma: 0.9,
            ..TrainConfig::default()
        };
        let before = run(
            &TrainConfig {
                steps: 0,
                ..config.clone()
            },
            &RunOptions::default(),
        );
        let after = run(&config, &RunOptions::default());
        let (early, late) = (mean(&after.reports[..100]), mean(&after.reports[600..]));
        assert!(late < early, "loss {early} became {late}");
        untrained += covers(&before.policy);
        trained += covers(&after.policy);
    }
    assert!(
        100 * trained < 97 * untrained,
        "covers of {untrained} nodes became {trained}"
    );
}

/// The same network, picks and weights as for independent sets; objectives are those of the covers.
#[test]
fn covers_are_learnt_by_their_complements() {
    let of = |problem: &str, picks| {
        let config = TrainConfig {
            problem: problem.to_owned(),
            picks,
            graphs: vec!["ba:20:3".to_owned()],
            valid: vec!["ba:30:3".to_owned()],
            valid_steps: 10,
            ..small(80)
        };
        run(&config, &RunOptions::default())
    };
    let covers = of("mvc", PickRule::Complement);
    let sets = of("mis", PickRule::Answer);
    assert_eq!(covers.policy.config, sets.policy.config);
    let mut n_ended = 0;
    for (cover, set) in covers.reports.iter().zip(&sets.reports) {
        assert_eq!(cover.loss, set.loss);
        assert_eq!(cover.cover.is_some(), set.objective.is_some());
        n_ended += cover.n_ended();
        let both = cover.cover.zip(set.objective);
        assert!(both.is_none_or(|(cover, set)| cover + set as usize == 20));
        let both = cover.eval.zip(set.eval);
        assert!(
            both.is_none_or(|(cover, set)| {
                (cover.objective + set.objective - 30.0).abs() < 1e-9
            })
        );
    }
    assert!(n_ended > 2 && covers.best.is_some());
    let baseline = |outcome: &TrainOutcome| outcome.best.unwrap().1.baseline;
    let picked = of("mvc", PickRule::Answer);
    assert!((baseline(&covers) - baseline(&picked)).abs() < 1e-9);
    assert_eq!(picked.policy.config.problem, "mvc");
}

/// One rank of a world of processes does what a thread does, with the folder and over a resume.
#[test]
fn processes_train_the_same_bits_and_files() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let want = run(&small(60), &in_folder(whole.path(), false, 1));
    let as_ranks = |n_ranks: u32, steps: u64, resume: bool| {
        let config = small(steps);
        let outcomes = tcp::run(n_ranks, |mut comm| {
            let options = in_folder(parts.path(), resume, 1);
            let mut n_reports = 0;
            let outcome = train_as_rank(&mut comm, &config, &options, &mut |_| n_reports += 1);
            (outcome.unwrap(), n_reports)
        });
        outcomes.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    as_ranks(3, 33, false);
    for (rank, (outcome, n_reports)) in as_ranks(2, 60, true).iter().enumerate() {
        assert_eq!(bits(outcome), bits(&want));
        assert_eq!(outcome.policy.params_hash(), want.policy.params_hash());
        assert_eq!(outcome.reports, want.reports[33..]);
        assert_eq!(*n_reports, if rank == 0 { 27 } else { 0 });
    }
    for name in ["metrics.jsonl", "policy.safetensors", "policy.json"] {
        assert_eq!(file(parts.path(), name), file(whole.path(), name), "{name}");
    }
}

#[test]
fn the_hash_sees_every_bit_of_the_weights() {
    let policy = run(&small(1), &RunOptions::default()).policy;
    let hash = policy.params_hash();
    let flat = policy.params.flat().to_vec();
    for i in [0, flat.len() / 2, flat.len() - 1] {
        let mut changed = (policy.clone(), flat.clone());
        changed.1[i] = f32::from_bits(flat[i].to_bits() ^ 1);
        changed.0.params.set_flat(&changed.1).unwrap();
        assert_ne!(changed.0.params_hash(), hash, "weight {i}");
    }
}

/// Every rank fails, and the ranks without the mistake say whose it is and what.
#[test]
fn a_mistake_of_one_rank_is_the_error_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let errors = |config: &(dyn Fn(u32) -> TrainConfig + Sync), options: &RunOptions| {
        let results = tcp::run(3, |mut comm| {
            let config = config(comm.rank());
            train_as_rank(&mut comm, &config, options, &mut |_| ()).unwrap_err()
        });
        results.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let odd = |rank: u32| small(if rank == 1 { 21 } else { 20 });
    for error in errors(&odd, &in_folder(&out, false, 1)) {
        let text = "rank 1 has another set of training settings than rank 0";
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(error.class(), Class::Input);
    }
    assert!(!out.exists());
    fs::create_dir(&out).unwrap();
    fs::write(out.join("checkpoint-0000000040"), "in the way").unwrap();
    for (rank, error) in errors(&|_| small(60), &in_folder(&out, false, 1))
        .iter()
        .enumerate()
    {
        let text = error.to_string();
        assert!(text.contains("checkpoint-0000000040"), "{text}");
        assert_eq!(text.contains("aborted by rank 0"), rank != 0, "{text}");
        assert_eq!(error.class(), Class::Input, "{text}");
    }
}
