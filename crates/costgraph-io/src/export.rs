//! Writers of graphs: the text form of `CostGraphDef`, which TensorFlow's tools read, and JSON lines, which hold everything; and
//! of whole scheduling problems, for solvers.

mod problem;

pub use problem::write_problem;

use serde::Serialize;
use shardgraph_costgraph::{Error, ErrorKind, Graph};
use std::io::{self, Write};

/// Writes `graph` as the text form of `CostGraphDef`: ids are op numbers, every field that is 0 is left out but sizes and views.
///
/// Kinds of ops and the graph's name have no place in the format and are left out.
///
/// # Errors
/// `Unsupported` for a graph with several cost classes; `Io` when `to` refuses.
///
/// ```
/// use shardgraph_costgraph::{GraphBuilder, OpSpec};
/// use shardgraph_costgraph_io::write_cost_graph_text;
///
/// let mut builder = GraphBuilder::new("one op");
/// builder.op(OpSpec::new("a", 3));
/// let mut text = Vec::new();
/// write_cost_graph_text(&builder.build()?, &mut text)?;
/// assert_eq!(text, b"node {\n  name: \"a\"\n  compute_cost: 3\n}\n");
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn write_cost_graph_text(graph: &Graph, to: &mut dyn Write) -> Result<(), Error> {
    if graph.n_cost_classes() != 1 {
        let message = format!(
            "a graph with {} cost classes; CostGraphDef has room for one",
            graph.n_cost_classes()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    for op in 0..graph.n_ops() as u32 {
        write_node(graph, op, to).map_err(|e| refused(&e))?;
    }
    Ok(())
}

fn write_node(graph: &Graph, op: u32, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "node {{\n  name: \"{}\"", escaped(graph.op_name(op)))?;
    let mut field = |name: &str, value: u64| match value {
        0 => Ok(()),
        value => writeln!(to, "  {name}: {value}"),
    };
    field("id", op.into())?;
    field("compute_cost", graph.cost_ns(0, op))?;
    field("temporary_memory_size", graph.internal_bytes(op))?;
    field("persistent_memory_size", graph.persistent_bytes(op))?;
    for &tensor in graph.inputs(op) {
        let producer = graph.producer(tensor);
        if graph.is_control(tensor) {
            writeln!(to, "  control_input: {producer}")?;
            continue;
        }
        writeln!(
            to,
            "  input_info {{ preceding_node: {producer} preceding_port: {} }}",
            port(graph, tensor)
        )?;
    }
    for tensor in graph.outputs(op).filter(|&t| !graph.is_control(t)) {
        let size = graph.tensor_bytes(tensor);
        writeln!(
            to,
            "  output_info {{ size: {size} alias_input_port: {} }}",
            alias_port(graph, op, tensor)
        )?;
    }
    writeln!(to, "}}")
}

/// Which of its producer's outputs a data tensor is; the control tensor comes last.
fn port(graph: &Graph, tensor: u32) -> u32 {
    tensor - graph.outputs(graph.producer(tensor)).start
}

/// Which of the op's data inputs the tensor is a view of, -1 for none.
fn alias_port(graph: &Graph, op: u32, tensor: u32) -> i64 {
    let Some(base) = graph.alias_of(tensor) else {
        return -1;
    };
    let mut data_inputs = graph.inputs(op).iter().filter(|&&t| !graph.is_control(t));
    data_inputs
        .position(|&input| input == base)
        .map_or(-1, |port| port as i64)
}

/// A string as protobuf's text form quotes it.
fn escaped(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            // Three octal digits, so that a digit that follows is not taken as part of the escape.
            c if c.is_ascii_control() => quoted.push_str(&format!("\\{:03o}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted
}

/// A line of the JSON format; see [`crate::read_graphs`].
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    o: usize,
    t: usize,
    e: usize,
    ops: Vec<(&'static str, &'a str, u64, u64, u64)>,
    tensors: Vec<TensorRow<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    persistent: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    control: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<Vec<u64>>,
}

/// Producer, bytes, base op, consumers; a view also says which output of the base op it is a view of.
#[derive(Serialize)]
#[serde(untagged)]
enum TensorRow<'a> {
    Owner(u32, u64, i64, &'a [u32]),
    View(u32, u64, u32, &'a [u32], u32),
}

/// Writes `graph` as one line of JSON, which [`crate::read_graphs`] reads back as an equal graph.
///
/// # Errors
/// `Io` when `to` refuses.
pub fn write_jsonl(graph: &Graph, to: &mut dyn Write) -> Result<(), Error> {
    let n_ops = graph.n_ops() as u32;
    let is_default = |op: u32| graph.op_name(op) == format!("op{op}");
    let has_names = !(0..n_ops).all(is_default);
    let has_persistent = (0..n_ops).any(|op| graph.persistent_bytes(op) > 0);
    let of_ops = |wanted: bool| if wanted { 0..n_ops } else { 0..0 };
    let n_tensors = graph.n_tensors() as u32;
    let line = Line {
        name: graph.name(),
        o: graph.n_ops(),
        t: graph.n_tensors(),
        e: graph.n_uses(),
        ops: (0..n_ops).map(|op| op_row(graph, op)).collect(),
        tensors: (0..n_tensors).map(|t| tensor_row(graph, t)).collect(),
        names: of_ops(has_names).map(|op| graph.op_name(op)).collect(),
        persistent: of_ops(has_persistent)
            .map(|op| graph.persistent_bytes(op))
            .collect(),
        control: (0..n_tensors).filter(|&t| graph.is_control(t)).collect(),
        costs: (1..graph.n_cost_classes())
            .map(|class| (0..n_ops).map(|op| graph.cost_ns(class, op)).collect())
            .collect(),
    };
    serde_json::to_writer(&mut *to, &line).map_err(|e| refused(&e.into()))?;
    to.write_all(b"\n").map_err(|e| refused(&e))
}

fn op_row(graph: &Graph, op: u32) -> (&'static str, &str, u64, u64, u64) {
    let cost = graph.cost_ns(0, op);
    ("op", graph.op_kind(op), cost, 0, graph.internal_bytes(op))
}

fn tensor_row(graph: &Graph, tensor: u32) -> TensorRow<'_> {
    let producer = graph.producer(tensor);
    let bytes = graph.tensor_bytes(tensor);
    let consumers = graph.consumers(tensor);
    match graph.alias_of(tensor) {
        None => TensorRow::Owner(producer, bytes, -1, consumers),
        Some(base) => {
            let maker = graph.producer(base);
            TensorRow::View(producer, bytes, maker, consumers, port(graph, base))
        }
    }
}

fn refused(error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write the graph: {error}"))
}
