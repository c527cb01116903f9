//! Rows as a structure of arrays: one list per column. Batches and blocks of rows have this form,
//! and a memory's store too.

use shardgraph_environments::space::{ElementKind, LeafRef};

use crate::error::Error;
use crate::layout::{Column, ColumnLayout};

/// Rows of one layout, column by column.
///
/// ```
/// use shardgraph_replay::{LeafRef, ColumnLayout, ElementKind, Rows};
///
/// let layout = ColumnLayout::new(&[("observation", ElementKind::F32, 2), ("action", ElementKind::U32, 1)])?;
/// let mut rows = Rows::new(layout);
/// rows.push(&[LeafRef::F32(&[0.5, 1.0]), LeafRef::U32(&[3])])?;
/// rows.push(&[LeafRef::F32(&[0.0, 2.0]), LeafRef::U32(&[1])])?;
/// assert_eq!(rows.f32s(0), [0.5, 1.0, 0.0, 2.0]);
/// assert_eq!(rows.u32s(1), [3, 1]);
/// # Ok::<(), shardgraph_replay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    layout: ColumnLayout,
    n_rows: usize,
    columns: Vec<Elements>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elements {
    F32(Vec<f32>),
    U32(Vec<u32>),
    U8(Vec<u8>),
}

impl Rows {
    /// No rows of `layout` yet.
    pub fn new(layout: ColumnLayout) -> Rows {
        let empty = |column: &Column| match column.kind {
            ElementKind::F32 => Elements::F32(Vec::new()),
            ElementKind::U32 => Elements::U32(Vec::new()),
            ElementKind::U8 => Elements::U8(Vec::new()),
        };
        Rows {
            n_rows: 0,
            columns: layout.columns().iter().map(empty).collect(),
            layout,
        }
    }

    /// The layout of every row.
    pub fn layout(&self) -> &ColumnLayout {
        &self.layout
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.n_rows
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.n_rows == 0
    }

    /// Drops every row and keeps the memory.
    pub fn clear(&mut self) {
        self.n_rows = 0;
        for elements in &mut self.columns {
            match elements {
                Elements::F32(list) => list.clear(),
                Elements::U32(list) => list.clear(),
                Elements::U8(list) => list.clear(),
            }
        }
    }

    /// Adds a row, a cell for each column.
    ///
    /// # Errors
    /// When a cell is missing or too many, of another kind or width than its column, or not finite.
    /// The rows stay as they were.
    pub fn push(&mut self, cells: &[LeafRef<'_>]) -> Result<(), Error> {
        self.check("Rows::push", cells)?;
        self.write(self.n_rows, cells);
        Ok(())
    }

    /// The elements of column `column`, row after row.
    ///
    /// # Panics
    /// When there is no such column, or it has another kind.
    pub fn f32s(&self, column: usize) -> &[f32] {
        match &self.columns[column] {
            Elements::F32(list) => list,
            _ => self.other_kind(column, ElementKind::F32),
        }
    }

    /// As [`Rows::f32s`], of a column of 32-bit numbers.
    ///
    /// # Panics
    /// When there is no such column, or it has another kind.
    pub fn u32s(&self, column: usize) -> &[u32] {
        match &self.columns[column] {
            Elements::U32(list) => list,
            _ => self.other_kind(column, ElementKind::U32),
        }
    }

    /// As [`Rows::f32s`], of a column of bytes.
    ///
    /// # Panics
    /// When there is no such column, or it has another kind.
    pub fn u8s(&self, column: usize) -> &[u8] {
        match &self.columns[column] {
            Elements::U8(list) => list,
            _ => self.other_kind(column, ElementKind::U8),
        }
    }

    /// The elements of row `row` in column `column`.
    ///
    /// # Panics
    /// When there is no such column or row.
    pub fn cell(&self, column: usize, row: usize) -> LeafRef<'_> {
        let width = self.layout.columns()[column].width;
        let range = row * width..(row + 1) * width;
        match &self.columns[column] {
            Elements::F32(list) => LeafRef::F32(&list[range]),
            Elements::U32(list) => LeafRef::U32(&list[range]),
            Elements::U8(list) => LeafRef::U8(&list[range]),
        }
    }

    fn other_kind(&self, column: usize, asked: ElementKind) -> ! {
        let column = &self.layout.columns()[column];
        panic!("column {column} was asked for as {asked}");
    }

    pub(crate) fn columns(&self) -> &[Elements] {
        &self.columns
    }

    pub(crate) fn columns_mut(&mut self) -> &mut [Elements] {
        &mut self.columns
    }

    pub(crate) fn set_len(&mut self, n_rows: usize) {
        self.n_rows = n_rows;
    }

