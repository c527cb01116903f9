//! A schedule evaluated once more, in another way than by walking through it with clocks and counters.
//!
//! Nothing here is shared with the one-pass evaluation and the one-pass check: no counters of uses, no flags of what is there. A rule
//! is looked up among the places of all steps. Times are longest paths in the disjunctive graph: each step waits for the one before it
//! on each device (or link) that it occupies, and for what it needs. The memory in use at a step is the sum over all copies that were
//! made no later and are needed no earlier. This is the judge of every schedule that is given out; the tests judge it by the
//! definitions of A.4, all pairs of steps (`naive`). What [`Problem`] says is believed: costs, times of transfers, which op is fixed.

use crate::{Error, ErrorKind, Outcome, Problem, Schedule, Step};

/// Checks `schedule` and evaluates it.
///
/// # Errors
/// `Schedule` when the schedule breaks a rule of A.4.
///
/// # Complexity
/// O(devices x (steps + uses)) time and O(steps + uses + devices^2) memory, and a sort of each device's steps.
///
/// # Source
/// Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs", A.4 and A.9. Disjunctive graphs: Roy and
/// Sussmann, "Les problemes d'ordonnancement avec contraintes disjonctives", 1964.
pub fn replay(problem: &Problem<'_>, schedule: &Schedule) -> Result<Outcome, Error> {
    // The rules come first; what follows may index freely.
    check_names(problem, schedule)?;
    let view = View::new(problem, schedule);
    view.check_rules()?;
    let spans = view.spans();
    let peaks = view.peaks();
    let devices = problem.devices().devices();
    let over = devices.iter().zip(&peaks).map(|(device, &peak)| {
        device
            .memory_bytes
            .map_or(0, |limit| peak.saturating_sub(limit))
    });
    let (runtime_ns, excess_bytes) = (view.runtime(&spans), over.max());
    check_exclusive(&view, &spans)?;
    Ok(Outcome {
        runtime_ns,
        peak_bytes: peaks.into_iter().max().unwrap_or(0),
        excess_bytes: excess_bytes.unwrap_or(0),
    })
}

struct View<'a, 'g> {
    problem: &'a Problem<'g>,
    schedule: &'a Schedule,
    /// The step of each op.
    step_of: Vec<usize>,
    /// The steps at which each tensor is sent.
    sent_at: Vec<Vec<usize>>,
    /// The views of each tensor.
    views_of: Vec<Vec<u32>>,
}

/// A copy of a tensor on a device, with the first and the last step at which it is in memory.
#[derive(Clone, Copy)]
struct TensorCopy {
    device: usize,
    bytes: u64,
    first: usize,
    last: usize,
}

impl<'a, 'g> View<'a, 'g> {
    fn new(problem: &'a Problem<'g>, schedule: &'a Schedule) -> View<'a, 'g> {
        let graph = problem.graph();
        let mut step_of = vec![0; graph.n_ops()];
        let mut sent_at = vec![Vec::new(); graph.n_tensors()];
        for (idx, &step) in schedule.steps.iter().enumerate() {
            match step {
                Step::Op(op) => step_of[op as usize] = idx,
                Step::Transfer { tensor, .. } => sent_at[tensor as usize].push(idx),
            }
        }
        let mut views_of = vec![Vec::new(); graph.n_tensors()];
        for view in 0..graph.n_tensors() as u32 {
            if let Some(base) = graph.alias_of(view) {
                views_of[base as usize].push(view);
            }
        }
        View {
            problem,
            schedule,
            step_of,
            sent_at,
            views_of,
        }
    }

    /// The first step that sends a tensor to that device.
    fn sent_to(&self, tensor: u32, device: usize) -> Option<usize> {
        let mut sent = self.sent_at[tensor as usize].iter().copied();
        sent.find(|&at| self.receiver(at) == Some(device))
    }

    /// Whether a transfer to that device is before step `idx`.
    fn is_sent_before(&self, idx: usize, tensor: u32, device: usize) -> bool {
        self.sent_to(tensor, device).is_some_and(|at| at < idx)
    }

    fn receiver(&self, step: usize) -> Option<usize> {
        match self.schedule.steps[step] {
            Step::Op(_) => None,
            Step::Transfer { to, .. } => Some(usize::from(to)),
        }
    }

    fn check_rules(&self) -> Result<(), Error> {
        let fixed = self.problem.fixed_op();
        if fixed.is_some_and(|op| self.device_of(op) != 0) {
            return Err(broken("the fixed op is not on device 0"));
        }
        for (idx, &step) in self.schedule.steps.iter().enumerate() {
            match step {
                Step::Op(op) => self.check_inputs(idx, op)?,
                Step::Transfer { tensor, to } => self.check_transfer(idx, tensor, to.into())?,
            }
        }
        Ok(())
    }

