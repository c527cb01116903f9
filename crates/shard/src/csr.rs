//! A block of an adjacency matrix as lists: row pointers, column ids and, when edges have weights, values.

use std::ops::Range;

use shardgraph_graph::Graph;

use crate::error::Error;

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
/// let again = CsrShard::from_coo(shard.rows(), shard.columns_range(), &entries, false)?;
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

    /// Imports (row, column, value) triples in any order, as other programs keep matrices; `weighted` keeps the values.
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

    /// Start of each local row in [`CsrShard::cols`]: rows + 1 offsets from 0.
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

    /// Exports the entries as (row, column, value) triples, by row, then column; global ids; value 1 when the shard has none.
    pub fn coo(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        self.rows.clone().flat_map(move |row| {
            self.entries_of(row).map(move |entry| {
                let value = self.values.as_ref().map_or(1.0, |values| values[entry]);
                (row, self.cols[entry], value)
            })
        })
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
        return Err(Error::Entry {
            row,
            column,
            reason,
        });
    }
    let twin = sorted
        .windows(2)
        .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
    match twin {
        Some(pair) => Err(Error::Entry {
            row: pair[0].0,
            column: pair[0].1,
            reason: "is given twice",
        }),
        None => Ok(()),
    }
}
