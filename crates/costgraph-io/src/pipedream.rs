//! PipeDream's profile, `graph.txt`: a line for each node, then one for each edge, which begins with a tab.
//!
//! `node2 -- Conv2d(3, 96) -- forward_compute_time=28.489, backward_compute_time=22.605, activation_size=1167949824.000,
//! parameter_size=56832.000 -- stage_id=0`, then `\tnode1 -- node2`. Times are milliseconds, sizes bytes; a list of activation
//! sizes, `[8.0; 8.0]`, is summed, as PipeDream does. A node becomes an op that costs both passes (or the forward pass only, see
//! [`super::Pass`]), holds its parameters for good and makes one tensor, its activations. Stage ids are ignored.
//!
//! # Source
//! graph/graph.py of msr-fiddle/pipedream, `Node.__str__` and `Graph.from_str`.

use super::{Format, Imported, Pass, ReadOptions, Report};
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, OpSpec, TensorSpec, whole};
use std::collections::BTreeMap;

const NS_PER_MS: f64 = 1e6;
const SEPARATOR: &str = " -- ";
/// What follows the description, which may itself hold the separator.
const TIMES: &str = " -- forward_compute_time=";

pub(crate) fn read(
    file: &str,
    graph_name: &str,
    content: &[u8],
    options: &ReadOptions,
) -> Result<Imported, Error> {
    let mut profile = Profile {
        builder: GraphBuilder::new(graph_name),
        op_of_name: BTreeMap::new(),
        activation_bytes: Vec::new(),
        edges: Vec::new(),
    };
    for (idx, line) in content.split(|&b| b == b'\n').enumerate() {
        let number = idx as u64 + 1;
        profile
            .line(line, number, options.pass)
            .map_err(|e| e.or_at(file, number, 0))?;
    }
    profile.finish(file)
}

struct Profile {
    builder: GraphBuilder,
    op_of_name: BTreeMap<String, u32>,
    activation_bytes: Vec<u64>,
    /// Line, from, to.
    edges: Vec<(u64, String, String)>,
}

impl Profile {
    fn line(&mut self, line: &[u8], number: u64, pass: Pass) -> Result<(), Error> {
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(syntax("expected text in UTF-8"));
        };
        if line.trim().is_empty() {
            return Ok(());
        }
        if !line.starts_with('\t') {
            return self.node(line.trim(), pass);
        }
        match line.trim().split_once(SEPARATOR) {
            Some((from, to)) if !to.contains(SEPARATOR) => {
                self.edges.push((number, from.to_owned(), to.to_owned()));
                Ok(())
            }
            _ => Err(syntax("expected an edge, `node1 -- node2` after a tab")),
        }
    }

    fn node(&mut self, line: &str, pass: Pass) -> Result<(), Error> {
        let node = Node::parse(line)?;
        let forward_ns = whole("forward_compute_time (in ns)", node.forward_ms * NS_PER_MS)?;
        let backward_ns = whole(
            "backward_compute_time (in ns)",
            node.backward_ms * NS_PER_MS,
        )?;
        let op = self.builder.op(OpSpec {
            name: node.name.to_owned(),
            kind: node.description.split('(').next().unwrap_or("").to_owned(),
            cost_ns: vec![match pass {
                Pass::Both => forward_ns + backward_ns,
                Pass::Forward => forward_ns,
            }],
            internal_bytes: 0,
            persistent_bytes: whole("parameter_size", node.parameter_bytes)?,
            weights: Vec::new(),
        });
        let activations = whole("activation_size", node.activation_bytes)?;
        self.activation_bytes.push(activations);
        match self.op_of_name.insert(node.name.to_owned(), op) {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Graph,
                format!("a second node `{}`; names must be unique", node.name),
            )),
        }
    }

    fn finish(mut self, file: &str) -> Result<Imported, Error> {
        let mut consumers = vec![Vec::new(); self.activation_bytes.len()];
        for (line, from, to) in &self.edges {
            let find = |name: &str| {
                self.op_of_name.get(name).copied().ok_or_else(|| {
                    let message = format!("an edge of the node `{name}`, which has no line");
                    Error::new(ErrorKind::Graph, message).or_at(file, *line, 2)
                })
            };
            consumers[find(from)? as usize].push(find(to)?);
        }
        for (op, (consumers, bytes)) in consumers.iter().zip(self.activation_bytes).enumerate() {
            self.builder
                .tensor(TensorSpec::new(op as u32, bytes, consumers));
        }
        Ok(Imported {
            graph: self.builder.build().map_err(|e| e.or_at(file, 0, 0))?,
            report: Report::new(Format::PipeDream),
        })
    }
}

/// A node's line, its numbers not yet checked.
struct Node<'a> {
    name: &'a str,
    description: &'a str,
    forward_ms: f64,
    backward_ms: f64,
    activation_bytes: f64,
    parameter_bytes: f64,
}

impl Node<'_> {
    fn parse(line: &str) -> Result<Node<'_>, Error> {
        let parts = line.split_once(TIMES).and_then(|(head, times)| {
            let (name, description) = head.split_once(SEPARATOR)?;
            Some((name, description, times))
        });
        let Some((name, description, times)) = parts else {
            return Err(syntax(
                "expected a node, `name -- description -- forward_compute_time=..., ...`, or an edge after a tab",
            ));
        };
        let (fields, _stage) = times.split_once(SEPARATOR).unwrap_or((times, ""));
        let mut fields = fields.split(", ");
        let forward = fields.next().unwrap_or("");
        let node = Node {
            name,
            description,
            forward_ms: number("forward_compute_time", forward)?,
            backward_ms: numeric_field(&mut fields, "backward_compute_time")?,
            activation_bytes: sizes(field(&mut fields, "activation_size")?)?,
            parameter_bytes: numeric_field(&mut fields, "parameter_size")?,
        };
        match fields.next() {
            None => Ok(node),
            Some(more) => Err(syntax(&format!(
                "expected the end of the line after parameter_size, found `{more}`"
            ))),
        }
    }
}

fn numeric_field(fields: &mut std::str::Split<'_, &str>, key: &str) -> Result<f64, Error> {
    number(key, field(fields, key)?)
}

/// The value of the next `key=value`, whose key must be `key`.
fn field<'a>(fields: &mut std::str::Split<'a, &str>, key: &str) -> Result<&'a str, Error> {
    let found = fields.next().unwrap_or("the end of the line");
    match found.split_once('=') {
        Some((name, value)) if name == key => Ok(value),
        _ => Err(syntax(&format!("expected `{key}=`, found `{found}`"))),
    }
}

fn number(key: &str, value: &str) -> Result<f64, Error> {
    let expected = || {
        syntax(&format!(
            "expected a number after `{key}=`, found `{value}`"
        ))
    };
    value.trim().parse().map_err(|_| expected())
}

/// One size, or the sum of `[a; b]`.
fn sizes(value: &str) -> Result<f64, Error> {
    let Some(list) = value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) else {
        return number("activation_size", value);
    };
    let mut sum = 0.0;
    for size in list.split(';').filter(|size| !size.trim().is_empty()) {
        let size = number("activation_size", size)?;
        // A negative size may not hide in the sum.
        whole("an activation size", size)?;
        sum += size;
    }
    Ok(sum)
}

fn syntax(message: &str) -> Error {
    Error::new(ErrorKind::Syntax, message)
}
