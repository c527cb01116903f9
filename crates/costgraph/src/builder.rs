//! The one way to make a [`Graph`]: ops, tensors and control dependencies in any order, checked as a whole at the end.

use std::{cmp::Reverse, collections::BTreeMap, collections::BinaryHeap};

use crate::{
    Error, ErrorKind, Graph,
    graph::{NONE, Ops, Tensors},
};

/// The largest cost or size, and the largest sum of either, that a graph may hold: 2^62, so that no sum in a schedule overflows.
pub const MAX_TOTAL: u64 = 1 << 62;

/// An op as the builder takes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OpSpec {
    /// Unique in the graph; empty means `op<index>`.
    pub name: String,
    /// What the op does ("MatMul"); may be empty.
    pub kind: String,
    /// One cost for each class of devices, in nanoseconds; every op of a graph has the same number of them.
    pub cost_ns: Vec<u64>,
    /// Scratch memory while the op runs.
    pub internal_bytes: u64,
    /// Memory on the op's device from start to end.
    pub persistent_bytes: u64,
    /// Names of the parameters in that memory, as far as they are known.
    pub weights: Vec<String>,
}

impl OpSpec {
    /// An op with a name and one cost, all else empty.
    #[must_use]
    pub fn new(name: impl Into<String>, cost_ns: u64) -> OpSpec {
        OpSpec {
            name: name.into(),
            cost_ns: vec![cost_ns],
            ..OpSpec::default()
        }
    }
}

/// A data tensor as the builder takes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TensorSpec {
    /// The op that makes the tensor.
    pub producer: u32,
    /// Its size; for a view, the size of a copy.
    pub bytes: u64,
    /// The tensor whose storage it shares, as [`GraphBuilder::tensor`] numbered it; the producer must consume that tensor.
    pub alias_of: Option<u32>,
    /// The ops that read it; an op listed twice reads it once.
    pub consumers: Vec<u32>,
}

impl TensorSpec {
    /// A tensor that is no view.
    #[must_use]
    pub fn new(producer: u32, bytes: u64, consumers: &[u32]) -> TensorSpec {
        TensorSpec {
            producer,
            bytes,
            alias_of: None,
            consumers: consumers.to_vec(),
        }
    }
}

/// Collects ops, tensors and control dependencies; [`GraphBuilder::build`] checks them all and makes the [`Graph`].
///
/// ```
/// use shardgraph_costgraph::{GraphBuilder, OpSpec, TensorSpec};
///
/// let mut builder = GraphBuilder::new("dangling");
/// let a = builder.op(OpSpec::new("a", 3));
/// builder.tensor(TensorSpec::new(a, 8, &[7]));
/// let message = builder.build().unwrap_err().to_string();
/// assert_eq!(message, "tensor 0 of `a` has a consumer that does not exist: op 7; the ops are 0..1");
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    name: String,
    ops: Vec<OpSpec>,
    tensors: Vec<TensorSpec>,
    controls: Vec<(u32, u32)>,
}

