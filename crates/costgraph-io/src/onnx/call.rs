//! One node at work: its attributes and what is known of its inputs.

use super::{
    proto::{AttributeProto, NodeProto},
    value::Value,
};
use crate::wire;
use prost::bytes::Bytes;
use shardgraph_costgraph::{Error, ErrorKind};

/// More attributes than any operator has; a node of more is an attack on memory.
const MAX_ATTRIBUTES: u64 = 4096;
/// More inputs and outputs than any node has.
const MAX_ENDS: u64 = 1 << 20;

/// A node with its attributes decoded.
pub(crate) struct Node {
    pub(crate) proto: NodeProto,
    attributes: Vec<AttributeProto>,
}

impl Node {
    pub(crate) fn decode(file: &str, bytes: Bytes, at: usize) -> Result<Node, Error> {
        let place = |kind, message: String| {
            Error::new(kind, format!("byte {at}: {message}")).or_at(file, 0, 0)
        };
        // Counted before they become memory.
        let (mut n_attributes, mut n_ends) = (0, 0);
        let mut fields = wire::Fields::new(file, &bytes, at);
        while let Some(field) = fields.next()? {
            n_attributes += u64::from(matches!(field.number, 5 | 9));
            n_ends += u64::from(matches!(field.number, 1 | 2));
        }
        for (n, most, what) in [
            (n_attributes, MAX_ATTRIBUTES, "attributes and notes"),
            (n_ends, MAX_ENDS, "inputs and outputs"),
        ] {
            if n > most {
                let message = format!("a node of {n} {what}; at most {most} are possible");
                return Err(place(ErrorKind::TooLarge, message));
            }
        }
        let mut proto: NodeProto = wire::decode(file, "node", bytes, at)?;
        if proto.op_type.is_empty() {
            let message = "a node without op_type".to_owned();
            return Err(place(ErrorKind::Syntax, message));
        }
        let encoded = std::mem::take(&mut proto.attribute);
        let decode = |bytes: Bytes| wire::decode(file, "attribute", bytes, at);
        let attributes = encoded.into_iter().map(decode).collect::<Result<_, _>>()?;
        Ok(Node { proto, attributes })
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attributes.iter().find(|a| a.name == name)
    }

    /// The node's name, behind the path of the module that it comes from where torch's exporter says so.
    pub(crate) fn scoped_name(&self) -> String {
        let name = &self.proto.name;
        let mut notes = self.proto.metadata_props.iter();
        let scopes = notes.find(|note| note.key == "pkg.torch.onnx.name_scopes");
        // A list as Python writes it: from the outermost module to the innermost, then the node.
        let scopes = scopes.map_or("", |note| note.value.as_str());
        let scopes: Vec<&str> = scopes.split(['\'', '"']).skip(1).step_by(2).collect();
        match scopes.len().checked_sub(2).map(|at| scopes[at]) {
            Some(module) if !module.is_empty() => format!("{module}/{name}"),
            _ => name.clone(),
        }
    }

    /// The sub-graphs in its attributes, encoded.
    pub(crate) fn subgraphs(&self) -> impl Iterator<Item = &Bytes> {
        let single = self.attributes.iter().map(|a| &a.g);
        let several = self.attributes.iter().flat_map(|a| &a.graphs);
        single.chain(several).filter(|graph| !graph.is_empty())
    }
}

/// What inference sees of a node.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Node,
    /// One for each input; `None` for one that is left out.
    pub(crate) inputs: &'a [Option<&'a Value>],
    /// The version of the operator set.
    pub(crate) opset: i64,
}

impl<'a> Call<'a> {
    pub(crate) fn input(&self, idx: usize) -> Option<&'a Value> {
        self.inputs.get(idx).copied().flatten()
    }

    pub(crate) fn elem(&self, idx: usize) -> i32 {
        self.input(idx).map_or(0, |value| value.elem)
    }

    pub(crate) fn shape(&self, idx: usize) -> Option<&'a [u64]> {
        self.input(idx)?.shape.as_deref()
    }

    pub(crate) fn known_ints(&self, idx: usize) -> Option<&'a [i64]> {
        self.input(idx)?.known_ints()
    }

    pub(crate) fn int(&self, name: &str, absent: i64) -> i64 {
        self.node.attribute(name).map_or(absent, |a| a.i)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        Some(&self.node.attribute(name)?.ints)
    }

    pub(crate) fn text(&self, name: &str) -> &'a [u8] {
        self.node.attribute(name).map_or(&[], |a| &a.s)
    }

    /// Integers that older operator sets have as an attribute and newer ones as an input.
    pub(crate) fn ints_of(&self, name: &str, input: usize) -> Option<&'a [i64]> {
        self.ints(name).or_else(|| self.known_ints(input))
    }

    pub(crate) fn n_outputs(&self) -> usize {
        self.node.proto.output.len()
    }
}

/// An axis counted from the front; a negative one counts from the back.
pub(crate) fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let from_front = if axis < 0 {
        axis.checked_add(rank_signed)?
    } else {
        axis
    };
    usize::try_from(from_front).ok().filter(|&a| a < rank)
}
