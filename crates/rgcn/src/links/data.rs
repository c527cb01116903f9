//! Triples to learn from, to choose by and to test on, and which ends are known for a node and a
//! relation.

use std::ops::Range;

use crate::{Edge, Error, RelationalGraph};

/// Triples of one id space, in three sets; relations without their inverses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkData {
    n_nodes: u32,
    n_relations: u32,
    train: Vec<Edge>,
    valid: Vec<Edge>,
    test: Vec<Edge>,
}

impl LinkData {
    /// The edges of a graph without inverse relations, as ranges to learn from, to choose by and to
    /// test on.
    ///
    /// # Errors
    /// [`Error::Graph`] for a range beyond the edges, and where there is nothing to learn from.
    pub fn new(
        graph: &RelationalGraph,
        train: Range<usize>,
        valid: Range<usize>,
        test: Range<usize>,
    ) -> Result<LinkData, Error> {
        let edges = |range: Range<usize>| -> Result<Vec<Edge>, Error> {
            if range.start <= range.end && range.end <= graph.n_edges() {
                return Ok(range.map(|edge| graph.edge(edge)).collect());
            }
            let message = format!("edges {range:?}: expected some of {}", graph.n_edges());
            Err(Error::new(Error::Graph, message))
        };
        let data = LinkData {
            n_nodes: graph.n_nodes(),
            n_relations: graph.n_relations(),
            train: edges(train)?,
            valid: edges(valid)?,
            test: edges(test)?,
        };
        if data.train.is_empty() || data.train.len() >= u32::MAX as usize / 2 {
            let n = data.train.len();
            let message = format!("{n} triples to learn from: expected 1 to 2^31 - 2");
            return Err(Error::new(Error::Graph, message));
        }
        Ok(data)
    }

    /// The number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// The number of relations, without inverse ones.
    #[must_use]
    pub fn n_relations(&self) -> u32 {
        self.n_relations
    }

    /// The triples to learn from.
    #[must_use]
    pub fn train(&self) -> &[Edge] {
        &self.train
    }

    /// The triples to choose settings by.
    #[must_use]
    pub fn valid(&self) -> &[Edge] {
        &self.valid
    }

    /// The triples to test on.
    #[must_use]
    pub fn test(&self) -> &[Edge] {
        &self.test
    }

    /// The overlap of some triples with those to learn from.
    ///
    /// # Complexity
    /// A sort of the training triples, 12 bytes each.
    #[must_use]
    pub fn overlap(&self, triples: &[Edge]) -> Overlap {
        let mut train: Vec<[u32; 3]> = self.train.iter().map(words).collect();
        train.sort_unstable();
        let mut has_node = vec![false; self.n_nodes as usize];
        let mut has_relation = vec![false; self.n_relations as usize];
        for edge in &self.train {
            has_node[edge.source as usize] = true;
            has_node[edge.target as usize] = true;
            has_relation[edge.relation as usize] = true;
        }
        let is_learnt = |edge: &&Edge| train.binary_search(&words(edge)).is_ok();
        let is_unseen = |edge: &&Edge| {
            let ends = [edge.source, edge.target];
            !has_relation[edge.relation as usize]
                || ends.iter().any(|&node| !has_node[node as usize])
        };
        Overlap {
            n_learnt: triples.iter().filter(is_learnt).count(),
            n_unseen: triples.iter().filter(is_unseen).count(),
        }
    }

    /// All distinct triples of the three sets, sorted: those that filtered ranks leave out.
    pub(crate) fn known(&self) -> Vec<[u32; 3]> {
        let mut known: Vec<[u32; 3]> = self.all().map(|edge| words(&edge)).collect();
        known.sort_unstable();
        known.dedup();
        known
    }

    /// The number of triples that filtered ranks leave out: the distinct ones of the three sets.
    #[must_use]
    pub fn n_known(&self) -> usize {
        self.known().len()
    }

    /// All triples.
    pub(crate) fn all(&self) -> impl Iterator<Item = Edge> + Clone + '_ {
        let sets = [&self.train, &self.valid, &self.test];
        sets.into_iter().flatten().copied()
    }

    /// The graph that messages of some triples go through, in both directions.
    pub(crate) fn messages(&self, triples: &[Edge]) -> Result<RelationalGraph, Error> {
        let column = |of: fn(&Edge) -> u32| triples.iter().map(of).collect();
        let graph = RelationalGraph::new(
            self.n_nodes,
            self.n_relations,
            column(|edge| edge.source),
            column(|edge| edge.relation),
            column(|edge| edge.target),
        )?;
        graph.with_inverses()
    }
}

/// The overlap of held-out triples with those to learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Those that are among the triples to learn from: their ranks measure memory.
    pub n_learnt: usize,
    /// Those with a node or a relation that no triple to learn from has: nothing was learnt of it.
    pub n_unseen: usize,
}

fn words(edge: &Edge) -> [u32; 3] {
    [edge.source, edge.relation, edge.target]
}

/// The end of a triple that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Head,
    Tail,
}

impl Side {
    /// The end that is asked for.
    pub(crate) fn of(self, triple: Edge) -> u32 {
        match self {
            Side::Head => triple.source,
            Side::Tail => triple.target,
        }
    }

    /// The end that is given.
    pub(crate) fn given(self, triple: Edge) -> u32 {
        match self {
            Side::Head => triple.target,
            Side::Tail => triple.source,
        }
    }
}

/// The ends that are known to be true for a relation and its other end.
///
/// # Complexity
/// 24 bytes a triple; a look-up is a binary search.
pub(crate) struct Known {
    /// (relation, given end, other end), ascending; by side.
    heads: Vec<[u32; 3]>,
    tails: Vec<[u32; 3]>,
}

impl Known {
    pub(crate) fn new(triples: impl Iterator<Item = Edge> + Clone) -> Known {
        let sorted = |side: Side| {
            let keys = triples
                .clone()
                .map(|triple| [triple.relation, side.given(triple), side.of(triple)]);
            let mut keys: Vec<[u32; 3]> = keys.collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        Known {
            heads: sorted(Side::Head),
            tails: sorted(Side::Tail),
        }
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        12 * (self.heads.len() + self.tails.len()) as u64
    }

    /// The ends that are true where `triple` has its own, which is among them if it is known.
    pub(crate) fn ends(&self, triple: Edge, side: Side) -> impl Iterator<Item = u32> + '_ {
        let keys = match side {
            Side::Head => &self.heads,
            Side::Tail => &self.tails,
        };
        let wanted = [triple.relation, side.given(triple)];
        let begin = keys.partition_point(|key| key[..2] < wanted[..]);
        let same = keys[begin..]
            .iter()
            .take_while(move |key| key[..2] == wanted);
        same.map(|key| key[2])
    }
}
