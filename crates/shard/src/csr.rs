//! A block of an adjacency matrix as lists: row pointers, column ids and, when edges have weights, values.

use std::ops::Range;

use shardgraph_graph::Graph;

use crate::bytes::{Reader, put_f32s, put_range, put_u32s, put_u64s};
use crate::error::Error;

const MAGIC: [u8; 8] = *b"SGCSR\0\0\x01";
const FORM: &str = "CSR shard";

/// The rows `rows` of an adjacency matrix, restricted to the columns `columns_range`.
///
/// Ids are global in both directions. Entries of a row are sorted by column, each once.
///
/// # Shapes
/// `row_ptr` has one offset per row and one more; `cols` and `values` one element per entry.
///
/// # Complexity
/// 4 B per entry + 8 B per row + 8 B, and 4 B more per entry when edges have weights ([`CsrShard::bytes`]).
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_shard::CsrShard;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// let shard = CsrShard::by_rows(&path, 1..3);
/// assert_eq!(shard.row(1), &[0, 2]);
/// let entries: Vec<_> = shard.coo().collect();
/// assert_eq!(entries, [(1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)]);
/// let again = CsrShard::from_bytes(&shard.to_bytes())?;
/// assert_eq!(again, shard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CsrShard {
    rows: Range<u32>,
    columns_range: Range<u32>,
    row_ptr: Vec<u64>,
    cols: Vec<u32>,
    values: Option<Vec<f32>>,
}

impl CsrShard {
    /// The rows `rows` with all columns: what a sparse product on the owner of `rows` reads.
    ///
    /// # Panics
    /// When `rows` reaches beyond the graph.
    pub fn by_rows(graph: &Graph, rows: Range<u32>) -> CsrShard {
        let offsets = match graph.offsets() {
            [] => &[0],
            offsets => &offsets[rows.start as usize..=rows.end as usize],
        };
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let entries = first as usize..last as usize;
        CsrShard {
            columns_range: 0..graph.n_nodes(),
            row_ptr: offsets.iter().map(|offset| offset - first).collect(),
            cols: graph.columns()[entries.clone()].to_vec(),
            values: graph.weights().map(|weights| weights[entries].to_vec()),
            rows,
        }
    }

    /// All rows with the columns `columns` alone: for each node its neighbours in `columns`, what the owner of `columns`
    /// needs to follow a removal. Transposed it equals [`CsrShard::by_rows`] of the same range.
    ///
    /// # Panics
    /// When `columns` reaches beyond the graph.
    pub fn by_columns(graph: &Graph, columns: Range<u32>) -> CsrShard {
        assert!(
            columns.start <= columns.end && columns.end <= graph.n_nodes(),
            "columns {columns:?} of a graph of {} nodes",
            graph.n_nodes()
        );
        let mut shard = CsrShard {
            rows: 0..graph.n_nodes(),
            columns_range: columns.clone(),
            row_ptr: Vec::with_capacity(graph.n_nodes() as usize + 1),
            cols: Vec::new(),
            values: graph.weights().map(|_| Vec::new()),
        };
        shard.row_ptr.push(0);
        for u in 0..graph.n_nodes() {
            let neighbors = graph.neighbors(u);
            let from = neighbors.partition_point(|&v| v < columns.start);
            let to = neighbors.partition_point(|&v| v < columns.end);
            shard.cols.extend_from_slice(&neighbors[from..to]);
            if let (Some(values), Some(weights)) = (&mut shard.values, graph.weights_of(u)) {
                values.extend_from_slice(&weights[from..to]);
            }
            shard.row_ptr.push(shard.cols.len() as u64);
        }
        shard.cols.shrink_to_fit();
        shard
    }

    /// Builds a shard from (row, column, value) triples in any order; `weighted` says whether the values are kept.
    ///
    /// # Errors
    /// An entry outside the ranges, an entry given twice, a self-loop, or a value that is not finite.
    ///
    /// # Complexity
    /// O(e log e) time and a sorted copy of the entries.
    pub fn from_coo(
        rows: Range<u32>,
        columns_range: Range<u32>,
        entries: &[(u32, u32, f32)],
        weighted: bool,
    ) -> Result<CsrShard, Error> {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable_by_key(|&(row, column, _)| (row, column));
        check_entries(&rows, &columns_range, &sorted)?;
        let mut row_ptr = vec![0; rows.len() + 1];
        for &(row, _, _) in &sorted {
            row_ptr[(row - rows.start) as usize + 1] += 1;
        }
        for row in 0..rows.len() {
            row_ptr[row + 1] += row_ptr[row];
        }
        Ok(CsrShard {
            rows,
            columns_range,
            row_ptr,
            cols: sorted.iter().map(|&(_, column, _)| column).collect(),
            values: weighted.then(|| sorted.iter().map(|&(_, _, value)| value).collect()),
        })
    }

    /// The rows that this shard holds.
    pub fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// The columns that this shard can hold entries in.
    pub fn columns_range(&self) -> Range<u32> {
        self.columns_range.clone()
    }

    /// Where each local row starts in [`CsrShard::cols`]: rows + 1 offsets from 0.
    pub fn row_ptr(&self) -> &[u64] {
        &self.row_ptr
    }

    /// The global column id of each entry, row after row.
    pub fn cols(&self) -> &[u32] {
        &self.cols
    }

