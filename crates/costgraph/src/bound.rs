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
/// Runtime: the longest path with each op on its fastest device, and the work, each op at its
/// cheapest, divided among the devices. Memory: the largest inputs, outputs, scratch and persistent bytes of one op, and the persistent bytes and
/// kept outputs of all divided among the devices.
///
/// # Complexity
/// O(uses + ops x devices) time.
#[must_use]
pub fn lower_bounds(problem: &Problem<'_>) -> Bounds {
    Bounds {
        runtime_ns: critical_path_ns(problem).max(shared_work_ns(problem)),
        peak_bytes: largest_footprint(problem).max(shared_memory(problem)),
    }
}

/// The longest path, each op on its fastest device.
fn critical_path_ns(problem: &Problem<'_>) -> u64 {
    let graph = problem.graph;
    let mut ready_at = vec![0; graph.n_ops()];
    let mut longest = 0;
    for &op in graph.topological_order() {
        let end = ready_at[op as usize] + fastest_ns(problem, op);
        longest = longest.max(end);
        for tensor in graph.outputs(op) {
            for &consumer in graph.consumers(tensor) {
                let at = &mut ready_at[consumer as usize];
                *at = end.max(*at);
            }
        }
    }
    longest
}

fn fastest_ns(problem: &Problem<'_>, op: u32) -> u64 {
    let costs = (0..problem.n_devices()).map(|device| problem.cost_ns(op, device));
    costs.min().unwrap_or(0)
}

/// All work, each op at its cheapest, over the number of devices, rounded up.
fn shared_work_ns(problem: &Problem<'_>) -> u64 {
    let ops = 0..problem.graph.n_ops() as u32;
    let total: u64 = ops.map(|op| fastest_ns(problem, op)).sum();
    total.div_ceil(problem.n_devices() as u64)
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
    use crate::testing::{devices, for_problems, graph, keys, options};
    use crate::{Decoder, DecoderKind, Problem, optimum};

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
