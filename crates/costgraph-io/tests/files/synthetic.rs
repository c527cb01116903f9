//! The generator: the recipe's proportions, seeds, the filter, noisy copies; and the two topology hashes.

use shardgraph_costgraph::{
    ErrorKind, Graph, GraphBuilder, OpSpec, TensorSpec,
    generate::{RandomGraph, Synthetic, noisy_copy, synthetic, synthetic_set},
    topology::{in_degree_hash, structural_hash},
};
use std::collections::BTreeSet;

fn inner(graph: &Graph) -> std::ops::Range<u32> {
    1..graph.n_ops() as u32 - 1
}

/// Numbers as they come, with their mean and deviation.
#[derive(Default)]
struct Sample(Vec<f64>);

impl Sample {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.0.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (squares / self.0.len() as f64).sqrt()
    }
}

#[test]
fn proportions_are_the_recipes() {
    let (mut n_outputs, mut sizes, mut noise) = ([0u32; 3], Sample::default(), Sample::default());
    for index in 0..200 {
        let graph = synthetic(&Synthetic::default(), 11, index).unwrap();
        assert!((52..=202).contains(&graph.n_ops()));
        for op in inner(&graph) {
            let data = |t: &u32| !graph.is_control(*t);
            let outputs: Vec<u32> = graph.outputs(op).filter(data).collect();
            n_outputs[outputs.len()] += 1;
            let bytes = |t: &u32| graph.tensor_bytes(*t);
            sizes.0.extend(outputs.iter().map(|t| bytes(t) as f64));
            let inputs = graph.inputs(op).iter().filter(|t| data(t));
            match outputs.iter().chain(inputs).map(bytes).sum() {
                0 => assert_eq!(graph.cost_ns(0, op), 0),
                total => noise
                    .0
                    .push(graph.cost_ns(0, op) as f64 / total as f64 - 1.0),
            }
        }
    }
    // About 25,000 ops: three standard errors of a share of 0.1 are 0.006.
    let n_ops: u32 = n_outputs.iter().sum();
    let [none, _, two] = n_outputs.map(|n| f64::from(n) / f64::from(n_ops));
    assert!((none - 0.1).abs() < 0.006, "{none}");
    assert!((two - 0.1).abs() < 0.006, "{two}");
    assert!((sizes.mean() - 50.0).abs() < 0.3, "{}", sizes.mean());
    assert!(
        (sizes.deviation() - 10.0).abs() < 0.2,
        "{}",
        sizes.deviation()
    );
    assert!(noise.mean().abs() < 0.003, "{}", noise.mean());
    assert!(
        (noise.deviation() - 0.1).abs() < 0.003,
        "{}",
        noise.deviation()
    );
}

#[test]
fn source_and_sink_hold_everything_together() {
    let (mut n_data, mut n_control) = (0u32, 0u32);
    for index in 0..60 {
        let graph = synthetic(&Synthetic::default(), 5, index).unwrap();
        let last = graph.n_ops() as u32 - 1;
        assert_eq!(
            (graph.op_name(0), graph.op_name(last)),
            ("_SOURCE", "_SINK")
        );
        assert_eq!((graph.cost_ns(0, 0), graph.cost_ns(0, last)), (0, 0));
        assert!(graph.inputs(0).is_empty() && graph.outputs(last).is_empty());
        for op in 0..=last {
            assert!(
                op == 0 || !graph.inputs(op).is_empty(),
                "{op} of {}",
                graph.name()
            );
            let is_used = graph.outputs(op).any(|t| !graph.consumers(t).is_empty());
            assert!(op == last || is_used, "{op} of {}", graph.name());
            assert!(graph.inputs(op).iter().all(|&t| graph.producer(t) < op));
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let from = graph.producer(tensor);
            let has_data = graph.outputs(from).any(|t| !graph.is_control(t));
            let inside = graph
                .consumers(tensor)
                .iter()
                .filter(|&&c| c != last)
                .count() as u32;
            if from != 0 && has_data {
                *(if graph.is_control(tensor) {
                    &mut n_control
                } else {
                    &mut n_data
                }) += inside;
            }
        }
    }
    let share = f64::from(n_control) / f64::from(n_control + n_data);
    assert!((share - 0.2).abs() < 0.02, "{share}");
}

