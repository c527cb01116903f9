//! Message passing: what the nodes of a graph learn of their neighbours, round by round.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::device::Binary;
use shardgraph_autodiff::{Ctx, Op, ParamId, Params, Propagation, Shape, Var};
use shardgraph_environments::space::Space;

use crate::error::Call;
use crate::initialiser::add;
use crate::rows::constant;
use crate::spaces::n_node_features;
use crate::{Error, Initialiser};

/// How the representations of a node's neighbours become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Their sum, each times the weight of its edge.
    Sum,
    /// Their mean, by the weights of the edges; zeros for a node without neighbours.
    #[default]
    Mean,
}

/// The rounds of a [`MessagePassing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessagePassingShape {
    /// Width of a node's representation after each round; default 32 and 32.
    pub widths: Vec<usize>,
    /// How neighbours are put together; default their mean.
    pub aggregation: Aggregation,
    /// Whether each round adds to what a node was before it, and its width stays; default no.
    pub residual: bool,
}

impl Default for MessagePassingShape {
    fn default() -> MessagePassingShape {
        MessagePassingShape {
            widths: vec![32, 32],
            aggregation: Aggregation::Mean,
            residual: false,
        }
    }
}

/// Rounds of `h'_v = relu(h_v W + aggregate(h_u, u neighbour of v) U + b)`, plus `h_v` if `residual`.
///
/// Nodes are sharded rows of a batch of graphs, whose edges are read in both directions. After T rounds a node knows its
/// neighbourhood of T steps.
///
/// # Determinism
/// Results and gradients have the same bits for every number of ranks.
///
/// # Source
/// Gilmer et al., "Neural message passing for quantum chemistry" (2017), with linear messages: by sums the graph convolution of
/// Morris et al., "Weisfeiler and Leman go neural" (2019), by means that of Hamilton, Ying and Leskovec, "Inductive
/// representation learning on large graphs" (2017).
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, ShapeCheck};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{GraphBatch, Initialiser, MessagePassing, MessagePassingShape};
/// use shardgraph_graph::random::Stream;
///
/// let space = Space::graph(3, 0)?;
/// let mut params = Params::new();
/// let shape = MessagePassingShape { widths: vec![16, 8], ..MessagePassingShape::default() };
/// let gnn = MessagePassing::build(&mut params, "gnn", &space, &shape, Initialiser::default())?;
///
/// let graphs = [space.sample(&mut Stream::new(7, "graphs", 0)), space.sample(&mut Stream::new(7, "graphs", 1))];
/// let batch = GraphBatch::new(&space, &graphs, 0, 1)?;
/// let mut ctx = ShapeCheck::new(&params, 1);
/// let nodes = batch.nodes(&mut ctx)?;
/// let h = gnn.apply(&mut ctx, nodes, batch.graphs())?;
/// assert_eq!(ctx.shape(h), Shape::new(batch.graphs().layout().n_rows(), 8));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MessagePassing {
    scope: String,
    n_inputs: usize,
    rounds: Vec<Round>,
    aggregation: Aggregation,
    residual: bool,
}

/// The parameters of a round.
#[derive(Debug, Clone, Copy)]
struct Round {
    n_inputs: usize,
    n_outputs: usize,
    own: ParamId,
    neighbours: ParamId,
    b: ParamId,
}

impl Round {
    fn build(
        params: &mut Params,
        scope: &str,
        (n_inputs, n_outputs): (usize, usize),
        initialiser: Initialiser,
    ) -> Result<Round, Error> {
        let call = Call::new(scope, "MessagePassing::build");
        initialiser.check(call)?;
        let mut matrix = |name: &str| {
            let (name, shape) = (format!("{scope}/{name}"), Shape::new(n_inputs, n_outputs));
            let values = initialiser.weights(&name, shape, n_inputs);
            add(params, call, &name, shape, &values)
        };
        let (own, neighbours) = (matrix("own")?, matrix("neighbours")?);
        let b = format!("{scope}/b");
        let biases = initialiser.biases(&b, n_outputs, n_inputs);
        Ok(Round {
            n_inputs,
            n_outputs,
            own,
            neighbours,
            b: add(params, call, &b, Shape::new(1, n_outputs), &biases)?,
        })
    }
}

