//! Schedules without a genetic algorithm: what it has to beat, and what it can start from.
//!
//! Each function takes a problem and returns a valid schedule of it. [`upward_rank`] aims at runtime, [`greedy_memory`] and the
//! orders of [`ordered`] at memory; [`random_search`] and [`local_search`] at whatever the problem minimises; [`partition`] gives a
//! placement, for `ordered` to put in sequence.

use crate::Problem;

mod cluster_search;
mod components;
mod greedy;
mod heft;
mod local;
mod multilevel;
mod orders;
mod partition;
mod random_search;
mod ranked;

pub use cluster_search::{ClusterSearch, placed_list};
pub use components::component_placement;
pub use greedy::{greedy_memory, greedy_memory_best_of};
pub use heft::{heft, one_device};
pub use local::local_search;
pub use multilevel::{Hierarchy, Level, multilevel, multilevel_partition};
pub use orders::{OpOrder, ordered};
pub use partition::partition;
pub use random_search::random_search;
pub use ranked::{upward_rank, upward_rank_keys};

/// Evaluations between two looks of whoever watches a search: 100, and fewer where they take long.
fn look_every(problem: &Problem<'_>) -> u64 {
    const OPS_AND_USES: usize = 200_000;
    let graph = problem.graph();
    let n = OPS_AND_USES / (graph.n_ops() + graph.n_uses());
    (n as u64).clamp(1, 100)
}

#[cfg(test)]
mod tests;
