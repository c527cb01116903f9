//! The JSON of msr-fiddle/dnn-partitioning: `{maxSizePerFPGA, maxFPGAs, maxCPUs, nodes, edges}`.
//!
//! A node is an op with two device classes: class 0 is the accelerator (`fpgaLatency`), class 1 the processor (`cpuLatency`),
//! both in milliseconds. A node that no accelerator supports costs its `cpuLatency` in both classes, and is counted in the
//! report. `size` is memory that the node holds on its device for good. All edges out of a node carry the same tensor; its size
//! is the largest `size` of them, or `cost` (milliseconds) at 2 GiB/s where edges have no size: the rate that the published
//! files with both have. Colour classes and forward/backward marks have no counterpart and are ignored.
//!
//! # Source
//! The README of msr-fiddle/dnn-partitioning, "Input format".

use super::{
    Format, Imported, Report,
    amount::{Amount, json_error},
};
use serde::Deserialize;
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, OpSpec, TensorSpec};
use std::collections::{BTreeMap, BTreeSet};

const NS_PER_MS: f64 = 1e6;
/// Bytes that cross in a millisecond at 2 GiB/s.
const BYTES_PER_MS: f64 = (1u64 << 31) as f64 / 1000.0;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Workload {
    #[serde(rename = "maxSizePerFPGA")]
    max_size: Option<Amount>,
    #[serde(rename = "maxFPGAs")]
    max_accelerators: Option<u32>,
    #[serde(rename = "maxCPUs")]
    max_cpus: Option<u32>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: i64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    supported_on_fpga: Flag,
    cpu_latency: Amount,
    fpga_latency: Amount,
    size: Amount,
}

/// `true`, `false`, 0 or 1; absent means true.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Number(f64),
}

impl Default for Flag {
    fn default() -> Flag {
        Flag::Bool(true)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    source_id: i64,
    dest_id: i64,
    cost: Option<Amount>,
    size: Option<Amount>,
}

pub(crate) fn read(file: &str, graph_name: &str, content: &[u8]) -> Result<Imported, Error> {
    let workload: Workload =
        serde_json::from_slice(content).map_err(|e| json_error(&e, file, 1))?;
    graph(graph_name, workload).map_err(|e| e.or_at(file, 0, 0))
}

fn graph(graph_name: &str, workload: Workload) -> Result<Imported, Error> {
    let mut report = Report::new(Format::Msr);
    report.devices = workload.max_accelerators;
    report.cpus = workload.max_cpus;
    if let Some(size) = workload.max_size {
        report.memory_bytes = Some(size.whole(&|| "maxSizePerFPGA".into())?);
    }
    let mut builder = GraphBuilder::new(graph_name);
    let mut op_of_id = BTreeMap::new();
    let mut names = BTreeSet::new();
    for node in workload.nodes {
        let mut op = op_spec(&node, &mut report)?;
        // Names are for people here, and may be absent or repeat; ids tell nodes apart.
        if op.name.is_empty() || !names.insert(op.name.clone()) {
            op.name = format!("{}#{}", op.name, node.id);
        }
        if op_of_id.insert(node.id, builder.op(op)).is_some() {
            return Err(invalid(format!(
                "two nodes have the id {}; ids must be unique",
                node.id
            )));
        }
    }
    for tensor in tensors(&workload.edges, &op_of_id)? {
        builder.tensor(tensor);
    }
    Ok(Imported {
        graph: builder.build()?,
        report,
    })
}

/// One tensor for each node that has edges out of it.
fn tensors(edges: &[Edge], op_of_id: &BTreeMap<i64, u32>) -> Result<Vec<TensorSpec>, Error> {
    let mut tensors: Vec<Option<TensorSpec>> = vec![None; op_of_id.len()];
    for (idx, edge) in edges.iter().enumerate() {
        let find = |field: &str, id: i64| {
            op_of_id.get(&id).copied().ok_or_else(|| {
                invalid(format!(
                    "edge {idx} has the {field} {id}, but no node has that id"
                ))
            })
        };
        let source = find("sourceId", edge.source_id)?;
        let dest = find("destId", edge.dest_id)?;
        let bytes = edge_bytes(edge)?;
        let tensor = tensors[source as usize].get_or_insert(TensorSpec::new(source, 0, &[]));
        tensor.bytes = tensor.bytes.max(bytes);
        tensor.consumers.push(dest);
    }
    Ok(tensors.into_iter().flatten().collect())
}

fn op_spec(node: &Node, report: &mut Report) -> Result<OpSpec, Error> {
    let what = |what: &str| format!("the {what} of node {}", node.id);
    let cpu = node.cpu_latency.scaled(NS_PER_MS);
    let cpu_ns = cpu.whole(&|| what("cpuLatency (in ns)"))?;
    let supported = match node.supported_on_fpga {
        Flag::Bool(flag) => flag,
        Flag::Number(flag) => flag != 0.0,
    };
    report.ops_without_accelerator += u64::from(!supported);
    let accelerator_ns = if supported {
        let accelerator = node.fpga_latency.scaled(NS_PER_MS);
        accelerator.whole(&|| what("fpgaLatency (in ns)"))?
    } else {
        cpu_ns
    };
    Ok(OpSpec {
        name: node.name.clone(),
        kind: String::new(),
        cost_ns: vec![accelerator_ns, cpu_ns],
        internal_bytes: 0,
        persistent_bytes: node.size.whole(&|| what("size"))?,
        weights: Vec::new(),
    })
}

fn edge_bytes(edge: &Edge) -> Result<u64, Error> {
    let what = |what: &str| {
        format!(
            "the {what} of the edge {} -> {}",
            edge.source_id, edge.dest_id
        )
    };
    match (edge.size, edge.cost) {
        (Some(size), _) => size.whole(&|| what("size")),
        (None, Some(cost)) => cost.scaled(BYTES_PER_MS).whole(&|| what("cost (in bytes)")),
        (None, None) => Err(invalid(format!(
            "the edge {} -> {} has neither `cost` nor `size`; one is needed",
            edge.source_id, edge.dest_id
        ))),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Graph, message)
}