impl MessagePassing {
    /// Adds the parameters `scope/<round>/own` and `neighbours [n_inputs, width]` and `b [1, width]` for nodes of a graph space.
    ///
    /// # Errors
    /// When the space is not one of graphs whose nodes have features, a width is 0 or, with `residual`, another than before, or the
    /// scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        nodes: &Space,
        shape: &MessagePassingShape,
        initialiser: Initialiser,
    ) -> Result<MessagePassing, Error> {
        let call = Call::new(scope, "MessagePassing::build");
        let n_inputs = n_node_features(call, nodes)?;
        for (i, &width) in shape.widths.iter().enumerate() {
            let what = format!("the width of round {i}");
            call.expect_positive(&what, width)?;
            if shape.residual && width != n_inputs {
                let what = format!("{what}, which adds to what was before");
                return Err(call.misfit(what, n_inputs.to_string(), width.to_string()));
            }
        }
        let (mut rounds, mut width) = (Vec::with_capacity(shape.widths.len()), n_inputs);
        for (i, &next) in shape.widths.iter().enumerate() {
            let scope = format!("{scope}/{i}");
            rounds.push(Round::build(params, &scope, (width, next), initialiser)?);
            width = next;
        }
        Ok(MessagePassing {
            scope: scope.to_string(),
            n_inputs,
            rounds,
            aggregation: shape.aggregation,
            residual: shape.residual,
        })
    }

    /// Columns of its input: the features of a node.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Columns of its result.
    pub fn n_outputs(&self) -> usize {
        let last = self.rounds.last();
        last.map_or(self.n_inputs, |round| round.n_outputs)
    }

    /// The nodes' representations after all rounds.
    ///
    /// # Shapes
    /// Sharded `[n_rows, n_inputs]` to `[n_rows, n_outputs]`, rows as the layout of `graphs` says.
    /// # Errors
    /// Where the rows do not fit.
    /// # Complexity
    /// A round exchanges the narrower of its input and its result once, and makes two products.
    pub fn apply(
        &self,
        ctx: &mut dyn Ctx,
        nodes: Var,
        graphs: &Arc<Propagation>,
    ) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "MessagePassing::apply");
        let shape = Shape::new(graphs.layout().n_rows(), self.n_inputs);
        call.expect_shape(ctx, "the nodes", nodes, shape)?;
        let degrees = match self.aggregation {
            Aggregation::Sum => None,
            Aggregation::Mean => {
                let ones = constant(ctx, Shape::new(shape.rows, 1), 1.0)?;
                Some(ctx.propagate(ones, graphs)?)
            }
        };
        let mut h = nodes;
        for round in &self.rounds {
            let next = self.round(ctx, round, (h, degrees), graphs)?;
            h = match self.residual {
                true => ctx.add(h, next)?,
                false => next,
            };
        }
        Ok(h)
    }

    fn round(
        &self,
        ctx: &mut dyn Ctx,
        round: &Round,
        (h, degrees): (Var, Option<Var>),
        graphs: &Arc<Propagation>,
    ) -> Result<Var, Error> {
        let layout = graphs.layout();
        let (own, neighbours) = (ctx.param(round.own)?, ctx.param(round.neighbours)?);
        let own = ctx.shard_matmul(h, (own, false), layout)?;
        // Sums over neighbours and products commute: the narrower rows travel.
        let messages = match round.n_outputs < round.n_inputs {
            true => {
                let projected = ctx.shard_matmul(h, (neighbours, false), layout)?;
                aggregated(ctx, (projected, degrees), graphs)?
            }
            false => {
                let sums = aggregated(ctx, (h, degrees), graphs)?;
                ctx.shard_matmul(sums, (neighbours, false), layout)?
            }
        };
        let sum = ctx.add(own, messages)?;
        // By way of the states, so that the bias' gradient is an exact sum over ranks.
        let b = ctx.param(round.b)?;
        let n_rows = layout.n_states();
        let b = ctx.apply(Op::RepeatRow { x: b, n_rows })?;
        let b = ctx.state_broadcast(b, layout)?;
        let sum = ctx.add(sum, b)?;
        Ok(ctx.relu(sum)?)
    }
}

/// The sum over neighbours, divided by the degrees where there are some; 0 where a degree is not above 0.
fn aggregated(
    ctx: &mut dyn Ctx,
    (x, degrees): (Var, Option<Var>),
    graphs: &Arc<Propagation>,
) -> Result<Var, Error> {
    let sums = ctx.propagate(x, graphs)?;
    let Some(degrees) = degrees else {
        return Ok(sums);
    };
    let width = ctx.shape(x).cols;
    let everywhere = constant(ctx, Shape::new(1, width), 1.0)?;
    let degrees = ctx.shard_matmul(degrees, (everywhere, false), graphs.layout())?;
    let sums = ctx.apply(Op::Binary {
        op: Binary::WherePositive,
        a: sums,
        b: degrees,
    })?;
    let degrees = ctx.clamp(degrees, f32::MIN_POSITIVE, f32::MAX)?;
    Ok(ctx.div(sums, degrees)?)
}
