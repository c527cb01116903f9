//! Threads change nothing, labels and seeds do; what is trained tells neighbours from strangers.

use super::bucket_trainer::LoadedJob;
use super::context::OrderContext;
use super::export::check_tables;
use super::partition_buffer::PartitionBuffer;
use super::rank_devices::RankDevices;
use super::resident_edges::ResidentEdges;
use super::scalar::Scalar;
use super::worker_pool::WorkerPool;
use super::*;
use crate::schedule::Job;
use crate::{NodeLabels, Order, Precision};
use shardgraph_random::KeyedRng;
use std::sync::LazyLock;

mod devices;
mod jobs;

/// Two groups of nodes with many edges inside and few between.
pub(super) fn two_communities(n_nodes: u32, n_parts: u32) -> Store {
    let mut stream = KeyedRng::new(5, "communities", 0);
    let half = u64::from(n_nodes / 2);
    let mut edges = Vec::new();
    for _ in 0..10 * n_nodes {
        let side = if stream.chance(0.5) { half } else { 0 };
        let other = if stream.chance(0.05) {
            half - side
        } else {
            side
        };
        let (u, v) = (side + stream.below(half), other + stream.below(half));
        if u != v {
            edges.push((u as u32, v as u32));
        }
    }
    Store::from_edges(n_nodes, &edges, n_parts, NodeLabels::numbers(n_nodes)).unwrap()
}

pub(super) fn small(order: Order) -> Config {
    Config {
        order,
        dim: 16,
        epochs: 4,
        ..Config::default()
    }
}

pub(super) fn run(store: &Store, config: &Config) -> Embedding {
    train(store, config, &Device::host(), &mut |_| {})
        .unwrap()
        .embedding
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let small_parts = two_communities(130, 4);
    let shared_parts = two_communities(2100, 4);
    for order in [Order::First, Order::Second, Order::Both] {
        for precision in [Precision::Fp32, Precision::Fp16] {
            for (share, optimiser) in [
                (1, Optimiser::Sgd),
                (16, Optimiser::Sgd),
                (1, Optimiser::Adagrad),
            ] {
                let store = if share > 1 {
                    &shared_parts
                } else {
                    &small_parts
                };
                let one = Config {
                    precision,
                    shared_negatives: share,
                    optimiser,
                    ..small(order)
                };
                assert_eq!(one.sharing_in(store).shared_negatives, share.min(4));
                let expected = run(store, &one);
                for threads in 2..=6 {
                    let many = Config {
                        threads,
                        ..one.clone()
                    };
                    assert!(run(store, &many) == expected, "{many:?}");
                }
                let other = Config { seed: 2, ..one };
                assert!(run(store, &other) != expected);
            }
        }
    }
}

/// The share of the nearest ten that lie on the node's own side.
pub(super) fn purity(embedding: &Embedding, n_nodes: u32) -> f64 {
    let same = (0..n_nodes).map(|node| {
        let near = embedding.nearest(node, 10);
        near.iter()
            .filter(|near| (near.node < n_nodes / 2) == (node < n_nodes / 2))
            .count()
    });
    same.sum::<usize>() as f64 / (10.0 * f64::from(n_nodes))
}

#[test]
fn communities_are_told_apart_by_every_order_precision_and_number_of_parts() {
    for n_parts in [1, 4, 8] {
        let store = two_communities(200, n_parts);
        for order in [Order::First, Order::Second] {
            for (precision, share) in [
                (Precision::Fp32, 1),
                (Precision::Fp16, 1),
                (Precision::Fp32, 16),
            ] {
                let config = Config {
                    precision,
                    shared_negatives: share,
                    epochs: 40,
                    learning_rate: Some(0.1),
                    ..small(order)
                };
                let found = purity(&run(&store, &config), 200);
                assert!(found > 0.85, "{config:?}, {n_parts} parts: {found}");
            }
        }
    }
}

#[test]
fn threads_with_adagrad_tell_communities_apart_too() {
    let store = two_communities(200, 4);
    for order in [Order::First, Order::Second] {
        let config = Config {
            optimiser: Optimiser::Adagrad,
            threads: 3,
            epochs: 40,
            learning_rate: Some(0.1),
            ..small(order)
        };
        let found = purity(&run(&store, &config), 200);
        assert!(found > 0.85, "{order:?}: {found}");
    }
}

