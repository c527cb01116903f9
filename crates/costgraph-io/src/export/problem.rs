//! A scheduling problem as JSON: what a solver that knows nothing of graph formats and device sets has to know.

use super::refused;
use serde::Serialize;
use shardgraph_costgraph::{Error, Objective, Problem, lower_bounds};
use std::io::Write;

/// The document; everything that the options decide is applied already.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    name: &'a str,
    objective: Objective,
    n_devices: usize,
    memory_bytes: Vec<Option<u64>>,
    asynchronous: bool,
    fixed_op: Option<u32>,
    lower_bound: u64,
    ops: Vec<Op>,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Serialize)]
struct Op {
    /// By device.
    cost_ns: Vec<u64>,
    internal_bytes: u64,
    persistent_bytes: u64,
}

#[derive(Serialize)]
struct Tensor<'a> {
    producer: u32,
    bytes: u64,
    consumers: &'a [u32],
    alias_of: Option<u32>,
    /// A consumer on another device needs a transfer; without this it only waits for the producer's end.
    transferred: bool,
    /// Stays until the end although nobody consumes it.
    kept: bool,
    /// Row: sender; column: receiver. Left out where all is 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transfer_ns: Vec<Vec<u64>>,
}

/// Writes `problem` as one line of JSON: costs by op and device, tensors with their transfers, the fixed op, the lower bound.
///
/// Devices are `0..n_devices`, ops and tensors have the graph's numbers. `crates/bench/peers/cp_sat.py` of the repository solves such
/// lines with CP-SAT.
///
/// # Errors
/// `Io` when `to` refuses.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem};
/// use shardgraph_costgraph_io::write_problem;
///
/// let mut builder = GraphBuilder::new("one op");
/// builder.op(OpSpec::new("a", 3));
/// let (graph, devices) = (builder.build()?, DeviceSet::uniform(1, None)?);
/// let problem = Problem::new(&graph, &devices, Objective::Runtime, ModelOptions::default())?;
/// let mut line = Vec::new();
/// write_problem(&problem, &mut line)?;
/// let line = String::from_utf8(line).expect("JSON");
/// assert!(line.contains(r#""objective":"runtime","n_devices":1"#) && line.contains(r#""cost_ns":[3]"#));
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn write_problem(problem: &Problem<'_>, to: &mut dyn Write) -> Result<(), Error> {
    let graph = problem.graph();
    let devices = problem.devices().devices();
    let document = Document {
        format: "shardgraph scheduling problem",
        version: 1,
        name: graph.name(),
        objective: problem.objective(),
        n_devices: devices.len(),
        memory_bytes: devices.iter().map(|device| device.memory_bytes).collect(),
        asynchronous: problem.options().asynchronous,
        fixed_op: problem.fixed_op(),
        lower_bound: lower_bounds(problem).of(problem.objective()),
        ops: (0..graph.n_ops() as u32)
            .map(|id| op(problem, id))
            .collect(),
        tensors: (0..graph.n_tensors() as u32)
            .map(|id| tensor(problem, id))
            .collect(),
    };
    serde_json::to_writer(&mut *to, &document).map_err(|e| refused(&e.into()))?;
    to.write_all(b"\n").map_err(|e| refused(&e))
}

fn op(problem: &Problem<'_>, op: u32) -> Op {
    let graph = problem.graph();
    let persistent = match problem.options().count_persistent {
        true => graph.persistent_bytes(op),
        false => 0,
    };
    Op {
        cost_ns: (0..problem.n_devices())
            .map(|device| problem.cost_ns(op, device))
            .collect(),
        internal_bytes: graph.internal_bytes(op),
        persistent_bytes: persistent,
    }
}

fn tensor<'a>(problem: &Problem<'a>, tensor: u32) -> Tensor<'a> {
    let graph = problem.graph();
    let n = problem.n_devices();
    let time = |from: usize, to: usize| match from == to {
        true => 0,
        false => problem.transfer_ns(tensor, from, to),
    };
    let times: Vec<Vec<u64>> = (0..n)
        .map(|from| (0..n).map(|to| time(from, to)).collect())
        .collect();
    let is_free = times.iter().flatten().all(|&ns| ns == 0);
    Tensor {
        producer: graph.producer(tensor),
        bytes: graph.tensor_bytes(tensor),
        consumers: graph.consumers(tensor),
        alias_of: graph.alias_of(tensor),
        transferred: problem.is_transferred(tensor),
        kept: problem.is_kept(tensor),
        transfer_ns: if is_free { Vec::new() } else { times },
    }
}
