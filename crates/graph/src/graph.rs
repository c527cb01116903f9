//! [`Graph`]: an undirected simple graph as symmetric compressed sparse rows, and what can be asked of it.

use crate::{EdgeSink, Error, ErrorKind, GraphBuilder};

/// The largest number of nodes a graph can have: ids stay below `u32::MAX`, which is left free as a mark.
pub const MAX_NODES: u32 = u32::MAX - 1;

/// An undirected simple graph: symmetric CSR with u32 node ids and u64 offsets, rows ascending, optional f32 weights.
///
/// ```
/// use shardgraph_graph::Graph;
///
/// // A triangle with a tail; the repeated edge and the self-loop go.
/// let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 3)])?;
/// assert_eq!((graph.n_nodes(), graph.n_edges(), graph.n_entries()), (4, 4, 8));
/// assert_eq!(graph.neighbors(2), &[0, 1, 3]);
/// assert!(graph.has_edge(3, 2));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
///
/// # Units
/// Memory: 8 B per node, plus 8 B per edge (two entries of 4 B), plus 8 B per edge when weighted.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    offsets: Vec<u64>,
    columns: Vec<u32>,
    weights: Option<Vec<f32>>,
}

impl Graph {
    /// An unweighted graph of the listed edges; self-loops are dropped and duplicates (in either direction) merged.
    ///
    /// # Errors
    /// An id that is not below `n_nodes`, or more than [`MAX_NODES`] nodes.
    ///
    /// # Complexity
    /// O(n + m log d) time for largest degree d; O(m) when every row arrives ascending.
    pub fn from_edges(n_nodes: u32, edges: &[(u32, u32)]) -> Result<Graph, Error> {
        let mut builder = GraphBuilder::with_capacity(edges.len());
        for &(u, v) in edges.iter().filter(|(u, v)| u != v) {
            builder.edge(u, v, 1.0)?;
        }
        Ok(builder.finish(n_nodes, false)?.0)
    }

    /// A weighted graph of the listed edges; self-loops are dropped, and the first weight of a duplicate is kept.
    ///
    /// # Errors
    /// An id that is not below `n_nodes`, more than [`MAX_NODES`] nodes, or a weight that is not finite.
    pub fn from_weighted_edges(n_nodes: u32, edges: &[(u32, u32, f32)]) -> Result<Graph, Error> {
        let mut builder = GraphBuilder::with_capacity(edges.len());
        for &(u, v, weight) in edges.iter().filter(|(u, v, _)| u != v) {
            builder.edge(u, v, weight)?;
        }
        Ok(builder.finish(n_nodes, true)?.0)
    }

    /// Rows that are already sorted, simple and symmetric; only the builder and `complement` know that of theirs.
    pub(crate) fn from_sorted_rows(
        offsets: Vec<u64>,
        columns: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Graph {
        debug_assert_eq!(offsets.last().copied(), Some(columns.len() as u64));
        debug_assert!(weights.as_ref().is_none_or(|w| w.len() == columns.len()));
        Graph {
            offsets,
            columns,
            weights,
        }
    }

    /// Number of nodes; ids are `0..n_nodes`.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Number of undirected edges.
    #[must_use]
    pub fn n_edges(&self) -> u64 {
        self.n_entries() / 2
    }

    /// Number of stored entries: two for each edge.
    #[must_use]
    pub fn n_entries(&self) -> u64 {
        self.columns.len() as u64
    }

    /// Number of neighbours of `v`.
    ///
    /// # Panics
    /// When `v` is not a node.
    #[must_use]
    pub fn degree(&self, v: u32) -> u32 {
        self.row(v).len() as u32
    }

    /// Degrees of all nodes, by id.
    #[must_use]
    pub fn degrees(&self) -> Vec<u32> {
        (0..self.n_nodes()).map(|v| self.degree(v)).collect()
    }

    /// The neighbours of `v`, ascending.
    ///
    /// # Panics
    /// When `v` is not a node.
    #[must_use]
    pub fn neighbors(&self, v: u32) -> &[u32] {
        &self.columns[self.row(v)]
    }

    /// The weights of the edges to [`Graph::neighbors`], in the same order; `None` when the graph has none.
    ///
    /// # Panics
    /// When `v` is not a node.
    #[must_use]
    pub fn weights_of(&self, v: u32) -> Option<&[f32]> {
        let row = self.row(v);
        self.weights.as_ref().map(|weights| &weights[row])
    }

    /// The neighbours of `v`, ascending, each with the weight of its edge (1 in an unweighted graph).
    ///
    /// ```
    /// use shardgraph_graph::Graph;
    /// let graph = Graph::from_weighted_edges(3, &[(0, 1, 0.5), (2, 1, 2.0)])?;
    /// assert_eq!(graph.weighted_neighbors(1).collect::<Vec<_>>(), [(0, 0.5), (2, 2.0)]);
    /// # Ok::<(), shardgraph_graph::Error>(())
    /// ```
    ///
    /// # Panics
    /// When `v` is not a node.
    pub fn weighted_neighbors(&self, v: u32) -> impl ExactSizeIterator<Item = (u32, f32)> + '_ {
        self.row(v)
            .map(|entry| (self.columns[entry], self.weight_at(entry)))
    }

