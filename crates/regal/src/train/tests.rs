//! Training: the same bits for any number of threads and from any checkpoint, rewards that say nothing, and that it learns.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardgraph_components::EdgeMessagePassingShape;
use shardgraph_components::autodiff::collectives::{Timeout, threads};
use shardgraph_components::autodiff::device::Device;
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{Graph, GraphBuilder, OpSpec};
use shardgraph_error::Class;
use shardgraph_job::Ranks;

use super::*;
use crate::policy::{EncoderShape, Policy, Preset};

mod devices;

pub(super) fn graphs(n: u64) -> Vec<Graph> {
    let recipe = Synthetic {
        min_nodes: 6,
        max_nodes: 12,
        ..Synthetic::default()
    };
    (0..n)
        .map(|index| synthetic(&recipe, 5, index).unwrap())
        .collect()
}

/// Narrow networks and short searches.
pub(super) fn config(steps: u64) -> TrainConfig {
    let mut config = TrainConfig::preset(Preset::Synthetic);
    config.steps = steps;
    config.checkpoint_steps = 2;
    config.reward_evaluations = 60;
    config.policy.feature_evaluations = 60;
    config.policy.scheduling_levels = 4;
    config.policy.head_width = 8;
    config.policy.encoder = EncoderShape::GraphNetwork(EdgeMessagePassingShape {
        width: 8,
        hidden: vec![8],
        ..EdgeMessagePassingShape::default()
    });
    (
        config.genetic.population,
        config.genetic.elites,
        config.genetic.mutants,
    ) = (20, 4, 4);
    config
}

pub(super) fn in_folder(folder: &Path, resume: bool, stop_at: Option<u64>) -> TrainOptions {
    TrainOptions {
        folder: Some(folder.to_owned()),
        resume,
        stop_at,
        threads: 2,
        timeout: Timeout::default(),
        start: None,
        device: Device::host(),
    }
}

#[test]
fn threads_change_no_bit() {
    let graphs = graphs(3);
    let run = |threads| {
        let mut trainer = Trainer::new(&config(4), &graphs, threads).unwrap();
        let reports: Vec<StepReport> = (0..4).map(|_| trainer.step().unwrap()).collect();
        (reports, trainer.to_checkpoint().unwrap().to_bytes())
    };
    let expected = run(1);
    assert!(expected.0.iter().all(|report| report.gradient_norm > 0.0));
    for threads in [2, 3, 7] {
        assert!(run(threads) == expected, "{threads} threads");
    }
}

#[test]
fn a_run_goes_on_from_every_checkpoint_as_if_it_had_never_stopped() {
    let graphs = graphs(3);
    let mut whole = Trainer::new(&config(6), &graphs, 1).unwrap();
    let mut checkpoints = Vec::new();
    for _ in 0..6 {
        checkpoints.push(whole.to_checkpoint().unwrap());
        whole.step().unwrap();
    }
    let expected = whole.to_checkpoint().unwrap().to_bytes();
    for (n_done, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = Trainer::of_checkpoint(checkpoint, &graphs, 2).unwrap();
        for _ in n_done..6 {
            resumed.step().unwrap();
        }
        assert!(
            resumed.to_checkpoint().unwrap().to_bytes() == expected,
            "cut after {n_done}"
        );
    }
    let error = Trainer::of_checkpoint(&checkpoints[2], &graphs[..2], 1)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("not those that the run began with"),
        "{error}"
    );
    assert!(error.is_input());
}

