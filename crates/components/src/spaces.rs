//! Between nested spaces and matrices: widths, and the parts of a flat row that belong to each leaf.

use shardgraph_autodiff::{Axis, Ctx, Shape, Var};
use shardgraph_environments::space::{Form, Leaf, Space};

use crate::Error;
use crate::error::Call;

/// Columns of a row that holds a value of `space`.
pub(crate) fn n_features(call: Call<'_>, space: &Space) -> Result<usize, Error> {
    space.flat_width().map_err(|error| {
        let expected = "a space of fixed width";
        call.misfit("the observation space", expected, error.to_string())
    })
}

/// Features of a node of a graph space whose edges have none.
pub(crate) fn n_node_features(call: Call<'_>, space: &Space) -> Result<usize, Error> {
    match space.form() {
        Form::Graph {
            node_features: n @ 1..,
            edge_features: 0,
        } => Ok(*n),
        other => {
            let expected = "graphs whose nodes have features and whose edges have none";
            Err(call.misfit("the space of nodes", expected, format!("{other:?}")))
        }
    }
}

/// Features of a node, at least one, and of an edge of a graph space.
pub(crate) fn graph_features(call: Call<'_>, space: &Space) -> Result<(usize, usize), Error> {
    match space.form() {
        Form::Graph {
            node_features: of_node @ 1..,
            edge_features: of_edge,
        } => Ok((*of_node, *of_edge)),
        other => {
            let expected = "graphs whose nodes have features";
            Err(call.misfit("the space of graphs", expected, format!("{other:?}")))
        }
    }
}

/// The number of actions of a discrete space.
pub(crate) fn n_actions(call: Call<'_>, space: &Space) -> Result<usize, Error> {
    match space.form() {
        Form::Discrete { n } => Ok(*n as usize),
        other => Err(call.misfit("the action space", "a discrete one", format!("{other:?}"))),
    }
}

/// One leaf of a nested space in a flat row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatLeaf {
    /// Path of the leaf, as `camera/angle`; empty where the space is one leaf.
    pub path: String,
    /// Its first column.
    pub start: usize,
    /// Its number of columns: a discrete leaf is one-hot.
    pub width: usize,
}

/// The leaves in the order of [`Space::leaves`], which is that of a flat row.
fn flat_leaves(call: Call<'_>, space: &Space) -> Result<Vec<FlatLeaf>, Error> {
    n_features(call, space)?; // a graph has no width, and the error names it
    let mut start = 0;
    let leaf = |leaf: Leaf| {
        let (path, width) = (leaf.path, leaf.flat_width.unwrap_or(0));
        start += width;
        FlatLeaf {
            path,
            start: start - width,
            width,
        }
    };
    Ok(space.leaves().into_iter().map(leaf).collect())
}

/// Cuts flat rows of a nested space into its leaves.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, ShapeCheck};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{Merger, Splitter};
///
/// let space = Space::dict(vec![
///     ("angle", Space::boxed(&[2], -1.0, 1.0)?),
///     ("mode", Space::discrete(3)?),
/// ])?;
/// let (splitter, merger) = (Splitter::build("split", &space)?, Merger::build("merge", &space)?);
/// let params = Params::new();
/// let mut ctx = ShapeCheck::new(&params, 1);
/// let x = ctx.input(Shape::new(8, 5), &[])?;
/// let leaves = splitter.split(&mut ctx, x)?;
/// assert_eq!((splitter.leaves()[1].path.as_str(), ctx.shape(leaves[1])), ("mode", Shape::new(8, 3)));
/// let whole = merger.merge(&mut ctx, &leaves)?;
/// assert_eq!(ctx.shape(whole), Shape::new(8, 5));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Splitter {
    scope: String,
    leaves: Vec<FlatLeaf>,
    width: usize,
}

impl Splitter {
    /// For rows of this space.
    ///
    /// # Errors
    /// When the space has no fixed width.
    pub fn build(scope: &str, space: &Space) -> Result<Splitter, Error> {
        let call = Call::new(scope, "Splitter::build");
        Ok(Splitter {
            scope: scope.to_string(),
            leaves: flat_leaves(call, space)?,
            width: n_features(call, space)?,
        })
    }

    /// The leaves, in the order of the columns.
    pub fn leaves(&self) -> &[FlatLeaf] {
        &self.leaves
    }

    /// The leaves of all rows.
    ///
    /// # Shapes
    /// `[n, flat width]` to a `[n, width]` for each leaf.
    /// # Errors
    /// Where the rows have another width.
    pub fn split(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Vec<Var>, Error> {
        let call = Call::new(&self.scope, "Splitter::split");
        call.expect_width(ctx, "the rows", x, self.width)?;
        let leaf = |leaf: &FlatLeaf| ctx.slice(x, Axis::Cols, leaf.start, leaf.width);
        Ok(self.leaves.iter().map(leaf).collect::<Result<_, _>>()?)
    }
}

/// Joins leaves to flat rows of a nested space: the inverse of a [`Splitter`], where an example is.
#[derive(Debug, Clone)]
pub struct Merger {
    scope: String,
    leaves: Vec<FlatLeaf>,
}

impl Merger {
    /// For rows of this space.
    ///
    /// # Errors
    /// When the space has no fixed width.
    pub fn build(scope: &str, space: &Space) -> Result<Merger, Error> {
        Ok(Merger {
            scope: scope.to_string(),
            leaves: flat_leaves(Call::new(scope, "Merger::build"), space)?,
        })
    }

    /// The rows of all leaves.
    ///
    /// # Shapes
    /// A `[n, width]` for each leaf to `[n, flat width]`.
    /// # Errors
    /// Where a leaf is missing or too many, or has another width or number of rows.
    pub fn merge(&self, ctx: &mut dyn Ctx, parts: &[Var]) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "Merger::merge");
        if parts.len() != self.leaves.len() {
            let (expected, given) = (self.leaves.len(), parts.len());
            return Err(call.misfit("the leaves", expected.to_string(), given.to_string()));
        }
        let n_rows = ctx.shape(parts[0]).rows;
        for (leaf, &part) in self.leaves.iter().zip(parts) {
            let shape = Shape::new(n_rows, leaf.width);
            call.expect_shape(ctx, &format!("leaf `{}`", leaf.path), part, shape)?;
        }
        let mut whole = parts[0];
        for &part in &parts[1..] {
            whole = ctx.concat(whole, part, Axis::Cols)?;
        }
        Ok(whole)
    }
}
