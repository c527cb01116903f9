//! The distinct pairs (source, relation) of a graph: what costs time and memory, whatever the way
//! to cut it.

use crate::RelationalGraph;

/// A source and a relation with at least one edge between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The source.
    pub source: u32,
    /// The relation.
    pub relation: u32,
    /// The number of the relation's edges from the source.
    pub n_edges: u32,
}

/// The distinct pairs (source, relation) of a graph, by source and then by relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    n_nodes: u32,
    n_relations: u32,
    n_edges: u64,
    pairs: Vec<Pair>,
    /// One flag a node: true for outputs of the layer, where not all are; the others have no self
    /// loop.
    is_made: Option<Vec<bool>>,
}

impl Pairs {
    /// Some pairs of a graph, by source and then by relation, for a layer that makes the marked
    /// nodes only.
    pub(crate) fn kept(graph: &RelationalGraph, pairs: Vec<Pair>, is_made: Vec<bool>) -> Pairs {
        Pairs {
            n_nodes: graph.n_nodes(),
            n_relations: graph.n_relations(),
            n_edges: pairs.iter().map(|pair| u64::from(pair.n_edges)).sum(),
            pairs,
            is_made: Some(is_made),
        }
    }

    /// True for an output of the layer, which has a self loop where the model has them.
    pub(super) fn makes(&self, node: u32) -> bool {
        let is_made = self.is_made.as_ref();
        is_made.is_none_or(|is_made| is_made[node as usize])
    }

    /// The number of outputs in a range of nodes.
    pub(crate) fn n_made(&self, nodes: std::ops::Range<u32>) -> u64 {
        match &self.is_made {
            None => nodes.len() as u64,
            Some(_) => nodes.filter(|&node| self.makes(node)).count() as u64,
        }
    }

    /// Counts the pairs of a graph.
    ///
    /// # Complexity
    /// Time O(edges log edges), memory 8 B an edge and 12 B a pair.
    #[must_use]
    pub fn of(graph: &RelationalGraph) -> Pairs {
        let key = |edge: crate::Edge| u64::from(edge.source) << 32 | u64::from(edge.relation);
        let mut keys: Vec<u64> = graph.edges().map(key).collect();
        keys.sort_unstable();
        let pairs = keys.chunk_by(|one, other| one == other);
        let pairs = pairs.map(|equal| Pair {
            source: (equal[0] >> 32) as u32,
            relation: equal[0] as u32,
            n_edges: equal.len() as u32,
        });
        Pairs {
            n_nodes: graph.n_nodes(),
            n_relations: graph.n_relations(),
            n_edges: graph.n_edges() as u64,
            pairs: pairs.collect(),
            is_made: None,
        }
    }

    /// Nodes of the graph.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// Relations of the graph.
    #[must_use]
    pub fn n_relations(&self) -> u32 {
        self.n_relations
    }

    /// Edges of the graph.
    #[must_use]
    pub fn n_edges(&self) -> u64 {
        self.n_edges
    }

    /// The pairs, by source and then by relation.
    #[must_use]
    pub fn as_slice(&self) -> &[Pair] {
        &self.pairs
    }
}