#[test]
fn models_take_turns_and_seeds_differ() {
    let recipe = Synthetic::default();
    let name = |seed, index| synthetic(&recipe, seed, index).unwrap().name().to_owned();
    assert_eq!(name(8, 0), "erdos-renyi-8-0");
    assert_eq!(name(8, 7), "stochastic-block-8-7");
    assert_ne!(
        synthetic(&recipe, 8, 0).unwrap(),
        synthetic(&recipe, 9, 0).unwrap()
    );
    assert_ne!(
        structural_hash(&synthetic(&recipe, 8, 0).unwrap()),
        structural_hash(&synthetic(&recipe, 8, 4).unwrap())
    );
}

/// These bytes were made by this generator; they change only if the recipe or the random streams do.
#[test]
fn the_same_on_every_machine() {
    let graph = synthetic(&Synthetic::default(), 1, 2).unwrap();
    let found = (graph.n_ops(), graph.n_tensors(), graph.n_uses());
    let costs: u64 = (0..graph.n_ops() as u32)
        .map(|op| graph.cost_ns(0, op))
        .sum();
    let bytes: u64 = (0..graph.n_tensors() as u32)
        .map(|t| graph.tensor_bytes(t))
        .sum();
    assert_eq!((found, costs, bytes, structural_hash(&graph)), GOLDEN);
}

const GOLDEN: ((usize, usize, usize), u64, u64, u64) =
    ((109, 180, 261), 13285, 5744, 12_324_805_225_886_112_535);

