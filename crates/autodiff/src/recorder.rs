//! The interpreter that records a program: to check its shapes, or to plan it and run it many times.

use std::sync::Arc;

use shardgraph_device::Device;

use crate::plan::Outputs;
use crate::shape_rules::{check_values, known_param, push};
use crate::{Ctx, Error, Leaf, Op, Params, Plan, Shape, Var, World, gradient};

/// Records operations and their shapes; no value is computed.
///
/// **Shape check.** Recording alone finds every shape, and names the operation and the shapes that do not fit, without a
/// device or another rank. Inputs then need no values.
///
/// **Plan.** What the program hands over with its operations (values of inputs, row numbers, layouts, graphs) is kept
/// for the first run, and can be changed for later ones: see [`Plan`].
#[derive(Debug)]
pub struct Recorder<'a> {
    params: &'a Params,
    world: World,
    nodes: Vec<(Op, Shape)>,
    outputs: Outputs,
}

impl<'a> Recorder<'a> {
    /// An empty program for one rank of `n_ranks`.
    pub fn new(params: &'a Params, rank: u32, n_ranks: u32) -> Self {
        Self {
            params,
            world: World {
                rank,
                size: n_ranks,
            },
            nodes: Vec::new(),
            outputs: Outputs::default(),
        }
    }

    /// Names a value that the planned program gives; everything that no output needs is left out.
    pub fn output(&mut self, name: &str, var: Var) {
        self.outputs.named.push((name.to_string(), var));
    }

    /// Adds the derivatives of `loss` by all trained parameters to the program and to what it gives
    /// ([`crate::Program::param_gradient`]).
    ///
    /// # Errors
    /// As [`gradient`].
    pub fn output_param_gradient(&mut self, loss: Var) -> Result<(), Error> {
        let ids = self.params.trained_ids();
        let used: Vec<Option<Var>> = ids.map(|id| known_param(&self.nodes, id)).collect();
        let wrt: Vec<Var> = used.iter().copied().flatten().collect();
        let mut grads = gradient(self, loss, &wrt)?.into_iter();
        let by_param = used.iter().map(|var| var.and_then(|_| grads.next()?));
        self.outputs.gradient = Some(by_param.collect());
        Ok(())
    }

    /// The elements of all results together: what an eager run allocates.
    pub fn n_elements(&self) -> usize {
        self.nodes.iter().map(|(_, shape)| shape.len()).sum()
    }

    /// The plan of what was recorded.
    ///
    /// # Complexity
    /// `O(n log n)` for n operations, and `O(m^2)` for the places of the m values that are left.
    pub fn plan(self) -> Plan {
        let shapes = self.params.ids().map(|id| self.params.shape(id)).collect();
        Plan::build(self.nodes, shapes, self.outputs, self.world)
    }

    pub(crate) fn nodes(&self) -> &[(Op, Shape)] {
        &self.nodes
    }
}

impl Ctx for Recorder<'_> {
    fn push(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Input(leaf) = &op {
            match leaf.values.as_host() {
                Some([]) => {} // to be set later
                Some(values) => check_values("input", leaf.shape, values.len())?,
                None => {
                    let shape = leaf.shape;
                    let text =
                        format!("recorder: an input {shape} takes its values in host memory");
                    return Err(Error::Usage(text));
                }
            }
        }
        push(&mut self.nodes, op, self.params, self.world)
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        let values = Arc::new(Device::host().upload(values)?);
        self.push(Op::Input(Leaf { shape, values }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].1
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].0
    }
}
