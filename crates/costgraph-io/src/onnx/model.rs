//! The model as it grows: values by name, an op for each input, weight and node, and the graph at the end.

use super::{
    call::{Call, Node},
    elementwise,
    infer::infer,
    inferred::{Inferred, Work},
    proto::{Dimension, TensorType, ValueInfo},
    value::{Value, from_tensor},
};
use crate::{Format, Imported, MAX_PARTS, ReadOptions, Report, Weights};
use prost::bytes::Bytes;
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, OpSpec, TensorSpec};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Model<'a> {
    file: &'a str,
    options: &'a ReadOptions,
    opset: i64,
    name: String,
    report: Report,
    /// The names of dimensions that the model leaves open.
    open_dims: BTreeSet<String>,
    /// What the model says of inner values and outputs.
    declared: BTreeMap<String, TensorType>,
    ops: Vec<OpSpec>,
    op_names: BTreeSet<String>,
    values: Vec<Slot>,
    value_of_name: BTreeMap<String, usize>,
    /// Ops, values and uses so far.
    n_parts: usize,
}

/// A value, the op that makes it and the ops that use it.
struct Slot {
    value: Value,
    producer: u32,
    /// The value that this one is a view of.
    base: Option<usize>,
    consumers: Vec<u32>,
    origin: Origin,
}

