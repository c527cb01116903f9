//! Values of spaces, and whether a space contains one.

use std::collections::BTreeMap;
use std::fmt;

use super::{Bounds, Space, SpaceKind};
use crate::error::Error;

/// A value of a [`Space`]; `Space::contains` says whether of a certain one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a box: its elements, row-major.
    F32(Vec<f32>),
    /// Of a discrete space.
    U32(u32),
    /// Of a multi-binary space: zeros and ones.
    Bits(Vec<u8>),
    /// Of a dict. The order of the members is the space's.
    Dict(BTreeMap<String, Value>),
    /// Of a tuple.
    Tuple(Vec<Value>),
    /// Of a graph space.
    Graph(GraphValue),
}

/// A graph with features.
///
/// # Shapes
/// `node_features` is row-major, a row for each node; `edge_features` a row for each edge, in the
/// order of `edges`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphValue {
    /// The number of nodes.
    pub n_nodes: u32,
    /// From which node to which. Whether the other direction is meant too is for who makes the
    /// values to say.
    pub edges: Vec<[u32; 2]>,
    /// The features of the nodes.
    pub node_features: Vec<f32>,
    /// The features of the edges.
    pub edge_features: Vec<f32>,
}

/// The first part of a value that is not as its space says.
pub(super) struct ValueMismatch {
    /// Its path, without the outermost names yet.
    path: String,
    expected: String,
    given: String,
}

impl ValueMismatch {
    pub(super) fn new(expected: impl fmt::Display, given: impl fmt::Display) -> ValueMismatch {
        ValueMismatch {
            path: String::new(),
            expected: expected.to_string(),
            given: given.to_string(),
        }
    }

    /// The mismatch as seen from the member around it.
    pub(super) fn within(mut self, name: impl fmt::Display) -> ValueMismatch {
        self.path = if self.path.is_empty() {
            name.to_string()
        } else {
            format!("{name}/{}", self.path)
        };
        self
    }

    pub(super) fn of(self, method: &'static str) -> Error {
        let what = match self.path.as_str() {
            "" => "the value".into(),
            path => format!("member {path}"),
        };
        Error::mismatch(method, &what, self.expected, self.given)
    }
}

impl Space {
    /// Checks that `value` is one of this space.
    ///
    /// Unlike Gymnasium's boxes, ours hold finite numbers only, wherever the bounds are.
    ///
    /// # Errors
    /// When it is not; the error names the first leaf that does not fit, what was expected there,
    /// and what was given.
    ///
    /// ```
    /// use shardgraph_environments::space::{Space, Value};
    ///
    /// let both = Space::tuple(vec![Space::discrete(3)?, Space::boxed(&[2], -1.0, 1.0)?])?;
    /// let value = |x| Value::Tuple(vec![Value::U32(2), Value::F32(vec![0.5, x])]);
    /// assert!(both.contains(&value(-1.0)).is_ok());
    /// let error = both.contains(&value(1.5)).unwrap_err().to_string();
    /// assert_eq!(error, "Space::contains: member 1: expected numbers from -1 to 1, given 1.5 as element 1");
    /// # Ok::<(), shardgraph_environments::Error>(())
    /// ```
    pub fn contains(&self, value: &Value) -> Result<(), Error> {
        self.check(value)
            .map_err(|mismatch| mismatch.of("Space::contains"))
    }

    pub(super) fn check(&self, value: &Value) -> Result<(), ValueMismatch> {
        match (&self.kind, value) {
            (SpaceKind::Box { low, high, .. }, Value::F32(list)) => {
                check_length(self.width(), list.len(), "numbers")?;
                check_bounds(low, high, list)
            }
            (SpaceKind::Discrete { n }, Value::U32(number)) if number >= n => {
                Err(ValueMismatch::new(format!("a number below {n}"), number))
            }
            (SpaceKind::Discrete { .. }, Value::U32(_)) => Ok(()),
            (SpaceKind::MultiBinary { n }, Value::Bits(bits)) => {
                check_length(*n, bits.len(), "bits")?;
                let other = bits.iter().find(|bit| **bit > 1);
                other.map_or(Ok(()), |bit| Err(ValueMismatch::new("zeros and ones", bit)))
            }
            (SpaceKind::Dict { spaces }, Value::Dict(members)) => check_dict(spaces, members),
            (SpaceKind::Tuple { spaces }, Value::Tuple(members)) => {
                check_length(spaces.len(), members.len(), "members")?;
                let mut pairs = spaces.iter().zip(members).enumerate();
                pairs.try_for_each(|(idx, (space, member))| {
                    space.check(member).map_err(|mismatch| mismatch.within(idx))
                })
            }
            (
                SpaceKind::Graph {
                    node_features,
                    edge_features,
                },
                Value::Graph(graph),
            ) => check_graph(*node_features, *edge_features, graph),
            (kind, value) => Err(ValueMismatch::new(kind.value_name(), value.name())),
        }
    }
}

