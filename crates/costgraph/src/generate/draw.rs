//! The distributions that the generators need beyond the stream's own.

use shardgraph_random::KeyedRng;

/// Standard normal; the logarithm is libm's, so that every machine draws the same numbers.
///
/// # Source
/// Box and Muller's transform in Marsaglia's polar form; the second number of a pair is not kept.
pub(super) fn normal(stream: &mut KeyedRng) -> f64 {
    loop {
        let x = 2.0 * stream.uniform_f64() - 1.0;
        let y = 2.0 * stream.uniform_f64() - 1.0;
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            return x * (-2.0 * libm::log(s) / s).sqrt();
        }
    }
}

/// A uniformly random order (Fisher and Yates).
pub(super) fn shuffle(items: &mut [u32], stream: &mut KeyedRng) {
    for i in (1..items.len()).rev() {
        items.swap(i, stream.index(i + 1));
    }
}
