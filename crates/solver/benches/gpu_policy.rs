//! The policy on a GPU: one evaluation, one training step, one whole solve of a 21000-node graph.
//!
//! `crates/bench/peers/policy_torch.py` measures the same work in PyTorch. Prints `METRIC:<series>/<metric>:<value>:<unit>` once for
//! each sample; without a GPU it ends with exit code 3. With `--test` it runs once, small, on the emulated kernels.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to whoever runs it"
)]

use std::process::ExitCode;
use std::sync::Arc;

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_layers::autodiff::{Adam, Ctx, Eager, Params, Shape};
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, Policy, PolicyShape, StateBatch};
use shardgraph_ops::Loss;
use shardgraph_shard::{Adjacency, BitShard, CsrShard, Partition};
use shardgraph_solver::{SolveOptions, TrainedPolicy, solve};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// States of a training batch.
const BATCH: usize = 8;
const N_SAMPLES: usize = 7;
/// The graph's name in the records.
const GRAPH: &str = "er-21000-0.15";

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let is_test = has("--test") || !has("--bench"); // `cargo test` gives neither
    let device = match is_test {
        false => Device::open(DeviceKind::Cuda(0)),
        true => match shardgraph_cuemu::library() {
            Some(library) => Device::emulated(&library),
            None => {
                println!(
                    "SKIPPED: gpu_policy bench as a test: {}",
                    shardgraph_cuemu::SKIP_REASON
                );
                return ExitCode::SUCCESS;
            }
        },
    };
    let device = match device {
        Ok(device) => device,
        Err(error) => {
            eprintln!("gpu_policy bench: {error}");
            return ExitCode::from(3);
        }
    };
    match (Bench { device, is_test }).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu_policy bench: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Bench {
    device: Device,
    is_test: bool,
}

