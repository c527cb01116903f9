//! Features of graphs that can be worked out by hand, and of graphs that lack something.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use shardgraph_costgraph::{
    DecoderKind, DeviceSet, Graph, GraphBuilder, ModelOptions, OpSpec, TensorSpec,
};

use super::*;
use shardgraph_components::environments::space::Space;

/// a (10 ns) makes x (40 bytes) for b and c, and y (20) for c; b (30 ns) makes z (60) for d; c (20 ns, 80 bytes of scratch) comes before
/// d (0 ns) by a control dependency alone.
fn four() -> Graph {
    let mut builder = GraphBuilder::new("four");
    let a = builder.op(OpSpec::new("a", 10));
    let b = builder.op(OpSpec::new("b", 30));
    let c = builder.op(OpSpec {
        internal_bytes: 80,
        ..OpSpec::new("c", 20)
    });
    let d = builder.op(OpSpec::new("d", 0));
    builder.tensor(TensorSpec::new(a, 40, &[b, c]));
    builder.tensor(TensorSpec::new(a, 20, &[c]));
    builder.tensor(TensorSpec::new(b, 60, &[d]));
    builder.control(c, d);
    builder.build().unwrap()
}

fn read(graph: &Graph, n_devices: usize, objective: Objective) -> (GraphValue, Features) {
    let devices = DeviceSet::uniform(n_devices, None).unwrap();
    let problem = Problem::new(graph, &devices, objective, ModelOptions::default()).unwrap();
    let options = PlaceOptions {
        objective,
        decoder: Some(DecoderKind::Paper),
        ..PlaceOptions::default()
    };
    let features = features(&problem, &options, 400).unwrap();
    let width = FeatureSet::of(objective).n_node_features(n_devices);
    let space = Space::graph(width, N_EDGE_FEATURES).unwrap();
    space.contains(&features.value).unwrap();
    let Value::Graph(value) = features.value.clone() else {
        panic!("a graph");
    };
    (value, features)
}

#[test]
fn features_are_those_worked_out_by_hand() {
    let (value, found) = read(&four(), 1, Objective::Runtime);
    assert_eq!(found.evaluations, 400);
    assert_eq!(found.best.fitness, (0, 60));
    // Bytes in 80ths (c's scratch is the largest; c needs 140 in all), times in 30ths. On one device all placements are 1.
    let third = (1.0f64 / 3.0) as f32;
    let two_thirds = (2.0f64 / 3.0) as f32;
    let five_thirds = (5.0f64 / 3.0) as f32;
    let expected = [
        [0.0, 0.75, 0.0, 0.0, 0.0, five_thirds, third, 0.0],
        [0.5, 0.75, 0.0, 0.0, third, 0.0, 1.0, 1.0],
        [0.75, 0.0, 1.0, 1.0, third, 0.0, two_thirds, 0.0],
        [0.75, 0.0, 0.0, 0.0, five_thirds, 0.0, 0.0, 0.0],
    ];
    let rows: Vec<&[f32]> = value.node_features.chunks(10).collect();
    assert_eq!(rows.len(), 4);
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!((&row[..8], row[8]), (&expected[..], 1.0));
    }
    // a is first and d is last in every order; b and c share the places between.
    assert_eq!((rows[0][9], rows[3][9]), (0.0, 1.0));
    assert!((rows[1][9] + rows[2][9] - 1.0).abs() < 1e-6);
    // Tensors: x, y, z, and c's control tensor.
    assert_eq!(value.edges, [[0, 1], [0, 2], [0, 2], [1, 3], [2, 3]]);
    let expected = [
        [0.5, 0.0, 0.0],
        [0.5, 0.0, 0.0],
        [0.25, 0.0, third],
        [0.75, 0.0, two_thirds],
        [0.0, 1.0, 1.0],
    ];
    assert_eq!(value.edge_features, expected.as_flattened());
}