    /// Row pointers: row `v` is `columns[offsets[v]..offsets[v + 1]]`.
    ///
    /// # Shapes
    /// `n_nodes + 1`
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The neighbours of all nodes, row after row.
    ///
    /// # Shapes
    /// `n_entries`
    #[must_use]
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The weights, parallel to [`Graph::columns`]; both entries of an edge hold the same bits.
    #[must_use]
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// Edges present over edges possible, 0 for fewer than two nodes.
    #[must_use]
    pub fn density(&self) -> f64 {
        let n = f64::from(self.n_nodes());
        if n < 2.0 {
            return 0.0;
        }
        self.n_entries() as f64 / (n * (n - 1.0))
    }

    /// Largest degree, 0 for a graph without nodes.
    #[must_use]
    pub fn max_degree(&self) -> u32 {
        self.degrees().into_iter().max().unwrap_or(0)
    }

    /// True if `u` and `v` are neighbours.
    ///
    /// # Panics
    /// When `u` is not a node.
    ///
    /// # Complexity
    /// O(log degree(u))
    #[must_use]
    pub fn has_edge(&self, u: u32, v: u32) -> bool {
        self.neighbors(u).binary_search(&v).is_ok()
    }

    /// Every edge once, as `(u, v)` with `u < v`, ascending.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.n_nodes()).flat_map(move |u| {
            let row = self.neighbors(u);
            let above = row.partition_point(|&v| v <= u);
            row[above..].iter().map(move |&v| (u, v))
        })
    }

    /// Every edge once with its weight (1 in an unweighted graph), as `(u, v, weight)` with `u < v`, ascending.
    pub fn weighted_edges(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        (0..self.n_nodes()).flat_map(move |u| {
            let row = self.row(u);
            let above = row.start + self.columns[row.clone()].partition_point(|&v| v <= u);
            (above..row.end).map(move |i| (u, self.columns[i], self.weight_at(i)))
        })
    }

    /// Some edge with neither end in the cover, the smallest first end and then the smallest second; `None` for a cover.
    ///
    /// ```
    /// use shardgraph_graph::Graph;
    /// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
    /// assert_eq!(path.uncovered_edge(&[false, true, false]), None);
    /// assert_eq!(path.uncovered_edge(&[true, false, false]), Some((1, 2)));
    /// # Ok::<(), shardgraph_graph::Error>(())
    /// ```
    ///
    /// # Panics
    /// When `in_cover` does not have one element per node.
    ///
    /// # Complexity
    /// O(n + m)
    #[must_use]
    pub fn uncovered_edge(&self, in_cover: &[bool]) -> Option<(u32, u32)> {
        assert_eq!(in_cover.len(), self.n_nodes() as usize, "one flag per node");
        let is_outside = |&v: &u32| !in_cover[v as usize];
        (0..self.n_nodes()).filter(is_outside).find_map(|u| {
            let v = self.neighbors(u).iter().copied().find(is_outside)?;
            Some((u, v))
        })
    }

    /// Size of a maximal matching, a lower bound on every vertex cover, which has an end of each of its edges.
    ///
    /// # Determinism
    /// Each node in turn takes its first free neighbour.
    ///
    /// # Complexity
    /// O(n + m)
    #[must_use]
    pub fn maximal_matching(&self) -> u64 {
        let mut is_free = vec![true; self.n_nodes() as usize];
        let mut size = 0;
        for u in 0..self.n_nodes() {
            if !is_free[u as usize] {
                continue;
            }
            let partner = self.neighbors(u).iter().find(|&&v| is_free[v as usize]);
            if let Some(&v) = partner {
                is_free[u as usize] = false;
                is_free[v as usize] = false;
                size += 1;
            }
        }
        size
    }

    /// The unweighted graph with exactly the edges that this one lacks.
    ///
    /// # Errors
    /// When its entries do not fit this machine's address space.
    ///
    /// # Complexity
    /// O(n²) time and 4 B for each entry of the answer.
    pub fn complement(&self) -> Result<Graph, Error> {
        let n = u64::from(self.n_nodes());
        let n_entries = (n * n.saturating_sub(1)) - self.n_entries();
        let mut columns = Vec::new();
        usize::try_from(n_entries)
            .ok()
            .and_then(|len| columns.try_reserve_exact(len).ok())
            .ok_or_else(|| complement_too_large(n_entries))?;
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        for v in 0..self.n_nodes() {
            push_gaps(v, self.n_nodes(), self.neighbors(v), &mut columns);
            offsets.push(columns.len() as u64);
        }
        Ok(Graph::from_sorted_rows(offsets, columns, None))
    }

    fn row(&self, v: u32) -> std::ops::Range<usize> {
        self.offsets[v as usize] as usize..self.offsets[v as usize + 1] as usize
    }

    fn weight_at(&self, entry: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[entry])
    }
}

impl Default for Graph {
    /// The graph without nodes.
    fn default() -> Graph {
        Graph::from_sorted_rows(vec![0], Vec::new(), None)
    }
}

fn complement_too_large(n_entries: u64) -> Error {
    let gib = n_entries as f64 * 4.0 / f64::from(1 << 30);
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "the complement has {n_entries} entries and needs {gib:.1} GiB, more than this machine gives"
        ),
    )
}

/// Appends the ids of `0..n` that are neither `v` nor in the ascending `row`.
fn push_gaps(v: u32, n: u32, row: &[u32], columns: &mut Vec<u32>) {
    let mut next = 0;
    for &u in row.iter().chain(std::iter::once(&n)) {
        columns.extend((next..u).filter(|&w| w != v));
        next = u.saturating_add(1);
    }
}
