//! The paper's decoder once more for its own case, two devices and transfers that block, because searches spend their time here.
//!
//! The same items in the same order as [`super::emission`] gives; what differs is that clocks are locals, that an op's consumers
//! are walked as one list over all its outputs, and that counts and sets change by arithmetic where a branch would be a guess.

use super::{Decoder, DecoderKind, ranks::RankSet};
use crate::{Problem, Step, accounts::Accounts, graph::NONE};

/// What is ready, with its ranks; the word that leads to all others is a local where one word is enough.
struct Frontier<'a, const SMALL: bool> {
    /// Only looked at when not `SMALL`, else empty.
    set: &'a mut RankSet,
    occupied: u64,
    rank_of: &'a [u32],
}

impl<const SMALL: bool> Frontier<'_, SMALL> {
    /// Adds the item of a code, if `present`.
    #[inline(always)]
    fn insert_if(&mut self, code: usize, present: bool) {
        let rank = self.rank_of[code];
        if SMALL {
            let word = (rank >> 6) as usize;
            self.set.words[word] |= u64::from(present) << (rank & 63);
            self.occupied |= u64::from(present) << (word & 63);
        } else {
            self.set.insert_if(rank, present);
        }
    }

    #[inline(always)]
    fn pop_first(&mut self) -> Option<u32> {
        if !SMALL {
            return self.set.pop_first();
        }
        if self.occupied == 0 {
            return None;
        }
        let at = self.occupied.trailing_zeros();
        let word = &mut self.set.words[at as usize];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        self.occupied &= !(u64::from(*word == 0) << at);
        Some(at * 64 + bit)
    }
}

/// What the emission of items reads and writes.
struct Run<'a, const SMALL: bool> {
    problem: &'a Problem<'a>,
    ready: Frontier<'a, SMALL>,
    /// How many inputs each op still waits for.
    waiting: &'a mut [u32],
    accounts: &'a mut Accounts,
    clocks: [u64; 2],
}

impl Decoder<'_, '_> {
    /// True where `emit_pair` applies.
    pub(super) fn is_pair(&self) -> bool {
        self.problem.n_devices() == 2
            && self.kind == DecoderKind::Paper
            && !self.problem.options.asynchronous
    }

    pub(super) fn emit_pair<const MEMORY: bool, const RECORD: bool>(&mut self, keys: &[f32]) {
        self.place_pair(keys);
        self.rank_pair(keys);
        if MEMORY {
            self.accounts.start_memory(self.problem);
        }
        if self.problem.tracks_ready {
            self.accounts.ready_at.fill(0);
        }
        self.waiting.copy_from_slice(&self.n_inputs);
        self.steps.clear();
        if self.ready.is_small() {
            self.run_pair::<true, MEMORY, RECORD>();
        } else {
            self.run_pair::<false, MEMORY, RECORD>();
        }
    }

    fn place_pair(&mut self, keys: &[f32]) {
        let placement = &mut self.accounts.placement;
        for (device, pair) in placement.iter_mut().zip(keys.chunks_exact(2)) {
            *device = u8::from(pair[1] > pair[0]);
        }
        if self.problem.fixed != NONE {
            placement[self.problem.fixed as usize] = 0;
        }
        self.problem.colocate(placement);
    }

    /// Counts the uses of all copies and sorts the ops and the transfers that there are.
    fn rank_pair(&mut self, keys: &[f32]) {
        let (problem, n_ops) = (self.problem, self.n_inputs.len());
        let tensors = &problem.graph.tensors;
        let (op_keys, transfer_keys) = keys[2 * n_ops..].split_at(n_ops);
        let Accounts {
            placement, uses, ..
        } = &mut self.accounts;
        self.ranking.clear();
        for (op, &key) in (0..n_ops as u32).zip(op_keys) {
            self.ranking.push(key, op);
        }
        let ends = &tensors.consumer_offsets[1..];
        let mut begin = 0;
        let rows = uses.chunks_exact_mut(2).zip(transfer_keys.chunks_exact(2));
        for (tensor, (row, keys)) in rows.enumerate() {
            let end = ends[tensor] as usize;
            let consumers = &tensors.consumers[begin..end];
            begin = end;
            let live = u32::from(problem.options.control_blocks | !tensors.control[tensor]);
            let mut second = 0;
            for &consumer in consumers {
                second += u32::from(placement[consumer as usize]);
            }
            let counts = [(consumers.len() as u32 - second) * live, second * live];
            let home = usize::from(placement[tensors.producer[tensor] as usize] & 1);
            let to = 1 - home;
            let is_sent = counts[to] > 0;
            row[home] = counts[home] + u32::from(is_sent);
            row[to] = counts[to];
            self.ranking
                .push_if(keys[to], (n_ops + 2 * tensor + to) as u32, is_sent);
        }
        self.ranking.sort();
    }

