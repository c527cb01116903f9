//! The model's episodes with states written by kernels: their covers, their launches, their bytes over the bus.

use std::sync::Mutex;

use proptest::prelude::*;
use shardgraph_device::{Device, Traffic};
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;
use shardgraph_shard::{Adjacency, BitShard};

use super::{generated, gpus, graph, on, run};
use crate::{
    AdjacencyScale, Communication, EmbeddingKind, EmbeddingPath, HeadKind, PolicyConfig, Select,
    SolveOptions, TrainedPolicy, solve,
};

/// A policy whose weights are -1, 0 and 1: without a scale, all sums of its scores are integers that f32 holds, whatever
/// their order.
pub(super) fn integer_policy(n_layers: usize, seed: u64) -> TrainedPolicy {
    let config = PolicyConfig::new(4, n_layers, AdjacencyScale::One);
    let mut policy = TrainedPolicy::random(config, seed, 1.0).unwrap();
    let flat = policy.params.flat();
    let flat: Vec<f32> = flat.iter().map(|x| x.round().clamp(-1.0, 1.0)).collect();
    policy.params.set_flat(&flat).unwrap();
    policy
}

/// A policy of three layers with any weights.
pub(super) fn policy_of(
    is_sage: bool,
    head: HeadKind,
    scale: AdjacencyScale,
    seed: u64,
) -> TrainedPolicy {
    let embedding = match is_sage {
        true => EmbeddingKind::GRAPH_SAGE,
        false => EmbeddingKind::default(),
    };
    let config = PolicyConfig::new(8, 3, scale).with_layers(embedding, head);
    TrainedPolicy::random(config, seed, 0.3).unwrap()
}

pub(super) fn forms(graph: &Graph) -> [Adjacency; 2] {
    let bits = BitShard::from_graph(graph, 0..graph.n_nodes());
    [Adjacency::Csr(graph.clone().into()), Adjacency::Bits(bits)]
}

/// The graph as lists with a weight for each edge, of both signs.
fn weighted(graph: &Graph, mut weight: impl FnMut(&mut KeyedRng) -> f32) -> Adjacency {
    let mut random = KeyedRng::new(3, "weights", 0);
    let mut edges = Vec::new();
    for u in 0..graph.n_nodes() {
        let above = graph.neighbors(u).iter().filter(|&&v| v > u);
        edges.extend(above.map(|&v| (u, v, weight(&mut random))));
    }
    let graph = Graph::from_weighted_edges(graph.n_nodes(), &edges).unwrap();
    Adjacency::Csr(graph.into())
}

/// -2 to 2, without 0.
fn integer_weight(random: &mut KeyedRng) -> f32 {
    let size = 1.0 + random.below(2) as f32;
    if random.below(2) == 0 { size } else { -size }
}

