//! A chunk of edges: scores of sources by candidates, the softmax, and the gradients of both.

use shardgraph_device::{Buffer, Device, MatMul};
use shardgraph_ops::matmul;

use crate::Error;

const OP: &str = "line softmax";

/// Edges that share their candidates, with the working memory of their gradients.
///
/// Candidate `i` is the target of edge `i`; uniform negatives come behind the targets.
pub(super) struct Chunk {
    device: Device,
    dim: usize,
    n_edges: usize,
    /// The sources, then the candidates.
    nodes: Vec<u32>,
    /// `[edges, dim]`, `[candidates, dim]`.
    sources: Buffer,
    candidates: Buffer,
    /// `[edges, candidates]`: scores, then the slopes of the loss by them.
    scores: Buffer,
    /// Gradients, in the shapes of the rows.
    of_sources: Buffer,
    of_candidates: Buffer,
    /// Of all edges, summed.
    loss: f64,
}

impl Chunk {
    /// Memory for chunks of rows of `dim` numbers.
    pub(super) fn new(dim: usize) -> Chunk {
        let empty = || Buffer::from(Vec::new());
        Chunk {
            device: Device::host(),
            dim,
            n_edges: 0,
            nodes: Vec::new(),
            sources: empty(),
            candidates: empty(),
            scores: empty(),
            of_sources: empty(),
            of_candidates: empty(),
            loss: 0.0,
        }
    }

    /// Takes other edges and negatives.
    pub(super) fn fill(&mut self, edges: &[[u32; 2]], negatives: impl Iterator<Item = u32>) {
        self.n_edges = edges.len();
        self.nodes.clear();
        self.nodes.extend(edges.iter().map(|edge| edge[0]));
        self.nodes.extend(edges.iter().map(|edge| edge[1]));
        self.nodes.extend(negatives);
    }

    /// The nodes that have a gradient: sources, then candidates. A node may be there several times.
    pub(super) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The gradient of node `idx` of [`Chunk::nodes`].
    pub(super) fn gradient(&self, idx: usize) -> Result<&[f32], Error> {
        let (rows, idx) = match idx.checked_sub(self.n_edges) {
            None => (&self.of_sources, idx),
            Some(idx) => (&self.of_candidates, idx),
        };
        Ok(&rows.on_host(OP)?[idx * self.dim..][..self.dim])
    }

    /// The sum of the edges' losses at the last [`Chunk::gradients`].
    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    /// The gradients of the sum of `-ln softmax(source . candidate)` of the true targets.
    ///
    /// # Shapes
    /// `rows` has `dim` numbers for each node.
    pub(super) fn gradients(&mut self, rows: &[f32]) -> Result<(), Error> {
        let (n, dim) = (self.n_edges, self.dim);
        let n_candidates = self.nodes.len() - n;
        let (sources, candidates) = self.nodes.split_at(n);
        gather(rows, sources, resized(&mut self.sources, n * dim)?);
        let gathered = resized(&mut self.candidates, n_candidates * dim)?;
        gather(rows, candidates, gathered);
        resized(&mut self.scores, n * n_candidates)?;
        resized(&mut self.of_sources, n * dim)?;
        resized(&mut self.of_candidates, n_candidates * dim)?;
        let shape = |rows, inner, cols, transpose_a, transpose_b| MatMul {
            rows,
            inner,
            cols,
            transpose_a,
            transpose_b,
        };
        let device = &self.device;
        let by_candidates = shape(n, dim, n_candidates, false, true);
        let (sources, candidates) = (&self.sources, &self.candidates);
        matmul(device, by_candidates, sources, candidates, &mut self.scores)?;
        self.loss = slopes(self.scores.on_host_mut(OP)?, &self.nodes[n..]);
        let of_sources = shape(n, n_candidates, dim, false, false);
        let scores = &self.scores;
        matmul(device, of_sources, scores, candidates, &mut self.of_sources)?;
        let of_candidates = shape(n_candidates, n, dim, true, false);
        let target = &mut self.of_candidates;
        matmul(device, of_candidates, scores, sources, target)?;
        Ok(())
    }
}

/// Turns each edge's scores into the slopes of its loss: the softmax, less one for its target.
/// Gives the sum of the losses.
fn slopes(scores: &mut [f32], candidates: &[u32]) -> f64 {
    let mut loss = 0.0;
    for (edge, scores) in scores.chunks_exact_mut(candidates.len()).enumerate() {
        let target = candidates[edge];
        for (idx, (score, &candidate)) in scores.iter_mut().zip(candidates).enumerate() {
            if candidate == target && idx != edge {
                *score = f32::NEG_INFINITY;
            }
        }
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (mut sum, of_target) = (0.0, scores[edge] - largest);
        for score in &mut *scores {
            *score = (*score - largest).exp();
            sum += *score;
        }
        loss += f64::from(sum.ln() - of_target);
        let factor = 1.0 / sum;
        scores.iter_mut().for_each(|score| *score *= factor);
        scores[edge] -= 1.0;
    }
    loss
}

fn gather(rows: &[f32], nodes: &[u32], to: &mut [f32]) {
    let Some(dim) = to.len().checked_div(nodes.len()) else {
        return;
    };
    for (&node, to) in nodes.iter().zip(to.chunks_exact_mut(dim)) {
        to.copy_from_slice(&rows[node as usize * dim..][..dim]);
    }
}

/// The numbers of a buffer, which has `len` of them from now on.
fn resized(buffer: &mut Buffer, len: usize) -> Result<&mut [f32], Error> {
    if buffer.len() != len {
        let old = std::mem::replace(buffer, Buffer::from(Vec::new()));
        let mut numbers = old.into_host().unwrap_or_default();
        numbers.resize(len, 0.0);
        *buffer = Buffer::from(numbers);
    }
    Ok(buffer.on_host_mut(OP)?)
}
