//! The decoders that take the placement from the affinities and then emit ops and transfers one by one.
//!
//! An item is an op or a transfer, and has a code: op j is j, the transfer of tensor t to device d is o + t * D + d. So the key of
//! code c is key o * D + c of the chromosome. Codes are sorted by key once, and what is ready is a set of ranks, from which the
//! smallest is taken: what a heap of keys would give, without its branches.

use super::{Decoder, DecoderKind, traits};
use crate::{Step, graph::NONE};

impl Decoder<'_, '_> {
    /// `D` is the number of devices where it is 2, else 0.
    pub(super) fn emit<const D: usize, const MEMORY: bool, const RECORD: bool>(
        &mut self,
        keys: &[f32],
    ) {
        self.place::<D>(keys);
        self.rank::<D, MEMORY>(keys);
        self.waiting.copy_from_slice(&self.n_inputs);
        if RECORD {
            self.steps.clear();
        }
        let (is_time_aware, is_flushing) = traits(self.kind);
        self.queues.clear();
        self.parcels.clear();
        for op in 0..self.n_inputs.len() as u32 {
            self.make_ready::<D, false>(op, self.n_inputs[op as usize] == 0);
        }
        if self.kind == DecoderKind::Paper {
            while let Some(rank) = self.ready.pop_first() {
                self.item::<D, MEMORY, RECORD, true>(rank);
            }
            return;
        }
        while let Some(rank) = self.next::<D>(is_time_aware) {
            let link = self.item::<D, MEMORY, RECORD, false>(rank);
            if is_flushing && let Some((from, to)) = link {
                self.flush::<D, MEMORY, RECORD>(from, to);
            }
        }
    }

    fn n_devices<const D: usize>(&self) -> usize {
        if D > 0 { D } else { self.problem.n_devices() }
    }

    fn device_of(&self, op: u32) -> usize {
        usize::from(self.accounts.placement[op as usize])
    }

    /// Each op to the device of its largest affinity.
    fn place<const D: usize>(&mut self, keys: &[f32]) {
        let n = self.n_devices::<D>();
        let placement = &mut self.accounts.placement;
        if D == 2 {
            for (device, pair) in placement.iter_mut().zip(keys.chunks_exact(2)) {
                *device = u8::from(pair[1] > pair[0]);
            }
        } else {
            for (device, affinities) in placement.iter_mut().zip(keys.chunks_exact(n)) {
                let mut best = 0;
                for (candidate, &affinity) in affinities.iter().enumerate() {
                    if affinity > affinities[best] {
                        best = candidate;
                    }
                }
                *device = best as u8;
            }
        }
        if self.problem.fixed != NONE {
            placement[self.problem.fixed as usize] = 0;
        }
        self.problem.colocate(placement);
    }

    /// Starts the accounts and sorts the ops and the transfers that the placement implies.
    fn rank<const D: usize, const MEMORY: bool>(&mut self, keys: &[f32]) {
        let n = self.n_devices::<D>();
        let n_ops = self.n_inputs.len();
        let keys = &keys[n_ops * n..];
        let (op_keys, transfer_keys) = keys.split_at(n_ops);
        let ranking = &mut self.ranking;
        ranking.clear();
        for (op, &key) in (0..n_ops as u32).zip(op_keys) {
            ranking.push(key, op);
        }
        self.accounts
            .start::<MEMORY>(self.problem, |tensor, device| {
                let slot = tensor as usize * n + device;
                ranking.push(transfer_keys[slot], (n_ops + slot) as u32);
            });
        ranking.sort();
    }

    /// Runs the item of a rank and makes ready what waited for it; for a transfer, returns its ends.
    #[inline]
    fn item<const D: usize, const MEMORY: bool, const RECORD: bool, const PAPER: bool>(
        &mut self,
        rank: u32,
    ) -> Option<(usize, usize)> {
        let n_ops = self.n_inputs.len() as u32;
        let code = self.ranking.code_at(rank);
        if code < n_ops {
            self.op::<D, MEMORY, PAPER>(code);
            if RECORD {
                self.steps.push(Step::Op(code));
            }
            return None;
        }
        let n = self.n_devices::<D>() as u32;
        let (tensor, to) = ((code - n_ops) / n, ((code - n_ops) % n) as usize);
        let from = self.device_of(self.problem.graph.producer(tensor));
        self.accounts
            .transfer::<MEMORY>(self.problem, tensor, from, to);
        if RECORD {
            self.steps.push(Step::Transfer {
                tensor,
                to: to as u8,
            });
        }
        self.deliver::<D, PAPER>(tensor, to);
        Some((from, to))
    }

