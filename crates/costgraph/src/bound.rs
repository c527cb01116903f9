//! What no schedule can beat.

use crate::{Objective, Problem};

/// Lower bounds on the two costs of any schedule of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// No schedule ends earlier.
    pub runtime_ns: u64,
    /// No schedule has a smaller peak.
    pub peak_bytes: u64,
}

impl Bounds {
    /// The bound on what `objective` minimises.
    #[must_use]
    pub fn of(&self, objective: Objective) -> u64 {
        match objective {
            Objective::Runtime => self.runtime_ns,
            Objective::Memory => self.peak_bytes,
        }
    }
}

/// Lower bounds on runtime and peak memory.
///
/// Runtime: the longest path with each op on its fastest device; and for pairs of times r and q the work of all ops that cannot start
/// before r and have at least q to come after them, each at its cheapest, divided among the devices, plus r and q (with r = q = 0 all
/// work). Memory: the largest inputs, outputs, scratch and persistent bytes of one op, and the persistent bytes and
/// kept outputs of all divided among the devices.
///
/// # Complexity
/// O(uses + ops x devices + ops log ops) time.
#[must_use]
pub fn lower_bounds(problem: &Problem<'_>) -> Bounds {
    Bounds {
        runtime_ns: shared_work_ns(problem, &heads_ns(problem), &tails_ns(problem)),
        peak_bytes: largest_footprint(problem).max(shared_memory(problem)),
    }
}

/// Before each op starts: the longest path to it, each op on its fastest device.
fn heads_ns(problem: &Problem<'_>) -> Vec<u64> {
    let graph = problem.graph;
    let mut heads = vec![0; graph.n_ops()];
    for &op in graph.topological_order() {
        let end = heads[op as usize] + fastest_ns(problem, op);
        for tensor in graph.outputs(op) {
            for &consumer in graph.consumers(tensor) {
                let head = &mut heads[consumer as usize];
                *head = end.max(*head);
            }
        }
    }
    heads
}

/// After each op has ended: the longest path from it, each op on its fastest device.
fn tails_ns(problem: &Problem<'_>) -> Vec<u64> {
    let graph = problem.graph;
    let mut tails = vec![0; graph.n_ops()];
    for &op in graph.topological_order().iter().rev() {
        let consumers = graph.outputs(op).flat_map(|t| graph.consumers(t));
        let paths = consumers.map(|&next| tails[next as usize] + fastest_ns(problem, next));
        tails[op as usize] = paths.max().unwrap_or(0);
    }
    tails
}

fn fastest_ns(problem: &Problem<'_>, op: u32) -> u64 {
    let costs = (0..problem.n_devices()).map(|device| problem.cost_ns(op, device));
    costs.min().unwrap_or(0)
}

/// Of all heads that ops have, so many are looked at, the smallest among them.
const MAX_HEADS: usize = 256;

/// The largest of r + q + the shared work of the ops with a head of r or more and a tail of q or more; and of the longest path.
fn shared_work_ns(problem: &Problem<'_>, heads: &[u64], tails: &[u64]) -> u64 {
    let n_devices = problem.n_devices() as u64;
    let mut by_tail: Vec<u32> = (0..heads.len() as u32).collect();
    by_tail.sort_by_key(|&op| std::cmp::Reverse(tails[op as usize]));
    let mut starts = heads.to_vec();
    starts.sort_unstable();
    starts.dedup();
    let paths = (0..heads.len()).map(|op| heads[op] + fastest_ns(problem, op as u32) + tails[op]);
    let mut bound = paths.max().unwrap_or(0);
    for &start in starts
        .iter()
        .step_by(starts.len().div_ceil(MAX_HEADS).max(1))
    {
        let mut work = 0;
        for &op in by_tail.iter().filter(|&&op| heads[op as usize] >= start) {
            work += fastest_ns(problem, op);
            bound = bound.max(start + tails[op as usize] + work.div_ceil(n_devices));
        }
    }
    bound
}

