//! Orders of ops that a compiler would choose for memory, with transfers put in where they are first needed.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{Problem, Schedule, Step};

/// How ops are ordered; the placement is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpOrder {
    /// Of the ready ops, the one that frees most bytes beyond those that it makes; ties by lower id.
    List,
    /// Depth first from the outputs, into the input with more further uses below it first, then into the larger one.
    DepthFirst,
    /// Depth first from the outputs, into the inputs by ascending id.
    PostOrder,
    /// The graph's topological order, lowest id first.
    Topological,
}

impl OpOrder {
    /// All orders.
    pub const ALL: [OpOrder; 4] = [
        OpOrder::List,
        OpOrder::DepthFirst,
        OpOrder::PostOrder,
        OpOrder::Topological,
    ];
}

/// The ops in that order on these devices; each tensor is sent right before its first use on another device.
///
/// # Panics
/// When `placement` has no device of the problem for each op.
///
/// # Complexity
/// O(uses log uses) time.
///
/// # Source
/// The first three are the schedulers among which XLA's memory scheduler chooses, by their description in its source file
/// `hlo_memory_scheduler.cc`.
#[must_use]
pub fn ordered(problem: &Problem<'_>, placement: &[u8], order: OpOrder) -> Schedule {
    assert_eq!(
        placement.len(),
        problem.graph().n_ops(),
        "a device for each op"
    );
    assert!(
        placement
            .iter()
            .all(|&d| usize::from(d) < problem.n_devices()),
        "devices of the problem"
    );
    let ops = match order {
        OpOrder::List => by_freed_bytes(problem, placement),
        OpOrder::DepthFirst => depth_first(problem, &by_weight_below(problem)),
        OpOrder::PostOrder => {
            let ids: Vec<u64> = (0..placement.len() as u64).collect();
            depth_first(problem, &ids)
        }
        OpOrder::Topological => problem.graph().topological_order().to_vec(),
    };
    with_transfers(problem, placement, &ops)
}

/// A schedule of ops in that order, each tensor sent right before its first use on another device.
pub(super) fn with_transfers(problem: &Problem<'_>, placement: &[u8], ops: &[u32]) -> Schedule {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let mut present = vec![false; graph.n_tensors() * n];
    let mut steps = Vec::with_capacity(2 * ops.len());
    for &op in ops {
        let to = placement[op as usize];
        for &tensor in graph
            .inputs(op)
            .iter()
            .filter(|&&t| problem.is_transferred(t))
        {
            let at = tensor as usize * n + usize::from(to);
            let is_here = placement[graph.producer(tensor) as usize] == to;
            if !is_here && !std::mem::replace(&mut present[at], true) {
                steps.push(Step::Transfer { tensor, to });
            }
        }
        steps.push(Step::Op(op));
    }
    Schedule {
        placement: placement.to_vec(),
        steps,
    }
}

/// Depth first from each op that nobody waits for; inputs in the order of their producers' ranks.
fn depth_first(problem: &Problem<'_>, rank_of: &[u64]) -> Vec<u32> {
    let graph = problem.graph();
    let n_ops = graph.n_ops() as u32;
    let is_sink = |&op: &u32| graph.outputs(op).all(|t| graph.consumers(t).is_empty());
    let mut order = Vec::with_capacity(n_ops as usize);
    let mut seen = vec![false; n_ops as usize];
    // An op is pushed once to be entered and, below its inputs, once to be emitted.
    let mut stack: Vec<(u32, bool)> = (0..n_ops)
        .rev()
        .filter(is_sink)
        .map(|op| (op, false))
        .collect();
    while let Some((op, is_done)) = stack.pop() {
        if is_done {
            order.push(op);
        } else if !std::mem::replace(&mut seen[op as usize], true) {
            stack.push((op, true));
            let mut producers: Vec<u32> = graph
                .inputs(op)
                .iter()
                .map(|&t| graph.producer(t))
                .collect();
            producers.sort_unstable_by_key(|&p| Reverse((rank_of[p as usize], p)));
            stack.extend(producers.into_iter().map(|p| (p, false)));
        }
    }
    order
}