#[test]
fn folders_of_a_run_that_stopped_hold_what_those_of_a_whole_one_hold() {
    let graphs = graphs(3);
    let folders = tempfile::tempdir().unwrap();
    let (whole, parts) = (folders.path().join("whole"), folders.path().join("parts"));
    let outcome = train(
        &config(5),
        &graphs,
        &in_folder(&whole, false, None),
        &mut |_| (),
    );
    let outcome = outcome.unwrap();
    assert_eq!((outcome.n_steps, outcome.reports.len()), (5, 5));
    let mut n_seen = 0;
    let first = in_folder(&parts, false, Some(3));
    train(&config(5), &graphs, &first, &mut |_| n_seen += 1).unwrap();
    let error = train(&config(5), &graphs, &first, &mut |_| ()).unwrap_err();
    assert!(
        error.is_input() && error.to_string().contains("has a run already"),
        "{error}"
    );
    assert_eq!(config_of_run(&parts).unwrap(), config(5));
    let rest = in_folder(&parts, true, None);
    train(&config(1), &graphs, &rest, &mut |_| n_seen += 1).unwrap();
    assert_eq!(n_seen, 5);
    for file in [
        "policy.safetensors",
        "metrics.jsonl",
        "checkpoint-0000000005/state.safetensors",
    ] {
        let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
        assert!(read(&whole) == read(&parts), "{file}");
    }
    let policy = Policy::read(&whole.join("policy.safetensors")).unwrap();
    assert_eq!(policy.weights_hash(), outcome.policy.weights_hash());
    let lines = std::fs::read_to_string(whole.join("metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 5);
    assert!(lines.starts_with(r#"{"step":1,"reward":-"#), "{lines}");
    assert!(config_of_run(folders.path()).unwrap_err().is_input());
}

/// One op of no cost: whatever is proposed, the plan is the same.
#[test]
fn rewards_that_are_all_equal_do_no_harm() {
    for cost in [0, 7] {
        let mut builder = GraphBuilder::new("alone");
        builder.op(OpSpec::new("a", cost));
        let graphs = [builder.build().unwrap()];
        let mut trainer = Trainer::new(&config(3), &graphs, 2).unwrap();
        for _ in 0..3 {
            let report = trainer.step().unwrap();
            assert_eq!(report.reward, Some(-1.0));
            assert!(report.loss.is_finite() && report.gradient_norm.is_finite());
        }
        assert!(
            trainer
                .policy()
                .unwrap()
                .params()
                .flat()
                .iter()
                .all(|x| x.is_finite())
        );
    }
}

/// Makes settings wrong.
type Change = fn(&mut TrainConfig);

/// What makes settings wrong, and what the message then says.
const WRONG: [(Change, &str); 13] = [
    (|c| c.batch_graphs = 0, "batch_graphs = 0"),
    (|c| c.batch_graphs = 1 << 32, "expected 1 to 4096"),
    (|c| c.samples_per_graph = 0, "samples_per_graph = 0"),
    (|c| c.entropy_coefficient = -1.0, "entropy_coefficient = -1"),
    (
        |c| c.policy.feature_evaluations = u64::MAX,
        "feature_evaluations = 18",
    ),
    (
        |c| c.policy.feature_search.elites = 50,
        "feature_search: elites",
    ),
    (|c| c.denominator_seeds = 0, "denominator_seeds = 0"),
    (|c| c.steps = 0, "steps = 0"),
    (
        |c| c.baseline_coefficient = f32::NAN,
        "baseline_coefficient = NaN",
    ),
    (|c| c.genetic.elites = 20, "elites = 20"),
    (|c| c.policy.n_devices = 0, "n_devices = 0"),
    (|c| c.optimiser.learning_rate = 0.0, "learning_rate"),
    (|c| c.bandwidth_gbs = Some(0.0), "bandwidth"),
];

#[test]
fn settings_that_cannot_be_right_are_named_and_leave_no_folder() {
    let graphs = graphs(1);
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().join("run");
    for (change, expected) in WRONG {
        let mut config = config(1);
        change(&mut config);
        let error = train(
            &config,
            &graphs,
            &in_folder(&folder, false, None),
            &mut |_| (),
        );
        let error = error.unwrap_err();
        let message = error.to_string();
        assert!(error.is_input() && message.contains(expected), "{message}");
        assert!(!folder.exists());
    }
    assert!(Trainer::new(&config(1), &[], 1).is_err());
    assert!(Trainer::new(&config(1), &graphs, 0).is_err());
}

/// Two ops, the first of which is pinned, and one random chromosome a search: it pays to send the second one to the other device.
#[test]
fn it_learns_where_proposals_pay() {
    let mut builder = GraphBuilder::new("two");
    for name in ["a", "b"] {
        builder.op(OpSpec::new(name, 10));
    }
    let graphs = [builder.build().unwrap()];
    let mut config = config(150);
    (config.reward_evaluations, config.denominator_seeds) = (1, 100);
    config.policy.placement_levels = 8;
    config.optimiser.learning_rate = 0.01;
    let mut trainer = Trainer::new(&config, &graphs, 2).unwrap();
    let mut mean = |n: u64| {
        let rewards = (0..n).map(|_| trainer.step().unwrap().reward.unwrap());
        rewards.sum::<f32>() / n as f32
    };
    let before = mean(20);
    mean(130);
    let after = mean(50);
    // Apart they take two thirds of the mean.
    assert!(
        before < -0.85 && after > -0.75,
        "{before} before, {after} after"
    );
}

/// What `threads_change_no_bit` says holds for several samples of a graph, for imitation and for a run that begins with a policy.
#[test]
fn samples_imitation_and_a_start_change_no_bit_with_threads() {
    let graphs = graphs(3);
    let mut config = config(4);
    config.policy.schedule_features = true;
    (config.samples_per_graph, config.normalise_advantages) = (3, true);
    (config.imitation_steps, config.entropy_coefficient) = (2, 0.01);
    let start = Policy::untrained(config.policy.clone(), 9).unwrap();
    let run = |threads| {
        let mut trainer = Trainer::new(&config, &graphs, threads).unwrap();
        trainer.begin_with(&start).unwrap();
        let first = trainer.policy().unwrap().weights_hash();
        let reports: Vec<StepReport> = (0..4).map(|_| trainer.step().unwrap()).collect();
        (first, reports, trainer.to_checkpoint().unwrap().to_bytes())
    };
    let expected = run(1);
    assert_eq!(expected.0, start.weights_hash());
    let with_reward = expected.1.iter().map(|report| report.reward.is_some());
    assert_eq!(with_reward.collect::<Vec<_>>(), [false, false, true, true]);
    assert!(run(3) == expected);
    let other = Policy::untrained(self::config(1).policy, 9).unwrap();
    let mut trainer = Trainer::new(&config, &graphs, 1).unwrap();
    let error = trainer.begin_with(&other).unwrap_err();
    assert!(
        error.is_input() && error.to_string().contains("another config"),
        "{error}"
    );
}

/// A policy that sees the schedule learns to propose it.
#[test]
fn it_learns_by_imitation_what_it_sees() {
    let graphs = graphs(4);
    let mut config = config(300);
    config.imitation_steps = 300;
    config.policy.schedule_features = true;
    (config.denominator_seeds, config.optimiser.learning_rate) = (1, 0.01);
    let mut trainer = Trainer::new(&config, &graphs, 2).unwrap();
    let first = trainer.step().unwrap();
    // Two levels for four decisions, four levels for two, all equally likely.
    let uniform = 4.0 * 2f32.ln() + 2.0 * 4f32.ln();
    assert!((first.loss - uniform).abs() < 1e-4, "{first:?}");
    let last = (0..299).map(|_| trainer.step().unwrap()).last().unwrap();
    assert!(last.loss < 0.25 * uniform, "{last:?}");
}

/// With two samples of one graph and levels that are equally likely, the derivatives by the last biases are those worked out by hand.
#[test]
fn levels_of_crossover_that_earn_more_become_likelier() {
    let graphs = graphs(1);
    let mut config = config(1);
    config.policy.crossover_levels = Some(4);
    config.samples_per_graph = 2;
    let trainer = Trainer::new(&config, &graphs, 1).unwrap();
    for (rewards, levels, expected) in [
        (
            vec![-0.5, -1.5],
            vec![vec![0], vec![3]],
            [-0.5, 0.0, 0.0, 0.5],
        ),
        // Advantages 0: nothing to learn.
        (vec![-0.5, -0.5], vec![vec![0], vec![3]], [0.0; 4]),
        // One sample earns 2 more than the baseline's network expects: minus 2 times (1 or 0 less 1/4).
        (vec![f32::NAN], vec![vec![1]], [0.5, -1.5, 0.5, 0.5]),
    ] {
        let biases = trainer.crossover_derivatives(rewards, levels);
        for (found, expected) in biases.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{biases:?}, {expected}");
        }
    }
}

#[test]
fn crossover_is_decided_and_changes_no_bit_by_threads() {
    let graphs = graphs(3);
    let mut config = config(3);
    config.policy.crossover_levels = Some(4);
    let run = |threads| {
        let mut trainer = Trainer::new(&config, &graphs, threads).unwrap();
        let reports: Vec<StepReport> = (0..3).map(|_| trainer.step().unwrap()).collect();
        (reports, trainer.policy().unwrap().weights_hash())
    };
    assert!(run(1) == run(2));
    let mut without = config.clone();
    without.policy.crossover_levels = None;
    let mut trainer = Trainer::new(&without, &graphs, 1).unwrap();
    assert_ne!(trainer.step().unwrap(), run(1).0[0]);
}

#[test]
fn a_limit_of_memory_is_part_of_what_is_learned_on() {
    let graphs = graphs(2);
    let reward = |memory_bytes| {
        let config = TrainConfig {
            memory_bytes,
            ..config(1)
        };
        let mut trainer = Trainer::new(&config, &graphs, 1).unwrap();
        trainer.step().unwrap().reward.unwrap()
    };
    let free = reward(None);
    assert_eq!(free.to_bits(), reward(Some(u64::MAX / 2)).to_bits());
    // One byte: nothing fits, and what is beyond by less counts less; rewards stay finite.
    let none_fits = reward(Some(1));
    assert!(
        none_fits.is_finite() && none_fits.to_bits() != free.to_bits(),
        "{none_fits}"
    );
    let mut memory = TrainConfig::preset(Preset::Memory);
    memory.memory_bytes = Some(1);
    let error = memory.check().unwrap_err().to_string();
    assert!(error.contains("a limit changes nothing"), "{error}");
}

/// One run by so many ranks, which are threads: what rank 0 reports, and the weights of each.
fn by_ranks(
    n_ranks: u32,
    config: &TrainConfig,
    options: &TrainOptions,
) -> (Vec<StepReport>, Vec<u64>) {
    let graphs = graphs(3);
    let outcomes = threads::run(n_ranks, |mut comm| {
        let outcome = train_as_rank(&mut comm, config, &graphs, options, &mut |_| ()).unwrap();
        (outcome.reports, outcome.policy.weights_hash())
    });
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let hashes = outcomes.iter().map(|(_, hash)| *hash).collect();
    (outcomes.into_iter().next().unwrap().0, hashes)
}

#[test]
fn ranks_change_no_bit_and_one_of_them_keeps_the_run() {
    let folders = tempfile::tempdir().unwrap();
    let options = |name: &str, resume, stop_at| TrainOptions {
        threads: 1,
        ..in_folder(&folders.path().join(name), resume, stop_at)
    };
    let mut config = config(4);
    config.samples_per_graph = 2;
    let (expected, hashes) = by_ranks(1, &config, &options("1", false, None));
    for n_ranks in 2..=4 {
        let name = n_ranks.to_string();
        let (first, _) = by_ranks(n_ranks, &config, &options(&name, false, Some(2)));
        let (second, found) = by_ranks(n_ranks, &config, &options(&name, true, None));
        assert!([first, second].concat() == expected, "{n_ranks} ranks");
        assert_eq!(found, vec![hashes[0]; n_ranks as usize]);
        let read = |of: &str| std::fs::read(folders.path().join(of).join("policy.safetensors"));
        assert!(read(&name).unwrap() == read("1").unwrap());
    }
}

/// Features, denominators and rewards: each search is made by one rank, whatever its threads.
#[test]
fn ranks_make_each_search_once_and_change_no_bit() {
    let graphs = graphs(4);
    let run = |n_ranks| {
        let outcomes = threads::run(n_ranks, |mut comm| {
            let n_threads = 1 + comm.rank() as usize % 2;
            let mut trainer = Trainer::new(&config(3), &graphs, n_threads).unwrap();
            let mut ranks = Ranks::new(&mut comm, Timeout::default());
            let mut step = |_| trainer.step_on(&mut ranks).unwrap();
            let reports: Vec<StepReport> = (0..3).map(&mut step).collect();
            let bytes = trainer.to_checkpoint().unwrap().to_bytes();
            (trainer.n_searches(), (reports, bytes))
        });
        outcomes.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let alone = run(1).remove(0);
    let n_of_rewards = 3 * 4;
    assert!(alone.0 > n_of_rewards + 4 && (alone.0 - n_of_rewards).is_multiple_of(4));
    for n_ranks in 2..=4 {
        let found = run(n_ranks);
        assert!(found.iter().all(|(_, bits)| *bits == alone.1));
        let each: Vec<u64> = found.iter().map(|(n, _)| *n).collect();
        assert_eq!(each.iter().sum::<u64>(), alone.0, "{each:?}");
        assert!(each.iter().all(|&n| n > 0), "{each:?}");
    }
}

/// What is imitated needs no rewards, and rewards no search that was made before.
#[test]
fn searches_are_made_when_they_are_needed_first() {
    let graphs = graphs(1);
    let mut config = config(4);
    (config.imitation_steps, config.batch_graphs) = (1, 2);
    let mut trainer = Trainer::new(&config, &graphs, 1).unwrap();
    let n_searches: Vec<u64> = (0..4)
        .map(|_| {
            trainer.step().unwrap();
            trainer.n_searches()
        })
        .collect();
    assert_eq!(n_searches, [1, 1 + 3 + 2, 6 + 2, 8 + 2]);
}

/// A rank that stays and does nothing, as a stopped process does.
#[test]
fn a_rank_that_stands_still_is_waited_for_as_long_as_the_options_say() {
    let graphs = graphs(2);
    let is_over = AtomicBool::new(false);
    let outcomes = threads::run(2, |mut comm| {
        let options = TrainOptions {
            folder: None,
            resume: false,
            stop_at: None,
            threads: 1,
            timeout: Timeout::after(Duration::from_millis(200)),
            start: None,
            device: Device::host(),
        };
        let stands_still = comm.rank() == 1;
        let mut on_step = |_: &StepReport| {
            while stands_still && !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let outcome = train_as_rank(&mut comm, &config(50), &graphs, &options, &mut on_step);
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_err().to_string()
    });
    let message = outcomes.into_iter().next().unwrap().unwrap();
    assert!(message.contains("ranks [1] did not arrive"), "{message}");
}

#[test]
fn a_rank_that_goes_away_ends_the_others_without_the_deadline() {
    let graphs = graphs(2);
    let outcomes = threads::run(3, |mut comm| {
        let options = TrainOptions {
            folder: None,
            resume: false,
            stop_at: None,
            threads: 1,
            timeout: Timeout::default(),
            start: None,
            device: Device::host(),
        };
        let is_victim = comm.rank() == 2;
        let mut n_steps = 0;
        let mut on_step = |_: &StepReport| {
            n_steps += 1;
            assert!(!is_victim || n_steps < 2, "the victim falls");
        };
        let outcome = train_as_rank(&mut comm, &config(50), &graphs, &options, &mut on_step);
        outcome.unwrap_err().to_string()
    });
    let messages: Vec<String> = outcomes.into_iter().filter_map(Result::ok).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    // Not that a deadline is over: that it fell, and why.
    for message in &messages {
        assert!(message.contains("the victim falls"), "{message}");
        assert!(!message.contains("timed out"), "{message}");
    }
}

#[test]
fn ranks_of_different_minds_and_those_that_fail_end_all() {
    let graphs = graphs(2);
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let options = in_folder(&new, false, None);
    let outcomes = threads::run(2, |mut comm| {
        let mut config = config(2);
        config.seed += u64::from(comm.rank());
        let outcome = train_as_rank(&mut comm, &config, &graphs, &options, &mut |_| ());
        outcome.unwrap_err().to_string()
    });
    for outcome in outcomes {
        let message = outcome.unwrap();
        assert!(message.contains("another set of settings"), "{message}");
    }
    assert!(!new.exists(), "a refused run leaves nothing");
    // A folder that is taken is the first rank's reason, and the other one's.
    let taken = tempfile::tempdir().unwrap();
    std::fs::write(taken.path().join("metrics.jsonl"), "{}\n").unwrap();
    let options = in_folder(taken.path(), true, None);
    let outcomes = threads::run(2, |mut comm| {
        let outcome = train_as_rank(&mut comm, &config(2), &graphs, &options, &mut |_| ());
        outcome.is_err()
    });
    assert!(outcomes.into_iter().all(Result::unwrap));
}

/// Its hash of the graphs would be another one, which is not the graphs' fault.
#[test]
fn a_run_of_the_first_version_is_refused_by_its_version() {
    let graphs = graphs(1);
    let new = Trainer::new(&config(1), &graphs, 1).unwrap();
    let mut old = shardgraph_job::Checkpoint::new(0);
    let file: serde_json::Value = new.to_checkpoint().unwrap().json("run.json", 2).unwrap();
    old.add_json("run.json", 1, &file).unwrap();
    let error = Trainer::of_checkpoint(&old, &graphs, 1).err();
    let message = error.unwrap().to_string();
    assert!(message.contains("version 1 is not known"), "{message}");
}

#[test]
fn the_class_of_a_failure_is_that_of_all_ranks() {
    let graphs = graphs(2);
    let outcomes = threads::run(2, |mut comm| {
        // Rank 1 alone is asked for no step, which it finds out in the run.
        let options = TrainOptions {
            folder: None,
            resume: false,
            stop_at: (comm.rank() == 1).then_some(0),
            threads: 1,
            timeout: Timeout::default(),
            start: None,
            device: Device::host(),
        };
        let outcome = train_as_rank(&mut comm, &config(50), &graphs, &options, &mut |_| ());
        let error = outcome.unwrap_err();
        (error.class(), error.to_string())
    });
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert!(outcomes[0].1.contains("aborted by rank 1"), "{outcomes:?}");
    assert!(outcomes.iter().all(|(class, _)| *class == Class::Input));
}
