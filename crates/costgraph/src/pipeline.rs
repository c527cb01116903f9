//! Pipelines: one micro-batch after the other through the same placement, and how many come out in a second.

mod check;
#[cfg(test)]
mod tests;

use crate::{Error, ErrorKind, Problem};

/// A placement in its steady state: every op and transfer runs once in each period, each time for another micro-batch.
///
/// Micro-batch k runs every op and transfer exactly k periods after micro-batch 0 does.
///
/// ```
/// use shardgraph_costgraph::*;
///
/// let mut builder = GraphBuilder::new("chain");
/// let [a, b] = ["a", "b"].map(|name| builder.op(OpSpec::new(name, 10)));
/// builder.tensor(TensorSpec::new(a, 64, &[b]));
/// let graph = builder.build()?;
/// let devices = DeviceSet::uniform(2, None)?;
/// let problem = Problem::new(&graph, &devices, Objective::Runtime, ModelOptions::default())?;
/// // One pass takes 20 ns on any number of devices; two devices finish a micro-batch every 10 ns.
/// let pipeline = Pipeline::new(&problem, &[0, 1]);
/// pipeline.check(&problem)?;
/// assert_eq!((pipeline.period_ns, pipeline.latency_ns), (10, 20));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The device of each op.
    pub placement: Vec<u8>,
    /// When each op starts for micro-batch 0.
    pub op_starts_ns: Vec<u64>,
    /// The transfers of micro-batch 0.
    pub transfers: Vec<PipelineTransfer>,
    /// The time from one micro-batch to the next.
    pub period_ns: u64,
    /// The time of one micro-batch from start to end.
    pub latency_ns: u64,
    /// The largest memory in use on each device in the steady state.
    pub peak_bytes: Vec<u64>,
}

/// A tensor of micro-batch 0 on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineTransfer {
    /// What is sent, from its producer's device.
    pub tensor: u32,
    /// The receiving device.
    pub to: u8,
    /// When it starts.
    pub start_ns: u64,
}

impl Pipeline {
    /// The pipeline of a placement.
    ///
    /// Within the period each device (and link, where transfers are asynchronous) first runs the transfers, then the ops in
    /// topological order. On two devices, and with asynchronous transfers, the period is the largest load of any of them: nothing is
    /// shorter. With more devices that wait for each other in transfers it may be longer. Each op and transfer then starts at its place in the first
    /// period in which its inputs are there.
    ///
    /// # Panics
    /// When `placement` has no device of the problem for each op.
    ///
    /// # Complexity
    /// O((ops + uses) log uses) time.
    ///
    /// # Source
    /// Modulo schedules: Rau, "Iterative modulo scheduling", 1994.
    #[must_use]
    pub fn new(problem: &Problem<'_>, placement: &[u8]) -> Pipeline {
        let frame = Frame::new(problem, placement);
        let mut pipeline = Pipeline {
            placement: placement.to_vec(),
            op_starts_ns: vec![0; placement.len()],
            transfers: Vec::with_capacity(frame.transfers.len()),
            period_ns: frame.period_ns,
            latency_ns: 0,
            peak_bytes: Vec::new(),
        };
        pipeline.start_all(problem, &frame);
        pipeline.peak_bytes = pipeline.peaks(problem);
        pipeline
    }

    /// How many micro-batches are under way at the same time.
    #[must_use]
    pub fn n_in_flight(&self) -> u64 {
        self.latency_ns.div_ceil(self.period_ns.max(1)).max(1)
    }

    /// A triple to be minimised: bytes beyond the memory of the worst device, period, latency.
    #[must_use]
    pub fn fitness(&self, problem: &Problem<'_>) -> (u64, u64, u64) {
        let limits = problem.devices().devices().iter();
        let excess = limits
            .zip(&self.peak_bytes)
            .map(|(device, &peak)| peak.saturating_sub(device.memory_bytes.unwrap_or(u64::MAX)));
        (excess.max().unwrap_or(0), self.period_ns, self.latency_ns)
    }

