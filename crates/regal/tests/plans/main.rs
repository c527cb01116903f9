//! Plans through the public interface, and the graphs that they are made for.

mod more_devices;
mod search;
mod tables;

use shardgraph_costgraph::{DeviceSet, Graph, GraphBuilder, Objective, OpSpec, TensorSpec};
use shardgraph_regal::{Method, PlaceOptions, Watch};

/// A layered graph from a small congruential generator.
fn graph(n_ops: u32, seed: u64) -> Graph {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut below = |n: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % n
    };
    let mut builder = GraphBuilder::new(format!("graph {seed}"));
    for op in 0..n_ops {
        builder.op(OpSpec::new(format!("op {op}"), u64::from(1 + below(50))));
    }
    for op in 0..n_ops - 1 {
        let mut consumers: Vec<u32> = (0..1 + below(2))
            .map(|_| op + 1 + below((n_ops - op - 1).min(9)))
            .collect();
        consumers.sort_unstable();
        consumers.dedup();
        builder.tensor(TensorSpec::new(op, u64::from(1 + below(100)), &consumers));
    }
    builder.build().expect("a valid graph")
}

fn two(memory_bytes: Option<u64>) -> DeviceSet {
    DeviceSet::uniform(2, memory_bytes).expect("two devices")
}

fn options(method: Method, objective: Objective) -> PlaceOptions {
    PlaceOptions {
        method,
        objective,
        evaluations: 300,
        greedy_runs: 5,
        ..PlaceOptions::default()
    }
}

fn watched<T>(run: impl FnOnce(&mut Watch<'_>) -> T) -> T {
    let mut time = 0.0;
    run(&mut Watch {
        clock: &mut || {
            time += 1.0;
            time
        },
        deadline: None,
        on_progress: &mut |_| true,
    })
}
