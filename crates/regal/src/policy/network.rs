//! The networks: what makes representations of ops, the head that makes logits of them, and the baseline.

use std::sync::Arc;

use shardgraph_components::autodiff::collectives::Comm;
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Axis, Ctx, Eager, Params, Shape, Var};
use shardgraph_components::environments::space::{Space, Value};
use shardgraph_components::{
    EdgeBatch, EdgeMessagePassing, Error as NetworkError, Initialiser, Lstm, Mlp, Sequences,
    SoftmaxPolicy,
};

use super::actions::{ActionSpace, Actions};
use super::config::{EncoderShape, PolicyConfig};
use super::crossover::{self, Crossover};
use crate::error::Error;
use crate::features::Read;

/// The scope of the layers that make logits, and that of the last of them.
const HEAD: &str = "policy/actions";
const LAST_LAYER: &str = "policy/actions/1/";

/// Several problems side by side, as the networks read them.
pub(crate) struct Contexts {
    batch: EdgeBatch,
    /// Ops of each.
    sizes: Vec<usize>,
    /// The node at each (step, graph), in topological order; none behind a graph's last.
    by_step: Arc<[u32]>,
    /// The other way round: where among (step, graph) each node is.
    step_of: Arc<[u32]>,
}

impl Contexts {
    pub(crate) fn new(space: &Space, problems: &[Read<'_>]) -> Result<Contexts, Error> {
        let values: Vec<Value> = problems.iter().map(|&(value, _)| value.clone()).collect();
        let sizes: Vec<usize> = problems.iter().map(|(_, order)| order.len()).collect();
        let (n_graphs, n_steps) = (sizes.len(), sizes.iter().copied().max().unwrap_or(0));
        let mut by_step = vec![u32::MAX; n_steps * n_graphs];
        let mut step_of = vec![0; sizes.iter().sum()];
        let mut first = 0;
        for (graph, (_, order)) in problems.iter().enumerate() {
            for (step, &op) in order.iter().enumerate() {
                let node = first + op as usize;
                by_step[step * n_graphs + graph] = node as u32;
                step_of[node] = (step * n_graphs + graph) as u32;
            }
            first += order.len();
        }
        Ok(Contexts {
            batch: EdgeBatch::new(space, &values)?,
            sizes,
            by_step: by_step.into(),
            step_of: step_of.into(),
        })
    }

    pub(crate) fn n_graphs(&self) -> usize {
        self.sizes.len()
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.batch.n_nodes()
    }

    /// The node that each graph begins with.
    pub(crate) fn starts(&self) -> impl Iterator<Item = usize> {
        self.sizes.iter().scan(0, |end, &size| {
            *end += size;
            Some(*end - size)
        })
    }

    /// The graph of each node.
    pub(crate) fn graph_of_nodes(&self) -> Vec<usize> {
        let sizes = self.sizes.iter().enumerate();
        sizes
            .flat_map(|(graph, &size)| std::iter::repeat_n(graph, size))
            .collect()
    }

    /// The mean of each graph's rows: `[n_nodes, k]` to `[n_graphs, k]`.
    fn means(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, NetworkError> {
        let sums = self.batch.graph_sums(ctx, x)?;
        let part = |&n: &usize| 1.0 / n.max(1) as f32;
        let parts: Vec<f32> = self.sizes.iter().map(part).collect();
        let parts = ctx.input(Shape::new(parts.len(), 1), &parts)?;
        let width = ctx.shape(x).cols;
        let everywhere = ctx.input(Shape::new(1, width), &vec![1.0; width])?;
        let parts = ctx.matmul(parts, everywhere)?;
        Ok(ctx.mul(sums, parts)?)
    }
}

/// What makes a representation of each op.
#[derive(Clone, Debug)]
enum Encoder {
    Graph(EdgeMessagePassing),
    Sequence { nodes: Mlp, memory: Lstm },
}

impl Encoder {
    /// Adds its parameters under `scope/encoder`.
    fn build(
        params: &mut Params,
        scope: &str,
        config: &PolicyConfig,
        initialiser: Initialiser,
    ) -> Result<Encoder, Error> {
        let scope = format!("{scope}/encoder");
        let n_features = config.n_node_features();
        Ok(match &config.encoder {
            EncoderShape::GraphNetwork(shape) => {
                let space = config.space()?;
                let network =
                    EdgeMessagePassing::build(params, &scope, &space, shape, initialiser)?;
                Encoder::Graph(network)
            }
            EncoderShape::Sequence { width } => {
                let (nodes, memory) = (format!("{scope}/nodes"), format!("{scope}/memory"));
                Encoder::Sequence {
                    nodes: Mlp::build(params, &nodes, n_features, &[*width], initialiser)?,
                    memory: Lstm::build(params, &memory, *width, *width, initialiser)?,
                }
            }
        })
    }

    /// `[n_nodes, width]`.
    fn apply(&self, ctx: &mut dyn Ctx, contexts: &Contexts) -> Result<Var, NetworkError> {
        let features = contexts.batch.nodes(ctx)?;
        match self {
            Encoder::Graph(network) => {
                let edges = contexts.batch.edges(ctx)?;
                network.apply(ctx, features, edges, &contexts.batch)
            }
            Encoder::Sequence { nodes, memory } => {
                let n_graphs = contexts.n_graphs();
                let n_steps = contexts.by_step.len() / n_graphs;
                let x = nodes.features(ctx, features)?;
                let x = ctx.gather(x, Arc::clone(&contexts.by_step))?;
                let begins = vec![0.0; n_steps * n_graphs];
                let begins = ctx.input(Shape::new(n_steps * n_graphs, 1), &begins)?;
                let state = memory.zero_state(ctx, n_graphs)?;
                let rows = Sequences::time_major(n_steps, n_graphs);
                let (h, _) = memory.unroll(ctx, x, begins, state, rows)?;
                Ok(ctx.gather(h, Arc::clone(&contexts.step_of))?)
            }
        }
    }
}

/// The policy's network: representations, and logits of the decisions about each op.
#[derive(Clone, Debug)]
pub(crate) struct PolicyNetwork {
    encoder: Encoder,
    head: Mlp,
    actions: ActionSpace,
    crossover: Option<Crossover>,
}

/// What decisions are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Logits {
    /// `[n_nodes, n_logits]`.
    pub(crate) ops: Var,
    /// `[n_graphs, k]`, where crossover is decided.
    pub(crate) graphs: Option<Var>,
}

impl PolicyNetwork {
    /// Adds its parameters under `policy`.
    pub(crate) fn build(
        params: &mut Params,
        config: &PolicyConfig,
        initialiser: Initialiser,
    ) -> Result<PolicyNetwork, Error> {
        let actions = ActionSpace::new(config)?;
        let encoder = Encoder::build(params, "policy", config, initialiser)?;
        let widths = [config.head_width, actions.n_logits()];
        let head = Mlp::build(params, HEAD, config.encoder_width(), &widths, initialiser)?;
        let crossover = Crossover::build(params, config, initialiser)?;
        super::file::check_size(params.flat().len())?;
        Ok(PolicyNetwork {
            encoder,
            head,
            actions,
            crossover,
        })
    }

