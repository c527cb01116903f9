//! From a stream of edges to an [`Adjacency`], in memory that follows what was seen and never the larger of the two forms.

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, GraphBuilder, check_edge};

use crate::adjacency::{Adjacency, Storage, bits_to_graph, choose_storage};
use crate::error::Error;
use crate::half_matrix::{HalfMatrix, matrix_bytes};

const PAIR_BYTES: u64 = 8;
/// Below this many pairs a move to bits saves nothing worth its work.
const FEW_PAIRS: u64 = 4096;
/// Pairs are kept in pieces of this many, so that they can be given back piece by piece while the lists are made.
const PIECE_PAIRS: usize = 1 << 16;

/// Collects edges as pairs, and as bits once the pairs take more memory than the bit matrix of the nodes seen so far.
///
/// # Complexity
/// O(1) amortised per edge. Memory: at most 16 B per listed edge while edges come ([`AdjacencyBuilder::new`]), 12 B when they
/// have weights; a move between the forms holds both for a moment. [`AdjacencyBuilder::for_generator`] takes the final bit
/// matrix at once and no more.
///
/// ```
/// use shardgraph_graph::EdgeSink;
/// use shardgraph_shard::AdjacencyBuilder;
///
/// let mut builder = AdjacencyBuilder::new();
/// for (u, v) in [(0, 1), (1, 2), (1, 0)] {
///     builder.edge(u, v, 1.0)?;
/// }
/// let (path, n_merged) = builder.finish(3, false)?;
/// assert_eq!((path.n_edges(), n_merged), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdjacencyBuilder {
    form: Form,
    /// Edges taken, repeats included.
    n_listed: u64,
    /// One more than the largest id seen.
    n_seen: u32,
}

enum Form {
    Lists(Pairs),
    Bits(HalfMatrix),
}

/// Edges as they came; `weights` stays empty until the first weight that is not 1.
#[derive(Default)]
struct Pairs {
    pieces: Vec<Vec<(u32, u32)>>,
    n_pairs: u64,
    weights: Vec<f32>,
}

impl Default for AdjacencyBuilder {
    fn default() -> AdjacencyBuilder {
        AdjacencyBuilder::new()
    }
}

impl AdjacencyBuilder {
    /// Starts with pairs and moves to bits and back as the edges ask: for readers, whose headers are not trusted.
    pub fn new() -> AdjacencyBuilder {
        AdjacencyBuilder {
            form: Form::Lists(Pairs::default()),
            n_listed: 0,
            n_seen: 0,
        }
    }

    /// Starts in the form that `spec` will end in: a generator keeps its promises.
    pub fn for_generator(spec: &GeneratorSpec) -> AdjacencyBuilder {
        let mut builder = AdjacencyBuilder::new();
        if choose_storage(spec.n_nodes(), spec.expected_edges(), false) == Storage::Bits {
            builder.form = Form::Bits(HalfMatrix::new(spec.n_nodes()));
        }
        builder
    }

    /// Ends the stream: the graph in the form that [`choose_storage`] names for the counted edges (always lists when
    /// `weighted`), and how many listed edges repeated another one.
    ///
    /// # Errors
    /// When an edge names a node at or beyond `n_nodes`, or the graph crate refuses the edges.
    pub fn finish(self, n_nodes: u32, weighted: bool) -> Result<(Adjacency, u64), Error> {
        if self.n_seen > n_nodes {
            let node = self.n_seen - 1;
            return Err(Error::NodeOutOfRange { node, n_nodes });
        }
        let lists = match self.form {
            Form::Bits(half) => return finish_bits(half, self.n_listed, n_nodes, weighted),
            Form::Lists(lists) => lists,
        };
        // Repeats only lower the count: what should be lists by the listed edges should be lists by the merged ones.
        if choose_storage(n_nodes, lists.n_pairs as f64, weighted) == Storage::Bits {
            return finish_bits(
                lists.into_half_matrix(n_nodes),
                self.n_listed,
                n_nodes,
                false,
            );
        }
        let graph = lists.into_builder()?.finish(n_nodes, weighted)?.0;
        let n_merged = self.n_listed - graph.n_edges();
        Ok((Adjacency::Csr(graph.into()), n_merged))
    }

    /// The form that the edges are in now; it may change with the next edge.
    pub fn storage(&self) -> Storage {
        match self.form {
            Form::Lists(_) => Storage::Csr,
            Form::Bits(_) => Storage::Bits,
        }
    }

    /// The bytes that hold the edges now.
    pub fn bytes(&self) -> u64 {
        match &self.form {
            Form::Lists(lists) => lists.bytes(),
            Form::Bits(half) => matrix_bytes(half.n_nodes()),
        }
    }

