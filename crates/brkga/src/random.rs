//! Random numbers: one xoshiro256++ stream for each child, keyed by (seed, population, generation, child), never by thread.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The stream of one child.
///
/// # Source
/// Blackman and Vigna, "Scrambled linear pseudorandom number generators" (xoshiro256++).
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream for a key; children are numbered within their generation and population.
    pub(crate) fn new(seed: u64, population: u32, generation: u64, child: u32) -> Stream {
        let place = u64::from(population) << 32 | u64::from(child);
        let key = mix(mix(mix(seed) ^ generation) ^ place);
        Stream(Xoshiro256PlusPlus::seed_from_u64(key))
    }

    /// 64 uniform bits.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An index below `n`; one is likelier than another by less than n / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}

/// SplitMix64's finaliser after one step of its counter: a bijection of u64 that scatters neighbouring inputs.
///
/// # Source
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
