//! The crate's tests, one file per part.

mod bytes;
mod memory;
mod n_step;
mod n_step_assembler;
mod prioritized;
mod rows;
mod rows_bytes;
mod sampling;
mod spaces;
mod uniform;

use crate::{Ending, EpisodeMemory};

/// Records an episode whose picks are 0, 1, 2, ... and whose rewards are 1, 2, 4, ....
pub(crate) fn record_episode(
    memory: &mut EpisodeMemory,
    graph_id: u64,
    n_steps: u32,
    ending: Ending,
) {
    memory.begin_episode(graph_id);
    for step in 0..n_steps {
        memory
            .record(step, (1u32 << (step % 24)) as f32, None)
            .unwrap();
    }
    memory.end_episode(ending).unwrap();
}

/// A small generator of numbers below n, without bias (draws beyond the last multiple of n are
/// drawn again).
pub(crate) fn random_below(state: &mut u64, n: u64) -> u64 {
    let limit = (1 << 32) / n * n;
    loop {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = *state >> 32;
        if drawn < limit {
            return drawn % n;
        }
    }
}

/// [`random_below`] as a number from [0, 1).
pub(crate) fn random_uniform(state: &mut u64) -> f64 {
    random_below(state, 1 << 32) as f64 / (1u64 << 32) as f64
}
