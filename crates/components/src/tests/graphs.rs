//! structure2vec and the Q head through the check, on graphs of a graph space: the method brings
//! its batch along.

use std::sync::Arc;

use shardgraph_autodiff::Params;
use shardgraph_environments::space::{GraphValue, Space, Value};
use shardgraph_graph::Graph;
use shardgraph_layers::shard::{CsrShard, Partition};
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, Policy, PolicyShape, StateBatch};
use shardgraph_random::KeyedRng;

use crate::check;

/// One state of a sampled graph, with nothing removed; its first node feature is whether a node was
/// picked.
fn batch(value: &GraphValue) -> StateBatch {
    let edges: Vec<(u32, u32)> = value.edges.iter().map(|&[u, v]| (u, v)).collect();
    let graph = Graph::from_edges(value.n_nodes, &edges).unwrap();
    let partition = Partition::by_rows(graph.n_nodes(), 1);
    let own = partition.range(0);
    let group = Group {
        partition,
        n_states: 1,
    };
    let layout = Arc::new(BatchLayout::new(vec![group], 0));
    let shards = vec![RowShard::Csr(Arc::new(CsrShard::by_rows(
        &graph,
        own.clone(),
    )))];
    let keep = vec![vec![1.0; own.len()]];
    let graphs = Propagation::new(Arc::clone(&layout), shards, keep, vec![0.5]).unwrap();
    let degree = |v: u32| graph.neighbors(v).len() as f32;
    StateBatch {
        inputs: None,
        counted: None,
        layout,
        node: value.node_features.clone(),
        edge: own.clone().flat_map(|v| [0.5 * degree(v), 0.0]).collect(),
        neighbor_degree: Vec::new(),
        propagation: Some(Arc::new(graphs)),
    }
}

#[test]
fn structure2vec_and_its_head_pass_the_check() {
    let (space, mut stream) = (Space::graph(2, 0).unwrap(), KeyedRng::new(4, "graphs", 0));
    let mut params = Params::new();
    let shape = PolicyShape {
        embed_dim: 4,
        n_layers: 2,
        n_node_features: 1,
        ..PolicyShape::default()
    };
    let mut weights = KeyedRng::new(4, "weights", 0);
    let policy = Policy::build(&mut params, shape, &mut || 0.5 * weights.normal() as f32).unwrap();
    let (mut n_derivatives, mut n_unclear) = (0, 0);
    for _ in 0..4 {
        let Value::Graph(graph) = space.sample(&mut stream) else {
            unreachable!("a graph space has graphs");
        };
        let batch = batch(&graph);
        let checked = check("policy", &params, &[], 1, |ctx, _| {
            let embed = policy.embedding.embed(ctx, &batch, Path::General)?;
            Ok(vec![policy.head.scores(ctx, embed, &batch.layout)?])
        });
        let checked = checked.unwrap();
        n_derivatives += checked.n_derivatives;
        n_unclear += checked.n_unclear;
    }
    assert!(
        n_derivatives > 4 * n_unclear,
        "{n_derivatives}, {n_unclear}"
    );
}
