//! The logistic function, its loss, and what a sample weighs.

use super::super::DOT_CLAMP;

/// `rate * (label - sigmoid(dot))`.
#[inline(always)]
pub(in super::super) fn coefficient(dot: f32, positive: bool, rate: f32) -> f32 {
    let sign = if positive { 1.0 } else { -1.0 };
    sign * sigmoid_of_less(sign * dot, rate)
}

/// `rate * sigmoid(-x)`.
#[inline(always)]
pub(super) fn sigmoid_of_less(x: f32, rate: f32) -> f32 {
    rate / (1.0 + exp(x.clamp(-DOT_CLAMP, DOT_CLAMP)))
}

/// `e^x` for `x` within [`DOT_CLAMP`], to about 2^-23 of itself: without a call, which costs more than the sum itself.
///
/// With `k` the whole number nearest to `x / ln 2`, it is `2^k e^r`; `e^r` is its Taylor sum, whose rest is below
/// `0.35^7 / 7!`.
#[inline(always)]
pub(in super::super) fn exp(x: f32) -> f32 {
    /// Adding it leaves no bit behind the point.
    const TO_WHOLE: f32 = 12_582_912.0;
    /// The first bits of ln 2, so few that a product with `k` is exact, and the rest.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let shifted = x * std::f32::consts::LOG2_E + TO_WHOLE;
    let k = shifted - TO_WHOLE;
    let r = (x - k * LN_2.0) - k * LN_2.1;
    let tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0));
    let sum = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)));
    // `k` as a whole number stands in the last bits of `shifted`: no conversion, so that loops become vector code.
    let exponent = shifted.to_bits().wrapping_sub(TO_WHOLE.to_bits());
    f32::from_bits(exponent.wrapping_add(127) << 23) * sum
}

/// Loss of a sample, from its dot products: `-ln sigmoid(dot)` of the edge's own target, which is the first, and
/// `-ln sigmoid(-dot)` of each negative.
///
/// With `-ln sigmoid(x) = max(-x, 0) + ln(1 + e^-|x|)`, all logarithms are one of a product, which is at most 2 for each slot.
#[inline(always)]
pub(in super::super) fn loss_of_sample(dots: impl Iterator<Item = f32>) -> f32 {
    let (mut sum, mut product) = (0.0, 1.0);
    for (slot, dot) in dots.enumerate() {
        let x = (if slot == 0 { dot } else { -dot }).clamp(-DOT_CLAMP, DOT_CLAMP);
        sum += (-x).max(0.0);
        product *= 1.0 + f64::from(exp(-x.abs()));
    }
    sum + product.ln() as f32
}
