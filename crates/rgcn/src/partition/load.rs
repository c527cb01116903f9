//! The load of a part in a step: its edges, its rows, its self loops.

use serde::Serialize;

use super::{Pair, Pairs, Partition};
use crate::Config;

/// The cost of work, in rows of hidden features that are read and added.
///
/// An edge adds one row to its target. A pair (source, relation) makes its row out of the bases,
/// one row read for each; without bases it is a row of its own. A self loop is an edge and a pair
/// of a relation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Rows that make a pair's row: the bases of one-hot input, the features of a learnt one that
    /// an output reads; 0 where each pair has a row of its own.
    pub n_bases: u32,
    /// True if each node has a self loop.
    pub self_loop: bool,
}

impl CostModel {
    /// That of the first layer of a model, which has the most to do.
    #[must_use]
    pub fn of(config: &Config) -> CostModel {
        let n_bases = match config.embedding {
            0 => config.bases,
            // Of block-diagonal weights an output hears one block's units.
            width => width.div_ceil(config.blocks.max(1)),
        };
        CostModel {
            n_bases: n_bases as u32,
            self_loop: config.self_loop,
        }
    }

    /// The cost of a part's step in rows.
    #[must_use]
    pub fn cost(self, load: &Load) -> u64 {
        load.n_edges + load.n_self_loops + (load.n_pairs + load.n_self_loops) * self.pair()
    }

    /// The cost of a pair without its edges.
    pub(super) fn pair(self) -> u64 {
        u64::from(self.n_bases.max(1))
    }

    /// The cost of a node's self loop.
    pub(super) fn own_loop(self) -> u64 {
        if self.self_loop { 1 + self.pair() } else { 0 }
    }
}

/// The load of a part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Load {
    /// Edges, self loops apart.
    pub n_edges: u64,
    /// Distinct pairs (source, relation), self loops apart.
    pub n_pairs: u64,
    /// Distinct nodes that the part reads, for an edge or a self loop: rows of V.
    pub n_sources: u64,
    /// Self loops.
    pub n_self_loops: u64,
    /// Relations with an edge in the part.
    pub n_relations: u64,
    /// Nodes whose units the part adds up and keeps.
    pub n_own_nodes: u64,
    /// Distinct pairs of those as sources, whichever part works on them: the rows that the part
    /// keeps and steps.
    pub n_own_pairs: u64,
    /// Those nodes that are a source, for an edge or a self loop.
    pub n_own_sources: u64,
    /// The reads of those: one by each part that works on one of their pairs.
    pub n_own_reads: u64,
    /// Sources that the part works on and another owns.
    pub n_foreign_sources: u64,
    /// Pairs that the part works on and another owns.
    pub n_foreign_pairs: u64,
}

/// The loads of all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loads {
    loads: Vec<Load>,
    n_split_relations: usize,
}

impl Loads {
    pub(super) fn of(partition: &Partition, pairs: &Pairs) -> Loads {
        let has_self_loops = partition.has_self_loops;
        let mut loads = own_loads(partition, pairs);
        // Pairs come by source: a part has seen a source if it was the part's last one.
        let mut last_sources = vec![None; loads.len()];
        let mut last_source = None;
        let has_loop = |source| has_self_loops && pairs.makes(source);
        let is_own =
            |source, part| has_loop(source) && partition.own_nodes(part as u32).contains(&source);
        for pair in pairs.as_slice() {
            let part = partition.part_of(pair.source, pair.relation) as usize;
            let load = &mut loads[part];
            load.n_edges += u64::from(pair.n_edges);
            load.n_pairs += 1;
            let is_new = last_sources[part] != Some(pair.source);
            let is_read = u64::from(is_new && !is_own(pair.source, part));
            load.n_sources += is_read;
            let owner = partition.owner_of(pair.source) as usize;
            load.n_foreign_pairs += u64::from(owner != part);
            load.n_foreign_sources += u64::from(is_new && owner != part);
            last_sources[part] = Some(pair.source);
            let is_first = last_source != Some(pair.source) && !has_loop(pair.source);
            let owner = &mut loads[owner];
            owner.n_own_reads += is_read;
            owner.n_own_pairs += 1;
            owner.n_own_sources += u64::from(is_first);
            last_source = Some(pair.source);
        }
        let n_split_relations = count_relations(partition, pairs, &mut loads);
        Loads {
            loads,
            n_split_relations,
        }
    }

    /// Part by part.
    #[must_use]
    pub fn as_slice(&self) -> &[Load] {
        &self.loads
    }

    /// The number of relations with edges in more than one part.
    #[must_use]
    pub fn n_split_relations(&self) -> usize {
        self.n_split_relations
    }

    /// Rows of V that parts read and others own, counted once for each part that does.
    #[must_use]
    pub fn n_foreign_sources(&self) -> u64 {
        self.loads.iter().map(|load| load.n_foreign_sources).sum()
    }

    /// Pairs whose source another part owns than the one that works on them.
    #[must_use]
    pub fn n_foreign_pairs(&self) -> u64 {
        self.loads.iter().map(|load| load.n_foreign_pairs).sum()
    }

    /// The largest cost over the mean cost; 1 where there is nothing to do.
    #[must_use]
    pub fn max_over_mean(&self, model: CostModel) -> f64 {
        max_over_mean(self.loads.iter().map(|load| model.cost(load)))
    }

    /// The same of edges alone, what the methods by edges balance.
    #[must_use]
    pub fn edges_max_over_mean(&self) -> f64 {
        max_over_mean(self.loads.iter().map(|load| load.n_edges))
    }
}

/// The loads of the parts' own nodes alone.
fn own_loads(partition: &Partition, pairs: &Pairs) -> Vec<Load> {
    let mut loads = vec![Load::default(); partition.n_parts() as usize];
    for (load, part) in loads.iter_mut().zip(0..) {
        load.n_own_nodes = partition.own_nodes(part).len() as u64;
        if partition.has_self_loops {
            load.n_self_loops = pairs.n_made(partition.own_nodes(part));
            load.n_sources = load.n_self_loops;
            load.n_own_sources = load.n_self_loops;
            load.n_own_reads = load.n_self_loops;
        }
    }
    loads
}

/// Counts each part's relations; answers with how many of all have edges in more than one.
fn count_relations(partition: &Partition, pairs: &Pairs, loads: &mut [Load]) -> usize {
    let owner = |pair: &Pair| {
        let part = partition.part_of(pair.source, pair.relation);
        (pair.relation, part)
    };
    let mut owners: Vec<(u32, u32)> = pairs.as_slice().iter().map(owner).collect();
    owners.sort_unstable();
    owners.dedup();
    for &(_, part) in &owners {
        loads[part as usize].n_relations += 1;
    }
    let by_relation = owners.chunk_by(|one, other| one.0 == other.0);
    by_relation.filter(|parts| parts.len() > 1).count()
}

fn max_over_mean(costs: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
    let n_parts = costs.len() as f64;
    let (max, sum) = (costs.clone().max().unwrap_or(0), costs.sum::<u64>());
    match sum {
        0 => 1.0,
        _ => max as f64 * n_parts / sum as f64,
    }
}
