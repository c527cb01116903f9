//! Message passing along directed edges that have features.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Axis, Ctx, Params, Shape, Var};
use shardgraph_environments::space::Space;

use crate::error::Call;
use crate::rows::constant;
use crate::spaces::graph_features;
use crate::{EdgeBatch, Error, Gru, Initialiser, Mlp};

/// The reduction of the messages that reach a node to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Their sum.
    Sum,
    /// Their mean; zeros for a node without edges.
    #[default]
    Mean,
}

/// The rule that makes a node's next representation of its own and its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeUpdate {
    /// A perceptron reads both.
    #[default]
    Perceptron,
    /// A perceptron reads both, and its result is added to the node's representation.
    Residual,
    /// A gated recurrent unit, whose input are the messages and whose state is the node.
    Gru,
}

/// The perceptrons and rounds of an [`EdgeMessagePassing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeMessagePassingShape {
    /// Width of a node's and an edge's representation, and of messages; default 32.
    pub width: usize,
    /// Widths of the hidden layers of each perceptron; default one of 32.
    pub hidden: Vec<usize>,
    /// The number of rounds, all with the same weights; default 2.
    pub n_rounds: usize,
    /// The reduction of a node's messages, of edges in both directions; default their mean.
    pub aggregation: Aggregation,
    /// The rule of a round; default a perceptron.
    pub update: NodeUpdate,
}

impl Default for EdgeMessagePassingShape {
    fn default() -> EdgeMessagePassingShape {
        EdgeMessagePassingShape {
            width: 32,
            hidden: vec![32],
            n_rounds: 2,
            aggregation: Aggregation::Mean,
            update: NodeUpdate::Perceptron,
        }
    }
}

/// A graph network: perceptrons encode nodes and edges; in each round an edge sends a message to
/// its target and another one to its source, and a node makes its next representation of its own
/// and its messages.
///
/// Rows are replicated: each rank has all of them.
///
/// # Source
/// Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs"
/// (2020), equation 1, with the sum or mean and the residual and gated rounds of its appendix; the
/// general form is Battaglia et al., "Relational inductive biases, deep learning, and graph
/// networks" (2018).
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EdgeBatch, EdgeMessagePassing, EdgeMessagePassingShape, Initialiser};
/// use shardgraph_random::KeyedRng;
///
/// let space = Space::graph(3, 2)?;
/// let (mut params, start) = (Params::new(), Initialiser::default());
/// let gnn = EdgeMessagePassing::build(&mut params, "gnn", &space, &EdgeMessagePassingShape::default(), start)?;
///
/// let graphs = [space.sample(&mut KeyedRng::new(7, "graphs", 0)), space.sample(&mut KeyedRng::new(7, "graphs", 1))];
/// let batch = EdgeBatch::new(&space, &graphs)?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let (nodes, edges) = (batch.nodes(&mut ctx)?, batch.edges(&mut ctx)?);
/// let h = gnn.apply(&mut ctx, nodes, edges, &batch)?;
/// assert_eq!(ctx.shape(h), Shape::new(batch.n_nodes(), 32));
/// let of_graphs = batch.graph_sums(&mut ctx, h)?;
/// assert_eq!(ctx.shape(of_graphs), Shape::new(2, 32));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EdgeMessagePassing {
    scope: String,
    encode_nodes: Mlp,
    /// None where edges have no features.
    encode_edges: Option<Mlp>,
    /// Makes the messages to targets.
    forward: Mlp,
    /// Makes the messages to sources.
    backward: Mlp,
    update: Update,
    width: usize,
    n_rounds: usize,
    aggregation: Aggregation,
}

/// The parts of a [`NodeUpdate`].
#[derive(Debug, Clone)]
enum Update {
    Perceptron { mlp: Mlp, is_residual: bool },
    Gru(Gru),
}

impl Update {
    fn apply(&self, ctx: &mut dyn Ctx, h: Var, messages: Var) -> Result<Var, Error> {
        let (mlp, is_residual) = match self {
            Update::Gru(gru) => return gru.step(ctx, messages, h),
            Update::Perceptron { mlp, is_residual } => (mlp, *is_residual),
        };
        let joined = ctx.concat(h, messages, Axis::Cols)?;
        let next = mlp.apply(ctx, joined)?;
        match is_residual {
            true => Ok(ctx.add(h, next)?),
            false => Ok(next),
        }
    }
}

