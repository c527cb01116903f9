//! Exponential, logarithm, hyperbolic tangent and sigmoid of one `f32`, without branches or tables: a loop over any of them
//! is turned into vector code, and since every step is one IEEE operation, the bits are the same on every machine.

use std::f32::consts::{LOG2_E, SQRT_2};

/// Adding this to a number below 2^22 rounds it to an integer, which is then in the lowest bits.
const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23

/// ln 2 in two parts: the first has 9 trailing zeros, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `(n, e^r - 1)` with `x = n ln 2 + r` and `|r| <= ln 2 / 2`; for `|x| < 2^21`.
#[inline(always)]
fn reduced(x: f32) -> (i32, f32) {
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    // The series of e^r; what follows after r^7 is below 2^-27 of the sum.
    let series = 1.0 / 720.0 + r * (1.0 / 5040.0);
    let series = 1.0 / 24.0 + r * (1.0 / 120.0 + r * series);
    let series = 0.5 + r * (1.0 / 6.0 + r * series);
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    (n, r + r * r * series)
}

/// `2^n` for normal results.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Not `x < 0.0`: negative zero becomes zero, so that sums with other ranks' zeros keep its bits.
#[inline(always)]
pub(crate) fn relu_of(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// `x`, but at least `low` and at most `high`; NaN stays NaN, which `f32::min` and `max` would lose.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Past these bounds the result is 0 or infinite in any case.
    let (n, part) = reduced(clamp(x, -105.0, 90.0));
    // In two steps, since the power itself may be no normal number.
    let half = n >> 1;
    (1.0 + part) * power_of_two(half) * power_of_two(n - half)
}

#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    // tanh |x| = d / (d + 2) with d = e^(2 |x|) - 1; from |x| = 10 on that is 1.
    let (n, part) = reduced(clamp(2.0 * x.abs(), 0.0, 20.0));
    let power = power_of_two(n);
    let d = power * part + (power - 1.0);
    (d / (d + 2.0)).copysign(x)
}

#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let above = if x >= 0.0 { 1.0 } else { e };
    above / (1.0 + e)
}

#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    // Numbers below the normal ones are scaled into them first.
    let (scaled, shift) = if x < f32::MIN_POSITIVE {
        (x * power_of_two(25), -25.0)
    } else {
        (x, 0.0)
    };
    // scaled = m 2^k with m between sqrt(1/2) and sqrt(2).
    let bits = scaled.to_bits();
    let offset = bits.wrapping_sub((SQRT_2 * 0.5).to_bits());
    let k = (offset as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((k as u32) << 23));
    let k = k as f32 + shift;
    // log m = 2 artanh s with s = f / (2 + f), written so that the leading term f = m - 1 is exact.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let q = s * s;
    let series = 2.0 / 7.0 + q * (2.0 / 9.0 + q * (2.0 / 11.0));
    let series = q * (2.0 / 3.0 + q * (2.0 / 5.0 + q * series));
    let finite = k * LN2_HIGH + (f - s * (f - series) + k * LN2_LOW);
    let limit = if x == 0.0 {
        f32::NEG_INFINITY
    } else {
        x + f32::INFINITY
    };
    let is_inside = x > 0.0 && x < f32::INFINITY;
    let outside = if x < 0.0 { f32::NAN } else { limit };
    if is_inside { finite } else { outside }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unary;

    /// The distance of a result from the exact one, in units of the last place there.
    fn ulps(got: f32, want: f64) -> f64 {
        let rounded = want as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        if !got.is_finite() || !rounded.is_finite() {
            return f64::INFINITY;
        }
        let size = rounded.abs().max(f32::MIN_POSITIVE);
        let ulp = f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size);
        (f64::from(got) - want).abs() / ulp
    }

    /// Every 997th number of all 2^32, and the special ones.
    fn numbers() -> impl Iterator<Item = f32> {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let near = [
            88.722_84,
            88.722_83,
            -87.336_55,
            -103.972_08,
            -103.972_1,
            f32::MIN_POSITIVE,
        ];
        let all = (0..u32::MAX / 997).map(|i| f32::from_bits(i * 997));
        special.into_iter().chain(near).chain(all)
    }

    fn largest_error(f: fn(f32) -> f32, exact: fn(f64) -> f64) -> (f64, f32) {
        numbers().fold((0.0, 0.0), |largest, x| {
            let error = ulps(f(x), exact(f64::from(x)));
            if error > largest.0 {
                (error, x)
            } else {
                largest
            }
        })
    }

    #[test]
    fn functions_are_right_to_the_last_places() {
        type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
        let cases: [Case; 4] = [
            ("exp", exp, f64::exp),
            ("log", log, f64::ln),
            ("tanh", tanh, f64::tanh),
            ("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        ];
        for (name, f, exact) in cases {
            let (error, x) = largest_error(f, exact);
            println!("{name}: {error:.2} ulp at {x:e}");
            assert!(error <= Unary::MAX_ULPS, "{name}: {error} ulp at {x:e}");
        }
    }

    #[test]
    fn ends_and_signs_are_exact() {
        const INF: f32 = f32::INFINITY;
        type Case = (fn(f32) -> f32, f32, f32);
        let cases: [Case; 15] = [
            (exp, -INF, 0.0),
            (exp, 0.0, 1.0),
            (exp, INF, INF),
            (log, 0.0, -INF),
            (log, -0.0, -INF),
            (log, 1.0, 0.0),
            (log, INF, INF),
            (tanh, -40.0, -1.0),
            (tanh, INF, 1.0),
            (tanh, -0.0, -0.0),
            (tanh, 0.0, 0.0),
            (sigmoid, -INF, 0.0),
            (sigmoid, -0.0, 0.5),
            (sigmoid, 0.0, 0.5),
            (sigmoid, INF, 1.0),
        ];
        for (f, x, want) in cases {
            assert_eq!(f(x).to_bits(), want.to_bits(), "{x} {want}");
        }
        assert!(log(-1.0).is_nan() && log(-INF).is_nan());
        for f in [exp, log, tanh, sigmoid] {
            assert!(f(f32::NAN).is_nan());
        }
    }
}
