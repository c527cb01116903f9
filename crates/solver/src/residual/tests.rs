//! Properties: incremental degrees against recomputed ones, in both forms, on any number of ranks.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_collectives::{Timeout, threads};
use shardgraph_graph::Graph;
use shardgraph_shard::{BitShard, Partition};

use crate::naive::state_after;

use super::{BitsResidual, Counts, ListsResidual, NeighborLists, Ranks, Residual};

mod ranking;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Lists,
    Bits,
}

/// What is known of a residual graph after each batch of removals: own candidates of all ranks, and the globals.
type Seen = Vec<(Vec<(u32, u32, u64)>, u32, u32)>;

fn graph() -> impl Strategy<Value = Arc<Graph>> {
    let sizes = prop_oneof![1u32..9, Just(33), Just(64), Just(65), Just(300)];
    (sizes, 1u32..8).prop_flat_map(|(n, density)| {
        let edges = prop::collection::vec((0..n, 0..n), 0..(density * n) as usize);
        edges.prop_map(move |edges| Arc::new(Graph::from_edges(n, &edges).unwrap()))
    })
}

/// Removes groups of nodes, as one rank, and reports what it sees after each group.
fn watch(
    residual: &mut dyn Residual,
    groups: &[Vec<u32>],
    ranks: &mut Ranks<'_>,
) -> (Seen, Vec<u32>) {
    let (mut seen, mut cover) = (Vec::new(), Vec::new());
    for picks in groups {
        residual.remove(picks, false, ranks, &mut cover).unwrap();
        let mut own = Vec::new();
        residual.for_each_own(&mut |node, degree, d2| own.push((node, degree, d2)));
        seen.push((own, residual.max_degree(), residual.n_candidates()));
    }
    (seen, cover)
}

fn watch_all(graph: &Graph, form: Form, groups: &[Vec<u32>], n_ranks: u32) -> (Seen, Vec<u32>) {
    watch_counts(graph, form, Counts::WithNeighborDegrees, groups, n_ranks)
}

fn watch_counts(
    graph: &Graph,
    form: Form,
    counts: Counts,
    groups: &[Vec<u32>],
    n_ranks: u32,
) -> (Seen, Vec<u32>) {
    let partition = match form {
        Form::Lists => Partition::by_nonzeros(graph, n_ranks),
        Form::Bits => Partition::by_rows(graph.n_nodes(), n_ranks),
    };
    let whole = BitShard::from_graph(graph, 0..graph.n_nodes());
    let shards = whole.split(&partition);
    let parts = threads::run(n_ranks, |mut comm| {
        let rank = comm.rank();
        let mut ranks = Ranks::new(&mut comm, Timeout::default());
        match form {
            Form::Lists => {
                let lists = NeighborLists::cut(graph, &partition, rank);
                let mut residual =
                    ListsResidual::new(lists, &partition, counts, &mut ranks).unwrap();
                watch(&mut residual, groups, &mut ranks)
            }
            Form::Bits => {
                let shard = &shards[rank as usize];
                let mut residual =
                    BitsResidual::new(shard, &partition, counts, &mut ranks).unwrap();
                watch(&mut residual, groups, &mut ranks)
            }
        }
    });
    together(parts.into_iter().map(Result::unwrap))
}

/// What all ranks saw: each rank's own nodes one after the other, and what all must agree on.
fn together(parts: impl Iterator<Item = (Seen, Vec<u32>)>) -> (Seen, Vec<u32>) {
    let mut all: Option<(Seen, Vec<u32>)> = None;
    for (seen, cover) in parts {
        all = Some(match all {
            None => (seen, cover),
            Some((mut sum, first_cover)) => {
                assert_eq!(first_cover, cover, "ranks removed the same nodes");
                for (sum, seen) in sum.iter_mut().zip(seen) {
                    sum.0.extend(seen.0);
                    assert_eq!(
                        (sum.1, sum.2),
                        (seen.1, seen.2),
                        "globals agree on all ranks"
                    );
                }
                (sum, first_cover)
            }
        });
    }
    all.unwrap()
}

/// Groups of at most `d` nodes, in the given order, of which each has an edge when its group's turn comes: what a step
/// may pick. Beside them what is left after each group, counted from scratch.
fn naive(graph: &Graph, order: &[u32], d: usize) -> (Vec<Vec<u32>>, (Seen, Vec<u32>)) {
    let (mut groups, mut seen, mut cover) = (Vec::new(), Vec::new(), Vec::new());
    for picks in order.chunks(d) {
        let before = state_after(graph, &cover);
        let is_candidate = |&&pick: &&u32| before.degrees[pick as usize] > 0;
        let picks: Vec<u32> = picks.iter().filter(is_candidate).copied().collect();
        if picks.is_empty() {
            continue;
        }
        for &pick in &picks {
            if state_after(graph, &cover).degrees[pick as usize] > 0 {
                cover.push(pick);
            }
        }
        let state = state_after(graph, &cover);
        let candidates: Vec<(u32, u32, u64)> = (0..graph.n_nodes())
            .map(|v| (v, state.degrees[v as usize], state.d2[v as usize]))
            .filter(|candidate| candidate.1 > 0)
            .collect();
        let n_candidates = candidates.len() as u32;
        seen.push((candidates, state.max_degree, n_candidates));
        groups.push(picks);
    }
    (groups, (seen, cover))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn increments_match_a_fresh_count(
        graph in graph(),
        shuffle in any::<u64>(),
        d in 1usize..9,
        n_ranks in 1u32..=6,
    ) {
        let mut order: Vec<u32> = (0..graph.n_nodes()).collect();
        shardgraph_random::KeyedRng::new(shuffle, "order", 0).shuffle(&mut order);
        order.truncate(80);
        let (groups, want) = naive(&graph, &order, d);
        for form in [Form::Lists, Form::Bits] {
            let got = watch_all(&graph, form, &groups, n_ranks);
            prop_assert_eq!(&got, &want, "{:?}", form);
        }
        let mut degrees_alone = want;
        for (candidates, _, _) in &mut degrees_alone.0 {
            candidates.iter_mut().for_each(|(_, _, d2)| *d2 = 0);
        }
        for form in [Form::Lists, Form::Bits] {
            let got = watch_counts(&graph, form, Counts::Degrees, &groups, n_ranks);
            prop_assert_eq!(&got, &degrees_alone, "{:?}", form);
        }
    }

    /// Dense enough, and long enough, for the bit matrix to be compacted several times.
    #[test]
    fn compaction_changes_nothing(seed in any::<u64>(), n_ranks in 1u32..=3) {
        let spec: shardgraph_graph::generate::GeneratorSpec = "er:420:0.05".parse().unwrap();
        let graph = spec.graph(seed).unwrap();
        let order: Vec<u32> = (0..420).map(|i| i * 11 % 420).collect();
        let (groups, want) = naive(&graph, &order, 5);
        prop_assert_eq!(&watch_all(&graph, Form::Lists, &groups, n_ranks), &want);
        prop_assert_eq!(&watch_all(&graph, Form::Bits, &groups, n_ranks), &want);
    }
}
