//! Greedy for memory: the ready op and the device that raise the peak least.

use crate::{Problem, Schedule, Step, colocation::GroupDevices};
use shardgraph_random::KeyedRng;

/// Takes, again and again, the ready op and the device that raise the peak least; of those, the pair that leaves least behind.
///
/// Ops without inputs (parameters, constants) and what costs nothing and reads only such are not chosen for themselves: they run
/// right before the first op that reads them, on its device. Else the greedy would load one small parameter after the other, as
/// long as they fit under the peak so far, before it computes anything.
///
/// `noise` (0 for none) multiplies each pair's need by a random factor from 1 to 1 + `noise`, so that many runs differ. While the
/// schedule is being made, a copy counts until all consumers of its tensor and its views have run, wherever; the finished schedule
/// may need less.
///
/// `go_on` is asked before each choice. Once it has said no there is no choice any more but that of the device: the op that became
/// ready last is taken.
///
/// # Complexity
/// O(ops x ready ops x devices x inputs) time, with one ready op once `go_on` has said no.
///
/// # Determinism
/// The same seed gives the same schedule on every machine.
#[must_use]
pub fn greedy_memory(
    problem: &Problem<'_>,
    seed: u64,
    noise: f64,
    go_on: &mut dyn FnMut() -> bool,
) -> Schedule {
    let mut state = Greedy::new(problem, KeyedRng::new(seed, "greedy memory", 0), noise);
    let mut chooses = true;
    loop {
        chooses = chooses && go_on();
        let first = match chooses {
            true => 0,
            false => state.ready.len().saturating_sub(1),
        };
        let Some((at, device)) = state.best(first) else {
            return state.schedule;
        };
        let op = state.ready.swap_remove(at);
        state.run(op, device);
    }
}

/// The best of one run without noise and `runs - 1` with it, and how many runs there were, at least one: when `go_on` says no, the run
/// is finished as in [`greedy_memory`], and is the last.
#[must_use]
pub fn greedy_memory_best_of(
    problem: &Problem<'_>,
    runs: u64,
    seed: u64,
    noise: f64,
    go_on: &mut dyn FnMut() -> bool,
) -> (Schedule, u64) {
    let mut best = greedy_memory(problem, seed, 0.0, go_on);
    let fitness = |schedule: &Schedule| schedule.run(problem).outcome.fitness(problem.objective());
    let (mut least, mut n_runs) = (fitness(&best), 1);
    while n_runs < runs && go_on() {
        // The seeds of the runs are the numbers of a stream, so that neighbouring seeds share no runs.
        let run_seed = KeyedRng::new(seed, "greedy memory runs", n_runs).next_u64();
        let schedule = greedy_memory(problem, run_seed, noise, go_on);
        n_runs += 1;
        let found = fitness(&schedule);
        if found < least {
            (least, best) = (found, schedule);
        }
    }
    (best, n_runs)
}

struct Greedy<'p, 'g> {
    problem: &'p Problem<'g>,
    dice: KeyedRng,
    noise: f64,
    ready: Vec<u32>,
    waiting: Vec<u32>,
    /// The tensor whose storage each tensor shares: itself, or what it is a view of in the end.
    root: Vec<u32>,
    /// Consumers of a root and of its views yet to run.
    left: Vec<u32>,
    /// By tensor, a bit for each device that has a copy.
    copies: Vec<u64>,
    has_run: Vec<bool>,
    resident: Vec<u64>,
    peak: u64,
    groups: GroupDevices,
    schedule: Schedule,
}

impl<'p, 'g> Greedy<'p, 'g> {
    fn new(problem: &'p Problem<'g>, dice: KeyedRng, noise: f64) -> Greedy<'p, 'g> {
        let graph = problem.graph();
        let ops = 0..graph.n_ops() as u32;
        let is_deferred = deferred(problem);
        let n_waiting = |op: u32| {
            let producers = graph.inputs(op).iter().map(|&t| graph.producer(t));
            producers.filter(|&p| !is_deferred[p as usize]).count() as u32
        };
        let waiting: Vec<u32> = ops.clone().map(n_waiting).collect();
        let is_ready = |&op: &u32| !is_deferred[op as usize] && waiting[op as usize] == 0;
        let root = roots(problem);
        let mut left = vec![0; graph.n_tensors()];
        for tensor in 0..graph.n_tensors() as u32 {
            let uses = graph.consumers(tensor).len() as u32 + u32::from(problem.is_kept(tensor));
            left[root[tensor as usize] as usize] += uses;
        }
        Greedy {
            problem,
            dice,
            noise,
            ready: ops.filter(is_ready).collect(),
            waiting,
            root,
            left,
            copies: vec![0; graph.n_tensors()],
            has_run: vec![false; graph.n_ops()],
            resident: vec![0; problem.n_devices()],
            peak: 0,
            groups: GroupDevices::new(problem),
            schedule: Schedule {
                placement: vec![0; graph.n_ops()],
                steps: Vec::new(),
            },
        }
    }

