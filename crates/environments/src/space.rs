//! Spaces: what observations and actions can be, with Gymnasium's names. A [`Space`] checks values,
//! makes random ones, takes them apart into the leaves that memories and messages keep as columns,
//! and flattens them into what a dense layer reads.
//!
//! ```
//! use shardgraph_environments::space::{LeafRef, Space};
//! use shardgraph_random::KeyedRng;
//!
//! let space = Space::dict(vec![
//!     ("angle", Space::boxed(&[2], -1.0, 1.0)?),
//!     ("gear", Space::discrete(5)?),
//! ])?;
//! let paths: Vec<_> = space.leaves().into_iter().map(|leaf| leaf.path).collect();
//! assert_eq!(paths, ["angle", "gear"]);
//! assert_eq!(space.flat_width()?, 2 + 5);
//!
//! let value = space.sample(&mut KeyedRng::new(7, "space", 0));
//! space.contains(&value)?;
//! let cells: Vec<LeafRef> = space.split(&value)?;
//! assert_eq!(space.merge(&cells)?, value);
//! # Ok::<(), shardgraph_environments::Error>(())
//! ```

mod element;
mod kind;
mod sample;
mod split;
mod value;

use crate::error::Error;

pub use element::{ElementKind, LeafRef};
pub use kind::{Bounds, Space, SpaceKind};
pub use value::{GraphValue, Value};

/// A part of a space that holds elements of one kind.
///
/// A graph is four leaves: `n_nodes`, `edges` (pairs of nodes), `node_features` and
/// `edge_features`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The names of the members around it, joined by `/`; those of a tuple are `0`, `1`, .... Empty
    /// when the space itself is a leaf.
    pub path: String,
    /// The kind of its elements.
    pub kind: ElementKind,
    /// The number of elements of a value; `None` where that varies.
    pub width: Option<usize>,
    /// The number of floats that [`Space::flatten_into`] makes of them: n of a discrete number,
    /// else `width`. `None` in a graph.
    pub flat_width: Option<usize>,
}

impl Space {
    /// Floats in an array of `shape`, from `low` to `high`: one bound for all elements, or a list
    /// with a bound for each.
    ///
    /// # Errors
    /// When the shape has no element or too many, a list has another length, or a lower bound is
    /// not a number, above the upper one or infinite on the wrong side.
    pub fn boxed(
        shape: &[usize],
        low: impl Into<Bounds>,
        high: impl Into<Bounds>,
    ) -> Result<Space, Error> {
        SpaceKind::Box {
            shape: shape.into(),
            low: low.into(),
            high: high.into(),
        }
        .try_into()
    }

    /// The numbers `0..n`.
    ///
    /// # Errors
    /// When `n` is 0.
    pub fn discrete(n: u32) -> Result<Space, Error> {
        SpaceKind::Discrete { n }.try_into()
    }

    /// `n` bits.
    ///
    /// # Errors
    /// When `n` is 0 or beyond 32 bits.
    pub fn multi_binary(n: usize) -> Result<Space, Error> {
        SpaceKind::MultiBinary { n }.try_into()
    }

    /// Named spaces together, in this order.
    ///
    /// # Errors
    /// When there is none, a name is empty, repeated or with a `/`, or the flat width is beyond 32
    /// bits.
    pub fn dict<N: Into<String>>(spaces: Vec<(N, Space)>) -> Result<Space, Error> {
        let named = spaces.into_iter().map(|(name, space)| (name.into(), space));
        SpaceKind::Dict {
            spaces: named.collect(),
        }
        .try_into()
    }

    /// Spaces together, numbered from 0.
    ///
    /// # Errors
    /// When there is none, or the flat width is beyond 32 bits.
    pub fn tuple(spaces: Vec<Space>) -> Result<Space, Error> {
        SpaceKind::Tuple { spaces }.try_into()
    }

    /// Graphs of any size, with so many floats for each node and each edge.
    ///
    /// # Errors
    /// When these are beyond 32 bits.
    pub fn graph(node_features: usize, edge_features: usize) -> Result<Space, Error> {
        SpaceKind::Graph {
            node_features,
            edge_features,
        }
        .try_into()
    }

