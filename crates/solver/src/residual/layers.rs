//! The best present nodes of a problem by a policy of three or more layers, on one rank: from pick to pick only the rows whose inputs changed are
//! computed anew.

use shardgraph_graph::Graph;
use shardgraph_layers::RowProgram;
use shardgraph_shard::block_rows;

use super::degrees::Degrees;
use crate::max_tree::MaxTree;
use crate::problem::ResidualGraph;
use crate::select::TopD;
use crate::{AdjacencyScale, Error};

/// The embeddings of all nodes after every layer, and the scores.
///
/// A pick costs the nodes within L steps of the neighbours of what it removes, and their edges, each with K numbers; a new largest degree costs all present
/// nodes.
///
/// Memory: `4 (L + 1) K` B a node.
pub(crate) struct LayerScores {
    program: RowProgram,
    degrees: Degrees,
    d2: Vec<u64>,
    /// `[n_nodes, K]`: what each layer of a node begins with.
    base: Vec<f32>,
    /// `[n_nodes, K]` each: the embeddings after layers 2 to L.
    embeds: Vec<Vec<f32>>,
    /// `[n_nodes, K]`: the hidden rows of the head.
    hidden: Vec<f32>,
    scores: MaxTree,
    /// The scale of `embeds`; absent before the first search.
    scale: Option<f32>,
    /// Removals that have been counted.
    n_removals: usize,
    /// Whether only nodes with an edge have scores.
    needs_edge: bool,
    /// Edges that a node has lost to the removals that are being counted; zero otherwise.
    n_lost: Vec<u32>,
    /// Nodes whose first layers have changed.
    changed: MarkedNodes,
}

/// A set of nodes in the order in which they came.
struct MarkedNodes {
    nodes: Vec<u32>,
    is_in: Vec<bool>,
}

impl MarkedNodes {
    fn new(n_nodes: usize) -> Self {
        Self {
            nodes: Vec::new(),
            is_in: vec![false; n_nodes],
        }
    }

    fn add(&mut self, node: u32) {
        if !std::mem::replace(&mut self.is_in[node as usize], true) {
            self.nodes.push(node);
        }
    }

    /// Drops the nodes that are gone, and adds the present neighbours of the others.
    fn expand(&mut self, residual: &ResidualGraph) {
        let graph = residual.graph();
        for i in 0..self.nodes.len() {
            for &u in graph.neighbors(self.nodes[i]) {
                if residual.is_present(u) {
                    self.add(u);
                }
            }
        }
    }

    fn keep(&mut self, stays: impl Fn(u32) -> bool) {
        let is_in = &mut self.is_in;
        self.nodes.retain(|&node| {
            is_in[node as usize] = stays(node);
            is_in[node as usize]
        });
    }

    fn clear(&mut self) {
        for node in self.nodes.drain(..) {
            self.is_in[node as usize] = false;
        }
    }
}

impl LayerScores {
    /// The whole graph, of which nothing was removed yet.
    pub(crate) fn new(graph: &Graph, program: RowProgram, needs_edge: bool) -> Self {
        let n_nodes = graph.n_nodes() as usize;
        let degrees = graph.degrees();
        let d2 = (0..graph.n_nodes()).map(|v| {
            let neighbors = graph.neighbors(v).iter();
            neighbors.map(|&u| u64::from(degrees[u as usize])).sum()
        });
        let rows = || vec![0.0; n_nodes * program.embed_dim()];
        Self {
            d2: d2.collect(),
            base: rows(),
            embeds: (2..=program.n_layers()).map(|_| rows()).collect(),
            hidden: rows(),
            scores: MaxTree::new(n_nodes),
            scale: None,
            n_removals: 0,
            needs_edge,
            n_lost: vec![0; n_nodes],
            changed: MarkedNodes::new(n_nodes),
            degrees: Degrees::new(degrees),
            program,
        }
    }

    /// Present nodes, of which only those with an edge count where scores are of these.
    pub(crate) fn n_candidates(&self, residual: &ResidualGraph) -> u32 {
        match self.needs_edge {
            true => self.degrees.n_candidates(),
            false => residual.n_present(),
        }
    }

    /// Counts what was removed since the last call.
    pub(crate) fn update(&mut self, residual: &ResidualGraph) {
        let graph = residual.graph();
        let mut touched = Vec::new();
        for &gone in &residual.removals()[self.n_removals..] {
            let degree = u64::from(self.degrees.get(gone as usize));
            for &u in graph.neighbors(gone) {
                if !residual.is_present(u) {
                    continue;
                }
                let n_lost = &mut self.n_lost[u as usize];
                if *n_lost == 0 {
                    touched.push(u);
                }
                *n_lost += 1;
                self.d2[u as usize] -= degree;
            }
            self.degrees.clear(gone as usize);
            self.scores.unset(gone as usize);
        }
        self.n_removals = residual.removals().len();
        for u in touched {
            let n_lost = std::mem::take(&mut self.n_lost[u as usize]);
            self.degrees.lower(u as usize, n_lost);
            if self.needs_edge && self.degrees.get(u as usize) == 0 {
                self.scores.unset(u as usize);
            }
            self.changed.add(u);
            for &w in graph.neighbors(u) {
                if residual.is_present(w) {
                    self.d2[w as usize] -= u64::from(n_lost);
                    self.changed.add(w);
                }
            }
        }
    }

