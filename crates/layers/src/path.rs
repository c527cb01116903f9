//! Which form of the embedding is computed: the one place where that is decided.

use std::fmt;

use crate::{EmbeddingKind, PolicyShape};

/// A way to compute an embedding; all that a model has give the same where they apply. [`crate::GraphSage`] has the general one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Algorithm 2 as written: a neighbour sum in every layer, whatever the first embedding is.
    General,
    /// The first embedding is zero, so the first layer needs no neighbour sum.
    FreeFirstLayer,
    /// Edge weights are 1 and the only node feature is membership in the solution: layer 1 is a multiple of the
    /// residual degree, so layer 2 needs only the neighbours' degree sum, and neighbour sums start with layer 3.
    Collapsed,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::General => "general",
            Self::FreeFirstLayer => "free-first-layer",
            Self::Collapsed => "collapsed",
        })
    }
}

/// The cheapest path that is exact for a model on a graph.
///
/// # Complexity
/// Sparse products of width K for each evaluation of L layers: `General` L, `FreeFirstLayer` L - 1, `Collapsed`
/// `max(L - 2, 0)` and one of width 1 (none where degrees are updated incrementally).
pub fn choose_path(shape: PolicyShape, weighted: bool) -> Path {
    match shape.embedding {
        EmbeddingKind::GraphSage => Path::General,
        _ if weighted || shape.n_node_features > 0 => Path::FreeFirstLayer,
        EmbeddingKind::Structure2Vec => Path::Collapsed,
    }
}