    /// The number of edges taken, repeats included.
    pub fn n_listed(&self) -> u64 {
        self.n_listed
    }

    /// An edge for which the present form has no room.
    fn edge_in_new_form(&mut self, u: u32, v: u32, weight: f32) {
        let form = std::mem::replace(&mut self.form, Form::Lists(Pairs::default()));
        self.form = match form {
            Form::Bits(half) => self.grow_or_list(half, is_one(weight)),
            Form::Lists(lists) => Form::Bits(lists.into_half_matrix(self.n_seen)),
        };
        match &mut self.form {
            Form::Bits(half) => half.set(u, v),
            Form::Lists(lists) => lists.push(u, v, weight),
        }
    }

    /// A quarter more room in the matrix, unless pairs are smaller by half: without the factor of two between this rule and
    /// [`Pairs::outgrow_bits`] a stream near the limit would move to and fro.
    fn grow_or_list(&self, mut half: HalfMatrix, unweighted: bool) -> Form {
        let room = self.n_seen.max(self.n_seen.saturating_add(self.n_seen / 4));
        if unweighted && matrix_bytes(room) <= 2 * PAIR_BYTES * self.n_listed {
            half.resize(room);
            return Form::Bits(half);
        }
        let mut lists = Pairs::default();
        half.for_each_edge(&mut |u, v| lists.push(u, v, 1.0));
        Form::Lists(lists)
    }
}

impl EdgeSink for AdjacencyBuilder {
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), shardgraph_graph::Error> {
        check_edge(u, v, weight)?;
        self.n_listed += 1;
        self.n_seen = self.n_seen.max(u.max(v).saturating_add(1));
        match &mut self.form {
            Form::Bits(half) if self.n_seen <= half.n_nodes() && is_one(weight) => half.set(u, v),
            Form::Lists(lists) if !lists.outgrow_bits(self.n_seen) => lists.push(u, v, weight),
            _ => self.edge_in_new_form(u, v, weight),
        }
        Ok(())
    }
}

fn is_one(weight: f32) -> bool {
    weight.to_bits() == 1.0_f32.to_bits()
}

impl Pairs {
    fn push(&mut self, u: u32, v: u32, weight: f32) {
        if self.weights.is_empty() && !is_one(weight) {
            self.weights = vec![1.0; self.n_pairs as usize];
        }
        if !self.weights.is_empty() || !is_one(weight) {
            self.weights.push(weight);
        }
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE_PAIRS => piece.push((u, v)),
            _ => self.pieces.push(vec![(u, v)]),
        }
        self.n_pairs += 1;
    }

    fn bytes(&self) -> u64 {
        let room: usize = self.pieces.iter().map(Vec::capacity).sum();
        PAIR_BYTES * room as u64 + 4 * self.weights.capacity() as u64
    }

    /// True if the pairs take more memory than the bit matrix of `n_seen` nodes.
    fn outgrow_bits(&self, n_seen: u32) -> bool {
        self.n_pairs >= FEW_PAIRS
            && self.weights.is_empty()
            && PAIR_BYTES * self.n_pairs > matrix_bytes(n_seen)
    }

    fn into_half_matrix(self, n: u32) -> HalfMatrix {
        let mut half = HalfMatrix::new(n);
        for (u, v) in self.pieces.into_iter().flatten() {
            half.set(u, v);
        }
        half
    }

    fn into_builder(self) -> Result<GraphBuilder, Error> {
        let mut builder = GraphBuilder::with_capacity(self.n_pairs as usize);
        let mut weights = self.weights.into_iter();
        for (u, v) in self.pieces.into_iter().flatten() {
            builder.edge(u, v, weights.next().unwrap_or(1.0))?;
        }
        Ok(builder)
    }
}

fn finish_bits(
    mut half: HalfMatrix,
    n_listed: u64,
    n_nodes: u32,
    weighted: bool,
) -> Result<(Adjacency, u64), Error> {
    // Not yet to n_nodes, which may promise many nodes without edges: the count decides first.
    half.resize(half.n_nodes().min(n_nodes));
    let n_edges = half.mirror();
    let adjacency = match choose_storage(n_nodes, n_edges as f64, weighted) {
        Storage::Bits => {
            half.resize(n_nodes);
            Adjacency::Bits(half.into_shard())
        }
        Storage::Csr => {
            let graph = bits_to_graph(&half.into_shard(), n_nodes, weighted)?;
            Adjacency::Csr(graph.into())
        }
    };
    Ok((adjacency, n_listed - n_edges))
}
