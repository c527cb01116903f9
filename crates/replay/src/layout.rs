//! The layout of a memory's rows: named columns, each a fixed number of elements of one kind.

use std::fmt;

use shardgraph_environments::space::{ElementKind, Space};

use crate::error::Error;

/// One column of a [`ColumnLayout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, which errors use.
    pub name: String,
    /// The kind of its elements.
    pub kind: ElementKind,
    /// The number of elements in a row.
    pub width: usize,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.name, self.width, self.kind)
    }
}

/// The columns of a row, in order: what a memory keeps, what a block of rows is sent as, and what a
/// checkpoint holds.
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
    /// When there is no column, one is without elements or longer than 2^32 - 1, or two have one
    /// name.
    pub fn new(columns: &[(&str, ElementKind, usize)]) -> Result<ColumnLayout, Error> {
        let unusable = |given: String| {
            Error::mismatch(
                "ColumnLayout::new",
                "columns",
                "one or more, each of another name and of 1 to 2^32 - 1 elements",
                given,
            )
        };
        if columns.is_empty() {
            return Err(unusable("none".into()));
        }
        for (idx, &(name, _, width)) in columns.iter().enumerate() {
            let is_repeated = columns[..idx].iter().any(|&(other, ..)| other == name);
            if is_repeated || width == 0 || u32::try_from(width).is_err() {
                return Err(unusable(format!("{name} with {width} elements, at {idx}")));
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

    /// The layout of rows that hold a value of each space: a column for each leaf, called `name` or
    /// `name/path`.
    ///
    /// `Space::split` gives the cells of a value, in this order, and `Space::merge` the value of
    /// them.
    ///
    /// # Errors
    /// When a leaf has no fixed width, as those of graphs, two columns get one name, or there is no
    /// space.
    ///
    /// ```
    /// use shardgraph_environments::space::Space;
    /// use shardgraph_replay::{ColumnLayout, Rows};
    ///
    /// let observation = Space::dict(vec![("angle", Space::boxed(&[2], -1.0, 1.0)?), ("gear", Space::discrete(5)?)])?;
    /// let action = Space::discrete(3)?;
    /// let layout = ColumnLayout::of_spaces(&[("observation", &observation), ("action", &action)])?;
    /// assert_eq!(layout.to_string(), "observation/angle: 2 f32, observation/gear: 1 u32, action: 1 u32");
    ///
    /// let (seen, taken) = (observation.zeros(), action.zeros());
    /// let mut rows = Rows::new(layout);
    /// rows.push(&[observation.split(&seen)?, action.split(&taken)?].concat())?;
    /// assert_eq!(observation.merge(&[rows.cell(0, 0), rows.cell(1, 0)])?, seen);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_spaces(spaces: &[(&str, &Space)]) -> Result<ColumnLayout, Error> {
        let mut columns = Vec::new();
        for (name, space) in spaces {
            for leaf in space.leaves() {
                let name = match leaf.path.as_str() {
                    "" => (*name).to_owned(),
                    path => format!("{name}/{path}"),
                };
                let width = leaf.width.ok_or_else(|| varying(&name))?;
                columns.push((name, leaf.kind, width));
            }
        }
        let columns = columns.iter();
        let columns: Vec<_> = columns
            .map(|(name, kind, width)| (name.as_str(), *kind, *width))
            .collect();
        ColumnLayout::new(&columns)
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

fn varying(leaf: &str) -> Error {
    Error::mismatch(
        "ColumnLayout::of_spaces",
        format!("leaf {leaf}"),
        "a fixed width; episodes on graphs go into an EpisodeMemory",
        "a width that varies with the graph",
    )
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