/// An op's inputs, outputs and scratch are in one device's memory while it runs.
fn largest_footprint(problem: &Problem<'_>) -> u64 {
    let graph = problem.graph;
    let ops = 0..graph.n_ops() as u32;
    let footprint = |op| {
        // An input that is a view may share its storage with another input: only inputs that are no views are sure to be apart.
        let own = |&t: &u32| graph.alias_of(t).is_none();
        let outputs = graph.outputs(op).filter(own);
        let inputs = graph.inputs(op).iter().copied().filter(own);
        let tensors: u64 = inputs.chain(outputs).map(|t| graph.tensor_bytes(t)).sum();
        let persistent = if problem.options.count_persistent {
            graph.persistent_bytes(op)
        } else {
            0
        };
        tensors + graph.internal_bytes(op) + persistent
    };
    ops.map(footprint).max().unwrap_or(0)
}

/// What is in some memory at the end is shared by all.
fn shared_memory(problem: &Problem<'_>) -> u64 {
    let graph = problem.graph;
    let kept = (0..graph.n_tensors() as u32)
        .filter(|&t| problem.is_kept(t) && graph.alias_of(t).is_none())
        .map(|t| graph.tensor_bytes(t))
        .sum::<u64>();
    let persistent = if problem.has_persistent {
        graph.ops.persistent_bytes.iter().sum()
    } else {
        0
    };
    (kept + persistent).div_ceil(problem.n_devices() as u64)
}

#[cfg(test)]
mod tests {
    use super::lower_bounds;
    use crate::tests::random_problems::{devices, for_problems, graph, keys, options};
    use crate::{
        Decoder, DecoderKind, DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem,
        TensorSpec, optimum,
    };

    /// One op, four side by side, one op, of 10 ns each: neither the path nor the work alone says 40 ns.
    #[test]
    fn work_between_a_common_start_and_end_is_shared() {
        let mut builder = GraphBuilder::new("diamond");
        let ops = ["a", "b", "c", "d", "e", "f"].map(|name| builder.op(OpSpec::new(name, 10)));
        builder.tensor(TensorSpec::new(ops[0], 8, &ops[1..5]));
        for op in &ops[1..5] {
            builder.tensor(TensorSpec::new(*op, 8, &ops[5..]));
        }
        let graph = builder.build().unwrap();
        let devices = DeviceSet::uniform(2, None).unwrap();
        let options = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        assert_eq!(lower_bounds(&problem).runtime_ns, 40);
        let (_, outcome) = optimum(&problem, 1_000_000).unwrap();
        assert_eq!(outcome.runtime_ns, 40);
    }

    #[test]
    fn no_schedule_beats_the_bounds() {
        for kind in DecoderKind::ALL {
            for_problems(300, 40, |problem, seed| {
                let outcome = Decoder::new(problem, kind).decode(&keys(seed, problem));
                let bounds = lower_bounds(problem);
                assert!(
                    bounds.runtime_ns <= outcome.runtime_ns,
                    "runtime of {kind:?}"
                );
                assert!(bounds.peak_bytes <= outcome.peak_bytes, "peak of {kind:?}");
            });
        }
    }

    #[test]
    fn the_optimum_lies_between_bound_and_heuristics() {
        let (mut n_searched, mut n_tight) = (0, 0);
        for seed in 0..60 {
            let graph = graph(seed, 5);
            let (objective, options) = options(seed);
            let devices = devices(seed, 2);
            let problem = Problem::new(&graph, &devices, objective, options).unwrap();
            let Ok((schedule, outcome)) = optimum(&problem, 200_000) else {
                continue;
            };
            n_searched += 1;
            assert_eq!(schedule.verify(&problem).unwrap().outcome, outcome);
            let fitness = outcome.fitness(objective);
            let bound = lower_bounds(&problem).of(objective);
            n_tight += usize::from(bound == fitness.0.max(fitness.1) || bound == fitness.0);
            for kind in DecoderKind::ALL {
                for round in 0..20 {
                    let found =
                        Decoder::new(&problem, kind).fitness(&keys(seed * 20 + round, &problem));
                    assert!(
                        found >= fitness,
                        "seed {seed}, {kind:?}: {found:?} beats {fitness:?}"
                    );
                }
            }
        }
        assert!(
            n_searched >= 40 && n_tight >= 5,
            "{n_searched} searched, {n_tight} tight"
        );
    }
}