    pub(crate) fn actions(&self) -> &ActionSpace {
        &self.actions
    }

    pub(crate) fn crossover(&self) -> Option<&Crossover> {
        self.crossover.as_ref()
    }

    /// Of all decisions, in one pass.
    pub(crate) fn logits(
        &self,
        ctx: &mut dyn Ctx,
        contexts: &Contexts,
    ) -> Result<Logits, NetworkError> {
        let h = self.encoder.apply(ctx, contexts)?;
        let ops = self.head.apply(ctx, h)?;
        let graphs = match &self.crossover {
            None => None,
            Some(crossover) => {
                let means = contexts.means(ctx, h)?;
                Some(crossover.logits(ctx, means)?)
            }
        };
        Ok(Logits { ops, graphs })
    }

    /// The values of the logits of ops and of graphs, row-major.
    pub(crate) fn logits_of(
        &self,
        device: &Device,
        params: &Params,
        contexts: &Contexts,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let mut comm = Comm::solo();
        let mut ctx = Eager::new(device, &mut comm, params);
        let logits = self.logits(&mut ctx, contexts)?;
        let of_graphs = logits.graphs.map(|var| ctx.values(var)).transpose()?;
        Ok((ctx.values(logits.ops)?, of_graphs.unwrap_or_default()))
    }

    /// The logarithm of the probability of each graph's decisions: the sum over its ops and heads, `[n_graphs, 1]`.
    pub(crate) fn log_probabilities(
        &self,
        ctx: &mut dyn Ctx,
        logits: Var,
        contexts: &Contexts,
        actions: &Actions,
    ) -> Result<Var, NetworkError> {
        let heads = self.actions.heads().iter().zip(actions);
        let one_hot = heads.map(|(head, taken)| {
            let k = head.n_actions();
            let mut one_hot = vec![0.0; taken.len() * k];
            for (row, &action) in one_hot.chunks_exact_mut(k).zip(taken) {
                row[action as usize] = 1.0;
            }
            one_hot
        });
        let one_hot: Vec<Vec<f32>> = one_hot.collect();
        let sums = self.weighted(ctx, logits, &one_hot)?;
        contexts.batch.graph_sums(ctx, sums)
    }

