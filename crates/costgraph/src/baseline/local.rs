//! Local search over placements and orders of ops, with evaluations that begin where the change does.

use super::{look_every, orders::with_transfers};
use crate::{Problem, Schedule, accounts::Accounts};
use shardgraph_random::KeyedRng;

/// Local search: an op changes its device or its place in the order, and stays there if that is no worse.
///
/// Starts from the topological order and uniformly random devices, on which colocated ops stay. Each tensor is sent right before its first use on another
/// device. An evaluation resumes from the last checkpoint before the first step that the move changes. Where nothing can move, the
/// search ends early. The second value is the number of evaluations.
///
/// After every 100 of them (fewer for graphs of more than 2000 ops and uses) `watch` is told how many and the best fitness so far, and
/// ends the search by returning false.
///
/// # Complexity
/// O(evaluations x (ops + uses)) time at worst, about half of that on average; O(sqrt(ops) x (ops + tensors x devices)) memory,
/// up to about 1 GiB and a few lists as long as the graph.
///
/// # Determinism
/// The same seed gives the same schedule on every machine.
#[must_use]
pub fn local_search(
    problem: &Problem<'_>,
    evaluations: u64,
    seed: u64,
    watch: &mut dyn FnMut(u64, (u64, u64)) -> bool,
) -> (Schedule, u64) {
    let mut search = Search::new(problem, KeyedRng::new(seed, "local search", 0));
    let mut current = search.evaluate(0, true);
    let (mut n_done, look_every) = (1, look_every(problem));
    while n_done < evaluations {
        if n_done.is_multiple_of(look_every) && !watch(n_done, current) {
            break;
        }
        let Some(change) = search.next_change() else {
            break;
        };
        n_done += 1;
        let from = search.apply(change);
        let found = search.evaluate(from, false);
        if found <= current {
            current = found;
            search.evaluate(from, true);
        } else {
            search.apply(change.undo());
        }
    }
    let schedule = with_transfers(problem, &search.placement, &search.order);
    (schedule, n_done)
}

/// A move.
#[derive(Clone, Copy, Debug)]
enum Change {
    Device { op: u32, from: u8, to: u8 },
    Place { from: usize, to: usize },
}

impl Change {
    fn undo(self) -> Change {
        match self {
            Change::Device { op, from, to } => Change::Device {
                op,
                from: to,
                to: from,
            },
            Change::Place { from, to } => Change::Place { from: to, to: from },
        }
    }
}

/// The most that the accounts before all checkpoints may take.
const CHECKPOINT_BYTES: usize = 1 << 30;

/// Positions between two checkpoints: as many as there are checkpoints, or more where those would take too much memory.
fn stride(problem: &Problem<'_>) -> usize {
    let graph = problem.graph();
    let checkpoint_bytes = 17 * graph.n_ops() + 5 * graph.n_tensors() * problem.n_devices();
    let n_affordable = (CHECKPOINT_BYTES / checkpoint_bytes.max(1)).max(1);
    graph
        .n_ops()
        .isqrt()
        .max(graph.n_ops().div_ceil(n_affordable))
        .max(1)
}

/// The accounts before a position in the order.
#[derive(Clone, Debug)]
struct Checkpoint {
    accounts: Accounts,
    present: Vec<bool>,
}

struct Search<'p, 'g> {
    problem: &'p Problem<'g>,
    dice: KeyedRng,
    placement: Vec<u8>,
    order: Vec<u32>,
    position: Vec<usize>,
    /// Checkpoint c is before position c * stride.
    checkpoints: Vec<Checkpoint>,
    stride: usize,
    scratch: Checkpoint,
    /// The uses of all copies before the first step, for the current placement.
    initial: Accounts,
}

impl<'p, 'g> Search<'p, 'g> {
    fn new(problem: &'p Problem<'g>, mut dice: KeyedRng) -> Search<'p, 'g> {
        let graph = problem.graph();
        let (n_ops, n) = (graph.n_ops(), problem.n_devices());
        let mut placement: Vec<u8> = (0..n_ops).map(|_| dice.index(n) as u8).collect();
        if let Some(op) = problem.fixed_op() {
            placement[op as usize] = 0;
        }
        problem.colocate(&mut placement);
        let mut initial = Accounts::new(problem);
        initial.placement.copy_from_slice(&placement);
        initial.start::<true>(problem, |_, _| {});
        let scratch = Checkpoint {
            accounts: initial.clone(),
            present: vec![false; graph.n_tensors() * n],
        };
        let stride = stride(problem);
        let order = graph.topological_order().to_vec();
        let mut position = vec![0; n_ops];
        for (at, &op) in order.iter().enumerate() {
            position[op as usize] = at;
        }
        Search {
            problem,
            dice,
            placement,
            order,
            position,
            checkpoints: vec![scratch.clone(); n_ops.div_ceil(stride)],
            stride,
            scratch,
            initial,
        }
    }