#[test]
fn sets_hold_new_topologies_only() {
    let recipe = Synthetic {
        models: vec![RandomGraph::WattsStrogatz { k: 2, p: 0.1 }],
        min_nodes: 2,
        max_nodes: 5,
    };
    let mut n_seen = 0;
    let set = synthetic_set(&recipe, 4, 12, 5000, &mut |graph| {
        n_seen += 1;
        graph.n_ops() > 4
    })
    .unwrap();
    assert_eq!(set.graphs.len(), 12);
    assert!(set.graphs.iter().all(|graph| graph.n_ops() > 4));
    let hashes: BTreeSet<u64> = set.graphs.iter().map(in_degree_hash).collect();
    assert_eq!(hashes.len(), 12);
    assert!(set.n_duplicates > 0 && set.n_filtered > 0);
    assert_eq!(n_seen, 12 + set.n_filtered);
    assert_eq!(set.n_candidates, n_seen + set.n_duplicates);
    let error = synthetic_set(&recipe, 4, 12, 100, &mut |_| false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(
        error
            .message()
            .starts_with("100 candidates gave 0 of 12 graphs ("),
        "{error}"
    );
}

#[test]
fn recipes_that_make_no_sense_are_refused() {
    let recipe = |model, min_nodes, max_nodes| Synthetic {
        models: vec![model],
        min_nodes,
        max_nodes,
    };
    let er = |p| RandomGraph::ErdosRenyi { p };
    for bad in [
        recipe(er(0.1), 0, 5),
        recipe(er(0.1), 6, 5),
        recipe(er(1.5), 5, 5),
        recipe(er(f64::NAN), 5, 5),
        recipe(RandomGraph::BarabasiAlbert { m: 0 }, 5, 5),
        recipe(RandomGraph::WattsStrogatz { k: 3, p: 0.1 }, 5, 5),
        recipe(
            RandomGraph::StochasticBlock {
                n_blocks: 0,
                p_within: 0.1,
                p_between: 0.1,
            },
            5,
            5,
        ),
        Synthetic {
            models: Vec::new(),
            ..Synthetic::default()
        },
    ] {
        assert_eq!(
            synthetic(&bad, 1, 0).unwrap_err().kind(),
            ErrorKind::Argument,
            "{bad:?}"
        );
    }
    for model in RandomGraph::PAPER {
        for n in 1..12 {
            synthetic(&recipe(model, n, n), 1, 0).unwrap();
        }
    }
}

#[test]
fn noise_is_uniform_and_leaves_the_topology() {
    let graph = synthetic(&Synthetic::default(), 2, 1).unwrap();
    let mut factors = Sample::default();
    for copy_idx in 0..50 {
        let copy = noisy_copy(&graph, 2, copy_idx).unwrap();
        assert_eq!(structural_hash(&copy), structural_hash(&graph));
        let sizes =
            (0..graph.n_tensors() as u32).map(|t| (copy.tensor_bytes(t), graph.tensor_bytes(t)));
        let costs = (0..graph.n_ops() as u32).map(|op| (copy.cost_ns(0, op), graph.cost_ns(0, op)));
        for (new, old) in sizes.chain(costs) {
            assert!(old > 0 || new == 0, "zero stays zero");
            if old > 0 {
                factors.0.push(new as f64 / old as f64);
            }
        }
    }
    assert!((factors.mean() - 1.0).abs() < 0.01, "{}", factors.mean());
    let variance = factors.deviation() * factors.deviation();
    assert!((variance - 1.0 / 12.0).abs() < 0.003, "{variance}");
    assert_ne!(
        noisy_copy(&graph, 2, 0).unwrap(),
        noisy_copy(&graph, 2, 1).unwrap()
    );
}

/// Ops in a new order, the same graph otherwise.
fn renumbered(graph: &Graph, shift: u32) -> Graph {
    let n = graph.n_ops() as u32;
    let new = |op: u32| (op + shift) % n;
    let mut builder = GraphBuilder::new("renumbered");
    for op in 0..n {
        builder.op(OpSpec::new(format!("{op}"), u64::from(op)));
    }
    for t in 0..graph.n_tensors() as u32 {
        let consumers: Vec<u32> = graph.consumers(t).iter().map(|&c| new(c)).collect();
        let producer = new(graph.producer(t));
        if graph.is_control(t) {
            consumers
                .into_iter()
                .for_each(|c| builder.control(producer, c));
        } else {
            builder.tensor(TensorSpec::new(producer, 3, &consumers));
        }
    }
    builder.build().unwrap()
}

#[test]
fn hashes_look_at_structure_only() {
    let mut hashes = BTreeSet::new();
    for index in 0..40 {
        let graph = synthetic(&Synthetic::default(), 6, index).unwrap();
        for shift in [1, 17] {
            let other = renumbered(&graph, shift);
            assert_eq!(structural_hash(&other), structural_hash(&graph));
            assert_eq!(in_degree_hash(&other), in_degree_hash(&graph));
        }
        hashes.insert(structural_hash(&graph));
    }
    assert_eq!(hashes.len(), 40);
}

/// Two pairs of ops that the in-degree sequence cannot tell apart and the structure can.
#[test]
fn the_structural_hash_tells_more_apart() {
    let graph = |tensors: &[(u32, &[u32])], controls: &[(u32, u32)]| {
        let mut builder = GraphBuilder::new("small");
        for i in 0..4 {
            builder.op(OpSpec::new(format!("{i}"), 1));
        }
        for (producer, consumers) in tensors {
            builder.tensor(TensorSpec::new(*producer, 8, consumers));
        }
        controls.iter().for_each(|&(a, b)| builder.control(a, b));
        builder.build().unwrap()
    };
    let fork = graph(&[(0, &[1]), (0, &[2]), (0, &[3])], &[]);
    let shared = graph(&[(0, &[1, 2, 3])], &[]);
    let chain = graph(&[(0, &[1]), (1, &[2]), (2, &[3])], &[]);
    let control = graph(&[(0, &[1]), (1, &[2])], &[(2, 3)]);
    let all = [fork, shared, chain, control];
    let weak: BTreeSet<u64> = all.iter().map(in_degree_hash).collect();
    let strong: BTreeSet<u64> = all.iter().map(structural_hash).collect();
    assert_eq!((weak.len(), strong.len()), (1, 4));
}