impl GraphBuilder {
    /// An empty graph of that name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> GraphBuilder {
        GraphBuilder {
            name: name.into(),
            ..GraphBuilder::default()
        }
    }

    /// Adds an op and returns its id, which the graph keeps.
    pub fn op(&mut self, op: OpSpec) -> u32 {
        self.ops.push(op);
        (self.ops.len() - 1) as u32
    }

    /// Adds a data tensor and returns its number for [`TensorSpec::alias_of`]; the graph renumbers tensors by producer.
    pub fn tensor(&mut self, tensor: TensorSpec) -> u32 {
        self.tensors.push(tensor);
        (self.tensors.len() - 1) as u32
    }

    /// `after` may start only when `before` has ended. All of one op's dependents share one zero-size control tensor.
    pub fn control(&mut self, before: u32, after: u32) {
        self.controls.push((before, after));
    }

    /// How many ops were added.
    #[must_use]
    pub fn n_ops(&self) -> usize {
        self.ops.len()
    }

    /// Checks everything and makes the graph.
    ///
    /// # Errors
    /// `Graph`: no ops, two ops of one name, producers or consumers that do not exist, a view of a tensor that its producer does
    /// not consume, numbers of costs that differ, a cycle (its ops are named). `TooLarge`: more than 2^32 - 2 ops, tensors or
    /// uses, or a cost, a size or a sum of them beyond [`MAX_TOTAL`].
    ///
    /// # Complexity
    /// O((ops + uses) log ops) time.
    pub fn build(mut self) -> Result<Graph, Error> {
        self.check_ops()?;
        let new_of_old = self.canonical_order()?;
        let tensors = self.tensor_columns(&new_of_old)?;
        let ops = op_columns(self.ops, &tensors);
        let (input_offsets, inputs) = invert(&tensors, ops.names.len());
        let mut graph = Graph {
            name: self.name,
            ops,
            tensors,
            input_offsets,
            inputs,
            topological: Vec::new(),
            colocation: None,
        };
        check_views(&graph)?;
        check_totals(&graph)?;
        graph.topological = topological_order(&graph)?;
        Ok(graph)
    }

    fn check_ops(&mut self) -> Result<(), Error> {
        let Some(first) = self.ops.first() else {
            return Err(invalid("the graph has no ops; at least one is needed"));
        };
        let n_classes = first.cost_ns.len();
        if n_classes == 0 {
            return Err(invalid(
                "op 0 has no cost; one for each device class is needed",
            ));
        }
        within(self.ops.len(), "ops")?;
        let mut seen = BTreeMap::new();
        for (idx, op) in self.ops.iter_mut().enumerate() {
            if op.name.is_empty() {
                op.name = format!("op{idx}");
            }
            if op.cost_ns.len() != n_classes {
                return Err(invalid(format!(
                    "op `{}` has {} costs where op 0 has {n_classes}; every op needs one for each device class",
                    op.name,
                    op.cost_ns.len()
                )));
            }
            if let Some(before) = seen.insert(op.name.as_str(), idx) {
                return Err(invalid(format!(
                    "ops {before} and {idx} are both called `{}`; names must be unique",
                    op.name
                )));
            }
        }
        Ok(())
    }

    /// Appends the control tensors and returns the number in the graph of each tensor received.
    fn canonical_order(&mut self) -> Result<Vec<u32>, Error> {
        let n_ops = self.ops.len();
        for &(before, after) in &self.controls {
            if let Some(missing) = [before, after].into_iter().find(|&op| op as usize >= n_ops) {
                return Err(invalid(format!(
                    "a control dependency {before} -> {after} names an op that does not exist: op {missing}; the ops are 0..{n_ops}"
                )));
            }
        }
        self.controls.sort_unstable();
        for group in self.controls.chunk_by(|a, b| a.0 == b.0) {
            let consumers: Vec<u32> = group.iter().map(|&(_, after)| after).collect();
            self.tensors
                .push(TensorSpec::new(group[0].0, 0, &consumers));
        }
        within(self.tensors.len(), "tensors")?;
        let mut order: Vec<u32> = (0..self.tensors.len() as u32).collect();
        order.sort_by_key(|&t| self.tensors[t as usize].producer);
        let mut new_of_old = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            new_of_old[old as usize] = new as u32;
        }
        Ok(new_of_old)
    }

    fn tensor_columns(&mut self, new_of_old: &[u32]) -> Result<Tensors, Error> {
        let n_groups = self.controls.chunk_by(|a, b| a.0 == b.0).count();
        let n_data = self.tensors.len() - n_groups;
        let mut old_of_new = vec![0; new_of_old.len()];
        for (old, &new) in new_of_old.iter().enumerate() {
            old_of_new[new as usize] = old;
        }
        let mut columns = Tensors {
            consumer_offsets: vec![0],
            ..Tensors::default()
        };
        let mut n_uses = 0;
        for old in old_of_new {
            let mut tensor = std::mem::take(&mut self.tensors[old]);
            check_ends(&self.ops, old, &tensor)?;
            tensor.consumers.sort_unstable();
            tensor.consumers.dedup();
            columns.producer.push(tensor.producer);
            columns.bytes.push(tensor.bytes);
            columns.alias_of.push(match tensor.alias_of {
                None => NONE,
                Some(base) if (base as usize) < n_data => new_of_old[base as usize],
                Some(base) => {
                    return Err(invalid(format!(
                        "tensor {old} is a view of tensor {base}, which does not exist; the tensors are 0..{n_data}"
                    )));
                }
            });
            columns.control.push(old >= n_data);
            n_uses += tensor.consumers.len();
            within(n_uses, "uses of tensors")?;
            columns.consumers.append(&mut tensor.consumers);
            columns.consumer_offsets.push(n_uses as u32);
        }
        Ok(columns)
    }
}

