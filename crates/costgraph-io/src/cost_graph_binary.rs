//! `CostGraphDef` as binary protobuf: field 1 is a node; all else is a summary that is not used.

use super::{
    Imported, ReadOptions, Report,
    cost_graph::{Assembly, Node, Spot},
    wire::{self, Fields, Value},
};
use shardgraph_costgraph::{Error, ErrorKind};

/// A node of more bytes is an attack on memory: it would be millions of inputs or outputs.
const MAX_NODE_BYTES: usize = 4 << 20;

pub(crate) fn read(
    file: &str,
    graph_name: &str,
    content: &[u8],
    options: &ReadOptions,
    report: Report,
) -> Result<Imported, Error> {
    let mut assembly = Assembly::new(file, graph_name, options, report);
    let mut fields = Fields::new(file, content, 0);
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes(bytes, at)) if bytes.len() > MAX_NODE_BYTES => {
                let message = format!(
                    "byte {at}: a node of {} bytes; at most {MAX_NODE_BYTES} are possible",
                    bytes.len()
                );
                return Err(Error::new(ErrorKind::TooLarge, message).or_at(file, 0, 0));
            }
            (1, Value::Bytes(bytes, at)) => {
                let node: Node = wire::decode(file, "node", bytes, at)?;
                assembly.node(node, Spot::Byte(at as u64))?;
            }
            (2, Value::Bytes(..)) => {}
            (number, _) => {
                let message = format!(
                    "field {number} at the outermost level; a CostGraphDef has nodes (1) and costs (2) only"
                );
                return Err(Error::new(ErrorKind::Syntax, message).or_at(file, 0, 0));
            }
        }
    }
    assembly.finish()
}