    /// Checks that `cells` are a row of this layout.
    pub(crate) fn check(&self, method: &'static str, cells: &[LeafRef<'_>]) -> Result<(), Error> {
        let columns = self.layout.columns();
        let fits = |(column, cell): (&Column, &LeafRef<'_>)| match cell {
            LeafRef::F32(list) => {
                column.kind == ElementKind::F32
                    && list.len() == column.width
                    && list.iter().all(|x| x.is_finite())
            }
            LeafRef::U32(list) => column.kind == ElementKind::U32 && list.len() == column.width,
            LeafRef::U8(list) => column.kind == ElementKind::U8 && list.len() == column.width,
        };
        if cells.len() == columns.len() && columns.iter().zip(cells).all(fits) {
            return Ok(());
        }
        Err(self.mismatch(method, cells))
    }

    /// The reason why `cells` are no row of this layout.
    #[cold]
    fn mismatch(&self, method: &'static str, cells: &[LeafRef<'_>]) -> Error {
        let columns = self.layout.columns();
        let mismatch = |what: String, expected: String, given: String| {
            Error::mismatch(method, what, expected, given)
        };
        for (column, cell) in columns.iter().zip(cells) {
            let (kind, width) = (cell.kind(), cell.width());
            if (kind, width) != (column.kind, column.width) {
                let expected = format!("{} {}", column.width, column.kind);
                let what = format!("column {}", column.name);
                return mismatch(what, expected, format!("{width} {kind}"));
            }
            if let LeafRef::F32(list) = cell
                && let Some(x) = list.iter().find(|x| !x.is_finite())
            {
                let what = format!("column {}", column.name);
                return mismatch(what, "finite numbers".into(), x.to_string());
            }
        }
        let expected = format!("{} cells ({})", columns.len(), self.layout);
        mismatch("the row".into(), expected, format!("{} cells", cells.len()))
    }

    /// Writes checked cells over row `row`, or behind the last.
    pub(crate) fn write(&mut self, row: usize, cells: &[LeafRef<'_>]) {
        for (elements, cell) in self.columns.iter_mut().zip(cells) {
            match (elements, cell) {
                (Elements::F32(list), LeafRef::F32(cell)) => write_row(list, row, cell),
                (Elements::U32(list), LeafRef::U32(cell)) => write_row(list, row, cell),
                (Elements::U8(list), LeafRef::U8(cell)) => write_row(list, row, cell),
                _ => unreachable!("the cells were checked"),
            }
        }
        self.n_rows = self.n_rows.max(row + 1);
    }

    /// Writes `n` rows of `from`, from its row `first` on, over row `row` and those behind it.
    pub(crate) fn write_rows(&mut self, row: usize, from: &Rows, first: usize, n: usize) {
        for (idx, column) in self.layout.columns().iter().enumerate() {
            let (at, range) = (
                row * column.width,
                column.width * first..column.width * (first + n),
            );
            match (&mut self.columns[idx], &from.columns[idx]) {
                (Elements::F32(list), Elements::F32(from)) => write_at(list, at, &from[range]),
                (Elements::U32(list), Elements::U32(from)) => write_at(list, at, &from[range]),
                (Elements::U8(list), Elements::U8(from)) => write_at(list, at, &from[range]),
                _ => unreachable!("the layouts were compared"),
            }
        }
        self.n_rows = self.n_rows.max(row + n);
    }

    /// Adds copies of rows of `from`: those at `slots`, in that order.
    pub(crate) fn gather(
        &mut self,
        from: &Rows,
        slots: impl ExactSizeIterator<Item = u32> + Clone,
    ) {
        self.n_rows += slots.len();
        for (idx, column) in self.layout.columns().iter().enumerate() {
            match (&mut self.columns[idx], &from.columns[idx]) {
                (Elements::F32(list), Elements::F32(from)) => {
                    pick(list, from, column.width, slots.clone())
                }
                (Elements::U32(list), Elements::U32(from)) => {
                    pick(list, from, column.width, slots.clone())
                }
                (Elements::U8(list), Elements::U8(from)) => {
                    pick(list, from, column.width, slots.clone())
                }
                _ => unreachable!("the layouts were compared"),
            }
        }
    }
}

/// Writes one row. Narrow rows are copied by element: a call of memcpy costs more than they do.
fn write_row<T: Copy>(list: &mut Vec<T>, row: usize, cell: &[T]) {
    let at = row * cell.len();
    if at == list.len() {
        list.extend_from_slice(cell);
        return;
    }
    let place = &mut list[at..at + cell.len()];
    if cell.len() <= 8 {
        place
            .iter_mut()
            .zip(cell)
            .for_each(|(to, &from)| *to = from);
    } else {
        place.copy_from_slice(cell);
    }
}

/// Writes over `list` from `at` on, and behind its end where it is shorter.
fn write_at<T: Copy>(list: &mut Vec<T>, at: usize, from: &[T]) {
    let n_over = (list.len() - at).min(from.len());
    list[at..at + n_over].copy_from_slice(&from[..n_over]);
    list.extend_from_slice(&from[n_over..]);
}

/// Widths that are known to the compiler are copied without a call.
fn pick<T: Copy>(list: &mut Vec<T>, from: &[T], width: usize, slots: impl Iterator<Item = u32>) {
    match width {
        1 => list.extend(slots.map(|slot| from[slot as usize])),
        2 => pick_fixed::<T, 2>(list, from, slots),
        4 => pick_fixed::<T, 4>(list, from, slots),
        8 => pick_fixed::<T, 8>(list, from, slots),
        _ => {
            for slot in slots {
                let at = slot as usize * width;
                list.extend_from_slice(&from[at..at + width]);
            }
        }
    }
}

fn pick_fixed<T: Copy, const WIDTH: usize>(
    list: &mut Vec<T>,
    from: &[T],
    slots: impl Iterator<Item = u32>,
) {
    let (rows, _) = from.as_chunks::<WIDTH>();
    for slot in slots {
        list.extend_from_slice(&rows[slot as usize]);
    }
}
