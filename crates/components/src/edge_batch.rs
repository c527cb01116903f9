//! Values of a graph space side by side, with the features and directions of their edges.

use std::sync::Arc;

use shardgraph_autodiff::{Ctx, Shape, Var};
use shardgraph_environments::space::{Space, Value};

use crate::Error;
use crate::error::Call;
use crate::rows::constant;
use crate::spaces::graph_features;

/// The nodes and edges of several graphs as one graph without edges between them. Loops and
/// repeated edges stay what they are.
///
/// An example is at [`crate::EdgeMessagePassing`].
#[derive(Debug, Clone)]
pub struct EdgeBatch {
    features: (usize, usize),
    nodes: Vec<f32>,
    edges: Vec<f32>,
    n_graphs: usize,
    /// The graph of each node.
    graphs: Arc<[u32]>,
    pub(crate) sources: Arc<[u32]>,
    pub(crate) targets: Arc<[u32]>,
    /// One over the number of ends of edges at each node; 0 where there are none.
    pub(crate) parts: Vec<f32>,
}

impl EdgeBatch {
    /// Of these graphs, in their order.
    ///
    /// # Errors
    /// When the space is not one of graphs whose nodes have features, it does not contain a value,
    /// there is no value, or there are 2^32 - 1 nodes or more.
    pub fn new(space: &Space, values: &[Value]) -> Result<EdgeBatch, Error> {
        let call = Call::new("edge_batch", "EdgeBatch::new");
        let features = graph_features(call, space)?;
        call.expect_positive("the number of graphs", values.len())?;
        let (mut nodes, mut edges, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sources, mut targets, mut first) = (Vec::new(), Vec::new(), 0u32);
        for (value, of_graph) in values.iter().zip(0u32..) {
            space.contains(value)?;
            let Value::Graph(value) = value else {
                unreachable!("a graph space contains graphs");
            };
            let end = first.checked_add(value.n_nodes);
            let end = end.filter(|&end| end < u32::MAX).ok_or_else(|| {
                let given = format!("{first} and {}", value.n_nodes);
                call.mismatch("the number of nodes", "less than 2^32 - 1", given)
            })?;
            nodes.extend_from_slice(&value.node_features);
            edges.extend_from_slice(&value.edge_features);
            graphs.extend((first..end).map(|_| of_graph));
            sources.extend(value.edges.iter().map(|[source, _]| first + source));
            targets.extend(value.edges.iter().map(|[_, target]| first + target));
            first = end;
        }
        let mut n_ends = vec![0u32; first as usize];
        for &end in sources.iter().chain(&targets) {
            n_ends[end as usize] += 1;
        }
        let part = |n: u32| if n == 0 { 0.0 } else { 1.0 / n as f32 };
        Ok(EdgeBatch {
            features,
            nodes,
            edges,
            n_graphs: values.len(),
            graphs: graphs.into(),
            sources: sources.into(),
            targets: targets.into(),
            parts: n_ends.into_iter().map(part).collect(),
        })
    }

    /// Nodes of all graphs.
    pub fn n_nodes(&self) -> usize {
        self.graphs.len()
    }

    /// Edges of all graphs.
    pub fn n_edges(&self) -> usize {
        self.sources.len()
    }

    /// The features of all nodes, as an input.
    ///
    /// # Shapes
    /// `[n_nodes, node features]`.
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn nodes(&self, ctx: &mut dyn Ctx) -> Result<Var, Error> {
        let shape = Shape::new(self.n_nodes(), self.features.0);
        Ok(ctx.input(shape, &self.nodes)?)
    }

    /// The features of all edges, as an input, if edges have some.
    ///
    /// # Shapes
    /// `[n_edges, edge features]`.
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn edges(&self, ctx: &mut dyn Ctx) -> Result<Option<Var>, Error> {
        let shape = Shape::new(self.n_edges(), self.features.1);
        let edges = (shape.cols > 0).then(|| ctx.input(shape, &self.edges));
        Ok(edges.transpose()?)
    }

    /// For each graph the sum of its nodes' rows.
    ///
    /// # Shapes
    /// `[n_nodes, k]` to `[n_graphs, k]`.
    /// # Errors
    /// Where there is another number of rows.
    pub fn graph_sums(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let call = Call::new("edge_batch", "EdgeBatch::graph_sums");
        let shape = Shape::new(self.n_nodes(), ctx.shape(x).cols);
        call.expect_shape(ctx, "the rows", x, shape)?;
        let n_rows = self.n_graphs;
        if shape.rows == 0 {
            return Ok(constant(ctx, Shape::new(n_rows, shape.cols), 0.0)?);
        }
        let index = Arc::clone(&self.graphs);
        Ok(ctx.scatter(x, index, n_rows)?)
    }
}
