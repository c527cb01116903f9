//! What tables are made of, as this crate needs it: f32, or fp16 as its bits.

use shardgraph_device::sgns::{Element, narrow, widen};

/// A number of a table.
pub(crate) trait Cell: Element {
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
    /// Whether it can be a result: finite, and not the largest, which stands for all beyond it where numbers saturate.
    fn is_sound(self) -> bool;
}

impl Cell for f32 {
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

impl Cell for u16 {
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
