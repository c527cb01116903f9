//! Pipelines of random placements against micro-batches that are laid out one by one.

use super::{Pipeline, period_bound};
use crate::tests::random_problems::for_problems;
use crate::{DeviceSet, GraphBuilder, Link, ModelOptions, Objective, OpSpec, Problem, TensorSpec};
use shardgraph_random::KeyedRng;
use std::cell::Cell;

fn placement(problem: &Problem<'_>, seed: u64) -> Vec<u8> {
    let mut dice = KeyedRng::new(seed, "pipeline placement", 0);
    let n = problem.n_devices();
    (0..problem.graph().n_ops())
        .map(|_| dice.index(n) as u8)
        .collect()
}

/// The memory of each device at every time at which anything begins, with all micro-batches that reach into a period far from the first.
fn naive_peaks(problem: &Problem<'_>, pipeline: &Pipeline) -> Vec<u64> {
    let mut copies: Vec<(u8, u64, u64, u64)> = Vec::new();
    pipeline.occupied(problem, &mut |device, bytes, start, end| {
        copies.push((device, bytes, start, end));
    });
    let (period, n_batches) = (pipeline.period_ns, 2 * pipeline.n_in_flight() + 3);
    let from = pipeline.n_in_flight() * period;
    let mut all: Vec<(u8, u64, u64, u64)> = Vec::new();
    for batch in 0..n_batches {
        let shift = batch * period;
        all.extend(
            copies
                .iter()
                .map(|&(d, b, s, e)| (d, b, s + shift, e + shift)),
        );
    }
    let mut peaks = vec![0; problem.n_devices()];
    let times = all.iter().map(|&(_, _, start, _)| start).chain([from]);
    for time in times.filter(|time| (from..from + period).contains(time)) {
        for (device, peak) in peaks.iter_mut().enumerate() {
            let is_there = |&&(d, _, s, e): &&(u8, u64, u64, u64)| {
                usize::from(d) == device && s <= time && time < e
            };
            let now: u64 = all
                .iter()
                .filter(is_there)
                .map(|&(_, bytes, ..)| bytes)
                .sum();
            *peak = now.max(*peak);
        }
    }
    if problem.has_persistent {
        for (op, &device) in pipeline.placement.iter().enumerate() {
            peaks[usize::from(device)] += problem.graph().persistent_bytes(op as u32);
        }
    }
    peaks
}

/// What each device and link does for one micro-batch, by hand.
fn largest_load(problem: &Problem<'_>, pipeline: &Pipeline) -> u64 {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let mut loads = vec![0u64; n + n * n];
    for (op, &device) in pipeline.placement.iter().enumerate() {
        loads[usize::from(device)] += problem.cost_ns(op as u32, usize::from(device));
    }
    for sent in &pipeline.transfers {
        let from = usize::from(pipeline.placement[graph.producer(sent.tensor) as usize]);
        let to = usize::from(sent.to);
        let duration = problem.transfer_ns(sent.tensor, from, to);
        if problem.options().asynchronous {
            loads[n + from * n + to] += duration;
        } else {
            loads[from] += duration;
            loads[to] += duration;
        }
    }
    loads.into_iter().max().unwrap_or(0).max(1)
}

#[test]
fn pipelines_are_valid_and_as_short_as_their_loads() {
    let (n_deep, n_equal) = (Cell::new(0), Cell::new(0));
    for_problems(300, 25, |problem, seed| {
        let pipeline = Pipeline::new(problem, &placement(problem, seed));
        pipeline.check(problem).unwrap();
        let load = largest_load(problem, &pipeline);
        assert!(
            pipeline.period_ns >= load.max(period_bound(problem)),
            "seed {seed}"
        );
        if problem.n_devices() <= 2 || problem.options().asynchronous {
            assert_eq!(pipeline.period_ns, load, "seed {seed}");
            n_equal.set(n_equal.get() + 1);
        }
        n_deep.set(n_deep.get() + u32::from(pipeline.n_in_flight() > 2));
        assert_eq!(
            pipeline.peak_bytes,
            naive_peaks(problem, &pipeline),
            "seed {seed}"
        );
    });
    let counts = (n_deep.get(), n_equal.get());
    assert!(counts.0 > 20 && counts.1 > 20, "deep, equal: {counts:?}");
}

#[test]
fn the_check_sees_what_is_wrong() {
    let mut builder = GraphBuilder::new("fork");
    let ops = ["a", "b", "c"].map(|name| builder.op(OpSpec::new(name, 10)));
    builder.tensor(TensorSpec::new(ops[0], 100, &ops[1..]));
    let graph = builder.build().unwrap();
    let link = Link {
        bandwidth_gbs: 100.0,
        latency_ns: 2,
    };
    let devices = DeviceSet::uniform(2, None)
        .unwrap()
        .with_link(link)
        .unwrap();
    let options = ModelOptions::default();
    let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
    let right = Pipeline::new(&problem, &[0, 1, 0]);
    right.check(&problem).unwrap();
    // Device 0 has two ops and a transfer of 3 ns.
    assert_eq!((right.period_ns, right.transfers.len()), (23, 1));
    type Spoil = fn(&mut Pipeline);
    let spoilt: [(&str, Spoil); 6] = [
        ("at once", |p| p.period_ns = 22),
        ("before tensor 0", |p| p.op_starts_ns[1] = 0),
        ("before tensor 0", |p| p.transfers.clear()),
        ("before it is made", |p| p.transfers[0].start_ns = 0),
        ("takes", |p| p.latency_ns += 1),
        ("a device and a start", |p| p.placement[2] = 2),
    ];
    for (expected, spoil) in spoilt {
        let mut wrong = right.clone();
        spoil(&mut wrong);
        let message = wrong.check(&problem).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
