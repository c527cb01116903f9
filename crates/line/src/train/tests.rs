//! Threads change nothing, labels and seeds do; what is trained tells neighbours from strangers.

use super::*;
use crate::{ErrorKind, NodeLabels, Order};
use shardgraph_graph::random::Stream;

/// Two groups of nodes with many edges inside and few between.
pub(super) fn two_communities(n_nodes: u32, n_parts: u32) -> Store {
    let mut stream = Stream::new(5, "communities", 0);
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
    let store = two_communities(130, 4);
    for order in [Order::First, Order::Second, Order::Both] {
        for precision in [Precision::Fp32, Precision::Fp16] {
            for share in [1, 16] {
                let one = Config {
                    precision,
                    share,
                    ..small(order)
                };
                let expected = run(&store, &one);
                for threads in 2..=6 {
                    let many = Config {
                        threads,
                        ..one.clone()
                    };
                    assert!(run(&store, &many) == expected, "{many:?}");
                }
                let other = Config { seed: 2, ..one };
                assert!(run(&store, &other) != expected);
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
                    share,
                    epochs: 40,
                    rate: Some(0.1),
                    ..small(order)
                };
                let found = purity(&run(&store, &config), 200);
                assert!(found > 0.85, "{config:?}, {n_parts} parts: {found}");
            }
        }
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

#[test]
fn settings_out_of_range_are_named() {
    let base = Config::default;
    for (config, reason) in [
        (Config { dim: 0, ..base() }, "dim = 0"),
        (
            Config {
                negatives: 32,
                ..base()
            },
            "negatives = 32",
        ),
        (Config { share: 3, ..base() }, "share = 3"),
        (
            Config {
                threads: 0,
                ..base()
            },
            "threads = 0",
        ),
        (
            Config {
                rate: Some(f32::NAN),
                ..base()
            },
            "rate = NaN",
        ),
        (
            Config {
                rate: Some(-0.1),
                ..base()
            },
            "rate = -0.1",
        ),
    ] {
        let error = config.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}
