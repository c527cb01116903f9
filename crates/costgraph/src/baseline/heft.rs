//! HEFT with free sources beside their consumers, and everything on one device.

use super::orders::{OpOrder, ordered};
use super::ranked::{upward_rank, upward_rank_order};
use crate::{Problem, Schedule, Step, colocation::GroupDevices};

/// HEFT: ops by falling upward rank, each on the device where it ends first; free sources run where their first consumer does.
///
/// A free source is an op without cost whose inputs, if any, come from free sources alone: weights, constants, views of them.
/// Such an op has no device of its own until the first op that needs it has one, so that no weight is sent without need. Over links
/// that take no time this is [`upward_rank`].
///
/// # Complexity
/// O(ops x devices^2 + uses x devices + ops log ops) time.
///
/// # Source
/// Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", 2002,
/// without insertion into idle slots, which blocking transfers rule out.
#[must_use]
pub fn heft(problem: &Problem<'_>) -> Schedule {
    if problem.free_links {
        return upward_rank(problem);
    }
    let mut state = State::new(problem);
    for op in upward_rank_order(problem) {
        if !state.is_free_source[op as usize] {
            let device = state.first_to_end(op);
            state.run(op, device);
        }
    }
    Schedule {
        placement: state.placement,
        steps: state.steps,
    }
    .pinned(problem)
}

/// All ops on one device but those that have another given, in that order.
///
/// # Panics
/// When there is no such device.
#[must_use]
pub fn one_device(problem: &Problem<'_>, device: usize, order: OpOrder) -> Schedule {
    let mut placement = vec![device as u8; problem.graph().n_ops()];
    problem.colocate(&mut placement);
    ordered(problem, &placement, order)
}

/// The ops that cost nothing anywhere, depend on nothing but such ops, and are needed by someone.
pub(crate) fn free_sources(problem: &Problem<'_>) -> Vec<bool> {
    let graph = problem.graph();
    let mut is_free = vec![false; graph.n_ops()];
    for &op in graph.topological_order() {
        let costs_nothing = (0..problem.n_devices()).all(|device| problem.cost_ns(op, device) == 0);
        let mut producers = graph.inputs(op).iter().map(|&t| graph.producer(t));
        let is_needed = graph.outputs(op).any(|t| !graph.consumers(t).is_empty());
        is_free[op as usize] =
            costs_nothing && is_needed && producers.all(|producer| is_free[producer as usize]);
    }
    is_free
}

const UNPLACED: u8 = u8::MAX;

struct State<'p, 'g> {
    problem: &'p Problem<'g>,
    is_free_source: Vec<bool>,
    placement: Vec<u8>,
    steps: Vec<Step>,
    clock: Vec<u64>,
    ended: Vec<u64>,
    /// By tensor and device: when the copy is there, or `u64::MAX`.
    arrival: Vec<u64>,
    /// Sender-major.
    link_free: Vec<u64>,
    /// Clocks and links into one device while it is tried.
    trial: Vec<u64>,
    trial_links: Vec<u64>,
    groups: GroupDevices,
}

impl<'p, 'g> State<'p, 'g> {
    fn new(problem: &'p Problem<'g>) -> State<'p, 'g> {
        let (graph, n) = (problem.graph(), problem.n_devices());
        State {
            problem,
            is_free_source: free_sources(problem),
            placement: vec![UNPLACED; graph.n_ops()],
            steps: Vec::with_capacity(graph.n_ops() * 2),
            clock: vec![0; n],
            ended: vec![0; graph.n_ops()],
            arrival: vec![u64::MAX; graph.n_tensors() * n],
            link_free: vec![0; n * n],
            trial: vec![0; n],
            trial_links: vec![0; n],
            groups: GroupDevices::new(problem),
        }
    }

    fn first_to_end(&mut self, op: u32) -> usize {
        let mut best = (u64::MAX, 0);
        for device in self.groups.candidates(self.problem, op) {
            let end = self.start_on(op, device) + self.problem.cost_ns(op, device);
            best = best.min((end, device));
        }
        best.1
    }

    /// When `op` could start on `device`; leaves in the trial clocks what its inputs' transfers make of the real ones.
    fn start_on(&mut self, op: u32, device: usize) -> u64 {
        let (problem, n) = (self.problem, self.clock.len());
        let graph = problem.graph();
        self.trial.copy_from_slice(&self.clock);
        for from in 0..n {
            self.trial_links[from] = self.link_free[from * n + device];
        }
        let mut start = 0;
        for &tensor in graph.inputs(op) {
            let producer = graph.producer(tensor) as usize;
            if self.placement[producer] == UNPLACED {
                continue;
            }
            let arrival = self.arrival[tensor as usize * n + device];
            if !problem.is_transferred(tensor) || arrival != u64::MAX {
                start = start.max(match problem.is_transferred(tensor) {
                    true => arrival,
                    false => self.ended[producer],
                });
                continue;
            }
            let from = usize::from(self.placement[producer]);
            let duration = problem.transfer_ns(tensor, from, device);
            if problem.options().asynchronous {
                let link = &mut self.trial_links[from];
                *link = self.ended[producer].max(*link) + duration;
                start = start.max(*link);
            } else {
                let end = self.trial[from].max(self.trial[device]) + duration;
                (self.trial[from], self.trial[device]) = (end, end);
            }
        }
        start.max(self.trial[device])
    }

