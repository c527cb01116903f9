//! The default way to make a plan: never worse than its baselines, repeatable, and good where communication decides.

use shardgraph_costgraph::NAMED_LINKS;
use shardgraph_costgraph::{
    DeviceSet, Graph, GraphBuilder, Link, ModelOptions, Objective, OpSpec, Problem, TensorSpec,
};
use shardgraph_costgraph_io::{ReadOptions, read_graphs};
use shardgraph_random::KeyedRng;
use shardgraph_regal::{Method, PlaceOptions, Plan, place, total_evaluations};

/// A graph with weights (sources without cost), branches, views and tensors of very different sizes.
fn graph(seed: u64) -> Graph {
    let mut dice = KeyedRng::new(seed, "portfolio graph", 0);
    let n_ops = 5 + dice.index(60) as u32;
    let mut builder = GraphBuilder::new(format!("graph {seed}"));
    let weights = (0..n_ops / 3).map(|w| builder.op(OpSpec::new(format!("weight {w}"), 0)));
    let weights: Vec<u32> = weights.collect();
    let ops: Vec<u32> = (0..n_ops)
        .map(|op| {
            builder.op(OpSpec {
                internal_bytes: dice.below(1000),
                persistent_bytes: dice.below(2) * 500,
                ..OpSpec::new(format!("op {op}"), dice.below(100) * dice.below(1000))
            })
        })
        .collect();
    for &weight in &weights {
        let readers = 1 + dice.index(3);
        let readers: Vec<u32> = (0..readers).map(|_| ops[dice.index(ops.len())]).collect();
        builder.tensor(TensorSpec::new(weight, dice.below(2_000_000), &readers));
    }
    for at in 0..ops.len() - 1 {
        let later = ops.len() - at - 1;
        let readers: Vec<u32> = (0..1 + dice.index(2))
            .map(|_| ops[at + 1 + dice.index(later.min(8))])
            .collect();
        let bytes = dice.below(1000) * dice.below(1000);
        builder.tensor(TensorSpec::new(ops[at], bytes, &readers));
    }
    builder.build().expect("a valid graph")
}

fn devices(seed: u64) -> DeviceSet {
    let mut dice = KeyedRng::new(seed, "portfolio devices", 0);
    let memory = (dice.index(4) == 0).then(|| 100_000 + dice.below(10_000_000));
    let devices = DeviceSet::uniform(1 + dice.index(4), memory).expect("devices");
    let link = Link {
        bandwidth_gbs: [0.5, 12.0, 24.0, 300.0, f64::INFINITY][dice.index(5)],
        latency_ns: [0, 5_000, 20_000][dice.index(3)],
    };
    let mut devices = devices.with_link(link).expect("a link");
    if devices.len() > 1 && dice.index(3) == 0 {
        let slow = Link {
            bandwidth_gbs: 1.0,
            latency_ns: 50_000,
        };
        devices.set_link(0, 1, slow).expect("a pair");
    }
    devices
}

fn fitness(plan: &Plan) -> (u64, u64) {
    plan.outcome.fitness(plan.objective)
}

#[test]
fn a_plan_is_never_worse_than_what_it_is_printed_beside() {
    let mut n_better = 0;
    for seed in 0..60 {
        let (graph, devices) = (graph(seed), devices(seed));
        for objective in [Objective::Runtime, Objective::Memory] {
            let options = |method| PlaceOptions {
                method,
                objective,
                evaluations: 150,
                model: ModelOptions {
                    asynchronous: seed % 5 == 0,
                    ..ModelOptions::default()
                },
                ..PlaceOptions::default()
            };
            let plan = place(&graph, &devices, &options(Method::Portfolio)).expect("a plan");
            assert!(plan.evaluations <= total_evaluations(devices.len(), 150));
            assert_eq!(plan.baselines.len(), Method::BASELINES.len());
            for (baseline, method) in plan.baselines.iter().zip(Method::BASELINES) {
                let alone = place(&graph, &devices, &options(method)).expect("a baseline");
                assert_eq!((baseline.method, baseline.outcome), (method, alone.outcome));
                assert!(
                    fitness(&plan) <= fitness(&alone),
                    "seed {seed}, {objective:?}: {method}"
                );
                n_better += u32::from(fitness(&plan) < fitness(&alone));
            }
            let problem = Problem::new(&graph, &devices, objective, options(plan.method).model);
            let outcome = plan.schedule.verify(&problem.expect("a problem"));
            assert_eq!(outcome.expect("valid").outcome, plan.outcome);
        }
    }
    assert!(n_better > 200, "{n_better}");
}