impl EdgeMessagePassing {
    /// Adds the parameters of the perceptrons `scope/nodes`, `scope/edges` (where edges have
    /// features), `scope/forward` and `scope/backward`, and of `scope/update`, a perceptron or a
    /// [`Gru`], for a graph space.
    ///
    /// # Errors
    /// When the space is not one of graphs whose nodes have features, a width is 0, a gain cannot
    /// be right or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        graphs: &Space,
        shape: &EdgeMessagePassingShape,
        initialiser: Initialiser,
    ) -> Result<EdgeMessagePassing, Error> {
        let call = Call::new(scope, "EdgeMessagePassing::build");
        let (of_node, of_edge) = graph_features(call, graphs)?;
        let width = shape.width;
        call.expect_positive("the width", width)?;
        let widths = [&shape.hidden[..], &[width]].concat();
        let update = {
            let scope = format!("{scope}/update");
            match shape.update {
                NodeUpdate::Gru => {
                    Update::Gru(Gru::build(params, &scope, width, width, initialiser)?)
                }
                kind => Update::Perceptron {
                    mlp: Mlp::build(params, &scope, 2 * width, &widths, initialiser)?,
                    is_residual: kind == NodeUpdate::Residual,
                },
            }
        };
        let mut mlp = |name: &str, n_inputs: usize| {
            let scope = format!("{scope}/{name}");
            Mlp::build(params, &scope, n_inputs, &widths, initialiser)
        };
        let encode_nodes = mlp("nodes", of_node)?;
        let encode_edges = (of_edge > 0).then(|| mlp("edges", of_edge)).transpose()?;
        let n_ends = if of_edge > 0 { 3 } else { 2 };
        Ok(EdgeMessagePassing {
            scope: scope.to_string(),
            encode_nodes,
            encode_edges,
            forward: mlp("forward", n_ends * width)?,
            backward: mlp("backward", n_ends * width)?,
            update,
            width,
            n_rounds: shape.n_rounds,
            aggregation: shape.aggregation,
        })
    }

    /// Columns of its result.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The nodes' representations after all rounds; `edges` are there exactly if edges have
    /// features.
    ///
    /// # Shapes
    /// `[n_nodes, node features]` and `[n_edges, edge features]` to `[n_nodes, width]`.
    /// # Errors
    /// Where the rows do not fit the batch.
    /// # Complexity
    /// A round runs two perceptrons over all edges, and one or a gated unit over all nodes.
    pub fn apply(
        &self,
        ctx: &mut dyn Ctx,
        nodes: Var,
        edges: Option<Var>,
        batch: &EdgeBatch,
    ) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "EdgeMessagePassing::apply");
        let shape = Shape::new(batch.n_nodes(), self.encode_nodes.n_inputs());
        call.expect_shape(ctx, "the nodes", nodes, shape)?;
        let edges = match (&self.encode_edges, edges) {
            (None, None) => None,
            (Some(encode), Some(edges)) => {
                let shape = Shape::new(batch.n_edges(), encode.n_inputs());
                call.expect_shape(ctx, "the edges", edges, shape)?;
                match batch.n_edges() {
                    0 => None,
                    _ => Some(encode.apply(ctx, edges)?),
                }
            }
            (Some(_), None) => return Err(call.mismatch("the edges", "their features", "none")),
            (None, Some(_)) => return Err(call.mismatch("the edges", "no features", "some")),
        };
        let mut h = self.encode_nodes.apply(ctx, nodes)?;
        for _ in 0..self.n_rounds {
            let messages = self.messages(ctx, h, edges, batch)?;
            h = self.update.apply(ctx, h, messages)?;
        }
        Ok(h)
    }

    /// The reduced messages of each node in a round: `[n_nodes, width]`.
    fn messages(
        &self,
        ctx: &mut dyn Ctx,
        h: Var,
        edges: Option<Var>,
        batch: &EdgeBatch,
    ) -> Result<Var, Error> {
        let shape = Shape::new(batch.n_nodes(), self.width);
        if batch.n_edges() == 0 {
            return Ok(constant(ctx, shape, 0.0)?);
        }
        let sources = ctx.gather(h, Arc::clone(&batch.sources))?;
        let targets = ctx.gather(h, Arc::clone(&batch.targets))?;
        let mut ends = ctx.concat(sources, targets, Axis::Cols)?;
        if let Some(edges) = edges {
            ends = ctx.concat(ends, edges, Axis::Cols)?;
        }
        let mut arrived = |mlp: &Mlp, at: &Arc<[u32]>| -> Result<Var, Error> {
            let messages = mlp.apply(ctx, ends)?;
            Ok(ctx.scatter(messages, Arc::clone(at), shape.rows)?)
        };
        let forward = arrived(&self.forward, &batch.targets)?;
        let backward = arrived(&self.backward, &batch.sources)?;
        let sums = ctx.add(forward, backward)?;
        if self.aggregation == Aggregation::Sum {
            return Ok(sums);
        }
        let parts = ctx.input(Shape::new(shape.rows, 1), &batch.parts)?;
        let everywhere = constant(ctx, Shape::new(1, self.width), 1.0)?;
        let parts = ctx.matmul(parts, everywhere)?;
        Ok(ctx.mul(sums, parts)?)
    }
}