#[test]
fn memory_leaves_out_the_times() {
    let (runtime, _) = read(&four(), 2, Objective::Runtime);
    let (memory, _) = read(&four(), 2, Objective::Memory);
    assert_eq!(runtime.node_features.len(), 4 * (9 + 2));
    assert_eq!(memory.node_features.len(), 4 * (5 + 2));
    assert_eq!(memory.edge_features, runtime.edge_features);
    for (with, without) in runtime
        .node_features
        .chunks(11)
        .zip(memory.node_features.chunks(7))
    {
        assert_eq!(with[..4], without[..4]);
        assert!((without[4] + without[5] - 1.0).abs() < 1e-6, "{without:?}");
    }
    // The op with the most time is pinned for the runtime (b), the one with the most bytes for memory (c).
    assert_eq!(runtime.node_features[11 + 8..11 + 10], [1.0, 0.0]);
    assert_eq!(memory.node_features[2 * 7 + 4..2 * 7 + 6], [1.0, 0.0]);
}

#[test]
fn one_elite_is_its_own_mean() {
    let graph = four();
    let devices = DeviceSet::uniform(2, None).unwrap();
    let model = ModelOptions::default();
    let problem = Problem::new(&graph, &devices, Objective::Runtime, model).unwrap();
    let mut options = PlaceOptions {
        seed: 5,
        ..PlaceOptions::default()
    };
    options.genetic.elites = 1;
    // A distribution of its own says nothing here.
    options.genetic.beta = 4.0;
    for kind in DecoderKind::ALL {
        options.decoder = Some(kind);
        let read = features(&problem, &options, 150).unwrap();
        let schedule = Decoder::new(&problem, kind).schedule(&read.best.keys);
        let Value::Graph(value) = read.value else {
            panic!("a graph");
        };
        let ops = schedule.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(*op),
            Step::Transfer { .. } => None,
        });
        let order: Vec<u32> = ops.collect();
        for (op, row) in (0u32..).zip(value.node_features.chunks(11)) {
            let mut placed = [0.0; 2];
            placed[usize::from(schedule.placement[op as usize])] = 1.0;
            assert_eq!(row[8..10], placed);
            let at = order.iter().position(|&other| other == op).unwrap();
            assert_eq!(row[10], (at as f64 / 3.0) as f32);
        }
    }
}

#[test]
fn graphs_that_lack_something_have_zeros() {
    let alone = |cost: u64| {
        let mut builder = GraphBuilder::new("alone");
        builder.op(OpSpec::new("a", cost));
        builder.build().unwrap()
    };
    let (one, _) = read(&alone(7), 2, Objective::Runtime);
    // No tensor, no edge, one op: it is the largest in every respect, pinned, and first.
    assert_eq!(
        one.node_features,
        [0., 0., 0., 1., 0., 0., 1., 1., 1., 0., 0.]
    );
    assert!(one.edges.is_empty() && one.edge_features.is_empty());
    let (nothing, _) = read(&alone(0), 2, Objective::Runtime);
    assert_eq!(nothing.node_features[6], 0.0);
    let mut builder = GraphBuilder::new("three without edges");
    for name in ["a", "b", "c"] {
        builder.op(OpSpec::new(name, 5));
    }
    builder.tensor(TensorSpec::new(0, 9, &[]));
    let (loose, _) = read(&builder.build().unwrap(), 2, Objective::Runtime);
    assert!(loose.edges.is_empty());
    assert_eq!(loose.node_features[..4], [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(loose.node_features[11 + 3], 0.0);
}

#[test]
fn threads_change_no_bit() {
    let graph = four();
    let devices = DeviceSet::uniform(2, None).unwrap();
    let model = ModelOptions::default();
    let problem = Problem::new(&graph, &devices, Objective::Runtime, model).unwrap();
    let of = |threads| {
        let options = PlaceOptions {
            threads,
            ..PlaceOptions::default()
        };
        features(&problem, &options, 300).unwrap().value
    };
    assert_eq!(of(1), of(3));
}
