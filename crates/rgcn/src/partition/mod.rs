//! A relational graph's work cut into parts: which part owns which sources of which relation, and
//! what that costs.
//!
//! Whatever the method, a partition is one table: each relation's sources in ranges, each range
//! with its part. So an edge is in exactly one part, and rows (source, relation) are never shared;
//! normalisers are those of the whole graph, whatever the parts.
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

/// The most ranges of sources, relations times parts: 1 GiB of them.
const MAX_SEGMENTS: u64 = 1 << 27;

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

/// From `start` on, up to the next segment of the relation, its sources are of `part`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: u32,
    part: u32,
}

/// Some sources of a relation: what a part owns is a list of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The relation.
    pub relation: u32,
    /// The sources.
    pub sources: Range<u32>,
}

/// A relational graph cut into parts.
///
/// No method cuts a single pair (source, relation): where one costs more than a part's share, that
/// part is the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    method: Method,
    n_parts: u32,
    n_nodes: u32,
    /// For each relation its segments, ascending, the first from source 0 on.
    segments: Vec<Vec<Segment>>,
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
    /// Time O(pairs + relations log relations), memory 8 B a relation or block.
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
        let n_segments = u64::from(pairs.n_relations()) * u64::from(n_parts);
        if n_segments > MAX_SEGMENTS {
            let expected = format!("at most {MAX_SEGMENTS} relations times devices");
            return Err(Error::config("devices", n_parts, &expected));
        }
        let n_nodes = pairs.n_nodes();
        let work = assign::Work {
            pairs,
            n_parts,
            model,
            block: block.max(1),
        };
        let mut own_nodes = work.even_cut();
        let segments = match method {
            Method::M1 => work.fewest_edges(),
            Method::M2 => work.snake(),
            Method::Source => {
                own_nodes = work.source_cut();
                let row = assign::segments_of_cut(&own_nodes);
                vec![row; pairs.n_relations() as usize]
            }
        };
        Ok(Partition {
            method,
            n_parts,
            n_nodes,
            segments,
            own_nodes,
            has_self_loops: model.self_loop,
        })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The number of parts.
    #[must_use]
    pub fn n_parts(&self) -> u32 {
        self.n_parts
    }

    /// The number of nodes of the graph that was cut.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// The number of relations of the graph that was cut.
    #[must_use]
    pub fn n_relations(&self) -> u32 {
        self.segments.len() as u32
    }

    /// The part that owns the edges of `relation` from `source`.
    ///
    /// # Panics
    /// When the graph has no such relation.
    ///
    /// # Complexity
    /// O(log segments of the relation): one or a few.
    #[must_use]
    pub fn part_of(&self, source: u32, relation: u32) -> u32 {
        let row = &self.segments[relation as usize];
        let after = row.partition_point(|segment| segment.start <= source);
        row[after - 1].part
    }

    /// The blocks that a part owns, by relation and then by source; ranges without a source are
    /// left out.
    #[must_use]
    pub fn blocks(&self, part: u32) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (row, relation) in self.segments.iter().zip(0..) {
            for (idx, segment) in row.iter().enumerate() {
                let end = row.get(idx + 1).map_or(self.n_nodes, |next| next.start);
                if segment.part == part && segment.start < end {
                    blocks.push(Block {
                        relation,
                        sources: segment.start..end,
                    });
                }
            }
        }
        blocks
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

    /// The part whose own node that is.
    pub(crate) fn owner_of(&self, node: u32) -> u32 {
        let after = self.own_nodes.partition_point(|&border| border <= node);
        (after as u32 - 1).min(self.n_parts - 1)
    }

    /// True if the model that was planned for has self loops.
    #[must_use]
    pub fn has_self_loops(&self) -> bool {
        self.has_self_loops
    }

    /// The borders of the sources, for [`Method::Source`]: part p has sources `cut[p]..cut[p + 1]`
    /// of all relations.
    #[must_use]
    pub fn source_cut(&self) -> Option<&[u32]> {
        (self.method == Method::Source).then_some(&self.own_nodes)
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
            (self.n_nodes, self.n_relations()),
            "the pairs of the graph that was cut"
        );
        Loads::of(self, pairs)
    }
}

#[cfg(test)]
mod tests;
