//! Local search that moves whole clusters of ops between devices.

use super::multilevel::Hierarchy;
use crate::{Decoder, DecoderKind, Pipeline, Problem, Schedule};
use shardgraph_random::KeyedRng;

/// A move is accepted if it is no worse than the state so many moves ago (late acceptance).
const HISTORY: usize = 40;
/// Of 100 moves: those that exchange two clusters, and those that change the priority of one op.
const PERCENT_SWAPS: usize = 15;
const PERCENT_PRIORITIES: usize = 15;
/// By how much a priority may differ from the upward rank, as a factor.
const MOST_BIAS: f32 = 0.5;

/// Chromosome parts for a placement: each op's affinity to its device, and priorities by upward rank over that placement.
///
/// The rank of an op is the longest path from its start to the end, with the transfers that the placement asks for; the rank of a
/// transfer is its own time with the largest rank of a consumer on the receiving device.
#[derive(Clone, Debug)]
pub(crate) struct PlacedKeys {
    ranks: Vec<u64>,
    arrivals: Vec<u64>,
    pub(crate) keys: Vec<f32>,
}

impl PlacedKeys {
    pub(crate) fn new(problem: &Problem<'_>) -> PlacedKeys {
        let graph = problem.graph();
        PlacedKeys {
            ranks: vec![0; graph.n_ops()],
            arrivals: vec![0; graph.n_tensors() * problem.n_devices()],
            keys: vec![0.5; problem.n_keys()],
        }
    }

    /// Writes the keys; `bias` has a factor for each op's rank, or is empty.
    pub(crate) fn write(&mut self, problem: &Problem<'_>, placement: &[u8], bias: &[f32]) {
        let (graph, n) = (problem.graph(), problem.n_devices());
        let n_ops = graph.n_ops();
        let mut longest = 1;
        self.arrivals.fill(0);
        for &op in graph.topological_order().iter().rev() {
            let home = usize::from(placement[op as usize]);
            let mut below = 0;
            for tensor in graph.outputs(op) {
                let row = &mut self.arrivals[tensor as usize * n..(tensor as usize + 1) * n];
                for &consumer in graph.consumers(tensor) {
                    let slot = &mut row[usize::from(placement[consumer as usize])];
                    *slot = (*slot).max(self.ranks[consumer as usize]);
                }
                for (to, rank) in row.iter_mut().enumerate().filter(|(_, rank)| **rank > 0) {
                    if to != home && problem.is_transferred(tensor) {
                        *rank += problem.transfer_ns(tensor, home, to);
                    }
                    below = below.max(*rank);
                }
            }
            // At least 1, so that 0 means that nothing is there.
            let rank = below + problem.cost_ns(op, home).max(1);
            self.ranks[op as usize] = rank;
            longest = longest.max(rank);
        }
        let scale = (1.0 - MOST_BIAS) as f64 * (1.0 - 1e-6) / longest as f64;
        let (affinities, rest) = self.keys.split_at_mut(n_ops * n);
        for (row, &device) in affinities.chunks_exact_mut(n).zip(placement) {
            row.fill(0.25);
            row[usize::from(device)] = 0.75;
        }
        let (of_ops, of_transfers) = rest.split_at_mut(n_ops);
        for (op, key) in of_ops.iter_mut().enumerate() {
            let factor = bias.get(op).copied().unwrap_or(1.0);
            *key = (self.ranks[op] as f64 * scale) as f32 * factor;
        }
        for (key, &rank) in of_transfers.iter_mut().zip(&self.arrivals) {
            *key = (rank as f64 * scale) as f32;
        }
    }
}

/// The list schedule over a given placement: ops and transfers as early as they can start, ties by upward rank.
///
/// # Panics
/// When `placement` has no device of the problem for each op.
#[must_use]
pub fn placed_list(problem: &Problem<'_>, placement: &[u8]) -> Schedule {
    let mut keys = PlacedKeys::new(problem);
    let mut placement = placement.to_vec();
    problem.pin(&mut placement);
    keys.write(problem, &placement, &[]);
    Decoder::new(problem, DecoderKind::TimeAware).schedule(&keys.keys)
}