    fn start_all(&mut self, problem: &Problem<'_>, frame: &Frame) {
        let (graph, n) = (problem.graph(), problem.n_devices());
        let period = self.period_ns;
        // The first start at or after `ready` at that place of a period; what takes no time needs no place.
        let start = |ready: u64, place: u64, duration: u64| match duration {
            0 => ready,
            _ => ready + (place + period - ready % period) % period,
        };
        let mut arrival = vec![0u64; graph.n_tensors() * n];
        for &op in graph.topological_order() {
            let device = usize::from(self.placement[op as usize]);
            let ready = graph
                .inputs(op)
                .iter()
                .map(|&t| arrival[t as usize * n + device]);
            let cost = problem.cost_ns(op, device);
            let begin = start(ready.max().unwrap_or(0), frame.places[op as usize], cost);
            self.op_starts_ns[op as usize] = begin;
            let end = begin + cost;
            self.latency_ns = self.latency_ns.max(end);
            for tensor in graph.outputs(op) {
                // Control dependencies that do not block are there when the op ends.
                arrival[tensor as usize * n..(tensor as usize + 1) * n].fill(end);
            }
            for sent in frame.sent_by(op) {
                let duration = problem.transfer_ns(sent.tensor, device, usize::from(sent.to));
                let start_ns = start(end, sent.place, duration);
                self.transfers.push(PipelineTransfer {
                    tensor: sent.tensor,
                    to: sent.to,
                    start_ns,
                });
                let there = start_ns + duration;
                arrival[sent.tensor as usize * n + usize::from(sent.to)] = there;
                self.latency_ns = self.latency_ns.max(there);
            }
        }
    }

    /// The largest memory of each device: copies from where they begin to be made to the end of their last use, in as many micro-batches as
    /// these overlap.
    fn peaks(&self, problem: &Problem<'_>) -> Vec<u64> {
        let period = self.period_ns.max(1);
        let mut always = vec![0u64; problem.n_devices()];
        // (device, time within the period, whether bytes come, bytes): at one time, what ends goes first.
        let mut events: Vec<(u8, u64, bool, u64)> = Vec::new();
        let mut occupy = |device: u8, bytes: u64, start: u64, end: u64| {
            let length = end - start;
            always[usize::from(device)] += bytes * (length / period);
            let (begin, end, rest) = (start % period, end % period, length % period);
            if rest == 0 || bytes == 0 {
                return;
            }
            events.push((device, begin, true, bytes));
            // Over the edge of the period: there from its beginning.
            if end < begin && end > 0 {
                events.push((device, 0, true, bytes));
            }
            if end > 0 {
                events.push((device, end, false, bytes));
            }
        };
        self.occupied(problem, &mut occupy);
        events.sort_unstable();
        let mut peaks = always.clone();
        let mut now = always;
        for (device, _, comes, bytes) in events {
            let at = usize::from(device);
            match comes {
                true => now[at] += bytes,
                false => now[at] -= bytes,
            }
            peaks[at] = peaks[at].max(now[at]);
        }
        if problem.has_persistent {
            for (op, &device) in self.placement.iter().enumerate() {
                peaks[usize::from(device)] += problem.graph().persistent_bytes(op as u32);
            }
        }
        peaks
    }

    /// Tells of every copy and of the scratch of every op: device, bytes, start, end.
    fn occupied(&self, problem: &Problem<'_>, tell: &mut dyn FnMut(u8, u64, u64, u64)) {
        let (graph, n) = (problem.graph(), problem.n_devices());
        let home = |op: u32| self.placement[op as usize];
        let end_of =
            |op: u32| self.op_starts_ns[op as usize] + problem.cost_ns(op, usize::from(home(op)));
        // A view on its producer's device is there as long as what it is a view of.
        let holder = |mut tensor: u32, device: u8| {
            while home(graph.producer(tensor)) == device
                && let Some(base) = graph.alias_of(tensor)
            {
                tensor = base;
            }
            tensor as usize * n + usize::from(device)
        };
        let mut from = vec![u64::MAX; graph.n_tensors() * n];
        let mut until = vec![0u64; graph.n_tensors() * n];
        for op in 0..graph.n_ops() as u32 {
            for tensor in graph.outputs(op) {
                let at = holder(tensor, home(op));
                from[at] = from[at].min(self.op_starts_ns[op as usize]);
                until[at] = until[at].max(end_of(op));
            }
            for &tensor in graph.inputs(op).iter().filter(|&&t| !graph.is_control(t)) {
                let at = holder(tensor, home(op));
                until[at] = until[at].max(end_of(op));
            }
            let start = self.op_starts_ns[op as usize];
            tell(home(op), graph.internal_bytes(op), start, end_of(op));
        }
        for sent in &self.transfers {
            let device = home(graph.producer(sent.tensor));
            let duration =
                problem.transfer_ns(sent.tensor, usize::from(device), usize::from(sent.to));
            let end = sent.start_ns + duration;
            let (at, there) = (holder(sent.tensor, device), holder(sent.tensor, sent.to));
            until[at] = until[at].max(end);
            from[there] = from[there].min(sent.start_ns);
            until[there] = until[there].max(end);
        }
        for tensor in 0..graph.n_tensors() {
            for device in (0..n).filter(|device| from[tensor * n + device] != u64::MAX) {
                let at = tensor * n + device;
                let bytes = graph.tensor_bytes(tensor as u32);
                tell(device as u8, bytes, from[at], until[at].max(from[at]));
            }
        }
    }
}

