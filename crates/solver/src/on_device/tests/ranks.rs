//! The model's episodes on several ranks: their covers, their bytes over the bus, and what ends them.

use proptest::prelude::*;
use shardgraph_collectives::threads;
use shardgraph_device::{Device, Traffic};
use shardgraph_layers::autodiff::leave_group;
use shardgraph_shard::Adjacency;

use super::model::{forms, integer_policy, policy_of, select};
use super::{generated, gpus, graph, on, run};
use crate::problem::MINIMUM_VERTEX_COVER;
use crate::residual::Ranks;
use crate::solver::{Inputs, Solver};
use crate::{
    AdjacencyScale, EmbeddingPath, HeadKind, PolicyConfig, Select, SolveOptions, TrainedPolicy,
    solve,
};

/// The devices that launch kernels, and one whose ranks have joined a group, where there is an emulated library of collectives.
fn devices() -> Vec<Device> {
    let mut devices = gpus();
    devices.extend(shardgraph_cuemu::device_of_a_group(
        "solves on several ranks",
    ));
    devices
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Where no sum is rounded: the host's cover, node for node, in as many steps, on each path and number of ranks.
    #[test]
    fn exact_covers_of_ranks_are_the_hosts(
        graph in graph().prop_filter("sums that f32 holds", |g| g.n_nodes() <= 140 && g.max_degree() < 30),
        n_layers in 2usize..=3,
        n_ranks in 1u32..=4,
        path in prop::sample::select(vec![EmbeddingPath::General, EmbeddingPath::FreeFirstLayer, EmbeddingPath::Collapsed]),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        starts in 1u32..=3,
        seed in any::<u64>(),
    ) {
        // Two layers have a closed form on the last path.
        let n_layers = if path == EmbeddingPath::Collapsed { 3 } else { n_layers };
        let policy = integer_policy(n_layers, seed);
        for adjacency in forms(&graph) {
            let options = |device: &Device, n_ranks| SolveOptions {
                path: Some(path),
                keep_isolated,
                starts,
                n_ranks,
                ..on(device, select(d))
            };
            let want = run(&adjacency, &policy, &options(&Device::host(), 2));
            for device in devices() {
                let got = run(&adjacency, &policy, &options(&device, n_ranks));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}, {} ranks", got.path_name(), n_ranks);
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }

    /// Any weights: the cover of one rank, whose step is recorded.
    #[test]
    fn covers_of_ranks_are_those_of_one(
        graph in graph().prop_filter("a short test", |g| g.n_nodes() <= 140),
        d in prop_oneof![Just(0u32), Just(1), 2u32..20],
        keep_isolated in any::<bool>(),
        is_sage in any::<bool>(),
        is_mlp in any::<bool>(),
        starts in 1u32..=3,
        n_ranks in 2u32..=3,
        scale in prop_oneof![Just(AdjacencyScale::One), Just(AdjacencyScale::LargestDegree)],
        seed in any::<u64>(),
    ) {
        let head = if is_mlp { HeadKind::MLP } else { HeadKind::default() };
        let policy = policy_of(is_sage, head, scale, seed);
        for adjacency in forms(&graph) {
            for device in gpus() {
                let options = |n_ranks| SolveOptions {
                    path: is_sage.then_some(EmbeddingPath::General),
                    keep_isolated,
                    starts,
                    n_ranks,
                    ..on(&device, select(d))
                };
                let want = run(&adjacency, &policy, &options(1));
                let got = run(&adjacency, &policy, &options(n_ranks));
                prop_assert_eq!(&got.nodes, &want.nodes, "{}, {} ranks", got.path_name(), n_ranks);
                prop_assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }
}

/// A first step that passes over candidates may have more rounds than the steps behind it, or fewer: 16 picks are two rounds, and
/// three with a node passed over, and one where nearly all are.
#[test]
fn starts_keep_their_steps_apart() {
    let ends: Vec<(u32, u32)> = (1..31).map(|v| (v - 1, v)).collect();
    let [lists, bits] = forms(&shardgraph_graph::Graph::from_edges(31, &ends).unwrap());
    for (adjacency, n_ranks, d, starts) in [
        (&lists, 1, 16, 2),
        (&bits, 1, 15, 3),
        (&lists, 2, 16, 2),
        (&bits, 2, 24, 31),
    ] {
        for seed in [2, 11, 24] {
            let policy = integer_policy(3, seed);
            let options = |device: &Device, n_ranks| SolveOptions {
                path: Some(EmbeddingPath::General),
                starts,
                n_ranks,
                ..on(device, select(d))
            };
            let want = run(adjacency, &policy, &options(&Device::host(), 1));
            for device in devices() {
                let got = run(adjacency, &policy, &options(&device, n_ranks));
                assert_eq!(got.nodes, want.nodes, "{n_ranks} ranks, {d} nodes a step");
                assert_eq!(got.n_steps, want.n_steps);
            }
        }
    }
}

/// What each rank's device has moved at each look of an episode.
fn looks_of_ranks(adjacency: &Adjacency, device: &Device, n_ranks: u32) -> Vec<Vec<Traffic>> {
    let policy = integer_policy(3, 5);
    let options = SolveOptions {
        path: Some(EmbeddingPath::General),
        n_ranks,
        ..on(device, Select::Fixed(1))
    };
    let inputs = Inputs {
        problem: &MINIMUM_VERTEX_COVER,
        graphs: std::slice::from_ref(adjacency),
        policy: &policy,
        options: &options,
        is_incremental: true,
    };
    let solver = Solver::new(&inputs).unwrap();
    let looks = threads::run(n_ranks, |mut comm| {
        let mut shares = solver.shares(&mut comm).unwrap();
        let own = shares[0].device.clone();
        let (mut ranks, mut looks) = (Ranks::new(&mut comm, options.deadline), Vec::new());
        let progress = &mut |_, _| looks.push(own.traffic());
        let played = solver.play(0, &mut shares, &mut ranks, progress).unwrap();
        assert_eq!(played[0].n_steps.div_ceil(8), looks.len() as u64);
        leave_group(&own, options.deadline).unwrap();
        looks
    });
    looks.into_iter().map(Result::unwrap).collect()
}

/// Nothing goes to a rank's device, and eleven words come back for each eight steps, whatever the graph.
#[test]
fn ranks_move_no_rows_over_the_bus() {
    for device in devices() {
        for (spec, n_ranks) in [("er:64:0.05", 2u32), ("er:100:0.05", 3)] {
            for adjacency in forms(&generated(spec.to_owned())) {
                for looks in looks_of_ranks(&adjacency, &device, n_ranks) {
                    assert!(looks.len() > 2, "{spec}: {looks:?}");
                    for pair in looks.windows(2) {
                        let (before, after) = (pair[0], pair[1]);
                        assert_eq!(after.to_device_bytes, before.to_device_bytes, "{spec}");
                        assert_eq!(after.to_host_bytes - before.to_host_bytes, 44, "{spec}");
                    }
                }
            }
        }
    }
}

/// Scores that are no numbers end the episode of every rank.
#[test]
fn scores_that_overflow_give_no_cover_on_ranks() {
    let config = PolicyConfig::new(8, 3, AdjacencyScale::LargestDegree);
    let policy = TrainedPolicy::random(config, 5, 1e20).unwrap();
    for device in gpus() {
        for adjacency in forms(&generated("ba:60:3".to_string())) {
            let options = SolveOptions {
                n_ranks: 3,
                ..on(&device, Select::Adaptive)
            };
            let error = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap_err();
            assert_eq!(error.class(), shardgraph_error::Class::NoAnswer, "{error}");
            assert!(error.to_string().contains("range of numbers"), "{error}");
        }
    }
}
