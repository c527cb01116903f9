//! More devices never make a plan worse: of the same kind, appended ones, with limits of memory, as a pipeline.

use shardgraph_costgraph::{
    Device, DeviceSet, Graph, GraphBuilder, Link, Objective, OpSpec, TensorSpec,
};
use shardgraph_random::KeyedRng;
use shardgraph_regal::{PlaceOptions, place, place_pipeline, total_evaluations};

/// Graphs of several components, each with branches; costs, sizes and components differ much.
fn components(seed: u64) -> Graph {
    let mut dice = KeyedRng::new(seed, "components", 0);
    let mut builder = GraphBuilder::new(format!("components {seed}"));
    for component in 0..1 + dice.index(4) {
        let n_ops = 1 + dice.index(20);
        let op = |dice: &mut KeyedRng, op| OpSpec {
            internal_bytes: dice.below(100),
            persistent_bytes: dice.below(300),
            ..OpSpec::new(format!("component {component} op {op}"), dice.below(1000))
        };
        let ops: Vec<u32> = (0..n_ops).map(|at| builder.op(op(&mut dice, at))).collect();
        for at in 0..n_ops - 1 {
            let readers: Vec<u32> = (0..1 + dice.index(2))
                .map(|_| ops[at + 1 + dice.index((n_ops - at - 1).min(5))])
                .collect();
            builder.tensor(TensorSpec::new(ops[at], dice.below(3000), &readers));
        }
    }
    builder.build().expect("a valid graph")
}

/// Eight devices, alike or not, with one link or several, with limits of memory or without.
fn machine(seed: u64) -> DeviceSet {
    let mut dice = KeyedRng::new(seed, "machine", 0);
    let are_alike = dice.index(2) == 0;
    let limit = (dice.index(2) == 0).then(|| 2000 + dice.below(6000));
    let device = |idx: usize| Device {
        name: format!("{idx}"),
        memory_bytes: limit.map(|limit| match are_alike {
            true => limit,
            false => limit / (1 + idx as u64 % 3),
        }),
        class: 0,
        cost_factor: match are_alike {
            true => 1.0,
            false => [1.0, 2.5, 0.4][dice.index(3)],
        },
    };
    let devices = DeviceSet::new((0..8).map(device).collect()).expect("devices");
    let link = Link {
        bandwidth_gbs: [0.5, 24.0, f64::INFINITY][dice.index(3)],
        latency_ns: [0, 100, 10_000][dice.index(3)],
    };
    let mut devices = devices.with_link(link).expect("a link");
    if !are_alike {
        let slow = Link {
            bandwidth_gbs: 0.1,
            latency_ns: 500,
        };
        devices.set_link(1, 2, slow).expect("a pair");
    }
    devices
}

#[test]
fn more_devices_never_make_a_plan_worse() {
    let (mut n_better, mut n_saved) = (0, 0);
    for seed in 0..36 {
        let (graph, machine) = (components(seed), machine(seed));
        for objective in [Objective::Runtime, Objective::Memory] {
            let options = PlaceOptions {
                objective,
                evaluations: [30, 150, 400][seed as usize % 3],
                seed,
                ..PlaceOptions::default()
            };
            // Of memory the peak alone: plans of the same peak may take longer.
            let mut fewer = (u64::MAX, u64::MAX);
            for n in 1..=6 {
                let devices = machine.first(n).expect("devices");
                let plan = place(&graph, &devices, &options).expect("a plan");
                let found = match objective {
                    Objective::Runtime => (plan.outcome.excess_bytes, plan.outcome.runtime_ns),
                    Objective::Memory => (0, plan.outcome.peak_bytes),
                };
                assert!(
                    found <= fewer,
                    "seed {seed}, {objective:?}: {found:?} on {n} devices, {fewer:?} on fewer"
                );
                assert!(plan.evaluations <= total_evaluations(n, options.evaluations));
                let is_sorted = |of: &[shardgraph_brkga::Generation]| {
                    of[0].evaluations < of[1].evaluations && of[0].best >= of[1].best
                };
                assert!(plan.history.windows(2).all(is_sorted));
                n_better += u32::from(found < fewer && n > 2);
                n_saved += u32::from(found.0 == 0 && fewer.0 > 0 && n > 1);
                fewer = found;
            }
        }
    }
    assert!(
        n_better > 60,
        "{n_better} plans were better on more devices"
    );
    assert!(n_saved > 0, "{n_saved} plans fit on more devices only");
}

#[test]
fn more_devices_never_make_a_pipeline_worse() {
    let mut n_better = 0;
    for seed in 0..36 {
        let (graph, machine) = (components(seed), machine(seed));
        let options = PlaceOptions {
            evaluations: [30, 150, 400][seed as usize % 3],
            seed,
            ..PlaceOptions::default()
        };
        let mut fewer = (u64::MAX, u64::MAX);
        for n in 1..=6 {
            let devices = machine.first(n).expect("devices");
            let plan = place_pipeline(&graph, &devices, &options).expect("a pipeline");
            let found = (plan.excess_bytes, plan.pipeline.period_ns);
            assert!(
                found <= fewer,
                "seed {seed}: {found:?} on {n} devices, {fewer:?} on fewer"
            );
            assert!(plan.evaluations <= total_evaluations(n, options.evaluations));
            n_better += u32::from(found < fewer && n > 2);
            fewer = found;
        }
    }
    assert!(
        n_better > 30,
        "{n_better} pipelines were better on more devices"
    );
}
