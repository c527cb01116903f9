//! Properties: the best candidates as they are kept from pick to pick, against a scan of all candidates at every step.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_collectives::{Timeout, threads};
use shardgraph_graph::Graph;
use shardgraph_layers::ScoreTable;
use shardgraph_shard::Partition;

use crate::problem::{
    Episode, MAXIMUM_CLIQUE, MAXIMUM_INDEPENDENT_SET, Problem, ProblemState, ResidualGraph,
};
use crate::residual::{Counts, ListsResidual, NeighborLists, Ranks, Residual};
use crate::select::{TopD, agree_each};
use crate::{
    AdjacencyScale, PolicyConfig, Select, SolveOptions, TrainedPolicy, check_cover, solve_problem,
};

/// Sparse graphs with hubs, many equal components and many equal degrees: what ties.
pub(super) fn graph() -> impl Strategy<Value = Arc<Graph>> {
    let parts = prop::collection::vec((0u8..5, 1u32..60, any::<u64>()), 1..12);
    parts.prop_map(|parts| {
        let (mut n, mut edges) = (0, Vec::new());
        for (kind, size, seed) in parts {
            let mut rng = shardgraph_random::KeyedRng::new(seed, "part", 0);
            match kind {
                0 => edges.extend((1..size).map(|i| (n, n + i))),
                1 => edges.extend((1..size).map(|i| (n + i - 1, n + i))),
                2 => edges.extend((0..size / 2).map(|i| (n + 2 * i, n + 2 * i + 1))),
                3 => edges.extend((0..size / 3).flat_map(|i| {
                    let a = n + 3 * i;
                    [(a, a + 1), (a + 1, a + 2), (a, a + 2)]
                })),
                _ => edges.extend((0..2 * size).map(|_| {
                    let end = |x: u64| n + x as u32;
                    (end(rng.below(size.into())), end(rng.below(size.into())))
                })),
            }
            n += size;
        }
        edges.retain(|(u, v)| u != v);
        Arc::new(Graph::from_edges(n, &edges).unwrap())
    })
}

fn policy(problem: &Problem, seed: u64, scale: AdjacencyScale) -> TrainedPolicy {
    let config = PolicyConfig::of_problem(problem, 8, 2, scale);
    TrainedPolicy::random(config, seed, 0.5).unwrap()
}

fn scale() -> impl Strategy<Value = AdjacencyScale> {
    prop_oneof![
        Just(AdjacencyScale::LargestDegree),
        Just(AdjacencyScale::One)
    ]
}

