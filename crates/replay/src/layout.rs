//! What a row of a memory is made of: named columns, each a fixed number of elements of one kind.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// The kind of a column's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// 32-bit floats; a memory refuses infinities and not-a-numbers.
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

/// One column of a [`ColumnLayout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it holds, as errors call it.
    pub name: String,
    /// The kind of its elements.
    pub kind: ElementKind,
    /// How many elements a row has.
    pub width: usize,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.name, self.width, self.kind)
    }
}

/// The columns of a row, in order. A space maps onto it leaf by leaf.
///
/// ```
/// use shardgraph_replay::{ColumnLayout, ElementKind};
///
/// let layout = ColumnLayout::new(&[
///     ("observation", ElementKind::F32, 4),
///     ("action", ElementKind::U32, 1),
///     ("terminated", ElementKind::U8, 1),
/// ])?;
/// assert_eq!(layout.row_bytes(), 21);
/// # Ok::<(), shardgraph_replay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnLayout {
    columns: Vec<Column>,
}

impl ColumnLayout {
    /// The layout of these columns: name, kind, elements a row.
    ///
    /// # Errors
    /// When there is no column, one is without elements or longer than 2^32 - 1, or two have one name.
    pub fn new(columns: &[(&str, ElementKind, usize)]) -> Result<ColumnLayout, Error> {
        let unusable = |given: String| ErrorKind::Mismatch {
            method: "ColumnLayout::new",
            what: "columns".into(),
            expected: "one or more, each of another name and of 1 to 2^32 - 1 elements".into(),
            given,
        };
        if columns.is_empty() {
            return Err(unusable("none".into()).into());
        }
        for (idx, &(name, _, width)) in columns.iter().enumerate() {
            let is_repeated = columns[..idx].iter().any(|&(other, ..)| other == name);
            if is_repeated || width == 0 || u32::try_from(width).is_err() {
                return Err(unusable(format!("{name} with {width} elements, at {idx}")).into());
            }
        }
        let column = |&(name, kind, width): &(&str, ElementKind, usize)| Column {
            name: name.to_owned(),
            kind,
            width,
        };
        Ok(ColumnLayout {
            columns: columns.iter().map(column).collect(),
        })
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The bytes of one row.
    pub fn row_bytes(&self) -> usize {
        let bytes = |column: &Column| column.kind.n_bytes() * column.width;
        self.columns.iter().map(bytes).sum()
    }
}

impl fmt::Display for ColumnLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, column) in self.columns.iter().enumerate() {
            let separator = if idx == 0 { "" } else { ", " };
            write!(f, "{separator}{column}")?;
        }
        Ok(())
    }
}
