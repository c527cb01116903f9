//! Properties: a solve on a device that launches kernels against the same solve on the host.

mod model;
mod ranks;

use proptest::prelude::*;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::{Adjacency, BitShard};

use crate::{
    AdjacencyScale, EmbeddingPath, ErrorKind, PolicyConfig, Select, Solution, SolveOptions,
    TrainedPolicy, score_nodes, solve,
};

/// The devices that launch kernels and are here.
pub(crate) fn gpus() -> Vec<Device> {
    shardgraph_cuemu::devices("solves")
}

fn on(device: &Device, select: Select) -> SolveOptions {
    SolveOptions {
        select,
        device: device.clone(),
        ..SolveOptions::default()
    }
}

fn generated(spec: String) -> Graph {
    spec.parse::<GeneratorSpec>().unwrap().graph(1).unwrap()
}

fn run(adjacency: &Adjacency, policy: &TrainedPolicy, options: &SolveOptions) -> Solution {
    solve(adjacency, policy, options, &mut |_, _| ()).unwrap()
}

/// Random graphs of the usual kinds, and the borders: paths, stars, complete graphs, no edge, no node.
fn graph() -> impl Strategy<Value = Graph> {
    let sizes = [1u32, 2, 31, 32, 33, 63, 64, 65, 140, 255, 256, 257];
    let n = prop::sample::select(sizes.to_vec());
    (n, 0u32..8, any::<u64>()).prop_map(|(n, kind, seed)| {
        let generated = |spec: String| spec.parse::<GeneratorSpec>().unwrap().graph(seed).unwrap();
        let of = |edges: Vec<(u32, u32)>| Graph::from_edges(n, &edges).unwrap();
        match kind {
            0 => generated(format!("er:{n}:0.15")),
            1 => generated(format!("er:{n}:0.02")),
            2 | 3 if n > 8 => generated(format!("ba:{n}:4")),
            4 => of((1..n).map(|v| (v - 1, v)).collect()),
            5 => of((1..n).map(|v| (0, v)).collect()),
            6 => of((0..n.min(65))
                .flat_map(|v| (0..v).map(move |u| (u, v)))
                .collect()),
            _ => of(Vec::new()),
        }
    })
}

fn policy() -> impl Strategy<Value = TrainedPolicy> {
    let scale = prop_oneof![
        Just(AdjacencyScale::One),
        Just(AdjacencyScale::LargestDegree)
    ];
    let random = (1usize..=2, scale, any::<u64>()).prop_map(|(n_layers, scale, seed)| {
        TrainedPolicy::random(PolicyConfig::new(8, n_layers, scale), seed, 0.3).unwrap()
    });
    prop_oneof![2 => random, 1 => Just(TrainedPolicy::shipped().unwrap())]
}

/// The policy with each weight's size: every sum of its scores has the terms of the policy's, without what cancels.
fn without_signs(policy: &TrainedPolicy) -> TrainedPolicy {
    let mut sizes = policy.clone();
    let flat: Vec<f32> = policy.params.flat().iter().map(|x| x.abs()).collect();
    sizes.params.set_flat(&flat).unwrap();
    sizes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The closed form: the host's cover, node for node, in as many steps.
    #[test]
    fn closed_form_covers_are_the_hosts(
        graph in graph(),
        policy in policy(),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        starts in 1u32..=4,
    ) {
        let select = if d == 0 { Select::Adaptive } else { Select::Fixed(d) };
        let bits = BitShard::from_graph(&graph, 0..graph.n_nodes());
        for adjacency in [Adjacency::Csr(graph.into()), Adjacency::Bits(bits)] {
            let host = SolveOptions { keep_isolated, starts, ..on(&Device::host(), select) };
            let want = run(&adjacency, &policy, &host);
            for device in gpus() {
                let options = SolveOptions { keep_isolated, starts, ..on(&device, select) };
                let got = run(&adjacency, &policy, &options);
                prop_assert_eq!(&got.nodes, &want.nodes, "{}", got.path_name());
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Any other path: scores that are the host's but for rounding, and a cover that is the same for every number of
    /// ranks with a stream each.
    #[test]
    fn model_scores_are_the_hosts_but_for_rounding(
        n in prop::sample::select(vec![1u32, 33, 64, 90]),
        seed in any::<u64>(),
        n_layers in 1usize..=3,
        as_bits in any::<bool>(),
    ) {
        let graph = format!("er:{n}:0.1").parse::<GeneratorSpec>().unwrap().graph(seed).unwrap();
        let adjacency = match as_bits {
            true => Adjacency::Bits(BitShard::from_graph(&graph, 0..n)),
            false => Adjacency::Csr(graph.into()),
        };
        let config = PolicyConfig::new(8, n_layers, AdjacencyScale::LargestDegree);
        let policy = TrainedPolicy::random(config, seed, 0.3).unwrap();
        let path = Some(EmbeddingPath::General);
        let host = SolveOptions { path, ..SolveOptions::default() };
        let want = score_nodes(&adjacency, &policy, &host).unwrap().values;
        // Scores are differences of sums: rounding is a share of the terms, not of what is left of them.
        let terms = score_nodes(&adjacency, &without_signs(&policy), &host).unwrap().values;
        let size = terms.iter().filter(|x| !x.is_nan()).fold(1e-6f32, |m, x| m.max(x.abs()));
        for device in gpus() {
            let options = |n_ranks| SolveOptions { path, n_ranks, ..on(&device, Select::Adaptive) };
            let got = score_nodes(&adjacency, &policy, &options(1)).unwrap().values;
            for (v, (got, want)) in got.iter().zip(&want).enumerate() {
                let agree = (got - want).abs() <= 2e-6 * size || (got.is_nan() && want.is_nan());
                prop_assert!(agree, "node {}: {} and {}", v, got, want);
            }
            let cover = run(&adjacency, &policy, &options(1)).nodes;
            for n_ranks in [2, 3] {
                prop_assert_eq!(&run(&adjacency, &policy, &options(n_ranks)).nodes, &cover);
            }
        }
    }
}

/// What a device does not do is an error that says what does, and never done elsewhere in silence.
#[test]
fn what_a_device_lacks_is_refused() {
    let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
    let adjacency = Adjacency::Csr(graph.into());
    let policy = TrainedPolicy::shipped().unwrap();
    for device in gpus() {
        let options = SolveOptions {
            n_ranks: 2,
            ..on(&device, Select::Adaptive)
        };
        let several_ranks = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap_err();
        let scores = score_nodes(&adjacency, &policy, &on(&device, Select::Adaptive)).unwrap_err();
        for error in [several_ranks, scores] {
            assert!(matches!(error.kind(), ErrorKind::Input(_)), "{error}");
            assert!(error.to_string().contains("--device host"), "{error}");
        }
    }
}

/// Memory that runs out is a device's error, whichever allocation fails.
#[test]
fn memory_that_runs_out_is_a_device_error() {
    let graph = "ba:60:3"
        .parse::<GeneratorSpec>()
        .unwrap()
        .graph(1)
        .unwrap();
    let adjacency = Adjacency::Csr(graph.into());
    let policy = TrainedPolicy::shipped().unwrap();
    for device in gpus() {
        for n in [0, 3, 9] {
            let options = on(&device.failing_at_allocation(n), Select::Adaptive);
            let error = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap_err();
            let is_memory = matches!(
                error.kind(),
                ErrorKind::Device(e) if matches!(e.kind(), shardgraph_device::ErrorKind::OutOfMemory { .. })
            );
            assert!(is_memory, "{error}");
        }
    }
}