/// Losses of passes fall, are the same for any number of threads, and change no row.
#[test]
fn passes_are_reported_and_change_nothing() {
    for (n_parts, optimiser) in [
        (4, Optimiser::Sgd),
        (16, Optimiser::Sgd),
        (4, Optimiser::Adagrad),
    ] {
        let store = two_communities(200, n_parts);
        let of = |reports, threads| {
            let config = Config {
                epochs: 20,
                optimiser,
                threads,
                learning_rate: Some(0.1),
                ..small(Order::Both)
            };
            let options = TrainOptions {
                reports,
                ..TrainOptions::default()
            };
            let mut passes = Vec::new();
            let trained = train_with(&store, &config, options, &Device::host(), &mut |now| {
                passes.extend(now.pass);
            });
            (trained.unwrap().embedding, passes)
        };
        let (rows, passes) = of(true, 1);
        assert_eq!(of(true, 3), (rows.clone(), passes.clone()));
        assert_eq!(of(false, 1), (rows.clone(), Vec::new()));
        assert_eq!(passes.len(), 40);
        for own in passes.chunks(20) {
            let losses: Vec<f64> = own.iter().filter_map(|pass| pass.loss).collect();
            // Six factors of a half at first; Adagrad's first steps are long.
            let is_long = optimiser == Optimiser::Adagrad;
            assert!(
                is_long || (losses[0] - 6.0 * 2.0f64.ln()).abs() < 0.3,
                "{losses:?}"
            );
            let last = losses[losses.len() - 1];
            assert!(last < losses[0] - 0.05, "{losses:?}");
            assert!(own[19].row_norm > own[0].row_norm, "{own:?}");
        }
        let first_columns: Vec<f32> = (0..200)
            .flat_map(|node| rows.row(node)[..rows.dim() / 2].to_vec())
            .collect();
        let norm = row_norm(&first_columns, 200);
        let found = passes[19].row_norm.unwrap();
        assert!((found - norm).abs() < 1e-6 * norm, "{norm}");
    }
}

#[test]
fn the_host_has_no_hogwild() {
    let config = Config {
        mode: Some(Mode::Hogwild),
        ..small(Order::Second)
    };
    let store = two_communities(64, 2);
    let refused = train(&store, &config, &Device::host(), &mut |_| {}).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.starts_with("mode = hogwild: expected deterministic on the host"),
        "{message}"
    );
}

#[test]
fn rows_that_are_no_numbers_are_no_answer() {
    let store = two_communities(64, 2);
    // Numbers of fp16 that are at the largest may come back while the rate falls slowly.
    for (precision, rate, epochs) in [(Precision::Fp32, 10.0, 400), (Precision::Fp16, 10.0, 4)] {
        let config = Config {
            learning_rate: Some(rate),
            epochs,
            precision,
            ..small(Order::Second)
        };
        let ended = train(&store, &config, &Device::host(), &mut |_| {});
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::Diverged(_)), "{error}");
        assert_eq!(error.class(), shardgraph_error::Class::NoAnswer);
    }
    for (bits, is_sound) in [
        (0u16, true),
        (0xfbfe, true),
        (0x7bff, false),
        (0xfbff, false),
    ] {
        assert_eq!(Scalar::is_sound(bits), is_sound);
    }
    assert!(!Scalar::is_sound(0x7c00u16) && !Scalar::is_sound(0xfe00u16));
}

/// A context table may be saturated while the vertex table is not.
#[test]
fn saturated_contexts_are_no_answer() {
    let store = two_communities(64, 2);
    let config = Config {
        precision: Precision::Fp16,
        ..small(Order::Second)
    };
    let device = Device::host();
    let run = context(&store, &config, &device);
    let filled = |context: u16| {
        let mut buffer = buffer_in_memory::<u16>(run, 2);
        let job = Job {
            order: 2,
            vertex_parts: vec![0],
            context_part: Some(1),
            bucket_passes: Vec::new(),
        };
        let mut loaded: LoadedJob<u16> = buffer.take_job(&job);
        let rows = loaded.context_rows.as_mut().unwrap();
        rows.values.as_host_mut().unwrap()[7] = context;
        buffer.put_job(loaded);
        check_tables(&run, &buffer.end_order().unwrap().unwrap())
    };
    assert!(filled(0x7bfe).is_ok());
    let error = filled(0xfbff).unwrap_err();
    assert!(matches!(error, Error::Diverged(_)), "{error}");
}

