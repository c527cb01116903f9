//! Random numbers: xoshiro256++ streams keyed by (seed, purpose, index), so that no result depends on threads.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator for one key; the same key gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: &str, index: u64) -> Stream {
        let mut key = mix(seed);
        for &byte in purpose.as_bytes() {
            key = mix(key ^ u64::from(byte));
        }
        key = mix(key ^ purpose.len() as u64);
        Stream(Xoshiro256PlusPlus::seed_from_u64(mix(key ^ mix(index))))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform on [0, 1), a multiple of 2^-24.
    pub(crate) fn uniform_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// Uniform on [0, 1), a multiple of 2^-53.
    pub(crate) fn uniform_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform on `0..n` for `n > 0`, up to a bias of n / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}

/// SplitMix64's finaliser after one step of its counter: a bijection that scatters neighbouring inputs.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