/// Ranks by further uses below an op, then by bytes below it, both largest first.
fn by_weight_below(problem: &Problem<'_>) -> Vec<u64> {
    let graph = problem.graph();
    let n_ops = graph.n_ops();
    let (mut extra_uses, mut bytes) = (vec![0u64; n_ops], vec![0u64; n_ops]);
    for &op in graph.topological_order() {
        let outputs = graph.outputs(op);
        let uses: usize = outputs.clone().map(|t| graph.consumers(t).len()).sum();
        let mut sums = (
            (uses as u64).saturating_sub(1),
            outputs.map(|t| graph.tensor_bytes(t)).sum::<u64>(),
        );
        for &tensor in graph.inputs(op) {
            // Shared inputs are counted once for each path; the sums saturate instead of growing without end.
            let producer = graph.producer(tensor) as usize;
            sums.0 = sums.0.saturating_add(extra_uses[producer]);
            sums.1 = sums.1.saturating_add(bytes[producer]);
        }
        (extra_uses[op as usize], bytes[op as usize]) = sums;
    }
    let mut order: Vec<usize> = (0..n_ops).collect();
    order.sort_by_key(|&op| Reverse((extra_uses[op], bytes[op])));
    let mut ranks = vec![0; n_ops];
    for (rank, op) in order.into_iter().enumerate() {
        ranks[op] = rank as u64;
    }
    ranks
}

fn by_freed_bytes(problem: &Problem<'_>, placement: &[u8]) -> Vec<u32> {
    let graph = problem.graph();
    let n_ops = graph.n_ops() as u32;
    let mut list = FreedBytes::new(problem, placement);
    let mut waiting: Vec<usize> = (0..n_ops).map(|op| graph.inputs(op).len()).collect();
    let sources = (0..n_ops).filter(|&op| graph.inputs(op).is_empty());
    sources.for_each(|op| list.insert(op));
    let mut order = Vec::with_capacity(n_ops as usize);
    while let Some((_, op)) = list.ready.pop_first() {
        order.push(op);
        list.finish(op);
        for &consumer in graph.outputs(op).flat_map(|t| graph.consumers(t)) {
            waiting[consumer as usize] -= 1;
            if waiting[consumer as usize] == 0 {
                list.insert(consumer);
            }
        }
    }
    order
}

/// The ready ops by what each would free.
struct FreedBytes<'p, 'g> {
    problem: &'p Problem<'g>,
    placement: &'p [u8],
    /// Consumers yet to run, by tensor and device.
    left: Vec<u32>,
    gains: Vec<i128>,
    ready: BTreeSet<(Reverse<i128>, u32)>,
}

impl<'p, 'g> FreedBytes<'p, 'g> {
    fn new(problem: &'p Problem<'g>, placement: &'p [u8]) -> FreedBytes<'p, 'g> {
        let graph = problem.graph();
        let mut list = FreedBytes {
            problem,
            placement,
            left: vec![0; graph.n_tensors() * problem.n_devices()],
            gains: vec![0; graph.n_ops()],
            ready: BTreeSet::new(),
        };
        for op in 0..graph.n_ops() as u32 {
            for &tensor in graph.inputs(op) {
                let slot = list.slot(tensor, op);
                list.left[slot] += 1;
            }
        }
        list
    }

    /// The copy of `tensor` that `op` reads.
    fn slot(&self, tensor: u32, op: u32) -> usize {
        tensor as usize * self.problem.n_devices() + usize::from(self.placement[op as usize])
    }

    fn gain(&self, op: u32) -> i128 {
        let graph = self.problem.graph();
        let last = |&&t: &&u32| self.left[self.slot(t, op)] == 1;
        let own = |t: u32| own_bytes(self.problem, t);
        let freed: i128 = graph.inputs(op).iter().filter(last).map(|&t| own(t)).sum();
        freed - graph.outputs(op).map(own).sum::<i128>()
    }

    fn insert(&mut self, op: u32) {
        let gain = self.gain(op);
        self.gains[op as usize] = gain;
        self.ready.insert((Reverse(gain), op));
    }

    /// `op` has run: whoever is now the last to read one of its inputs frees it.
    fn finish(&mut self, op: u32) {
        let graph = self.problem.graph();
        for &tensor in graph.inputs(op) {
            let slot = self.slot(tensor, op);
            self.left[slot] -= 1;
            if self.left[slot] != 1 {
                continue;
            }
            for &other in graph.consumers(tensor) {
                let entry = (Reverse(self.gains[other as usize]), other);
                if self.slot(tensor, other) == slot && self.ready.remove(&entry) {
                    self.insert(other);
                }
            }
        }
    }
}

fn own_bytes(problem: &Problem<'_>, tensor: u32) -> i128 {
    let graph = problem.graph();
    if graph.alias_of(tensor).is_some() {
        0
    } else {
        i128::from(graph.tensor_bytes(tensor))
    }
}
