//! The methods: each gives every relation its segments of sources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{CostModel, Pair, Pairs, Segment};

/// The unevenness, largest cost over mean, below which no relation is cut any finer.
const EVEN_ENOUGH: f64 = 1.02;

/// Relations are cut into pieces of down to this share of a part's mean.
const FINEST: u64 = 128;

/// Whole relations, most edges first, each to the part with the fewest edges.
pub(super) fn fewest_edges(pairs: &Pairs, n_parts: u32) -> Vec<Vec<Segment>> {
    let edges = edges_by_relation(pairs);
    let mut parts = Parts::new(n_parts);
    let mut segments = vec![Vec::new(); edges.len()];
    for relation in descending(&edges) {
        segments[relation] = whole(parts.add_to_lightest(edges[relation]));
    }
    segments
}

/// Whole relations by their edges, dealt 1..P, P..1, 1..P.
pub(super) fn snake(pairs: &Pairs, n_parts: u32) -> Vec<Vec<Segment>> {
    let edges = edges_by_relation(pairs);
    let mut segments = vec![Vec::new(); edges.len()];
    let n_parts = n_parts as usize;
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

/// Relations by cost, each to the part with the least; where that is uneven, the large ones are cut by source, ever finer.
///
/// A piece of at most a share 1/k of the mean leaves the largest part at most 1 + 1/k of the mean (Graham's bound for longest processing
/// time first), as long as no single source is larger than that.
pub(super) fn longest_first(pairs: &Pairs, n_parts: u32, model: CostModel) -> Vec<Vec<Segment>> {
    let rows = pairs.by_relation();
    let total: u64 = rows.iter().flatten().map(|pair| cost(pair, model)).sum();
    let mean = total / u64::from(n_parts);
    let mut best = deal(&rows, n_parts, u64::MAX, model);
    let mut pieces_per_mean = 1;
    while best.unevenness(total) > EVEN_ENOUGH && pieces_per_mean <= FINEST {
        let limit = (mean / pieces_per_mean).max(1);
        let finer = deal(&rows, n_parts, limit, model);
        if finer.largest < best.largest {
            best = finer;
        }
        pieces_per_mean *= 2;
    }
    best.segments
}

/// Relations in groups, each group's sources in ranges: rows * columns parts, as near to a square as the number of parts allows.
pub(super) fn grid(pairs: &Pairs, n_parts: u32, model: CostModel) -> Vec<Vec<Segment>> {
    let n_groups = largest_divisor_to_root(n_parts);
    let n_ranges = n_parts / n_groups;
    let groups = longest_first(pairs, n_groups, model);
    // Each group's cost by source, then where its sources are cut.
    let n_nodes = pairs.n_nodes() as usize;
    let mut by_source = vec![vec![0; n_nodes]; n_groups as usize];
    for pair in pairs.as_slice() {
        let group = owner(&groups[pair.relation as usize], pair.source);
        by_source[group as usize][pair.source as usize] += cost(pair, model);
    }
    let cuts: Vec<Vec<u32>> = by_source
        .iter()
        .map(|costs| balanced_cut(costs, n_ranges))
        .collect();
    let cut_row = |row: &Vec<Segment>| {
        let mut segments = Vec::new();
        for (idx, segment) in row.iter().enumerate() {
            let end = row.get(idx + 1).map_or(u32::MAX, |next| next.start);
            let cut = &cuts[segment.part as usize];
            for range in 0..n_ranges {
                let start = segment.start.max(cut[range as usize]);
                let is_last = range + 1 == n_ranges;
                let range_end = if is_last {
                    end
                } else {
                    cut[range as usize + 1].min(end)
                };
                if start < range_end {
                    let part = segment.part * n_ranges + range;
                    segments.push(Segment { start, part });
                }
            }
        }
        segments
    };
    groups.iter().map(cut_row).collect()
}

/// Borders of ranges of sources of nearly one cost, self loops counted.
pub(super) fn source_cut(pairs: &Pairs, n_parts: u32, model: CostModel) -> Vec<u32> {
    let mut costs = vec![model.own_loop(); pairs.n_nodes() as usize];
    for pair in pairs.as_slice() {
        costs[pair.source as usize] += cost(pair, model);
    }
    balanced_cut(&costs, n_parts)
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

/// Longest processing time first over pieces of at most about `limit`.
fn deal(rows: &[Vec<Pair>], n_parts: u32, limit: u64, model: CostModel) -> Dealt {
    let mut pieces = Vec::new();
    for (relation, row) in rows.iter().enumerate() {
        cut_relation(relation, row, limit, model, &mut pieces);
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

/// Cuts a relation into runs of sources whose cost is at most `limit`, single sources excepted.
fn cut_relation(
    relation: usize,
    row: &[Pair],
    limit: u64,
    model: CostModel,
    pieces: &mut Vec<Piece>,
) {
    let total: u64 = row.iter().map(|pair| cost(pair, model)).sum();
    let n_pieces = total.div_ceil(limit).max(1);
    let target = total.div_ceil(n_pieces);
    let mut piece = Piece {
        relation,
        start: 0,
        cost: 0,
    };
    for pair in row {
        let cost = cost(pair, model);
        if piece.cost > 0 && piece.cost + cost > target {
            let next = Piece {
                relation,
                start: pair.source,
                cost: 0,
            };
            pieces.push(std::mem::replace(&mut piece, next));
        }
        piece.cost += cost;
    }
    pieces.push(piece);
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