/// The same for forward passes of networks, over links of today.
#[test]
fn a_plan_of_a_network_is_never_worse_than_its_baselines() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/costgraphs/graphnet.jsonl.gz"
    );
    if !std::path::Path::new(file).exists() {
        println!("SKIPPED: costgraphs/graphnet.jsonl.gz is not in the data folder");
        return;
    }
    let graphs = read_graphs(file.as_ref(), &ReadOptions::default()).expect("graphs");
    for (index, graph) in graphs.enumerate().step_by(73).skip(1) {
        let graph = graph.expect("a graph").graph;
        for (name, n) in [("pcie4", 2), ("nvlink4", 4)] {
            let named = NAMED_LINKS.iter().find(|link| link.name == name);
            let link = named.expect("a link").link;
            let devices = DeviceSet::uniform(n, None).and_then(|of| of.with_link(link));
            let options = PlaceOptions {
                evaluations: 60,
                ..PlaceOptions::default()
            };
            let plan = place(&graph, &devices.expect("devices"), &options).expect("a plan");
            let best = plan.baselines.iter().map(|of| of.outcome.runtime_ns).min();
            assert!(
                Some(plan.outcome.runtime_ns) <= best,
                "graph {index}, {name}"
            );
            assert!(plan.lower_bound() <= plan.outcome.runtime_ns);
        }
    }
}

/// Where no baseline fits, the smallest peak is looked for first.
#[test]
fn a_plan_fits_where_a_search_for_memory_does() {
    let mut n_saved = 0;
    for seed in 0..20 {
        let graph = graph(seed);
        let options = |objective, evaluations| PlaceOptions {
            objective,
            evaluations,
            ..PlaceOptions::default()
        };
        let free = DeviceSet::uniform(2, None).expect("two devices");
        let least = place(&graph, &free, &options(Objective::Memory, 400)).expect("a plan");
        let limit = Some(least.outcome.peak_bytes * 21 / 20);
        let tight = DeviceSet::uniform(2, limit).expect("two devices");
        let plan = place(&graph, &tight, &options(Objective::Runtime, 1000)).expect("a plan");
        assert!(plan.fits() && plan.evaluations <= 1000, "seed {seed}");
        n_saved += u32::from(plan.baselines.iter().all(|of| of.outcome.excess_bytes > 0));
    }
    assert!(n_saved > 3, "{n_saved}");
}

#[test]
fn a_seed_has_one_plan_for_any_number_of_threads() {
    for seed in 0..8 {
        let (graph, devices) = (graph(seed), devices(seed));
        let run = |threads, evaluations| {
            let options = PlaceOptions {
                threads,
                evaluations,
                seed,
                ..PlaceOptions::default()
            };
            place(&graph, &devices, &options).expect("a plan")
        };
        let plan = run(1, 700);
        assert_eq!(plan, run(3, 700));
        // More evaluations are never worse where the fewer are a part of them; and every budget is kept.
        for evaluations in [1, 2, 7, 20, 120] {
            let most = total_evaluations(devices.len(), evaluations);
            assert!(run(1, evaluations).evaluations <= most);
        }
    }
}

/// Two chains of 60 ops of 100 us with 16 MB between them, on one input of 4.8 MB, and a join.
fn two_towers() -> Graph {
    let mut builder = GraphBuilder::new("two towers");
    let input = builder.op(OpSpec::new("input", 0));
    let chain = |builder: &mut GraphBuilder, tower: u32| -> Vec<u32> {
        let op = |op| builder.op(OpSpec::new(format!("tower {tower} op {op}"), 100_000));
        (0..60).map(op).collect()
    };
    let towers = [chain(&mut builder, 0), chain(&mut builder, 1)];
    let join = builder.op(OpSpec::new("join", 100_000));
    builder.tensor(TensorSpec::new(
        input,
        4_800_000,
        &[towers[0][0], towers[1][0]],
    ));
    for tower in &towers {
        for pair in tower.windows(2) {
            builder.tensor(TensorSpec::new(pair[0], 16_000_000, &[pair[1]]));
        }
        builder.tensor(TensorSpec::new(tower[59], 4_000, &[join]));
    }
    builder.build().expect("a valid graph")
}

#[test]
fn two_towers_part() {
    let link = Link {
        bandwidth_gbs: 12.0,
        latency_ns: 5_000,
    };
    let devices = DeviceSet::uniform(2, None).and_then(|devices| devices.with_link(link));
    let options = PlaceOptions {
        evaluations: 2000,
        ..PlaceOptions::default()
    };
    let plan = place(&two_towers(), &devices.expect("two devices"), &options).expect("a plan");
    // The towers side by side, the input's transfer, the join's and the join: 6.51 ms; 12.1 ms on one device.
    assert!(plan.outcome.runtime_ns < 6_600_000, "{:?}", plan.outcome);
    assert!(
        plan.gap().is_some_and(|gap| gap <= 0.08),
        "{:?}",
        plan.gap()
    );
    assert!(plan.speedup().is_some_and(|speedup| speedup > 1.8));
}

/// A chain has its optimum on one device, which is a baseline: nothing is searched.
#[test]
fn a_search_ends_at_the_bound() {
    let mut builder = GraphBuilder::new("chain");
    let ops: Vec<u32> = (0..20)
        .map(|op| builder.op(OpSpec::new(format!("{op}"), 50)))
        .collect();
    for pair in ops.windows(2) {
        builder.tensor(TensorSpec::new(pair[0], 1000, &[pair[1]]));
    }
    let graph = builder.build().expect("a valid graph");
    let devices = DeviceSet::uniform(2, None).expect("two devices");
    let plan = place(&graph, &devices, &PlaceOptions::default()).expect("a plan");
    assert_eq!(plan.outcome.runtime_ns, 1000);
    assert!(plan.evaluations <= 4 && plan.history.is_empty());
}
