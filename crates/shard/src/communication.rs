//! The ways in which ranks share a sum over neighbours.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// Scheme of sharing a neighbour sum: the block that each rank multiplies, and the rows that ranks exchange. N nodes, P ranks, rows of W numbers.
///
/// The matrix is symmetric, so the backward pass of a neighbour sum is the same sum of the derivative, by the same exchange.
///
/// # Complexity
/// Numbers that a rank receives for one sum, with rows spread evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Communication {
    /// Own rows times all columns; the rows of all ranks come by an all-gather: `(P - 1) / P * N * W` numbers.
    #[default]
    Gather,
    /// Called `paper` on the command line. All rows times own columns; the partial sums are reduced over all ranks (OpenGraphGym-MG, algorithm 2, line 12):
    /// `2 (P - 1) / P * N * W` numbers.
    ColumnAllReduce,
    /// Own rows times all columns; of other ranks' rows only those come that a neighbour has here: `W` for each of them.
    Halo,
    /// P = `pr x pc` blocks: the columns of a block come from the `pr` ranks above and below it, its partial sums go to the `pc` ranks beside
    /// it: `(pr + pc - 2) / P * N * W` numbers. `pr` is the largest divisor of P that is not above its root.
    ///
    /// # Source
    /// Tripathy, Yelick and Buluc, Reducing communication in graph neural network training (CAGNET), SC 2020, the 2D algorithm.
    Grid,
}

impl Communication {
    /// All of them.
    pub const ALL: [Communication; 4] =
        [Self::ColumnAllReduce, Self::Gather, Self::Halo, Self::Grid];

    /// True if a sum has the same bits for every number of ranks: no float is added over ranks.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Gather | Self::Halo)
    }
}

impl fmt::Display for Communication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gather => "gather",
            Self::ColumnAllReduce => "paper",
            Self::Halo => "halo",
            Self::Grid => "grid",
        })
    }
}

impl FromStr for Communication {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_it = |communication: &Self| communication.to_string() == text;
        let found = Self::ALL.into_iter().find(is_it);
        found.ok_or_else(|| Error::Name {
            given: text.to_owned(),
            expected: "paper, gather, halo or grid",
        })
    }
}
