//! Clocks and memory of the devices while a schedule runs: the one-pass evaluation that decoders and simulations share.

use crate::{Outcome, Problem, schedule::Span};

/// The running state of all devices. Nothing here allocates after `new`.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    /// The device of each op; whoever sets it calls `start` next.
    pub(crate) placement: Vec<u8>,
    pub(crate) clock: Vec<u64>,
    /// The earliest start of each op by what is not on its device's clock.
    pub(crate) ready_at: Vec<u64>,
    pub(crate) ended: Vec<u64>,
    /// Sender-major; asynchronous transfers only.
    pub(crate) link_free: Vec<u64>,
    /// Copies of tensors on devices, tensor-major: how often each is still needed there.
    pub(crate) uses: Vec<u32>,
    pub(crate) resident: Vec<u64>,
    pub(crate) peak: Vec<u64>,
}

/// A count that never reaches 0.
const FOREVER: u32 = 1 << 31;

impl Accounts {
    pub(crate) fn new(problem: &Problem<'_>) -> Accounts {
        let n_devices = problem.n_devices();
        let n_ops = problem.graph.n_ops();
        Accounts {
            placement: vec![0; n_ops],
            clock: vec![0; n_devices],
            ready_at: vec![0; n_ops],
            ended: vec![0; n_ops],
            link_free: vec![0; n_devices * n_devices],
            uses: vec![0; problem.graph.n_tensors() * n_devices],
            resident: vec![0; n_devices],
            peak: vec![0; n_devices],
        }
    }

    /// All clocks to zero, memory to the persistent bytes, and the uses of every copy counted.
    ///
    /// Calls `sent(tensor, device)` for every transfer that the placement implies, by ascending tensor and device.
    #[inline]
    pub(crate) fn start<const MEMORY: bool>(
        &mut self,
        problem: &Problem<'_>,
        mut sent: impl FnMut(u32, usize),
    ) {
        self.clock.fill(0);
        if problem.tracks_ready {
            self.ready_at.fill(0);
            self.link_free.fill(0);
        }
        if self.clock.len() == 2 {
            self.count_uses_of_two(problem, &mut sent);
        } else {
            self.count_uses(problem, &mut sent);
        }
        if MEMORY {
            self.start_memory(problem);
        }
    }

    fn count_uses(&mut self, problem: &Problem<'_>, sent: &mut impl FnMut(u32, usize)) {
        let graph = problem.graph;
        let n = self.clock.len();
        self.uses.fill(0);
        for (tensor, row) in self.uses.chunks_exact_mut(n).enumerate() {
            let tensor = tensor as u32;
            if !problem.is_transferred(tensor) {
                continue;
            }
            for &consumer in graph.consumers(tensor) {
                row[usize::from(self.placement[consumer as usize])] += 1;
            }
            let home = usize::from(self.placement[graph.producer(tensor) as usize]);
            for device in (0..n).filter(|&d| d != home) {
                if row[device] > 0 {
                    row[home] += 1;
                    sent(tensor, device);
                }
            }
        }
    }

    /// As `count_uses`: with two devices, the consumers on the second are a sum of placements.
    #[inline]
    fn count_uses_of_two(&mut self, problem: &Problem<'_>, sent: &mut impl FnMut(u32, usize)) {
        let tensors = &problem.graph.tensors;
        let mut begin = 0;
        let ends = &tensors.consumer_offsets[1..];
        for (tensor, row) in self.uses.chunks_exact_mut(2).enumerate() {
            let end = ends[tensor] as usize;
            let consumers = &tensors.consumers[begin..end];
            begin = end;
            if !problem.is_transferred(tensor as u32) {
                row.fill(0);
                continue;
            }
            let mut second = 0;
            for &consumer in consumers {
                second += u32::from(self.placement[consumer as usize]);
            }
            row[0] = consumers.len() as u32 - second;
            row[1] = second;
            let home = usize::from(self.placement[tensors.producer[tensor] as usize]);
            if row[1 - home] > 0 {
                row[home] += 1;
                sent(tensor as u32, 1 - home);
            }
        }
    }