    #[inline]
    fn op<const D: usize, const MEMORY: bool, const PAPER: bool>(&mut self, op: u32) {
        let problem = self.problem;
        let n = self.n_devices::<D>();
        let n_ops = self.n_inputs.len();
        let device = self.device_of(op);
        for tensor in problem.graph.outputs(op) {
            if !problem.is_transferred(tensor) {
                self.deliver_everywhere::<D, PAPER>(tensor);
                continue;
            }
            self.deliver::<D, PAPER>(tensor, device);
            let row = tensor as usize * n;
            for to in (0..n).filter(|&to| to != device) {
                let rank = self.ranking.rank_of((n_ops + row + to) as u32);
                let is_sent = self.accounts.uses[row + to] > 0;
                self.ready.insert_if(rank, is_sent);
                if !PAPER && is_sent {
                    self.enqueue(rank, device, to, n);
                }
            }
        }
        // After the uses above were read: this releases some.
        self.accounts.op::<MEMORY>(problem, op, device);
    }

    /// A copy of `tensor` is on `device`: its consumers there wait for one input less.
    #[inline]
    fn deliver<const D: usize, const PAPER: bool>(&mut self, tensor: u32, device: usize) {
        for &consumer in self.problem.graph.consumers(tensor) {
            let is_here = self.device_of(consumer) == device;
            let waiting = &mut self.waiting[consumer as usize];
            *waiting -= u32::from(is_here);
            let is_ready = is_here & (*waiting == 0);
            self.make_ready::<D, PAPER>(consumer, is_ready);
        }
    }

    /// A control tensor that does not block: consumers on all devices wait for one input less.
    fn deliver_everywhere<const D: usize, const PAPER: bool>(&mut self, tensor: u32) {
        for &consumer in self.problem.graph.consumers(tensor) {
            let waiting = &mut self.waiting[consumer as usize];
            *waiting -= 1;
            let is_ready = *waiting == 0;
            self.make_ready::<D, PAPER>(consumer, is_ready);
        }
    }

    /// Adds an op to what is ready, if it is.
    #[inline]
    fn make_ready<const D: usize, const PAPER: bool>(&mut self, op: u32, is_ready: bool) {
        let rank = self.ranking.rank_of(op);
        self.ready.insert_if(rank, is_ready);
        if !PAPER && is_ready {
            let device = self.device_of(op);
            self.enqueue(rank, device, device, self.n_devices::<D>());
        }
    }

    /// Enters what became ready into the queues that this kind of decoder has.
    fn enqueue(&mut self, rank: u32, from: usize, to: usize, n: usize) {
        if self.queues.are_used() {
            self.queues.push(queue_of(from, to, n), rank);
        }
        if self.parcels.are_used() && from != to {
            self.parcels.push(parcel_of(from, to, n), rank);
        }
    }

    /// Takes the next item: the first of the one queue or, time-aware, of that whose first can start first.
    fn next<const D: usize>(&mut self, is_time_aware: bool) -> Option<u32> {
        if !is_time_aware {
            return self.ready.pop_first();
        }
        let n = self.n_devices::<D>();
        let mut queues = std::mem::take(&mut self.queues);
        let mut best = (u64::MAX, u32::MAX);
        queues.for_each_first(&self.ready, |rank, queue| {
            let start = self.start_of(self.ranking.code_at(rank), queue / n, queue % n);
            best = best.min((start, rank));
        });
        self.queues = queues;
        let (_, rank) = best;
        (rank != u32::MAX).then(|| {
            self.ready.remove(rank);
            rank
        })
    }

    /// When the item could start if it were next.
    fn start_of(&self, code: u32, from: usize, to: usize) -> u64 {
        let accounts = &self.accounts;
        if from == to {
            let clock = accounts.clock[from];
            return if self.problem.tracks_ready {
                clock.max(accounts.ready_at[code as usize])
            } else {
                clock
            };
        }
        let n = accounts.clock.len();
        if self.problem.options.asynchronous {
            let tensor = (code as usize - self.n_inputs.len()) / n;
            let producer = self.problem.graph.tensors.producer[tensor];
            return accounts.link_free[from * n + to].max(accounts.ended[producer as usize]);
        }
        accounts.clock[from].max(accounts.clock[to])
    }

    /// Two devices have just met: everything that is ready to go between them goes, at no cost.
    fn flush<const D: usize, const MEMORY: bool, const RECORD: bool>(
        &mut self,
        from: usize,
        to: usize,
    ) {
        if !self.problem.free_links || self.problem.options.asynchronous {
            return;
        }
        let n = self.n_devices::<D>();
        while let Some(rank) = self.parcels.first(parcel_of(from, to, n), &self.ready) {
            self.ready.remove(rank);
            self.item::<D, MEMORY, RECORD, false>(rank);
        }
    }
}

/// The queue of ops on a device (`from == to`) or of transfers.
fn queue_of(from: usize, to: usize, n: usize) -> usize {
    from * n + to
}

/// The set of transfers between two devices, in either direction.
fn parcel_of(from: usize, to: usize, n: usize) -> usize {
    from.min(to) * n + from.max(to)
}
