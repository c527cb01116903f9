//! The paths of an embedding: the ways to compute it.

use std::fmt;

/// A way to compute an embedding; all paths of a model give the same where they apply.
///
/// [`crate::GraphSage`] has the general one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Algorithm 2 as written: a neighbour sum in every layer, whatever the first embedding is.
    General,
    /// The first embedding is zero, so the first layer needs no neighbour sum.
    FreeFirstLayer,
    /// Edge weights are 1 and the only node feature is membership in the solution: layer 1 is a
    /// multiple of the residual degree, so layer 2 needs only the neighbours' degree sum, and
    /// neighbour sums start with layer 3.
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