/// Local search over placements of clusters, with list scheduling over each placement.
///
/// A move takes one cluster of some level of a [`Hierarchy`] to another device, exchanges two clusters, or changes one op's priority.
///
/// The problem must have no [fixed op](Problem::fixed_op), which clusters know nothing of; [`Schedule::pinned`] puts it in its place.
///
/// # Source
/// Burke and Bykov, "The late acceptance hill-climbing heuristic", 2017, for what is accepted.
///
/// # Determinism
/// The same problem, hierarchy, seed and calls give the same schedule on every machine.
pub struct ClusterSearch<'p, 'g> {
    problem: &'p Problem<'g>,
    hierarchy: &'p Hierarchy,
    decoder: Decoder<'p, 'g>,
    keys: PlacedKeys,
    state: State,
    current: (u64, u64),
    best: ((u64, u64), State),
    /// Fitness of the states of the last moves, in a ring.
    accepted: Vec<(u64, u64)>,
    n_moves: usize,
    dice: KeyedRng,
    changed: Vec<(u32, u8)>,
    /// Placements are judged as pipelines.
    is_pipeline: bool,
}

#[derive(Clone, Debug)]
struct State {
    placement: Vec<u8>,
    bias: Vec<f32>,
}

impl<'p, 'g> ClusterSearch<'p, 'g> {
    /// A search from a placement, which is evaluated, with one of the decoders that read affinities.
    ///
    /// # Panics
    /// When `placement` has no device of the problem for each op.
    #[must_use]
    pub fn new(
        problem: &'p Problem<'g>,
        hierarchy: &'p Hierarchy,
        placement: &[u8],
        kind: DecoderKind,
        seed: u64,
    ) -> ClusterSearch<'p, 'g> {
        let state = State {
            placement: placement.to_vec(),
            bias: vec![1.0; placement.len()],
        };
        let mut search = ClusterSearch {
            problem,
            hierarchy,
            decoder: Decoder::new(problem, kind),
            keys: PlacedKeys::new(problem),
            best: ((u64::MAX, u64::MAX), state.clone()),
            state,
            current: (u64::MAX, u64::MAX),
            accepted: Vec::new(),
            n_moves: 0,
            dice: KeyedRng::new(seed, "cluster search", kind as u64),
            changed: Vec::new(),
            is_pipeline: false,
        };
        problem.colocate(&mut search.state.placement);
        search.begin();
        search
    }

    /// The same for the period of a [`Pipeline`] over the placement, which then is what [`ClusterSearch::best`] has second.
    ///
    /// # Panics
    /// As [`ClusterSearch::new`].
    #[must_use]
    pub fn for_pipelines(
        problem: &'p Problem<'g>,
        hierarchy: &'p Hierarchy,
        placement: &[u8],
        seed: u64,
    ) -> ClusterSearch<'p, 'g> {
        let kind = DecoderKind::TimeAware;
        let mut search = ClusterSearch::new(problem, hierarchy, placement, kind, seed);
        search.is_pipeline = true;
        search.begin();
        search
    }

    fn begin(&mut self) {
        self.current = self.evaluate();
        self.accepted = vec![self.current; HISTORY];
        self.best.0 = self.current;
    }

    /// The placement of the best fitness.
    #[must_use]
    pub fn placement(&self) -> &[u8] {
        &self.best.1.placement
    }

    /// The best fitness so far.
    #[must_use]
    pub fn best(&self) -> (u64, u64) {
        self.best.0
    }

    /// The schedule of that fitness.
    #[must_use]
    pub fn schedule(&mut self) -> Schedule {
        let State { placement, bias } = &self.best.1;
        self.keys.write(self.problem, placement, bias);
        self.decoder.schedule(&self.keys.keys)
    }

    /// A chromosome from which the same decoder makes that schedule.
    #[must_use]
    pub fn chromosome(&mut self) -> Vec<f32> {
        let State { placement, bias } = &self.best.1;
        self.keys.write(self.problem, placement, bias);
        self.keys.keys.clone()
    }

    /// Goes on from another placement, which is evaluated.
    ///
    /// # Panics
    /// As [`ClusterSearch::new`].
    pub fn restart(&mut self, placement: &[u8]) {
        self.state.placement.copy_from_slice(placement);
        self.problem.colocate(&mut self.state.placement);
        self.state.bias.fill(1.0);
        self.current = self.evaluate();
        self.accepted.fill(self.current);
        self.keep_best();
    }

