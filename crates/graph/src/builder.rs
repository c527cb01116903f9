//! From a stream of listed edges to a [`Graph`]: the trait that readers and generators write into, and its in-memory receiver.

use crate::{Error, ErrorKind, Graph, graph::MAX_NODES};

/// Receives edges one by one, as a reader or generator produces them.
///
/// ```
/// use shardgraph_graph::{EdgeSink, Error, generate::GeneratorSpec};
///
/// struct Count(u64);
/// impl EdgeSink for Count {
///     fn edge(&mut self, _u: u32, _v: u32, _weight: f32) -> Result<(), Error> {
///         self.0 += 1;
///         Ok(())
///     }
/// }
///
/// let mut count = Count(0);
/// "ba:100:4".parse::<GeneratorSpec>()?.stream(1, &mut count)?;
/// assert_eq!(count.0, 4 * 96);
/// # Ok::<(), Error>(())
/// ```
pub trait EdgeSink {
    /// One listed edge: `u != v`; it may come again, in either direction, and then the first weight counts.
    ///
    /// Ids are dense from 0. A format without weights, or one whose weights are not wanted, gives weight 1.
    ///
    /// # Errors
    /// Whatever makes the receiver give up; the caller stops and passes it on.
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), Error>;
}

/// An [`EdgeSink`] that numbers text ids itself, for graphs whose labels do not fit in memory.
///
/// See [`crate::stream_named`].
pub trait NamedEdgeSink: EdgeSink {
    /// One listed edge of a file with text ids, which are UTF-8; a self-loop comes too, because its node exists.
    ///
    /// # Errors
    /// Whatever makes the receiver give up; the caller stops and passes it on.
    fn named_edge(&mut self, u: &str, v: &str, weight: f32) -> Result<(), Error>;
}

/// Collects edges in memory and makes a [`Graph`] of them; a self-loop is refused.
///
/// ```
/// use shardgraph_graph::{EdgeSink, GraphBuilder};
///
/// let mut builder = GraphBuilder::new();
/// builder.edge(0, 1, 1.0)?;
/// builder.edge(1, 0, 1.0)?;
/// let (graph, n_merged) = builder.finish(3, false)?;
/// assert_eq!((graph.n_nodes(), graph.n_edges(), n_merged), (3, 1, 1));
/// assert!(GraphBuilder::new().edge(2, 2, 1.0).is_err());
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
///
/// # Complexity
/// 8 B per listed edge (12 B once a weight other than 1 came), and the graph's own memory beside it in `finish`.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    edges: Vec<(u32, u32)>,
    /// Parallel to `edges`, or empty while every weight was 1.
    weights: Vec<f32>,
    largest_id: Option<u32>,
}

/// Result of [`GraphBuilder::finish_counted`], with counts of merged edges.
#[derive(Clone, Debug)]
pub struct Built {
    /// The graph.
    pub graph: Graph,
    /// Listed edges beyond the first for the same pair of nodes, in either direction.
    pub duplicates_merged: u64,
    /// Number of those with another weight than the first, which was kept.
    pub weight_conflicts: u64,
}

impl GraphBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        GraphBuilder::default()
    }

    /// An empty builder with room for `n_edges` edges, a number that the caller has counted and not read in a header.
    #[must_use]
    pub fn with_capacity(n_edges: usize) -> Self {
        GraphBuilder {
            edges: Vec::with_capacity(n_edges),
            ..GraphBuilder::default()
        }
    }

    /// The graph over `n_nodes` nodes and the number of duplicates merged; `weighted` says whether weights are kept.
    ///
    /// # Errors
    /// An edge with an id that is not below `n_nodes`, or more than [`MAX_NODES`] nodes.
    ///
    /// # Determinism
    /// The graph depends on the set of edges only; of several weights for one edge the first listed is kept.
    pub fn finish(self, n_nodes: u32, weighted: bool) -> Result<(Graph, u64), Error> {
        let built = self.finish_counted(n_nodes, weighted)?;
        Ok((built.graph, built.duplicates_merged))
    }

    /// As [`GraphBuilder::finish`], with every count.
    ///
    /// # Errors
    /// As [`GraphBuilder::finish`].
    pub fn finish_counted(self, n_nodes: u32, weighted: bool) -> Result<Built, Error> {
        check_ids(n_nodes, self.largest_id)?;
        let offsets = self.row_offsets(n_nodes);
        let (columns, weights) = self.scatter(&offsets, weighted);
        drop(self);
        Ok(Rows::new(offsets, columns, weights).simplify())
    }

    fn row_offsets(&self, n_nodes: u32) -> Vec<u64> {
        let mut offsets = vec![0u64; n_nodes as usize + 1];
        for &(u, v) in &self.edges {
            offsets[u as usize + 1] += 1;
            offsets[v as usize + 1] += 1;
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        offsets
    }

    /// Both directions of every edge, each row in listing order.
    fn scatter(&self, offsets: &[u64], weighted: bool) -> (Vec<u32>, Option<Vec<f32>>) {
        let mut next: Vec<u64> = offsets[..offsets.len() - 1].to_vec();
        let mut columns = vec![0u32; 2 * self.edges.len()];
        let mut weights = weighted.then(|| vec![1.0f32; columns.len()]);
        for (i, &(u, v)) in self.edges.iter().enumerate() {
            for (row, column) in [(u, v), (v, u)] {
                let slot = next[row as usize] as usize;
                next[row as usize] += 1;
                columns[slot] = column;
                if let (Some(weights), Some(&weight)) = (&mut weights, self.weights.get(i)) {
                    weights[slot] = weight;
                }
            }
        }
        (columns, weights)
    }
}

