//! Maximum clique: the independent set of the complement, step by step, without the complement.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{best_return, check_residual, choose, graphs};
use crate::{
    Environment, Episode, Error, MaximumClique, MaximumIndependentSet, ProblemState, naive, verify,
};

proptest! {
    #[test]
    fn any_play_is_one_of_independent_sets_on_the_complement(graph in graphs(&[0, 1, 2, 31, 32, 33, 65]), seed: u64) {
        let mut seed = seed;
        let mut episode = Episode::<MaximumClique>::new(graph.clone().into());
        let mut mirror = Episode::<MaximumIndependentSet>::new(graph.complement().unwrap().into());
        let mut total = 0.0;
        loop {
            check_residual(episode.state().residual());
            prop_assert_eq!(episode.candidates(), mirror.candidates());
            prop_assert_eq!(verify::unjoined_pair(&graph, episode.in_answer()), None);
            prop_assert_eq!(episode.is_done(), mirror.is_done());
            if episode.is_done() {
                break;
            }
            let action = choose(&episode, &mut seed);
            let step = episode.step(action).unwrap();
            prop_assert_eq!(Ok(step), mirror.step(action));
            total += step.reward;
        }
        prop_assert_eq!(episode.in_answer(), mirror.in_answer());
        prop_assert_eq!((total as usize, episode.picks()), (episode.picks().len(), mirror.picks()));
        episode.reset();
        check_residual(episode.state().residual());
        prop_assert_eq!(episode.candidates(), (0..graph.n_nodes()).collect::<Vec<_>>());
        prop_assert!(!episode.in_answer().contains(&true) && episode.picks().is_empty());
    }

    #[test]
    fn the_best_play_finds_the_largest_clique(graph in graphs(&[0, 1, 2, 5, 7])) {
        let best = naive::largest_clique(&graph);
        prop_assert_eq!(best_return(&Episode::<MaximumClique>::new(graph.clone().into())), best);
        let independent = naive::largest_independent_set(&graph);
        prop_assert_eq!(best_return(&Episode::<MaximumIndependentSet>::new(graph.into())), independent);
    }
}

#[test]
fn a_refused_step_changes_nothing() {
    let kite = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]).unwrap();
    let mut episode = Episode::<MaximumClique>::new(kite.into()).with_step_limit(2);
    assert_eq!(episode.step(0).map(|step| step.truncated), Ok(false));
    let cases = [
        (0, "is in the clique already"),
        (3, "is not joined to the whole clique"),
        (5, "is no node of the graph"),
    ];
    for (action, reason) in cases {
        let error = episode.step(action).unwrap_err();
        assert_eq!(error, Error::NotACandidate { action, reason });
        assert_eq!(episode.picks(), [0]);
    }
    let cut = episode.step(2).unwrap();
    assert_eq!((cut.terminated, cut.truncated), (false, true));
    assert!(episode.is_done() && episode.candidates().is_empty());
}
