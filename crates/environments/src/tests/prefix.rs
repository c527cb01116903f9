//! States rebuilt from picks: the same integers as a recount, and as the episode that made the picks.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{choose, graphs};
use crate::{Environment, ErrorKind, MinimumVertexCover, PrefixState, naive, replay_prefix};

fn check(graph: &Graph, picks: &[u32], state: &PrefixState) {
    let mut removed = vec![false; graph.n_nodes() as usize];
    picks.iter().for_each(|&v| removed[v as usize] = true);
    assert_eq!(state.in_cover, removed);
    let nodes = 0..graph.n_nodes();
    let degrees: Vec<_> = nodes
        .clone()
        .map(|v| naive::degree(graph, &removed, v))
        .collect();
    let d2: Vec<_> = nodes.map(|v| naive::d2(graph, &removed, v)).collect();
    assert_eq!(state.max_degree, degrees.iter().copied().max().unwrap_or(0));
    assert_eq!((&state.degrees, &state.d2), (&degrees, &d2));
}

proptest! {
    #[test]
    fn every_prefix_of_a_play_is_rebuilt(graph in graphs(&[0, 1, 2, 31, 32, 33]), seed: u64) {
        let mut seed = seed;
        let mut episode = MinimumVertexCover::new(graph.clone().into());
        let mut state = PrefixState::default(); // one state's memory for all
        loop {
            state.replay(&graph, episode.picks()).unwrap();
            check(&graph, episode.picks(), &state);
            prop_assert_eq!(&state.degrees, episode.state().degrees());
            if episode.is_done() {
                break;
            }
            episode.step(choose(&episode, &mut seed)).unwrap();
        }
    }

    #[test]
    fn picks_need_not_be_candidates(graph in graphs(&[1, 31, 65]), order in any::<u64>(), n_picks in 0..65usize) {
        let mut picks: Vec<_> = (0..graph.n_nodes()).collect();
        picks.sort_by_key(|&v| order.rotate_left(v) ^ u64::from(v));
        picks.truncate(n_picks);
        check(&graph, &picks, &replay_prefix(&graph, &picks).unwrap());
    }
}

#[test]
fn picks_that_no_episode_has_are_named() {
    let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
    let far = replay_prefix(&path, &[1, 3]).unwrap_err();
    let expected = ErrorKind::PickOutOfRange {
        pick: 3,
        step: 1,
        n_nodes: 3,
    };
    assert_eq!(far.kind(), &expected);
    let twice = replay_prefix(&path, &[1, 0, 1]).unwrap_err();
    assert_eq!(twice.kind(), &ErrorKind::PickRepeated { pick: 1, step: 2 });
}

#[test]
fn a_state_moves_between_graphs_of_other_sizes() {
    let mut state = PrefixState::default();
    for n in [5u32, 2, 40] {
        let edges: Vec<_> = (1..n).map(|v| (0, v)).collect();
        let star = Graph::from_edges(n, &edges).unwrap();
        state.replay(&star, &[1]).unwrap();
        check(&star, &[1], &state);
    }
}
