//! Minimum dominating set: counts at every step, ends and refused steps.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{best_return, check_residual, choose, graphs};
use crate::{Environment, Episode, Error, MinimumDominatingSet, ProblemState, naive, verify};

/// The kept counts are those that the dominated nodes imply.
pub(crate) fn check_domination(state: &MinimumDominatingSet) {
    let residual = state.residual();
    check_residual(residual);
    let graph = residual.graph();
    let is_open = |v: u32| !state.is_dominated()[v as usize];
    for v in 0..graph.n_nodes() {
        let n_near = graph.neighbors(v).iter().filter(|&&u| is_open(u)).count();
        let n_new = n_near + usize::from(is_open(v));
        assert_eq!(state.n_new()[v as usize] as usize, n_new);
        assert_eq!(residual.removed()[v as usize], n_new == 0);
    }
}

/// The counts are right, and the dominated nodes are those that the picks dominate.
fn check_episode(episode: &Episode<MinimumDominatingSet>) {
    check_domination(episode.state());
    let (graph, in_set) = (episode.state().residual().graph(), episode.in_answer());
    for v in 0..graph.n_nodes() {
        let by_neighbor = graph.neighbors(v).iter().any(|&u| in_set[u as usize]);
        let is_dominated = in_set[v as usize] || by_neighbor;
        assert_eq!(episode.state().is_dominated()[v as usize], is_dominated);
    }
}

proptest! {
    #[test]
    fn any_play_ends_in_a_dominating_set(graph in graphs(&[0, 1, 2, 31, 32, 33, 65]), seed: u64) {
        let mut seed = seed;
        let mut episode = Episode::<MinimumDominatingSet>::new(graph.clone().into());
        let mut total = 0.0;
        while !episode.is_done() {
            check_episode(&episode);
            prop_assert!(verify::undominated_node(&graph, episode.in_answer()).is_some());
            let nodes = 0..graph.n_nodes();
            let candidates: Vec<_> = nodes.filter(|&v| episode.state().n_new()[v as usize] > 0).collect();
            prop_assert_eq!(episode.candidates(), candidates);
            let action = choose(&episode, &mut seed);
            let step = episode.step(action).unwrap();
            prop_assert_eq!((step.terminated, step.truncated), (episode.is_done(), false));
            total += step.reward;
        }
        check_episode(&episode);
        prop_assert_eq!(verify::undominated_node(&graph, episode.in_answer()), None);
        prop_assert_eq!(total as i32, -(episode.picks().len() as i32));
        episode.reset();
        check_episode(&episode);
        prop_assert!(episode.picks().is_empty() && !episode.in_answer().contains(&true));
    }

    #[test]
    fn the_best_play_finds_the_smallest_set(graph in graphs(&[0, 1, 2, 5, 6])) {
        let best = naive::smallest_dominating_set(&graph);
        prop_assert_eq!(-best_return(&Episode::<MinimumDominatingSet>::new(graph.into())) + 0.0, best + 0.0);
    }
}

#[test]
fn a_refused_step_changes_nothing() {
    let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]).unwrap();
    let mut episode = Episode::<MinimumDominatingSet>::new(path.into()).with_step_limit(2);
    assert_eq!(episode.step(1).map(|step| step.truncated), Ok(false));
    let cases = [
        (1, "is in the set already"),
        (0, "dominates nothing new"),
        (5, "is no node of the graph"),
    ];
    for (action, reason) in cases {
        let error = episode.step(action).unwrap_err();
        assert_eq!(error, Error::NotACandidate { action, reason });
        assert_eq!(episode.picks(), [1]);
        check_episode(&episode);
    }
    let end = episode.step(3).unwrap();
    assert_eq!((end.terminated, end.truncated), (true, false));
    assert_eq!(episode.step(4).unwrap_err(), Error::Ended { n_steps: 2 });
}
