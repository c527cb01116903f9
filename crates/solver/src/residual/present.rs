//! The best present nodes of a problem whose scores follow from its residual graph alone, kept from pick to pick.

use std::ops::Range;

use shardgraph_graph::Graph;
use shardgraph_layers::ScoreTable;

use super::degrees::Degrees;
use super::ranking::NeighborDegrees;
use crate::AdjacencyScale;
use crate::max_tree::MaxTree;
use crate::problem::ResidualGraph;
use crate::select::TopD;

/// A rank's own nodes with their degrees, neighbour degrees and scores.
///
/// A pick costs the neighbours of the nodes that it removes and their neighbours, each at most once, and a new largest degree costs all
/// present nodes: their scores change with the scale of degrees.
pub(crate) struct PresentScores {
    own: Range<u32>,
    /// Of all nodes.
    degrees: Degrees,
    d2: NeighborDegrees,
    /// The own nodes that were present when all were scored last.
    present: Vec<u32>,
    scores: MaxTree,
    /// The scale of `scores`; absent before the first search.
    scale: Option<f32>,
    /// Removals that have been counted.
    n_removals: usize,
    /// Edges that a node has lost to the removals that are being counted; zero otherwise.
    n_lost: Vec<u32>,
    /// The present nodes that have lost edges.
    touched: Vec<u32>,
}

impl PresentScores {
    /// The whole graph, of which nothing was removed yet.
    pub(crate) fn new(graph: &Graph, own: Range<u32>) -> Self {
        let degrees = graph.degrees();
        let d2 = own.clone().map(|v| {
            let neighbors = graph.neighbors(v).iter();
            neighbors.map(|&u| u64::from(degrees[u as usize])).sum()
        });
        Self {
            d2: NeighborDegrees::new(d2.collect()),
            present: own.clone().collect(),
            scores: MaxTree::new(own.len()),
            n_lost: vec![0; degrees.len()],
            degrees: Degrees::new(degrees),
            own,
            scale: None,
            n_removals: 0,
            touched: Vec::new(),
        }
    }

    /// Counts what was removed since the last call.
    pub(crate) fn update(&mut self, residual: &ResidualGraph) {
        let graph = residual.graph();
        for &gone in &residual.removals()[self.n_removals..] {
            let degree = u64::from(self.degrees.get(gone as usize));
            for &u in graph.neighbors(gone) {
                if !residual.is_present(u) {
                    continue;
                }
                let n_lost = &mut self.n_lost[u as usize];
                if *n_lost == 0 {
                    self.touched.push(u);
                }
                *n_lost += 1;
                if self.own.contains(&u) {
                    self.d2.lower(u - self.own.start, degree);
                }
            }
            self.degrees.clear(gone as usize);
            if self.own.contains(&gone) {
                self.scores.unset((gone - self.own.start) as usize);
            }
        }
        self.n_removals = residual.removals().len();
        for &u in &self.touched {
            let n_lost = std::mem::take(&mut self.n_lost[u as usize]);
            self.degrees.lower(u as usize, n_lost);
            for &w in graph.neighbors(u) {
                if self.own.contains(&w) && residual.is_present(w) {
                    self.d2.lower(w - self.own.start, u64::from(n_lost));
                }
            }
        }
        self.touched.clear();
    }

    /// Offers the best own nodes.
    pub(crate) fn offer(
        &mut self,
        residual: &ResidualGraph,
        table: &ScoreTable,
        scale: AdjacencyScale,
        top: &mut TopD,
    ) {
        let scale = scale.of(self.degrees.max());
        let same = |old: f32| old.to_bits() == scale.to_bits();
        let are_few = 8 * self.d2.n_changed() < self.present.len();
        if self.scale.is_some_and(same) && are_few {
            self.score_changed(residual, table, scale);
        } else {
            self.score_all(residual, table, scale);
        }
        let first = self.own.start;
        self.scores.for_best(top.n_wanted(), |score, local| {
            top.offer(score, first + local as u32);
        });
    }

    fn score_changed(&mut self, residual: &ResidualGraph, table: &ScoreTable, scale: f32) {
        let mut hint = 0;
        for local in self.d2.take_changed() {
            let node = self.own.start + local;
            if residual.is_present(node) {
                let score = self.score(node, table, scale, &mut hint);
                self.scores.set(local as usize, score);
                self.d2.watch(local);
            }
        }
    }

    fn score_all(&mut self, residual: &ResidualGraph, table: &ScoreTable, scale: f32) {
        self.scale = Some(scale);
        self.d2.take_changed();
        let mut present = std::mem::take(&mut self.present);
        present.retain(|&node| residual.is_present(node));
        let mut hint = 0;
        for &node in &present {
            let score = self.score(node, table, scale, &mut hint);
            let local = node - self.own.start;
            self.scores.set_for_rebuild(local as usize, score);
            self.d2.watch(local);
        }
        self.present = present;
        self.scores.rebuild();
    }

    #[inline]
    fn score(&self, node: u32, table: &ScoreTable, scale: f32, hint: &mut usize) -> f32 {
        let degree = self.degrees.get(node as usize) as f32 * scale;
        let d2 = self.d2.get(node - self.own.start) as f32 * (scale * scale);
        table.score_near(degree, d2, hint)
    }
}
