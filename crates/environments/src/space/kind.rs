//! Spaces and their kinds, as plain data that configs and checkpoints hold, and the rules that make a
//! space of one.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A set of values: a box of floats, numbers below n, bits, graphs, or named or numbered spaces
/// together.
///
/// A space that exists keeps the rules of [`SpaceKind`]; read from JSON or TOML too.
///
/// # Source
/// Gymnasium's Box, Discrete, MultiBinary, Dict, Tuple and Graph.
///
/// ```
/// use shardgraph_environments::space::Space;
///
/// let space: Space = serde_json::from_str(r#"{"type": "Box", "shape": [2], "low": 0.0, "high": "inf"}"#)?;
/// assert_eq!(space, Space::boxed(&[2], 0.0, f32::INFINITY)?);
/// let error = serde_json::from_str::<Space>(r#"{"type": "Discrete", "n": 0}"#).unwrap_err();
/// assert_eq!(error.to_string(), "Space::discrete: n: expected a size of 1 to 2^32 - 1, given 0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SpaceKind", into = "SpaceKind")]
pub struct Space {
    pub(super) kind: SpaceKind,
}

impl From<Space> for SpaceKind {
    fn from(space: Space) -> SpaceKind {
        space.kind
    }
}

/// The kind of a [`Space`], with its sizes. As JSON or TOML the name of the variant is the key
/// `type`, an infinite bound is `"inf"` or `"-inf"` (TOML's own `inf` and `-inf` are read too), and
/// unknown keys are refused.
///
/// `Space::try_from` makes a space of it and is where the rules are checked.
///
/// ```
/// use shardgraph_environments::space::{SpaceKind, Space};
///
/// let space = Space::try_from(SpaceKind::Discrete { n: 2 })?;
/// assert!(Space::try_from(SpaceKind::Discrete { n: 0 }).is_err());
/// assert!(matches!(space.kind(), SpaceKind::Discrete { n: 2 }));
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum SpaceKind {
    /// Floats in an array.
    Box {
        /// The extent of each dimension, none of them 0; no dimension is a single number.
        shape: Vec<usize>,
        /// The smallest value: a number below infinity.
        low: Bounds,
        /// The largest value: a number above minus infinity, and not below `low`.
        high: Bounds,
    },
    /// One of the numbers `0..n`.
    Discrete {
        /// Their number, at least 1.
        n: u32,
    },
    /// Bits.
    MultiBinary {
        /// Their number, at least 1.
        n: usize,
    },
    /// Named members, in an order that decides the order of the leaves.
    Dict {
        /// One or more; names are not empty, not repeated, and without `/`, which paths are joined
        /// with.
        spaces: Vec<(String, Space)>,
    },
    /// Members that are numbered from 0.
    Tuple {
        /// One or more.
        spaces: Vec<Space>,
    },
    /// Graphs whose numbers of nodes and edges vary.
    Graph {
        /// Floats for each node, 0 for none.
        node_features: usize,
        /// Floats for each edge, 0 for none.
        edge_features: usize,
    },
}

/// The lower or upper bounds of a box. `f32` and lists of `f32` turn into them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WireBounds", into = "WireBounds")]
pub enum Bounds {
    /// One bound for every element.
    All(f32),
    /// A bound for each element, row-major.
    Each(Vec<f32>),
}

impl Bounds {
    /// The bound of element `idx`.
    ///
    /// # Panics
    /// When there is a bound for each element, and none for this one.
    pub fn at(&self, idx: usize) -> f32 {
        match self {
            Bounds::All(bound) => *bound,
            Bounds::Each(bounds) => bounds[idx],
        }
    }

    fn as_slice(&self) -> &[f32] {
        match self {
            Bounds::All(bound) => std::slice::from_ref(bound),
            Bounds::Each(bounds) => bounds,
        }
    }
}

impl From<f32> for Bounds {
    fn from(bound: f32) -> Bounds {
        Bounds::All(bound)
    }
}

impl From<Vec<f32>> for Bounds {
    fn from(bounds: Vec<f32>) -> Bounds {
        Bounds::Each(bounds)
    }
}

impl<const N: usize> From<[f32; N]> for Bounds {
    fn from(bounds: [f32; N]) -> Bounds {
        Bounds::Each(bounds.into())
    }
}

