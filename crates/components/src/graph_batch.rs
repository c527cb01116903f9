//! Values of a graph space as what components over graphs read: rows of nodes, and the sums over their neighbours.

use std::sync::Arc;

use shardgraph_autodiff::shard::{CsrShard, Partition};
use shardgraph_autodiff::{BatchLayout, Ctx, Group, Propagation, RowShard, Shape, Var};
use shardgraph_environments::space::{GraphValue, Space, Value};
use shardgraph_graph::Graph;

use crate::Error;
use crate::error::Call;
use crate::spaces::n_node_features;

/// One rank's rows of a batch of graphs.
///
/// Edges are read in both directions, each pair of nodes once and without loops; what an edge is marked with is left out, so the space
/// has none of it. The whole batch is given on every rank, which keeps its own part.
///
/// An example is at [`crate::MessagePassing`].
#[derive(Debug, Clone)]
pub struct GraphBatch {
    n_features: usize,
    nodes: Vec<f32>,
    graphs: Arc<Propagation>,
}

impl GraphBatch {
    /// The rows of `rank`, of `n_ranks`.
    ///
    /// # Errors
    /// When the space is not one of graphs whose nodes have features and whose edges have none, it does not contain a value, there
    /// is no value, or no such rank.
    /// # Complexity
    /// Time and memory of all graphs, on every rank.
    pub fn new(
        space: &Space,
        values: &[Value],
        rank: u32,
        n_ranks: u32,
    ) -> Result<GraphBatch, Error> {
        let call = Call::new("graph_batch", "GraphBatch::new");
        let n_features = n_node_features(call, space)?;
        call.expect_positive("the number of graphs", values.len())?;
        if rank >= n_ranks {
            let expected = format!("one below {n_ranks}");
            return Err(call.misfit("the rank", expected, rank.to_string()));
        }
        let (mut groups, mut shards, mut keep) = (Vec::new(), Vec::new(), Vec::new());
        let mut nodes = Vec::new();
        for value in values {
            space.contains(value)?;
            let Value::Graph(value) = value else {
                unreachable!("a graph space contains graphs");
            };
            let partition = Partition::by_rows(value.n_nodes, n_ranks);
            let own = partition.range(rank);
            let of_own = own.start as usize * n_features..own.end as usize * n_features;
            nodes.extend_from_slice(&value.node_features[of_own]);
            let shard = CsrShard::by_rows(&graph(call, value)?, own);
            shards.push(RowShard::Csr(Arc::new(shard)));
            keep.push(vec![1.0; value.n_nodes as usize]);
            groups.push(Group {
                partition,
                n_states: 1,
            });
        }
        let scale = vec![1.0; values.len()];
        let layout = Arc::new(BatchLayout::new(groups, rank));
        let graphs = Arc::new(Propagation::new(layout, shards, keep, scale)?);
        Ok(GraphBatch {
            n_features,
            nodes,
            graphs,
        })
    }

    /// The features of the own nodes, graph by graph, as an input.
    ///
    /// # Shapes
    /// Sharded `[n_rows, node features]`.
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn nodes(&self, ctx: &mut dyn Ctx) -> Result<Var, Error> {
        let shape = Shape::new(self.graphs.layout().n_rows(), self.n_features);
        Ok(ctx.input(shape, &self.nodes)?)
    }

    /// The sums over neighbours, with the layout of the rows: a state for each graph.
    pub fn graphs(&self) -> &Arc<Propagation> {
        &self.graphs
    }
}

fn graph(call: Call<'_>, value: &GraphValue) -> Result<Graph, Error> {
    let edges: Vec<(u32, u32)> = value.edges.iter().map(|&[u, v]| (u, v)).collect();
    Graph::from_edges(value.n_nodes, &edges).map_err(|error| {
        let expected = "one that a graph can be made of";
        call.misfit("a value", expected, error.to_string())
    })
}
