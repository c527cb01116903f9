//! The key of a child's random numbers: (seed, population, generation, child), never the thread.

use shardgraph_random::{KeyedRng, mix};

/// The random numbers of one child; children are numbered within their generation and population.
pub(crate) fn child_rng(seed: u64, population: u32, generation: u64, child: u32) -> KeyedRng {
    let number = u64::from(population) << 32 | u64::from(child);
    KeyedRng::from_key(mix(mix(mix(seed) ^ generation) ^ number))
}