    /// The position among the ready ops from the `first` on, and the device.
    fn best(&mut self, first: usize) -> Option<(usize, usize)> {
        let mut best = None;
        for at in first..self.ready.len() {
            let op = self.ready[at];
            let is_fixed = self.problem.fixed_op() == Some(op);
            let candidates = match is_fixed {
                true => 0..1,
                false => self.groups.candidates(self.problem, op),
            };
            for device in candidates {
                let (need, growth) = self.need(op, device);
                let factor = 1.0 + self.noise * self.dice.uniform_f64();
                let peak = ((self.resident[device] + need) as f64 * factor) as u64;
                let key = (
                    peak.max(self.peak),
                    growth,
                    self.resident[device],
                    op,
                    device,
                );
                if best.is_none_or(|(least, _)| key < least) {
                    best = Some((key, (at, device)));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }

    fn is_missing(&self, tensor: u32, device: usize) -> bool {
        self.problem.is_transferred(tensor) && self.copies[tensor as usize] >> device & 1 == 0
    }

    /// What running `op` on `device` adds while it runs, and what it leaves behind on all devices together.
    fn need(&self, op: u32, device: usize) -> (u64, i128) {
        let graph = self.problem.graph();
        let mut need = graph.internal_bytes(op) + self.persistent(op);
        let mut growth = i128::from(self.persistent(op));
        for tensor in graph.outputs(op) {
            need += self.made_bytes(tensor);
            if self.left[tensor as usize] > 0 {
                growth += i128::from(self.made_bytes(tensor));
            }
        }
        for &tensor in graph.inputs(op) {
            let root = self.root[tensor as usize];
            let bytes = graph.tensor_bytes(tensor);
            let is_missing = self.is_missing(tensor, device);
            if is_missing {
                // Sent or, if it was left for its first reader, made here.
                need += bytes;
                growth += i128::from(bytes);
            }
            if self.left[root as usize] == 1 {
                // All copies go, the one that has just come included.
                let has_come = is_missing && tensor == root;
                let n_copies = self.copies[root as usize].count_ones() + u32::from(has_come);
                growth -= i128::from(graph.tensor_bytes(root)) * i128::from(n_copies);
            }
        }
        (need, growth)
    }

    fn persistent(&self, op: u32) -> u64 {
        if self.problem.options().count_persistent {
            self.problem.graph().persistent_bytes(op)
        } else {
            0
        }
    }

    /// What a tensor takes where it is made.
    fn made_bytes(&self, tensor: u32) -> u64 {
        if self.problem.graph().alias_of(tensor).is_some() {
            0
        } else {
            self.problem.graph().tensor_bytes(tensor)
        }
    }

    /// Runs `op` after those of its producers that were left for their first reader.
    fn run(&mut self, op: u32, device: usize) {
        let graph = self.problem.graph();
        let mut pending = vec![op];
        while let Some(&next) = pending.last() {
            let producers = graph.inputs(next).iter().map(|&t| graph.producer(t));
            let before = pending.len();
            pending.extend(producers.filter(|&p| !self.has_run[p as usize]));
            if pending.len() > before {
                continue;
            }
            pending.pop();
            // What two of them read was pushed twice.
            if !self.has_run[next as usize] {
                let is_fixed = self.problem.fixed_op() == Some(next);
                let device = self.groups.nearest(self.problem, next, device);
                self.run_one(next, if is_fixed { 0 } else { device });
            }
        }
        for &consumer in graph.outputs(op).flat_map(|t| graph.consumers(t)) {
            self.waiting[consumer as usize] -= 1;
            if self.waiting[consumer as usize] == 0 {
                self.ready.push(consumer);
            }
        }
    }

    fn run_one(&mut self, op: u32, device: usize) {
        let graph = self.problem.graph();
        self.has_run[op as usize] = true;
        self.schedule.placement[op as usize] = device as u8;
        self.groups.settle(self.problem, op, device);
        for &tensor in graph.inputs(op) {
            if self.is_missing(tensor, device) {
                self.copies[tensor as usize] |= 1 << device;
                self.resident[device] += graph.tensor_bytes(tensor);
                self.schedule.steps.push(Step::Transfer {
                    tensor,
                    to: device as u8,
                });
            }
        }
        self.schedule.steps.push(Step::Op(op));
        self.resident[device] += self.persistent(op);
        for tensor in graph.outputs(op) {
            self.copies[tensor as usize] = 1 << device;
            self.resident[device] += self.made_bytes(tensor);
        }
        self.peak = self
            .peak
            .max(self.resident[device] + graph.internal_bytes(op));
        for &tensor in graph.inputs(op) {
            let root = self.root[tensor as usize];
            self.left[root as usize] -= 1;
            self.forget(root);
        }
        for tensor in graph.outputs(op) {
            self.forget(self.root[tensor as usize]);
        }
    }

    /// Frees all copies of a root that nobody needs any more, directly or through a view. Copies of views stay for good: this is
    /// an estimate, and views are seldom sent.
    fn forget(&mut self, root: u32) {
        if self.left[root as usize] > 0 {
            return;
        }
        for device in 0..self.resident.len() {
            if self.copies[root as usize] >> device & 1 == 1 {
                self.resident[device] -= self.problem.graph().tensor_bytes(root);
            }
        }
        self.copies[root as usize] = 0;
    }
}

/// The ops that are left for their first reader.
fn deferred(problem: &Problem<'_>) -> Vec<bool> {
    let graph = problem.graph();
    let mut is_deferred = vec![false; graph.n_ops()];
    for &op in graph.topological_order() {
        let is_free = (0..problem.n_devices()).all(|device| problem.cost_ns(op, device) == 0);
        let is_read = graph.outputs(op).any(|t| !graph.consumers(t).is_empty());
        let inputs = graph.inputs(op);
        let mut producers = inputs.iter().map(|&t| graph.producer(t));
        is_deferred[op as usize] =
            is_read && (is_free || inputs.is_empty()) && producers.all(|p| is_deferred[p as usize]);
    }
    is_deferred
}

fn roots(problem: &Problem<'_>) -> Vec<u32> {
    let graph = problem.graph();
    let mut root: Vec<u32> = (0..graph.n_tensors() as u32).collect();
    for &op in graph.topological_order() {
        for tensor in graph.outputs(op) {
            if let Some(base) = graph.alias_of(tensor) {
                root[tensor as usize] = root[base as usize];
            }
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::{Greedy, greedy_memory, greedy_memory_best_of};
    use crate::tests::random_problems::for_problems;
    use shardgraph_random::KeyedRng;

    #[test]
    fn what_a_pair_is_said_to_need_is_what_it_takes() {
        for_problems(300, 40, |problem, seed| {
            let graph = problem.graph();
            let mut dice = KeyedRng::new(seed, "test", 0);
            let mut state = Greedy::new(problem, KeyedRng::new(seed, "test", 1), 0.0);
            while !state.ready.is_empty() {
                let op = state.ready.swap_remove(dice.index(state.ready.len()));
                let is_fixed = problem.fixed_op() == Some(op);
                let device = if is_fixed {
                    0
                } else {
                    dice.index(problem.n_devices())
                };
                let (need, growth) = state.need(op, device);
                let total =
                    |state: &Greedy| state.resident.iter().map(|&b| i128::from(b)).sum::<i128>();
                let before = (state.resident[device], total(&state));
                let mut roots: Vec<u32> = graph
                    .inputs(op)
                    .iter()
                    .map(|&t| state.root[t as usize])
                    .collect();
                roots.sort_unstable();
                let mut producers = graph.inputs(op).iter().map(|&t| graph.producer(t));
                let is_plain = producers.all(|p| state.has_run[p as usize])
                    && roots.windows(2).all(|pair| pair[0] != pair[1]);
                state.peak = 0;
                state.run(op, device);
                if is_plain {
                    assert_eq!(state.peak, before.0 + need, "op {op} on {device}");
                    assert_eq!(total(&state) - before.1, growth, "op {op} on {device}");
                }
            }
            state.schedule.verify(problem).unwrap();
        });
    }

    #[test]
    fn a_greedy_that_is_told_to_end_is_whole() {
        for_problems(200, 40, |problem, seed| {
            let whole = greedy_memory(problem, seed, 0.2, &mut || true);
            for n_choices in [0, 1, 5, 1000] {
                let mut n_asked = 0;
                let mut go_on = || {
                    n_asked += 1;
                    n_asked <= n_choices
                };
                let schedule = greedy_memory(problem, seed, 0.2, &mut go_on);
                assert!(n_choices < 1000 || schedule == whole);
                schedule.verify(problem).unwrap();
            }
            let (_, n_runs) = greedy_memory_best_of(problem, 9, seed, 0.2, &mut || false);
            assert_eq!(n_runs, 1);
        });
    }
}
