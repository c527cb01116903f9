//! Training by the softmax loss: an edge's target against negatives that a chunk of edges shares.
//!
//! One table has both ends. A chunk of edges is three dense products: scores of its sources by its
//! candidates, which are its own targets and nodes drawn uniformly, and the gradients of both. The
//! chunks of a step see the same rows, and are worked on by any thread; then each row takes one
//! Adagrad step along the sum of its gradients, in the chunks' order. So threads change no bit.

mod chunk;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use super::clock::{Clock, WorkTime};
use super::warm_start::WarmStart;
use super::worker_pool::WorkerPool;
use super::{PassReport, Progress, row_norm};
use crate::{Config, Error};
use chunk::Chunk;

/// Chunks of a step: as many threads as this can share it.
const CHUNKS: usize = 16;
/// Standard deviation of the rows at the start.
const INITIAL_SCALE: f64 = 1e-3;
/// Pieces of the rows of a step, each updated by one thread.
const PIECES: usize = 16;

/// A training that can go on: two calls of [`SoftmaxTraining::train_to`] give the bits of one.
pub(crate) struct SoftmaxTraining {
    /// In the order of the last epoch.
    edges: Vec<[u32; 2]>,
    trainer: Trainer,
    clock: Clock,
    epochs: u32,
    samples: u64,
}

impl SoftmaxTraining {
    /// The training of a graph, before its first epoch. `config` has been checked.
    pub(super) fn new(
        graph: &Graph,
        config: &Config,
        warm_start: Option<&WarmStart<'_>>,
    ) -> SoftmaxTraining {
        let mut trainer = Trainer::new(graph.n_nodes(), config);
        trainer.start_from(warm_start);
        SoftmaxTraining {
            edges: graph.edges().map(|(u, v)| [u, v]).collect(),
            trainer,
            clock: Clock::default(),
            epochs: 0,
            samples: 0,
        }
    }

    /// Trains up to a number of epochs in all.
    ///
    /// # Complexity
    /// `6 * dim * (shared_negatives + negatives)` FLOP a sample, and two rows read and written.
    /// # Source
    /// Lerer et al., "PyTorch-BigGraph" (2019): softmax over a chunk's own and uniform negatives,
    /// Adagrad with one sum a row. Here one direction of each edge is drawn in each epoch, and a
    /// candidate that is an edge's own target is none of its negatives.
    pub(crate) fn train_to(
        &mut self,
        epochs: u32,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let SoftmaxTraining {
            edges,
            trainer,
            clock,
            samples,
            ..
        } = self;
        let n_samples = edges.len() as u64 * u64::from(epochs);
        for epoch in self.epochs..epochs {
            clock.preparing(|| arrange(edges, trainer.seed, epoch));
            let mut loss = 0.0;
            for step in edges.chunks(CHUNKS * trainer.chunk_edges) {
                loss += clock.training(|| clock.updating(|| trainer.step(step)))?;
                *samples += step.len() as u64;
                progress(Progress {
                    samples: *samples,
                    n_samples,
                    pass: None,
                    is_choice: false,
                    trial: None,
                });
            }
            self.epochs = epoch + 1;
            progress(Progress {
                samples: *samples,
                n_samples,
                pass: Some(PassReport {
                    order: None,
                    epoch: epoch + 1,
                    loss: Some(loss / edges.len().max(1) as f64),
                    row_norm: Some(row_norm(&trainer.rows, trainer.n_nodes as usize)),
                }),
                is_choice: false,
                trial: None,
            });
        }
        Ok(())
    }

    /// Epochs so far.
    pub(crate) fn epochs(&self) -> u32 {
        self.epochs
    }

    /// Samples so far.
    pub(super) fn n_samples(&self) -> u64 {
        self.samples
    }

    /// Seconds so far.
    pub(super) fn work_time(&self) -> WorkTime {
        self.clock.work_time()
    }

    /// Rows of all nodes.
    pub(crate) fn rows(&self) -> &[f32] {
        &self.trainer.rows
    }
}

/// Puts the edges into the order and the directions of an epoch.
fn arrange(edges: &mut [[u32; 2]], seed: u64, epoch: u32) {
    let mut rng = KeyedRng::new(seed, "line softmax edges", epoch.into());
    rng.shuffle(edges);
    for edge in edges {
        if rng.chance(0.5) {
            edge.swap(0, 1);
        }
    }
}

/// The table and its optimiser, with the working memory of a step.
struct Trainer {
    rows: Vec<f32>,
    /// Of each row, the sum of its gradients' mean squares.
    squares: Vec<f32>,
    dim: usize,
    rate: f32,
    /// Edges of a chunk at most.
    chunk_edges: usize,
    n_negatives: usize,
    n_nodes: u32,
    seed: u64,
    n_chunks: u64,
    chunks: Vec<Chunk>,
    /// Gradients of a step: sorted by node, those of a node in the chunks' order.
    gradients: Vec<GradientOf>,
    pool: WorkerPool,
}

/// The place of a node's gradient in the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GradientOf {
    node: u32,
    chunk: u32,
    row: u32,
}

impl Trainer {
    fn new(n_nodes: u32, config: &Config) -> Trainer {
        let mut rng = KeyedRng::new(config.seed, "line softmax rows", 0);
        let n_values = n_nodes as usize * config.dim;
        let mut draw = || (INITIAL_SCALE * rng.normal()) as f32;
        Trainer {
            rows: (0..n_values).map(|_| draw()).collect(),
            squares: vec![0.0; n_nodes as usize],
            dim: config.dim,
            rate: config.first_rate(),
            chunk_edges: config.shared_negatives as usize,
            n_negatives: config.negatives as usize,
            n_nodes,
            seed: config.seed,
            n_chunks: 0,
            chunks: (0..CHUNKS).map(|_| Chunk::new(config.dim)).collect(),
            gradients: Vec::new(),
            pool: WorkerPool {
                n_threads: config.threads,
            },
        }
    }

