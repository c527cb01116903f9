//! Properties of every baseline, and what each is better at than chance.

use super::{
    ClusterSearch, Hierarchy, OpOrder, component_placement, greedy_memory, greedy_memory_best_of,
    local_search, ordered, partition, random_search, upward_rank, upward_rank_keys,
};
use crate::tests::random_problems::for_problems;
use crate::{
    DecoderKind, DeviceSet, Graph, GraphBuilder, Link, ModelOptions, Objective, OpSpec, Problem,
    Schedule, TensorSpec, lower_bounds,
};
use shardgraph_random::KeyedRng;

/// Layers of ops, each reading a few tensors of the layers before: work enough for two devices.
fn layered(seed: u64, n_layers: u32, width: u32) -> Graph {
    let mut dice = KeyedRng::new(seed, "layers", 0);
    let mut builder = GraphBuilder::new("layers");
    for _ in 0..n_layers * width {
        builder.op(OpSpec::new("", 20 + dice.index(80) as u64));
    }
    for op in 0..(n_layers - 1) * width {
        let next = (op / width + 1) * width;
        let readers = [0, 1].map(|_| next + dice.index(width as usize) as u32);
        builder.tensor(TensorSpec::new(op, 10 + dice.index(90) as u64, &readers));
    }
    builder.build().unwrap()
}

fn problem(graph: &Graph, n_devices: usize, objective: Objective) -> Problem<'_> {
    let devices = DeviceSet::uniform(n_devices, None).unwrap();
    Problem::new(graph, &devices, objective, ModelOptions::default()).unwrap()
}

fn value(problem: &Problem<'_>, schedule: &Schedule) -> u64 {
    let outcome = schedule.verify(problem).unwrap().outcome;
    match problem.objective() {
        Objective::Runtime => outcome.runtime_ns,
        Objective::Memory => outcome.peak_bytes,
    }
}

#[test]
fn every_baseline_gives_valid_schedules() {
    for_problems(300, 40, |problem, seed| {
        let placement = partition(problem);
        assert!(
            problem
                .fixed_op()
                .is_none_or(|op| placement[op as usize] == 0)
        );
        for order in OpOrder::ALL {
            ordered(problem, &placement, order).verify(problem).unwrap();
        }
        upward_rank(problem).verify(problem).unwrap();
        greedy_memory(problem, seed, 0.3, &mut || true)
            .verify(problem)
            .unwrap();
        local_search(problem, 30, seed, &mut |_, _| true)
            .0
            .verify(problem)
            .unwrap();
        random_search(problem, DecoderKind::Paper, 5, seed, &mut |_, _| true)
            .0
            .verify(problem)
            .unwrap();
    });
}

#[test]
fn upward_ranks_fall_along_every_edge() {
    for_problems(200, 40, |problem, _| {
        let graph = problem.graph();
        let keys = upward_rank_keys(problem);
        let priority = |op: u32| keys[graph.n_ops() * problem.n_devices() + op as usize];
        for tensor in 0..graph.n_tensors() as u32 {
            for &consumer in graph.consumers(tensor) {
                assert!(priority(graph.producer(tensor)) > priority(consumer));
            }
        }
    });
}

#[test]
fn list_scheduling_is_near_the_bound_and_far_ahead_of_chance() {
    for seed in 0..10 {
        let graph = layered(seed, 20, 8);
        for n_devices in [2, 3, 4] {
            let problem = problem(&graph, n_devices, Objective::Runtime);
            let list = value(&problem, &upward_rank(&problem));
            let bound = lower_bounds(&problem).runtime_ns;
            let chance = value(
                &problem,
                &random_search(&problem, DecoderKind::Paper, 100, seed, &mut |_, _| true).0,
            );
            assert!(
                list * 10 <= bound * 13,
                "{n_devices} devices: {list} for a bound of {bound}"
            );
            assert!(
                list < chance,
                "{n_devices} devices: list {list}, chance {chance}"
            );
        }
    }
}

