//! Message passing against plain loops in f64, through the check, and on several ranks.

use proptest::prelude::*;
use shardgraph_autodiff::collectives::{Comm, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Ctx, Eager, Params, Shape, Var};
use shardgraph_environments::space::{GraphValue, Space, Value};
use shardgraph_graph::random::Stream;

use super::{assert_close, normals, rows};
use crate::naive::{self, MessageRound};
use crate::{
    Aggregation, Error, GraphBatch, Initialiser, MessagePassing, MessagePassingShape, check,
};

/// A graph of so many nodes, about two edges a node, some of them loops or twice; the last node has none.
fn graph(n_nodes: u32, n_features: usize, seed: u64) -> Value {
    let mut stream = Stream::new(seed, "graph", 0);
    let n_ends = n_nodes.saturating_sub(1).max(1);
    let n_edges = if n_nodes > 1 { 2 * n_nodes } else { 0 };
    let mut end = || stream.below_u32(n_ends);
    Value::Graph(GraphValue {
        n_nodes,
        edges: (0..n_edges).map(|_| [end(), end()]).collect(),
        node_features: normals(n_nodes as usize * n_features, seed ^ 1),
        edge_features: Vec::new(),
    })
}

fn build(
    n_features: usize,
    shape: &MessagePassingShape,
    seed: u64,
) -> (Params, Space, MessagePassing) {
    let space = Space::graph(n_features, 0).unwrap();
    let (mut params, start) = (
        Params::new(),
        Initialiser {
            seed,
            ..Initialiser::default()
        },
    );
    let gnn = MessagePassing::build(&mut params, "gnn", &space, shape, start).unwrap();
    (params, space, gnn)
}

/// The rounds' parameters and their form, for the plain loops.
fn naive_rounds(params: &Params, shape: &MessagePassingShape) -> Vec<MessageRound> {
    let ids: Vec<_> = params.ids().collect();
    let f64s = |i: usize| {
        params
            .values_of(ids[i])
            .iter()
            .map(|&x| f64::from(x))
            .collect()
    };
    let round = |i: usize| MessageRound {
        own: f64s(3 * i),
        neighbours: f64s(3 * i + 1),
        b: f64s(3 * i + 2),
        is_mean: shape.aggregation == Aggregation::Mean,
        residual: shape.residual,
    };
    (0..ids.len() / 3).map(round).collect()
}

/// Own rows of the result, the sum of a random combination of all, and its gradient.
fn run(
    (params, space, gnn): &(Params, Space, MessagePassing),
    graphs: &[Value],
    comm: &mut Comm,
) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let batch = GraphBatch::new(space, graphs, comm.rank(), comm.size())?;
    let device = Device::host();
    let mut ctx = Eager::new(&device, comm, params);
    let nodes = batch.nodes(&mut ctx)?;
    let h = gnn.apply(&mut ctx, nodes, batch.graphs())?;
    let sums = ctx.state_sum(h, batch.graphs().layout())?;
    let loss = weighted(&mut ctx, sums)?;
    let gradient = ctx.param_gradient(loss)?;
    Ok((ctx.values(h)?, gradient))
}

fn weighted(ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
    let shape = ctx.shape(x);
    let weights = ctx.input(shape, &normals(shape.len(), 9))?;
    let products = ctx.mul(x, weights)?;
    let sums = ctx.sum_rows(products)?;
    let ones = ctx.input(Shape::new(shape.cols, 1), &vec![1.0; shape.cols])?;
    Ok(ctx.matmul(sums, ones)?)
}

