//! The elements of values, of three kinds, and borrowed lists of them.

use std::fmt;

/// The kind of the elements of a leaf or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// 32-bit floats; infinities and not-a-numbers are refused.
    F32,
    /// 32-bit numbers: actions, node ids.
    U32,
    /// Bytes: flags, pixels.
    U8,
}

impl ElementKind {
    /// The bytes of one element.
    pub fn n_bytes(self) -> usize {
        match self {
            ElementKind::F32 | ElementKind::U32 => 4,
            ElementKind::U8 => 1,
        }
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElementKind::F32 => "f32",
            ElementKind::U32 => "u32",
            ElementKind::U8 => "u8",
        })
    }
}

/// The elements of one leaf of a value, or of one row in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LeafRef<'a> {
    /// Of [`ElementKind::F32`].
    F32(&'a [f32]),
    /// Of [`ElementKind::U32`].
    U32(&'a [u32]),
    /// Of [`ElementKind::U8`].
    U8(&'a [u8]),
}

impl LeafRef<'_> {
    /// The kind of the elements.
    pub fn kind(&self) -> ElementKind {
        match self {
            LeafRef::F32(_) => ElementKind::F32,
            LeafRef::U32(_) => ElementKind::U32,
            LeafRef::U8(_) => ElementKind::U8,
        }
    }

    /// The number of elements.
    pub fn width(&self) -> usize {
        match self {
            LeafRef::F32(list) => list.len(),
            LeafRef::U32(list) => list.len(),
            LeafRef::U8(list) => list.len(),
        }
    }
}
