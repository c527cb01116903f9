//! References: every rank's data as a function of (rank, index), every result as a plain loop over
//! them, and the exact sum in `i128`.

use shardgraph_collectives::{Reduction, Slice, SliceMut};
use std::fmt::Debug;

/// An element type that small integers fit in; six of them add up within a `u8`.
pub(crate) trait Value: Copy + PartialEq + PartialOrd + Debug + Send + 'static {
    fn of(integer: u8) -> Self;
    fn add(self, other: Self) -> Self;
    fn send(data: &[Self]) -> Slice<'_>;
    fn recv(data: &mut [Self]) -> SliceMut<'_>;
}

macro_rules! values {
    ($($element:ty),*) => {$(
        impl Value for $element {
            fn of(integer: u8) -> $element { <$element>::from(integer) }
            fn add(self, other: $element) -> $element { self + other }
            fn send(data: &[$element]) -> Slice<'_> { data.into() }
            fn recv(data: &mut [$element]) -> SliceMut<'_> { data.into() }
        }
    )*};
}
values!(f32, u32, u64, i64, u8);

/// Element `i` of what `rank` sends.
pub(crate) fn value<T: Value>(rank: usize, i: usize) -> T {
    T::of(((rank * 17 + i * 5 + rank * i) % 37) as u8)
}

pub(crate) fn data<T: Value>(rank: usize, len: usize) -> Vec<T> {
    (0..len).map(|i| value(rank, i)).collect()
}

/// Element `i` of the reduction over all ranks.
pub(crate) fn reduced<T: Value>(n_ranks: usize, i: usize, reduction: Reduction) -> T {
    let elements = (0..n_ranks).map(|rank| value::<T>(rank, i));
    let both = |a: T, b: T| match reduction {
        Reduction::Sum => a.add(b),
        Reduction::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        Reduction::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
    };
    elements.reduce(both).expect("a world has a rank")
}

/// The exponent of the power of two at or below |x|; -126 for what is smaller.
fn exponent(x: f32) -> i32 {
    let field = (x.to_bits() >> 23 & 255) as i32;
    field.max(1) - 127
}

/// x = mantissa * 2^power with integers, sign included.
fn parts(x: f32) -> (i128, i32) {
    let fraction = i128::from(x.to_bits() & 0x7f_ffff);
    let hidden = if x.to_bits() >> 23 & 255 == 0 {
        0
    } else {
        1 << 23
    };
    let sign = if x.is_sign_negative() { -1 } else { 1 };
    (sign * (fraction + hidden), exponent(x) - 23)
}

/// n * 2^shift, to the nearest integer, ties to even.
fn shifted(n: i128, shift: i32) -> i128 {
    if shift >= 0 {
        return n << shift;
    }
    if shift < -100 {
        return 0;
    }
    let (whole, rest) = (n >> -shift, n & ((1 << -shift) - 1));
    let half = 1 << (-shift - 1);
    let up = rest > half || (rest == half && whole & 1 == 1);
    whole + i128::from(up)
}

/// n * 2^power as the nearest `f32`, ties to even.
fn to_f32(n: i128, power: i32) -> f32 {
    let n_bits = 128 - n.unsigned_abs().leading_zeros() as i32;
    let last = (n_bits + power - 24).max(-149);
    let mantissa = shifted(n.abs(), power - last);
    (n.signum() as f64 * mantissa as f64 * 2f64.powi(last)) as f32
}

/// The exact sum of one element's partials, as [`shardgraph_collectives::Comm::exact_sum`]
/// documents it.
pub(crate) fn exact_sum(partials: &[f32]) -> f32 {
    let has = |wanted: f32| partials.iter().any(|x| x.to_bits() == wanted.to_bits());
    let (up, down) = (has(f32::INFINITY), has(f32::NEG_INFINITY));
    if partials.iter().any(|x| x.is_nan()) || (up && down) {
        return f32::NAN;
    }
    if up || down {
        return if up { f32::INFINITY } else { f32::NEG_INFINITY };
    }
    let largest = partials.iter().map(|&x| exponent(x)).max().unwrap_or(-126);
    let fixed = |&x: &f32| {
        let (mantissa, power) = parts(x);
        shifted(mantissa, power + 46 - largest)
    };
    to_f32(partials.iter().map(fixed).sum(), largest - 46)
}

#[test]
fn the_reference_rounds_as_ieee_does() {
    for (n, power, wanted) in [
        (1i128, 0, 1.0f32),
        (-3, -1, -1.5),
        (16_777_217, 0, 16_777_216.0),
        (16_777_219, 0, 16_777_220.0),
        (1, -149, f32::from_bits(1)),
        (1, 128, f32::INFINITY),
        (3, -150, f32::from_bits(2)),
        (0, 5, 0.0),
    ] {
        assert_eq!(
            to_f32(n, power).to_bits(),
            wanted.to_bits(),
            "{n} * 2^{power}"
        );
    }
    assert_eq!(shifted(-5, -1), -2);
    assert_eq!(shifted(-7, -1), -4);
}
