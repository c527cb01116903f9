//! Exchanges where messages are dealt by pair: rows and activations to the ranks that compute with
//! them, gradients of messages back.

use std::ops::Range;

use shardgraph_collectives::{Op, Reduction};

use super::comm::RankComm;
use super::input::InputTable;
use super::messages::RankMessages;
use super::network::Network;
use crate::Error;
use crate::layer::coefficients::Partials;
use crate::layer::gradient_rows::GradientRows;
use crate::layer::materialised::{WeightGradient, add_gradient, backward_materialised};
use crate::layer::optimiser::Rule;
use crate::layer::pass::{Inputs, Pass, Updates, finish};
use crate::layer::split::{backward_sources, backward_table};
use crate::memory::{Array, Purpose};

/// Numbers that a rank sends at a time: all of them, and their copies on the way, would be several
/// times what it computes with. Tests have small graphs, and several pieces all the same.
const PIECE: usize = if cfg!(test) { 1 << 9 } else { 1 << 18 };

/// Buffers of a piece that a rank has: the sent, the received, and two copies on the way where
/// ranks are threads.
const N_PIECES: usize = 4;

/// Rows of `len` numbers that ranks hand around: how many go to each, and how many come from each.
struct Swap<'c> {
    sends: &'c [usize],
    recvs: &'c [usize],
    len: usize,
}

