//! Every way to cut the work gives the whole's result, through whole runs: bit for bit with exact
//! sums, closely with floats.

use proptest::prelude::*;

use super::super::*;
use super::{losses, sorted_graph, variants};
use crate::partition::Method;
use crate::{Mode, Optimiser, Sums};

fn run(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    n_ranks: u32,
    partition: Method,
) -> Outcome {
    let options = RunOptions {
        n_ranks,
        partition,
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {}).unwrap()
}

#[test]
fn every_partition_gives_the_same_bits() {
    let (graph, labels) = sorted_graph(1, 2000);
    for (variant, config) in variants().iter().enumerate() {
        let whole = run(&graph, &labels, config, 1, Method::Source);
        for method in Method::ALL {
            for n_ranks in [2, 5] {
                let parts = run(&graph, &labels, config, n_ranks, method);
                let case = format!("variant {variant}, {n_ranks} ranks by {method}");
                assert_eq!(losses(&whole), losses(&parts), "{case}");
                assert_eq!(whole.params_hash, parts.params_hash, "{case}");
                assert_eq!(whole.evaluation, parts.evaluation, "{case}");
            }
        }
    }
}

#[test]
fn every_partition_with_float_sums_is_close_after_fifty_epochs() {
    let (graph, labels) = sorted_graph(2, 1500);
    let config = Config {
        bases: 4,
        epochs: 50,
        mode: Mode::Full,
        sums: Sums::Float,
        optimiser: Optimiser::Sgd,
        rate: 0.5,
        ..Config::default()
    };
    let whole = run(&graph, &labels, &config, 1, Method::Source);
    let last = |outcome: &Outcome| outcome.reports[49].loss;
    for method in Method::ALL {
        let parts = run(&graph, &labels, &config, 3, method);
        let ratio = last(&parts) / last(&whole);
        assert!((ratio - 1.0).abs() < 1e-4, "{method}: {ratio}");
    }
}

/// What a rank is predicted to hold is what its arrays take at the fullest moment of a step: in
/// both modes, by every method.
#[test]
fn predicted_bytes_are_those_that_are_counted() {
    let (graph, labels) = sorted_graph(7, 3000);
    for (variant, config) in variants().iter().enumerate() {
        for (mode, sums) in [(Mode::Full, Sums::Float), (Mode::Pruned, Sums::Exact)] {
            let config = Config {
                epochs: 2,
                mode,
                sums,
                ..config.clone()
            };
            for method in Method::ALL {
                for n_ranks in [1, 2, 4] {
                    let outcome = run(&graph, &labels, &config, n_ranks, method);
                    for (rank, device) in outcome.devices.iter().enumerate() {
                        let case = format!(
                            "variant {variant}, {mode}, {sums}, {method}, rank {rank} of {n_ranks}: {device:?}"
                        );
                        assert_eq!(device.predicted_bytes, device.peak_bytes, "{case}");
                    }
                }
            }
        }
    }
}

