//! A directed multigraph whose edges have a relation, as three columns.

use std::sync::Arc;

use crate::{Error, Features};

/// The most nodes that a graph may have: ids are u32, and one id is kept free to mean none.
pub const MAX_NODES: u32 = u32::MAX - 1;

/// A directed multigraph whose edges have a relation. Nodes are 0..n_nodes, relations
/// 0..n_relations.
///
/// Edges keep the order in which they were given; the same edge may be there twice and counts
/// twice.
///
/// ```
/// use shardgraph_rgcn::RelationalGraph;
///
/// let graph = RelationalGraph::new(3, 2, vec![0, 1], vec![0, 1], vec![1, 2])?;
/// assert_eq!((graph.n_nodes(), graph.n_relations(), graph.n_edges()), (3, 2, 2));
/// let both_ways = graph.with_inverses()?;
/// let turned = both_ways.edges().last().unwrap();
/// assert_eq!((turned.source, turned.relation, turned.target), (2, 3, 1));
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RelationalGraph {
    n_nodes: u32,
    n_relations: u32,
    sources: Vec<u32>,
    relations: Vec<u32>,
    targets: Vec<u32>,
    features: Option<Arc<Features>>,
}

/// One edge: `source` sends to `target` along `relation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The node that sends.
    pub source: u32,
    /// The relation.
    pub relation: u32,
    /// The node that receives.
    pub target: u32,
}

impl RelationalGraph {
    /// A graph of three columns of one length.
    ///
    /// # Errors
    /// [`Error::Graph`] where the columns differ in length, or an id is out of range: the message
    /// names the first such edge.
    /// # Complexity
    /// One pass over the columns, which are kept as they are: 12 bytes an edge.
    pub fn new(
        n_nodes: u32,
        n_relations: u32,
        sources: Vec<u32>,
        relations: Vec<u32>,
        targets: Vec<u32>,
    ) -> Result<RelationalGraph, Error> {
        let graph_error = |message: String| Err(Error::new(Error::Graph, message));
        let n_edges = sources.len();
        if relations.len() != n_edges || targets.len() != n_edges {
            return graph_error(format!(
                "columns of {n_edges} sources, {} relations and {} targets: expected three of one length",
                relations.len(),
                targets.len()
            ));
        }
        if n_nodes > MAX_NODES {
            return graph_error(format!("{n_nodes} nodes: expected at most {MAX_NODES}"));
        }
        let columns = [
            ("source", &sources, n_nodes, "node"),
            ("relation", &relations, n_relations, "relation"),
            ("target", &targets, n_nodes, "node"),
        ];
        for (column, ids, end, what) in columns {
            if let Some(edge_idx) = ids.iter().position(|&id| id >= end) {
                let id = ids[edge_idx];
                return graph_error(format!(
                    "edge {edge_idx}: {column} {id}: expected a {what} below {end}"
                ));
            }
        }
        Ok(RelationalGraph {
            n_nodes,
            n_relations,
            sources,
            relations,
            targets,
            features: None,
        })
    }

    /// The graph with features of its nodes, which [`Config::features`](crate::Config::features)
    /// takes as input.
    ///
    /// # Errors
    /// [`Error::Graph`] where they do not have a row for each node.
    pub fn with_features(mut self, features: Features) -> Result<RelationalGraph, Error> {
        if features.n_rows() != self.n_nodes as usize {
            let (found, expected) = (features.n_rows(), self.n_nodes);
            let message = format!("features of {found} nodes: expected those of {expected}");
            return Err(Error::new(Error::Graph, message));
        }
        self.features = Some(Arc::new(features));
        Ok(self)
    }

    /// The features of its nodes, where it has them.
    #[must_use]
    pub fn features(&self) -> Option<&Features> {
        self.features.as_deref()
    }

    /// The number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// The number of relations, those without an edge too.
    #[must_use]
    pub fn n_relations(&self) -> u32 {
        self.n_relations
    }