    /// One move and its evaluation.
    pub fn step(&mut self) {
        let mut roll = self.dice.index(100);
        if self.is_pipeline {
            // Priorities mean nothing to a pipeline.
            roll = roll.max(PERCENT_PRIORITIES);
        }
        let mut old_bias = None;
        self.changed.clear();
        if roll < PERCENT_PRIORITIES {
            let op = self.dice.index(self.state.bias.len());
            let spread = 2.0 * MOST_BIAS * (self.dice.uniform_f32() - 0.5);
            old_bias = Some((op, self.state.bias[op]));
            self.state.bias[op] = 1.0 + spread;
        } else {
            let (capped, uncapped) = (self.hierarchy.levels(), self.hierarchy.uncapped());
            let at = self.dice.index(capped.len() + uncapped.len());
            let level = capped
                .get(at)
                .unwrap_or_else(|| &uncapped[at - capped.len()]);
            let cluster = self.dice.index(level.len()) as u32;
            let op = level.ops(cluster)[self.dice.index(level.ops(cluster).len())];
            let from = self.state.placement[op as usize];
            let to = self.other_device(op);
            if roll < PERCENT_PRIORITIES + PERCENT_SWAPS {
                let other = self.dice.index(level.len()) as u32;
                let has = self.state.placement[level.ops(other)[0] as usize];
                if has != from {
                    self.place(level.ops(cluster), has);
                    self.place(level.ops(other), from);
                } else {
                    self.place(level.ops(cluster), to);
                }
            } else {
                self.place(level.ops(cluster), to);
            }
        }
        let found = self.evaluate();
        let slot = self.n_moves % HISTORY;
        self.n_moves += 1;
        if found <= self.current || found <= self.accepted[slot] {
            self.current = found;
            self.keep_best();
        } else {
            for &(op, device) in self.changed.iter().rev() {
                self.state.placement[op as usize] = device;
            }
            if let Some((op, bias)) = old_bias {
                self.state.bias[op] = bias;
            }
        }
        self.accepted[slot] = self.current;
    }

    fn keep_best(&mut self) {
        if self.current < self.best.0 {
            self.best.0 = self.current;
            self.best.1.clone_from(&self.state);
        }
    }

    /// Moves the ops and the groups that they are in.
    fn place(&mut self, ops: &[u32], device: u8) {
        let problem = self.problem;
        for op in ops {
            let group = problem.graph.colocation.as_deref();
            match group.and_then(|colocation| colocation.group(*op)) {
                Some(group) if group.device.is_some() => (),
                Some(group) => group.ops.iter().for_each(|&op| self.set(op, device)),
                None => self.set(*op, device),
            }
        }
    }

    fn set(&mut self, op: u32, device: u8) {
        let at = &mut self.state.placement[op as usize];
        if *at != device {
            self.changed.push((op, std::mem::replace(at, device)));
        }
    }

    /// A device other than that of `op`: half the time that of an op beside it, where there is one elsewhere.
    fn other_device(&mut self, op: u32) -> u8 {
        let graph = self.problem.graph();
        let home = self.state.placement[op as usize];
        let n = self.problem.n_devices();
        if self.dice.index(2) == 0 {
            let before = graph.inputs(op).iter().map(|&t| graph.producer(t));
            let after = graph
                .outputs(op)
                .flat_map(|t| graph.consumers(t).iter().copied());
            let placement = &self.state.placement;
            let devices = before.chain(after).map(|other| placement[other as usize]);
            let others: Vec<u8> = devices.filter(|&device| device != home).collect();
            if !others.is_empty() {
                return others[self.dice.index(others.len())];
            }
        }
        let step = 1 + self.dice.index((n - 1).max(1));
        ((usize::from(home) + step) % n) as u8
    }

    fn evaluate(&mut self) -> (u64, u64) {
        let State { placement, bias } = &self.state;
        if self.is_pipeline {
            let pipeline = Pipeline::new(self.problem, placement);
            let (excess, period, _) = pipeline.fitness(self.problem);
            return (excess, period);
        }
        self.keys.write(self.problem, placement, bias);
        self.decoder.fitness(&self.keys.keys)
    }
}