fn check_length(expected: usize, given: usize, what: &str) -> Result<(), ValueMismatch> {
    if expected == given {
        return Ok(());
    }
    Err(ValueMismatch::new(format!("{expected} {what}"), given))
}

fn check_bounds(low: &Bounds, high: &Bounds, list: &[f32]) -> Result<(), ValueMismatch> {
    let is_outside =
        |(idx, x): &(usize, &f32)| !(x.is_finite() && low.at(*idx) <= **x && **x <= high.at(*idx));
    let Some((idx, x)) = list.iter().enumerate().find(is_outside) else {
        return Ok(());
    };
    let expected = match (low.at(idx), high.at(idx)) {
        (f32::NEG_INFINITY, f32::INFINITY) => "finite numbers".to_owned(),
        (low, f32::INFINITY) => format!("finite numbers from {low} on"),
        (f32::NEG_INFINITY, high) => format!("finite numbers up to {high}"),
        (low, high) => format!("numbers from {low} to {high}"),
    };
    Err(ValueMismatch::new(
        expected,
        format!("{x} as element {idx}"),
    ))
}

fn check_dict(
    spaces: &[(String, Space)],
    members: &BTreeMap<String, Value>,
) -> Result<(), ValueMismatch> {
    for (name, space) in spaces {
        let member = members.get(name).ok_or_else(|| {
            ValueMismatch::new(space.kind.value_name(), "no such member").within(name)
        })?;
        space
            .check(member)
            .map_err(|mismatch| mismatch.within(name))?;
    }
    if members.len() == spaces.len() {
        return Ok(());
    }
    let is_unknown = |(name, _): &(&String, _)| spaces.iter().all(|(known, _)| known != *name);
    let (name, member) = members
        .iter()
        .find(is_unknown)
        .expect("more members than names");
    Err(ValueMismatch::new("no such member", member.name()).within(name))
}

fn check_graph(
    node_features: usize,
    edge_features: usize,
    graph: &GraphValue,
) -> Result<(), ValueMismatch> {
    let n_nodes = graph.n_nodes;
    let mut ends = graph.edges.as_flattened().iter();
    if let Some(end) = ends.find(|end| **end >= n_nodes) {
        let expected = format!("nodes below {n_nodes}");
        return Err(ValueMismatch::new(expected, end).within("edges"));
    }
    let lists = [
        (
            "node_features",
            n_nodes as usize,
            node_features,
            &graph.node_features,
        ),
        (
            "edge_features",
            graph.edges.len(),
            edge_features,
            &graph.edge_features,
        ),
    ];
    for (name, n_rows, width, list) in lists {
        // A product beyond every list is one that no list has.
        check_length(n_rows.saturating_mul(width), list.len(), "numbers")
            .and_then(|()| {
                check_bounds(
                    &Bounds::All(f32::NEG_INFINITY),
                    &Bounds::All(f32::INFINITY),
                    list,
                )
            })
            .map_err(|mismatch| mismatch.within(name))?;
    }
    Ok(())
}

impl SpaceKind {
    /// The values of this kind, in words.
    pub(super) fn value_name(&self) -> &'static str {
        match self {
            SpaceKind::Box { .. } => "F32 of a box",
            SpaceKind::Discrete { .. } => "U32 of a discrete space",
            SpaceKind::MultiBinary { .. } => "Bits of a multi-binary space",
            SpaceKind::Dict { .. } => "Dict",
            SpaceKind::Tuple { .. } => "Tuple",
            SpaceKind::Graph { .. } => "Graph",
        }
    }
}

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Value::F32(_) => "F32",
            Value::U32(_) => "U32",
            Value::Bits(_) => "Bits",
            Value::Dict(_) => "Dict",
            Value::Tuple(_) => "Tuple",
            Value::Graph(_) => "Graph",
        }
    }
}
