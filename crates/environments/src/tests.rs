//! The crate's tests, one file per part, and the random graphs that they share.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

mod baselines;
mod cart_pole;
mod cart_poles_bytes;
mod clique;
mod conformance;
mod cut;
mod dominating_set;
mod functional;
mod graph_environment;
mod independent_set;
mod known_answers;
mod placement_environment;
mod space;
mod vector;
mod vector_environment;
mod verify;
mod vertex_cover;

use proptest::prelude::*;
use shardgraph_graph::Graph;

use crate::space::GraphValue;
use crate::{Autoreset, Environment, ResidualGraph, naive};

pub(crate) const MODES: [Autoreset; 3] = [
    Autoreset::NextStep,
    Autoreset::SameStep,
    Autoreset::Disabled,
];

/// Random graphs of the given node counts, from no edges to dense.
pub(crate) fn graphs(sizes: &[u32]) -> impl Strategy<Value = Graph> + use<> {
    (prop::sample::select(sizes.to_vec()), 0..4u32).prop_flat_map(|(n, density)| {
        let n_most = [0, n / 2, 2 * n, n * n / 4][density as usize] as usize;
        let pair = (0..n.max(1), 0..n.max(1));
        prop::collection::vec(pair, 0..=n_most).prop_map(move |pairs| {
            let edges: Vec<_> = pairs.into_iter().filter(|(u, v)| u != v).collect();
            Graph::from_edges(n, &edges).unwrap()
        })
    })
}

/// For each node whether it is in a list.
pub(crate) fn marks_of(graph: &Graph, nodes: &[u32]) -> Vec<bool> {
    (0..graph.n_nodes()).map(|v| nodes.contains(&v)).collect()
}

/// The best return of all plays from here, by trying each.
pub(crate) fn best_return<E: Environment + Clone>(environment: &E) -> f64 {
    let after = |action| {
        let mut next = environment.clone();
        let step = next.step(action).unwrap();
        f64::from(step.reward) + best_return(&next)
    };
    match environment.is_done() {
        true => 0.0,
        false => {
            let returns = environment.candidates().into_iter().map(after);
            returns.fold(f64::NEG_INFINITY, f64::max)
        }
    }
}

/// A candidate chosen by `seed`, and the seed of the next choice.
pub(crate) fn choose(environment: &impl Environment, seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let candidates = environment.candidates();
    candidates[(*seed >> 33) as usize % candidates.len()]
}

/// The kept counts of a residual graph are those that its mask implies.
pub(crate) fn check_residual(residual: &ResidualGraph) {
    let (graph, removed) = (residual.graph(), residual.removed());
    let degrees: Vec<_> = (0..graph.n_nodes())
        .map(|v| naive::degree(graph, removed, v))
        .collect();
    assert_eq!(residual.degrees(), degrees);
    assert_eq!(residual.n_edges(), naive::n_edges(graph, removed));
    let n_present = removed.iter().filter(|&&gone| !gone).count();
    assert_eq!(residual.n_present() as usize, n_present);
    check_observation(&residual.to_value(), residual);
}

/// The edges of an observation are the present ones, each once: they give every node its degree.
fn check_observation(observation: &GraphValue, rest: &ResidualGraph) {
    let marks: Vec<_> = rest.removed().iter().map(|&mark| f32::from(mark)).collect();
    assert_eq!(observation.node_features, marks);
    assert_eq!(observation.n_nodes, rest.graph().n_nodes());
    let mut degrees = vec![0; rest.degrees().len()];
    for &[u, v] in &observation.edges {
        assert!(rest.graph().neighbors(u).contains(&v));
        degrees[u as usize] += 1;
        degrees[v as usize] += 1;
    }
    assert_eq!(degrees, rest.degrees());
    assert!(observation.edges.is_sorted() && observation.edges.iter().all(|[u, v]| u < v));
}
