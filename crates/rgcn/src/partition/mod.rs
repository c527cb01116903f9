//! A relational graph's work cut into parts: which part owns which sources of which relation, and
//! what that costs.
//!
//! A partition deals out whole relations, or ranges of sources. So an edge is in exactly one part,
//! and rows (source, relation) are never shared; normalisers are those of the whole graph, whatever
//! the parts.
//!
//! ```
//! use shardgraph_rgcn::generate::RelationalSpec;
//! use shardgraph_rgcn::partition::{CostModel, Method, Pairs, Partition};
//!
//! let spec: RelationalSpec = "ba-rel:2000:2.5:20:zipf".parse()?;
//! let graph = spec.graph(1)?.with_inverses()?;
//! let pairs = Pairs::of(&graph);
//! let model = CostModel { n_bases: 40, self_loop: true };
//! let partition = Partition::new(&pairs, Method::Source, 4, model, 1)?;
//! assert!(partition.loads(&pairs).max_over_mean(model) < 1.05);
//! let edge = graph.edge(0);
//! assert!(partition.part_of(edge.source, edge.relation) < 4);
//! # Ok::<(), shardgraph_rgcn::Error>(())
//! ```

mod assign;
mod load;
mod pairs;

pub use load::{CostModel, Load, Loads};
pub use pairs::{Pair, Pairs};

use std::ops::Range;

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use crate::Error;

/// The most parts that a graph is cut into.
pub const MAX_PARTS: u32 = 4096;

/// A way to deal the work out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Method {
    /// Whole relations, the one with most edges first, each to the part with the fewest edges so
    /// far.
    M1,
    /// Whole relations in the order of their edges, dealt 1..P, P..1, 1..P and so on (a snake).
    M2,
    /// Ranges of sources of equal cost, all relations alike: no row of V is in two parts.
    Source,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 3] = [Method::M1, Method::M2, Method::Source];
}
words!(
    Method, Error, Error::config, "method";
    "m1" => M1,
    "m2" => M2,
    "source" => Source,
);

/// A relational graph cut into parts.
///
/// No method cuts a single pair (source, relation): where one costs more than a part's share, that
/// part is the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    n_parts: u32,
    n_relations: u32,
    /// The part of each relation; none by [`Method::Source`].
    relation_parts: Option<Vec<u32>>,
    /// Part p has the nodes `own_nodes[p]..own_nodes[p + 1]`.
    own_nodes: Vec<u32>,
    has_self_loops: bool,
}

impl Partition {
    /// Cuts a graph into `n_parts` by a method, sources only between blocks of `block` nodes (1:
    /// anywhere). Training has blocks of a size that depends on the graph and the model alone, so
    /// that gradients are summed in one order however the graph is cut.
    ///
    /// # Errors
    /// [`Error::Config`] for no part, or more than [`MAX_PARTS`].
    ///
    /// # Complexity
    /// Time O(pairs + relations log relations), memory 4 B a relation and 8 B a block.
    ///
    /// # Source
    /// M1 and M2 are the two methods that R-GCN was first cut by: relations dealt out for equal
    /// numbers of edges, or sorted by edges and dealt in a snake, with the self loops apart. (There
    /// one device has all self loops; here each has an equal share of nodes.)
    pub fn new(
        pairs: &Pairs,
        method: Method,
        n_parts: u32,
        model: CostModel,
        block: u32,
    ) -> Result<Partition, Error> {
        if n_parts == 0 || n_parts > MAX_PARTS {
            let expected = format!("1 to {MAX_PARTS}");
            return Err(Error::config("devices", n_parts, &expected));
        }
        let work = assign::Work {
            pairs,
            n_parts,
            model,
            block: block.max(1),
        };
        let (relation_parts, own_nodes) = match method {
            Method::M1 => (Some(work.fewest_edges()), work.even_cut()),
            Method::M2 => (Some(work.snake()), work.even_cut()),
            Method::Source => (None, work.source_cut()),
        };
        Ok(Partition {
            n_parts,
            n_relations: pairs.n_relations(),
            relation_parts,
            own_nodes,
            has_self_loops: model.self_loop,
        })
    }

    /// The number of parts.
    #[must_use]
    pub fn n_parts(&self) -> u32 {
        self.n_parts
    }

    /// The part that owns the edges of `relation` from `source`.
    ///
    /// # Panics
    /// When the graph has no such relation.
    ///
    /// # Complexity
    /// O(1), and O(log parts) by [`Method::Source`].
    #[must_use]
    pub fn part_of(&self, source: u32, relation: u32) -> u32 {
        match &self.relation_parts {
            Some(parts) => parts[relation as usize],
            None => self.owner_of(source),
        }
    }

    /// The nodes whose self loops a part has, and whose units it adds up and keeps.
    ///
    /// # Panics
    /// When there is no such part.
    #[must_use]
    pub fn own_nodes(&self, part: u32) -> Range<u32> {
        let part = part as usize;
        self.own_nodes[part]..self.own_nodes[part + 1]
    }

    fn n_nodes(&self) -> u32 {
        self.own_nodes.last().copied().unwrap_or(0)
    }

    /// The part whose own node that is.
    pub(crate) fn owner_of(&self, node: u32) -> u32 {
        let after = self.own_nodes.partition_point(|&border| border <= node);
        (after as u32 - 1).min(self.n_parts - 1)
    }

    /// True if parts are ranges of sources of all relations alike.
    #[must_use]
    pub fn is_by_source(&self) -> bool {
        self.relation_parts.is_none()
    }

    /// The load of each part, counted in the whole graph.
    ///
    /// # Panics
    /// When `pairs` are of another graph.
    ///
    /// # Complexity
    /// Time O(pairs log pairs), memory 8 B a pair.
    #[must_use]
    pub fn loads(&self, pairs: &Pairs) -> Loads {
        assert_eq!(
            (pairs.n_nodes(), pairs.n_relations()),
            (self.n_nodes(), self.n_relations),
            "the pairs of the graph that was cut"
        );
        Loads::of(self, pairs)
    }
}

#[cfg(test)]
mod tests;