    fn check_inputs(&self, idx: usize, op: u32) -> Result<(), Error> {
        let graph = self.problem.graph();
        let is_there = |&tensor: &u32| {
            let (producer, to) = (graph.producer(tensor), self.device_of(op));
            let is_local = !self.problem.is_transferred(tensor) || self.device_of(producer) == to;
            match is_local {
                true => self.step_of[producer as usize] < idx,
                false => self.is_sent_before(idx, tensor, to),
            }
        };
        match graph.inputs(op).iter().all(is_there) {
            true => Ok(()),
            false => Err(broken("an op runs before an input is there")),
        }
    }

    fn check_transfer(&self, idx: usize, tensor: u32, to: usize) -> Result<(), Error> {
        let graph = self.problem.graph();
        let producer = graph.producer(tensor);
        let mut consumers = graph.consumers(tensor).iter();
        let is_needed = self.problem.is_transferred(tensor)
            && self.device_of(producer) != to
            && consumers.any(|&op| self.device_of(op) == to);
        if !is_needed || self.is_sent_before(idx, tensor, to) {
            return Err(broken("a transfer is of no use"));
        }
        match self.step_of[producer as usize] < idx {
            true => Ok(()),
            false => Err(broken("a transfer goes before its producer ran")),
        }
    }

    fn device_of(&self, op: u32) -> usize {
        usize::from(self.schedule.placement[op as usize])
    }

    /// The devices that are busy during a step.
    fn occupied(&self, step: Step) -> Vec<usize> {
        match step {
            Step::Op(op) => vec![self.device_of(op)],
            Step::Transfer { .. } if self.problem.options().asynchronous => Vec::new(),
            Step::Transfer { tensor, to } => vec![self.sender(tensor), usize::from(to)],
        }
    }

    fn sender(&self, tensor: u32) -> usize {
        self.device_of(self.problem.graph().producer(tensor))
    }

    /// What a step has for itself: devices or, behind them, a directed link.
    fn resources(&self, step: Step) -> Vec<usize> {
        let n = self.problem.n_devices();
        match step {
            Step::Transfer { tensor, to } if self.problem.options().asynchronous => {
                vec![n + self.sender(tensor) * n + usize::from(to)]
            }
            _ => self.occupied(step),
        }
    }

    /// The steps that make what a step needs, or bring it.
    fn needs(&self, step: Step) -> Vec<usize> {
        let graph = self.problem.graph();
        let made = |tensor: u32| self.step_of[graph.producer(tensor) as usize];
        match step {
            Step::Transfer { tensor, .. } => vec![made(tensor)],
            Step::Op(op) => {
                let device = self.device_of(op);
                let brought = |tensor: u32| match self.sender(tensor) != device {
                    true if self.problem.is_transferred(tensor) => self.sent_to(tensor, device),
                    _ => Some(made(tensor)),
                };
                graph
                    .inputs(op)
                    .iter()
                    .filter_map(|&t| brought(t))
                    .collect()
            }
        }
    }

    /// Start and end of each step: longest paths in the disjunctive graph.
    fn spans(&self) -> Vec<(u64, u64)> {
        let steps = &self.schedule.steps;
        let n = self.problem.n_devices();
        let mut spans: Vec<(u64, u64)> = Vec::with_capacity(steps.len());
        // The arcs of a resource join neighbours, as each of its steps ends no earlier than the one before.
        let mut latest_on = vec![None; n + n * n];
        for (idx, &step) in steps.iter().enumerate() {
            let resources = self.resources(step).into_iter();
            let before = resources.filter_map(|resource| latest_on[resource].replace(idx));
            let before = before.chain(self.needs(step));
            let start = before.map(|earlier| spans[earlier].1).max().unwrap_or(0);
            spans.push((start, start + self.duration(step)));
        }
        spans
    }

    fn duration(&self, step: Step) -> u64 {
        match step {
            Step::Op(op) => self.problem.cost_ns(op, self.device_of(op)),
            Step::Transfer { tensor, to } => {
                let from = self.sender(tensor);
                self.problem.transfer_ns(tensor, from, usize::from(to))
            }
        }
    }

    fn runtime(&self, spans: &[(u64, u64)]) -> u64 {
        spans.iter().map(|span| span.1).max().unwrap_or(0)
    }

    /// The largest memory in use at any step, for each device.
    fn peaks(&self) -> Vec<u64> {
        let copies = self.copies();
        let devices = 0..self.problem.n_devices();
        devices.map(|device| self.peak(device, &copies)).collect()
    }

