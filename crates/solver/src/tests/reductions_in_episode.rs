//! Rules inside the episode: covers for any number of ranks and form of the graph, and better ones.

use proptest::prelude::*;
use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{Limits, Peeling, optimum};
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::{Adjacency, BitShard};

use crate::problem::MINIMUM_VERTEX_COVER;
use crate::{
    AdjacencyScale, PolicyConfig, Select, SolveOptions, TrainedPolicy, check_cover, solve,
    solve_problem,
};

fn graph_of(spec: &str, seed: u64) -> Graph {
    let spec: GeneratorSpec = spec.parse().unwrap();
    spec.graph(seed).unwrap()
}

fn policy(seed: u64, n_layers: usize) -> TrainedPolicy {
    let config = PolicyConfig::new(6, n_layers, AdjacencyScale::LargestDegree);
    TrainedPolicy::random(config, seed, 0.4).unwrap()
}

fn cover(adjacency: &Adjacency, policy: &TrainedPolicy, options: &SolveOptions) -> Vec<u32> {
    let found = solve(adjacency, policy, options, &mut |_, _| ()).unwrap();
    check_cover(adjacency, &found.nodes).unwrap();
    found.nodes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn ranks_and_forms_give_the_same_cover(
        spec in prop::sample::select(vec![
            "er:0:0.5", "er:1:0.5", "er:40:0.05", "er:66:0.1", "er:33:0.5", "ba:130:2", "ws:64:4:0.2", "er:12:1",
        ]),
        seed in 0u64..1000,
        n_layers in 1usize..=3,
        select in prop_oneof![Just(Select::Adaptive), (1u32..5).prop_map(Select::Fixed)],
    ) {
        let graph = graph_of(spec, seed);
        let lists = Adjacency::Csr(graph.clone().into());
        let bits = Adjacency::Bits(BitShard::from_graph(&graph, 0..graph.n_nodes()));
        let policy = policy(seed, n_layers);
        let options = |n_ranks| SolveOptions {
            n_ranks,
            select,
            reduce_inside: true,
            ..SolveOptions::default()
        };
        let want = cover(&lists, &policy, &options(1));
        for n_ranks in 2..=4 {
            prop_assert_eq!(&cover(&lists, &policy, &options(n_ranks)), &want);
        }
        if n_layers < 3 {
            prop_assert_eq!(&cover(&bits, &policy, &options(1)), &want);
            prop_assert_eq!(&cover(&bits, &policy, &options(3)), &want);
        }
    }
}

/// A tree needs no policy, and a sparse graph next to none.
#[test]
fn sparse_graphs_are_solved_whatever_the_policy_says() {
    let options = SolveOptions {
        reduce_inside: true,
        ..SolveOptions::default()
    };
    for seed in 0..10 {
        for spec in ["ba:200:1", "er:90:0.02"] {
            let graph = graph_of(spec, seed);
            let best = optimum(&graph, &Limits::default(), &Budget::unlimited()).unwrap();
            let found = cover(&Adjacency::Csr(graph.into()), &policy(seed, 2), &options);
            assert_eq!(found.len(), best.len(), "{spec} {seed}");
        }
    }
}

/// Picks open the graph for the rules: more nodes are taken than those before the first pick and one for each.
#[test]
fn the_rules_hear_of_picks() {
    let options = SolveOptions {
        reduce_inside: true,
        select: Select::Fixed(1),
        ..SolveOptions::default()
    };
    for seed in 0..5 {
        let graph = graph_of("er:60:0.15", seed);
        let n_before = Peeling::new(&graph).settle(&Budget::unlimited()).len() as u64;
        let lists = Adjacency::Csr(graph.into());
        let found = solve(&lists, &policy(seed, 2), &options, &mut |_, _| ()).unwrap();
        assert!(found.n_steps > 0, "{seed}");
        assert!(
            found.nodes.len() as u64 > n_before + found.n_steps,
            "{seed}"
        );
    }
}

#[test]
fn the_shipped_policy_covers_with_fewer_nodes() {
    let policy = TrainedPolicy::shipped().unwrap();
    let sum = |reduce_inside| {
        let size = |seed| {
            let graph = Adjacency::Csr(graph_of("ba:250:4", seed).into());
            let options = SolveOptions {
                reduce_inside,
                ..SolveOptions::default()
            };
            cover(&graph, &policy, &options).len()
        };
        (1000..1005).map(size).sum::<usize>()
    };
    let (alone, inside) = (sum(false), sum(true));
    assert!(inside < alone, "{alone} nodes became {inside}");
}

#[test]
fn what_the_rules_do_not_go_with_is_refused() {
    let graph = graph_of("er:20:0.2", 1);
    let inside = SolveOptions {
        reduce_inside: true,
        ..SolveOptions::default()
    };
    let paper = SolveOptions {
        keep_isolated: true,
        ..inside.clone()
    };
    let adjacency = Adjacency::Csr(graph.clone().into());
    let error = solve(&adjacency, &policy(1, 2), &paper, &mut |_, _| ()).unwrap_err();
    assert!(
        error.to_string().contains("are not kept with reductions"),
        "{error}"
    );
    let problem = &MINIMUM_VERTEX_COVER;
    let graph = graph.into();
    let error = solve_problem(problem, &graph, &policy(1, 2), &inside, &mut |_, _| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("are for vertex covers"), "{error}");
}
