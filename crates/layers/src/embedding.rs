//! The interface of embeddings: models that make a row of numbers out of each node and its
//! surroundings.

use std::any::Any;
use std::fmt;

use shardgraph_autodiff::{Ctx, Error, Var};

use crate::{Path, StateBatch};

/// An embedding over its parameters.
///
/// It is written once, against `&mut dyn Ctx`: the same code is checked for shapes, run, recorded
/// and differentiated, on any number of ranks.
pub trait Embedding: Any + fmt::Debug + Send + Sync {
    /// The cheapest path that is exact, with or without edge weights: by default the general one.
    ///
    /// # Complexity
    /// Sparse products of width K for each evaluation of L layers: `L` by `General`, `L - 1` by
    /// `FreeFirstLayer`, `max(L - 2, 0)` by `Collapsed` and one of width 1 (none where degrees are
    /// updated incrementally).
    fn best_path(&self, weighted: bool) -> Path {
        let _ = weighted;
        Path::General
    }

    /// True if [`Embedding::embed`] takes the rows by [`StateBatch::node_input`] and its like alone, so that a program is recorded once
    /// for all states of a graph. By default false: a program is recorded for each state.
    fn takes_inputs(&self) -> bool {
        false
    }

    /// The embeddings of the own rows, none below zero.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]`.
    /// # Errors
    /// Where the batch does not fit the model, or lacks what the path needs, or the model does not
    /// have the path.
    fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, path: Path) -> Result<Var, Error>;
}
