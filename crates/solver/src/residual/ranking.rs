//! The best candidates of a graph that changes a little with each pick.
//!
//! Scores follow from degree, neighbour degree and the scale of degrees. While the scale stays, a pick changes the scores of the nodes
//! around it alone, and a tournament over the scores finds the next one; a new scale changes all.

use shardgraph_layers::ScoreTable;

use super::degree_order::DegreeOrder;
use super::degrees::Degrees;
use crate::max_tree::MaxTree;
use crate::select::TopD;

/// The mark of a sum whose change must be told.
const WATCHED: u64 = 1 << 63;
/// A search through at most so many candidates costs less than keeping their scores.
const SHORT_WALK: usize = 64;
/// Searches before scores are kept again, where too many of them changed at once.
const WALKS_AFTER_GIVING_UP: u32 = 16;

/// Neighbour degrees of own nodes; meaningless (and wrapping) for nodes without a residual edge.
#[derive(Debug, Default)]
pub(super) struct NeighborDegrees {
    /// The sums, below the mark.
    values: Vec<u64>,
    /// The watched nodes whose sums have changed; they are watched no more.
    changed: Vec<u32>,
}

impl NeighborDegrees {
    pub(super) fn new(values: Vec<u64>) -> Self {
        let changed = Vec::new();
        Self { values, changed }
    }

    /// True where nothing is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, local: u32) -> u64 {
        self.values[local as usize] & !WATCHED
    }

    #[inline]
    pub(super) fn lower(&mut self, local: u32, by: u64) {
        let value = &mut self.values[local as usize];
        *value = value.wrapping_sub(by);
        if *value & WATCHED != 0 {
            *value &= !WATCHED;
            self.changed.push(local);
        }
    }

    /// Watched nodes whose sums have changed since they were taken last.
    pub(super) fn n_changed(&self) -> usize {
        self.changed.len()
    }

    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn watch(&mut self, local: u32) {
        self.values[local as usize] |= WATCHED;
    }

    fn forget(&mut self, local: u32) {
        self.values[local as usize] &= !WATCHED;
    }
}

/// One rank's view of its own nodes: what scores follow from.
pub(super) struct Scored<'a> {
    pub(super) degrees: &'a Degrees,
    pub(super) order: &'a DegreeOrder,
    /// The first own node.
    pub(super) first: u32,
    pub(super) table: &'a ScoreTable,
    pub(super) scale: f32,
}

impl Scored<'_> {
    #[inline]
    fn degree(&self, local: u32) -> u32 {
        self.degrees.get((self.first + local) as usize)
    }

    #[inline]
    fn score(&self, degree: u32, d2: u64, hint: &mut usize) -> f32 {
        // d2 < 2^63 on any graph that fits in memory, and the signed conversion is one instruction.
        let x = degree as f32 * self.scale;
        let y = d2 as i64 as f32 * (self.scale * self.scale);
        self.table.score_near(x, y, hint)
    }

    /// No score divided by its scaled degree exceeds this: no mean neighbour degree exceeds the largest degree.
    fn bound(&self) -> f32 {
        let largest_ratio = self.degrees.max() as f32 * self.scale;
        self.table
            .bound_per_degree(largest_ratio * (1.0 + 4.0 * f32::EPSILON))
    }

    /// Whether a node of this degree can be among the best; with a negative bound the smaller degrees could be better, so then all can.
    #[inline]
    fn is_worthwhile(&self, degree: u32, bound: f32, bar: f32) -> bool {
        let most = degree as f32 * self.scale * bound * (1.0 + 4.0 * f32::EPSILON);
        bound <= 0.0 || most >= bar
    }
}

/// The scores of the candidates of large degree, for one scale.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    scale: f32,
    /// The largest degree that `bound` is for.
    max_degree: u32,
    bound: f32,
    /// Whether `scores` hold; else each search walks.
    is_kept: bool,
    /// All candidates of at least this degree are in `scores`.
    lowest: u32,
    scores: MaxTree,
    /// All nodes in `scores`, and some that were.
    kept: Vec<u32>,
    /// Candidates that the last walk saw.
    n_walked: usize,
    /// Walks to come before scores are kept.
    n_walks: u32,
}