/// Each of four sources makes 100 bytes, of which a reduction leaves 1; a join reads all four.
fn reductions() -> Graph {
    let mut builder = GraphBuilder::new("reductions");
    let mut row =
        |cost: u64| -> Vec<u32> { (0..4).map(|_| builder.op(OpSpec::new("", cost))).collect() };
    let (sources, reduced) = (row(1), row(1));
    let join = builder.op(OpSpec::new("join", 1));
    for (&source, &reduce) in sources.iter().zip(&reduced) {
        builder.tensor(TensorSpec::new(source, 100, &[reduce]));
        builder.tensor(TensorSpec::new(reduce, 1, &[join]));
    }
    builder.build().unwrap()
}

#[test]
fn memory_orders_finish_what_they_began() {
    let graph = reductions();
    let problem = problem(&graph, 1, Objective::Memory);
    let peak = |order| value(&problem, &ordered(&problem, &[0; 9], order));
    // One source at a time beside the results before it; the topological order makes all sources first.
    let expected = [104, 104, 104, 401];
    assert_eq!(OpOrder::ALL.map(peak), expected);
    assert_eq!(
        value(&problem, &greedy_memory(&problem, 1, 0.0, &mut || true)),
        104
    );
}

#[test]
fn depth_first_begins_with_the_input_that_has_more_below_it() {
    // The join reads a small tensor and one at the end of a chain of large ones.
    let mut builder = GraphBuilder::new("uneven");
    let [small, large, end, join] =
        ["small", "large", "end", "join"].map(|n| builder.op(OpSpec::new(n, 1)));
    builder.tensor(TensorSpec::new(small, 10, &[join]));
    builder.tensor(TensorSpec::new(large, 100, &[end]));
    builder.tensor(TensorSpec::new(end, 10, &[join]));
    let graph = builder.build().unwrap();
    let problem = problem(&graph, 1, Objective::Memory);
    let peak = |order| value(&problem, &ordered(&problem, &[0; 4], order));
    assert_eq!(peak(OpOrder::DepthFirst), 110);
    assert_eq!(peak(OpOrder::PostOrder), 120);
}

#[test]
fn greedy_memory_beats_chance() {
    let mut sums = [0; 3];
    for seed in 0..20 {
        let graph = layered(seed, 20, 8);
        let problem = problem(&graph, 2, Objective::Memory);
        let chance = value(
            &problem,
            &random_search(&problem, DecoderKind::Paper, 100, seed, &mut |_, _| true).0,
        );
        let greedy = value(&problem, &greedy_memory(&problem, seed, 0.0, &mut || true));
        let best_of = value(
            &problem,
            &greedy_memory_best_of(&problem, 20, seed, 0.1, &mut || true).0,
        );
        assert!(best_of <= greedy);
        sums.iter_mut()
            .zip([chance, greedy, best_of])
            .for_each(|(sum, value)| *sum += value);
    }
    let [chance, greedy, best_of] = sums;
    // Chance has a hundred tries and the greedy one.
    assert!(greedy < chance && best_of * 10 < chance * 9, "{sums:?}");
}

#[test]
fn local_search_improves_with_its_budget() {
    for seed in 0..5 {
        let graph = layered(seed, 12, 6);
        for objective in [Objective::Runtime, Objective::Memory] {
            let problem = problem(&graph, 2, objective);
            let [start, short, long] = [1, 100, 3000].map(|n| {
                value(
                    &problem,
                    &local_search(&problem, n, seed, &mut |_, _| true).0,
                )
            });
            assert!(
                start > short && short > long,
                "{objective:?}: {start} {short} {long}"
            );
        }
    }
}

#[test]
fn partition_finds_two_separate_halves() {
    // Two chains whose ops alternate in id, with one thin tensor between them.
    let mut builder = GraphBuilder::new("two chains");
    let ops: Vec<u32> = (0..40).map(|_| builder.op(OpSpec::new("", 10))).collect();
    for at in 0..38 {
        builder.tensor(TensorSpec::new(ops[at], 1000, &[ops[at + 2]]));
    }
    builder.tensor(TensorSpec::new(ops[0], 1, &[ops[39]]));
    let graph = builder.build().unwrap();
    let problem = problem(&graph, 2, Objective::Runtime);
    let placement = partition(&problem);
    assert!(
        ops.iter()
            .all(|&op| placement[op as usize] == placement[op as usize % 2])
    );
    assert_ne!(placement[0], placement[1]);
}