/// The nearest whole number of nanoseconds or bytes; how readers take a cost or a size that may have a fraction.
///
/// # Errors
/// `OutOfRange` for NaN, infinities, negative numbers and numbers beyond [`MAX_TOTAL`]; `what` names the value in the message.
///
/// ```
/// assert_eq!(shardgraph_costgraph::whole("cost", 1.5)?, 2);
/// let message = shardgraph_costgraph::whole("the cost of `a`", -1.0).unwrap_err().to_string();
/// assert_eq!(message, "the cost of `a` is -1; it must be a number from 0 to 2^62");
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn whole(what: &str, value: f64) -> Result<u64, Error> {
    // NaN is in no range.
    if (0.0..=MAX_TOTAL as f64).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(Error::new(
            ErrorKind::OutOfRange,
            format!("{what} is {value}; it must be a number from 0 to 2^62"),
        ))
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Graph, message)
}

fn within(n: usize, what: &str) -> Result<(), Error> {
    if n < NONE as usize {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!("{n} {what}; at most {} are possible", NONE - 1),
    ))
}

fn check_ends(ops: &[OpSpec], number: usize, tensor: &TensorSpec) -> Result<(), Error> {
    let n_ops = ops.len();
    let Some(producer) = ops.get(tensor.producer as usize) else {
        return Err(invalid(format!(
            "tensor {number} has no producer: op {} does not exist; the ops are 0..{n_ops}",
            tensor.producer
        )));
    };
    if let Some(consumer) = tensor.consumers.iter().find(|&&c| c as usize >= n_ops) {
        return Err(invalid(format!(
            "tensor {number} of `{}` has a consumer that does not exist: op {consumer}; the ops are 0..{n_ops}",
            producer.name
        )));
    }
    Ok(())
}

fn op_columns(ops: Vec<OpSpec>, tensors: &Tensors) -> Ops {
    let n_ops = ops.len();
    let n_classes = ops[0].cost_ns.len();
    let mut columns = Ops {
        cost_ns: vec![0; n_classes * n_ops],
        output_offsets: vec![0; n_ops + 1],
        ..Ops::default()
    };
    for &producer in &tensors.producer {
        columns.output_offsets[producer as usize + 1] += 1;
    }
    for (idx, op) in ops.into_iter().enumerate() {
        columns.output_offsets[idx + 1] += columns.output_offsets[idx];
        for (class, &cost) in op.cost_ns.iter().enumerate() {
            columns.cost_ns[class * n_ops + idx] = cost;
        }
        columns.names.push(op.name);
        columns.kinds.push(op.kind);
        columns.internal_bytes.push(op.internal_bytes);
        columns.persistent_bytes.push(op.persistent_bytes);
        columns.weights.push(op.weights);
    }
    columns
}

/// From the consumers of each tensor to the inputs of each op.
fn invert(tensors: &Tensors, n_ops: usize) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0u32; n_ops + 1];
    for &consumer in &tensors.consumers {
        offsets[consumer as usize + 1] += 1;
    }
    for op in 0..n_ops {
        offsets[op + 1] += offsets[op];
    }
    let mut next = offsets.clone();
    let mut inputs = vec![0; tensors.consumers.len()];
    for tensor in 0..tensors.producer.len() {
        let uses = tensors.consumer_offsets[tensor]..tensors.consumer_offsets[tensor + 1];
        for &consumer in &tensors.consumers[uses.start as usize..uses.end as usize] {
            let slot = &mut next[consumer as usize];
            inputs[*slot as usize] = tensor as u32;
            *slot += 1;
        }
    }
    (offsets, inputs)
}