    /// A random move; none where so many draws in a row found none that hardly an op can have any.
    fn next_change(&mut self) -> Option<Change> {
        const DRAWS_PER_OP: usize = 32;
        let n_draws = DRAWS_PER_OP * self.order.len();
        (0..n_draws).find_map(|_| self.propose())
    }

    /// A random move, or none when the op that was drawn has nowhere to go.
    fn propose(&mut self) -> Option<Change> {
        let (graph, n) = (self.problem.graph(), self.problem.n_devices());
        let op = self.dice.index(self.order.len()) as u32;
        let place = self.position[op as usize];
        if self.dice.index(2) == 0 {
            let colocation = graph.colocation.as_deref();
            let is_grouped = colocation.is_some_and(|of| of.group(op).is_some());
            if n == 1 || is_grouped || self.problem.fixed_op() == Some(op) {
                return None;
            }
            let from = self.placement[op as usize];
            let to = (usize::from(from) + 1 + self.dice.index(n - 1)) % n;
            return Some(Change::Device {
                op,
                from,
                to: to as u8,
            });
        }
        let place_of = |op: u32| self.position[op as usize];
        let producers = graph
            .inputs(op)
            .iter()
            .map(|&t| place_of(graph.producer(t)) + 1);
        let consumers = graph.outputs(op).flat_map(|t| graph.consumers(t));
        let first = producers.max().unwrap_or(0);
        let end = consumers
            .map(|&c| place_of(c))
            .min()
            .unwrap_or(self.order.len());
        let to = first + self.dice.index(end - first);
        (to != place).then_some(Change::Place { from: place, to })
    }

    /// Makes a move; returns the first position whose step it may change.
    fn apply(&mut self, change: Change) -> usize {
        match change {
            Change::Place { from, to } => {
                let moved = &mut self.order[from.min(to)..=from.max(to)];
                if from < to {
                    moved.rotate_left(1);
                } else {
                    moved.rotate_right(1);
                }
                for at in from.min(to)..=from.max(to) {
                    self.position[self.order[at] as usize] = at;
                }
                from.min(to)
            }
            Change::Device { op, to, .. } => self.place(op, to),
        }
    }

    fn place(&mut self, op: u32, to: u8) -> usize {
        let graph = self.problem.graph();
        self.placement[op as usize] = to;
        for tensor in graph.outputs(op).chain(graph.inputs(op).iter().copied()) {
            self.initial.recount(self.problem, &self.placement, tensor);
        }
        if self.problem.has_persistent && graph.persistent_bytes(op) > 0 {
            return 0;
        }
        // Copies of its inputs live and die elsewhere from their making on.
        let producers = graph
            .inputs(op)
            .iter()
            .map(|&t| self.position[graph.producer(t) as usize]);
        producers.min().unwrap_or(self.position[op as usize])
    }

    /// The fitness of the current order and placement, of which everything before position `from` is as it was when last recorded.
    fn evaluate(&mut self, from: usize, record: bool) -> (u64, u64) {
        let (problem, n) = (self.problem, self.problem.n_devices());
        let graph = problem.graph();
        let checkpoint = from / self.stride;
        self.restore(checkpoint);
        let Checkpoint { accounts, present } = &mut self.scratch;
        for at in checkpoint * self.stride..self.order.len() {
            if record && at.is_multiple_of(self.stride) {
                let saved = &mut self.checkpoints[at / self.stride];
                saved.accounts.clone_from(accounts);
                saved.present.copy_from_slice(present);
            }
            let op = self.order[at];
            let to = usize::from(self.placement[op as usize]);
            for &tensor in graph.inputs(op) {
                let home = usize::from(self.placement[graph.producer(tensor) as usize]);
                if home != to && problem.is_transferred(tensor) {
                    let slot = tensor as usize * n + to;
                    if !std::mem::replace(&mut present[slot], true) {
                        accounts.transfer::<true>(problem, tensor, home, to);
                    }
                }
            }
            accounts.op::<true>(problem, op, to);
        }
        accounts.outcome(problem).fitness(problem.objective())
    }