    /// Emits all items; leaves the clocks in the accounts.
    fn run_pair<const SMALL: bool, const MEMORY: bool, const RECORD: bool>(&mut self) {
        let n_ops = self.n_inputs.len();
        let mut run = Run::<SMALL> {
            problem: self.problem,
            ready: Frontier {
                set: &mut self.ready,
                occupied: 0,
                rank_of: self.ranking.ranks(),
            },
            waiting: &mut self.waiting,
            accounts: &mut self.accounts,
            clocks: [0; 2],
        };
        for &op in &self.sources {
            run.ready.insert_if(op as usize, true);
        }
        while let Some(rank) = run.ready.pop_first() {
            let code = self.ranking.code_at(rank) as usize;
            let step = if code < n_ops {
                run.op::<MEMORY>(code)
            } else {
                run.transfer::<MEMORY>((code - n_ops) / 2, (code - n_ops) % 2)
            };
            if RECORD {
                self.steps.push(step);
            }
        }
        let clocks = run.clocks;
        self.accounts.clock.copy_from_slice(&clocks);
    }
}

impl<const SMALL: bool> Run<'_, SMALL> {
    #[inline(always)]
    fn op<const MEMORY: bool>(&mut self, op: usize) -> Step {
        let (problem, n_ops) = (self.problem, self.waiting.len());
        let tensors = &problem.graph.tensors;
        let device = usize::from(self.accounts.placement[op] & 1);
        let mut end = self.clocks[device];
        if problem.tracks_ready {
            end = end.max(self.accounts.ready_at[op]);
        }
        end += problem.costs[2 * op + device];
        self.clocks[device] = end;
        let offsets = &problem.graph.ops.output_offsets;
        let outputs = offsets[op] as usize..offsets[op + 1] as usize;
        let begin = tensors.consumer_offsets[outputs.start] as usize;
        let unblocked = problem.unblocked_from[op] as usize;
        let all = tensors.consumer_offsets[outputs.end] as usize;
        self.deliver(&tensors.consumers[begin..unblocked], device);
        for &consumer in &tensors.consumers[unblocked..all] {
            let consumer = consumer as usize;
            let ready_at = &mut self.accounts.ready_at[consumer];
            *ready_at = end.max(*ready_at);
            self.waiting[consumer] -= 1;
            let present = self.waiting[consumer] == 0;
            self.ready.insert_if(consumer, present);
        }
        for tensor in outputs {
            let slot = 2 * tensor + (1 - device);
            let is_sent = self.accounts.uses[slot] > 0;
            self.ready.insert_if(n_ops + slot, is_sent);
        }
        if MEMORY {
            self.accounts.op_memory(problem, op as u32, device);
        }
        Step::Op(op as u32)
    }

    #[inline(always)]
    fn transfer<const MEMORY: bool>(&mut self, tensor: usize, to: usize) -> Step {
        let problem = self.problem;
        let tensors = &problem.graph.tensors;
        let start = self.clocks[0].max(self.clocks[1]);
        let end = start + problem.transfer_ns(tensor as u32, 1 - to, to);
        self.clocks = [end, end];
        let offsets = &tensors.consumer_offsets;
        let uses = offsets[tensor] as usize..offsets[tensor + 1] as usize;
        self.deliver(&tensors.consumers[uses], to);
        if MEMORY {
            self.accounts
                .transfer_memory(problem, tensor as u32, 1 - to, to);
        }
        Step::Transfer {
            tensor: tensor as u32,
            to: to as u8,
        }
    }

    /// Consumers on `device` wait for one input less.
    #[inline(always)]
    fn deliver(&mut self, consumers: &[u32], device: usize) {
        for &consumer in consumers {
            let consumer = consumer as usize;
            let here = usize::from(self.accounts.placement[consumer]) == device;
            let left = &mut self.waiting[consumer];
            *left -= u32::from(here);
            let present = here & (*left == 0);
            self.ready.insert_if(consumer, present);
        }
    }
}