    /// The sum over heads and levels of the logarithms of probabilities times these weights, one matrix `[n_nodes, k]` a head:
    /// `[n_nodes, 1]`.
    pub(crate) fn weighted(
        &self,
        ctx: &mut dyn Ctx,
        logits: Var,
        weights: &[Vec<f32>],
    ) -> Result<Var, NetworkError> {
        let mut weights = weights.iter();
        self.sum_over_heads(ctx, logits, &mut |ctx, head, log_probabilities| {
            let shape = ctx.shape(log_probabilities);
            let own = weights.next().map_or(&[][..], Vec::as_slice);
            let own = ctx.input(shape, own)?;
            head.of_actions(ctx, log_probabilities, own)
        })
    }

    /// The entropy of the decisions about each op, in nats: `[n_nodes, 1]`.
    pub(crate) fn entropies(&self, ctx: &mut dyn Ctx, logits: Var) -> Result<Var, NetworkError> {
        self.sum_over_heads(ctx, logits, &mut |ctx, head, log_probabilities| {
            head.entropy(ctx, log_probabilities)
        })
    }

    /// The sum over heads of what `of_head` makes of the logarithms of their probabilities.
    fn sum_over_heads(
        &self,
        ctx: &mut dyn Ctx,
        logits: Var,
        of_head: OfHead<'_>,
    ) -> Result<Var, NetworkError> {
        let mut sum: Option<Var> = None;
        let mut start = 0;
        for head in self.actions.heads() {
            let k = head.n_actions();
            let own = ctx.slice(logits, Axis::Cols, start, k)?;
            let log_probabilities = head.log_probabilities(ctx, own)?;
            let of_head = of_head(ctx, head, log_probabilities)?;
            sum = Some(match sum {
                None => of_head,
                Some(sum) => ctx.add(sum, of_head)?,
            });
            start += k;
        }
        match sum {
            Some(sum) => Ok(sum),
            None => {
                let none = Shape::new(ctx.shape(logits).rows, 1);
                Ok(ctx.input(none, &vec![0.0; none.len()])?)
            }
        }
    }

    /// Makes all levels equally likely: weights and biases of the last layer become 0.
    pub(crate) fn level(params: &mut Params) -> Result<(), NetworkError> {
        let mut values = params.flat().to_vec();
        let mut at = 0;
        for id in params.ids() {
            let n = params.shape(id).len();
            let name = params.name(id);
            if name.starts_with(LAST_LAYER) || name.starts_with(crossover::LAST_LAYER) {
                values[at..at + n].fill(0.0);
            }
            at += n;
        }
        Ok(params.set_flat(&values)?)
    }
}

/// Makes a column of the logarithms of a head's probabilities.
type OfHead<'f> = &'f mut dyn FnMut(&mut dyn Ctx, &SoftmaxPolicy, Var) -> Result<Var, NetworkError>;

/// The baseline's network, apart from the policy's: what reward to expect on a graph.
///
/// `b(G) = -1 + MLP_b(mean of MLP_g(h))`: rewards lie around -1, where proposals are worth nothing.
///
/// # Source
/// Section 4.2, but for the -1, without which the first hundreds of steps would only learn it.
#[derive(Clone, Debug)]
pub(crate) struct BaselineNetwork {
    encoder: Encoder,
    of_nodes: Mlp,
    of_graphs: Mlp,
}

impl BaselineNetwork {
    /// Adds its parameters under `baseline`.
    pub(crate) fn build(
        params: &mut Params,
        config: &PolicyConfig,
        initialiser: Initialiser,
    ) -> Result<BaselineNetwork, Error> {
        let width = config.head_width;
        let n_inputs = config.encoder_width();
        let encoder = Encoder::build(params, "baseline", config, initialiser)?;
        Ok(BaselineNetwork {
            encoder,
            of_nodes: Mlp::build(
                params,
                "baseline/nodes",
                n_inputs,
                &[width, width],
                initialiser,
            )?,
            of_graphs: Mlp::build(params, "baseline/graphs", width, &[width, 1], initialiser)?,
        })
    }

    /// `[n_graphs, 1]`.
    pub(crate) fn values(
        &self,
        ctx: &mut dyn Ctx,
        contexts: &Contexts,
    ) -> Result<Var, NetworkError> {
        let h = self.encoder.apply(ctx, contexts)?;
        let h = self.of_nodes.apply(ctx, h)?;
        let means = contexts.means(ctx, h)?;
        let above = self.of_graphs.apply(ctx, means)?;
        let n = contexts.n_graphs();
        let one = ctx.input(Shape::new(n, 1), &vec![-1.0; n])?;
        Ok(ctx.add(above, one)?)
    }
}
