//! Maximum independent set: the other problem on the same machinery, and its tie to vertex cover.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{check_residual, choose, graphs};
use crate::{Environment, Episode, Error, MaximumIndependentSet, ProblemState, verify};

proptest! {
    #[test]
    fn any_play_ends_in_a_maximal_set(graph in graphs(&[0, 1, 2, 31, 32, 33, 63, 64, 65]), seed: u64) {
        let mut seed = seed;
        let mut episode = Episode::<MaximumIndependentSet>::new(graph.clone().into());
        let mut total = 0.0;
        while !episode.is_done() {
            let action = choose(&episode, &mut seed);
            let step = episode.step(action).unwrap();
            check_residual(episode.state().residual());
            prop_assert_eq!(verify::joined_pair(&graph, episode.in_answer()), None);
            prop_assert_eq!((step.terminated, step.truncated), (episode.is_done(), false));
            total += step.reward;
        }
        let in_set = episode.in_answer();
        let size = in_set.iter().filter(|&&taken| taken).count();
        prop_assert_eq!((total as usize, episode.picks().len()), (size, size));
        let blocked = |v: u32| in_set[v as usize] || graph.neighbors(v).iter().any(|&u| in_set[u as usize]);
        prop_assert!((0..graph.n_nodes()).all(blocked));
        let in_cover: Vec<bool> = in_set.iter().map(|taken| !taken).collect();
        prop_assert_eq!(verify::uncovered_edge(&graph, &in_cover), None);
        episode.reset();
        check_residual(episode.state().residual());
        prop_assert_eq!(episode.candidates(), (0..graph.n_nodes()).collect::<Vec<_>>());
        prop_assert!(!episode.in_answer().contains(&true));
    }
}

#[test]
fn a_refused_step_changes_nothing() {
    let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
    let mut episode = Episode::<MaximumIndependentSet>::new(path.into()).with_step_limit(2);
    assert_eq!(episode.step(0).map(|step| step.truncated), Ok(false));
    let cases = [
        (0, "is in the set already"),
        (1, "has a neighbour in the set"),
        (4, "is no node of the graph"),
    ];
    for (action, reason) in cases {
        let error = episode.step(action).unwrap_err();
        assert_eq!(error, Error::NotACandidate { action, reason });
        assert_eq!(episode.picks(), [0]);
    }
    let end = episode.step(2).unwrap();
    assert_eq!((end.terminated, end.truncated), (true, false));
    assert_eq!(episode.step(3).unwrap_err(), Error::Ended { n_steps: 2 });
}

#[test]
fn a_limit_truncates() {
    let empty = Graph::from_edges(3, &[]).unwrap();
    let mut episode = Episode::<MaximumIndependentSet>::new(empty.into()).with_step_limit(2);
    assert_eq!(episode.step(2).map(|step| step.truncated), Ok(false));
    let last = episode.step(1).unwrap();
    assert_eq!((last.terminated, last.truncated), (false, true));
    assert!(episode.is_done() && episode.candidates().is_empty());
}
