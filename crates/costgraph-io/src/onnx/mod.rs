//! ONNX models: shapes inferred op by op, costs estimated by [`super::roofline`], everything that is not understood reported.
//!
//! Inputs, weights and nodes become ops; weights, inputs and what is made of weights alone cost nothing: runtimes work the
//! latter out beforehand. Reshapes and their kin are views. Dimensions that the model leaves open get the sizes that the options
//! say. Where inference does not get at a shape, the model's own `value_info` is taken; where that is silent too, the tensor
//! counts 0 bytes and the report counts the tensor. The data of weights in other files is never read: their sizes stand in the
//! model. A node with sub-graphs (If, Loop, Scan) is one op, whose inputs include what the sub-graphs take from outside; what is
//! inside is not costed. Model-local functions are not expanded: a call of one is an op of unknown kind.

mod call;
mod elementwise;
mod fold;
mod infer;
mod inferred;
mod matrix;
mod model;
mod proto;
mod rearrange;
mod value;
mod window;

use super::{
    Imported, ReadOptions,
    wire::{self, Fields, Value as Field},
};
use call::Node;
use model::Model;
use prost::bytes::Bytes;
use proto::{NodeProto, OperatorSet, TensorHead, ValueInfo};
use shardgraph_costgraph::{Error, ErrorKind};
use std::collections::BTreeSet;

/// Sub-graphs in sub-graphs.
const MAX_DEPTH: u32 = 32;

pub(crate) fn read(
    file: &str,
    graph_name: &str,
    content: Bytes,
    options: &ReadOptions,
) -> Result<Imported, Error> {
    let mut graph = None;
    let mut opset = None;
    let mut fields = Fields::new(file, &content, 0);
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (7, Field::Bytes(bytes, at)) => graph = Some((bytes, at)),
            (8, Field::Bytes(bytes, at)) => {
                let set: OperatorSet = wire::decode(file, "operator set", bytes, at)?;
                if matches!(set.domain.as_str(), "" | "ai.onnx") {
                    opset = Some(set.version);
                }
            }
            _ => {}
        }
    }
    let Some((graph, at)) = graph else {
        let message = "the model has no graph (field 7); is this an ONNX model?";
        return Err(Error::new(ErrorKind::Syntax, message).or_at(file, 0, 0));
    };
    let reader = Reader {
        file,
        content: &content,
    };
    // Models from before operator sets were numbered are of the first.
    let model = Model::new(file, graph_name, options, opset.unwrap_or(1));
    reader.graph(graph, at, model)
}

/// The file, and slices of it that share its memory.
struct Reader<'a> {
    file: &'a str,
    content: &'a Bytes,
}

impl Reader<'_> {
    /// The fields of `GraphProto`, in the order that the model needs and the file need not have.
    fn graph(&self, graph: &[u8], at: usize, mut model: Model<'_>) -> Result<Imported, Error> {
        let mut nodes = Vec::new();
        let mut inputs = Vec::new();
        let mut fields = Fields::new(self.file, graph, at);
        while let Some(field) = fields.next()? {
            match (field.number, field.value) {
                (1, Field::Bytes(bytes, at)) => nodes.push((bytes.len(), at)),
                (2, Field::Bytes(bytes, _)) => model.name_graph(&String::from_utf8_lossy(bytes)),
                (5, Field::Bytes(bytes, at)) => model.weight(&self.slice(bytes.len(), at), at)?,
                (11, Field::Bytes(bytes, at)) => {
                    inputs.push(wire::decode::<ValueInfo>(self.file, "input", bytes, at)?);
                }
                (12 | 13, Field::Bytes(bytes, at)) => {
                    model.declare(wire::decode(self.file, "value_info", bytes, at)?);
                }
                _ => {}
            }
        }
        for input in inputs {
            model.input(input)?;
        }
        for (n_bytes, at) in nodes {
            let node = Node::decode(self.file, self.slice(n_bytes, at), at)?;
            let mut captured = BTreeSet::new();
            for subgraph in node.subgraphs() {
                self.captured(subgraph, at, 0, &mut captured)?;
            }
            model.node(&node, &captured, at)?;
        }
        model.finish()
    }

    fn slice(&self, n_bytes: usize, at: usize) -> Bytes {
        self.content.slice(at..at + n_bytes)
    }

    /// The values that a sub-graph uses and does not make itself.
    fn captured(
        &self,
        graph: &Bytes,
        at: usize,
        depth: u32,
        into: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let message = format!("byte {at}: sub-graphs nested more than {MAX_DEPTH} deep");
            return Err(Error::new(ErrorKind::Unsupported, message).or_at(self.file, 0, 0));
        }
        let mut made = BTreeSet::new();
        let mut used = BTreeSet::new();
        let mut fields = Fields::new(self.file, graph, at);
        while let Some(field) = fields.next()? {
            let Field::Bytes(bytes, field_at) = field.value else {
                continue;
            };
            // Offsets inside of an attribute are those of the node.
            match field.number {
                1 => {
                    let start = field_at - at;
                    let bytes = graph.slice(start..start + bytes.len());
                    let node = Node::decode(self.file, bytes, at)?;
                    for inner in node.subgraphs() {
                        self.captured(inner, at, depth + 1, &mut used)?;
                    }
                    let NodeProto { input, output, .. } = node.proto;
                    used.extend(input);
                    made.extend(output);
                }
                5 => {
                    let weight: TensorHead = wire::decode(self.file, "tensor", bytes, at)?;
                    made.insert(weight.name);
                }
                11 => {
                    let input: ValueInfo = wire::decode(self.file, "input", bytes, at)?;
                    made.insert(input.name);
                }
                _ => {}
            }
        }
        into.extend(used.into_iter().filter(|name| !made.contains(name)));
        Ok(())
    }
}