    /// Runs `op` on `device`, with the free sources and transfers that it still needs there before it.
    fn run(&mut self, op: u32, device: usize) {
        let (problem, n) = (self.problem, self.clock.len());
        let graph = problem.graph();
        let device = self.groups.nearest(problem, op, device);
        self.place_sources(op, device);
        let start = self.start_on(op, device);
        self.clock.copy_from_slice(&self.trial);
        for from in 0..n {
            self.link_free[from * n + device] = self.trial_links[from];
        }
        for &tensor in graph.inputs(op) {
            let arrival = &mut self.arrival[tensor as usize * n + device];
            if *arrival == u64::MAX && problem.is_transferred(tensor) {
                *arrival = start;
                let to = device as u8;
                self.steps.push(Step::Transfer { tensor, to });
            }
        }
        let end = start + problem.cost_ns(op, device);
        self.clock[device] = end;
        self.record(op, device, end);
    }

    fn record(&mut self, op: u32, device: usize, end: u64) {
        self.placement[op as usize] = device as u8;
        self.groups.settle(self.problem, op, device);
        self.ended[op as usize] = end;
        for tensor in self.problem.graph().outputs(op) {
            self.arrival[tensor as usize * self.clock.len() + device] = end;
        }
        self.steps.push(Step::Op(op));
    }

    /// Puts the free sources that `op` waits for, and those that they wait for, on `device`, where no other op has yet.
    fn place_sources(&mut self, op: u32, device: usize) {
        let graph = self.problem.graph();
        let mut stack: Vec<(u32, bool)> = Vec::new();
        let unplaced = |placement: &[u8], of: u32| -> Vec<u32> {
            let producers = graph.inputs(of).iter().map(|&t| graph.producer(t));
            producers
                .filter(|&p| placement[p as usize] == UNPLACED)
                .collect()
        };
        stack.extend(
            unplaced(&self.placement, op)
                .into_iter()
                .map(|p| (p, false)),
        );
        while let Some((source, are_inputs_placed)) = stack.pop() {
            if self.placement[source as usize] != UNPLACED {
                continue;
            }
            if are_inputs_placed {
                self.run(source, device);
                continue;
            }
            stack.push((source, true));
            let inputs = unplaced(&self.placement, source);
            stack.extend(inputs.into_iter().map(|p| (p, false)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{free_sources, heft, one_device};
    use crate::baseline::OpOrder;
    use crate::tests::random_problems::for_problems;
    use crate::{
        DeviceSet, GraphBuilder, Link, ModelOptions, Objective, OpSpec, Problem, TensorSpec,
    };

    #[test]
    fn schedules_are_valid_and_sources_stand_beside_a_consumer() {
        for_problems(600, 40, |problem, _| {
            let graph = problem.graph();
            let schedule = heft(problem);
            schedule.verify(problem).unwrap();
            let is_free = free_sources(problem);
            let ops = 0..graph.n_ops() as u32;
            for op in ops.filter(|&op| is_free[op as usize] && !problem.free_links) {
                let mut consumers = graph.outputs(op).flat_map(|t| graph.consumers(t));
                let device = |op: u32| schedule.placement[op as usize];
                assert!(consumers.any(|&c| device(c) == device(op)), "op {op}");
            }
            for device in 0..problem.n_devices() {
                let alone = one_device(problem, device, OpOrder::Topological).pinned(problem);
                let outcome = alone.verify(problem).unwrap().outcome;
                let ops = 0..graph.n_ops() as u32;
                let on = usize::from(alone.placement[0]);
                let sum: u64 = ops.map(|op| problem.cost_ns(op, on)).sum();
                assert_eq!(outcome.runtime_ns, sum);
            }
        });
    }

    /// Two chains with a weight each: list scheduling sends a weight over the slow link, HEFT sends nothing.
    #[test]
    fn weights_stay_with_their_ops() {
        let mut builder = GraphBuilder::new("two");
        for chain in 0..2 {
            let weight = builder.op(OpSpec::new(format!("weight {chain}"), 0));
            let op = builder.op(OpSpec::new(format!("op {chain}"), 1000));
            builder.tensor(TensorSpec::new(weight, 1_000_000, &[op]));
        }
        let graph = builder.build().unwrap();
        let slow = Link {
            bandwidth_gbs: 1.0,
            latency_ns: 0,
        };
        let devices = DeviceSet::uniform(2, None)
            .unwrap()
            .with_link(slow)
            .unwrap();
        let problem = Problem::new(
            &graph,
            &devices,
            Objective::Runtime,
            ModelOptions::default(),
        )
        .unwrap();
        let outcome = heft(&problem).verify(&problem).unwrap().outcome;
        assert_eq!(outcome.runtime_ns, 1000);
    }
}
