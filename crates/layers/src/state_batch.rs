//! The input of a policy: a batch of graph states, on one rank.

use std::sync::Arc;

use shardgraph_autodiff::device::Buffer;
use shardgraph_autodiff::{Ctx, Error, Leaf, Op, Shape, Var};

use crate::{BatchLayout, Propagation};

/// A batch of residual-graph states as one rank sees it.
///
/// The residual graph of a state is the graph without the nodes of its partial solution. With `s`
/// the state's scale (1, or 1 / largest residual degree), every edge of it weighs `s * w`.
///
/// # Shapes
/// Rows as in [`BatchLayout`].
#[derive(Debug, Clone)]
pub struct StateBatch {
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
    /// `[n_rows, 1 + n_node_features]`: membership in the partial solution (0 or 1), then the
    /// node's own features.
    pub node: Vec<f32>,
    /// `[n_rows, 2]`: the scaled sums of positive and of negated negative edge weights to residual
    /// neighbours; without weights that is (scaled degree, 0). Zero for nodes that have left the
    /// residual graph.
    pub edge: Vec<f32>,
    /// `[n_rows, 1]`: the sum over residual neighbours of their scaled degree, times the scale;
    /// what [`crate::Path::Collapsed`] needs for layer 2. May be empty for other paths.
    pub neighbor_degree: Vec<f32>,
    /// The neighbour sums; needed by every path that makes them.
    pub propagation: Option<Arc<Propagation>>,
    /// Recorded inputs in place of `node`, `edge` and `neighbor_degree`, which are empty then.
    pub inputs: Option<StateInputs>,
    /// `neighbor_degree` as a device has counted it, in the memory of the device that evaluates the batch; the field on the host is
    /// empty then.
    pub counted: Option<Arc<Buffer>>,
}

/// The rows of a batch as inputs of a recorded program: each run has the values that they were given
/// last, by [`Program::set_input`] or by a device's kernels.
///
/// [`Program::set_input`]: shardgraph_autodiff::Program::set_input
#[derive(Debug, Clone, Copy)]
pub struct StateInputs {
    /// As [`StateBatch::node`].
    pub node: Var,
    /// As [`StateBatch::edge`].
    pub edge: Var,
    /// As [`StateBatch::neighbor_degree`].
    pub neighbor_degree: Var,
}

impl StateInputs {
    /// Inputs without values, for a layout's rows and a number of node features.
    ///
    /// # Errors
    /// The recorder's.
    pub fn record(
        ctx: &mut dyn Ctx,
        layout: &BatchLayout,
        n_node_features: usize,
    ) -> Result<Self, Error> {
        let mut input = |width| ctx.input(Shape::new(layout.n_rows(), width), &[]);
        Ok(Self {
            node: input(1 + n_node_features)?,
            edge: input(2)?,
            neighbor_degree: input(1)?,
        })
    }
}

impl StateBatch {
    /// Membership and features of the own rows, as a value of a program.
    ///
    /// # Shapes
    /// `[n_rows, 1 + n_node_features]`.
    /// # Errors
    /// Where the batch has another number of values.
    pub fn node_input(&self, ctx: &mut dyn Ctx, n_node_features: usize) -> Result<Var, Error> {
        let shape = Shape::new(self.layout.n_rows(), 1 + n_node_features);
        match &self.inputs {
            Some(inputs) => Ok(inputs.node),
            None => ctx.input(shape, &self.node),
        }
    }

    /// The sums of edge weights of the own rows, as a value of a program.
    ///
    /// # Shapes
    /// `[n_rows, 2]`.
    /// # Errors
    /// Where the batch has another number of values.
    pub fn edge_input(&self, ctx: &mut dyn Ctx) -> Result<Var, Error> {
        match &self.inputs {
            Some(inputs) => Ok(inputs.edge),
            None => ctx.input(Shape::new(self.layout.n_rows(), 2), &self.edge),
        }
    }

    /// The neighbours' degree sums of the own rows, as a value of a program.
    ///
    /// # Shapes
    /// `[n_rows, 1]`.
    /// # Errors
    /// Where the batch has another number of values.
    pub fn neighbor_degree_input(&self, ctx: &mut dyn Ctx) -> Result<Var, Error> {
        let shape = Shape::new(self.layout.n_rows(), 1);
        match (&self.inputs, &self.counted) {
            (Some(inputs), _) => Ok(inputs.neighbor_degree),
            (None, Some(counted)) => ctx.push(Op::Input(Leaf {
                shape,
                values: Arc::clone(counted),
            })),
            (None, None) => ctx.input(shape, &self.neighbor_degree),
        }
    }
}