/// Edges of small graphs with hubs, empty relations, nodes without edges.
fn edges() -> impl Strategy<Value = (u32, Vec<(u32, u32, u32)>)> {
    prop_oneof![Just(3u32), Just(64), Just(129), Just(700)].prop_flat_map(|n_nodes| {
        let end = prop_oneof![3 => 0..n_nodes, 1 => Just(0)];
        let edge = (end, 0..5u32, 0..n_nodes);
        (Just(n_nodes), proptest::collection::vec(edge, 0..400))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_graph_in_any_number_of_parts_is_the_whole(
        (n_nodes, edges) in edges(), n_ranks in 1u32..7, method in 0usize..3, variant in 0usize..5, full in any::<bool>(),
    ) {
        let column = |pick: fn(&(u32, u32, u32)) -> u32| edges.iter().map(pick).collect();
        let graph = RelationalGraph::new(n_nodes, 6, column(|e| e.0), column(|e| e.1), column(|e| e.2)).unwrap();
        let train_set = (0..n_nodes).step_by(3).map(|node| (node, node / 3 % 2)).collect::<Vec<_>>();
        let test_set = (0..n_nodes).skip(1).step_by(3).map(|node| (node, 0)).collect::<Vec<_>>();
        // Both classes need a node to learn from.
        prop_assume!(train_set.len() > 1);
        let labels = Labels::new(2, train_set, test_set, vec![]).unwrap();
        let config = Config {
            epochs: 3,
            mode: if full { Mode::Full } else { Mode::Pruned },
            self_loop: variant != 1,
            ..variants()[variant].clone()
        };
        let whole = run(&graph, &labels, &config, 1, Method::Source);
        let parts = run(&graph, &labels, &config, n_ranks, Method::ALL[method]);
        prop_assert_eq!(losses(&whole), losses(&parts));
        prop_assert_eq!(whole.params_hash, parts.params_hash);
        prop_assert_eq!(whole.evaluation, parts.evaluation);
    }
}

/// The baseline that builds all W_r, in both modes and with both sums: the same bits, and its bytes
/// are counted and refused.
#[test]
fn building_all_weights_changes_no_bit() {
    let (graph, labels) = sorted_graph(4, 700);
    let options = |execution| RunOptions {
        execution,
        ..RunOptions::default()
    };
    let run = |config: &Config, execution| {
        train(&graph, &labels, config, &options(execution), &mut |_| {})
    };
    for (width, mode, sums) in [
        (5, Mode::Full, Sums::Float),
        (10, Mode::Pruned, Sums::Exact),
        (16, Mode::Full, Sums::Exact),
    ] {
        let config = Config {
            bases: 4,
            hidden: vec![width],
            epochs: 4,
            mode,
            sums,
            ..Config::default()
        };
        let whole = run(&config, Execution::Grouped).unwrap();
        let built = run(&config, Execution::Paper).unwrap();
        assert_eq!(losses(&whole), losses(&built), "width {width}");
        assert_eq!(whole.params_hash, built.params_hash, "width {width}");
        assert_eq!(whole.evaluation, built.evaluation, "width {width}");
        let more = built.bytes_per_rank[0] - whole.bytes_per_rank[0];
        let n_relations = u64::from(graph.n_relations()) + 1;
        let of_node = 4 * n_relations * width as u64;
        assert_eq!(more % of_node, 0);
        assert!(mode == Mode::Pruned || more == of_node * 700, "{more}");
        let [device] = built.devices[..] else {
            panic!("one device");
        };
        // At the fullest moment of a step there is the gradient too.
        assert!(device.peak_bytes >= 2 * more, "{device:?}");
        assert!(device.predicted_bytes >= device.peak_bytes, "{device:?}");
    }
}

/// Both modes, sums and rules, with L2 and units left out beside Adam.
fn built_variants() -> Vec<Config> {
    let config = |width, mode, sums| Config {
        bases: 4,
        hidden: vec![width],
        epochs: 50,
        mode,
        sums,
        optimiser: Optimiser::Sgd,
        rate: 0.5,
        ..Config::default()
    };
    let adam = |mode| Config {
        optimiser: Optimiser::Adam,
        rate: 0.01,
        l2: 5e-4,
        dropout: 0.2,
        ..config(8, mode, Sums::Exact)
    };
    vec![
        config(5, Mode::Full, Sums::Float),
        config(10, Mode::Full, Sums::Exact),
        config(16, Mode::Pruned, Sums::Exact),
        adam(Mode::Full),
        adam(Mode::Pruned),
    ]
}

/// Relations dealt over ranks, each with W_r of its own from a copy of all rows: the loss of one
/// rank within 1e-4 after 50 epochs, in both modes and with both sums; all of W_r is built once,
/// and the bytes are those predicted.
#[test]
fn ranks_that_build_their_weights_are_close() {
    let (graph, labels) = sorted_graph(6, 1500);
    for config in built_variants() {
        let (width, mode, optimiser) = (config.hidden[0], config.mode, config.optimiser);
        let whole = run(&graph, &labels, &config, 1, Method::Source);
        let n_weights = u64::from(graph.n_relations() + 1) * 1500 * width as u64;
        for (n_ranks, partition) in [
            (1, Method::M1),
            (2, Method::M1),
            (3, Method::M2),
            (4, Method::M1),
        ] {
            let options = RunOptions {
                n_ranks,
                partition,
                execution: Execution::Paper,
                ..RunOptions::default()
            };
            let parts = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
            let case = format!("{width}, {mode}, {optimiser}, {n_ranks} ranks by {partition}");
            assert_eq!(whole.evaluation, parts.evaluation, "{case}");
            let weights: u64 = parts.devices.iter().map(|device| device.weight_bytes).sum();
            assert!(mode == Mode::Pruned || weights == 4 * n_weights, "{case}");
            check_close(&whole, &parts, &case);
        }
    }
}

/// Losses to 1e-4, and bytes as predicted.
fn check_close(whole: &Outcome, parts: &Outcome, case: &str) {
    for (one, other) in whole.reports.iter().zip(&parts.reports) {
        let ratio = one.loss / other.loss;
        assert!((ratio - 1.0).abs() < 1e-4, "{case}: {one:?} {other:?}");
    }
    for device in &parts.devices {
        assert_eq!(device.predicted_bytes, device.peak_bytes, "{case}");
    }
}

#[test]
fn what_cannot_build_its_weights_is_refused() {
    let (graph, labels) = sorted_graph(4, 700);
    let error = |config: &Config, options: RunOptions| {
        let options = RunOptions {
            execution: Execution::Paper,
            ..options
        };
        train(&graph, &labels, config, &options, &mut |_| {}).unwrap_err()
    };
    let config = Config {
        bases: 4,
        ..Config::default()
    };
    let least = RunOptions {
        memory: Some(1000),
        ..RunOptions::default()
    };
    let error_of_memory = error(&config, least).to_string();
    assert!(error_of_memory.contains("of it W_r"), "{error_of_memory}");
    let parts = RunOptions {
        n_ranks: 2,
        ..RunOptions::default()
    };
    assert!(matches!(error(&config, parts), Error::Config(_)));
    let config = Config { bases: 0, ..config };
    let error = error(&config, RunOptions::default()).to_string();
    assert!(error.contains("execution"), "{error}");
}

#[test]
fn ranks_without_work_are_counted() {
    let (graph, labels) = sorted_graph(3, 400);
    let config = &Config {
        epochs: 1,
        ..Config::default()
    };
    let idle = |n_ranks| run(&graph, &labels, config, n_ranks, Method::Source).n_idle_ranks;
    assert_eq!((idle(1), idle(2)), (0, 0));
    // 400 nodes are 6 blocks of 67.
    assert_eq!((idle(6), idle(9)), (0, 3));
}

#[test]
fn a_run_goes_on_with_another_partition() {
    let (graph, labels) = sorted_graph(5, 1200);
    let scratch = tempfile::tempdir().unwrap();
    let config = |epochs| Config {
        epochs,
        bases: 3,
        ..Config::default()
    };
    let go = |name: &str, epochs, n_ranks, partition, resume| {
        let options = RunOptions {
            n_ranks,
            partition,
            folder: Some(scratch.path().join(name)),
            resume,
            ..RunOptions::default()
        };
        train(&graph, &labels, &config(epochs), &options, &mut |_| {}).unwrap()
    };
    let whole = go("whole", 5, 1, Method::Source, false);
    go("parts", 2, 3, Method::M1, false);
    let resumed = go("parts", 5, 4, Method::M2, true);
    assert_eq!(whole.params_hash, resumed.params_hash);
}
