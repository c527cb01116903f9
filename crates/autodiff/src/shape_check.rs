//! The interpreter that only finds shapes.

use std::sync::Arc;

use crate::shape_rules::{World, write_down};
use crate::{Ctx, Error, Leaf, Op, Params, Shape, Var};

/// Runs a layer's methods on shapes alone: no values, no device, no communication.
///
/// An example is at [`Ctx`].
#[derive(Debug)]
pub struct ShapeCheck<'a> {
    params: &'a Params,
    world: World,
    nodes: Vec<(Op, Shape)>,
}

impl<'a> ShapeCheck<'a> {
    /// A check of a program that runs on `n_ranks` ranks, seen from rank 0.
    pub fn new(params: &'a Params, n_ranks: u32) -> Self {
        Self {
            params,
            world: World {
                rank: 0,
                size: n_ranks,
            },
            nodes: Vec::new(),
        }
    }

    /// The elements of all results together: what an eager run allocates.
    pub fn n_elements(&self) -> usize {
        self.nodes.iter().map(|(_, shape)| shape.len()).sum()
    }
}

impl Ctx for ShapeCheck<'_> {
    fn apply(&mut self, op: Op) -> Result<Var, Error> {
        write_down(&mut self.nodes, op, self.params, self.world)
    }

    fn input(&mut self, shape: Shape, _values: &[f32]) -> Result<Var, Error> {
        let values = Arc::new(shardgraph_device::Device::host().zeros(0)?);
        self.apply(Op::Input(Leaf { shape, values }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].1
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].0
    }
}
