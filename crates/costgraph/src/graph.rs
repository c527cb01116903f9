//! The computation graph: ops with costs, tensors as hyperedges from one producer to its consumers, in compact CSR form.

use std::ops::Range;

use crate::colocation::Colocation;

/// A checked computation graph; [`crate::GraphBuilder`] makes one.
///
/// Ops are numbered in the order in which the builder received them, which need not be topological. Tensors are numbered by
/// producer, then in the order received; the control tensor of a producer comes after its data tensors.
///
/// ```
/// use shardgraph_costgraph::{GraphBuilder, OpSpec, TensorSpec};
///
/// let mut builder = GraphBuilder::new("two steps");
/// let load = builder.op(OpSpec::new("load", 0));
/// let conv = builder.op(OpSpec { kind: "Conv".into(), internal_bytes: 64, ..OpSpec::new("conv", 900) });
/// builder.tensor(TensorSpec::new(load, 4096, &[conv]));
/// let graph = builder.build()?;
/// assert_eq!((graph.n_ops(), graph.n_tensors(), graph.n_uses()), (2, 1, 1));
/// assert_eq!(graph.consumers(0), [conv]);
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
///
/// # Units
/// Costs are whole nanoseconds and sizes whole bytes, both u64; formats with fractions are rounded once, by [`crate::whole`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) ops: Ops,
    pub(crate) tensors: Tensors,
    /// Tensors that op j consumes: `inputs[input_offsets[j]..input_offsets[j + 1]]`, ascending.
    pub(crate) input_offsets: Vec<u32>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) topological: Vec<u32>,
    /// Ops that share a device, where there are any.
    pub(crate) colocation: Option<Box<Colocation>>,
}

/// The columns of the ops.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Ops {
    pub(crate) names: Vec<String>,
    pub(crate) kinds: Vec<String>,
    /// Cost classes, one after the other, each with one cost per op.
    pub(crate) cost_ns: Vec<u64>,
    pub(crate) internal_bytes: Vec<u64>,
    pub(crate) persistent_bytes: Vec<u64>,
    pub(crate) weights: Vec<Vec<String>>,
    /// Op j produces tensors `output_offsets[j]..output_offsets[j + 1]`.
    pub(crate) output_offsets: Vec<u32>,
}

/// The columns of the tensors.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tensors {
    pub(crate) producer: Vec<u32>,
    pub(crate) bytes: Vec<u64>,
    /// The tensor whose storage this one is a view of, or [`NONE`].
    pub(crate) alias_of: Vec<u32>,
    pub(crate) control: Vec<bool>,
    pub(crate) consumer_offsets: Vec<u32>,
    /// Ascending within a tensor, without duplicates.
    pub(crate) consumers: Vec<u32>,
}

/// No such id.
pub(crate) const NONE: u32 = u32::MAX;

impl Graph {
    /// The graph's name; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many ops there are.
    #[must_use]
    pub fn n_ops(&self) -> usize {
        self.ops.names.len()
    }

    /// How many tensors there are, control tensors included: the paper's t.
    #[must_use]
    pub fn n_tensors(&self) -> usize {
        self.tensors.producer.len()
    }

    /// How many (tensor, consumer) pairs there are: the edges of the paper's multigraph (A.2).
    #[must_use]
    pub fn n_uses(&self) -> usize {
        self.inputs.len()
    }

    /// How many classes of devices the ops have costs for, at least 1.
    #[must_use]
    pub fn n_cost_classes(&self) -> usize {
        self.ops.cost_ns.len() / self.n_ops().max(1)
    }

    /// The name of op `op`, unique in the graph.
    ///
    /// # Panics
    /// When there is no such op; so do the other accessors by op.
    #[must_use]
    pub fn op_name(&self, op: u32) -> &str {
        &self.ops.names[op as usize]
    }

    /// What op `op` does ("MatMul"); may be empty.
    #[must_use]
    pub fn op_kind(&self, op: u32) -> &str {
        &self.ops.kinds[op as usize]
    }

    /// What op `op` costs on a device of class `class`, in nanoseconds.
    #[must_use]
    pub fn cost_ns(&self, class: usize, op: u32) -> u64 {
        self.ops.cost_ns[class * self.n_ops() + op as usize]
    }

    /// Scratch memory of op `op`, in use only while it runs.
    #[must_use]
    pub fn internal_bytes(&self, op: u32) -> u64 {
        self.ops.internal_bytes[op as usize]
    }

    /// Memory that op `op` occupies on its device from start to end (weights, running statistics).
    #[must_use]
    pub fn persistent_bytes(&self, op: u32) -> u64 {
        self.ops.persistent_bytes[op as usize]
    }

