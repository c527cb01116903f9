//! The softmax loss against its definition, on any number of threads, and what it learns.

use proptest::prelude::*;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use super::naive::Naive;
use super::{CHUNKS, GradientOf, SoftmaxTraining, Trainer, arrange, pieces};
use crate::train::tests::two_communities;
use crate::{
    Config, DiskOptions, DiskRun, Error, Mode, Precision, Progress, Store, train, train_on_disk,
};

fn random_edges(n_nodes: u32, n_edges: usize, seed: u64) -> Vec<[u32; 2]> {
    let mut rng = KeyedRng::new(seed, "softmax test", 0);
    let mut draw = || [rng.below_u32(n_nodes), rng.below_u32(n_nodes)];
    (0..n_edges).map(|_| draw()).collect()
}

fn to_f64(rows: &[f32], dim: usize) -> Vec<Vec<f64>> {
    let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect();
    rows.chunks_exact(dim).map(row).collect()
}

/// The slopes of the definition itself, by central differences.
#[test]
fn the_naive_gradient_is_that_of_the_naive_loss() {
    let edges = random_edges(7, 5, 1);
    let negatives = [0, 3, 3, 6];
    let mut rng = KeyedRng::new(2, "softmax test rows", 0);
    let rows: Vec<f32> = (0..7 * 3).map(|_| rng.normal() as f32).collect();
    let rows = to_f64(&rows, 3);
    let gradient = Naive::gradient(&rows, &edges, &negatives);
    for node in 0..7 {
        for column in 0..3 {
            let at = |by: f64| {
                let mut rows = rows.clone();
                rows[node][column] += by;
                Naive::loss(&rows, &edges, &negatives)
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            let found = gradient[node][column];
            assert!(
                (found - slope).abs() < 1e-6,
                "{node} {column}: {found} {slope}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nodes that come several times, as sources, targets and negatives, in one chunk and in several.
    #[test]
    fn steps_are_those_of_the_definition(
        n_nodes in 2u32..40, n_edges in 1usize..80, dim in 1usize..34,
        chunk_edges in 0u32..6, n_negatives in 0u32..20, threads in 1usize..7,
    ) {
        let config = Config {
            dim,
            shared_negatives: 1 << chunk_edges,
            negatives: n_negatives,
            threads,
            ..Config::softmax()
        };
        let mut trainer = Trainer::new(n_nodes, &config);
        // Rows of some length: at the start all scores are about 0.
        trainer.rows.iter_mut().for_each(|x| *x *= 500.0);
        let mut naive = Naive {
            rows: to_f64(&trainer.rows, dim),
            squares: vec![0.0; n_nodes as usize],
        };
        let edges = random_edges(n_nodes, n_edges, 3);
        let mut number = 0;
        for step in edges.chunks(CHUNKS << chunk_edges) {
            let with_negatives = |edges: &[[u32; 2]]| {
                let mut rng = KeyedRng::new(config.seed, "line softmax negatives", number);
                number += 1;
                let negatives = (0..n_negatives).map(|_| rng.below_u32(n_nodes)).collect();
                (edges.to_vec(), negatives)
            };
            let chunks: Vec<_> = step.chunks(1 << chunk_edges).map(with_negatives).collect();
            let of_chunk = |(edges, negatives): &(Vec<[u32; 2]>, Vec<u32>)| {
                Naive::loss(&naive.rows, edges, negatives)
            };
            let expected: f64 = chunks.iter().map(of_chunk).sum();
            naive.step(&chunks, f64::from(config.first_rate()));
            let loss = trainer.step(step).unwrap();
            prop_assert!((loss - expected).abs() < 1e-3 * (1.0 + expected), "{} {}", loss, expected);
            for (found, expected) in to_f64(&trainer.rows, dim).iter().flatten()
                .zip(naive.rows.iter().flatten())
            {
                prop_assert!((found - expected).abs() < 2e-3, "{} {}", found, expected);
            }
        }
    }

    /// Pieces have all gradients, each with the row of its node.
    #[test]
    fn pieces_are_the_whole(nodes in prop::collection::vec(0u32..50, 0..200)) {
        let mut nodes = nodes;
        nodes.sort_unstable();
        let gradients: Vec<GradientOf> = nodes
            .iter()
            .map(|&node| GradientOf { node, chunk: 0, row: 0 })
            .collect();
        let mut rows: Vec<f32> = (0..150).map(|at| (at / 3) as f32).collect();
        let mut squares: Vec<f32> = (0..50).map(|at| at as f32).collect();
        let mut found = Vec::new();
        for piece in pieces(&gradients, &mut rows, &mut squares, 3) {
            for gradient in piece.gradients {
                let at = (gradient.node - piece.first_node) as usize;
                prop_assert_eq!(piece.rows[3 * at] as u32, gradient.node);
                prop_assert_eq!(piece.squares[at] as u32, gradient.node);
                found.push(gradient.node);
            }
        }
        prop_assert_eq!(found, nodes);
    }
}

/// Epochs in two calls have the bits of the same epochs in one, and each is reported.
#[test]
fn a_training_that_goes_on_is_a_longer_one() {
    let graph = two_communities(60, 1).graph().unwrap();
    let config = small();
    let after = |calls: &[u32]| {
        let (mut training, mut losses) = (SoftmaxTraining::new(&graph, &config, None), Vec::new());
        for &epochs in calls {
            let mut keep = |now: Progress| losses.extend(now.pass.and_then(|pass| pass.loss));
            training.train_to(epochs, &mut keep).unwrap();
        }
        (training.rows().to_vec(), losses, training.n_samples())
    };
    let (rows, losses, n_samples) = after(&[5]);
    assert_eq!(after(&[2, 3, 5]), (rows, losses.clone(), n_samples));
    assert_eq!((losses.len(), n_samples), (5, 5 * graph.n_edges()));
    assert!(losses[4] < losses[0] - 0.1, "{losses:?}");
}

fn small() -> Config {
    Config {
        dim: 16,
        epochs: 3,
        shared_negatives: 16,
        negatives: 8,
        ..Config::softmax()
    }
}

fn rows(store: &Store, config: &Config) -> Result<crate::Embedding, Error> {
    let trained = train(store, config, &Device::host(), &mut |_| {})?;
    Ok(trained.embedding)
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let store = two_communities(300, 4);
    let one = rows(&store, &small()).unwrap();
    assert_eq!((one.n_nodes(), one.dim()), (300, 16));
    for threads in [2, 3, 6] {
        let config = Config { threads, ..small() };
        assert_eq!(rows(&store, &config).unwrap(), one, "{threads}");
    }
    let other = Config { seed: 2, ..small() };
    assert_ne!(rows(&store, &other).unwrap(), one);
}

#[test]
fn neighbours_are_near() {
    let store = two_communities(200, 4);
    let embedding = rows(
        &store,
        &Config {
            epochs: 10,
            ..small()
        },
    )
    .unwrap();
    let near = |node: u32| {
        let nearest = embedding.nearest(node, 10);
        nearest
            .iter()
            .filter(|near| (near.node < 100) == (node < 100))
            .count()
    };
    let same: usize = (0..200).map(near).sum();
    assert!(same > 1900, "{same} of 2000");
}

/// Each edge once in an epoch, in either direction, in another order in the next one.
#[test]
fn an_epoch_has_each_edge_once() {
    let graph =
        Graph::from_edges(40, &[(0, 1), (1, 2), (5, 9), (8, 30), (31, 39), (2, 30)]).unwrap();
    let all: Vec<[u32; 2]> = graph.edges().map(|(u, v)| [u, v]).collect();
    let (mut first, mut second) = (all.clone(), all.clone());
    arrange(&mut first, 1, 0);
    arrange(&mut second, 1, 1);
    assert_ne!(first, second);
    for edges in [first, second] {
        let mut edges: Vec<[u32; 2]> = edges.iter().map(|&[u, v]| [u.min(v), u.max(v)]).collect();
        edges.sort_unstable();
        assert_eq!(edges, all);
    }
}

/// Where an epoch moves each place of the list is drawn anew: not the last epoch's moves again.
#[test]
fn epochs_of_a_training_are_shuffled_by_draws_of_their_own() {
    let path: Vec<(u32, u32)> = (0..30).map(|node| (node, node + 1)).collect();
    let graph = Graph::from_edges(31, &path).unwrap();
    let mut training = SoftmaxTraining::new(&graph, &small(), None);
    // An edge of the path by its lower end.
    let order = |training: &SoftmaxTraining| -> Vec<u32> {
        let edges = training.edges.iter();
        edges.map(|&[u, v]| u.min(v)).collect()
    };
    let mut before = order(&training);
    let mut moves_of_epoch = |epoch: u32| -> Vec<usize> {
        training.train_to(epoch, &mut |_| {}).unwrap();
        let after = order(&training);
        let from = |edge: &u32| before.iter().position(|old| old == edge).unwrap();
        let moves = after.iter().map(from).collect();
        before = after;
        moves
    };
    assert_ne!(moves_of_epoch(1), moves_of_epoch(2));
}

#[test]
fn settings_that_the_loss_lacks_are_refused_by_name() {
    let store = two_communities(40, 2);
    let base = small;
    for (config, reason) in [
        (
            Config {
                order: crate::Order::Both,
                ..base()
            },
            "order = both",
        ),
        (
            Config {
                precision: Precision::Fp16,
                ..base()
            },
            "precision = fp16",
        ),
        (
            Config {
                mode: Some(Mode::Hogwild),
                ..base()
            },
            "mode = hogwild",
        ),
        (
            Config {
                optimiser: crate::Optimiser::Sgd,
                ..base()
            },
            "optimiser = sgd",
        ),
        (
            Config {
                negatives: 2000,
                ..base()
            },
            "negatives = 2000",
        ),
        (
            Config {
                edges_in_flight: Some(4),
                ..base()
            },
            "edges_in_flight = 4",
        ),
    ] {
        let message = rows(&store, &config).unwrap_err().to_string();
        assert!(message.starts_with(reason), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskRun {
        metrics: None,
        work: folder.path(),
        npy: &folder.path().join("rows.npy"),
        options: &DiskOptions::default(),
    };
    let on_disk = train_on_disk(&store, &base(), &Device::host(), disk, &mut |_| {});
    let message = on_disk.unwrap_err().to_string();
    assert!(
        message.starts_with("loss = softmax: expected sgns"),
        "{message}"
    );
}
