//! TensorFlow's `CostGraphDef`: what its two forms, binary and text, share, from messages to a checked graph.
//!
//! A node is an op, an `output_info` a tensor, an `input_info` a use, a `control_input` a control dependency. What the format
//! leaves open is settled here: a size of -1 is an unknown size and counts as 0; `alias_input_port` is a proto3 field, so one
//! that is absent means port 0, as TensorFlow itself writes it for reshapes, unless the node has no inputs at all. The report counts
//! such views, and warns of those that are no reshapes as TensorFlow writes them.

use super::{Imported, MAX_PARTS, ReadOptions, Report};
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, MAX_TOTAL, OpSpec, TensorSpec};
use std::collections::BTreeMap;

/// `CostGraphDef.Node`.
///
/// # Source
/// tensorflow/core/framework/cost_graph.proto; shapes, types, devices and the split into compute and memory time are not used.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) id: i32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) input_info: Vec<InputInfo>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) output_info: Vec<OutputInfo>,
    #[prost(int64, tag = "6")]
    pub(crate) temporary_memory_size: i64,
    #[prost(int32, repeated, tag = "8")]
    pub(crate) control_input: Vec<i32>,
    #[prost(int64, tag = "9")]
    pub(crate) compute_cost: i64,
    /// Deprecated in favour of `temporary_memory_size`.
    #[prost(int64, tag = "10")]
    pub(crate) host_temp_memory_size: i64,
    #[prost(int64, tag = "11")]
    pub(crate) device_temp_memory_size: i64,
    #[prost(int64, tag = "12")]
    pub(crate) persistent_memory_size: i64,
    /// Deprecated in favour of `persistent_memory_size`.
    #[prost(int64, tag = "16")]
    pub(crate) device_persistent_memory_size: i64,
}

/// `CostGraphDef.Node.InputInfo`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct InputInfo {
    #[prost(int32, tag = "1")]
    pub(crate) preceding_node: i32,
    #[prost(int32, tag = "2")]
    pub(crate) preceding_port: i32,
}

/// `CostGraphDef.Node.OutputInfo`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct OutputInfo {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
    #[prost(int64, tag = "2")]
    pub(crate) alias_input_port: i64,
}

/// Where a node is in its file.
#[derive(Clone, Copy)]
pub(crate) enum Spot {
    /// Line and column, counted from 1.
    Text(u64, u64),
    /// Offset in the unpacked file.
    Byte(u64),
}

impl Spot {
    pub(crate) fn error(self, file: &str, kind: ErrorKind, message: &str) -> Error {
        match self {
            Spot::Text(line, column) => Error::new(kind, message).or_at(file, line, column),
            Spot::Byte(at) => Error::new(kind, format!("byte {at}: {message}")).or_at(file, 0, 0),
        }
    }
}