fn shapes() -> impl Strategy<Value = MessagePassingShape> {
    let aggregation = prop_oneof![Just(Aggregation::Sum), Just(Aggregation::Mean)];
    let free = (prop::collection::vec(1usize..9, 0..4), Just(false));
    let residual = (1usize..4).prop_map(|n_rounds| (vec![3; n_rounds], true));
    (prop_oneof![free, residual], aggregation).prop_map(|((widths, residual), aggregation)| {
        MessagePassingShape {
            widths,
            aggregation,
            residual,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rounds_are_their_formula_on_any_number_of_ranks(
        shape in shapes(),
        n_nodes in prop::collection::vec(prop_oneof![1u32..6, 31u32..34, 63u32..67, Just(129)], 1..4),
        n_ranks in 2u32..6,
        seed in any::<u64>(),
    ) {
        let built = build(3, &shape, seed);
        let graphs: Vec<Value> = n_nodes.iter().zip(seed % 1000..).map(|(&n, seed)| graph(n, 3, seed)).collect();
        let (h, gradient) = run(&built, &graphs, &mut Comm::solo()).unwrap();
        let rounds = naive_rounds(&built.0, &shape);
        let naive_rows = |graph: &Value| {
            let Value::Graph(graph) = graph else { unreachable!("made as one") };
            naive::message_passing(&rounds, graph)
        };
        let expected: Vec<f64> = graphs.iter().flat_map(naive_rows).collect();
        assert_close(&h, &expected, 2e-5);

        let parts: Vec<_> = threads::run(n_ranks, |mut comm| run(&built, &graphs, &mut comm).unwrap());
        let parts: Vec<(Vec<f32>, Vec<f32>)> = parts.into_iter().map(Result::unwrap).collect();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let rows: usize = parts.iter().map(|(own, _)| own.len()).sum();
        prop_assert_eq!(rows, h.len());
        for (_, given) in &parts {
            prop_assert_eq!(bits(given), bits(&gradient));
        }
        if graphs.len() == 1 {
            let all: Vec<f32> = parts.into_iter().flat_map(|(own, _)| own).collect();
            prop_assert_eq!(bits(&all), bits(&h));
        }
    }
}

/// A wheel without its hub's spokes to the last node, which is alone; the rows are the check's.
fn around(features: &Space, n_nodes: usize) -> GraphBatch {
    let n = n_nodes as u32;
    let edges = (1..n.saturating_sub(1)).flat_map(|v| [[v, v - 1], [v, v / 2]]);
    let value = Value::Graph(GraphValue {
        n_nodes: n,
        edges: edges.collect(),
        node_features: vec![0.0; 3 * n_nodes],
        edge_features: Vec::new(),
    });
    GraphBatch::new(features, &[value], 0, 1).unwrap()
}

#[test]
fn message_passing_passes_the_check() {
    for aggregation in [Aggregation::Sum, Aggregation::Mean] {
        for (widths, residual) in [(vec![5, 2], false), (vec![3, 3], true), (vec![], false)] {
            let shape = MessagePassingShape {
                widths,
                aggregation,
                residual,
            };
            let (params, space, gnn) = build(3, &shape, 4);
            let checked = check(
                "gnn",
                &params,
                &[rows(3).with_time(super::Major::Time)],
                3,
                |ctx, x| {
                    let batch = around(&space, ctx.shape(x[0]).rows);
                    Ok(vec![gnn.apply(ctx, x[0], batch.graphs())?])
                },
            );
            let checked = checked.unwrap();
            assert_eq!(checked.shapes, [Shape::new(10, gnn.n_outputs())]);
            assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
        }
    }
}

/// A path of three nodes and one that is alone, by hand: `relu(h w + mean u + b)`.
#[test]
fn a_node_without_neighbours_hears_nothing() {
    let shape = MessagePassingShape {
        widths: vec![1],
        ..MessagePassingShape::default()
    };
    let (mut params, space, gnn) = build(1, &shape, 1);
    params.set_flat(&[2.0, 10.0, 0.5]).unwrap();
    let value = Value::Graph(GraphValue {
        n_nodes: 4,
        edges: vec![[0, 1], [2, 1], [1, 2], [3, 3]],
        node_features: vec![1.0, -2.0, 5.0, 7.0],
        edge_features: Vec::new(),
    });
    let (h, _) = run(&(params, space, gnn), &[value], &mut Comm::solo()).unwrap();
    assert_eq!(h, [0.0, 26.5, 0.0, 14.5]); // 2 - 20, -4 + 30, 10 - 20, 14, each + 0.5
}

#[test]
fn batches_that_cannot_be_are_refused() {
    let space = Space::graph(2, 0).unwrap();
    let message = |values: &[Value], rank, n_ranks| {
        let error = GraphBatch::new(&space, values, rank, n_ranks).unwrap_err();
        error.to_string()
    };
    let of = "component `graph_batch`, GraphBatch::new: ";
    assert_eq!(
        message(&[], 0, 1),
        format!("{of}the number of graphs: expected at least 1, given 0")
    );
    let one = graph(3, 2, 1);
    let given = message(std::slice::from_ref(&one), 2, 2);
    assert_eq!(
        given,
        format!("{of}the rank: expected one below 2, given 2")
    );
    let nan = GraphValue {
        n_nodes: 1,
        node_features: vec![f32::NAN, 0.0],
        ..GraphValue::default()
    };
    let given = message(&[one, Value::Graph(nan)], 0, 1);
    assert!(
        given.contains("node_features: expected finite numbers, given NaN"),
        "{given}"
    );
}