impl Ranking {
    /// Offers the best own candidates. The work is that of the nodes that have changed since the last call, or of a walk by falling degree
    /// where that is less.
    pub(super) fn offer(&mut self, scored: &Scored<'_>, d2: &mut NeighborDegrees, top: &mut TopD) {
        let is_new = self.scale.to_bits() != scored.scale.to_bits();
        if is_new || self.max_degree != scored.degrees.max() {
            self.max_degree = scored.degrees.max();
            self.bound = scored.bound();
        }
        let has_changed_much = self.is_kept && 4 * d2.n_changed() > self.kept.len();
        if is_new || has_changed_much {
            self.forget(d2);
            self.scale = scored.scale;
            self.n_walks = if is_new { 0 } else { WALKS_AFTER_GIVING_UP };
            self.n_walked = 0;
        }
        if !self.is_kept && (self.n_walks > 0 || self.n_walked <= SHORT_WALK) {
            self.n_walks = self.n_walks.saturating_sub(1);
            self.n_walked = self.walk(scored, d2, top);
            return;
        }
        if !self.is_kept {
            self.is_kept = true;
            self.lowest = self.max_degree + 1;
            if self.scores.n_places() < d2.values.len() {
                self.scores = MaxTree::new(d2.values.len());
            }
        }
        self.settle(scored, d2);
        self.search(scored, d2, top);
    }

    /// The picked node is a candidate no more.
    pub(super) fn drop_node(&mut self, local: u32, d2: &mut NeighborDegrees) {
        if self.is_kept {
            d2.forget(local);
            self.scores.unset(local as usize);
        }
    }

    fn forget(&mut self, d2: &mut NeighborDegrees) {
        if self.is_kept {
            self.kept.iter().for_each(|&local| d2.forget(local));
            self.kept.clear();
            self.scores.clear();
            d2.take_changed();
            self.is_kept = false;
        }
    }

    /// Goes through the candidates by falling degree as long as a score can be good enough; gives their number.
    fn walk(&self, scored: &Scored<'_>, d2: &NeighborDegrees, top: &mut TopD) -> usize {
        let (mut hint, mut n_walked) = (0, 0);
        for local in scored.order.falling() {
            let degree = scored.degree(local);
            if !scored.is_worthwhile(degree, self.bound, top.bar()) {
                break;
            }
            n_walked += 1;
            let score = scored.score(degree, d2.get(local), &mut hint);
            top.offer(score, scored.first + local);
        }
        n_walked
    }

    /// Brings the scores of changed nodes up to date.
    fn settle(&mut self, scored: &Scored<'_>, d2: &mut NeighborDegrees) {
        let mut hint = 0;
        for local in d2.take_changed() {
            let degree = scored.degree(local);
            if degree < self.lowest {
                self.scores.unset(local as usize);
                continue;
            }
            let score = scored.score(degree, d2.get(local), &mut hint);
            self.scores.set(local as usize, score);
            d2.watch(local);
        }
    }

    /// Takes the best of the kept scores, and keeps those of smaller degrees as long as one can be good enough.
    fn search(&mut self, scored: &Scored<'_>, d2: &mut NeighborDegrees, top: &mut TopD) {
        loop {
            top.clear();
            self.scores.for_best(top.n_wanted(), |score, local| {
                top.offer(score, scored.first + local as u32);
            });
            let mut n_kept = 0;
            while n_kept == 0
                && self.lowest > 1
                && scored.is_worthwhile(self.lowest - 1, self.bound, top.bar())
            {
                self.lowest -= 1;
                n_kept = self.keep(scored, d2);
            }
            if n_kept == 0 {
                return;
            }
        }
    }

    /// Keeps the scores of the candidates of degree `lowest`; gives their number.
    fn keep(&mut self, scored: &Scored<'_>, d2: &mut NeighborDegrees) -> usize {
        let locals = scored.order.of_degree(self.lowest);
        let are_many = 64 * locals.len() > self.scores.n_places();
        let mut hint = 0;
        for &local in locals {
            let score = scored.score(self.lowest, d2.get(local), &mut hint);
            d2.watch(local);
            match are_many {
                true => self.scores.set_for_rebuild(local as usize, score),
                false => self.scores.set(local as usize, score),
            }
        }
        if are_many {
            self.scores.rebuild();
        }
        self.kept.extend_from_slice(locals);
        locals.len()
    }
}