    /// Overwrites the rows of nodes that start from an earlier embedding.
    fn start_from(&mut self, warm_start: Option<&WarmStart<'_>>) {
        let Some(warm_start) = warm_start else {
            return;
        };
        for (node, row) in (0u32..).zip(self.rows.chunks_exact_mut(self.dim)) {
            if let Some(start) = warm_start.row(node, 0) {
                row.copy_from_slice(start);
            }
        }
    }

    /// Works on up to [`CHUNKS`] chunks of edges, then updates their rows; gives the edges' losses,
    /// summed.
    fn step(&mut self, edges: &[[u32; 2]]) -> Result<f64, Error> {
        let first = self.n_chunks;
        let edges = edges.chunks(self.chunk_edges);
        let n_chunks = edges.len();
        let work: Vec<(u64, &[[u32; 2]], &mut Chunk)> = (first..)
            .zip(edges)
            .zip(&mut self.chunks)
            .map(|((number, edges), chunk)| (number, edges, chunk))
            .collect();
        let (rows, seed) = (&self.rows, self.seed);
        let (n_negatives, n_nodes) = (self.n_negatives, self.n_nodes);
        self.pool.for_each(work, |(number, edges, chunk)| {
            let mut rng = KeyedRng::new(seed, "line softmax negatives", number);
            let negatives = (0..n_negatives).map(|_| rng.below_u32(n_nodes));
            chunk.fill(edges, negatives);
            chunk.gradients(rows)
        })?;
        self.n_chunks += n_chunks as u64;
        self.sort_gradients(n_chunks);
        self.update()?;
        Ok(self.chunks[..n_chunks].iter().map(Chunk::loss).sum())
    }

    fn sort_gradients(&mut self, n_chunks: usize) {
        self.gradients.clear();
        for (idx, chunk) in (0u32..).zip(&self.chunks[..n_chunks]) {
            let gradients = (0u32..).zip(chunk.nodes());
            self.gradients
                .extend(gradients.map(|(row, &node)| GradientOf {
                    node,
                    chunk: idx,
                    row,
                }));
        }
        self.gradients.sort_unstable();
    }

    /// One Adagrad step of each row that has a gradient.
    fn update(&mut self) -> Result<(), Error> {
        let update = RowUpdate {
            chunks: &self.chunks,
            dim: self.dim,
            rate: self.rate,
        };
        let pieces = pieces(&self.gradients, &mut self.rows, &mut self.squares, self.dim);
        self.pool.for_each(pieces, |piece| update.piece(piece))
    }
}

/// Rows from one node on, and the gradients of these.
struct Piece<'a> {
    first_node: u32,
    rows: &'a mut [f32],
    squares: &'a mut [f32],
    gradients: &'a [GradientOf],
}

/// Cuts the table where the sorted gradients are cut into about equal parts.
fn pieces<'a>(
    mut gradients: &'a [GradientOf],
    mut rows: &'a mut [f32],
    mut squares: &'a mut [f32],
    dim: usize,
) -> Vec<Piece<'a>> {
    let length = gradients.len().div_ceil(PIECES).max(1);
    let mut first_node = 0;
    let mut pieces = Vec::with_capacity(PIECES);
    while let Some(last) = gradients.get(length.min(gradients.len()).wrapping_sub(1)) {
        let end = gradients.partition_point(|gradient| gradient.node <= last.node);
        let n_rows = (last.node + 1 - first_node) as usize;
        let (own, rest) = gradients.split_at(end);
        let (own_rows, other_rows) = rows.split_at_mut(n_rows * dim);
        let (own_squares, other_squares) = squares.split_at_mut(n_rows);
        pieces.push(Piece {
            first_node,
            rows: own_rows,
            squares: own_squares,
            gradients: own,
        });
        (gradients, rows, squares) = (rest, other_rows, other_squares);
        first_node = last.node + 1;
    }
    pieces
}

/// What updates of rows share.
#[derive(Clone, Copy)]
struct RowUpdate<'a> {
    chunks: &'a [Chunk],
    dim: usize,
    rate: f32,
}

impl RowUpdate<'_> {
    fn piece(self, piece: Piece<'_>) -> Result<(), Error> {
        let mut sum = vec![0.0f32; self.dim];
        for gradients in piece.gradients.chunk_by(|a, b| a.node == b.node) {
            sum.fill(0.0);
            for gradient in gradients {
                let chunk = &self.chunks[gradient.chunk as usize];
                let row = chunk.gradient(gradient.row as usize)?;
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            let node = (gradients[0].node - piece.first_node) as usize;
            let row = &mut piece.rows[node * self.dim..][..self.dim];
            let mean_square = sum.iter().map(|x| x * x).sum::<f32>() / self.dim as f32;
            piece.squares[node] += mean_square;
            if !piece.squares[node].is_finite() {
                let message = "training diverged: take a smaller `learning_rate`";
                return Err(Error::Diverged(message.to_owned()));
            }
            if piece.squares[node] > 0.0 {
                let rate = self.rate / piece.squares[node].sqrt();
                row.iter_mut().zip(&sum).for_each(|(x, g)| *x -= rate * g);
            }
        }
        Ok(())
    }
}