    /// The state before a checkpoint's first step. Tensors that were not made by then are used as the placement says now.
    fn restore(&mut self, checkpoint: usize) {
        let accounts = &mut self.scratch.accounts;
        if checkpoint == 0 {
            accounts.placement.copy_from_slice(&self.placement);
            accounts.start::<true>(self.problem, |_, _| {});
            self.scratch.present.fill(false);
            return;
        }
        let n = self.problem.n_devices();
        let saved = &self.checkpoints[checkpoint];
        accounts.clone_from(&saved.accounts);
        accounts.placement.copy_from_slice(&self.placement);
        self.scratch.present.copy_from_slice(&saved.present);
        let begin = checkpoint * self.stride;
        for tensor in 0..self.problem.graph().n_tensors() {
            let producer = self.problem.graph().producer(tensor as u32);
            if self.position[producer as usize] >= begin {
                let row = tensor * n..(tensor + 1) * n;
                accounts.uses[row.clone()].copy_from_slice(&self.initial.uses[row]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Search, local_search};
    use crate::tests::random_problems::for_problems;
    use crate::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem, TensorSpec};
    use shardgraph_random::KeyedRng;

    /// A chain's order is the only one: on one device there is no move, on two every other draw is none.
    #[test]
    fn only_moves_that_were_evaluated_count() {
        let mut builder = GraphBuilder::new("chain");
        let ops: Vec<u32> = (0..20).map(|_| builder.op(OpSpec::new("", 1))).collect();
        for pair in ops.windows(2) {
            builder.tensor(TensorSpec::new(pair[0], 1, &pair[1..]));
        }
        let graph = builder.build().unwrap();
        let run = |n_devices, n_evaluations| {
            let devices = DeviceSet::uniform(n_devices, None).unwrap();
            let options = ModelOptions::default();
            let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
            let mut looks = Vec::new();
            let (_, n_done) = local_search(&problem, n_evaluations, 1, &mut |n, _| {
                looks.push(n);
                true
            });
            (n_done, looks)
        };
        assert_eq!(run(1, 1000), (1, vec![]));
        assert_eq!(run(2, 250), (250, vec![100, 200]));
        let devices = DeviceSet::uniform(2, None).unwrap();
        let options = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        let mut search = Search::new(&problem, KeyedRng::new(1, "test", 0));
        assert!((0..300).all(|_| search.next_change().is_some()));
    }

    #[test]
    fn resumed_evaluations_are_those_from_the_start() {
        for_problems(300, 40, |problem, seed| {
            let mut search = Search::new(problem, KeyedRng::new(seed, "test", 0));
            search.evaluate(0, true);
            for round in 0..40 {
                let Some(change) = search.propose() else {
                    continue;
                };
                let from = search.apply(change);
                let resumed = search.evaluate(from, false);
                let schedule = super::with_transfers(problem, &search.placement, &search.order);
                let outcome = schedule.verify(problem).unwrap().outcome;
                assert_eq!(resumed, outcome.fitness(problem.objective()), "{change:?}");
                if round % 3 == 0 {
                    search.apply(change.undo());
                } else {
                    search.evaluate(from, true);
                }
            }
        });
    }

    /// The search as a plain loop that evaluates everything from the start: as many evaluations as are counted lead to the same
    /// schedule.
    #[test]
    fn as_many_moves_are_evaluated_as_are_counted() {
        const EVALUATIONS: u64 = 60;
        for_problems(100, 30, |problem, seed| {
            let mut search = Search::new(problem, KeyedRng::new(seed, "local search", 0));
            let (mut current, mut n_done) = (search.evaluate(0, true), 1);
            while n_done < EVALUATIONS {
                let Some(change) = search.next_change() else {
                    break;
                };
                search.apply(change);
                let found = search.evaluate(0, true);
                n_done += 1;
                if found <= current {
                    current = found;
                } else {
                    search.apply(change.undo());
                    search.evaluate(0, true);
                }
            }
            let expected = super::with_transfers(problem, &search.placement, &search.order);
            let found = local_search(problem, EVALUATIONS, seed, &mut |_, _| true);
            assert_eq!(found, (expected, n_done));
        });
    }

    #[test]
    fn an_undone_move_leaves_nothing_behind() {
        for change in [
            Change::Device {
                op: 3,
                from: 0,
                to: 1,
            },
            Change::Place { from: 2, to: 9 },
        ] {
            assert_eq!(format!("{:?}", change.undo().undo()), format!("{change:?}"));
        }
    }
}
