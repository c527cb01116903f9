//! What ranks hand around where messages are dealt by pair: rows and units to those that work on them, gradients of messages back.

use std::ops::Range;

use shardgraph_collectives::Op;

use super::coefficients::Partials;
use super::incoming::Incoming;
use super::input::Keyed;
use super::kernel::{Inputs, Pass, Updates};
use super::network::{Network, Peers};
use super::optimiser::Rule;
use super::plan::LayerPlan;
use super::split::{backward_sources, backward_table};
use super::work::Work;
use crate::Error;

/// Numbers that a rank sends at a time: all of them, and their copies on the way, would be several times what it works with. Tests have small
/// graphs, and several pieces all the same.
pub(crate) const PIECE: usize = if cfg!(test) { 1 << 9 } else { 1 << 18 };

/// Buffers of a piece that a rank has: what it sends, what it gets, and two copies on the way where ranks are threads.
pub(crate) const N_PIECES: usize = 4;

/// Rows of `len` numbers that ranks hand around: how many go to each, and how many come from each.
struct Swap<'c> {
    sends: &'c [usize],
    recvs: &'c [usize],
    len: usize,
}

impl Swap<'_> {
    /// Hands them around in pieces. `take` adds some of a rank's rows, counted from its first one, to what is sent; `put` is given those of a rank,
    /// and which one is the first.
    fn run(
        &self,
        peers: &mut Peers<'_>,
        mut take: impl FnMut(usize, Range<usize>, &mut Vec<f32>),
        mut put: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        let n_rows = (PIECE / (self.len * self.sends.len()).max(1)).max(1);
        let most = self.sends.iter().max().copied().unwrap_or(0);
        let n_rounds = peers.most(most.div_ceil(n_rows) as u64)? as usize;
        let (mut send, mut recv) = (Vec::new(), Vec::new());
        for first in (0..n_rounds).map(|round| round * n_rows) {
            let due = |&count: &usize| count.saturating_sub(first).min(n_rows);
            let (sends, recvs) = (self.sends.iter().map(due), self.recvs.iter().map(due));
            let (sends, recvs): (Vec<usize>, Vec<usize>) = (sends.collect(), recvs.collect());
            send.clear();
            let some = |(_, n): &(usize, &usize)| **n > 0;
            for (rank, &n) in sends.iter().enumerate().filter(some) {
                take(rank, first..first + n, &mut send);
            }
            recv.resize(recvs.iter().sum::<usize>() * self.len, 0.0);
            peers.run(Op::AllToAllV {
                send: send[..].into(),
                send_counts: &numbers(&sends, self.len),
                recv: (&mut recv).into(),
                recv_counts: &numbers(&recvs, self.len),
            })?;
            let mut rest = &recv[..];
            for (rank, &n) in recvs.iter().enumerate().filter(some) {
                let (rows, others) = rest.split_at(n * self.len);
                put(rank, first, rows);
                rest = others;
            }
        }
        Ok(())
    }
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

/// Goes through the pairs of own sources that each rank works on.
struct PairsOf<'w> {
    workers: &'w [u16],
    /// For each rank, where to look for its next pair.
    next: Vec<usize>,
}