    /// The value of each entry, parallel to [`CsrShard::cols`]; `None` when every value is 1.
    pub fn values(&self) -> Option<&[f32]> {
        self.values.as_deref()
    }

    /// The column ids of row `u`, ascending; `u` is the global id.
    ///
    /// # Panics
    /// When `u` is not in [`CsrShard::rows`].
    pub fn row(&self, u: u32) -> &[u32] {
        &self.cols[self.entries_of(u)]
    }

    /// The values of row `u` (a global id), parallel to [`CsrShard::row`]; `None` when every value is 1.
    ///
    /// # Panics
    /// When `u` is not in [`CsrShard::rows`].
    pub fn row_values(&self, u: u32) -> Option<&[f32]> {
        let entries = self.entries_of(u);
        self.values.as_ref().map(|values| &values[entries])
    }

    fn entries_of(&self, u: u32) -> Range<usize> {
        assert!(
            self.rows.contains(&u),
            "row {u} of a shard of rows {:?}",
            self.rows
        );
        let local = (u - self.rows.start) as usize;
        self.row_ptr[local] as usize..self.row_ptr[local + 1] as usize
    }

    /// The number of stored entries (directed edges).
    pub fn n_entries(&self) -> u64 {
        self.cols.len() as u64
    }

    /// The bytes of the arrays: 8 per row + 8, 4 per entry, and 4 more per entry with values.
    pub fn bytes(&self) -> u64 {
        let per_entry = if self.values.is_some() { 8 } else { 4 };
        8 * self.row_ptr.len() as u64 + per_entry * self.n_entries()
    }

    /// The entries as (row, column, value), by row, then column; global ids; value 1 when the shard has none.
    pub fn coo(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        self.rows.clone().flat_map(move |row| {
            self.entries_of(row).map(move |entry| {
                let value = self.values.as_ref().map_or(1.0, |values| values[entry]);
                (row, self.cols[entry], value)
            })
        })
    }

    /// The shard as bytes: a versioned header, then the arrays, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() as usize + 36);
        out.extend_from_slice(&MAGIC);
        put_range(&mut out, &self.rows);
        put_range(&mut out, &self.columns_range);
        put_u32s(&mut out, &[u32::from(self.values.is_some())]);
        put_u64s(&mut out, &[self.n_entries()]);
        put_u64s(&mut out, &self.row_ptr);
        put_u32s(&mut out, &self.cols);
        put_f32s(&mut out, self.values.as_deref().unwrap_or_default());
        out
    }

    /// Reads what [`CsrShard::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the header, a length or any rule of [`CsrShard`] (sorted rows, columns in range, no self-loop, finite values)
    /// is broken. Memory is taken only for arrays whose bytes are there.
    pub fn from_bytes(bytes: &[u8]) -> Result<CsrShard, Error> {
        let mut reader = Reader::new(bytes, FORM);
        reader.magic(&MAGIC)?;
        let rows = reader.range()?;
        let columns_range = reader.range()?;
        let weighted = match reader.u32()? {
            0 => false,
            1 => true,
            _ => return Err(reader.error("the weight flag is neither 0 nor 1")),
        };
        let n_entries = reader.u64()?;
        let row_ptr = reader.u64s(rows.len() as u64 + 1)?;
        let cols = reader.u32s(n_entries)?;
        let values = weighted.then(|| reader.f32s(n_entries)).transpose()?;
        reader.end()?;
        let shard = CsrShard {
            rows,
            columns_range,
            row_ptr,
            cols,
            values,
        };
        shard.check_row_ptr()?;
        shard.check_rows()?;
        Ok(shard)
    }

    fn check_row_ptr(&self) -> Result<(), Error> {
        let ends = (self.row_ptr[0], self.row_ptr[self.row_ptr.len() - 1]);
        if ends != (0, self.n_entries()) || !self.row_ptr.is_sorted() {
            return Err(Error::malformed(
                FORM,
                "the row pointers do not rise from 0 to the number of entries",
            ));
        }
        Ok(())
    }

    fn check_rows(&self) -> Result<(), Error> {
        for u in self.rows.clone() {
            let row = self.row(u);
            if !row.is_sorted_by(|a, b| a < b) {
                return Err(Error::malformed(FORM, "a row's columns do not ascend"));
            }
            if !row.iter().all(|v| self.columns_range.contains(v)) {
                return Err(Error::malformed(FORM, "a column lies outside its range"));
            }
            if row.binary_search(&u).is_ok() {
                return Err(Error::malformed(FORM, "a node is its own neighbour"));
            }
        }
        if self.values.iter().flatten().any(|value| !value.is_finite()) {
            return Err(Error::malformed(FORM, "a value is not finite"));
        }
        Ok(())
    }
}

fn check_entries(
    rows: &Range<u32>,
    columns: &Range<u32>,
    sorted: &[(u32, u32, f32)],
) -> Result<(), Error> {
    for &(row, column, value) in sorted {
        let reason = if !rows.contains(&row) {
            "lies outside the shard's rows"
        } else if !columns.contains(&column) {
            "lies outside the shard's columns"
        } else if row == column {
            "joins a node to itself"
        } else if !value.is_finite() {
            "has a value that is not finite"
        } else {
            continue;
        };
        return Err(Error::entry(row, column, reason));
    }
    let twin = sorted
        .windows(2)
        .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
    match twin {
        Some(pair) => Err(Error::entry(pair[0].0, pair[0].1, "is given twice")),
        None => Ok(()),
    }
}
