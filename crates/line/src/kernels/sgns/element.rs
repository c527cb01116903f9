//! What a table may be made of: f32, or fp16 as its bits.

use shardgraph_device::Scalar;

/// The element of an embedding table: `f32`, or `u16` that holds the bits of an IEEE half-precision number.
pub trait Element: Scalar + private::Element {}

impl Element for f32 {}
impl Element for u16 {}

pub(super) mod private {
    use super::{round_at_random, widen};

    /// Reading and adding; `random` decides how an fp16 number is rounded.
    pub trait Element: Copy {
        const NAME: &'static str;
        fn get(self) -> f32;
        fn plus(self, addend: f32, random: u32) -> Self;
    }

    impl Element for f32 {
        const NAME: &'static str = "f32";

        #[inline(always)]
        fn get(self) -> f32 {
            self
        }

        #[inline(always)]
        fn plus(self, addend: f32, _random: u32) -> f32 {
            self + addend
        }
    }

    impl Element for u16 {
        const NAME: &'static str = "f16";

        #[inline(always)]
        fn get(self) -> f32 {
            widen(self)
        }

        #[inline(always)]
        fn plus(self, addend: f32, random: u32) -> u16 {
            round_at_random(widen(self) + addend, random)
        }
    }
}

/// The value of a half-precision number, given as its bits; exact.
pub fn widen(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // The exponent's bias moves from 15 to 127 by a product, which also makes subnormal numbers normal.
    let value = f32::from_bits(magnitude) * 2f32.powi(112);
    let special = magnitude >= 0x0f80_0000; // infinity or NaN
    let wide = if special {
        magnitude | 0x7f80_0000
    } else {
        value.to_bits()
    };
    f32::from_bits(wide | (u32::from(bits & 0x8000) << 16))
}

/// The half-precision number nearest to a value, ties to even, as its bits; beyond the largest it is infinite.
pub fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    let half = if magnitude > 0x7f80_0000 {
        0x7fff
    } else if magnitude >= 0x477f_f000 {
        0x7c00 // 65520 and more round up to infinity
    } else if magnitude >= 0x3880_0000 {
        let rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
        ((rounded - 0x3800_0000) >> 13) as u16
    } else {
        // Below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the last bits, rounded by the addition itself.
        (f32::from_bits(magnitude) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000) as u16
    };
    sign | half
}

/// One of the two half-precision neighbours of a value, each with the probability that makes the mean the value (to
/// 2^-13 of their distance), as `float_to_half_stochastic` of `cuda/kernel.cuh`. Finite values beyond the largest give
/// the largest. Without branches, so that loops over it become vector code.
#[inline(always)]
pub(super) fn round_at_random(value: f32, random: u32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
    let coin = random & 0x1fff;
    let normal = (magnitude.wrapping_add(coin).wrapping_sub(0x3800_0000)) >> 13;
    // Steps of 2^-24 below 2^-14: at most 1024, so the sum cuts no bit of the coin.
    let steps = f32::from_bits(magnitude.min(0x3880_0000)) * 2f32.powi(24);
    let rounded_down = steps + coin as f32 * 2f32.powi(-13);
    // SAFETY: the steps are 0 to 1024, also for infinity and NaN, whose bits were cut; the coin is below 1.
    // (A checked conversion is one number at a time.)
    let subnormal = unsafe { rounded_down.to_int_unchecked::<i32>() } as u32;
    let half = if magnitude >= 0x3880_0000 {
        normal
    } else {
        subnormal
    };
    let half = if magnitude >= 0x477f_e000 {
        0x7bff
    } else {
        half
    };
    let half = if magnitude >= 0x7f80_0000 {
        0x7c00
    } else {
        half
    };
    let half = if magnitude > 0x7f80_0000 {
        0x7fff
    } else {
        half | sign
    };
    half as u16
}
