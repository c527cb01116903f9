//! The sums of messages: floats in the order of the pass, or integers of a common scale, whose sum
//! has no order.

use super::plan::Send;
use super::values::add_scaled;

/// Adds messages to rows of an output.
pub(crate) trait Sums {
    /// Adds `send.weight` times `message`, which has W numbers unless W is 0, to the row
    /// `send.target`.
    fn add<const W: usize>(&mut self, send: Send, message: &[f32]);
}

/// Sums of f32.
pub(crate) struct FloatSums<'a>(pub(crate) &'a mut [f32]);

impl Sums for FloatSums<'_> {
    #[inline(always)]
    fn add<const W: usize>(&mut self, send: Send, message: &[f32]) {
        let row = &mut self.0[send.target as usize * message.len()..][..message.len()];
        add_scaled::<W>(row, send.weight, message);
    }
}

/// Sums of integers: each message is rounded once to a multiple of 1 / `scale`.
pub(crate) struct ExactSums<'a> {
    pub(crate) sums: &'a mut [i64],
    pub(crate) scale: f64,
}

/// Adding 1.5 * 2^52 to a double below 2^51 leaves its nearest integer in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

impl Sums for ExactSums<'_> {
    #[inline(always)]
    fn add<const W: usize>(&mut self, send: Send, message: &[f32]) {
        let factor = f64::from(send.weight) * self.scale;
        let row = &mut self.sums[send.target as usize * message.len()..][..message.len()];
        for (sum, &value) in row.iter_mut().zip(message) {
            let rounded = f64::from(value) * factor + ROUNDER;
            let fixed = (rounded.to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64);
            *sum = sum.wrapping_add(fixed);
        }
    }
}

/// The scale for messages of at most `bound`, when a node hears at most `n_relations` relations: a
/// power of two.
///
/// The weights of a relation's messages to a node add up to 1 at most, so a sum is at most
/// `n_relations` times the bound. With both below 2^62 and a message below 2^51 neither step
/// overflows. None where the bound is not a finite number.
pub(crate) fn scale_for(bound: f32, n_relations: usize) -> Option<f64> {
    if !bound.is_finite() {
        return None;
    }
    let relation_bits = n_relations.next_power_of_two().trailing_zeros() as i32;
    let n_bits = (61 - relation_bits).min(50);
    let exponent = ((bound.to_bits() >> 23) as i32).max(1) - 126; // bound < 2^exponent
    Some(f64::from_bits(((1023 + n_bits - exponent) as u64) << 52))
}

/// The floats of sums at a scale.
pub(crate) fn to_floats(sums: &[i64], scale: f64, out: &mut [f32]) {
    let unit = 1.0 / scale; // a power of two: exact
    for (out, &sum) in out.iter_mut().zip(sums) {
        *out = (sum as f64 * unit) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sums_have_no_order_and_are_close() {
        let values: Vec<f32> = (0..100)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0)
            .collect();
        let scale = scale_for(8.0, 100).unwrap();
        let sum_of = |order: &mut dyn Iterator<Item = &f32>| {
            let mut sums = [0i64; 1];
            let mut exact = ExactSums {
                sums: &mut sums,
                scale,
            };
            for &value in order {
                exact.add::<0>(
                    Send {
                        target: 0,
                        weight: 1.0 / 3.0,
                    },
                    &[value],
                );
            }
            sums[0]
        };
        let forward = sum_of(&mut values.iter());
        assert_eq!(forward, sum_of(&mut values.iter().rev()));
        let mut out = [0.0];
        to_floats(&[forward], scale, &mut out);
        let expected: f64 = values
            .iter()
            .map(|&v| f64::from(v) * f64::from(1.0f32 / 3.0))
            .sum();
        assert!(
            (f64::from(out[0]) - expected).abs() < 1e-6,
            "{} {expected}",
            out[0]
        );
    }

    #[test]
    fn scales_leave_room() {
        for (bound, n_relations) in [(1.0, 1), (f32::MAX, 4096), (1e-38, 7), (0.0, 1), (1e-44, 2)] {
            let scale = scale_for(bound, n_relations).unwrap();
            assert!(f64::from(bound) * scale < 2f64.powi(51), "{bound}");
            assert!(f64::from(bound) * scale * (n_relations as f64) < 2f64.powi(62));
            assert!(scale.is_normal());
        }
        assert!(scale_for(f32::NAN, 1).is_none() && scale_for(f32::INFINITY, 1).is_none());
    }
}
