//! Warm starts take the rows of their labels; context tables know the direction of edges.

use shardgraph_device::Device;
use shardgraph_random::KeyedRng;

use crate::train::tests::{directed, run, small, two_communities};
use crate::{Config, Embedding, NodeLabels, Order, TrainOptions, train_with};

/// Nodes that have a row start from it, new ones at random, in all losses and orders; of no epoch
/// that changes anything the rows are those of the start.
#[test]
fn a_warm_start_has_the_rows_of_its_labels() {
    let store = two_communities(130, 4);
    let softmax = Config {
        dim: 8,
        ..Config::softmax()
    };
    let order = |order| Config {
        dim: 8,
        ..small(order)
    };
    for config in [
        order(Order::First),
        order(Order::Second),
        order(Order::Both),
        softmax,
    ] {
        let columns = config.columns();
        let n_known = 100u32;
        let labels: Vec<String> = (0..n_known).rev().map(|node| node.to_string()).collect();
        let labels = NodeLabels::new(labels.iter().map(String::as_str));
        let values = (0..n_known as usize * columns)
            .map(|i| (i % 97) as f32)
            .collect();
        let earlier = Embedding::new(columns, values, labels).unwrap();
        let config = Config {
            epochs: 1,
            learning_rate: Some(1e-12),
            ..config
        };
        let options = TrainOptions {
            init: Some(&earlier),
            contexts: false,
            ..TrainOptions::default()
        };
        let trained = |options| {
            let device = Device::host();
            train_with(&store, &config, options, &device, &mut |_| {})
                .unwrap()
                .embedding
        };
        let (warm, cold) = (trained(options), trained(TrainOptions::default()));
        for node in 0..130 {
            let expected = match node < n_known {
                true => earlier.row(n_known - 1 - node),
                false => cold.row(node),
            };
            for (found, expected) in warm.row(node).iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{node}: {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn warm_starts_that_do_not_fit_are_refused() {
    let store = two_communities(40, 2);
    let config = small(Order::Second);
    let refused = |dim: usize, labels: NodeLabels, contexts: bool, config: &Config| {
        let earlier = Embedding::new(dim, vec![0.0; dim * labels.len()], labels).unwrap();
        let options = TrainOptions {
            init: Some(&earlier),
            contexts,
            ..TrainOptions::default()
        };
        let trained = train_with(&store, config, options, &Device::host(), &mut |_| {});
        trained.unwrap_err().to_string()
    };
    let message = refused(15, NodeLabels::numbers(40), false, &config);
    assert!(
        message.starts_with("init = 15 columns: expected 16"),
        "{message}"
    );
    let message = refused(16, NodeLabels::new(["a", "b"]), false, &config);
    assert!(
        message.starts_with("init = an embedding of other nodes"),
        "{message}"
    );
    let message = refused(16, NodeLabels::numbers(40), true, &small(Order::First));
    assert!(message.starts_with("contexts = true"), "{message}");
}

/// Context rows score a directed edge from its source: the other way round is another score.
#[test]
fn contexts_tell_the_direction_of_edges() {
    // All edges go from the first half to the second.
    let mut stream = KeyedRng::new(4, "directed", 0);
    let edges: Vec<(u32, u32)> = (0..600)
        .map(|_| (stream.below_u32(30), 30 + stream.below_u32(30)))
        .collect();
    let store = directed(&edges);
    // One negative: with more, scores of edges as frequent as these are below 0 by design.
    let config = Config {
        epochs: 60,
        negatives: 1,
        ..small(Order::Second)
    };
    let options = TrainOptions {
        init: None,
        contexts: true,
        ..TrainOptions::default()
    };
    let trained = train_with(&store, &config, options, &Device::host(), &mut |_| {}).unwrap();
    let contexts = trained.contexts.unwrap();
    let node = |label: u32| trained.embedding.labels().find(&label.to_string()).unwrap();
    let score = |u: u32, v: u32| -> f32 {
        let (u, v) = (node(u), node(v));
        let pairs = trained.embedding.row(u).iter().zip(contexts.row(v));
        pairs.map(|(x, y)| x * y).sum()
    };
    let right = edges
        .iter()
        .filter(|&&(u, v)| score(u, v) > score(v, u))
        .count();
    assert!(right > 590, "{right} of 600");
    assert_eq!(trained.embedding, run(&store, &config));
}