    /// Memory at the start, and the uses that are no consumers: views of a copy, outputs that stay.
    pub(crate) fn start_memory(&mut self, problem: &Problem<'_>) {
        let graph = problem.graph;
        let n = self.clock.len();
        self.resident.fill(0);
        if problem.has_persistent {
            for (&bytes, &device) in graph.ops.persistent_bytes.iter().zip(&self.placement) {
                self.resident[usize::from(device)] += bytes;
            }
        }
        self.peak.copy_from_slice(&self.resident);
        if !problem.has_views && !problem.options.keep_outputs {
            return;
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let home = self.home(problem, tensor);
            if let Some(base) = graph.alias_of(tensor) {
                self.uses[base as usize * n + home] += 1;
            }
            if problem.is_kept(tensor) {
                self.uses[tensor as usize * n + home] += FOREVER;
            }
        }
    }

    /// The uses of one tensor's copies before anything has run.
    pub(crate) fn recount(&mut self, problem: &Problem<'_>, placement: &[u8], tensor: u32) {
        let graph = problem.graph;
        let n = self.clock.len();
        let row = &mut self.uses[tensor as usize * n..(tensor as usize + 1) * n];
        row.fill(0);
        let home = usize::from(placement[graph.producer(tensor) as usize]);
        let is_transferred = problem.is_transferred(tensor);
        for &consumer in graph.consumers(tensor).iter().filter(|_| is_transferred) {
            row[usize::from(placement[consumer as usize])] += 1;
        }
        let sent = (0..n)
            .filter(|&device| device != home && row[device] > 0)
            .count();
        row[home] += sent as u32;
        for &consumer in graph.consumers(tensor).iter().filter(|_| problem.has_views) {
            let views = graph
                .outputs(consumer)
                .filter(|&t| graph.alias_of(t) == Some(tensor));
            row[usize::from(placement[consumer as usize])] += views.count() as u32;
        }
        if problem.is_kept(tensor) {
            row[home] += FOREVER;
        }
    }

    fn home(&self, problem: &Problem<'_>, tensor: u32) -> usize {
        usize::from(self.placement[problem.graph.producer(tensor) as usize])
    }

    /// Runs `op` on `device`.
    #[inline]
    pub(crate) fn op<const MEMORY: bool>(
        &mut self,
        problem: &Problem<'_>,
        op: u32,
        device: usize,
    ) -> Span {
        let mut start_ns = self.clock[device];
        if problem.tracks_ready {
            start_ns = start_ns.max(self.ready_at[op as usize]);
        }
        let end_ns = start_ns + problem.costs[op as usize * self.clock.len() + device];
        self.clock[device] = end_ns;
        if problem.tracks_ready {
            self.publish_end(problem, op, end_ns);
        }
        if MEMORY {
            self.op_memory(problem, op, device);
        }
        Span { start_ns, end_ns }
    }

    /// Successors by control start no earlier than this end.
    #[inline]
    fn publish_end(&mut self, problem: &Problem<'_>, op: u32, end_ns: u64) {
        self.ended[op as usize] = end_ns;
        // A control tensor is its producer's last output.
        let outputs = problem.graph.outputs(op);
        if let Some(last) = outputs.last().filter(|&t| !problem.is_transferred(t)) {
            for &consumer in problem.graph.consumers(last) {
                let ready = &mut self.ready_at[consumer as usize];
                *ready = (*ready).max(end_ns);
            }
        }
    }

    /// Outputs and scratch come to what is resident, the peak is taken, then what is no longer needed goes.
    #[inline]
    pub(crate) fn op_memory(&mut self, problem: &Problem<'_>, op: u32, device: usize) {
        let graph = problem.graph;
        let n = self.clock.len();
        let mut resident = self.resident[device];
        for tensor in graph.outputs(op) {
            if !problem.has_views || graph.alias_of(tensor).is_none() {
                resident += graph.tensors.bytes[tensor as usize];
            }
        }
        self.resident[device] = resident;
        let peak = resident + graph.ops.internal_bytes[op as usize];
        self.peak[device] = self.peak[device].max(peak);
        for &tensor in graph.inputs(op) {
            if problem.is_transferred(tensor) {
                self.release(problem, tensor, device);
            }
        }
        for tensor in graph.outputs(op) {
            if self.uses[tensor as usize * n + device] == 0 {
                self.free(problem, tensor, device);
            }
        }
    }