/// The steps of an episode as one rank, and the first in which what was offered is not what a scan finds.
fn first_difference(
    residual: &mut ListsResidual<'_>,
    policy: &TrainedPolicy,
    d: usize,
    ranks: &mut Ranks<'_>,
) -> Option<usize> {
    let table = ScoreTable::new(&policy.model, &policy.params).unwrap();
    let (mut step, mut cover) = (0, Vec::new());
    while residual.n_candidates() > 0 {
        let scale = policy.config.adjacency_scale.of(residual.max_degree());
        let (mut kept, mut scanned) = (TopD::new(d), TopD::new(d));
        residual.offer(&table, scale, &mut kept);
        residual.for_each_own(&mut |node, degree, d2| {
            let score = table.score(degree as f32 * scale, d2 as f32 * (scale * scale));
            scanned.offer(score, node);
        });
        let both = agree_each(&[scanned, kept], ranks).unwrap();
        let picks = both[0].clone();
        if both[1] != picks {
            return Some(step);
        }
        residual.remove(&picks, false, ranks, &mut cover).unwrap();
        step += 1;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn kept_scores_give_the_picks_of_a_scan(
        graph in graph(),
        seed in 0u64..1000,
        scale in scale(),
        d in prop_oneof![3 => Just(1usize), 1 => 2usize..9],
        n_ranks in 1u32..=4,
    ) {
        let policy = policy(&crate::problem::MINIMUM_VERTEX_COVER, seed, scale);
        let partition = Partition::by_nonzeros(&graph, n_ranks);
        let found = threads::run(n_ranks, |mut comm| {
            let lists = NeighborLists::cut(&graph, &partition, comm.rank());
            let mut ranks = Ranks::new(&mut comm, Timeout::default());
            let counts = Counts::WithNeighborDegrees;
            let mut residual = ListsResidual::new(lists, &partition, counts, &mut ranks).unwrap();
            first_difference(&mut residual, &policy, d, &mut ranks)
        });
        for found in found {
            prop_assert_eq!(found.unwrap(), None);
        }
    }

    #[test]
    fn sets_and_cliques_are_those_of_a_scan(
        graph in graph(),
        seed in 0u64..1000,
        scale in scale(),
        select in prop_oneof![2 => Just(Select::Fixed(1)), 1 => Just(Select::Fixed(3)), 1 => Just(Select::Adaptive)],
        n_ranks in 1u32..=3,
    ) {
        for (problem, scanned) in [(&MAXIMUM_INDEPENDENT_SET, &SCANNED_SET), (&MAXIMUM_CLIQUE, &SCANNED_CLIQUE)] {
            let policy = policy(problem, seed, scale);
            let solve = |problem, n_ranks| {
                let options = SolveOptions { n_ranks, select, ..SolveOptions::default() };
                solve_problem(problem, &graph, &policy, &options, &mut |_, _| ()).unwrap().nodes
            };
            let want = solve(scanned, 1);
            prop_assert_eq!(&solve(problem, 1), &want);
            prop_assert_eq!(&solve(problem, n_ranks), &want);
        }
    }
}

/// A state that asks for all its nodes to be scored at every step.
#[derive(Clone)]
struct Scanned<S>(S);

impl<S: ProblemState + Clone + 'static> ProblemState for Scanned<S> {
    fn new(graph: Arc<Graph>) -> Self {
        Self(S::new(graph))
    }

    fn residual(&self) -> &ResidualGraph {
        self.0.residual()
    }

    fn pick(&mut self, node: u32) -> f64 {
        self.0.pick(node)
    }
}

static SCANNED_SET: Problem = Problem {
    begin: |graph| {
        Episode::<Scanned<shardgraph_environments::MaximumIndependentSet>>::new(graph).erased()
    },
    ..MAXIMUM_INDEPENDENT_SET
};

static SCANNED_CLIQUE: Problem = Problem {
    begin: |graph| Episode::<Scanned<shardgraph_environments::MaximumClique>>::new(graph).erased(),
    ..MAXIMUM_CLIQUE
};

/// A scan of all candidates a pick would take 10^11 operations on each of these.
#[test]
fn ties_without_end_are_solved_in_time() {
    let n = 300_000;
    let star: Vec<(u32, u32)> = (1..n).map(|i| (0, i)).collect();
    let pairs: Vec<(u32, u32)> = (0..n / 2).map(|i| (2 * i, 2 * i + 1)).collect();
    let options = SolveOptions::default();
    let set = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET).unwrap();
    for (edges, want) in [(&star, n - 1), (&pairs, n / 2)] {
        let graph = Arc::new(Graph::from_edges(n, edges).unwrap());
        let found = solve_problem(
            &MAXIMUM_INDEPENDENT_SET,
            &graph,
            &set,
            &options,
            &mut |_, _| (),
        );
        assert_eq!(found.unwrap().nodes.len(), want as usize);
    }
    let cover = TrainedPolicy::shipped().unwrap();
    let pairs = shardgraph_shard::Adjacency::from_graph(Graph::from_edges(n, &pairs).unwrap());
    let found = crate::solve(&pairs, &cover, &options, &mut |_, _| ()).unwrap();
    assert_eq!(found.nodes.len(), n as usize / 2);
    check_cover(&pairs, &found.nodes).unwrap();
}