#[test]
fn tables_beyond_the_machines_memory_are_refused_before_the_work() {
    let store = two_communities(64, 2);
    let config = small(Order::Both);
    // Two tables of order 2, the columns of both orders, and the noise distributions.
    let rows = 64 * (2 * 16 * 4 + 2 * 16 * 4) + 64 * 8;
    // A bucket as it comes, and as a list.
    let buckets = (0..4).map(|bucket| store.n_edges_of(bucket / 2, bucket % 2));
    let wanted = rows + 16 * buckets.max().unwrap();
    let (store, config) = (&store, &config);
    let check = |free| check_memory(PlannedRun { store, config }, TrainOptions::default(), free);
    check(Some(wanted)).unwrap();
    check(None).unwrap();
    let error = check(Some(wanted - 1)).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
    let message = error.to_string();
    assert!(
        message.contains(&format!("take {wanted} bytes")),
        "{message}"
    );
}

/// Batches of one are close to plain descent; larger ones see older rows; threads make no
/// difference to either.
#[test]
fn samples_in_flight_on_the_host_see_the_rows_before_them() {
    let store = two_communities(64, 2);
    let rows = |edges_in_flight: Option<u32>, threads: usize| {
        let config = Config {
            edges_in_flight,
            threads,
            ..small(Order::Second)
        };
        let trained = train(&store, &config, &Device::host(), &mut |_| {}).unwrap();
        trained.embedding.values().to_vec()
    };
    let distance = |a: &[f32], b: &[f32]| {
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        differences.fold(0.0f32, f32::max)
    };
    let (plain, one, many) = (rows(None, 1), rows(Some(1), 1), rows(Some(64), 1));
    // A target that is drawn twice shows plain descent its own first addition.
    let (near, far) = (distance(&plain, &one), distance(&plain, &many));
    assert!(near < 3e-2 && far > 3.0 * near, "{near} {far}");
    assert_eq!(many, rows(Some(64), 2));
    let config = Config {
        edges_in_flight: Some(4),
        optimiser: Optimiser::Adagrad,
        ..small(Order::Second)
    };
    let refused = train(&store, &config, &Device::host(), &mut |_| {}).unwrap_err();
    assert!(
        refused.to_string().contains("edges_in_flight = 4"),
        "{refused}"
    );
}

#[test]
fn the_rate_falls_in_a_line() {
    let store = two_communities(64, 2);
    let config = Config {
        learning_rate: Some(0.2),
        ..small(Order::First)
    };
    let device = Device::host();
    let run = context(&store, &config, &device);
    let clock = Clock::default();
    let streams = run.streams().unwrap();
    let order = OrderContext::new(run, 1, &streams, &clock).unwrap();
    assert_eq!(order.n_samples, 4 * store.n_edges());
    for (share, expected) in [(0.0, 0.2), (0.5, 0.1), (0.75, 0.05), (1.0, 0.2e-4)] {
        let rate = order.learning_rate((share * order.n_samples as f64) as u64);
        assert!((rate - expected).abs() < 1e-3 * expected, "{share}: {rate}");
    }
}

/// All tables of an order, before training.
pub(super) fn buffer_in_memory<T: Scalar>(
    run: RunContext<'_>,
    order: u32,
) -> PartitionBuffer<'_, T> {
    let mut buffer = PartitionBuffer::new(run, None);
    buffer.begin_order(order).unwrap();
    buffer
}

/// Context of a run in memory.
pub(super) fn context<'r>(
    store: &'r Store,
    config: &'r Config,
    device: &'r Device,
) -> RunContext<'r> {
    static MEMORY: LazyLock<Memory> = LazyLock::new(Memory::default);
    static NOTHING_STAYS: LazyLock<ResidentEdges> = LazyLock::new(ResidentEdges::default);
    static HOST: LazyLock<RankDevices> =
        LazyLock::new(|| RankDevices::open(&Device::host(), &Config::default()).unwrap());
    RunContext {
        store,
        config,
        device,
        devices: &HOST,
        layout: Layout::WHOLE,
        warm_start: None,
        losses: None,
        resident: &NOTHING_STAYS,
        memory: &MEMORY,
    }
}