    /// Names of the parameters in the persistent memory of op `op`, as far as the file has them.
    #[must_use]
    pub fn weights(&self, op: u32) -> &[String] {
        &self.ops.weights[op as usize]
    }

    /// The same graph with all costs times `factor`, rounded.
    ///
    /// # Errors
    /// `TooLarge` where the sum is beyond [`crate::MAX_TOTAL`].
    pub fn with_costs_times(mut self, factor: f64) -> Result<Graph, crate::Error> {
        // Beyond 2^53 the product would round even by 1.0.
        if factor.to_bits() != 1.0f64.to_bits() {
            for cost in &mut self.ops.cost_ns {
                *cost = (*cost as f64 * factor).round() as u64;
            }
        }
        crate::builder::check_totals(&self)?;
        Ok(self)
    }

    /// The same graph with other costs of ops, on every class of devices, and other sizes of tensors, where there is a value.
    ///
    /// # Errors
    /// `TooLarge` where a sum is beyond [`crate::MAX_TOTAL`].
    ///
    /// # Panics
    /// Unless there is a place for each op and each tensor.
    pub fn with_amounts(
        mut self,
        cost_ns: &[Option<u64>],
        tensor_bytes: &[Option<u64>],
    ) -> Result<Graph, crate::Error> {
        assert_eq!(cost_ns.len(), self.n_ops(), "one place an op");
        assert_eq!(tensor_bytes.len(), self.n_tensors(), "one place a tensor");
        for costs in self.ops.cost_ns.chunks_mut(cost_ns.len().max(1)) {
            for (cost, found) in costs.iter_mut().zip(cost_ns) {
                *cost = found.unwrap_or(*cost);
            }
        }
        for (bytes, found) in self.tensors.bytes.iter_mut().zip(tensor_bytes) {
            *bytes = found.unwrap_or(*bytes);
        }
        crate::builder::check_totals(&self)?;
        Ok(self)
    }

    /// The same graph with the persistent memory of each op times `factor`: 2 where gradients stay beside weights, more with the state
    /// of an optimiser.
    ///
    /// # Errors
    /// `TooLarge` where the sum is beyond [`crate::MAX_TOTAL`].
    pub fn with_persistent_times(mut self, factor: u64) -> Result<Graph, crate::Error> {
        for bytes in &mut self.ops.persistent_bytes {
            *bytes = bytes.saturating_mul(factor);
        }
        crate::builder::check_totals(&self)?;
        Ok(self)
    }

    /// The tensors that op `op` produces, a range of ids.
    #[must_use]
    pub fn outputs(&self, op: u32) -> Range<u32> {
        let op = op as usize;
        self.ops.output_offsets[op]..self.ops.output_offsets[op + 1]
    }

    /// The tensors that op `op` consumes, ascending, each once.
    #[must_use]
    pub fn inputs(&self, op: u32) -> &[u32] {
        let op = op as usize;
        &self.inputs[self.input_offsets[op] as usize..self.input_offsets[op + 1] as usize]
    }

    /// The op that produces tensor `tensor`.
    ///
    /// # Panics
    /// When there is no such tensor; so do the other accessors by tensor.
    #[must_use]
    pub fn producer(&self, tensor: u32) -> u32 {
        self.tensors.producer[tensor as usize]
    }

    /// The size of tensor `tensor`; 0 for a control tensor. A view has the size that a copy of it would have.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: u32) -> u64 {
        self.tensors.bytes[tensor as usize]
    }

    /// The tensor that `tensor` is a view of, an input of its producer; a chain of views is not shortened.
    #[must_use]
    pub fn alias_of(&self, tensor: u32) -> Option<u32> {
        let base = self.tensors.alias_of[tensor as usize];
        (base != NONE).then_some(base)
    }

    /// True for the one tensor that stands for all control dependencies on its producer.
    #[must_use]
    pub fn is_control(&self, tensor: u32) -> bool {
        self.tensors.control[tensor as usize]
    }

    /// The ops that consume tensor `tensor`, ascending, each once.
    #[must_use]
    pub fn consumers(&self, tensor: u32) -> &[u32] {
        let offsets = &self.tensors.consumer_offsets;
        let tensor = tensor as usize;
        &self.tensors.consumers[offsets[tensor] as usize..offsets[tensor + 1] as usize]
    }

    /// All ops, producers before consumers; of those that could come next, the lowest id.
    #[must_use]
    pub fn topological_order(&self) -> &[u32] {
        &self.topological
    }
}
