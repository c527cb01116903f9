//! The graph network against plain loops in f64, and through the check.

use proptest::prelude::*;
use shardgraph_autodiff::{Params, Recorder, Shape};
use shardgraph_environments::space::{GraphValue, Space, Value};
use shardgraph_random::KeyedRng;

use super::networks::layers;
use super::{assert_close, normals, rows, run};
use crate::naive::{self, GraphNetwork, GruWeights, NaiveUpdate};
use crate::{
    Aggregation, EdgeBatch, EdgeMessagePassing, EdgeMessagePassingShape, Error, Gru, Initialiser,
    NodeUpdate, check,
};

/// Numbers of features of a node and of an edge.
#[derive(Clone, Copy)]
struct Features {
    of_node: usize,
    of_edge: usize,
}

fn build(
    features: Features,
    shape: &EdgeMessagePassingShape,
    seed: u64,
) -> (Params, Space, EdgeMessagePassing) {
    let space = Space::graph(features.of_node, features.of_edge).unwrap();
    let start = Initialiser {
        seed,
        ..Initialiser::default()
    };
    let mut params = Params::new();
    let gnn = EdgeMessagePassing::build(&mut params, "gnn", &space, shape, start).unwrap();
    (params, space, gnn)
}

/// Loops and repeated edges among them.
fn graph(n_nodes: u32, n_edges: usize, features: Features, seed: u64) -> Value {
    let mut stream = KeyedRng::new(seed, "graph", 0);
    let mut end = || stream.below_u32(n_nodes);
    Value::Graph(GraphValue {
        n_nodes,
        edges: (0..n_edges).map(|_| [end(), end()]).collect(),
        node_features: normals(n_nodes as usize * features.of_node, seed ^ 1),
        edge_features: normals(n_edges * features.of_edge, seed ^ 2),
    })
}

fn updates() -> impl Strategy<Value = NodeUpdate> {
    prop_oneof![
        Just(NodeUpdate::Perceptron),
        Just(NodeUpdate::Residual),
        Just(NodeUpdate::Gru)
    ]
}

/// The parameters of a gated unit with this scope.
fn gru_weights<'a>(params: &'a Params, scope: &str) -> GruWeights<'a> {
    let of = |name: &str| {
        let name = format!("{scope}/{name}");
        let id = params.ids().find(|&id| params.name(id) == name);
        params.values_of(id.expect("a parameter of this name"))
    };
    GruWeights {
        x: (of("w_x"), of("b_x")),
        h: (of("w_h"), of("b_h")),
    }
}