    fn peak(&self, device: usize, copies: &[TensorCopy]) -> u64 {
        let steps = &self.schedule.steps;
        // By step: the bytes of the copies whose first and whose last step it is.
        let (mut come, mut go) = (vec![0; steps.len()], vec![0; steps.len()]);
        for copy in copies.iter().filter(|copy| copy.device == device) {
            come[copy.first] += copy.bytes;
            // Those that stay have no last step.
            if let Some(gone) = go.get_mut(copy.last) {
                *gone += copy.bytes;
            }
        }
        let mut resident = self.persistent(device);
        let mut peak = resident;
        for (idx, &step) in steps.iter().enumerate() {
            resident += come[idx];
            let scratch = match step {
                Step::Op(op) if self.device_of(op) == device => {
                    self.problem.graph().internal_bytes(op)
                }
                _ => 0,
            };
            peak = peak.max(resident + scratch);
            resident -= go[idx];
        }
        peak
    }

    fn persistent(&self, device: usize) -> u64 {
        if !self.problem.options().count_persistent {
            return 0;
        }
        let graph = self.problem.graph();
        let ops = (0..graph.n_ops() as u32).filter(|&op| self.device_of(op) == device);
        ops.map(|op| graph.persistent_bytes(op)).sum()
    }

    /// Every copy of every tensor that takes memory of its own.
    fn copies(&self) -> Vec<TensorCopy> {
        let graph = self.problem.graph();
        let mut copies = Vec::new();
        for (idx, &step) in self.schedule.steps.iter().enumerate() {
            match step {
                Step::Op(op) => {
                    let own = graph.outputs(op).filter(|&t| graph.alias_of(t).is_none());
                    copies.extend(own.map(|t| self.copy(t, self.device_of(op), idx)));
                }
                Step::Transfer { tensor, to } => {
                    copies.push(self.copy(tensor, usize::from(to), idx));
                }
            }
        }
        copies
    }

    fn copy(&self, tensor: u32, device: usize, first: usize) -> TensorCopy {
        TensorCopy {
            device,
            bytes: self.problem.graph().tensor_bytes(tensor),
            first,
            last: self.last_need(tensor, device).max(first),
        }
    }

    /// The last step that needs the copy of `tensor` on `device`, through views that were made there as well.
    fn last_need(&self, tensor: u32, device: usize) -> usize {
        let graph = self.problem.graph();
        let mut last = 0;
        // A worklist, because chains of views can be long.
        let mut pending = vec![tensor];
        while let Some(tensor) = pending.pop() {
            let is_output = graph.consumers(tensor).is_empty() && !graph.is_control(tensor);
            if is_output && self.problem.options().keep_outputs {
                return usize::MAX;
            }
            if self.device_of(graph.producer(tensor)) == device {
                last = last.max(self.step_of[graph.producer(tensor) as usize]);
                last = self.sent_at[tensor as usize]
                    .iter()
                    .fold(last, |last, &idx| last.max(idx));
            }
            for &consumer in graph.consumers(tensor) {
                if self.device_of(consumer) == device {
                    last = last.max(self.step_of[consumer as usize]);
                }
            }
            let views = self.views_of[tensor as usize].iter().copied();
            pending.extend(views.filter(|&view| self.sender(view) == device));
        }
        last
    }
}

/// Every op, tensor and device that the schedule names exists, and each op has its device and its step.
fn check_names(problem: &Problem<'_>, schedule: &Schedule) -> Result<(), Error> {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let (o, t) = (graph.n_ops(), graph.n_tensors());
    let exists = |device: u8| usize::from(device) < n;
    let is_known = |step: &Step| match *step {
        Step::Op(op) => (op as usize) < o,
        Step::Transfer { tensor, to } => (tensor as usize) < t && exists(to),
    };
    let ops = schedule.steps.iter().filter_map(|step| match *step {
        Step::Op(op) => Some(op),
        Step::Transfer { .. } => None,
    });
    let mut ops: Vec<u32> = ops.collect();
    ops.sort_unstable();
    let is_placed = schedule.placement.len() == o && schedule.placement.iter().all(|&d| exists(d));
    match is_placed && schedule.steps.iter().all(is_known) && ops.into_iter().eq(0..o as u32) {
        true => Ok(()),
        false => Err(broken(
            "a device or a step is missing, or is not the problem's",
        )),
    }
}

fn broken(rule: &str) -> Error {
    Error::new(
        ErrorKind::Schedule,
        format!("the replay finds a rule broken: {rule}"),
    )
}

/// No two steps of positive length overlap on a device; a zero-length step lies strictly inside no other.
fn check_exclusive(view: &View<'_, '_>, spans: &[(u64, u64)]) -> Result<(), Error> {
    for device in 0..view.problem.n_devices() {
        let on_device = view.schedule.steps.iter().zip(spans);
        let on_device = on_device.filter(|(step, _)| view.occupied(**step).contains(&device));
        let mut busy: Vec<(u64, u64)> = on_device.map(|(_, &span)| span).collect();
        busy.sort_unstable();
        if let Some(pair) = busy.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            return Err(Error::new(
                ErrorKind::Schedule,
                format!("device {device} is busy twice at {} ns", pair[1].0),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod naive;