#[test]
fn partition_shares_the_work() {
    for seed in 0..5 {
        let graph = layered(seed, 20, 8);
        for n_devices in [2, 3, 4, 7] {
            let problem = problem(&graph, n_devices, Objective::Runtime);
            let mut shares = vec![0; n_devices];
            for (op, &device) in partition(&problem).iter().enumerate() {
                shares[usize::from(device)] += graph.cost_ns(0, op as u32);
            }
            let total: u64 = shares.iter().sum();
            let fair = total / n_devices as u64;
            assert!(
                shares.iter().all(|&share| share.abs_diff(fair) * 4 < fair),
                "{shares:?}"
            );
        }
    }
}

/// A search that is ended after 200 evaluations is one that was given 200.
#[test]
fn an_ended_search_is_a_shorter_one() {
    for_problems(40, 30, |problem, seed| {
        if local_search(problem, 200, seed, &mut |_, _| true).1 < 200 {
            // Nothing can move in so small a graph.
            assert!(problem.graph().n_ops() < 5 || problem.n_devices() == 1);
            return;
        }
        let mut looks = Vec::new();
        let mut watch = |n_done: u64, best: (u64, u64)| {
            looks.push((n_done, best));
            n_done < 200
        };
        let ended = local_search(problem, 1000, seed, &mut watch);
        assert_eq!(
            ended,
            (local_search(problem, 200, seed, &mut |_, _| true).0, 200)
        );
        let kind = DecoderKind::Paper;
        let ended = random_search(problem, kind, 1000, seed, &mut watch);
        assert_eq!(
            ended,
            (
                random_search(problem, kind, 200, seed, &mut |_, _| true).0,
                200
            )
        );
        let done: Vec<u64> = looks.iter().map(|(n_done, _)| *n_done).collect();
        assert_eq!(done, [100, 200, 100, 200]);
        assert!(looks[1].1 <= looks[0].1 && looks[3].1 <= looks[2].1);
        let fitness = ended.0.verify(problem).unwrap().outcome;
        assert_eq!(fitness.fitness(problem.objective()), looks[3].1);
    });
}

/// One component of 30 ops of 100 ns and four of 6 ops, each of rows of three.
fn large_and_small() -> Graph {
    let mut builder = GraphBuilder::new("large and small");
    for n_rows in [10, 2, 2, 2, 2] {
        let mut above: Vec<u32> = Vec::new();
        for _ in 0..n_rows {
            let row: Vec<u32> = (0..3).map(|_| builder.op(OpSpec::new("", 100))).collect();
            for &op in &above {
                builder.tensor(TensorSpec::new(op, 64, &row));
            }
            above = row;
        }
    }
    builder.build().unwrap()
}

/// The largest component is more than a device's share, and whatever is sent takes longer than all of it.
#[test]
fn whole_components_are_placed_and_moved() {
    let graph = large_and_small();
    let link = Link {
        bandwidth_gbs: 24.0,
        latency_ns: 10_000,
    };
    for n_devices in [2, 4, 8] {
        let devices = DeviceSet::uniform(n_devices, None).and_then(|of| of.with_link(link));
        let (devices, options) = (
            devices.unwrap(),
            ModelOptions {
                fix_largest: false,
                ..ModelOptions::default()
            },
        );
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        let hierarchy = Hierarchy::new(&problem, 1);
        let coarsest = hierarchy.uncapped().last().unwrap();
        let mut sizes: Vec<usize> = (0..coarsest.len() as u32)
            .map(|c| coarsest.ops(c).len())
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [6, 6, 6, 6, 30]);
        let placement = component_placement(&problem).unwrap();
        let placed = value(&problem, &super::placed_list(&problem, &placement));
        assert_eq!(placed, 3000, "{n_devices} devices");
        let alone = vec![0; graph.n_ops()];
        let kind = DecoderKind::TimeAware;
        let mut search = ClusterSearch::new(&problem, &hierarchy, &alone, kind, 1);
        (0..200).for_each(|_| search.step());
        assert_eq!(search.best(), (0, 3000), "{n_devices} devices");
    }
    // Of one component nothing is to be placed apart.
    let graph = reductions();
    assert_eq!(
        component_placement(&problem(&graph, 3, Objective::Runtime)),
        None
    );
}
