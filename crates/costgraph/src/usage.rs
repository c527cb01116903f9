//! Where the time of a schedule goes: devices, links, and the path that no delay may touch.

use crate::{Problem, Schedule, Simulation, Step};

/// What one device does until the last op ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeviceUsage {
    /// Time in ops.
    pub ops_ns: u64,
    /// Time in transfers that occupy the device; 0 where transfers are asynchronous.
    pub transfers_ns: u64,
    /// Neither of both.
    pub idle_ns: u64,
}

/// What crosses one directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUsage {
    /// The sending device.
    pub from: u8,
    /// The receiving device.
    pub to: u8,
    /// Transfers.
    pub n_transfers: u64,
    /// Bytes in all of them.
    pub bytes: u64,
    /// Time in all of them.
    pub busy_ns: u64,
}

/// Steps each of which starts when the one before it ends, up to the end of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CriticalPath {
    /// Indices into [`Schedule::steps`], first to last.
    pub steps: Vec<u32>,
    /// Time in ops.
    pub ops_ns: u64,
    /// Time in transfers.
    pub transfers_ns: u64,
}

/// Where the time of a schedule goes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// By device.
    pub devices: Vec<DeviceUsage>,
    /// The links that something crosses, by (sender, receiver).
    pub links: Vec<LinkUsage>,
    /// One path of steps without a gap that ends with the schedule.
    pub critical_path: CriticalPath,
}

impl Usage {
    /// Accounts for a schedule by its simulation.
    ///
    /// # Panics
    /// When the simulation is not that of the schedule.
    ///
    /// # Complexity
    /// O(steps + devices^2) time, and the inputs of the critical ops.
    #[must_use]
    pub fn new(problem: &Problem<'_>, schedule: &Schedule, simulation: &Simulation) -> Usage {
        let n = problem.n_devices();
        let mut devices = vec![DeviceUsage::default(); n];
        let mut links: Vec<Option<LinkUsage>> = vec![None; n * n];
        for (&step, span) in schedule.steps.iter().zip(&simulation.spans) {
            let duration = span.end_ns - span.start_ns;
            let (from, to) = ends(problem, schedule, step);
            let Step::Transfer { tensor, .. } = step else {
                devices[from].ops_ns += duration;
                continue;
            };
            if !problem.options().asynchronous {
                devices[from].transfers_ns += duration;
                devices[to].transfers_ns += duration;
            }
            let link = links[from * n + to].get_or_insert(LinkUsage {
                from: from as u8,
                to: to as u8,
                n_transfers: 0,
                bytes: 0,
                busy_ns: 0,
            });
            link.n_transfers += 1;
            link.bytes += problem.graph().tensor_bytes(tensor);
            link.busy_ns += duration;
        }
        let runtime = simulation.outcome.runtime_ns;
        for device in &mut devices {
            device.idle_ns = runtime.saturating_sub(device.ops_ns + device.transfers_ns);
        }
        Usage {
            devices,
            links: links.into_iter().flatten().collect(),
            critical_path: critical_path(problem, schedule, simulation),
        }
    }

    /// The link that is busy for longest; of equals the one with most bytes, then the first.
    #[must_use]
    pub fn busiest_link(&self) -> Option<LinkUsage> {
        let links = self.links.iter().rev().copied();
        links.max_by_key(|link| (link.busy_ns, link.bytes))
    }
}

/// Sender and receiver, or twice the device of an op.
fn ends(problem: &Problem<'_>, schedule: &Schedule, step: Step) -> (usize, usize) {
    let device = |op: u32| usize::from(schedule.placement[op as usize]);
    match step {
        Step::Op(op) => (device(op), device(op)),
        Step::Transfer { tensor, to } => {
            (device(problem.graph().producer(tensor)), usize::from(to))
        }
    }
}

/// Back from the step that ends last, to a step that ends where it starts and that it waits for, and so on.
fn critical_path(
    problem: &Problem<'_>,
    schedule: &Schedule,
    simulation: &Simulation,
) -> CriticalPath {
    let spans = &simulation.spans;
    let mut path = CriticalPath::default();
    let last = (0..spans.len()).rev().max_by_key(|&at| spans[at].end_ns);
    let mut current = last;
    while let Some(at) = current {
        let duration = spans[at].end_ns - spans[at].start_ns;
        match schedule.steps[at] {
            Step::Op(_) => path.ops_ns += duration,
            Step::Transfer { .. } => path.transfers_ns += duration,
        }
        path.steps.push(at as u32);
        let start = spans[at].start_ns;
        let is_cause = |&before: &usize| {
            spans[before].end_ns == start && waits_for(problem, schedule, at, before)
        };
        current = match start {
            0 => None,
            _ => (0..at).rev().find(is_cause),
        };
    }
    path.steps.reverse();
    path
}

/// True when step `at` cannot start before step `before` ends: they share a device, or one delivers to the other.
fn waits_for(problem: &Problem<'_>, schedule: &Schedule, at: usize, before: usize) -> bool {
    let graph = problem.graph();
    let (step, earlier) = (schedule.steps[at], schedule.steps[before]);
    let is_async = problem.options().asynchronous;
    let (from, to) = ends(problem, schedule, step);
    let (earlier_from, earlier_to) = ends(problem, schedule, earlier);
    match (step, earlier) {
        (Step::Op(_), Step::Op(_)) if from == earlier_from => true,
        (Step::Op(op), Step::Op(producer)) => {
            let mut inputs = graph.inputs(op).iter();
            inputs.any(|&t| graph.producer(t) == producer && !problem.is_transferred(t))
        }
        (Step::Op(op), Step::Transfer { tensor, to }) => match is_async {
            true => usize::from(to) == from && graph.inputs(op).contains(&tensor),
            false => [earlier_from, earlier_to].contains(&from),
        },
        (Step::Transfer { tensor, .. }, Step::Op(op)) => match is_async {
            true => graph.producer(tensor) == op,
            false => [from, to].contains(&earlier_from),
        },
        (Step::Transfer { .. }, Step::Transfer { .. }) => match is_async {
            true => (from, to) == (earlier_from, earlier_to),
            false => [from, to].contains(&earlier_from) || [from, to].contains(&earlier_to),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use crate::tests::random_problems::{for_problems, keys};
    use crate::{Decoder, DecoderKind};

    /// Time adds up on every device, and the critical path has no gap from 0 to the end.
    #[test]
    fn time_adds_up_and_the_path_is_whole() {
        let n_paths = std::cell::Cell::new(0);
        for kind in [
            DecoderKind::Paper,
            DecoderKind::TimeAware,
            DecoderKind::List,
        ] {
            for_problems(300, 40, |problem, seed| {
                let schedule = Decoder::new(problem, kind).schedule(&keys(seed, problem));
                let simulation = schedule.verify(problem).unwrap();
                let usage = Usage::new(problem, &schedule, &simulation);
                let runtime = simulation.outcome.runtime_ns;
                for device in &usage.devices {
                    let sum = device.ops_ns + device.transfers_ns + device.idle_ns;
                    assert_eq!(sum, runtime.max(device.ops_ns + device.transfers_ns));
                }
                let path = &usage.critical_path;
                assert_eq!(path.ops_ns + path.transfers_ns, runtime);
                let spans = path.steps.iter().map(|&at| simulation.spans[at as usize]);
                let spans: Vec<_> = spans.collect();
                assert!(
                    spans
                        .windows(2)
                        .all(|pair| pair[0].end_ns == pair[1].start_ns)
                );
                n_paths.set(n_paths.get() + usize::from(spans.len() > 2));
            });
        }
        assert!(n_paths.get() > 300);
    }
}