/// When a value is known.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// A weight of the model.
    Weight,
    /// Made from weights and constants only: before the model runs.
    Constant,
    /// An input, or made from one.
    Run,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        file: &'a str,
        graph_name: &str,
        options: &'a ReadOptions,
        opset: i64,
    ) -> Model<'a> {
        Model {
            file,
            options,
            opset,
            name: graph_name.to_owned(),
            report: Report::new(Format::Onnx),
            open_dims: BTreeSet::new(),
            declared: BTreeMap::new(),
            ops: Vec::new(),
            op_names: BTreeSet::new(),
            values: Vec::new(),
            value_of_name: BTreeMap::new(),
            n_parts: 0,
        }
    }

    /// Graphs in models mostly carry a name of the exporter's; it is taken when there is one.
    pub(crate) fn name_graph(&mut self, name: &str) {
        if !name.is_empty() {
            name.clone_into(&mut self.name);
        }
    }

    /// What the model says of an inner value or an output.
    pub(crate) fn declare(&mut self, info: ValueInfo) {
        let tensor = info.kind.and_then(|kind| kind.tensor_type);
        if let Some(tensor) = tensor {
            let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
            let names = dims.filter_map(|dim| dim.dim_param.clone());
            self.open_dims.extend(names.filter(|name| !name.is_empty()));
            self.declared.insert(info.name, tensor);
        }
    }

    fn declared_value(&mut self, tensor: TensorType) -> Value {
        let shape = tensor.shape.map(|shape| {
            let dims = shape.dim.into_iter();
            dims.map(|dim| self.dimension(dim)).collect()
        });
        Value::new(tensor.elem_type, shape)
    }

    /// A dimension's size; what the model leaves open comes from the options.
    fn dimension(&mut self, dim: Dimension) -> u64 {
        if let Some(size) = dim.dim_value
            && let Ok(size) = u64::try_from(size)
        {
            return size;
        }
        let name = dim.dim_param.filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "?".into());
        self.open_dims.insert(name.clone());
        if let Some(&size) = self.options.dims.get(&name) {
            return size;
        }
        let size = self.options.open_dim;
        self.report.assumed_dims.insert(name, size);
        size
    }

    pub(crate) fn weight(&mut self, bytes: &Bytes, at: usize) -> Result<(), Error> {
        let (head, value) = from_tensor(self.file, bytes, at)?;
        self.report.external_weights += u64::from(head.data_location == 1);
        let op = self.op("Initializer", &head.name, 0);
        self.slot(head.name, value, Origin::Weight, op, None, at)
    }

    pub(crate) fn input(&mut self, info: ValueInfo) -> Result<(), Error> {
        // Models before IR version 4 list their weights among the inputs.
        if self.value_of_name.contains_key(&info.name) {
            return Ok(());
        }
        let tensor = info.kind.and_then(|kind| kind.tensor_type);
        let value = tensor.map(|tensor| self.declared_value(tensor));
        let op = self.op("Input", &info.name, 0);
        let value = value.unwrap_or_default();
        self.slot(info.name, value, Origin::Run, op, None, 0)
    }

    pub(crate) fn node(
        &mut self,
        node: &Node,
        captured: &BTreeSet<String>,
        at: usize,
    ) -> Result<(), Error> {
        let inputs = self.find_inputs(node, captured, at)?;
        let (inferred, origin) = self.infer(node, &inputs);
        let cost = self.cost(&inputs, &inferred);
        let kind = node.proto.op_type.as_str();
        let op = self.op(kind, &node.scoped_name(), cost);
        self.n_parts += 1 + inputs.len();
        self.check_parts(at)?;
        for &input in inputs.iter().flatten() {
            self.values[input].consumers.push(op);
        }
        let base = inputs.first().copied().flatten();
        let is_view = inferred.work == Work::View;
        let outputs = node.proto.output.iter().zip(inferred.outputs);
        for (idx, (name, value)) in outputs.enumerate() {
            let base = base.filter(|_| is_view && idx == 0);
            if !name.is_empty() {
                self.slot(name.clone(), value, origin, op, base, at)?;
            }
        }
        Ok(())
    }

    /// All that is known of the node's outputs and work, and whether they are known before the model runs.
    fn infer(&mut self, node: &Node, inputs: &[Option<usize>]) -> (Inferred, Origin) {
        let own = inputs.iter().take(node.proto.input.len());
        let values: Vec<Option<&Value>> = own
            .map(|idx| idx.map(|idx| &self.values[idx].value))
            .collect();
        let call = Call {
            node,
            inputs: &values,
            opset: self.opset,
        };
        let has_subgraphs = node.subgraphs().next().is_some();
        let found = match node.proto.domain.as_str() {
            _ if has_subgraphs => None,
            "" | "ai.onnx" => infer(&call),
            // Its own ops that have the shape of their input; those with a standard op's name may mean something else.
            "com.microsoft" => elementwise::infer(&call),
            _ => None,
        };
        let is_known = found.is_some();
        let mut inferred = found.unwrap_or_else(|| Inferred::unknown(&call, Work::flops(None)));
        inferred.pad(node.proto.output.len());
        self.complete(node, &mut inferred);
        let origin = self.origin(node, inputs, &inferred);
        if origin == Origin::Constant {
            inferred.work = Work::Free;
        }
        self.count(node, is_known, has_subgraphs, inferred.work);
        (inferred, origin)
    }

    /// The values of a node's inputs, then those that its sub-graphs use; `None` for an input that is left out.
    fn find_inputs(
        &self,
        node: &Node,
        captured: &BTreeSet<String>,
        at: usize,
    ) -> Result<Vec<Option<usize>>, Error> {
        let find = |name: &String| {
            if name.is_empty() {
                return Ok(None);
            }
            let found = self.value_of_name.get(name);
            found.copied().map(Some).ok_or_else(|| {
                let message = format!(
                    "byte {at}: node `{}` ({}) uses `{name}`, which no input, weight or earlier node makes; nodes must be in topological order",
                    node.proto.name, node.proto.op_type
                );
                Error::new(ErrorKind::Graph, message).or_at(self.file, 0, 0)
            })
        };
        node.proto.input.iter().chain(captured).map(find).collect()
    }

    /// Runtimes work out beforehand what depends on nothing but weights and constants.
    fn origin(&self, node: &Node, inputs: &[Option<usize>], inferred: &Inferred) -> Origin {
        let is_random = node.proto.op_type.starts_with("Random")
            || matches!(node.proto.op_type.as_str(), "Bernoulli" | "Multinomial");
        let mut inputs = inputs.iter().flatten();
        let is_constant = inputs.all(|&idx| self.values[idx].origin != Origin::Run);
        if inferred.work == Work::Free || (is_constant && !is_random) {
            Origin::Constant
        } else {
            Origin::Run
        }
    }

    /// What inference left open, from what the model declares.
    fn complete(&mut self, node: &Node, inferred: &mut Inferred) {
        for (name, value) in node.proto.output.iter().zip(&mut inferred.outputs) {
            if value.elem != 0 && value.shape.is_some() {
                continue;
            }
            // Only now, because open dimensions that are taken from here are reported.
            let Some(declared) = self.declared.remove(name) else {
                continue;
            };
            let declared = self.declared_value(declared);
            if value.elem == 0 {
                value.elem = declared.elem;
            }
            value.shape = value.shape.take().or(declared.shape);
        }
    }

    fn cost(&self, inputs: &[Option<usize>], inferred: &Inferred) -> u64 {
        let Work::Compute(flops) = inferred.work else {
            return 0;
        };
        let read = inputs.iter().flatten().map(|&idx| &self.values[idx].value);
        let bytes = read.chain(&inferred.outputs).filter_map(Value::bytes);
        let bytes = bytes.fold(0u64, u64::saturating_add);
        self.options.roofline.cost_ns(flops, bytes)
    }

    fn count(&mut self, node: &Node, is_known: bool, has_subgraphs: bool, work: Work) {
        let report = &mut self.report;
        report.folded_ops += u64::from(work == Work::Free);
        if has_subgraphs {
            report.ops_with_subgraphs += 1;
        } else if !is_known {
            let kind = match node.proto.domain.as_str() {
                "" | "ai.onnx" => node.proto.op_type.clone(),
                domain => format!("{domain}::{}", node.proto.op_type),
            };
            *report.unknown_ops.entry(kind).or_default() += 1;
        }
    }

    /// A new op; names of nodes are optional in ONNX, need not be unique, and may be those of values.
    fn op(&mut self, kind: &str, name: &str, cost_ns: u64) -> u32 {
        let op = self.ops.len() as u32;
        let mut unique = name.to_owned();
        if unique.is_empty() || self.op_names.contains(&unique) {
            unique = format!("{kind}#{op}");
        }
        while !self.op_names.insert(unique.clone()) {
            unique.push('\'');
        }
        self.ops.push(OpSpec {
            kind: kind.to_owned(),
            ..OpSpec::new(unique, cost_ns)
        });
        op
    }

    fn slot(
        &mut self,
        name: String,
        value: Value,
        origin: Origin,
        producer: u32,
        base: Option<usize>,
        at: usize,
    ) -> Result<(), Error> {
        if name.is_empty() {
            let message = format!("byte {at}: an input or a weight without a name");
            return Err(Error::new(ErrorKind::Syntax, message).or_at(self.file, 0, 0));
        }
        let idx = self.values.len();
        self.n_parts += 1;
        self.check_parts(at)?;
        self.values.push(Slot {
            value,
            producer,
            base,
            consumers: Vec::new(),
            origin,
        });
        if let Some(first) = self.value_of_name.insert(name.clone(), idx) {
            let first = self.values[first].producer as usize;
            let message = format!(
                "byte {at}: the value `{name}` is made twice, first by `{}`; names must be unique",
                self.ops[first].name
            );
            return Err(Error::new(ErrorKind::Graph, message).or_at(self.file, 0, 0));
        }
        Ok(())
    }

    fn check_parts(&self, at: usize) -> Result<(), Error> {
        if self.n_parts <= MAX_PARTS {
            return Ok(());
        }
        let message =
            format!("byte {at}: the model has more than {MAX_PARTS} ops, values and uses");
        Err(Error::new(ErrorKind::TooLarge, message).or_at(self.file, 0, 0))
    }

    pub(crate) fn finish(mut self) -> Result<Imported, Error> {
        self.check_dims()?;
        let is_inside = self.weights_inside();
        let mut builder = GraphBuilder::new(self.name);
        // Weights that became memory of their only user leave a gap in the numbers of ops.
        let mut is_gone = vec![false; self.ops.len()];
        let mut weights_of = vec![Vec::new(); self.ops.len()];
        for (slot, _) in self.values.iter().zip(&is_inside).filter(|(_, is)| **is) {
            is_gone[slot.producer as usize] = true;
            let user = &mut self.ops[slot.consumers[0] as usize];
            let bytes = slot.value.bytes().unwrap_or(0);
            user.persistent_bytes = user.persistent_bytes.saturating_add(bytes);
            if slot.value.is_parameter() {
                weights_of[slot.consumers[0] as usize].push(slot.producer);
            }
        }
        for (op, weights) in weights_of.iter().enumerate() {
            let names = weights.iter().map(|&of| self.ops[of as usize].name.clone());
            self.ops[op].weights = names.collect();
        }
        let mut number = Vec::with_capacity(self.ops.len());
        for (op, gone) in self.ops.into_iter().zip(is_gone) {
            number.push(builder.n_ops() as u32);
            if !gone {
                builder.op(op);
            }
        }
        let mut tensor_of_value = vec![None; self.values.len()];
        let outside = self.values.iter().enumerate();
        for (idx, slot) in outside.filter(|(idx, _)| !is_inside[*idx]) {
            let bytes = slot.value.bytes();
            self.report.unknown_sizes += u64::from(bytes.is_none());
            let consumers = slot.consumers.iter().map(|&op| number[op as usize]);
            let tensor = builder.tensor(TensorSpec {
                producer: number[slot.producer as usize],
                bytes: bytes.unwrap_or(0),
                alias_of: slot.base.and_then(|base| tensor_of_value[base]),
                consumers: consumers.collect(),
            });
            tensor_of_value[idx] = Some(tensor);
        }
        Ok(Imported {
            graph: builder.build().map_err(|e| e.or_at(self.file, 0, 0))?,
            report: self.report,
        })
    }

    /// Refuses sizes for dimensions that the model does not leave open.
    fn check_dims(&self) -> Result<(), Error> {
        let mut given = self.options.dims.keys();
        let Some(unknown) = given.find(|name| !self.open_dims.contains(*name)) else {
            return Ok(());
        };
        let open: Vec<&str> = self.open_dims.iter().map(String::as_str).collect();
        let open = match open.is_empty() {
            true => "the model leaves no dimension open".to_owned(),
            false => format!("the model leaves open {}", open.join(", ")),
        };
        let message = format!("there is no open dimension `{unknown}`: {open}");
        Err(Error::new(ErrorKind::Argument, message).or_at(self.file, 0, 0))
    }

    /// For each value whether it is a weight that becomes persistent memory of its only user.
    fn weights_inside(&self) -> Vec<bool> {
        let is_wanted = self.options.weights == Weights::Persistent;
        let is_inside = |slot: &Slot| slot.origin == Origin::Weight && slot.consumers.len() == 1;
        let values = self.values.iter();
        values.map(|slot| is_wanted && is_inside(slot)).collect()
    }
}
