//! Random graphs, machines and options for the crate's own tests.

use crate::{
    Device, DeviceSet, Graph, GraphBuilder, Link, ModelOptions, Objective, OpSpec, Problem,
    TensorSpec,
};
use shardgraph_random::KeyedRng;

/// A graph with everything that the model knows: hyperedges, views, control dependencies, internal and persistent bytes, two cost
/// classes, zero costs and sizes, ids that are in no topological order. One seed in three gives chains and trees.
pub(crate) fn graph(seed: u64, n_ops: usize) -> Graph {
    let mut dice = KeyedRng::new(seed, "test graph", n_ops as u64);
    let mut ids: Vec<u32> = (0..n_ops as u32).collect();
    for at in (1..n_ops).rev() {
        ids.swap(at, dice.index(at + 1));
    }
    let mut builder = GraphBuilder::new(format!("test {seed}"));
    let is_chainy = seed.is_multiple_of(3);
    for _ in 0..n_ops {
        let cost = [0, 1, 3, 10, 17][dice.index(5)];
        builder.op(OpSpec {
            cost_ns: vec![cost, cost * 2 + 1],
            internal_bytes: dice.index(3) as u64 * 20,
            persistent_bytes: dice.index(2) as u64 * 15,
            ..OpSpec::default()
        });
    }
    connect(&mut builder, &ids, is_chainy, &mut dice);
    builder.build().unwrap()
}

/// Tensors and control dependencies between ops, which `ids` lists in a topological order.
fn connect(builder: &mut GraphBuilder, ids: &[u32], is_chainy: bool, dice: &mut KeyedRng) {
    let n_ops = ids.len();
    let control_rarity = if is_chainy { 12 } else { 1 + dice.index(4) };
    // By position in the topological order: the tensors that each op reads, as the builder numbers them.
    let mut inputs: Vec<Vec<u32>> = vec![Vec::new(); n_ops];
    for position in 0..n_ops {
        let later = n_ops - position - 1;
        let n_outputs = if is_chainy { 1 } else { dice.index(3) };
        for _ in 0..n_outputs {
            let picks = match later {
                0 => 0,
                _ if is_chainy => 1 + dice.index(8) / 7,
                _ => dice.index(4),
            };
            let readers: Vec<usize> = (0..picks)
                .map(|_| position + 1 + dice.index(later.min(9)))
                .collect();
            let base = (!inputs[position].is_empty() && dice.index(3) == 0)
                .then(|| inputs[position][dice.index(inputs[position].len())]);
            let tensor = builder.tensor(TensorSpec {
                producer: ids[position],
                bytes: dice.index(6) as u64 * 10,
                alias_of: base,
                consumers: readers.iter().map(|&r| ids[r]).collect(),
            });
            readers.iter().for_each(|&r| inputs[r].push(tensor));
        }
        if later > 0 && dice.index(control_rarity) == 0 {
            for _ in 0..1 + dice.index(2) {
                builder.control(ids[position], ids[position + 1 + dice.index(later)]);
            }
        }
    }
}

/// Some machine with `n` devices: equal or not, free links or not, limits or not.
pub(crate) fn devices(seed: u64, n: usize) -> DeviceSet {
    let mut dice = KeyedRng::new(seed, "test machine", n as u64);
    let are_equal = dice.index(2) == 0;
    let memory = (dice.index(2) == 0).then_some(150);
    let device = |idx: usize| Device {
        name: format!("d{idx}"),
        memory_bytes: memory.map(|bytes| bytes + 40 * if are_equal { 0 } else { idx as u64 }),
        class: if are_equal { 0 } else { idx % 2 },
        cost_factor: if are_equal {
            1.0
        } else {
            1.0 + idx as f64 / 2.0
        },
    };
    let mut set = DeviceSet::new((0..n).map(device).collect()).unwrap();
    if dice.index(2) == 0 {
        for from in 0..n {
            for to in 0..n {
                let link = Link {
                    bandwidth_gbs: 1.0 + from as f64 * 3.0,
                    latency_ns: to as u64,
                };
                set.set_link(from, to, link).unwrap();
            }
        }
    }
    set
}

pub(crate) fn options(seed: u64) -> (Objective, ModelOptions) {
    let mut dice = KeyedRng::new(seed, "test options", 0);
    let mut flag = || dice.index(2) == 0;
    let options = ModelOptions {
        control_blocks: flag(),
        asynchronous: flag(),
        keep_outputs: flag(),
        count_persistent: flag(),
        fix_largest: flag(),
    };
    (
        if flag() {
            Objective::Runtime
        } else {
            Objective::Memory
        },
        options,
    )
}

/// Uniform keys; for some seeds of few values, so that ties occur.
pub(crate) fn keys(seed: u64, problem: &Problem<'_>) -> Vec<f32> {
    let mut dice = KeyedRng::new(seed, "test keys", 0);
    let levels = [0.0, 4.0, 64.0][dice.index(3)];
    let mut key = || {
        let key = dice.uniform_f32();
        if levels > 0.0 {
            (key * levels).floor() / levels
        } else {
            key
        }
    };
    (0..problem.n_keys()).map(|_| key()).collect()
}

/// Runs `check` on many problems, and says which one it failed for.
pub(crate) fn for_problems(n_seeds: u64, max_ops: usize, check: impl Fn(&Problem<'_>, u64)) {
    for seed in 0..n_seeds {
        let mut dice = KeyedRng::new(seed, "test sizes", 0);
        let graph = graph(seed, 1 + dice.index(max_ops));
        let devices = devices(seed, 1 + dice.index(4));
        let (objective, options) = options(seed);
        let problem = Problem::new(&graph, &devices, objective, options).unwrap();
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&problem, seed)));
        if let Err(panic) = outcome {
            panic!(
                "seed {seed}: {} ops, {} devices, {options:?}, {objective:?}: {:?}",
                graph.n_ops(),
                devices.len(),
                panic.downcast_ref::<String>()
            );
        }
    }
}
