//! The graph problems that the program knows. A new one is a file of this folder and a line of
//! [`PROBLEMS`].

mod clique;
mod cut;
mod dominating_set;
mod independent_set;
mod vertex_cover;

use crate::error::Error;
use crate::problem::Problem;

pub use clique::{MAXIMUM_CLIQUE, MaximumClique};
pub use cut::{MAXIMUM_CUT, MaximumCut};
pub use dominating_set::{MINIMUM_DOMINATING_SET, MinimumDominatingSet};
pub use independent_set::{MAXIMUM_INDEPENDENT_SET, MaximumIndependentSet};
pub use vertex_cover::{MINIMUM_VERTEX_COVER, MinimumVertexCover};

/// The problems that the program knows by name; the first is the default.
pub static PROBLEMS: [&Problem; 5] = [
    &MINIMUM_VERTEX_COVER,
    &MAXIMUM_INDEPENDENT_SET,
    &MAXIMUM_CLIQUE,
    &MAXIMUM_CUT,
    &MINIMUM_DOMINATING_SET,
];

/// The problem with this short name.
///
/// # Errors
/// When there is none; the message has the names.
///
/// ```
/// use shardgraph_environments::{Sense, problem_by_name};
/// assert_eq!(problem_by_name("cut")?.sense, Sense::Maximise);
/// assert!(problem_by_name("tsp").is_err());
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
pub fn problem_by_name(name: &str) -> Result<&'static Problem, Error> {
    let found = PROBLEMS.iter().find(|problem| problem.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = PROBLEMS.iter().map(|problem| problem.name).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        Error::UnknownProblem {
            expected: format!("{} or {last}", others.join(", ")),
            given: name.to_owned(),
        }
    })
}
