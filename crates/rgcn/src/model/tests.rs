//! The network against the equations: units, gradients, depth, and what permutations must not
//! change.

use proptest::prelude::*;
use shardgraph_collectives::{Comm, Timeout, threads};
use shardgraph_random::KeyedRng;

use super::comm::RankComm;
use super::layout::{Extent, Layout, RankContext, max_blocks};
use super::loss::Targets;
use super::naive::Naive;
use super::network::Network;
use crate::config::{Config, Mode, Normaliser, Optimiser, Sums};
use crate::partition::{CostModel, Method};
use crate::{Error, RelationalGraph};

/// A graph with everything that is awkward: double edges, loops, a hub, a relation without edges,
/// nodes without edges.
fn awkward(seed: u64, n_nodes: u32, n_relations: u32, n_edges: usize) -> RelationalGraph {
    let mut stream = KeyedRng::new(seed, "awkward graph", 0);
    let (mut sources, mut relations, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    let n_alive = (n_nodes - n_nodes / 4).max(1);
    for edge in 0..n_edges {
        let (source, relation, target) = match edge % 7 {
            6 if edge > 0 => (sources[edge - 1], relations[edge - 1], targets[edge - 1]),
            5 => (stream.below_u32(n_alive), stream.below_u32(n_relations), 0),
            4 => {
                let node = stream.below_u32(n_alive);
                (node, stream.below_u32(n_relations), node)
            }
            _ => (
                stream.below_u32(n_alive),
                stream.below_u32(n_relations),
                stream.below_u32(n_alive),
            ),
        };
        sources.push(source);
        relations.push(relation);
        targets.push(target);
    }
    RelationalGraph::new(n_nodes, n_relations + 1, sources, relations, targets).unwrap()
}

fn labels(n_nodes: u32, n_classes: u32) -> Vec<(u32, u32)> {
    (0..n_nodes)
        .step_by(2)
        .map(|node| (node, node / 2 % n_classes))
        .collect()
}

fn extent(config: &Config, n_ranks: usize) -> Extent {
    Extent {
        n_layers: config.hidden.len() + 1,
        n_ranks,
        max_blocks: max_blocks(config, 3, 10),
        normaliser: config.normaliser,
        method: Method::Source,
        model: CostModel::of(config),
    }
}

fn network_of<'a>(
    config: &'a Config,
    layout: &'a Layout<'a>,
    rank: usize,
    n_classes: u32,
) -> Result<Network<'a>, Error> {
    Network::new(RankContext {
        config,
        layout,
        rank,
        n_classes,
    })
}