/// The noise is that of the rows of each part, by degree^0.75.
#[test]
fn negatives_are_as_frequent_as_their_degrees_say() {
    let edges: Vec<(u32, u32)> = (1..82).map(|v| (0, v % 41 + 1)).chain([(50, 51)]).collect();
    let store = Store::from_edges(60, &edges, 2, NodeLabels::numbers(60)).unwrap();
    let (config, device) = (small(Order::Second), Device::host());
    let run = context(&store, &config, &device);
    for part in 0..2 {
        let table = run.negatives(run.device, part).unwrap().table.unwrap();
        let degrees = store.degrees_of(part);
        let weights: Vec<f64> = degrees.iter().map(|&d| f64::from(d).powf(0.75)).collect();
        let found = table.probabilities().unwrap();
        let total: f64 = weights.iter().sum();
        assert_eq!(found.len(), weights.len());
        for (found, weight) in found.iter().zip(&weights) {
            assert!((found - weight / total).abs() < 1e-6, "{found} {weight}");
        }
    }
}

/// A store of directed edges, whose labels are the numbers of nodes.
pub(super) fn directed(edges: &[(u32, u32)]) -> Store {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.store");
    let text = folder.path().join("g.txt");
    let edges: String = edges.iter().map(|(u, v)| format!("{u} {v}\n")).collect();
    std::fs::write(&text, edges).unwrap();
    let options = crate::ImportOptions {
        directed: true,
        parts: Some(2),
        ..crate::ImportOptions::default()
    };
    crate::import_file(&text, &path, &options).unwrap();
    Store::open(&path).unwrap()
}

/// Directed edges of order 2 keep their direction in all passes: rows of nodes that only receive
/// stay where they began.
#[test]
fn directed_edges_are_not_turned_in_order_2() {
    let edges: Vec<(u32, u32)> = (0..40).map(|k| (k % 10, 10 + (k * 7) % 30)).collect();
    let store = directed(&edges);
    let begun = |epochs| {
        run(
            &store,
            &Config {
                epochs,
                ..small(Order::Second)
            },
        )
    };
    let (two, four) = (begun(2), begun(4));
    let labels = two.labels();
    for node in 0..two.n_nodes() as u32 {
        let receives = labels.get(node as usize).parse::<u32>().unwrap() >= 10;
        assert_eq!(
            two.row(node) == four.row(node),
            receives,
            "{}",
            labels.get(node as usize)
        );
    }
}

#[test]
fn the_rate_and_the_number_of_samples_are_those_asked_for() {
    let store = two_communities(64, 2);
    let mut last = 0;
    let config = small(Order::Both);
    let trained = train(&store, &config, &Device::host(), &mut |progress| {
        assert!(progress.samples >= last);
        last = progress.samples;
    });
    assert_eq!(trained.unwrap().n_samples, 2 * 4 * store.n_edges());
    assert_eq!(last, 2 * 4 * store.n_edges());
    for (epochs, rate) in [(1, 0.3), (5, 0.3), (10, 0.15), (50, 0.03), (2000, 0.025)] {
        let config = Config {
            epochs,
            ..Config::default()
        };
        assert!((config.first_rate() - rate).abs() < 1e-6);
    }
    assert!((Config::preset(crate::Preset::Paper).first_rate() - 0.025).abs() < 1e-9);
}

#[test]
fn graphs_without_edges_and_nodes_without_edges_are_no_error() {
    let empty = Store::from_edges(5, &[], 2, NodeLabels::numbers(5)).unwrap();
    assert_eq!(run(&empty, &small(Order::Both)).n_nodes(), 5);
    let lonely = Store::from_edges(50, &[(0, 1)], 16, NodeLabels::numbers(50)).unwrap();
    let embedding = run(&lonely, &small(Order::Both));
    assert!(embedding.row(49).iter().all(|x| x.abs() <= 0.5 / 16.0));
    let none = Store::from_edges(0, &[], 1, NodeLabels::numbers(0)).unwrap();
    assert_eq!(run(&none, &small(Order::First)).n_nodes(), 0);
}

/// Each of two items waits for the other: with a thread each, both are done.
#[test]
fn items_are_done_side_by_side() {
    let wait = std::time::Duration::from_secs(60);
    let ((to_a, of_a), (to_b, of_b)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let items = vec![(to_a, of_b), (to_b, of_a)];
    let meet = |(tell, hear): (std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>)| {
        tell.send(()).unwrap();
        hear.recv_timeout(wait).expect("the other runs too");
        Ok(())
    };
    WorkerPool { n_threads: 2 }.for_each(items, meet).unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    let note = |item: u32| {
        order.lock().unwrap().push(item);
        Ok(())
    };
    let one = WorkerPool { n_threads: 1 };
    one.for_each(vec![1, 2, 3], note).unwrap();
    assert_eq!(order.into_inner().unwrap(), [3, 2, 1]);
}
