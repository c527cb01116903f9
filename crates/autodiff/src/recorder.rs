//! The interpreter that writes a program down, to be planned and run many times.

use std::sync::Arc;

use shardgraph_device::Device;

use crate::plan::Outputs;
use crate::shape_rules::{World, check_values, known_param, write_down};
use crate::{Ctx, Error, ErrorKind, Leaf, Op, Params, Plan, Shape, Var, gradient};

/// Records operations and their shapes; no value is computed.
///
/// What the program hands over with its operations (values of inputs, row numbers, layouts, propagations) is kept for
/// the first run, and can be changed for later ones: see [`Plan`].
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
    fn apply(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Input(leaf) = &op
            && leaf.values.as_host().map(<[f32]>::len) != Some(leaf.shape.len())
        {
            let text = format!(
                "recorder: an input {} takes {} values in host memory",
                leaf.shape,
                leaf.shape.len()
            );
            return Err(ErrorKind::Usage(text).into());
        }
        write_down(&mut self.nodes, op, self.params, self.world)
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        check_values("input", shape, values.len())?;
        let values = Arc::new(Device::host().upload(values)?);
        self.apply(Op::Input(Leaf { shape, values }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].1
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].0
    }
}