fn check_views(graph: &Graph) -> Result<(), Error> {
    for tensor in 0..graph.n_tensors() as u32 {
        let Some(base) = graph.alias_of(tensor) else {
            continue;
        };
        let producer = graph.producer(tensor);
        if graph.inputs(producer).binary_search(&base).is_err() {
            return Err(invalid(format!(
                "an output of `{}` is a view of an output of `{}`, which `{}` does not consume",
                graph.op_name(producer),
                graph.op_name(graph.producer(base)),
                graph.op_name(producer)
            )));
        }
    }
    Ok(())
}

pub(crate) fn check_totals(graph: &Graph) -> Result<(), Error> {
    let n_ops = graph.n_ops();
    let costs = graph.ops.cost_ns.chunks(n_ops).map(|c| ("costs", c));
    let sizes = [
        ("tensor sizes", &graph.tensors.bytes[..]),
        ("internal sizes", &graph.ops.internal_bytes),
        ("persistent sizes", &graph.ops.persistent_bytes),
    ];
    for (what, values) in costs.chain(sizes) {
        let total: u128 = values.iter().map(|&v| u128::from(v)).sum();
        if total > u128::from(MAX_TOTAL) {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the sum of all {what} is {total}; at most {MAX_TOTAL} (2^62) is possible"),
            ));
        }
    }
    Ok(())
}

/// Kahn's algorithm with the lowest id first.
fn topological_order(graph: &Graph) -> Result<Vec<u32>, Error> {
    let n_ops = graph.n_ops() as u32;
    let mut waiting: Vec<u32> = (0..n_ops).map(|op| graph.inputs(op).len() as u32).collect();
    let mut ready: BinaryHeap<Reverse<u32>> = (0..n_ops)
        .filter(|&op| waiting[op as usize] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(n_ops as usize);
    while let Some(Reverse(op)) = ready.pop() {
        order.push(op);
        for tensor in graph.outputs(op) {
            for &consumer in graph.consumers(tensor) {
                waiting[consumer as usize] -= 1;
                if waiting[consumer as usize] == 0 {
                    ready.push(Reverse(consumer));
                }
            }
        }
    }
    if order.len() < n_ops as usize {
        return Err(cycle_error(graph, &waiting));
    }
    Ok(order)
}

/// Every op that still waits has an input from another that waits: walking backwards from any of them runs into a cycle.
fn cycle_error(graph: &Graph, waiting: &[u32]) -> Error {
    let waits = |op: &u32| waiting[*op as usize] > 0;
    let mut position = vec![NONE; graph.n_ops()];
    let mut walk: Vec<u32> = Vec::new();
    let mut next = (0..graph.n_ops() as u32).find(waits);
    while let Some(op) = next {
        if position[op as usize] != NONE {
            walk.drain(..position[op as usize] as usize);
            break;
        }
        position[op as usize] = walk.len() as u32;
        walk.push(op);
        let mut before = graph.inputs(op).iter().map(|&t| graph.producer(t));
        next = before.find(waits);
    }
    // The walk went against the edges; begin with the lowest id, so that the message does not depend on where it started.
    walk.reverse();
    let lowest = (0..walk.len()).min_by_key(|&i| walk[i]).unwrap_or(0);
    walk.rotate_left(lowest);
    walk.extend(walk.first().copied());
    const SHOWN: usize = 9;
    let mut names: Vec<String> = walk
        .iter()
        .take(SHOWN)
        .map(|&op| format!("`{}`", graph.op_name(op)))
        .collect();
    if walk.len() > SHOWN {
        names.push(format!("... ({} ops in all)", walk.len() - 1));
    }
    invalid(format!("the graph has a cycle: {}", names.join(" -> ")))
}