impl<'w> PairsOf<'w> {
    fn new(work: &'w Work) -> PairsOf<'w> {
        PairsOf {
            workers: &work.workers,
            next: vec![0; work.pairs_of_worker.len()],
        }
    }

    /// The next pair that a rank works on; one beyond the last where there is none.
    fn next(&mut self, rank: usize) -> usize {
        let from = self.next[rank];
        let others = self.workers[from..].iter();
        let pair = from
            + others
                .take_while(|&&worker| usize::from(worker) != rank)
                .count();
        self.next[rank] = pair + 1;
        pair
    }
}

impl Network<'_> {
    /// What this rank's work reads in a layer, from those that own it: rows, units, or rows of pairs. Into `read`, whose memory is used again.
    pub(super) fn read_inputs(
        &self,
        layer: usize,
        (work, mut read): (&Work, Vec<f32>),
        peers: &mut Peers<'_>,
    ) -> Result<Vec<f32>, Error> {
        let by_pair = layer == 0 && self.input.keyed == Keyed::ByPair;
        let (own, len) = match layer {
            0 => (&self.input.rows, self.input.row_len()),
            _ => (&self.made[layer - 1], self.layers[layer - 1].width),
        };
        let n_read_by: Vec<usize> = work.read_by.iter().map(Vec::len).collect();
        let (sends, recvs) = match by_pair {
            true => (&work.pairs_of_worker, &work.pairs_of_owner),
            false => (&n_read_by, &work.sources_of_owner),
        };
        read.resize(recvs.iter().sum::<usize>() * len, 0.0);
        let mut pairs = PairsOf::new(work);
        let take = |rank: usize, rows: Range<usize>, send: &mut Vec<f32>| {
            for row in rows {
                let row = match by_pair {
                    true => pairs.next(rank),
                    false => work.read_by[rank][row] as usize,
                };
                send.extend_from_slice(&own[row * len..][..len]);
            }
        };
        let begins = starts(recvs);
        let put = |rank: usize, first: usize, rows: &[f32]| {
            read[(begins[rank] + first) * len..][..rows.len()].copy_from_slice(rows);
        };
        Swap { sends, recvs, len }.run(peers, take, put)?;
        Ok(read)
    }

    /// Hands the gradients of this rank's messages to the sources' owners; those of all pairs of own sources, pair by pair.
    fn return_gradients(
        &self,
        work: &Work,
        (messages, len): (&[f32], usize),
        peers: &mut Peers<'_>,
    ) -> Result<Vec<f32>, Error> {
        let (sends, recvs) = (&work.pairs_of_owner, &work.pairs_of_worker);
        let begins = starts(sends);
        let take = |rank: usize, rows: Range<usize>, send: &mut Vec<f32>| {
            let rows = begins[rank] + rows.start..begins[rank] + rows.end;
            send.extend_from_slice(&messages[rows.start * len..rows.end * len]);
        };
        let mut own = vec![0.0; work.workers.len() * len];
        let mut pairs = PairsOf::new(work);
        let put = |rank: usize, _, rows: &[f32]| {
            for row in rows.chunks_exact(len) {
                own[pairs.next(rank) * len..][..len].copy_from_slice(row);
            }
        };
        Swap { sends, recvs, len }.run(peers, take, put)?;
        Ok(own)
    }

    /// A pass of the layer's relations and sources: the gradients of the relations go into `partials`, block by block.
    pub(super) fn work_backward(
        &self,
        layer: usize,
        all: &Incoming<'_>,
        (updates, partials): (&mut Updates<'_>, &mut Partials),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let work = &self.works[layer];
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(());
        };
        let pass = |plan| Pass::new(plan, coefficients, &self.tables[layer]);
        if layer == 0 && self.layout.replicates() {
            return self.replicated_backward(work, all, (updates, partials), peers);
        }
        let inputs = match updates {
            Updates::Rows { .. } | Updates::Sums { .. } => Inputs::Rows(&self.read[layer]),
            Updates::Units { .. } => Inputs::Units(&self.read[layer]),
        };
        let mut table = vec![0.0; self.tables[layer].len()];
        let mut messages = Vec::with_capacity(work.plan.n_pairs() * coefficients.shape.width);
        for sources in &work.blocks {
            let relations = work.plan.relations_of(sources.clone());
            let written = (&mut table[..], &mut messages);
            backward_table(pass(&work.plan), sources.clone(), all, inputs, written);
            coefficients.reduce(&mut table, &relations, partials);
        }
        let own = self.return_gradients(work, (&messages, coefficients.shape.width), peers)?;
        let sources = 0..self.sources(layer).len();
        backward_sources(pass(&self.plans[layer]), sources, &own, updates);
        Ok(())
    }

    /// Steps the rows of own pairs along the gradients that come back from those that sent them.
    pub(super) fn pairs_work_backward(
        &mut self,
        all: &Incoming<'_>,
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
fn message_gradients(plan: &LayerPlan, all: &Incoming<'_>, width: usize) -> Vec<f32> {
    let mut messages = vec![0.0; plan.n_pairs() * width];
    for (pair, message) in messages.chunks_exact_mut(width).enumerate() {
        plan.gather_pair(pair, all, message);
    }
    messages
}