#[test]
fn a_gated_unit_is_pytorchs_formula_and_passes_the_check() {
    for (n_rows, n_inputs, n_hidden, seed) in [(1, 1, 1, 1), (3, 2, 4, 2), (33, 5, 8, 3)] {
        let mut params = Params::new();
        let start = Initialiser {
            seed,
            ..Initialiser::default()
        };
        let gru = Gru::build(&mut params, "cell", n_inputs, n_hidden, start).unwrap();
        let (x, h) = (
            normals(n_rows * n_inputs, seed),
            normals(n_rows * n_hidden, seed ^ 8),
        );
        let out = run(&params, &[(n_inputs, &x), (n_hidden, &h)], |ctx, v| {
            Ok(vec![gru.step(ctx, v[0], v[1])?])
        });
        let weights = gru_weights(&params, "cell");
        let f64s = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let pairs = x.chunks(n_inputs).zip(h.chunks(n_hidden));
        let expected: Vec<f64> = pairs
            .flat_map(|(x, h)| naive::gru_step(&weights, &f64s(x), &f64s(h)))
            .collect();
        assert_close(&out[0], &expected, 1e-5);
        let checked = check(
            "cell",
            &params,
            &[rows(n_inputs), rows(n_hidden)],
            5,
            |ctx, v| Ok(vec![gru.step(ctx, v[0], v[1])?]),
        );
        assert!(checked.unwrap().n_derivatives > 10);
    }
    let mut params = Params::new();
    let gru = Gru::build(&mut params, "cell", 2, 3, Initialiser::default()).unwrap();
    let mut ctx = Recorder::new(&params, 0, 1);
    let x = shardgraph_autodiff::Ctx::input(&mut ctx, Shape::new(4, 2), &[]).unwrap();
    let h = shardgraph_autodiff::Ctx::input(&mut ctx, Shape::new(5, 3), &[]).unwrap();
    let error = gru.step(&mut ctx, x, h).unwrap_err().to_string();
    let expected = "component `cell`, Gru::step: the state: expected [4, 3], given [5, 3]";
    assert_eq!(error, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rounds_are_the_papers_equation(
        sizes in prop::collection::vec((1u32..9, prop_oneof![Just(0usize), 1usize..20, Just(65)]), 1..4),
        (of_node, of_edge) in (1usize..4, 0usize..3),
        (width, hidden) in (1usize..6, prop::collection::vec(1usize..6, 0..2)),
        (n_rounds, update, is_mean) in (0usize..4, updates(), any::<bool>()),
        seed in any::<u64>(),
    ) {
        let aggregation = if is_mean { Aggregation::Mean } else { Aggregation::Sum };
        let shape = EdgeMessagePassingShape { width, hidden, n_rounds, aggregation, update };
        let features = Features { of_node, of_edge };
        let (params, space, gnn) = build(features, &shape, seed);
        let graphs = sizes.iter().zip(seed % 1000..).map(|(&(n, m), seed)| graph(n, m, features, seed));
        let graphs: Vec<Value> = graphs.collect();
        let batch = EdgeBatch::new(&space, &graphs).unwrap();
        let out = run(&params, &[], |ctx, _| {
            let (nodes, edges) = (batch.nodes(ctx)?, batch.edges(ctx)?);
            let h = gnn.apply(ctx, nodes, edges, &batch)?;
            Ok(vec![h, batch.graph_sums(ctx, h)?])
        });
        let of = |name: &str| layers(&params, &format!("gnn/{name}"));
        let network = GraphNetwork {
            nodes: of("nodes"),
            edges: of("edges"),
            forward: of("forward"),
            backward: of("backward"),
            update: match update {
                NodeUpdate::Gru => NaiveUpdate::Gru(gru_weights(&params, "gnn/update")),
                kind => NaiveUpdate::Perceptron(of("update"), kind == NodeUpdate::Residual),
            },
        };
        let (mut all, mut sums) = (Vec::new(), Vec::new());
        for value in &graphs {
            let Value::Graph(value) = value else { unreachable!("made as one") };
            let h = naive::graph_network(&network, value, n_rounds, is_mean);
            sums.extend((0..width).map(|j| h.iter().skip(j).step_by(width).sum::<f64>()));
            all.extend(h);
        }
        // Sums over many edges and rounds grow, and so does what f32 rounds off.
        let scale = all.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
        assert_close(&out[0], &all, 1e-5 * scale);
        assert_close(&out[1], &sums, 1e-5 * scale * 9.0);
    }
}

/// As many edges as nodes: both are the check's rows.
#[test]
fn the_graph_network_passes_the_check() {
    let cases = [
        (Aggregation::Sum, NodeUpdate::Perceptron, 2),
        (Aggregation::Mean, NodeUpdate::Residual, 2),
        (Aggregation::Mean, NodeUpdate::Perceptron, 0),
        (Aggregation::Mean, NodeUpdate::Gru, 2),
    ];
    for (aggregation, update, of_edge) in cases {
        let shape = EdgeMessagePassingShape {
            width: 3,
            hidden: vec![4],
            n_rounds: 2,
            aggregation,
            update,
        };
        let (params, space, gnn) = build(
            Features {
                of_node: 2,
                of_edge,
            },
            &shape,
            6,
        );
        let over_time = |width| rows(width).over_time();
        let inputs = match of_edge {
            0 => vec![over_time(2)],
            of_edge => vec![over_time(2), over_time(of_edge)],
        };
        let checked = check("gnn", &params, &inputs, 2, |ctx, x| {
            let n = ctx.shape(x[0]).rows as u32;
            let value = Value::Graph(GraphValue {
                n_nodes: n,
                edges: (0..n).map(|v| [v, (3 * v + 1) % n]).collect(),
                node_features: vec![0.0; 2 * n as usize],
                edge_features: vec![0.0; of_edge * n as usize],
            });
            let batch = EdgeBatch::new(&space, &[value])?;
            let h = gnn.apply(ctx, x[0], x.get(1).copied(), &batch)?;
            Ok(vec![h, batch.graph_sums(ctx, h)?])
        });
        let checked = checked.unwrap();
        assert_eq!(checked.shapes, [Shape::new(10, 3), Shape::new(1, 3)]);
        assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
    }
}

#[test]
fn what_does_not_fit_the_batch_is_refused() {
    let features = |of_edge| Features {
        of_node: 2,
        of_edge,
    };
    let (params, space, gnn) = build(features(1), &EdgeMessagePassingShape::default(), 1);
    let batch = EdgeBatch::new(&space, &[graph(3, 4, features(1), 1)]).unwrap();
    let mut ctx = Recorder::new(&params, 0, 1);
    let (nodes, edges) = (
        batch.nodes(&mut ctx).unwrap(),
        batch.edges(&mut ctx).unwrap(),
    );
    let message = |result: Result<_, crate::Error>| {
        let error = result.expect_err("it does not fit");
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        error.to_string()
    };
    let of = "component `gnn`, EdgeMessagePassing::apply: ";
    let found = message(gnn.apply(&mut ctx, nodes, None, &batch));
    assert_eq!(
        found,
        format!("{of}the edges: expected their features, given none")
    );
    let found = message(gnn.apply(&mut ctx, edges.unwrap(), edges, &batch));
    assert_eq!(
        found,
        format!("{of}the nodes: expected [3, 2], given [4, 1]")
    );
    let found = message(gnn.apply(&mut ctx, nodes, Some(nodes), &batch));
    assert_eq!(
        found,
        format!("{of}the edges: expected [4, 1], given [3, 2]")
    );
    let found = message(batch.graph_sums(&mut ctx, edges.unwrap()));
    assert!(
        found.contains("EdgeBatch::graph_sums: the rows: expected [3, 1], given [4, 1]"),
        "{found}"
    );
}

#[test]
fn batches_that_cannot_be_are_refused() {
    let space = Space::graph(2, 1).unwrap();
    let found = EdgeBatch::new(&space, &[]).unwrap_err().to_string();
    assert!(
        found.contains("EdgeBatch::new: the number of graphs: expected at least 1"),
        "{found}"
    );
    assert!(EdgeBatch::new(&Space::discrete(2).unwrap(), &[]).is_err());
    let other = graph(
        3,
        4,
        Features {
            of_node: 2,
            of_edge: 2,
        },
        1,
    );
    assert!(EdgeBatch::new(&space, &[other]).is_err());
}