fn alone<R>(body: impl FnOnce(&mut RankComm<'_>) -> Result<R, Error>) -> R {
    let mut comm = Comm::solo();
    let mut ranks = RankComm::new(&mut comm, Timeout::default());
    body(&mut ranks).unwrap()
}

/// Gradient and loss of one step of SGD at rate 1, from what it did to the parameters.
fn stepped(
    config: &Config,
    layout: &Layout<'_>,
    labels: &[(u32, u32)],
    n_classes: u32,
) -> (Vec<f64>, f64) {
    let config = Config {
        optimiser: Optimiser::Sgd,
        rate: 1.0,
        ..config.clone()
    };
    let mut network = network_of(&config, layout, 0, n_classes).unwrap();
    let before = Naive::params(&network);
    let loss = alone(|ranks| one_step(&mut network, labels, n_classes, 1, ranks));
    let after = Naive::params(&network);
    (
        before
            .iter()
            .zip(after)
            .map(|(before, after)| before - after)
            .collect(),
        loss,
    )
}

fn one_step(
    network: &mut Network<'_>,
    labels: &[(u32, u32)],
    n_classes: u32,
    step: u32,
    ranks: &mut RankComm<'_>,
) -> Result<f64, Error> {
    let layout = network.layout;
    let last = layout.n_layers();
    let places: Vec<_> = (0..layout.n_ranks())
        .map(|rank| layout.places(last, rank))
        .collect();
    let targets = Targets::new(labels, &layout.sets[last], &places, network.rank);
    network.forward(ranks, Some(0))?;
    let logits = &network.activations[last - 1];
    let mut gradient = vec![0.0; logits.len()];
    let scores = targets.score(logits, n_classes as usize, Some(&mut gradient), ranks)?;
    network.backward(ranks, gradient.into(), step)?;
    Ok(scores.loss)
}

fn variants() -> Vec<Config> {
    let model = |bases, embedding, hidden: &[usize]| Config {
        bases,
        embedding,
        hidden: hidden.to_vec(),
        mode: Mode::Full,
        ..Config::default()
    };
    let with_bias = |config| Config {
        bias: true,
        ..config
    };
    let with_decay = |config| Config { l2: 0.01, ..config };
    vec![
        model(3, 0, &[5]),
        model(0, 0, &[5]),
        with_bias(model(2, 0, &[4, 3])),
        Config {
            self_loop: false,
            ..with_bias(model(0, 0, &[3, 16]))
        },
        with_decay(model(0, 6, &[5])),
        with_bias(with_decay(model(2, 3, &[8, 4]))),
        with_decay(model(7, 0, &[])),
        Config {
            blocks: 2,
            normaliser: Normaliser::Node,
            ..with_bias(with_decay(model(0, 7, &[6, 5])))
        },
        Config {
            blocks: 3,
            ..with_decay(model(0, 0, &[4, 10]))
        },
        with_decay(model(0, 0, &[])),
        Config {
            sums: Sums::Float,
            ..with_decay(model(4, 0, &[10]))
        },
    ]
}

#[test]
fn logits_and_gradients_are_those_of_the_equations() {
    for (variant, config) in variants().into_iter().enumerate() {
        let graph = awkward(variant as u64, 14, 3, 40);
        let labels = labels(14, 3);
        let layout = Layout::new(&graph, config.self_loop, None, extent(&config, 1)).unwrap();
        let mut network = network_of(&config, &layout, 0, 3).unwrap();
        alone(|ranks| network.forward(ranks, None));
        let (naive, params) = Naive::of(&network);
        let expected: Vec<f64> = naive.logits(&params).into_iter().flatten().collect();
        for (value, expected) in network.activations.last().unwrap().iter().zip(&expected) {
            assert!(
                (f64::from(*value) - expected).abs() < 2e-6,
                "variant {variant}: {value} {expected}"
            );
        }
        let (gradient, _) = stepped(&config, &layout, &labels, 3);
        assert_eq!(gradient.len(), params.len());
        for (i, found) in gradient.iter().enumerate() {
            let mut moved = params.clone();
            moved[i] += 1e-5;
            let more = naive.loss(&moved, &labels);
            moved[i] -= 2e-5;
            let slope = (more - naive.loss(&moved, &labels)) / 2e-5;
            assert!(
                (slope - found).abs() < 2e-6,
                "variant {variant}, parameter {i}: {slope} {found}"
            );
        }
        assert!(gradient.iter().any(|g| g.abs() > 1e-3), "variant {variant}");
    }
}

#[test]
fn pruning_changes_neither_loss_nor_parameters_at_any_depth() {
    for depth in 0..4 {
        for bases in [0, 3] {
            let config = Config {
                hidden: vec![6; depth],
                bases,
                l2: 0.01,
                sums: Sums::Float,
                ..Config::default()
            };
            let graph = awkward(40 + depth as u64, 60, 4, 90);
            let labels = vec![(3, 0), (17, 1), (30, 2)];
            let nodes: Vec<u32> = labels.iter().map(|&(node, _)| node).collect();
            let full = Layout::new(&graph, true, None, extent(&config, 1)).unwrap();
            let pruned = Layout::new(&graph, true, Some(&nodes), extent(&config, 1)).unwrap();
            assert!(
                pruned.sets[0].len() < full.sets[0].len(),
                "nothing was pruned"
            );
            let run = |layout| {
                let mut network = network_of(&config, layout, 0, 3).unwrap();
                let losses: Vec<f64> = (1..=3)
                    .map(|step| alone(|ranks| one_step(&mut network, &labels, 3, step, ranks)))
                    .collect();
                (losses, network)
            };
            let (losses, whole) = run(&full);
            let (pruned_losses, network) = run(&pruned);
            assert_eq!(losses, pruned_losses, "depth {depth}");
            // Widened to all nodes, the pruned network is the whole one, bit for bit.
            let everything: Vec<u32> = (0..60).collect();
            let wide = pruned.with_outputs(Some(&everything));
            let widened = network.for_outputs(&wide, 3).unwrap();
            assert_eq!(Naive::params(&widened), Naive::params(&whole));
        }
    }
}

/// With half the units dropped, the step of the hidden bias is the slope of the loss under the same
/// drops.
#[test]
fn gradients_know_of_dropped_units() {
    let graph = awkward(21, 30, 3, 90);
    let labels = labels(30, 3);
    let config = Config {
        hidden: vec![8],
        bases: 3,
        bias: true,
        dropout: 0.5,
        optimiser: Optimiser::Sgd,
        rate: 1.0,
        mode: Mode::Full,
        ..Config::default()
    };
    let layout = Layout::new(&graph, true, None, extent(&config, 1)).unwrap();
    let stepped = |unit: usize, by: f32| {
        let mut network = network_of(&config, &layout, 0, 3).unwrap();
        // Away from the kink at zero, where a slope is two.
        network.layers[0].bias.fill(1.0);
        network.layers[0].bias[unit] += by;
        let loss = alone(|ranks| one_step(&mut network, &labels, 3, 1, ranks));
        (loss, 1.0 - network.layers[0].bias[unit])
    };
    for unit in 0..8 {
        let slope = (stepped(unit, 0.05).0 - stepped(unit, -0.05).0) / 0.1;
        let found = f64::from(stepped(unit, 0.0).1);
        assert!((slope - found).abs() < 1e-3, "unit {unit}: {slope} {found}");
    }
    assert!((0..8).any(|unit| stepped(unit, 0.0).1.abs() > 0.02));
}

/// Renumbering nodes or relations renumbers the logits' rows and nothing else: with parameters
/// carried along.
#[test]
fn permuted_relations_and_edges_give_the_same_logits() {
    let graph = awkward(9, 20, 4, 60);
    let (sources, relations, targets) = graph.columns();
    let order: Vec<usize> = (0..graph.n_edges()).rev().collect();
    let pick = |column: &[u32]| order.iter().map(|&edge| column[edge]).collect::<Vec<u32>>();
    let reversed =
        RelationalGraph::new(20, 5, pick(sources), pick(relations), pick(targets)).unwrap();
    let turned: Vec<u32> = relations.iter().map(|r| (r + 2) % 5).collect();
    let turned = RelationalGraph::new(20, 5, sources.into(), turned, targets.into()).unwrap();
    let config = Config {
        hidden: vec![6],
        bases: 3,
        self_loop: false,
        ..Config::default()
    };
    let logits = |graph: &RelationalGraph, turn: usize| {
        let layout = Layout::new(graph, false, None, extent(&config, 1)).unwrap();
        let mut network = network_of(&config, &layout, 0, 3).unwrap();
        for layer in &mut network.layers {
            // Relation r + turn gets what r had.
            layer.coefficients.as_mut().unwrap().params[..5 * 3].rotate_right(turn * 3);
        }
        alone(|ranks| network.forward(ranks, None));
        network.activations[1].to_vec()
    };
    let expected = logits(&graph, 0);
    assert_eq!(expected, logits(&reversed, 0), "edges in another order");
    for (a, b) in expected.iter().zip(logits(&turned, 2)) {
        assert!((a - b).abs() < 1e-6, "relations in another order: {a} {b}");
    }
    assert_ne!(expected, logits(&turned, 0));
}

#[test]
fn dropout_drops_its_share_and_keeps_the_mean() {
    let graph = awkward(2, 3000, 3, 9000);
    let config = Config {
        hidden: vec![16],
        bases: 4,
        dropout: 0.25,
        ..Config::default()
    };
    let layout = Layout::new(&graph, true, None, extent(&config, 1)).unwrap();
    let mut network = network_of(&config, &layout, 0, 3).unwrap();
    alone(|ranks| network.forward(ranks, None));
    let whole = network.activations[0].to_vec();
    let dropped = |network: &mut Network<'_>, epoch| {
        alone(|ranks| network.forward(ranks, Some(epoch)));
        network.activations[0].to_vec()
    };
    let (first, second) = (dropped(&mut network, 0), dropped(&mut network, 1));
    assert_ne!(first, second);
    assert_eq!(first, dropped(&mut network, 0));
    let alive = whole.iter().filter(|unit| **unit > 0.0).count() as f64;
    let kept = first.iter().filter(|unit| **unit > 0.0).count() as f64;
    assert!((kept / alive - 0.75).abs() < 0.02, "{}", kept / alive);
    let mean =
        |units: &[f32]| units.iter().map(|&u| f64::from(u)).sum::<f64>() / units.len() as f64;
    assert!((mean(&first) / mean(&whole) - 1.0).abs() < 0.03);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The plan has each edge into the wanted nodes once, with the whole graph's normaliser,
    /// however ranks are cut.
    #[test]
    fn plans_of_all_ranks_have_each_message_once(
        seed in 0u64..1000, n_nodes in 1u32..2500, n_edges in 0usize..4000, n_ranks in 1usize..7, step in 1usize..40,
    ) {
        let graph = awkward(seed, n_nodes, 3, n_edges);
        let outputs: Vec<u32> = (0..n_nodes).step_by(step).collect();
        let model = CostModel { n_bases: 3, self_loop: true };
        let normaliser = Normaliser::Relation;
        let extent = Extent { n_layers: 2, n_ranks, max_blocks: 256, normaliser, method: Method::Source, model };
        let layout = Layout::new(&graph, true, Some(&outputs), extent).unwrap();
        let weights = super::normaliser::normalisers(&graph, Normaliser::Relation, |_| true);
        for layer in 0..2 {
            let (read, made) = (&layout.sets[layer], &layout.sets[layer + 1]);
            let mut expected: Vec<(u32, u32, u32, u32)> = graph.edges().zip(&weights)
                .filter(|(edge, _)| made.place(edge.target).is_some())
                .map(|(edge, weight)| (edge.source, edge.relation, edge.target, weight.to_bits()))
                .collect();
            let loops = (0..made.len()).map(|place| made.node(place));
            expected.extend(loops.map(|node| (node, 4, node, 1f32.to_bits())));
            expected.sort_unstable();
            let mut found = Vec::new();
            for rank in 0..n_ranks {
                let plan = &layout.plans(rank)[layer];
                for (source, place) in layout.places(layer, rank).enumerate() {
                    for pair in plan.pairs(source) {
                        for send in plan.sends(pair) {
                            let target = made.node(send.target as usize);
                            found.push((read.node(place), plan.relations[pair], target, send.weight.to_bits()));
                        }
                    }
                }
            }
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}

/// Features are read like an embedding of their numbers; they take no step, and the layers'
/// gradients are those of the equations.
#[test]
fn given_features_are_read_and_take_no_step() {
    for (bases, blocks) in [(0, 0), (2, 0), (0, 2)] {
        let mut stream = KeyedRng::new(7, "features", 0);
        let values: Vec<f32> = (0..14 * 5).map(|_| stream.uniform_f32() - 0.5).collect();
        let features = crate::Features::new(5, values.clone()).unwrap();
        let graph = awkward(3, 14, 3, 40).with_features(features).unwrap();
        let config = Config {
            embedding: 5,
            features: true,
            bases,
            blocks,
            mode: Mode::Full,
            hidden: vec![4],
            ..Config::default()
        };
        let layout = Layout::new(&graph, true, None, extent(&config, 1)).unwrap();
        let network = network_of(&config, &layout, 0, 3).unwrap();
        assert_eq!(network.input.rows[..], values);
        assert!(network.input.moments.first.is_empty());
        let (naive, params) = Naive::of(&network);
        let labels = labels(14, 3);
        let (gradient, _) = stepped(&config, &layout, &labels, 3);
        let n_given = values.len();
        assert!(gradient[..n_given].iter().all(|g| g.abs() < 1e-12));
        for (i, found) in gradient.iter().enumerate().skip(n_given) {
            let mut moved = params.clone();
            moved[i] += 1e-5;
            let more = naive.loss(&moved, &labels);
            moved[i] -= 2e-5;
            let slope = (more - naive.loss(&moved, &labels)) / 2e-5;
            assert!(
                (slope - found).abs() < 2e-6,
                "{bases} {blocks} {i}: {slope} {found}"
            );
        }
    }
}

/// What each layer makes, node by node, with float sums on so many ranks.
fn made_in_parts(
    graph: &RelationalGraph,
    config: &Config,
    method: Method,
    n_ranks: u32,
) -> Vec<Vec<f32>> {
    let extent = Extent {
        method,
        ..extent(config, n_ranks as usize)
    };
    let layout = Layout::new(graph, config.self_loop, None, extent).unwrap();
    let ranks = threads::run(n_ranks, |mut comm| {
        let rank = comm.rank() as usize;
        let mut ranks = RankComm::new(&mut comm, Timeout::default());
        let mut network = network_of(config, &layout, rank, 3).unwrap();
        network.forward(&mut ranks, Some(0)).unwrap();
        network.activations
    });
    let ranks: Vec<Vec<_>> = ranks.into_iter().map(Result::unwrap).collect();
    let of_layer = |layer: usize| ranks.iter().flat_map(|made| made[layer].to_vec()).collect();
    (0..layout.n_layers()).map(of_layer).collect()
}

/// The outputs of each layer, not the loss alone: their difference from the whole's is at most 1e-5
/// of the largest.
#[test]
fn every_layer_in_parts_is_the_whole_to_1e_5() {
    let graph = awkward(11, 900, 6, 9000);
    for (variant, config) in variants().into_iter().enumerate() {
        let config = Config {
            sums: Sums::Float,
            ..config
        };
        let whole = made_in_parts(&graph, &config, Method::Source, 1);
        for method in Method::ALL {
            for n_ranks in [2, 5] {
                let parts = made_in_parts(&graph, &config, method, n_ranks);
                assert_eq!(whole.len(), parts.len());
                for (layer, (whole, parts)) in whole.iter().zip(&parts).enumerate() {
                    assert_eq!(whole.len(), parts.len());
                    let largest = whole.iter().fold(0f32, |max, x| max.max(x.abs()));
                    assert!(largest > 0.0);
                    let differences = whole.iter().zip(parts).map(|(a, b)| (a - b).abs());
                    let most = differences.fold(0f32, f32::max) / largest;
                    let case = format!("variant {variant}, layer {layer}, {n_ranks} by {method}");
                    assert!(most <= 1e-5, "{case}: {most}");
                }
            }
        }
    }
}
