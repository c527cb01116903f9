//! Order of work: groups of parts that are in memory, rounds of parts, and the samples of buckets.
//!
//! ```text
//! Layout -- groups of parts, as memory allows
//!   `- visits: which groups are in memory together (Schedule), and what is swapped between them
//!       `- rounds: pairs of parts that touch different rows
//!           `- Step -> Job -> BucketPass: the samples of one bucket
//! ```

mod layout;
mod pass;
mod rounds;
mod visits;

pub(crate) use layout::Layout;
pub(crate) use pass::{BucketPass, Job, PartKey, Pass, Planner, Step};
pub(crate) use rounds::Pair;
pub use visits::Schedule;
pub(crate) use visits::{GroupKey, Swap, Visit, swaps};
