//! The methods: the parts of whole relations, or the borders of sources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{CostModel, Pair, Pairs};

/// The pairs to deal out, the parts, the cost, and the blocks of `block` nodes between which
/// sources are cut.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) pairs: &'a Pairs,
    pub(super) n_parts: u32,
    pub(super) model: CostModel,
    pub(super) block: u32,
}

impl Work<'_> {
    /// Whole relations, most edges first, each to the part with the fewest edges.
    pub(super) fn fewest_edges(self) -> Vec<u32> {
        let Work { pairs, n_parts, .. } = self;
        let edges = edges_by_relation(pairs);
        let mut lightest: BinaryHeap<_> = (0..n_parts).map(|part| Reverse((0, part))).collect();
        let mut parts = vec![0; edges.len()];
        for relation in descending(&edges) {
            // Of equal parts the first is the lightest.
            if let Some(mut top) = lightest.peek_mut() {
                parts[relation] = top.0.1;
                top.0.0 += edges[relation];
            }
        }
        parts
    }

    /// Whole relations by their edges, dealt 1..P, P..1, 1..P.
    pub(super) fn snake(self) -> Vec<u32> {
        let edges = edges_by_relation(self.pairs);
        let mut parts = vec![0; edges.len()];
        let n_parts = self.n_parts as usize;
        for (turn, relation) in descending(&edges).into_iter().enumerate() {
            let (round, place) = (turn / n_parts, turn % n_parts);
            let part = match round % 2 {
                0 => place,
                _ => n_parts - 1 - place,
            };
            parts[relation] = part as u32;
        }
        parts
    }

    /// Borders of ranges of sources of nearly one cost, self loops counted.
    pub(super) fn source_cut(self) -> Vec<u32> {
        let mut costs = self.made_in_blocks();
        costs
            .iter_mut()
            .for_each(|n_made| *n_made *= self.model.own_loop());
        for pair in self.pairs.as_slice() {
            costs[self.block_of(pair.source)] += cost(pair, self.model);
        }
        self.borders(balanced_cut(&costs, self.n_parts))
    }

    /// Borders of ranges of nearly as many nodes that are made.
    pub(super) fn even_cut(self) -> Vec<u32> {
        self.borders(balanced_cut(&self.made_in_blocks(), self.n_parts))
    }

    /// The number of outputs in each block.
    fn made_in_blocks(self) -> Vec<u64> {
        let n_nodes = self.pairs.n_nodes();
        let blocks = (0..n_nodes).step_by(self.block as usize);
        let n_made = blocks.map(|start| {
            self.pairs
                .n_made(start..start.saturating_add(self.block).min(n_nodes))
        });
        n_made.collect()
    }

    fn block_of(self, source: u32) -> usize {
        (source / self.block) as usize
    }

    /// The nodes at borders between blocks.
    fn borders(self, blocks: Vec<u32>) -> Vec<u32> {
        let n_nodes = u64::from(self.pairs.n_nodes());
        let node = |block: u32| (u64::from(block) * u64::from(self.block)).min(n_nodes) as u32;
        blocks.into_iter().map(node).collect()
    }
}

/// Borders of runs of nearly one sum: each is where the sum comes nearest to its share.
fn balanced_cut(costs: &[u64], n_parts: u32) -> Vec<u32> {
    let total: u64 = costs.iter().sum();
    let mut borders = vec![0];
    let (mut sum, mut node) = (0u64, 0);
    for part in 1..n_parts {
        let share = (u128::from(total) * u128::from(part) / u128::from(n_parts)) as u64;
        while node < costs.len() && sum + costs[node] / 2 < share {
            sum += costs[node];
            node += 1;
        }
        borders.push(node as u32);
    }
    borders.push(costs.len() as u32);
    borders
}

fn cost(pair: &Pair, model: CostModel) -> u64 {
    u64::from(pair.n_edges) + model.pair()
}

fn edges_by_relation(pairs: &Pairs) -> Vec<u64> {
    let mut edges = vec![0; pairs.n_relations() as usize];
    for pair in pairs.as_slice() {
        edges[pair.relation as usize] += u64::from(pair.n_edges);
    }
    edges
}

/// Indices by falling value; of equals the first comes first.
fn descending(values: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&idx| Reverse(values[idx]));
    order
}
