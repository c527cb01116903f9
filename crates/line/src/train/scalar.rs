//! Numbers of a table: f32, or fp16 as its bits.

use crate::kernels::sgns::{Element, narrow, widen};

/// A number of a table.
pub(super) trait Scalar: Element {
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
    /// Finite, and not the largest, which stands for all beyond it where numbers saturate.
    fn is_sound(self) -> bool;
}

impl Scalar for f32 {
    fn from_f32(value: f32) -> f32 {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn is_sound(self) -> bool {
        self.is_finite()
    }
}

impl Scalar for u16 {
    fn from_f32(value: f32) -> u16 {
        narrow(value)
    }

    fn to_f32(self) -> f32 {
        widen(self)
    }

    fn is_sound(self) -> bool {
        const LARGEST: u16 = 0x7bff; // 65504, to which updates saturate
        self & 0x7fff < LARGEST
    }
}
