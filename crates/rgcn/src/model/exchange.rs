//! What ranks hand around where messages are dealt by pair: rows and units to those that work on them, gradients of messages back.

use shardgraph_collectives::Op;

use super::input::Keyed;
use super::kernel::{Inputs, Pass, Updates};
use super::network::{Network, Peers};
use super::optimiser::Rule;
use super::plan::LayerPlan;
use super::split::{backward_sources, backward_table};
use super::work::Work;
use crate::Error;

/// Sends each rank its run of numbers, and takes one from each.
fn swap(
    peers: &mut Peers<'_>,
    (send, send_counts): (&[f32], &[usize]),
    recv_counts: &[usize],
) -> Result<Vec<f32>, Error> {
    let mut recv = vec![0.0; recv_counts.iter().sum()];
    peers.run(Op::AllToAllV {
        send: send.into(),
        send_counts,
        recv: (&mut recv).into(),
        recv_counts,
    })?;
    Ok(recv)
}

/// Counts of things, each of so many numbers.
fn numbers(counts: &[usize], len: usize) -> Vec<usize> {
    counts.iter().map(|count| count * len).collect()
}

/// Where each rank's run begins, in rank order.
fn starts(counts: &[usize]) -> Vec<usize> {
    let mut next = 0;
    let begin = |count: &usize| {
        next += count;
        next - count
    };
    counts.iter().map(begin).collect()
}

impl Network<'_> {
    /// What this rank's work reads in a layer, from those that own it: rows, units, or rows of pairs.
    pub(super) fn read_inputs(
        &self,
        layer: usize,
        work: &Work,
        peers: &mut Peers<'_>,
    ) -> Result<Vec<f32>, Error> {
        if layer == 0 && self.input.keyed == Keyed::ByPair {
            return self.read_pairs(work, peers);
        }
        let (own, len) = match layer {
            0 => (&self.input.rows, self.input.row_len()),
            _ => (&self.made[layer - 1], self.layers[layer - 1].width),
        };
        let sources = work.read_by.iter().flatten();
        let rows = sources.flat_map(|&source| &own[source as usize * len..][..len]);
        let send: Vec<f32> = rows.copied().collect();
        let counts: Vec<usize> = work.read_by.iter().map(Vec::len).collect();
        let recv_counts = numbers(&work.sources_of_owner, len);
        swap(peers, (&send, &numbers(&counts, len)), &recv_counts)
    }

    /// The rows of the pairs that this rank works on.
    fn read_pairs(&self, work: &Work, peers: &mut Peers<'_>) -> Result<Vec<f32>, Error> {
        let len = self.input.row_len();
        let send_counts = numbers(&work.pairs_of_worker, len);
        let mut places = starts(&send_counts);
        let mut send = vec![0.0; self.input.rows.len()];
        for (row, &worker) in self.input.rows.chunks_exact(len).zip(&work.workers) {
            let place = &mut places[usize::from(worker)];
            send[*place..][..len].copy_from_slice(row);
            *place += len;
        }
        let recv_counts = numbers(&work.pairs_of_owner, len);
        swap(peers, (&send, &send_counts), &recv_counts)
    }

    /// Hands the gradients of this rank's messages to the sources' owners; those of all pairs of own sources, pair by pair.
    fn return_gradients(
        &self,
        work: &Work,
        (messages, width): (&[f32], usize),
        peers: &mut Peers<'_>,
    ) -> Result<Vec<f32>, Error> {
        let send_counts = numbers(&work.pairs_of_owner, width);
        let recv_counts = numbers(&work.pairs_of_worker, width);
        let received = swap(peers, (messages, &send_counts), &recv_counts)?;
        let mut places = starts(&recv_counts);
        let mut own = Vec::with_capacity(received.len());
        for &worker in &work.workers {
            let place = &mut places[usize::from(worker)];
            own.extend_from_slice(&received[*place..][..width]);
            *place += width;
        }
        Ok(own)
    }

    /// A pass of the layer's relations and sources: the gradients of the relations go into `partials`, block by block of all blocks.
    pub(super) fn work_backward(
        &self,
        layer: usize,
        all: &[f32],
        (updates, partials): (&mut Updates<'_>, &mut [f32]),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let work = &self.works[layer];
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(());
        };
        let pass = |plan| Pass {
            plan,
            shape: coefficients.shape,
            table: &self.tables[layer],
        };
        let inputs = match updates {
            Updates::Rows { .. } => Inputs::Rows(&self.read[layer]),
            Updates::Units { .. } => Inputs::Units(&self.read[layer]),
        };
        let reduced_len = self.reduced_len(layer);
        let partials = partials.chunks_exact_mut(self.n_shared(layer).max(1));
        let mut table = vec![0.0; self.tables[layer].len()];
        let mut messages = Vec::with_capacity(work.plan.n_pairs() * coefficients.shape.width);
        for (sources, partial) in work.blocks.iter().zip(partials) {
            let relations = work.plan.relations_of(sources.clone());
            let written = (&mut table[..], &mut messages);
            backward_table(pass(&work.plan), sources.clone(), all, inputs, written);
            coefficients.reduce(&mut table, &relations, &mut partial[..reduced_len]);
        }
        let own = self.return_gradients(work, (&messages, coefficients.shape.width), peers)?;
        let sources = 0..self.sources(layer).len();
        backward_sources(pass(&self.plans[layer]), sources, &own, updates);
        Ok(())
    }

    /// Steps the rows of own pairs along the gradients that come back from those that sent them.
    pub(super) fn pairs_work_backward(
        &mut self,
        all: &[f32],
        step: (Rule, f32),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let (work, width) = (&self.works[0], self.input.shape.width);
        let messages = message_gradients(&work.plan, all, width);
        let own = self.return_gradients(work, (&messages, width), peers)?;
        self.input.step(&own, step);
        Ok(())
    }
}

/// The gradients of the messages of all pairs.
fn message_gradients(plan: &LayerPlan, all: &[f32], width: usize) -> Vec<f32> {
    let mut messages = vec![0.0; plan.n_pairs() * width];
    for (pair, message) in messages.chunks_exact_mut(width).enumerate() {
        plan.gather_pair(pair, all, message);
    }
    messages
}
