//! The reference: an episode in plain loops over the neighbours.

use shardgraph_device::Error;
use shardgraph_ops::ResidentAdjacency;

use super::host_graph::HostGraph;
use super::rules::{Progress, Rules, Scale, Select};

/// An episode in host memory.
#[derive(Debug)]
pub(super) struct HostEpisode<'a> {
    graph: HostGraph<'a>,
    /// `(start, alpha, beta)` of each piece.
    pieces: Vec<(f32, f32, f32)>,
    scale: Scale,
    select: Select,
    keep_isolated: bool,
    degree: Vec<u32>,
    d2: Vec<u64>,
    cover: Vec<u32>,
    n_steps: u32,
    /// The best candidates that the next step passes over.
    n_passed: usize,
}

impl<'a> HostEpisode<'a> {
    pub(super) fn start(graph: &'a ResidentAdjacency, rules: Rules<'_>) -> Result<Self, Error> {
        let n_nodes = graph.n_nodes()? as usize;
        let graph = HostGraph::new(graph)?;
        let (mut degree, mut d2) = (vec![0u32; n_nodes], vec![0u64; n_nodes]);
        for (node, degree) in degree.iter_mut().enumerate() {
            graph.for_each_neighbor(node, |_| *degree += 1);
        }
        for (node, d2) in d2.iter_mut().enumerate() {
            graph.for_each_neighbor(node, |u| *d2 += u64::from(degree[u]));
        }
        let score = rules.score;
        let factors = score.alpha.iter().zip(score.beta);
        let pieces = score.starts.iter().zip(factors);
        Ok(Self {
            graph,
            pieces: pieces.map(|(&t, (&a, &b))| (t, a, b)).collect(),
            scale: rules.scale,
            select: rules.select,
            keep_isolated: rules.keep_isolated,
            degree,
            d2,
            cover: Vec::new(),
            n_steps: 0,
            n_passed: 0,
        })
    }

    pub(super) fn cover(&self) -> &[u32] {
        &self.cover
    }

    /// Residual degrees and neighbour degrees.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (Vec<u32>, Vec<u64>) {
        (self.degree.clone(), self.d2.clone())
    }

    pub(super) fn pass_over(&mut self, n_nodes: u32) {
        self.n_passed = n_nodes.min(self.n_candidates().saturating_sub(1)) as usize;
    }

    /// One step.
    pub(super) fn advance(&mut self) -> Progress {
        let n_candidates = self.n_candidates();
        if n_candidates > 0 {
            let n_picks = self.select.n_picks(n_candidates, self.degree.len() as u32);
            let n_passed = std::mem::take(&mut self.n_passed);
            let best = self.best(n_passed + n_picks as usize);
            for &(_, node) in &best[n_passed..] {
                if self.degree[node] > 0 || self.keep_isolated {
                    self.remove(node);
                }
            }
            self.n_steps += 1;
        }
        self.progress()
    }

    pub(super) fn progress(&self) -> Progress {
        let n_candidates = self.n_candidates();
        Progress {
            n_candidates,
            n_cover: self.cover.len() as u32,
            n_steps: self.n_steps,
            is_done: n_candidates == 0,
        }
    }

    fn n_candidates(&self) -> u32 {
        self.degree.iter().filter(|&&degree| degree > 0).count() as u32
    }

    /// The best candidates with their scores, best first, the lower node first where scores are equal.
    fn best(&self, n_picks: usize) -> Vec<(f32, usize)> {
        let largest = self.degree.iter().copied().max().unwrap_or(0).max(1);
        let scale = match self.scale {
            Scale::One => 1.0,
            Scale::LargestDegree => 1.0 / largest as f32,
        };
        let candidates = (0..self.degree.len()).filter(|&node| self.degree[node] > 0);
        let mut scored: Vec<(f32, usize)> = candidates
            .map(|node| {
                let x = self.degree[node] as f32 * scale;
                let y = self.d2[node] as i64 as f32 * (scale * scale);
                // The sum turns -0 into 0; what is no number counts as the smallest score.
                (self.score(x, y).max(f32::MIN) + 0.0, node)
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(n_picks);
        scored
    }

    fn score(&self, x: f32, y: f32) -> f32 {
        let starts_before = |piece: &(f32, f32, f32)| y >= piece.0 * x;
        let last = self.pieces.iter().rposition(starts_before).unwrap_or(0);
        let (_, alpha, beta) = self.pieces[last];
        alpha * x + beta * y
    }

    fn remove(&mut self, node: usize) {
        let graph = self.graph;
        let degree = u64::from(self.degree[node]);
        self.degree[node] = 0;
        self.cover.push(node as u32);
        graph.for_each_neighbor(node, |u| {
            if self.degree[u] == 0 {
                return;
            }
            self.degree[u] -= 1;
            self.d2[u] = self.d2[u].wrapping_sub(degree);
            graph.for_each_neighbor(u, |w| self.d2[w] = self.d2[w].wrapping_sub(1));
        });
    }
}