/// Takes nodes one by one and joins them when all are there; holds flat lists only, so memory stays in line with the bytes read.
pub(crate) struct Assembly<'a> {
    file: &'a str,
    cost_ns: u64,
    builder: GraphBuilder,
    report: Report,
    op_of_id: BTreeMap<i32, u32>,
    nodes: Vec<(Spot, String)>,
    inputs: Vec<InputInfo>,
    outputs: Vec<OutputInfo>,
    controls: Vec<i32>,
    /// Whether any output has an `alias_input_port` other than 0.
    says_ports: bool,
    /// Per node, and one more: where its inputs, outputs and controls begin.
    offsets: Vec<[usize; 3]>,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(
        file: &'a str,
        graph_name: &str,
        options: &ReadOptions,
        report: Report,
    ) -> Assembly<'a> {
        Assembly {
            file,
            cost_ns: options.compute_cost_ns,
            builder: GraphBuilder::new(graph_name),
            report,
            op_of_id: BTreeMap::new(),
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            controls: Vec::new(),
            says_ports: false,
            offsets: vec![[0; 3]],
        }
    }

    pub(crate) fn node(&mut self, node: Node, spot: Spot) -> Result<(), Error> {
        let op = self.builder.n_ops() as u32;
        if let Some(first) = self.op_of_id.insert(node.id, op) {
            let message = format!(
                "the id {} of node `{}` is already that of node `{}`; ids must be unique (one that is absent is 0)",
                node.id, node.name, self.nodes[first as usize].1
            );
            return Err(spot.error(self.file, ErrorKind::Graph, &message));
        }
        self.check_parts(&node, spot)?;
        let amount = |what: &str, value: i64| self.amount(spot, &node.name, what, value);
        let temporary = match node.temporary_memory_size {
            0 => node
                .host_temp_memory_size
                .saturating_add(node.device_temp_memory_size),
            size => size,
        };
        let persistent = match node.persistent_memory_size {
            0 => node.device_persistent_memory_size,
            size => size,
        };
        let cost = amount("compute_cost", node.compute_cost)?;
        let spec = OpSpec {
            name: node.name.clone(),
            kind: String::new(),
            cost_ns: vec![cost.saturating_mul(self.cost_ns)],
            internal_bytes: amount("temporary_memory_size", temporary)?,
            persistent_bytes: amount("persistent_memory_size", persistent)?,
            weights: Vec::new(),
        };
        self.builder.op(spec);
        self.nodes.push((spot, node.name));
        self.inputs.extend(node.input_info);
        let mut ports = node.output_info.iter().map(|info| info.alias_input_port);
        self.says_ports |= ports.any(|port| port != 0);
        self.outputs.extend(node.output_info);
        self.controls.extend(node.control_input);
        let end = [self.inputs.len(), self.outputs.len(), self.controls.len()];
        self.offsets.push(end);
        Ok(())
    }

    /// Before the node's parts join the others.
    fn check_parts(&self, node: &Node, spot: Spot) -> Result<(), Error> {
        let new = node.input_info.len() + node.output_info.len() + node.control_input.len() + 1;
        let old = self.inputs.len() + self.outputs.len() + self.controls.len() + self.nodes.len();
        if old + new <= MAX_PARTS {
            return Ok(());
        }
        let message = format!("the graph has more than {MAX_PARTS} nodes, inputs and outputs");
        Err(spot.error(self.file, ErrorKind::TooLarge, &message))
    }

    /// A number that may not be negative, nor beyond what a graph holds.
    fn amount(&self, spot: Spot, node: &str, what: &str, value: i64) -> Result<u64, Error> {
        u64::try_from(value)
            .ok()
            .filter(|&value| value <= MAX_TOTAL)
            .ok_or_else(|| {
                let message = format!(
                    "the {what} of node `{node}` is {value}; it must be a number from 0 to 2^62"
                );
                spot.error(self.file, ErrorKind::OutOfRange, &message)
            })
    }

    pub(crate) fn finish(mut self) -> Result<Imported, Error> {
        let mut consumers = vec![Vec::new(); self.outputs.len()];
        let mut tensor_of_input = Vec::with_capacity(self.inputs.len());
        for op in 0..self.nodes.len() {
            for input in self.offsets[op][0]..self.offsets[op + 1][0] {
                let tensor = self.source(op, self.inputs[input])?;
                consumers[tensor].push(op as u32);
                tensor_of_input.push(tensor as u32);
            }
            for control in self.offsets[op][2]..self.offsets[op + 1][2] {
                let id = self.controls[control];
                let before = self.find(op, id, "control_input")?;
                self.builder.control(before, op as u32);
            }
        }
        let mut consumers = consumers.into_iter();
        for op in 0..self.nodes.len() {
            for output in self.offsets[op][1]..self.offsets[op + 1][1] {
                let info = self.outputs[output];
                let tensor = TensorSpec {
                    producer: op as u32,
                    bytes: self.size(op, info.size)?,
                    alias_of: self.base(op, output, &tensor_of_input)?,
                    consumers: consumers.next().unwrap_or_default(),
                };
                self.builder.tensor(tensor);
            }
        }
        let graph = self.builder.build().map_err(|e| e.or_at(self.file, 0, 0))?;
        Ok(Imported {
            graph,
            report: self.report,
        })
    }

    /// The op with that id.
    fn find(&self, op: usize, id: i32, field: &str) -> Result<u32, Error> {
        self.op_of_id.get(&id).copied().ok_or_else(|| {
            let (spot, name) = &self.nodes[op];
            let message =
                format!("node `{name}` has a {field} from the id {id}, but no node has that id");
            spot.error(self.file, ErrorKind::Graph, &message)
        })
    }

    /// The number of the tensor that `input` names.
    fn source(&self, op: usize, input: InputInfo) -> Result<usize, Error> {
        let producer = self.find(op, input.preceding_node, "preceding_node")? as usize;
        let outputs = self.offsets[producer][1]..self.offsets[producer + 1][1];
        usize::try_from(input.preceding_port)
            .ok()
            .filter(|&port| port < outputs.len())
            .map(|port| outputs.start + port)
            .ok_or_else(|| {
                let (spot, name) = &self.nodes[op];
                let message = format!(
                    "node `{name}` takes port {} of node `{}`, which has {} outputs",
                    input.preceding_port,
                    self.nodes[producer].1,
                    outputs.len()
                );
                spot.error(self.file, ErrorKind::Graph, &message)
            })
    }

    fn size(&mut self, op: usize, size: i64) -> Result<u64, Error> {
        if size == -1 {
            self.report.unknown_sizes += 1;
            return Ok(0);
        }
        let (spot, name) = &self.nodes[op];
        self.amount(*spot, name, "output size", size)
    }

    /// The tensor whose storage an output shares.
    fn base(
        &mut self,
        op: usize,
        output: usize,
        tensor_of_input: &[u32],
    ) -> Result<Option<u32>, Error> {
        let port = self.outputs[output].alias_input_port;
        if port < 0 {
            return Ok(None);
        }
        let inputs = self.offsets[op][0]..self.offsets[op + 1][0];
        let found = usize::try_from(port)
            .ok()
            .filter(|&port| port < inputs.len());
        match found {
            Some(port) => {
                let base = tensor_of_input[inputs.start + port];
                if port == 0 {
                    self.count_implied_view(output, base as usize);
                }
                Ok(Some(base))
            }
            None if port == 0 => Ok(None),
            None => {
                let (spot, name) = &self.nodes[op];
                let message = format!(
                    "an output of node `{name}` has alias_input_port {port}, but the node has {} inputs",
                    inputs.len()
                );
                Err(spot.error(self.file, ErrorKind::Graph, &message))
            }
        }
    }
    /// TensorFlow's files say -1 for every output that is no view, and its views are as large as what they are views of.
    fn count_implied_view(&mut self, view: usize, base: usize) {
        let sizes = [view, base].map(|output| self.outputs[output].size);
        let has_other_size = sizes[0] != sizes[1] && !sizes.contains(&-1);
        self.report.implied_views += 1;
        if has_other_size || !self.says_ports {
            self.report.doubtful_views += 1;
        }
    }
}
