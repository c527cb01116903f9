//! Vectors of nodes that are parameters themselves: the decoder alone, without an encoder.

use shardgraph_collectives::Op;
use shardgraph_random::KeyedRng;

use super::config::LinkConfig;
use super::kvsall::NodeBlocks;
use crate::Error;
use crate::layer::coefficients::glorot;
use crate::layer::optimiser::{Moments, Rule};
use crate::memory::{Array, Memory, Purpose};
use crate::model::comm::RankComm;

/// A vector for each node. Every rank has all of them, and steps its own nodes'.
#[derive(Clone, Debug)]
pub(super) struct Embeddings {
    pub(super) values: Array<f32>,
    width: usize,
    blocks: NodeBlocks,
    memory: Memory,
    /// Of this rank's nodes.
    moments: Moments,
}

impl Embeddings {
    /// Before the first step: as a matrix of nodes by units.
    pub(super) fn new(
        config: &LinkConfig,
        n_nodes: u32,
        blocks: NodeBlocks,
        memory: &Memory,
    ) -> Embeddings {
        let width = config.width;
        let mut values = memory.zeros(Purpose::Weights, n_nodes as usize * width);
        let mut stream = KeyedRng::new(config.encoder.seed, "rgcn links units", 0);
        glorot(&mut stream, [n_nodes as usize, width], &mut values);
        let n_own = blocks.own_nodes().len() * width;
        let optimiser = config.encoder.optimiser;
        Embeddings {
            moments: Moments::new(memory, Purpose::Optimiser, optimiser, n_own),
            memory: memory.clone(),
            values,
            width,
            blocks,
        }
    }

    /// Steps this rank's nodes along their gradient and takes over those of the others.
    pub(super) fn step(
        &mut self,
        rule: Rule,
        own_gradient: &[f32],
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let nodes = self.blocks.own_nodes();
        let numbers = nodes.start * self.width..nodes.end * self.width;
        let n_own = numbers.len();
        let own = self.values.part_mut(numbers);
        rule.step(own, own_gradient, self.moments.of(0..own_gradient.len()));
        if !ranks.are_alone() {
            let mut sent = self.memory.zeros(Purpose::Gradients, n_own);
            sent.copy_from_slice(own);
            let counts = self.blocks.counts(self.width);
            ranks.run(Op::AllGatherV {
                send: sent[..].into(),
                recv: (&mut self.values[..]).into(),
                counts: &counts,
            })?;
        }
        Ok(())
    }

    /// All vectors and the means of all ranks, for an account of their own.
    pub(super) fn gather(&self, ranks: &mut RankComm<'_>) -> Result<[Array<f32>; 3], Error> {
        let memory = &Memory::default();
        let mut gather = |own: &Array<f32>| match own.len() {
            0 => Ok(Array::default()),
            _ => self.blocks.gather_rows(own, self.width, ranks, memory),
        };
        let first = gather(&self.moments.first)?;
        let second = gather(&self.moments.second)?;
        let values = memory.duplicate(Purpose::Copies, &self.values);
        Ok([values, first, second])
    }

    /// Takes over vectors, and this rank's part of their means, of lengths that fit.
    pub(super) fn load(&mut self, saved: &[Array<f32>; 3]) {
        let nodes = self.blocks.own_nodes();
        let own = nodes.start * self.width..nodes.end * self.width;
        let [values, first, second] = saved;
        self.values.copy_from_slice(values);
        for (means, saved) in [
            (&mut self.moments.first, first),
            (&mut self.moments.second, second),
        ] {
            if !saved.is_empty() {
                means.copy_from_slice(&saved[own.clone()]);
            }
        }
    }

    /// The lengths of what [`Embeddings::gather`] gives.
    pub(super) fn lengths(&self) -> [usize; 3] {
        let whole = |means: &Array<f32>| match means.len() {
            0 => 0,
            _ => self.values.len(),
        };
        let moments = &self.moments;
        [
            self.values.len(),
            whole(&moments.first),
            whole(&moments.second),
        ]
    }
}