    /// Offers the best nodes; false where a score is no number.
    pub(crate) fn offer(
        &mut self,
        residual: &ResidualGraph,
        scale: AdjacencyScale,
        top: &mut TopD,
    ) -> Result<bool, Error> {
        let scale = scale.of(self.degrees.max());
        let is_same = |old: f32| old.to_bits() == scale.to_bits();
        if !self.scale.is_some_and(is_same) {
            self.scale = Some(scale);
            (0..residual.removed().len() as u32).for_each(|node| self.changed.add(node));
        }
        let (degrees, needs_edge) = (&self.degrees, self.needs_edge);
        let is_scored = |v: u32| !needs_edge || degrees.get(v as usize) > 0;
        self.changed
            .keep(|v| residual.is_present(v) && is_scored(v));
        self.first_layers(scale)?;
        for layer in 1..self.embeds.len() {
            self.changed.expand(residual);
            self.later_layer(layer, residual, scale)?;
        }
        let all_finite = self.score()?;
        self.changed.clear();
        self.scores
            .for_best(top.n_wanted(), |score, node| top.offer(score, node as u32));
        Ok(all_finite)
    }

    fn first_layers(&mut self, scale: f32) -> Result<(), Error> {
        let nodes = self.changed.nodes.iter().map(|&node| node as usize);
        let degrees = nodes.clone().map(|v| self.degrees.get(v) as f32 * scale);
        let d2 = nodes.map(|v| self.d2[v] as f32 * (scale * scale));
        let degrees: Vec<f32> = degrees.collect();
        let first = self.program.first_layers(&degrees, d2.collect())?;
        scatter(&self.changed.nodes, &first.base, &mut self.base);
        scatter(&self.changed.nodes, &first.embed, &mut self.embeds[0]);
        Ok(())
    }

    fn later_layer(
        &mut self,
        layer: usize,
        residual: &ResidualGraph,
        scale: f32,
    ) -> Result<(), Error> {
        let k = self.program.embed_dim();
        let nodes = &self.changed.nodes;
        let mut sums = vec![0.0; nodes.len() * k];
        for (&v, sum) in nodes.iter().zip(sums.chunks_exact_mut(k)) {
            for &u in residual.graph().neighbors(v) {
                if residual.is_present(u) {
                    let row = &self.embeds[layer - 1][u as usize * k..][..k];
                    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                }
            }
            sum.iter_mut().for_each(|sum| *sum *= scale);
        }
        let base = gather(nodes, k, &self.base);
        let rows = self.program.later_layer(&base, sums)?;
        scatter(nodes, &rows, &mut self.embeds[layer]);
        Ok(())
    }

    /// The scores of the changed nodes; false where one is no number.
    fn score(&mut self) -> Result<bool, Error> {
        let k = self.program.embed_dim();
        let nodes = &mut self.changed.nodes;
        nodes.sort_unstable();
        let last = &self.embeds[self.embeds.len() - 1];
        let hidden = self.program.hidden(gather(nodes, k, last))?;
        scatter(nodes, &hidden, &mut self.hidden);
        let n_nodes = self.n_lost.len();
        let block = block_rows(n_nodes as u32).max(1) as usize;
        let mut all_finite = true;
        for of_block in nodes.chunk_by(|&u, &v| u as usize / block == v as usize / block) {
            let start = of_block[0] as usize / block * block;
            let end = (start + block).min(n_nodes);
            let scores = self.program.scores(&self.hidden[start * k..end * k])?;
            for &node in of_block {
                let score = scores[node as usize - start];
                all_finite &= score.is_finite();
                self.scores.set(node as usize, score);
            }
        }
        Ok(all_finite)
    }
}

/// The rows of some nodes, of `[n_nodes, k]`.
fn gather(nodes: &[u32], k: usize, rows: &[f32]) -> Vec<f32> {
    let rows = nodes.iter().map(|&node| &rows[node as usize * k..][..k]);
    rows.collect::<Vec<_>>().concat()
}

/// Puts rows in the places of their nodes.
fn scatter(nodes: &[u32], rows: &[f32], out: &mut [f32]) {
    let k = rows.len() / nodes.len().max(1);
    for (&node, row) in nodes.iter().zip(rows.chunks_exact(k.max(1))) {
        out[node as usize * k..][..k].copy_from_slice(row);
    }
}
