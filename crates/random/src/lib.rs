//! Random numbers keyed by (seed, purpose, index): the same bits for any number of threads and on every machine.
//!
//! ```text
//! (seed, purpose, index) ── mix ──> u64 key ── xoshiro256++ ──> KeyedRng
//!                                                                 ├─ next_u64, uniform_f32, uniform_f64, chance
//!                                                                 ├─ below, below_u32 (exact), index (fast)
//!                                                                 ├─ normal, exponential, geometric
//!                                                                 └─ shuffle, sample_without_replacement
//! ```
//!
//! Keys never hold a rank or a thread, so a result does not depend on how work is spread. Integers come straight from the
//! generator; the floating-point functions use IEEE-exact operations only (no libm).
//!
//! ```
//! use shardgraph_random::KeyedRng;
//!
//! let mut dice = KeyedRng::new(1, "dice", 0);
//! assert!((0..100).all(|_| dice.below(6) < 6));
//! assert_eq!(KeyedRng::new(7, "replay", 3).next_u64(), KeyedRng::new(7, "replay", 3).next_u64());
//! assert_ne!(KeyedRng::new(7, "replay", 3).next_u64(), KeyedRng::new(7, "replay", 4).next_u64());
//! ```

#![forbid(unsafe_code)]

/// The step of SplitMix64's counter.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finaliser after one step of its counter: a bijection of u64 that scatters neighbouring inputs.
///
/// # Source
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
#[must_use]
#[inline]
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// xoshiro256++ generator for one key, with the distributions that the jobs need.
///
/// ```
/// use shardgraph_random::KeyedRng;
/// let mut order: Vec<u32> = (0..5).collect();
/// KeyedRng::new(1, "order", 0).shuffle(&mut order);
/// order.sort_unstable();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// ```
///
/// # Source
/// Blackman and Vigna, "Scrambled linear pseudorandom number generators" (xoshiro256++).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRng {
    state: [u64; 4],
    /// The second value of the last pair that `normal` made, as bits.
    spare_normal: Option<u64>,
}

/// The streams of one (seed, purpose): of many indices, the part of the key that they share is mixed once.
///
/// ```
/// use shardgraph_random::{KeyedRng, KeyedStreams};
/// let games = KeyedStreams::new(7, "games");
/// assert_eq!(games.stream(3), KeyedRng::new(7, "games", 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedStreams {
    key: u64,
}

impl KeyedStreams {
    /// The streams of (seed, purpose).
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> KeyedStreams {
        let mut key = mix(seed);
        for &byte in purpose.as_bytes() {
            key = mix(key ^ u64::from(byte));
        }
        // The length separates ("a", ...) from ("a\0", ...) and the like.
        let key = mix(key ^ purpose.len() as u64);
        KeyedStreams { key }
    }

    /// Generator for the key (seed, purpose, index).
    #[must_use]
    #[inline]
    pub fn stream(self, index: u64) -> KeyedRng {
        KeyedRng::from_key(mix(self.key ^ mix(index)))
    }
}

/// The first four numbers of [`KeyedRng::uniform_f64`] of N streams at once, each by its own streams and index:
/// loops without branches, which a caller's vector instructions carry out side by side.
///
/// ```
/// use shardgraph_random::{KeyedStreams, first_uniforms};
/// let games = KeyedStreams::new(7, "games");
/// let [first, second, ..] = first_uniforms([games; 2], [3, 4]);
/// let mut stream = games.stream(4);
/// assert_eq!((first[1], second[1]), (stream.uniform_f64(), stream.uniform_f64()));
/// ```
#[must_use]
#[inline(always)]
pub fn first_uniforms<const N: usize>(
    streams: [KeyedStreams; N],
    indices: [u64; N],
) -> [[f64; N]; 4] {
    let mut state = [[0u64; N]; 4];
    for lane in 0..N {
        let key = mix(streams[lane].key ^ mix(indices[lane]));
        for (word, state) in (0..).zip(&mut state) {
            state[lane] = state_word(key, word);
        }
    }
    let mut numbers = [[0.0; N]; 4];
    for numbers in &mut numbers {
        for (lane, number) in numbers.iter_mut().enumerate() {
            let (output, after) = next([0, 1, 2, 3].map(|word: usize| state[word][lane]));
            for (state, word) in state.iter_mut().zip(after) {
                state[lane] = word;
            }
            *number = uniform(output);
        }
    }
    numbers
}

/// A word of a generator's first state: the outputs of SplitMix64 from its key, which are never all 0. A library's generator takes them through
/// bytes, which was a third of a game's step.
#[inline(always)]
fn state_word(key: u64, word: u64) -> u64 {
    mix(key.wrapping_add(GOLDEN.wrapping_mul(word)))
}

/// A step of xoshiro256++: its output, and the state after it.
#[inline(always)]
fn next([a, b, c, d]: [u64; 4]) -> (u64, [u64; 4]) {
    let output = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
    let (c, d) = (c ^ a, d ^ b);
    (output, [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)])
}

/// The number in [0, 1) that 64 uniform bits stand for.
#[inline(always)]
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