impl EdgeSink for GraphBuilder {
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), Error> {
        check_edge(u, v, weight)?;
        if weight.to_bits() != 1.0f32.to_bits() && self.weights.is_empty() {
            self.weights.resize(self.edges.len(), 1.0);
            self.weights.push(weight);
        } else if !self.weights.is_empty() {
            self.weights.push(weight);
        }
        self.edges.push((u, v));
        self.largest_id = self.largest_id.max(Some(u.max(v)));
        Ok(())
    }
}

/// Refuses edges that no [`EdgeSink`] of a simple graph can take: self-loops, which readers and generators drop before, and
/// weights that are not finite.
///
/// # Errors
/// [`ErrorKind::Argument`] for a self-loop, [`ErrorKind::OutOfRange`] for the weight.
#[inline]
pub fn check_edge(u: u32, v: u32, weight: f32) -> Result<(), Error> {
    match u != v && weight.is_finite() {
        true => Ok(()),
        false => Err(wrong_edge(u, v, weight)),
    }
}

#[cold]
fn wrong_edge(u: u32, v: u32, weight: f32) -> Error {
    if u == v {
        let message =
            format!("edge ({u}, {v}) joins a node to itself: expected two nodes that differ");
        return Error::new(ErrorKind::Argument, message);
    }
    let message = format!("edge ({u}, {v}) has weight {weight}: expected a finite number");
    Error::new(ErrorKind::OutOfRange, message)
}

fn check_ids(n_nodes: u32, largest_id: Option<u32>) -> Result<(), Error> {
    if n_nodes > MAX_NODES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{n_nodes} nodes: a graph holds at most {MAX_NODES}"),
        ));
    }
    match largest_id {
        Some(id) if id >= n_nodes => Err(Error::new(
            ErrorKind::OutOfRange,
            format!("an edge names node {id}, but the graph has {n_nodes} nodes (ids start at 0)"),
        )),
        _ => Ok(()),
    }
}

/// Rows in listing order, on their way to being sorted and free of duplicates.
struct Rows {
    offsets: Vec<u64>,
    columns: Vec<u32>,
    weights: Option<Vec<f32>>,
    /// Entries (two for an edge) that repeated a column of their row.
    n_merged: u64,
    n_conflicts: u64,
}

impl Rows {
    fn new(offsets: Vec<u64>, columns: Vec<u32>, weights: Option<Vec<f32>>) -> Rows {
        Rows {
            offsets,
            columns,
            weights,
            n_merged: 0,
            n_conflicts: 0,
        }
    }

    fn simplify(mut self) -> Built {
        let mut scratch = Vec::new();
        let mut end = 0;
        for v in 0..self.offsets.len() - 1 {
            let row = self.offsets[v] as usize..self.offsets[v + 1] as usize;
            self.sort_row(row.clone(), &mut scratch);
            self.offsets[v] = end as u64;
            end = self.compact_row(row, end);
        }
        if let Some(last) = self.offsets.last_mut() {
            *last = end as u64;
        }
        self.truncate(end);
        Built {
            graph: Graph::from_sorted_rows(self.offsets, self.columns, self.weights),
            duplicates_merged: self.n_merged / 2,
            weight_conflicts: self.n_conflicts / 2,
        }
    }

    /// Sorts one row by column; with weights stably, so that the first listed weight of a duplicate comes first.
    fn sort_row(&mut self, row: std::ops::Range<usize>, scratch: &mut Vec<(u32, f32)>) {
        let columns = &mut self.columns[row.clone()];
        if columns.is_sorted() {
            return;
        }
        let Some(weights) = &mut self.weights else {
            columns.sort_unstable();
            return;
        };
        let weights = &mut weights[row];
        scratch.clear();
        scratch.extend(columns.iter().copied().zip(weights.iter().copied()));
        scratch.sort_by_key(|&(column, _)| column);
        for (i, &(column, weight)) in scratch.iter().enumerate() {
            columns[i] = column;
            weights[i] = weight;
        }
    }

    /// Moves the distinct columns of a sorted row down to `end` and returns the new end.
    fn compact_row(&mut self, row: std::ops::Range<usize>, mut end: usize) -> usize {
        let start = end;
        for i in row {
            let column = self.columns[i];
            if end > start && self.columns[end - 1] == column {
                self.n_merged += 1;
                self.n_conflicts += u64::from(self.weights_differ(end - 1, i));
                continue;
            }
            self.columns[end] = column;
            if let Some(weights) = &mut self.weights {
                weights[end] = weights[i];
            }
            end += 1;
        }
        end
    }

    fn weights_differ(&self, a: usize, b: usize) -> bool {
        self.weights
            .as_ref()
            .is_some_and(|weights| weights[a].to_bits() != weights[b].to_bits())
    }

    fn truncate(&mut self, len: usize) {
        if len == self.columns.len() {
            return;
        }
        self.columns.truncate(len);
        self.columns.shrink_to_fit();
        if let Some(weights) = &mut self.weights {
            weights.truncate(len);
            weights.shrink_to_fit();
        }
    }
}