pub(super) fn select(d: u32) -> Select {
    match d {
        0 => Select::Adaptive,
        d => Select::Fixed(d),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Where no sum is rounded: the host's cover, node for node, in as many steps, on each path.
    #[test]
    fn exact_model_covers_are_the_hosts(
        graph in graph().prop_filter("sums that f32 holds", |g| g.n_nodes() <= 140 && g.max_degree() < 30),
        n_layers in 2usize..=3,
        path in prop::sample::select(vec![EmbeddingPath::General, EmbeddingPath::FreeFirstLayer, EmbeddingPath::Collapsed]),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        starts in 1u32..=4,
        seed in any::<u64>(),
    ) {
        // Two layers have a closed form on the last path.
        let n_layers = if path == EmbeddingPath::Collapsed { 3 } else { n_layers };
        let policy = integer_policy(n_layers, seed);
        for adjacency in forms(&graph) {
            let options = |device: &Device| SolveOptions {
                path: Some(path),
                keep_isolated,
                starts,
                ..on(device, select(d))
            };
            // The host keeps rows of this path from pick to pick; two ranks evaluate the model.
            let host = SolveOptions { n_ranks: 2, ..options(&Device::host()) };
            let want = run(&adjacency, &policy, &host);
            for device in gpus() {
                let got = run(&adjacency, &policy, &options(&device));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}", got.path_name());
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }

    /// Any weights: the cover of the loop on the host with the same device's scores, which an exchange by blocks takes.
    #[test]
    fn model_covers_are_those_of_the_loop_on_the_host(
        graph in graph().prop_filter("a short test", |g| g.n_nodes() <= 140),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        is_sage in any::<bool>(),
        is_mlp in any::<bool>(),
        scale in prop_oneof![Just(AdjacencyScale::One), Just(AdjacencyScale::LargestDegree)],
        seed in any::<u64>(),
    ) {
        let head = if is_mlp { HeadKind::MLP } else { HeadKind::default() };
        let policy = policy_of(is_sage, head, scale, seed);
        for adjacency in forms(&graph) {
            for device in gpus() {
                let options = |communication| SolveOptions {
                    path: is_sage.then_some(EmbeddingPath::General),
                    keep_isolated,
                    communication,
                    ..on(&device, select(d))
                };
                let ways = [None, Some(Communication::Halo)];
                let [got, want] = ways.map(|way| run(&adjacency, &policy, &options(way)));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}", got.path_name());
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Edges with weights, where no sum is rounded: the host's cover, node for node, on one rank and on several.
    #[test]
    fn exact_weighted_covers_are_the_hosts(
        graph in graph().prop_filter("sums that f32 holds", |g| g.n_nodes() <= 140 && g.max_degree() < 30),
        n_layers in 1usize..=3,
        path in prop::sample::select(vec![EmbeddingPath::General, EmbeddingPath::FreeFirstLayer]),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        starts in 1u32..=3,
        seed in any::<u64>(),
    ) {
        let (policy, adjacency) = (integer_policy(n_layers, seed), weighted(&graph, integer_weight));
        let options = |device: &Device, n_ranks| SolveOptions {
            path: Some(path),
            keep_isolated,
            starts,
            n_ranks,
            ..on(device, select(d))
        };
        let want = run(&adjacency, &policy, &options(&Device::host(), 2));
        for device in gpus() {
            for n_ranks in [1, 3] {
                let got = run(&adjacency, &policy, &options(&device, n_ranks));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}, {} ranks", got.path_name(), n_ranks);
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }

    /// Any weights of edges and of the policy: the cover of the loop on the host with the same device's scores.
    #[test]
    fn weighted_covers_are_those_of_the_loop_on_the_host(
        graph in graph().prop_filter("a short test", |g| g.n_nodes() <= 140),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        is_mlp in any::<bool>(),
        scale in prop_oneof![Just(AdjacencyScale::One), Just(AdjacencyScale::LargestDegree)],
        seed in any::<u64>(),
    ) {
        let head = if is_mlp { HeadKind::MLP } else { HeadKind::default() };
        let policy = policy_of(false, head, scale, seed);
        let adjacency = weighted(&graph, |random| 2.0 * random.uniform_f64() as f32 - 1.0);
        for device in gpus() {
            let options = |communication, n_ranks| SolveOptions {
                keep_isolated,
                communication,
                n_ranks,
                ..on(&device, select(d))
            };
            let want = run(&adjacency, &policy, &options(Some(Communication::Halo), 1));
            for n_ranks in [1, 2] {
                let got = run(&adjacency, &policy, &options(None, n_ranks));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}", got.path_name());
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }
}

/// What a device was given between two looks at the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    traffic: Traffic,
    n_launches: u64,
}

fn given(device: &Device) -> Given {
    Given {
        traffic: device.traffic(),
        n_launches: device.n_launches(),
    }
}

/// A step is one launch, however many nodes it picks. Nothing goes to the device, and eleven words come back for each eight steps,
/// whatever the graph.
#[test]
fn a_step_is_one_launch_and_moves_no_rows() {
    let mlp = policy_of(false, HeadKind::MLP, AdjacencyScale::One, 5);
    for (policy, device) in [integer_policy(3, 5), mlp]
        .iter()
        .flat_map(|policy| gpus().into_iter().map(move |device| (policy, device)))
    {
        for (spec, n_picks) in [("er:64:0.05", 1), ("er:128:0.05", 1), ("er:256:0.05", 16)] {
            let graph = generated(spec.to_owned());
            let forms = forms(&graph).into_iter();
            for adjacency in forms.chain([weighted(&graph, integer_weight)]) {
                let looks = Mutex::new(Vec::new());
                let general = |communication| SolveOptions {
                    path: Some(EmbeddingPath::General),
                    communication,
                    ..on(&device, Select::Fixed(n_picks))
                };
                let solution = solve(&adjacency, policy, &general(None), &mut |_, _| {
                    looks.lock().unwrap().push(given(&device));
                });
                let by_host = run(&adjacency, policy, &general(Some(Communication::Halo)));
                let n_steps = solution.unwrap().n_steps;
                assert_eq!(n_steps, by_host.n_steps);
                let looks = looks.into_inner().unwrap();
                assert_eq!(looks.len() as u64, n_steps.div_ceil(8));
                for pair in looks.windows(2) {
                    let (before, after) = (pair[0].traffic, pair[1].traffic);
                    assert_eq!(pair[1].n_launches - pair[0].n_launches, 8);
                    assert_eq!(after.to_device_bytes, before.to_device_bytes);
                    assert_eq!(after.to_host_bytes - before.to_host_bytes, 44);
                }
            }
        }
    }
}

/// Scores that are no numbers end an episode on a device too.
#[test]
fn scores_that_overflow_give_no_cover() {
    let config = PolicyConfig::new(8, 3, AdjacencyScale::LargestDegree);
    let policy = TrainedPolicy::random(config, 5, 1e20).unwrap();
    for device in gpus() {
        for adjacency in forms(&generated("ba:60:3".to_string())) {
            let options = on(&device, Select::Adaptive);
            let error = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap_err();
            assert_eq!(error.class(), shardgraph_error::Class::NoAnswer, "{error}");
            assert!(error.to_string().contains("range of numbers"), "{error}");
        }
    }
}
