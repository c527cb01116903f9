//! Maximum cut: gains and weights at every step, weights of either sign, what can be reached.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{best_return, check_residual, choose, graphs, marks_of};
use crate::{Environment, Episode, Error, MaximumCut, ProblemState, naive, verify};

/// Random graphs whose weights are multiples of 1/4 from -2 to 3: sums of them are exact.
pub(crate) fn weighted_graphs(sizes: &[u32]) -> impl Strategy<Value = Graph> + use<> {
    (graphs(sizes), any::<u64>()).prop_map(|(graph, seed)| {
        let weight = |i: usize| (seed.rotate_left(7 * i as u32) % 21) as f32 / 4.0 - 2.0;
        let edges = graph.edges().enumerate();
        let edges: Vec<_> = edges.map(|(i, (u, v))| (u, v, weight(i))).collect();
        Graph::from_weighted_edges(graph.n_nodes(), &edges).unwrap()
    })
}

/// The kept gains and weight are those of the sides.
pub(crate) fn check_cut(cut: &MaximumCut) {
    let (graph, moved) = (cut.residual().graph(), cut.is_moved());
    let weight = naive::cut(graph, moved);
    assert_eq!(cut.weight(), weight);
    for v in 0..moved.len() {
        let mut flipped = moved.to_vec();
        flipped[v] ^= true;
        assert_eq!(cut.gains()[v], naive::cut(graph, &flipped) - weight, "{v}");
    }
}

fn play(graph: &Graph, mut seed: u64) {
    let mut episode = Episode::<MaximumCut>::new(graph.clone().into());
    let mut total = 0.0;
    while !episode.is_done() {
        let outside = |v: &u32| !episode.state().is_moved()[*v as usize];
        let gains = |v: &u32| episode.state().gains()[*v as usize] > 0.0;
        let nodes = 0..graph.n_nodes();
        let candidates: Vec<_> = nodes.filter(outside).filter(gains).collect();
        assert_eq!(episode.candidates(), candidates);
        let action = choose(&episode, &mut seed);
        let step = episode.step(action).unwrap();
        check_cut(episode.state());
        assert_eq!(
            (step.terminated, step.truncated),
            (episode.is_done(), false)
        );
        total += f64::from(step.reward);
    }
    let moved = episode.state().is_moved();
    assert_eq!(moved, marks_of(graph, episode.picks()));
    assert_eq!(total, verify::cut_weight(graph, moved));
    episode.reset();
    check_cut(episode.state());
    assert!(episode.picks().is_empty() && episode.state().weight() == 0.0);
    check_residual(episode.state().residual());
}

proptest! {
    #[test]
    fn any_play_gains_at_every_step(
        graph in graphs(&[0, 1, 2, 31, 33]),
        weighted in weighted_graphs(&[0, 1, 2, 9, 33]),
        seed: u64,
    ) {
        play(&graph, seed);
        play(&weighted, seed);
    }

    /// With weights that are not negative the largest cut is a play's; with others no play has
    /// more.
    #[test]
    fn the_best_play_finds_the_largest_cut(graph in graphs(&[0, 1, 2, 5, 7]), weighted in weighted_graphs(&[0, 1, 2, 5, 6])) {
        prop_assert_eq!(best_return(&Episode::<MaximumCut>::new(graph.clone().into())), naive::largest_cut(&graph));
        let edges: Vec<_> = weighted.weighted_edges().map(|(u, v, w)| (u, v, w.abs())).collect();
        let positive = Graph::from_weighted_edges(weighted.n_nodes(), &edges).unwrap();
        prop_assert_eq!(best_return(&Episode::<MaximumCut>::new(positive.clone().into())), naive::largest_cut(&positive));
        prop_assert!(best_return(&Episode::<MaximumCut>::new(weighted.clone().into())) <= naive::largest_cut(&weighted));
    }
}

#[test]
fn a_refused_step_changes_nothing() {
    let square = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]).unwrap();
    let mut episode = Episode::<MaximumCut>::new(square.into());
    episode.step(0).unwrap();
    let cases = [
        (0, "has moved already"),
        (1, "adds nothing to the cut"),
        (4, "is no node of the graph"),
    ];
    for (action, reason) in cases {
        let error = episode.step(action).unwrap_err();
        assert_eq!(error, Error::NotACandidate { action, reason });
        assert_eq!(episode.picks(), [0]);
        check_cut(episode.state());
    }
}

/// Sums of weights beyond f32 stay numbers, and rewards stay finite.
#[test]
fn the_largest_weights_are_no_infinity() {
    let edges: Vec<_> = (1..5).map(|v| (0, v, f32::MAX)).collect();
    let star = Graph::from_weighted_edges(5, &edges).unwrap();
    let mut episode = Episode::<MaximumCut>::new(star.into());
    let step = episode.step(0).unwrap();
    assert_eq!((step.reward, step.terminated), (f32::MAX, true));
    assert_eq!(episode.state().weight(), 4.0 * f64::from(f32::MAX));
    let space = episode.observation_space();
    space.contains(&episode.observation()).unwrap();
}

#[test]
fn edges_that_only_cost_are_not_cut() {
    let negative = Graph::from_weighted_edges(3, &[(0, 1, -1.0), (1, 2, -2.0)]).unwrap();
    let episode = Episode::<MaximumCut>::new(negative.into());
    assert!(episode.is_done() && episode.candidates().is_empty());
}
