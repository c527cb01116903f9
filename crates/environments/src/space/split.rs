//! Values as lists of their leaves and back, and as one list of floats.

use std::slice::Iter;

use super::value::ValueMismatch;
use super::{GraphValue, LeafRef, Space, SpaceKind, Value};
use crate::error::Error;

impl Space {
    /// The leaves of `value`, in the order of [`Space::leaves`]; [`Space::merge`] makes the value
    /// of them again.
    ///
    /// # Errors
    /// When the space does not contain the value.
    pub fn split<'a>(&self, value: &'a Value) -> Result<Vec<LeafRef<'a>>, Error> {
        self.check(value)
            .map_err(|mismatch| mismatch.of("Space::split"))?;
        let mut cells = Vec::new();
        self.add_cells(value, &mut cells);
        Ok(cells)
    }

    fn add_cells<'a>(&self, value: &'a Value, cells: &mut Vec<LeafRef<'a>>) {
        match (&self.kind, value) {
            (_, Value::F32(list)) => cells.push(LeafRef::F32(list)),
            (_, Value::U32(number)) => cells.push(LeafRef::U32(std::slice::from_ref(number))),
            (_, Value::Bits(bits)) => cells.push(LeafRef::U8(bits)),
            (_, Value::Graph(graph)) => cells.extend([
                LeafRef::U32(std::slice::from_ref(&graph.n_nodes)),
                LeafRef::U32(graph.edges.as_flattened()),
                LeafRef::F32(&graph.node_features),
                LeafRef::F32(&graph.edge_features),
            ]),
            (SpaceKind::Dict { spaces }, Value::Dict(members)) => {
                for (name, space) in spaces {
                    space.add_cells(&members[name], cells);
                }
            }
            (SpaceKind::Tuple { spaces }, Value::Tuple(members)) => {
                for (space, member) in spaces.iter().zip(members) {
                    space.add_cells(member, cells);
                }
            }
            _ => unreachable!("the value was checked"),
        }
    }

    /// The value of these leaves: the inverse of [`Space::split`].
    ///
    /// # Errors
    /// When a cell is missing or too many, of another kind or width than its leaf, or the space
    /// does not contain the value.
    pub fn merge(&self, cells: &[LeafRef<'_>]) -> Result<Value, Error> {
        let method = "Space::merge";
        let n_leaves = self.n_leaves();
        if cells.len() != n_leaves {
            let (expected, given) = (n_leaves.to_string(), cells.len().to_string());
            return Err(Error::mismatch(method, "the cells", expected, given));
        }
        let value = self.take(&mut cells.iter());
        value
            .and_then(|value| self.check(&value).map(|()| value))
            .map_err(|mismatch| mismatch.of(method))
    }

    fn n_leaves(&self) -> usize {
        match &self.kind {
            SpaceKind::Box { .. } | SpaceKind::Discrete { .. } | SpaceKind::MultiBinary { .. } => 1,
            SpaceKind::Graph { .. } => 4,
            SpaceKind::Dict { spaces } => spaces.iter().map(|(_, space)| space.n_leaves()).sum(),
            SpaceKind::Tuple { spaces } => spaces.iter().map(Space::n_leaves).sum(),
        }
    }

    /// The value of the next cells, of which there are enough; lengths and numbers are not looked
    /// at.
    fn take(&self, cells: &mut Iter<'_, LeafRef<'_>>) -> Result<Value, ValueMismatch> {
        Ok(match &self.kind {
            SpaceKind::Box { .. } => Value::F32(f32s(cells.next())?),
            SpaceKind::Discrete { .. } => Value::U32(number(cells.next())?),
            SpaceKind::MultiBinary { .. } => Value::Bits(match cells.next() {
                Some(LeafRef::U8(bits)) => bits.to_vec(),
                other => return Err(other_kind("u8", other)),
            }),
            SpaceKind::Graph { .. } => Value::Graph(take_graph(cells)?),
            SpaceKind::Dict { spaces } => {
                let member = |(name, space): &(String, Space)| {
                    let value = space.take(cells);
                    value
                        .map(|value| (name.clone(), value))
                        .map_err(|mismatch| mismatch.within(name))
                };
                Value::Dict(spaces.iter().map(member).collect::<Result<_, _>>()?)
            }
            SpaceKind::Tuple { spaces } => {
                let member = |(idx, space): (usize, &Space)| {
                    space.take(cells).map_err(|mismatch| mismatch.within(idx))
                };
                let members = spaces.iter().enumerate().map(member);
                Value::Tuple(members.collect::<Result<_, _>>()?)
            }
        })
    }

    /// Writes a value as floats, as a dense layer reads it: boxes as they are, discrete numbers
    /// one-hot, bits as 0 and 1, members one behind the other.
    ///
    /// # Errors
    /// When there is a graph in the space, the space does not contain the value, or `out` is not
    /// [`Space::flat_width`] long; `out` stays as it was.
    ///
    /// ```
    /// use shardgraph_environments::space::{Space, Value};
    ///
    /// let space = Space::tuple(vec![Space::discrete(3)?, Space::multi_binary(2)?])?;
    /// let mut out = [9.0; 5];
    /// space.flatten_into(&Value::Tuple(vec![Value::U32(1), Value::Bits(vec![1, 0])]), &mut out)?;
    /// assert_eq!(out, [0.0, 1.0, 0.0, 1.0, 0.0]);
    /// # Ok::<(), shardgraph_environments::Error>(())
    /// ```
    pub fn flatten_into(&self, value: &Value, out: &mut [f32]) -> Result<(), Error> {
        let method = "Space::flatten_into";
        let width = self.flat_width()?;
        if out.len() != width {
            let (expected, given) = (width.to_string(), out.len().to_string());
            return Err(Error::mismatch(
                method,
                "the length of out",
                expected,
                given,
            ));
        }
        self.check(value).map_err(|mismatch| mismatch.of(method))?;
        self.flatten(value, out);
        Ok(())
    }

    /// Writes a checked value to the front of `out`, and gives what is behind it.
    fn flatten<'a>(&self, value: &Value, out: &'a mut [f32]) -> &'a mut [f32] {
        let (here, behind) = out.split_at_mut(self.fixed_width().unwrap_or(0));
        match (&self.kind, value) {
            (_, Value::F32(list)) => here.copy_from_slice(list),
            (_, Value::U32(number)) => {
                here.fill(0.0);
                here[*number as usize] = 1.0;
            }
            (_, Value::Bits(bits)) => {
                let floats = here.iter_mut().zip(bits);
                floats.for_each(|(to, bit)| *to = f32::from(*bit));
            }
            (SpaceKind::Dict { spaces }, Value::Dict(members)) => {
                spaces.iter().fold(here, |rest, (name, space)| {
                    space.flatten(&members[name], rest)
                });
            }
            (SpaceKind::Tuple { spaces }, Value::Tuple(members)) => {
                let members = spaces.iter().zip(members);
                members.fold(here, |rest, (space, member)| space.flatten(member, rest));
            }
            _ => unreachable!("the value was checked"),
        }
        behind
    }
}