    /// The kind of the space, with its sizes.
    pub fn kind(&self) -> &SpaceKind {
        &self.kind
    }

    /// The leaves, in the order of the members. What a memory or a message holds of a value has
    /// this order.
    ///
    /// ```
    /// use shardgraph_environments::space::{ElementKind, Space};
    ///
    /// let pair = Space::tuple(vec![Space::discrete(3)?, Space::multi_binary(4)?])?;
    /// let leaves = Space::dict(vec![("observation", pair)])?.leaves();
    /// assert_eq!((leaves[0].path.as_str(), leaves[0].kind), ("observation/0", ElementKind::U32));
    /// assert_eq!((leaves[0].width, leaves[0].flat_width), (Some(1), Some(3)));
    /// assert_eq!((leaves[1].path.as_str(), leaves[1].width), ("observation/1", Some(4)));
    /// # Ok::<(), shardgraph_environments::Error>(())
    /// ```
    pub fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.add_leaves("", &mut leaves);
        leaves
    }

    fn add_leaves(&self, path: &str, leaves: &mut Vec<Leaf>) {
        let mut add = |path: String, kind, width, flat_width| {
            leaves.push(Leaf {
                path,
                kind,
                width,
                flat_width,
            });
        };
        let own_width = Some(self.width());
        match &self.kind {
            SpaceKind::Box { .. } => add(path.into(), ElementKind::F32, own_width, own_width),
            SpaceKind::Discrete { n } => {
                let flat_width = Some(*n as usize);
                add(path.into(), ElementKind::U32, own_width, flat_width);
            }
            SpaceKind::MultiBinary { .. } => {
                add(path.into(), ElementKind::U8, own_width, own_width)
            }
            SpaceKind::Graph { .. } => {
                add(join(path, "n_nodes"), ElementKind::U32, Some(1), None);
                add(join(path, "edges"), ElementKind::U32, None, None);
                add(join(path, "node_features"), ElementKind::F32, None, None);
                add(join(path, "edge_features"), ElementKind::F32, None, None);
            }
            SpaceKind::Dict { spaces } => {
                for (name, space) in spaces {
                    space.add_leaves(&join(path, name), leaves);
                }
            }
            SpaceKind::Tuple { spaces } => {
                for (idx, space) in spaces.iter().enumerate() {
                    space.add_leaves(&join(path, &idx.to_string()), leaves);
                }
            }
        }
    }

    /// The number of elements of a value that is one leaf; 0 of other spaces.
    fn width(&self) -> usize {
        match &self.kind {
            SpaceKind::Box { shape, .. } => shape.iter().product(),
            SpaceKind::Discrete { .. } => 1,
            SpaceKind::MultiBinary { n } => *n,
            SpaceKind::Dict { .. } | SpaceKind::Tuple { .. } | SpaceKind::Graph { .. } => 0,
        }
    }

    /// The number of floats that [`Space::flatten_into`] makes of a value.
    ///
    /// # Errors
    /// When there is a graph in the space; the error names it.
    pub fn flat_width(&self) -> Result<usize, Error> {
        self.fixed_width().ok_or_else(|| {
            let leaves = self.leaves();
            let varying = leaves.iter().find(|leaf| leaf.flat_width.is_none());
            let what = varying.map_or(String::new(), |leaf| format!("leaf {}", leaf.path));
            let expected = "a fixed width; graphs are for layers over graphs".into();
            Error::mismatch(
                "Space::flat_width",
                &what,
                expected,
                "a part of a graph".into(),
            )
        })
    }

    /// [`Space::flat_width`]; `None` when there is a graph in the space.
    fn fixed_width(&self) -> Option<usize> {
        match &self.kind {
            SpaceKind::Discrete { n } => Some(*n as usize),
            SpaceKind::Box { .. } | SpaceKind::MultiBinary { .. } => Some(self.width()),
            SpaceKind::Dict { spaces } => spaces.iter().map(|(_, space)| space.fixed_width()).sum(),
            SpaceKind::Tuple { spaces } => spaces.iter().map(Space::fixed_width).sum(),
            SpaceKind::Graph { .. } => None,
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.into();
    }
    format!("{path}/{name}")
}
