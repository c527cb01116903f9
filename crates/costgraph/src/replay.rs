//! A schedule evaluated by the definitions of A.4, step by step against all steps before it.
//!
//! Nothing here is shared with the one-pass evaluation and the one-pass check: no clocks that are carried along, no counters of
//! uses, no flags of what is there. A rule is looked up among the places of all steps, a step's start among the ends of all earlier
//! ones, and the memory in use at a step is the sum over all copies that were made no later and are needed no earlier. Quadratic,
//! and therefore the judge of every schedule that is given out. What [`Problem`] says is believed: costs, times of transfers, which
//! op is fixed.

use crate::{Error, ErrorKind, Outcome, Problem, Schedule, Step};

/// Checks `schedule` and evaluates it, slowly.
///
/// # Errors
/// `Schedule` when the schedule breaks a rule of A.4.
///
/// # Complexity
/// O(steps^2) time and O(steps) memory.
///
/// # Source
/// Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs", A.4 and A.9.
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
        View {
            problem,
            schedule,
            step_of,
            sent_at,
        }
    }

    /// Whether a transfer to that device is before step `idx`.
    fn is_sent_before(&self, idx: usize, tensor: u32, device: usize) -> bool {
        let mut sent = self.sent_at[tensor as usize].iter();
        sent.any(|&at| at < idx && self.receiver(at) == Some(device))
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
            Step::Transfer { tensor, to } => {
                let from = self.device_of(self.problem.graph().producer(tensor));
                vec![from, usize::from(to)]
            }
        }
    }

    /// True when `later` cannot start before `earlier` has ended.
    fn must_wait(&self, earlier: Step, later: Step) -> bool {
        let busy = self.occupied(earlier);
        if self.occupied(later).iter().any(|d| busy.contains(d)) {
            return true;
        }
        let graph = self.problem.graph();
        match (earlier, later) {
            (Step::Op(before), Step::Op(op)) => graph
                .inputs(op)
                .iter()
                .any(|&t| graph.producer(t) == before && !self.problem.is_transferred(t)),
            (Step::Op(before), Step::Transfer { tensor, .. }) => graph.producer(tensor) == before,
            (Step::Transfer { tensor, to }, Step::Op(op)) => {
                self.device_of(op) == usize::from(to) && graph.inputs(op).contains(&tensor)
            }
            (
                Step::Transfer { tensor, to },
                Step::Transfer {
                    tensor: next,
                    to: next_to,
                },
            ) => {
                // One link, one transfer at a time; where transfers occupy devices this was caught above.
                to == next_to
                    && self.device_of(graph.producer(tensor))
                        == self.device_of(graph.producer(next))
            }
        }
    }

    /// Start and end of each step.
    fn spans(&self) -> Vec<(u64, u64)> {
        let steps = &self.schedule.steps;
        let mut spans: Vec<(u64, u64)> = Vec::with_capacity(steps.len());
        for (idx, &step) in steps.iter().enumerate() {
            let mut start = 0;
            for (&earlier, span) in steps[..idx].iter().zip(&spans).rev() {
                // Only ends beyond the best so far matter; asking that first, and the latest steps first, keeps n^2 affordable.
                if span.1 > start && self.must_wait(earlier, step) {
                    start = span.1;
                }
            }
            let duration = match step {
                Step::Op(op) => self.problem.cost_ns(op, self.device_of(op)),
                Step::Transfer { tensor, to } => {
                    let from = self.device_of(self.problem.graph().producer(tensor));
                    self.problem.transfer_ns(tensor, from, usize::from(to))
                }
            };
            spans.push((start, start + duration));
        }
        spans
    }

    fn runtime(&self, spans: &[(u64, u64)]) -> u64 {
        spans.iter().map(|span| span.1).max().unwrap_or(0)
    }

    /// The largest memory in use at any step, for each device.
    fn peaks(&self) -> Vec<u64> {
        let all_copies = self.copies();
        let steps = &self.schedule.steps;
        let mut peaks = vec![0; self.problem.n_devices()];
        for (device, peak) in peaks.iter_mut().enumerate() {
            let persistent = self.persistent(device);
            *peak = persistent;
            let here = all_copies.iter().filter(|copy| copy.device == device);
            let copies: Vec<TensorCopy> = here.copied().collect();
            for (idx, &step) in steps.iter().enumerate() {
                let mut bytes = persistent;
                for copy in &copies {
                    let is_resident = copy.first <= idx && idx <= copy.last;
                    bytes += if is_resident { copy.bytes } else { 0 };
                }
                if let Step::Op(op) = step
                    && self.device_of(op) == device
                {
                    bytes += self.problem.graph().internal_bytes(op);
                }
                *peak = bytes.max(*peak);
            }
        }
        peaks
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
                    pending.extend(
                        graph
                            .outputs(consumer)
                            .filter(|&t| graph.alias_of(t) == Some(tensor)),
                    );
                }
            }
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