impl Swap<'_> {
    /// Hands them around in pieces. `take` adds some of a rank's rows, counted from its first one,
    /// to what is sent; `put` is given those of a rank, and which one is the first.
    fn run(
        &self,
        ranks: &mut RankComm<'_>,
        mut take: impl FnMut(usize, Range<usize>, &mut Vec<f32>),
        mut put: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        let n_rows = (PIECE / (self.len * self.sends.len()).max(1)).max(1);
        let most = self.sends.iter().max().copied().unwrap_or(0);
        let n_rounds = ranks.most(most.div_ceil(n_rows) as u64)? as usize;
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
            ranks.run(Op::AllToAllV {
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

/// The begin of each rank's run, in rank order.
fn starts(counts: &[usize]) -> Vec<usize> {
    let mut next = 0;
    let begin = |count: &usize| {
        next += count;
        next - count
    };
    counts.iter().map(begin).collect()
}

/// Goes through the pairs of own sources that each rank computes.
struct PairsOf<'m> {
    computing_ranks: &'m [u16],
    /// For each rank, where to look for its next pair.
    next: Vec<usize>,
}

impl<'m> PairsOf<'m> {
    fn new(messages: &'m RankMessages) -> PairsOf<'m> {
        PairsOf {
            computing_ranks: &messages.computing_ranks,
            next: vec![0; messages.pairs_by_computing_rank.len()],
        }
    }

    /// The next pair that a rank computes; one beyond the last where there is none.
    fn next(&mut self, rank: usize) -> usize {
        let from = self.next[rank];
        let others = self.computing_ranks[from..].iter();
        let n_others = others
            .take_while(|&&other| usize::from(other) != rank)
            .count();
        self.next[rank] = from + n_others + 1;
        from + n_others
    }
}

impl Network<'_> {
    /// Gathers the inputs of this rank's messages in a layer from their owners: rows, activations,
    /// or rows of pairs.
    pub(crate) fn gather_inputs(
        &mut self,
        layer: usize,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let mut gathered = std::mem::take(&mut self.gathered[layer]);
        let messages = &self.rank_messages[layer];
        let by_pair = layer == 0 && self.input.table == InputTable::ByPair;
        let (own, len) = match layer {
            0 => (&self.input.rows, self.input.row_len()),
            _ => (&self.activations[layer - 1], self.layers[layer - 1].width),
        };
        let n_read_by: Vec<usize> = messages.read_by.iter().map(Vec::len).collect();
        let (sends, recvs) = match by_pair {
            true => (&messages.pairs_by_computing_rank, &messages.pairs_by_owner),
            false => (&n_read_by, &messages.sources_by_owner),
        };
        let counts = self.sizes(layer);
        let n_rows = if by_pair {
            counts.n_pairs
        } else {
            counts.n_sources
        };
        gathered.resize(n_rows as usize * len);
        if self.memory.is_dry() {
            self.gathered[layer] = gathered;
            return Ok(());
        }
        let mut pairs = PairsOf::new(messages);
        let take = |rank: usize, rows: Range<usize>, send: &mut Vec<f32>| {
            for row in rows {
                let row = match by_pair {
                    true => pairs.next(rank),
                    false => messages.read_by[rank][row] as usize,
                };
                send.extend_from_slice(&own[row * len..][..len]);
            }
        };
        let begins = starts(recvs);
        let put = |rank: usize, first: usize, rows: &[f32]| {
            gathered[(begins[rank] + first) * len..][..rows.len()].copy_from_slice(rows);
        };
        Swap { sends, recvs, len }.run(ranks, take, put)?;
        self.gathered[layer] = gathered;
        Ok(())
    }

    /// Hands the gradients of this rank's messages, of `len` numbers, to the sources' owners; those
    /// of all pairs of own sources, pair by pair.
    fn return_gradients(
        &self,
        layer: usize,
        gradients: &Array<f32>,
        ranks: &mut RankComm<'_>,
    ) -> Result<Array<f32>, Error> {
        let (memory, len) = (&self.memory, self.layers[layer].width);
        let n_own_pairs = self.sizes(layer).n_own_pairs as usize;
        let mut own = memory.zeros(Purpose::Gradients, n_own_pairs * len);
        let n_bytes = 4 * N_PIECES * PIECE.min(gradients.len());
        let _pieces = memory.hold(Purpose::Gradients, n_bytes as u64);
        if memory.is_dry() {
            return Ok(own);
        }
        let messages = &self.rank_messages[layer];
        let (sends, recvs) = (&messages.pairs_by_owner, &messages.pairs_by_computing_rank);
        let begins = starts(sends);
        let take = |rank: usize, rows: Range<usize>, send: &mut Vec<f32>| {
            let rows = begins[rank] + rows.start..begins[rank] + rows.end;
            send.extend_from_slice(&gradients[rows.start * len..rows.end * len]);
        };
        let mut pairs = PairsOf::new(messages);
        let put = |rank: usize, _, rows: &[f32]| {
            for row in rows.chunks_exact(len) {
                own[pairs.next(rank) * len..][..len].copy_from_slice(row);
            }
        };
        Swap { sends, recvs, len }.run(ranks, take, put)?;
        Ok(own)
    }

    /// A pass back through the messages that this rank computes: the gradients of their relations
    /// go into `partials`, block by block, and those of the sources to their owners.
    pub(crate) fn dealt_backward(
        &self,
        layer: usize,
        outputs: &GradientRows<'_>,
        updates: &mut Updates<'_>,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        if layer == 0 && self.layout.replicates() {
            return self.replicated_backward(outputs, updates, partials, ranks);
        }
        let messages = &self.rank_messages[layer];
        let Some(coefficients) = &self.layers[layer].coefficients else {
            return Ok(());
        };
        let mut table = self.table_gradient(layer);
        let mut gradients = self.message_gradients(layer);
        if self.memory.is_dry() {
            return self.return_gradients(layer, &gradients, ranks).map(drop);
        }
        let pass = |plan| Pass::new(plan, coefficients, &self.tables[layer]);
        let inputs = match updates {
            Updates::Rows { .. } | Updates::Sums { .. } => Inputs::Rows(&self.gathered[layer]),
            Updates::Activations { .. } => Inputs::Activations(&self.gathered[layer]),
        };
        let plan = &messages.plan;
        for sources in &messages.blocks {
            let relations = plan.relations_of(sources.clone());
            let sources = sources.clone();
            backward_table(
                pass(plan),
                sources,
                outputs,
                inputs,
                &mut table,
                &mut gradients,
            );
            coefficients.reduce(&mut table, &relations, partials);
        }
        let own = self.return_gradients(layer, &gradients, ranks)?;
        let sources = 0..self.plans[layer].n_sources();
        backward_sources(pass(&self.plans[layer]), sources, &own, updates);
        Ok(())
    }

    /// Steps the rows of own pairs along the gradients that come back from the ranks that sent
    /// them.
    pub(crate) fn dealt_pairs_backward(
        &mut self,
        outputs: &GradientRows<'_>,
        rule: Rule,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let mut gradients = self.message_gradients(0);
        let width = self.input.shape.width;
        for (pair, message) in gradients.chunks_exact_mut(width).enumerate() {
            self.rank_messages[0]
                .plan
                .gather_pair(pair, outputs, message);
        }
        let own = self.return_gradients(0, &gradients, ranks)?;
        self.input.step(&own, rule);
        Ok(())
    }

    /// Room for the gradients of the messages that this rank computes in a layer.
    fn message_gradients(&self, layer: usize) -> Array<f32> {
        let n_pairs = self.sizes(layer).n_pairs as usize;
        let len = n_pairs * self.layers[layer].width;
        self.memory.zeros(Purpose::Gradients, len)
    }

    /// The first layer's pass on a rank that has its relations and a copy of all rows: gradients of
    /// all rows are added over the ranks, and each steps those that it owns. With the copies of the
    /// next pass forward that is the all-reduce after which each would step its copy.
    fn replicated_backward(
        &self,
        outputs: &GradientRows<'_>,
        updates: &mut Updates<'_>,
        partials: &mut Partials,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let shape = self.input.shape;
        let gradients = self.replicated_gradients(outputs, partials);
        let own_len = self.sizes(0).n_own_sources as usize * shape.stride;
        let mut own = self.memory.zeros::<f32>(Purpose::Gradients, own_len);
        let owned = self.rank_messages[0].sources_by_owner.iter();
        let counts: Vec<usize> = owned.map(|n| n * shape.stride).collect();
        ranks.run(Op::ReduceScatterV {
            send: gradients[..].into(),
            recv: (&mut own[..]).into(),
            counts: &counts,
            reduction: Reduction::Sum,
        })?;
        for (source, gradient) in own.chunks_exact(shape.stride).enumerate() {
            finish(shape, source, gradient, updates);
        }
        Ok(())
    }

    /// The part of this rank's relations in the gradients of all rows, and in `partials`.
    fn replicated_gradients(
        &self,
        outputs: &GradientRows<'_>,
        partials: &mut Partials,
    ) -> Array<f32> {
        let len = self.gathered[0].len();
        let mut gradients = self.memory.zeros(Purpose::Gradients, len);
        let mut of_weights = self.weight_gradient(0);
        let mut table = self.table_gradient(0);
        let messages = &self.rank_messages[0];
        let (Some(coefficients), Some(rows)) =
            (&self.layers[0].coefficients, &self.materialised_rows)
        else {
            return gradients;
        };
        let pass = Pass::new(&messages.plan, coefficients, &self.tables[0]);
        add_gradient(pass, rows, outputs, &mut of_weights);
        let weights = WeightGradient {
            rows,
            values: &of_weights,
        };
        let mut sums = Updates::Sums {
            rows: &self.gathered[0],
            gradients: &mut gradients,
        };
        for sources in &messages.blocks {
            let relations = messages.plan.relations_of(sources.clone());
            backward_materialised(pass, sources.clone(), &weights, &mut sums, &mut table);
            coefficients.reduce(&mut table, &relations, partials);
        }
        gradients
    }
}