impl KeyedRng {
    /// Generator for the key (seed, purpose, index).
    ///
    /// # Determinism
    /// For a fixed seed and purpose, different indices never share a state: the key is mixed by bijections of the index.
    #[must_use]
    pub fn new(seed: u64, purpose: &str, index: u64) -> KeyedRng {
        KeyedStreams::new(seed, purpose).stream(index)
    }

    /// Generator for a key that the caller made with [`mix`].
    #[must_use]
    #[inline]
    pub fn from_key(key: u64) -> KeyedRng {
        KeyedRng {
            state: [0, 1, 2, 3].map(|word| state_word(key, word)),
            spare_normal: None,
        }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let (output, state) = next(self.state);
        self.state = state;
        output
    }

    /// Uniform on [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn uniform_f64(&mut self) -> f64 {
        uniform(self.next_u64())
    }

    /// Uniform on [0, 1), a multiple of 2^-24.
    #[inline]
    pub fn uniform_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// True with probability `p` (never for `p <= 0`, always for `p >= 1`).
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform_f64() < p
    }

    /// Uniform on `0..n`, without bias.
    ///
    /// # Panics
    /// When `n` is 0.
    ///
    /// # Source
    /// Lemire, "Fast random integer generation in an interval" (multiply, then reject the short tail).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no value to return");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let tail = n.wrapping_neg() % n;
            while (product as u64) < tail {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform on `0..n` for node ids; as [`KeyedRng::below`].
    ///
    /// # Panics
    /// When `n` is 0.
    #[inline]
    pub fn below_u32(&mut self, n: u32) -> u32 {
        self.below(u64::from(n)) as u32
    }

    /// Index below `n`, by one multiplication: no rejection, and a bias of at most n / 2^64.
    ///
    /// Returns 0 when `n` is 0.
    #[inline]
    pub fn index(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal.
    ///
    /// # Source
    /// Marsaglia and Bray, "A convenient method for generating normal variables" (the polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(bits) = self.spare_normal.take() {
            return f64::from_bits(bits);
        }
        loop {
            let x = 2.0 * self.uniform_f64() - 1.0;
            let y = 2.0 * self.uniform_f64() - 1.0;
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                let scale = (-2.0 * ln(s) / s).sqrt();
                self.spare_normal = Some((y * scale).to_bits());
                return x * scale;
            }
        }
    }

    /// Exponential of mean 1: a number from 0 on, at most 53 ln 2.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.uniform_f64())
    }

    /// Number of failures before the first success of trials that succeed with probability `p` in (0, 1).
    ///
    /// `inverse_ln_q` is [`KeyedRng::inverse_ln_q`] of `p`. Saturates at `u64::MAX`.
    pub fn geometric(&mut self, inverse_ln_q: f64) -> u64 {
        // 1 - U lies in (0, 1], so its logarithm is finite; the conversion saturates.
        (ln(1.0 - self.uniform_f64()) * inverse_ln_q) as u64
    }

    /// The factor 1 / ln(1 - p) of [`KeyedRng::geometric`], computed once for many draws.
    #[must_use]
    pub fn inverse_ln_q(p: f64) -> f64 {
        1.0 / ln_1m(p)
    }

    /// Puts `items` in a uniformly random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// `k` distinct numbers of `0..n`, each set equally likely, in no particular order.
    ///
    /// # Panics
    /// When `k > n`.
    ///
    /// # Complexity
    /// O(k log k) time and O(k) memory, whatever `n`.
    ///
    /// # Source
    /// Floyd's method, in Bentley and Floyd, "Programming pearls: a sample of brilliance".
    pub fn sample_without_replacement(&mut self, n: u64, k: usize) -> Vec<u64> {
        assert!(k as u64 <= n, "cannot draw {k} distinct numbers of 0..{n}");
        let mut taken = std::collections::BTreeSet::new();
        let mut sample = Vec::with_capacity(k);
        for j in n - k as u64..n {
            let pick = self.below(j + 1);
            let pick = if taken.contains(&pick) { j } else { pick };
            taken.insert(pick);
            sample.push(pick);
        }
        sample
    }
}

/// Natural logarithm of a positive normal number, to about one unit in the last place.
///
/// The platform's `ln` may differ in its last bit between machines, and with it a generated graph; this one uses only
/// operations that IEEE 754 defines exactly. ln x = e ln 2 + 2 artanh((m-1)/(m+1)) with m in [1/sqrt 2, sqrt 2).
#[must_use]
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // Adding 1 - 1/sqrt 2 of a binade moves the cut of the exponent from 1 to sqrt 2 (sqrt 2 = 0x3ff6a09e667f3bcd).
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (shifted as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((exponent << 52) as u64));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * artanh((m - 1.0) / (m + 1.0))
}

/// ln(1 - p) for p in (0, 1), accurate for small p as well: -2 artanh(p / (2 - p)).
fn ln_1m(p: f64) -> f64 {
    if p < 0.25 {
        -2.0 * artanh(p / (2.0 - p))
    } else {
        ln(1.0 - p)
    }
}

/// The Taylor series of artanh up to s^23, enough for |s| <= 0.1716.
fn artanh(s: f64) -> f64 {
    let z = s * s;
    let mut sum = 0.0;
    for k in (0..12).rev() {
        sum = sum * z + 1.0 / f64::from(2 * k + 1);
    }
    s * sum
}

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
