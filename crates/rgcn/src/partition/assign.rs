//! The methods: each gives every relation its segments of sources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{CostModel, Pair, Pairs, Segment};

/// The unevenness, largest cost over mean, below which no relation is cut any finer.
const EVEN_ENOUGH: f64 = 1.02;

/// Relations are cut into pieces of down to this share of a part's mean.
const FINEST: u64 = 128;

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
    pub(super) fn fewest_edges(self) -> Vec<Vec<Segment>> {
        let Work { pairs, n_parts, .. } = self;
        let edges = edges_by_relation(pairs);
        let mut parts = Parts::new(n_parts);
        let mut segments = vec![Vec::new(); edges.len()];
        for relation in descending(&edges) {
            segments[relation] = whole(parts.add_to_lightest(edges[relation]));
        }
        segments
    }

    /// Whole relations by their edges, dealt 1..P, P..1, 1..P.
    pub(super) fn snake(self) -> Vec<Vec<Segment>> {
        let edges = edges_by_relation(self.pairs);
        let mut segments = vec![Vec::new(); edges.len()];
        let n_parts = self.n_parts as usize;
        for (turn, relation) in descending(&edges).into_iter().enumerate() {
            let (round, place) = (turn / n_parts, turn % n_parts);
            let part = match round % 2 {
                0 => place,
                _ => n_parts - 1 - place,
            };
            segments[relation] = whole(part as u32);
        }
        segments
    }

    /// Relations by cost, each to the part with the least; where that is uneven, the large ones are
    /// cut by source, ever finer.
    ///
    /// A piece of at most a share 1/k of the mean leaves the largest part at most 1 + 1/k of the
    /// mean (Graham's bound for longest processing time first), as long as no single source is
    /// larger than that.
    pub(super) fn longest_first(self) -> Vec<Vec<Segment>> {
        let Work {
            pairs,
            n_parts,
            model,
            ..
        } = self;
        let rows = pairs.by_relation();
        let total: u64 = rows.iter().flatten().map(|pair| cost(pair, model)).sum();
        let mean = total / u64::from(n_parts);
        let mut best = self.deal(&rows, u64::MAX);
        let mut pieces_per_mean = 1;
        while best.unevenness(total) > EVEN_ENOUGH && pieces_per_mean <= FINEST {
            let limit = (mean / pieces_per_mean).max(1);
            let finer = self.deal(&rows, limit);
            if finer.largest < best.largest {
                best = finer;
            }
            pieces_per_mean *= 2;
        }
        best.segments
    }

    /// Relations in groups, each group's sources in ranges: rows * columns parts, as near to a
    /// square as the number of parts allows.
    pub(super) fn grid(self) -> Vec<Vec<Segment>> {
        let Work {
            pairs,
            n_parts,
            model,
            ..
        } = self;
        let n_groups = largest_divisor_to_root(n_parts);
        let n_ranges = n_parts / n_groups;
        let groups = Work {
            n_parts: n_groups,
            ..self
        }
        .longest_first();
        // Each group's cost by block, then where its sources are cut.
        let mut by_block = vec![vec![0; self.n_blocks()]; n_groups as usize];
        for pair in pairs.as_slice() {
            let group = owner(&groups[pair.relation as usize], pair.source);
            by_block[group as usize][self.block_of(pair.source)] += cost(pair, model);
        }
        let cuts: Vec<Vec<u32>> = by_block
            .iter()
            .map(|costs| self.borders(balanced_cut(costs, n_ranges)))
            .collect();
        groups.iter().map(|row| cut_row(row, &cuts)).collect()
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

    fn n_blocks(self) -> usize {
        self.pairs.n_nodes().div_ceil(self.block) as usize
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

    /// Longest processing time first over pieces of at most about `limit`.
    fn deal(self, rows: &[Vec<Pair>], limit: u64) -> Dealt {
        let n_parts = self.n_parts;
        let mut pieces = Vec::new();
        for (relation, row) in rows.iter().enumerate() {
            self.cut_relation(relation, row, limit, &mut pieces);
        }
        // Ties keep the order of relations, so the answer does not depend on the sort.
        pieces.sort_by_key(|piece| Reverse(piece.cost));
        let mut parts = Parts::new(n_parts);
        let mut segments: Vec<Vec<Segment>> = vec![Vec::new(); rows.len()];
        for piece in &pieces {
            segments[piece.relation].push(Segment {
                start: piece.start,
                part: parts.add_to_lightest(piece.cost),
            });
        }
        for row in &mut segments {
            row.sort_unstable_by_key(|segment| segment.start);
            row.dedup_by_key(|segment| segment.part);
        }
        Dealt {
            segments,
            largest: parts.largest,
            n_parts,
        }
    }

    /// Cuts a relation into runs of blocks whose cost is at most `limit`, single blocks excepted.
    fn cut_relation(self, relation: usize, row: &[Pair], limit: u64, pieces: &mut Vec<Piece>) {
        let total: u64 = row.iter().map(|pair| cost(pair, self.model)).sum();
        let n_pieces = total.div_ceil(limit).max(1);
        let target = total.div_ceil(n_pieces);
        let mut piece = Piece {
            relation,
            start: 0,
            cost: 0,
        };
        for block in
            row.chunk_by(|one, other| self.block_of(one.source) == self.block_of(other.source))
        {
            let cost: u64 = block.iter().map(|pair| cost(pair, self.model)).sum();
            if piece.cost > 0 && piece.cost + cost > target {
                let next = Piece {
                    relation,
                    start: block[0].source / self.block * self.block,
                    cost: 0,
                };
                pieces.push(std::mem::replace(&mut piece, next));
            }
            piece.cost += cost;
        }
        pieces.push(piece);
    }
}

/// The segments of a relation whose sources are cut like that.
pub(super) fn segments_of_cut(cut: &[u32]) -> Vec<Segment> {
    let n_parts = cut.len() - 1;
    let mut segments: Vec<Segment> = (0..)
        .zip(&cut[..n_parts])
        .map(|(part, &start)| Segment { start, part })
        .collect();
    // Of parts that begin at one source only the last has any.
    segments.dedup_by(|later, earlier| {
        let is_same = later.start == earlier.start;
        if is_same {
            earlier.part = later.part;
        }
        is_same
    });
    segments
}

/// A relation's segments, which are groups of parts, cut where each group's sources are.
fn cut_row(row: &[Segment], cuts: &[Vec<u32>]) -> Vec<Segment> {
    let mut segments = Vec::new();
    for (idx, segment) in row.iter().enumerate() {
        let end = row.get(idx + 1).map_or(u32::MAX, |next| next.start);
        let cut = &cuts[segment.part as usize];
        let n_ranges = cut.len() - 1;
        for range in 0..n_ranges {
            let start = segment.start.max(cut[range]);
            let range_end = match range + 1 == n_ranges {
                true => end,
                false => cut[range + 1].min(end),
            };
            if start < range_end {
                let part = segment.part * n_ranges as u32 + range as u32;
                segments.push(Segment { start, part });
            }
        }
    }
    segments
}

/// Relations, whole or in pieces, on their parts.
struct Dealt {
    segments: Vec<Vec<Segment>>,
    largest: u64,
    n_parts: u32,
}

impl Dealt {
    fn unevenness(&self, total: u64) -> f64 {
        match total {
            0 => 1.0,
            _ => self.largest as f64 * f64::from(self.n_parts) / total as f64,
        }
    }
}

/// A relation's sources from `start` on, up to its next piece.
struct Piece {
    relation: usize,
    start: u32,
    cost: u64,
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

fn owner(row: &[Segment], source: u32) -> u32 {
    let after = row.partition_point(|segment| segment.start <= source);
    row[after - 1].part
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

/// The parts by what they have so far; of equal ones the first is the lightest.
struct Parts {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    largest: u64,
}

impl Parts {
    fn new(n_parts: u32) -> Parts {
        Parts {
            heap: (0..n_parts).map(|part| Reverse((0, part))).collect(),
            largest: 0,
        }
    }

    /// Gives the lightest part some more, and tells which it is.
    fn add_to_lightest(&mut self, cost: u64) -> u32 {
        let Some(Reverse((sum, part))) = self.heap.pop() else {
            return 0;
        };
        self.largest = self.largest.max(sum + cost);
        self.heap.push(Reverse((sum + cost, part)));
        part
    }
}

fn whole(part: u32) -> Vec<Segment> {
    vec![Segment { start: 0, part }]
}

fn largest_divisor_to_root(n: u32) -> u32 {
    (1..=n.isqrt())
        .rev()
        .find(|d| n.is_multiple_of(*d))
        .unwrap_or(1)
}