fn take_graph(cells: &mut Iter<'_, LeafRef<'_>>) -> Result<GraphValue, ValueMismatch> {
    let n_nodes = number(cells.next()).map_err(|mismatch| mismatch.within("n_nodes"))?;
    let edges = match cells.next() {
        Some(LeafRef::U32(ends)) => ends.as_chunks(),
        other => return Err(other_kind("u32", other).within("edges")),
    };
    if !edges.1.is_empty() {
        return Err(
            ValueMismatch::new("two nodes an edge", "an odd number of nodes").within("edges"),
        );
    }
    let mut features = |name| f32s(cells.next()).map_err(|mismatch| mismatch.within(name));
    Ok(GraphValue {
        n_nodes,
        edges: edges.0.to_vec(),
        node_features: features("node_features")?,
        edge_features: features("edge_features")?,
    })
}

fn f32s(cell: Option<&LeafRef<'_>>) -> Result<Vec<f32>, ValueMismatch> {
    match cell {
        Some(LeafRef::F32(list)) => Ok(list.to_vec()),
        other => Err(other_kind("f32", other)),
    }
}

fn number(cell: Option<&LeafRef<'_>>) -> Result<u32, ValueMismatch> {
    match cell {
        Some(LeafRef::U32([number])) => Ok(*number),
        other => Err(other_kind("1 u32", other)),
    }
}

fn other_kind(expected: &str, given: Option<&LeafRef<'_>>) -> ValueMismatch {
    let given = given.map(|cell| format!("{} {}", cell.width(), cell.kind()));
    ValueMismatch::new(expected, given.unwrap_or_default())
}