    /// Sends `tensor`.
    #[inline]
    pub(crate) fn transfer<const MEMORY: bool>(
        &mut self,
        problem: &Problem<'_>,
        tensor: u32,
        from: usize,
        to: usize,
    ) -> Span {
        let span = if problem.options.asynchronous {
            self.send_asynchronously(problem, tensor, from, to)
        } else {
            let start_ns = self.clock[from].max(self.clock[to]);
            let end_ns = start_ns + problem.transfer_ns(tensor, from, to);
            self.clock[from] = end_ns;
            self.clock[to] = end_ns;
            Span { start_ns, end_ns }
        };
        if MEMORY {
            self.transfer_memory(problem, tensor, from, to);
        }
        span
    }

    /// The copy comes to the receiver, then the sender's may go.
    #[inline]
    pub(crate) fn transfer_memory(
        &mut self,
        problem: &Problem<'_>,
        tensor: u32,
        from: usize,
        to: usize,
    ) {
        let resident = self.resident[to] + problem.graph.tensors.bytes[tensor as usize];
        self.resident[to] = resident;
        self.peak[to] = self.peak[to].max(resident);
        self.release(problem, tensor, from);
    }

    fn send_asynchronously(
        &mut self,
        problem: &Problem<'_>,
        tensor: u32,
        from: usize,
        to: usize,
    ) -> Span {
        let graph = problem.graph;
        let link = &mut self.link_free[from * self.clock.len() + to];
        let start_ns = (*link).max(self.ended[graph.producer(tensor) as usize]);
        let end_ns = start_ns + problem.transfer_ns(tensor, from, to);
        *link = end_ns;
        for &consumer in graph.consumers(tensor) {
            if usize::from(self.placement[consumer as usize]) == to {
                let ready = &mut self.ready_at[consumer as usize];
                *ready = (*ready).max(end_ns);
            }
        }
        Span { start_ns, end_ns }
    }

    /// One use of a copy is over.
    #[inline]
    fn release(&mut self, problem: &Problem<'_>, tensor: u32, device: usize) {
        let uses = &mut self.uses[tensor as usize * self.clock.len() + device];
        *uses -= 1;
        if *uses == 0 {
            self.free(problem, tensor, device);
        }
    }

    /// A copy goes: its bytes or, for a view where it was made, its hold on what it is a view of.
    #[inline]
    fn free(&mut self, problem: &Problem<'_>, tensor: u32, device: usize) {
        if problem.has_views {
            self.free_view(problem, tensor, device);
        } else {
            self.resident[device] -= problem.graph.tensors.bytes[tensor as usize];
        }
    }

    fn free_view(&mut self, problem: &Problem<'_>, mut tensor: u32, device: usize) {
        loop {
            let base = problem.graph.alias_of(tensor);
            let Some(base) = base.filter(|_| self.home(problem, tensor) == device) else {
                self.resident[device] -= problem.graph.tensor_bytes(tensor);
                return;
            };
            let uses = &mut self.uses[base as usize * self.clock.len() + device];
            *uses -= 1;
            if *uses > 0 {
                return;
            }
            tensor = base;
        }
    }

    pub(crate) fn runtime_ns(&self) -> u64 {
        self.clock.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn outcome(&self, problem: &Problem<'_>) -> Outcome {
        let devices = problem.devices.devices();
        let excess = devices.iter().zip(&self.peak).map(|(device, &peak)| {
            let limit = device.memory_bytes.unwrap_or(u64::MAX);
            peak.saturating_sub(limit)
        });
        Outcome {
            runtime_ns: self.runtime_ns(),
            peak_bytes: self.peak.iter().copied().max().unwrap_or(0),
            excess_bytes: excess.max().unwrap_or(0),
        }
    }
}