    /// The number of edges, each as often as it was given.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        self.sources.len()
    }

    /// The edges in their order.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = Edge> + Clone + '_ {
        (0..self.n_edges()).map(|edge_idx| self.edge(edge_idx))
    }

    /// The edge of this number.
    ///
    /// # Panics
    /// When there are no more than `edge_idx` edges.
    #[must_use]
    pub fn edge(&self, edge_idx: usize) -> Edge {
        Edge {
            source: self.sources[edge_idx],
            relation: self.relations[edge_idx],
            target: self.targets[edge_idx],
        }
    }

    /// The columns: sources, relations, targets.
    #[must_use]
    pub fn columns(&self) -> (&[u32], &[u32], &[u32]) {
        (&self.sources, &self.relations, &self.targets)
    }

    /// The graph with each edge turned round as well: relation r + [`RelationalGraph::n_relations`]
    /// is r against its direction.
    ///
    /// The given edges come first, then the turned ones in the same order.
    ///
    /// # Errors
    /// [`Error::Graph`] where twice the relations are more than a u32 counts.
    pub fn with_inverses(&self) -> Result<RelationalGraph, Error> {
        let n_relations = self.n_relations;
        let both = n_relations.checked_mul(2).ok_or_else(|| {
            let message =
                format!("{n_relations} relations: expected at most 2147483647, to have inverses");
            Error::new(Error::Graph, message)
        })?;
        let turned = self
            .relations
            .iter()
            .map(|&relation| relation + n_relations);
        Ok(RelationalGraph {
            n_nodes: self.n_nodes,
            n_relations: both,
            sources: [&self.sources[..], &self.targets].concat(),
            relations: self.relations.iter().copied().chain(turned).collect(),
            targets: [&self.targets[..], &self.sources].concat(),
            features: self.features.clone(),
        })
    }

    /// The same graph with relation r under the number `to[r]`, of `n_relations`.
    ///
    /// # Errors
    /// [`Error::Graph`] where `to` has not a number below that for each relation.
    pub fn with_relations(self, to: &[u32], n_relations: u32) -> Result<RelationalGraph, Error> {
        if to.len() != self.n_relations as usize || to.iter().any(|&to| to >= n_relations) {
            let (n, found) = (self.n_relations, to.len());
            let message = format!(
                "{found} numbers for {n} relations: expected one below {n_relations} for each"
            );
            return Err(Error::new(Error::Graph, message));
        }
        let mut relations = self.relations;
        relations
            .iter_mut()
            .for_each(|relation| *relation = to[*relation as usize]);
        Ok(RelationalGraph {
            n_relations,
            relations,
            ..self
        })
    }

    /// The number of edges of each relation.
    #[must_use]
    pub fn edges_by_relation(&self) -> Vec<u64> {
        let mut counts = vec![0; self.n_relations as usize];
        for &relation in &self.relations {
            counts[relation as usize] += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_different_lengths_and_ids_out_of_range_are_refused() {
        let refused = |sources: &[u32], relations: &[u32], targets: &[u32]| {
            let made = RelationalGraph::new(3, 2, sources.into(), relations.into(), targets.into());
            made.unwrap_err().to_string()
        };
        assert!(refused(&[0], &[0, 1], &[1]).contains("1 sources, 2 relations and 1 targets"));
        assert_eq!(
            refused(&[0, 3], &[0, 0], &[0, 0]),
            "edge 1: source 3: expected a node below 3"
        );
        assert_eq!(
            refused(&[0], &[2], &[0]),
            "edge 0: relation 2: expected a relation below 2"
        );
    }

    #[test]
    fn turning_round_twice_gives_each_edge_back() {
        let graph =
            RelationalGraph::new(4, 3, vec![0, 3, 3], vec![2, 0, 0], vec![1, 3, 0]).unwrap();
        let both = graph.with_inverses().unwrap();
        assert_eq!((both.n_edges(), both.n_relations()), (6, 6));
        for (edge, turned) in both.edges().zip(both.edges().skip(3)) {
            assert_eq!((edge.source, edge.target), (turned.target, turned.source));
            assert_eq!(edge.relation + 3, turned.relation);
        }
        assert_eq!(both.edges_by_relation(), [2, 0, 1, 2, 0, 1]);
    }
}
