//! Minimum vertex cover: counts at every step, ends, limits and refused steps.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{check_residual, choose, graphs};
use crate::{Environment, Episode, Error, MinimumVertexCover, ProblemState, Step, naive, verify};

proptest! {
    #[test]
    fn any_play_ends_in_a_cover(graph in graphs(&[0, 1, 2, 31, 32, 33, 63, 64, 65]), seed: u64) {
        let mut seed = seed;
        let mut episode = Episode::<MinimumVertexCover>::new(graph.clone().into());
        prop_assert_eq!(episode.n_actions(), graph.n_nodes());
        let mut total = 0.0;
        while !episode.is_done() {
            let removed = episode.in_answer();
            let candidates: Vec<_> = (0..graph.n_nodes()).filter(|&v| naive::degree(&graph, removed, v) > 0).collect();
            prop_assert_eq!(episode.candidates(), candidates);
            let action = choose(&episode, &mut seed);
            let step = episode.step(action).unwrap();
            check_residual(episode.state().residual());
            prop_assert_eq!(step.terminated, naive::is_cover(&graph, episode.picks()));
            prop_assert!(!step.truncated);
            prop_assert_eq!(episode.picks().last(), Some(&action));
            total += step.reward;
        }
        prop_assert_eq!(total as i32, -(episode.picks().len() as i32));
        prop_assert_eq!(episode.state().residual().n_edges(), 0);
        prop_assert_eq!(verify::uncovered_edge(&graph, episode.in_answer()), None);
        prop_assert!(episode.candidates().is_empty());
        episode.reset();
        check_residual(episode.state().residual());
        prop_assert!(episode.picks().is_empty() && !episode.in_answer().contains(&true));
        prop_assert_eq!(episode.state().residual().n_edges(), graph.n_edges());
    }
}

fn path_of_five() -> Episode<MinimumVertexCover> {
    let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]).unwrap();
    Episode::<MinimumVertexCover>::new(path.into())
}

#[test]
fn a_refused_step_changes_nothing() {
    let mut episode = path_of_five();
    episode.step(1).unwrap();
    let cases = [
        (1, "is in the cover already"),
        (0, "has no uncovered edge"),
        (5, "is no node of the graph"),
        (u32::MAX, "is no node of the graph"),
    ];
    for (action, reason) in cases {
        let error = episode.step(action).unwrap_err();
        assert_eq!(error, Error::NotACandidate { action, reason });
        assert_eq!(episode.picks(), [1]);
        check_residual(episode.state().residual());
    }
    episode.step(3).unwrap();
    let error = episode.step(2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the episode ended after 2 steps; reset() begins the next"
    );
}

#[test]
fn a_limit_truncates_and_an_end_on_the_limit_terminates() {
    let mut short = path_of_five().with_step_limit(1);
    let cut = Step {
        reward: -1.0,
        terminated: false,
        truncated: true,
    };
    assert_eq!(short.step(1), Ok(cut));
    assert!(short.is_done() && short.candidates().is_empty());
    assert_eq!(short.step(3).unwrap_err(), Error::Ended { n_steps: 1 });

    let mut exact = path_of_five().with_step_limit(2);
    exact.step(1).unwrap();
    let end = Step {
        reward: -1.0,
        terminated: true,
        truncated: false,
    };
    assert_eq!(exact.step(3), Ok(end));
}