impl Bench {
    fn run(&self) -> Outcome<()> {
        let spec: GeneratorSpec = if self.is_test {
            "er:70:0.15"
        } else {
            "er:21000:0.15"
        }
        .parse()?;
        let graph = spec.graph(7)?;
        let mut params = Params::new();
        let mut n = 0u32;
        let mut init = || {
            n += 1;
            ((n.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5) * 0.2
        };
        let shape = PolicyShape {
            embed_dim: 32,
            n_layers: 2,
            ..PolicyShape::default()
        };
        let policy = Policy::build(&mut params, shape, &mut init)?;
        let own = 0..graph.n_nodes();
        let lists = RowShard::Csr(Arc::new(CsrShard::by_rows(&graph, own.clone())));
        let bits = RowShard::Bits(Arc::new(BitShard::from_graph(&graph, own)));
        for (shard, form) in [(lists, "lists"), (bits, "bits")] {
            let shard = shard.resident(&self.device)?;
            let states = states(&graph, &shard, 1)?;
            for (path, name) in [
                (Path::FreeFirstLayer, "general"),
                (Path::Collapsed, "closed form"),
            ] {
                let series = format!("policy evaluation {GRAPH} L=2 K=32 {form} {name}");
                self.evaluate(&series, &policy, &params, &states, path)?;
            }
            let states = self::states(&graph, &shard, BATCH)?;
            let series = format!("training step {GRAPH} L=2 K=32 states=8 {form}");
            self.train(&series, &policy, &mut params.clone(), &states)?;
        }
        self.solve(&graph)
    }

    fn evaluate(
        &self,
        series: &str,
        policy: &Policy,
        params: &Params,
        states: &StateBatch,
        path: Path,
    ) -> Outcome<()> {
        let mut comm = Comm::solo();
        self.measure(series, &mut || {
            let mut ctx = Eager::new(&self.device, &mut comm, params);
            let embed = policy.embedding.embed(&mut ctx, states, path)?;
            policy.head.node_values(&mut ctx, embed, &states.layout)?;
            Ok(())
        })
    }

    /// Forward, loss, backward and Adam over eight states of one graph, by the general path.
    fn train(
        &self,
        series: &str,
        policy: &Policy,
        params: &mut Params,
        states: &StateBatch,
    ) -> Outcome<()> {
        let mut comm = Comm::solo();
        let mut adam = Adam::new(1e-4, params.flat().len());
        let rows: Arc<[u32]> = (0..BATCH as u32).map(|b| 9 * BATCH as u32 + b).collect();
        self.measure(series, &mut || {
            let mut ctx = Eager::new(&self.device, &mut comm, params);
            let embed = policy
                .embedding
                .embed(&mut ctx, states, Path::FreeFirstLayer)?;
            let layout = &states.layout;
            let q = policy
                .head
                .scores_of(&mut ctx, embed, layout, Arc::clone(&rows))?;
            let wanted = ctx.input(Shape::new(BATCH, 1), &[0.5; BATCH])?;
            let loss = ctx.loss(Loss::Huber { delta: 1.0 }, q, wanted)?;
            let gradient = ctx.param_gradient(loss)?;
            adam.step(&self.device, params, &gradient)?;
            Ok(())
        })
    }

    /// The shipped policy's cover of the whole graph, checked by `solve` itself.
    fn solve(&self, graph: &Graph) -> Outcome<()> {
        let own = 0..graph.n_nodes();
        let adjacency = Adjacency::Bits(BitShard::from_graph(graph, own));
        let policy = TrainedPolicy::shipped()?;
        let options = SolveOptions {
            device: self.device.clone(),
            ..SolveOptions::default()
        };
        let series = format!("solve {GRAPH} shipped policy");
        for _ in 0..3 {
            let solution = solve(&adjacency, &policy, &options, &mut |_, _| ())?;
            self.metric(&series, "time", solution.seconds * 1e6);
            self.metric(&series, "size", solution.nodes.len() as f64);
        }
        Ok(())
    }

    fn measure(&self, series: &str, f: &mut dyn FnMut() -> Outcome<()>) -> Outcome<()> {
        f()?;
        if self.is_test {
            println!("ran {series}");
            return Ok(());
        }
        let timer = Timer::start(&self.device);
        f()?;
        let n = (0.1 / timer.finish_s()?).clamp(1.0, 500.0) as u32;
        for _ in 0..N_SAMPLES {
            let timer = Timer::start(&self.device);
            for _ in 0..n {
                f()?;
            }
            self.metric(series, "time", timer.finish_s()? * 1e6 / f64::from(n));
        }
        Ok(())
    }

    fn metric(&self, series: &str, name: &str, value: f64) {
        let unit = if name == "time" { "us" } else { "nodes" };
        if !self.is_test {
            println!("METRIC:{series}/{name}:{value}:{unit}");
        }
    }
}

/// States in which every second, third, ... node has left the graph (in the first state none has), on one rank.
fn states(graph: &Graph, shard: &RowShard, n_states: usize) -> Outcome<StateBatch> {
    let group = Group {
        partition: Partition::by_rows(graph.n_nodes(), 1),
        n_states,
    };
    let layout = Arc::new(BatchLayout::new(vec![group], 0));
    let scale = 1.0 / graph.n_nodes() as f32;
    let keep: Vec<f32> = rows(graph, n_states)
        .map(|(node, state)| f32::from(u8::from(is_kept(node, state))))
        .collect();
    let degrees = neighbor_sums(graph, n_states, &keep, scale);
    let neighbor_degree = neighbor_sums(graph, n_states, &degrees, scale);
    Ok(StateBatch {
        inputs: None,
        counted: None,
        layout: Arc::clone(&layout),
        node: keep.iter().map(|keep| 1.0 - keep).collect(),
        neighbor_degree,
        edge: degrees.iter().flat_map(|&degree| [degree, 0.0]).collect(),
        propagation: Some(Arc::new(Propagation::new(
            layout,
            vec![shard.clone()],
            vec![keep],
            vec![scale; n_states],
        )?)),
    })
}

fn is_kept(node: u32, state: usize) -> bool {
    state == 0 || !(node as usize).is_multiple_of(state + 1)
}

fn rows(graph: &Graph, n_states: usize) -> impl Iterator<Item = (u32, usize)> {
    (0..graph.n_nodes()).flat_map(move |node| (0..n_states).map(move |state| (node, state)))
}

/// For each node that is kept the scaled sum over its kept neighbours, for the others 0.
fn neighbor_sums(graph: &Graph, n_states: usize, values: &[f32], scale: f32) -> Vec<f32> {
    let sum = |(node, state): (u32, usize)| {
        let kept = graph.neighbors(node).iter().filter(|&&u| is_kept(u, state));
        let sum: f32 = kept.map(|&u| values[u as usize * n_states + state]).sum();
        if is_kept(node, state) {
            scale * sum
        } else {
            0.0
        }
    };
    rows(graph, n_states).map(sum).collect()
}
