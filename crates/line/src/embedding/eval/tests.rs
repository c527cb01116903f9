//! Measures against their definitions, draws against their distributions, and the whole on a graph
//! whose answer is known.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn random_graph(n_nodes: u32, n_edges: usize, seed: u64) -> Graph {
    let mut stream = KeyedRng::new(seed, "eval test", 0);
    let edges: Vec<(u32, u32)> = (0..n_edges)
        .map(|_| (stream.below_u32(n_nodes), stream.below_u32(n_nodes)))
        .collect();
    Graph::from_edges(n_nodes, &edges).unwrap()
}

proptest! {
    #[test]
    fn adamic_adar_is_its_definition(n_nodes in 2u32..65, n_edges in 0usize..400, seed in 0u64..50) {
        let graph = random_graph(n_nodes, n_edges, seed);
        for u in 0..n_nodes {
            for v in 0..n_nodes {
                prop_assert_eq!(common_neighbors(&graph, u, v), naive::common_neighbors(&graph, u, v));
                let (found, expected) = (adamic_adar(&graph, u, v), naive::adamic_adar(&graph, u, v));
                // A common neighbour of u and u may have degree 1, whose logarithm is 0.
                prop_assert!(
                    (found - expected).abs() < 1e-9 || found.total_cmp(&expected).is_eq(), "{u} {v}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_split_loses_no_edge(n_edges in 2usize..200, share in 0.01f64..0.99) {
        let graph = random_graph(40, n_edges, 1);
        prop_assume!(graph.n_edges() >= 2);
        let split = split(&graph, share, 3).unwrap();
        prop_assert!(!split.train.is_empty() && !split.test.is_empty());
        let all: BTreeSet<(u32, u32)> = split.train.iter().chain(&split.test).copied().collect();
        prop_assert_eq!(all.len(), split.train.len() + split.test.len());
        prop_assert_eq!(all.len() as u64, graph.n_edges());
        prop_assert!(all.iter().all(|&(u, v)| u < v && graph.has_edge(u, v)));
    }
}

/// The sum of (found - expected)^2 / expected.
fn chi_square(found: &[f64], expected: &[f64]) -> f64 {
    found
        .iter()
        .zip(expected)
        .map(|(f, e)| (f - e).powi(2) / e)
        .sum()
}

#[test]
fn pairs_are_strangers_of_the_asked_distribution() {
    let edges: Vec<(u32, u32)> = (1..20)
        .map(|v| (0, v))
        .chain((20..30).map(|v| (19, v)))
        .collect();
    let graph = Graph::from_edges(40, &edges).unwrap();
    let strangers: Vec<(u32, u32)> = (0..40)
        .flat_map(|u| (0..40).map(move |v| (u, v)))
        .filter(|&(u, v)| u != v && !graph.has_edge(u, v))
        .collect();
    let n = 100_000;
    for is_matched in [false, true] {
        let mut stream = KeyedRng::new(9, "test", 0);
        // One at a time: pairs of one call differ.
        let one = |stream: &mut KeyedRng| match is_matched {
            false => uniform_pairs(&graph, 1, stream).unwrap()[0],
            true => degree_matched_pairs(&graph, 1, stream).unwrap()[0],
        };
        let drawn: Vec<(u32, u32)> = (0..n).map(|_| one(&mut stream)).collect();
        let weight = |&(u, v): &(u32, u32)| {
            if is_matched {
                degree_product(&graph, u, v)
            } else {
                1.0
            }
        };
        let total: f64 = strangers.iter().map(weight).sum();
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        for pair in strangers.iter().filter(|pair| weight(pair) > 0.0) {
            found.push(drawn.iter().filter(|drawn| *drawn == pair).count() as f64);
            expected.push(weight(pair) / total * n as f64);
        }
        assert!(
            (found.iter().sum::<f64>() - n as f64).abs() < 0.5,
            "all drawn pairs are strangers"
        );
        let freedom = found.len() as f64 - 1.0;
        let chi = chi_square(&found, &expected);
        assert!(
            (chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(),
            "{chi} for {freedom}"
        );
    }
}

#[test]
fn a_complete_graph_has_no_strangers() {
    let edges: Vec<(u32, u32)> = (0..10).flat_map(|u| (0..u).map(move |v| (u, v))).collect();
    let graph = Graph::from_edges(10, &edges).unwrap();
    let message = uniform_pairs(&graph, 5, &mut KeyedRng::new(1, "test", 0))
        .unwrap_err()
        .to_string();
    assert!(message.contains("nearly complete"), "{message}");
    assert!(split(&Graph::from_edges(3, &[(0, 1)]).unwrap(), 0.7, 1).is_err());
    for graph in [Graph::from_edges(0, &[]), Graph::from_edges(3, &[])] {
        let graph = graph.unwrap();
        for pairs in [uniform_pairs, degree_matched_pairs] {
            assert!(pairs(&graph, 1, &mut KeyedRng::new(1, "test", 0)).is_err());
        }
    }
}

#[test]
fn pairs_of_one_call_differ() {
    let graph = random_graph(12, 30, 4);
    let n = 12 * 11 / 2 - graph.n_edges() as usize;
    let mut pairs = uniform_pairs(&graph, n, &mut KeyedRng::new(1, "test", 0)).unwrap();
    pairs
        .iter_mut()
        .for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
    assert_eq!(pairs.into_iter().collect::<BTreeSet<_>>().len(), n);
}

#[test]
fn held_out_edges_of_a_graph_with_communities_are_found() {
    let mut stream = KeyedRng::new(2, "test", 0);
    let mut edges = Vec::new();
    for _ in 0..6000 {
        let block = stream.below_u32(8) * 40;
        edges.push((block + stream.below_u32(40), block + stream.below_u32(40)));
    }
    let graph = Graph::from_edges(320, &edges).unwrap();
    let config = Config {
        dim: 16,
        epochs: 40,
        learning_rate: Some(0.1),
        ..Config::default()
    };
    let eval = EvalConfig {
        runs: 2,
        ..EvalConfig::default()
    };
    let scores = evaluate(&graph, &config, &eval, &Device::host(), &mut |_| {}).unwrap();
    assert_eq!(scores.len(), 2);
    assert_ne!(scores[0].embedding, scores[1].embedding);
    for score in scores {
        assert!(
            score.embedding.uniform > 0.9 && score.embedding.degree_matched > 0.9,
            "{score:?}"
        );
        assert!(score.adamic_adar.uniform > 0.9, "{score:?}");
        assert!(score.degree_product.degree_matched < 0.7, "{score:?}");
    }
}

/// With more columns than pairs to fit, a regression over noise knows the pairs that it was fitted
/// to: an AUC above a half would come from these among the pairs that are asked for.
#[test]
fn noise_has_an_auc_of_a_half() {
    let graph = random_graph(200, 3000, 1);
    let eval = EvalConfig {
        fitted_edges: 10,
        l2: 1e-6,
        factorised_edges: 0,
        ..EvalConfig::default()
    };
    let mut noise = |_: &[(u32, u32)], seed: u64| {
        let mut stream = KeyedRng::new(seed, "noise", 0);
        let rows = (0..200 * 96).map(|_| stream.normal() as f32).collect();
        Ok(Embedding::new(96, rows, NodeLabels::numbers(200))?)
    };
    let score = evaluate_rows(&graph, 1, &eval, &mut noise).unwrap()[0];
    for auc in [score.embedding.uniform, score.embedding.degree_matched] {
        assert!((auc - 0.5).abs() < 0.1, "{score:?}");
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let graph = random_graph(20, 40, 1);
    let base = EvalConfig::default;
    for (eval, reason) in [
        (
            EvalConfig {
                train_share: 1.0,
                ..base()
            },
            "train_share = 1",
        ),
        (EvalConfig { runs: 0, ..base() }, "runs = 0"),
        (
            EvalConfig {
                fitted_edges: 0,
                ..base()
            },
            "fitted_edges = 0",
        ),
        (EvalConfig { l2: -1.0, ..base() }, "l2 = -1"),
        (
            EvalConfig {
                parts: Some(5),
                ..base()
            },
            "parts = 5",
        ),
    ] {
        let error = evaluate(
            &graph,
            &Config::default(),
            &eval,
            &Device::host(),
            &mut |_| {},
        )
        .unwrap_err();
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}

/// Hogwild on one bucket, edges that stay on the device, and as many samples in flight as the graph
/// allows give the host's AUC.
#[test]
fn a_device_has_the_hosts_auc() {
    let Some(library) = shardgraph_cuemu::library() else {
        let reason = shardgraph_cuemu::SKIP_REASON;
        println!("SKIPPED: AUC of LINE on an emulated device: {reason}");
        return;
    };
    let device = Device::emulated(&library).unwrap();
    // Five groups of 24 nodes: 4 of 5 edges lie within one.
    let mut rng = KeyedRng::new(3, "eval test groups", 0);
    let mut edge = |_| {
        let (group, u) = (rng.below_u32(5), rng.below_u32(24));
        let other = match rng.chance(0.8) {
            true => group,
            false => rng.below_u32(5),
        };
        (24 * group + u, 24 * other + rng.below_u32(24))
    };
    let edges: Vec<(u32, u32)> = (0..1100).map(&mut edge).collect();
    let graph = Graph::from_edges(120, &edges).unwrap();
    let config = Config {
        dim: 8,
        epochs: 25,
        order: crate::Order::First,
        ..Config::default()
    };
    let auc = |device: &Device| {
        let eval = EvalConfig::default();
        let scores = evaluate(&graph, &config, &eval, device, &mut |_| {}).unwrap();
        scores[0].embedding.uniform
    };
    let (on_host, on_device) = (auc(&Device::host()), auc(&device));
    assert!(on_host > 0.6, "{on_host}");
    assert!((on_host - on_device).abs() < 0.04, "{on_host} {on_device}");
}