/// Bounds as they are written: JSON has no infinite numbers.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a bound is a number, \"inf\", \"-inf\", or a list of these"
)]
enum WireBounds {
    All(WireBound),
    Each(Vec<WireBound>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireBound {
    Number(f32),
    Infinite(Infinite),
}

#[derive(Serialize, Deserialize)]
enum Infinite {
    #[serde(rename = "inf")]
    Above,
    #[serde(rename = "-inf")]
    Below,
}

impl From<Bounds> for WireBounds {
    fn from(bounds: Bounds) -> WireBounds {
        match bounds {
            Bounds::All(bound) => WireBounds::All(bound.into()),
            Bounds::Each(bounds) => {
                WireBounds::Each(bounds.into_iter().map(WireBound::from).collect())
            }
        }
    }
}

impl From<WireBounds> for Bounds {
    fn from(bounds: WireBounds) -> Bounds {
        match bounds {
            WireBounds::All(bound) => Bounds::All(bound.into()),
            WireBounds::Each(bounds) => Bounds::Each(bounds.into_iter().map(f32::from).collect()),
        }
    }
}

impl From<f32> for WireBound {
    fn from(bound: f32) -> WireBound {
        match bound {
            f32::INFINITY => WireBound::Infinite(Infinite::Above),
            f32::NEG_INFINITY => WireBound::Infinite(Infinite::Below),
            number => WireBound::Number(number),
        }
    }
}

impl From<WireBound> for f32 {
    fn from(bound: WireBound) -> f32 {
        match bound {
            WireBound::Number(number) => number,
            WireBound::Infinite(Infinite::Above) => f32::INFINITY,
            WireBound::Infinite(Infinite::Below) => f32::NEG_INFINITY,
        }
    }
}

impl TryFrom<SpaceKind> for Space {
    type Error = Error;

    /// Checks the rules that [`SpaceKind`] states, and that every size fits 32 bits,
    /// [`Space::flat_width`] included.
    fn try_from(kind: SpaceKind) -> Result<Space, Error> {
        match &kind {
            SpaceKind::Box { shape, low, high } => check_box(shape, low, high)?,
            SpaceKind::Discrete { n } => check_size("Space::discrete", "n", Some(*n as usize), n)?,
            SpaceKind::MultiBinary { n } => check_size("Space::multi_binary", "n", Some(*n), n)?,
            SpaceKind::Dict { spaces } => {
                check_names(spaces)?;
                check_members("Space::dict", spaces.iter().map(|(_, space)| space))?;
            }
            SpaceKind::Tuple { spaces } => check_members("Space::tuple", spaces.iter())?,
            SpaceKind::Graph {
                node_features,
                edge_features,
            } => {
                let largest = *node_features.max(edge_features);
                if u32::try_from(largest).is_err() {
                    let (expected, given) = ("at most 2^32 - 1".into(), largest.to_string());
                    return Err(Error::mismatch(
                        "Space::graph",
                        "the features",
                        expected,
                        given,
                    ));
                }
            }
        }
        Ok(Space { kind })
    }
}

fn check_box(shape: &[usize], low: &Bounds, high: &Bounds) -> Result<(), Error> {
    let method = "Space::boxed";
    let mut extents = shape.iter();
    let width = extents.try_fold(1usize, |product, extent| product.checked_mul(*extent));
    check_size(method, "the shape", width, &shape)?;
    let width = width.unwrap_or_default();
    for (what, bounds) in [("low", low), ("high", high)] {
        if let Bounds::Each(bounds) = bounds
            && bounds.len() != width
        {
            let expected = format!("{width}, one an element, or a single one");
            let given = bounds.len().to_string();
            return Err(Error::mismatch(method, what, expected, given));
        }
    }
    // A bound for all is looked at once, however large the box.
    let n_bounds = low.as_slice().len().max(high.as_slice().len());
    for idx in 0..n_bounds {
        let (low, high) = (low.at(idx), high.at(idx));
        if !(low <= high && low < f32::INFINITY && high > f32::NEG_INFINITY) {
            let what = format!("the bounds of element {idx}");
            let expected = "low <= high, low below inf and high above -inf".into();
            let given = format!("{low} and {high}");
            return Err(Error::mismatch(method, &what, expected, given));
        }
    }
    Ok(())
}

/// Sizes fit 32 bits, as the columns of a memory do; `None` is one that does not fit a `usize`
/// either.
fn check_size(
    method: &'static str,
    what: &str,
    size: Option<usize>,
    given: &dyn Debug,
) -> Result<(), Error> {
    if size.is_some_and(|size| size > 0 && u32::try_from(size).is_ok()) {
        return Ok(());
    }
    let expected = "a size of 1 to 2^32 - 1".into();
    let given = format!("{given:?}");
    Err(Error::mismatch(method, what, expected, given))
}

fn check_names(spaces: &[(String, Space)]) -> Result<(), Error> {
    let mut known = BTreeSet::new();
    for (idx, (name, _)) in spaces.iter().enumerate() {
        if !known.insert(name) || name.is_empty() || name.contains('/') {
            let expected = "each another one, not empty and without '/'".into();
            let given = format!("{name:?} at {idx}");
            return Err(Error::mismatch("Space::dict", "the names", expected, given));
        }
    }
    Ok(())
}

fn check_members<'a>(
    method: &'static str,
    spaces: impl ExactSizeIterator<Item = &'a Space>,
) -> Result<(), Error> {
    if spaces.len() == 0 {
        let (expected, given) = ("one or more".into(), "none".into());
        return Err(Error::mismatch(method, "the members", expected, given));
    }
    let width: u64 = spaces
        .map(|space| space.fixed_width().unwrap_or(0) as u64)
        .sum();
    if u32::try_from(width).is_err() {
        let what = "the flat width of all members";
        let expected = "at most 2^32 - 1".into();
        return Err(Error::mismatch(method, what, expected, width.to_string()));
    }
    Ok(())
}