/// The shortest period that no placement can beat: the work of all ops on their fastest devices divided by the devices, and the
/// longest op.
#[must_use]
pub fn period_bound(problem: &Problem<'_>) -> u64 {
    let n = problem.n_devices();
    let fastest = |op| (0..n).map(|d| problem.cost_ns(op, d)).min().unwrap_or(0);
    let costs = || (0..problem.graph().n_ops() as u32).map(fastest);
    let shared = costs().sum::<u64>().div_ceil(n as u64);
    shared.max(costs().max().unwrap_or(0))
}

/// Where everything is within a period.
struct Frame {
    period_ns: u64,
    /// By op.
    places: Vec<u64>,
    /// By producer, then tensor and receiver.
    transfers: Vec<Sent>,
    producers: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Sent {
    tensor: u32,
    to: u8,
    place: u64,
}

impl Frame {
    fn new(problem: &Problem<'_>, placement: &[u8]) -> Frame {
        let graph = problem.graph();
        let n = problem.n_devices();
        assert_eq!(placement.len(), graph.n_ops(), "a device for each op");
        let mut frame = Frame {
            period_ns: 0,
            places: vec![0; graph.n_ops()],
            transfers: transfers(problem, placement),
            producers: Vec::new(),
        };
        let of = |sent: &Sent| graph.producer(sent.tensor);
        frame.producers = frame.transfers.iter().map(of).collect();
        let mut device_free = vec![0u64; n];
        let mut link_free = vec![0u64; n * n];
        let mut longest: Vec<(u64, usize)> = Vec::with_capacity(frame.transfers.len());
        for (at, sent) in frame.transfers.iter().enumerate() {
            let from = usize::from(placement[of(sent) as usize]);
            let duration = problem.transfer_ns(sent.tensor, from, usize::from(sent.to));
            longest.push((duration, at));
        }
        // With two devices any order is as short; with more, long ones first leave smaller gaps.
        if n > 2 && !problem.options().asynchronous {
            longest.sort_by_key(|&(duration, at)| (std::cmp::Reverse(duration), at));
        }
        for (duration, at) in longest {
            let sent = &mut frame.transfers[at];
            let from = usize::from(placement[frame.producers[at] as usize]);
            let to = usize::from(sent.to);
            if problem.options().asynchronous {
                sent.place = link_free[from * n + to];
                link_free[from * n + to] += duration;
            } else {
                sent.place = device_free[from].max(device_free[to]);
                device_free[from] = sent.place + duration;
                device_free[to] = sent.place + duration;
            }
        }
        for &op in graph.topological_order() {
            let device = usize::from(placement[op as usize]);
            frame.places[op as usize] = device_free[device];
            device_free[device] += problem.cost_ns(op, device);
        }
        let all = device_free.into_iter().chain(link_free);
        frame.period_ns = all.max().unwrap_or(0).max(1);
        frame
    }

    fn sent_by(&self, op: u32) -> &[Sent] {
        let begin = self.producers.partition_point(|&producer| producer < op);
        let end = self.producers.partition_point(|&producer| producer <= op);
        &self.transfers[begin..end]
    }
}

/// What is sent, once to each device that needs it; tensors are numbered by producer.
fn transfers(problem: &Problem<'_>, placement: &[u8]) -> Vec<Sent> {
    let graph = problem.graph();
    let mut all = Vec::new();
    let mut devices: Vec<u8> = Vec::new();
    for tensor in (0..graph.n_tensors() as u32).filter(|&t| problem.is_transferred(t)) {
        let home = placement[graph.producer(tensor) as usize];
        devices.clear();
        devices.extend(
            graph
                .consumers(tensor)
                .iter()
                .map(|&op| placement[op as usize]),
        );
        devices.retain(|&device| device != home);
        devices.sort_unstable();
        devices.dedup();
        all.extend(devices.iter().map(|&to| Sent {
            tensor,
            to,
            place: 0,
        }));
    }
    all
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Schedule, message)
}
