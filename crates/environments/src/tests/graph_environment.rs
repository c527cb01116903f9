//! Graph problems as environments: equal to their episodes played by hand, and answers that hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::{
    Actions, Autoreset, Episode, FunctionalVector, GraphEnvironment, GraphSource, InvalidActions,
    MAXIMUM_CUT, MINIMUM_VERTEX_COVER, PROBLEMS, Problem, VectorEnvironment, named_environment,
};

fn environment(problem: &'static Problem, graphs: &str) -> GraphEnvironment {
    GraphEnvironment::new(problem, graphs.parse().unwrap(), InvalidActions::Masked).unwrap()
}

/// The floats of an observation, from the episode alone, entry by entry.
fn expected(episode: &Episode) -> Vec<f32> {
    let residual = episode.state().residual();
    let graph = residual.graph();
    let (n, is_weighted) = (graph.n_nodes(), graph.weights().is_some());
    let scale = episode.state().edge_scale();
    let mut floats = Vec::new();
    for u in 0..n {
        for v in 0..n {
            let both = residual.is_present(u) && residual.is_present(v);
            let mut neighbors = graph.weighted_neighbors(u);
            let weight = neighbors
                .find(|edge| edge.0 == v)
                .map_or(0.0, |edge| edge.1);
            let entry = if is_weighted { weight * scale } else { weight };
            floats.push(if both { entry } else { 0.0 });
        }
    }
    floats.extend(episode.in_answer().iter().map(|&mark| f32::from(mark)));
    for v in 0..n {
        episode.state().push_features(v, scale, &mut floats);
    }
    floats.extend((0..n).map(|v| f32::from(episode.is_candidate(v))));
    floats
}

/// Plays to the end by random candidates, beside the same episode by hand; true to the problem's
/// check.
fn play(environment: GraphEnvironment, seed: u64) {
    let (problem, n) = (environment.problem(), environment.n_nodes());
    let mut vector = FunctionalVector::new(environment, 1, Autoreset::Disabled, None).unwrap();
    vector.reset(seed);
    let graph = Arc::clone(vector.state(0).episode().state().residual().graph());
    let mut episode = problem.begin(Arc::clone(&graph));
    let mut rng = KeyedRng::new(seed, "candidates", 0);
    while !episode.is_done() {
        assert_eq!(
            vector.observations(),
            expected(&episode),
            "{}",
            problem.name
        );
        let mask = vector.action_mask().unwrap().to_vec();
        for v in 0..n {
            assert_eq!(mask[v as usize], episode.is_candidate(v));
        }
        let candidates: Vec<u32> = (0..n).filter(|&v| mask[v as usize]).collect();
        let node = candidates[rng.index(candidates.len())];
        let reward = episode.pick(node).unwrap();
        let step = vector.step(Actions::Discrete(&[node])).unwrap();
        assert_eq!(step.rewards, [reward]);
        assert_eq!(step.terminated, [episode.is_done()]);
        assert_eq!(step.truncated, [false]);
    }
    assert_eq!(vector.observations(), expected(&episode));
    assert_eq!(vector.state(0).episode().picks(), episode.picks());
    problem.evaluate(&graph, episode.picks()).unwrap();
}

#[test]
fn steps_are_those_of_the_episode() {
    for problem in PROBLEMS {
        for seed in 0..5 {
            play(environment(problem, "er:9:0.4"), seed);
            play(environment(problem, "karate"), seed);
        }
    }
}

#[test]
fn a_weighted_graph_shows_its_weights() {
    let edges = [(0, 1, 2.0), (1, 2, -1.0), (2, 3, 4.0), (3, 0, 0.5)];
    let graph = Arc::new(Graph::from_weighted_edges(4, &edges).unwrap());
    let source = || GraphSource::Fixed(Arc::clone(&graph));
    let cut = GraphEnvironment::new(&MAXIMUM_CUT, source(), InvalidActions::Masked).unwrap();
    for seed in 0..5 {
        play(cut.clone(), seed);
    }
    let error = GraphEnvironment::new(&MINIMUM_VERTEX_COVER, source(), InvalidActions::Masked);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("weights"), "{error}");
}

#[test]
fn each_episode_has_a_graph_of_its_own() {
    let games = environment(&MINIMUM_VERTEX_COVER, "er:12:0.3");
    let mut vector = FunctionalVector::new(games, 2, Autoreset::Disabled, None).unwrap();
    vector.reset(4);
    let graph = |vector: &FunctionalVector<GraphEnvironment>, idx: usize| {
        Arc::clone(vector.state(idx).episode().state().residual().graph())
    };
    let (first, second) = (graph(&vector, 0), graph(&vector, 1));
    assert_ne!(first, second);
    vector.reset_where(&[true, false]).unwrap();
    assert_ne!(graph(&vector, 0), first);
    assert_eq!(graph(&vector, 1), second);
    vector.reset(4);
    assert_eq!(graph(&vector, 0), first);
}

/// Most graphs of this generator have no edge: an episode begins on one that has.
#[test]
fn an_episode_begins_with_a_candidate() {
    let games = environment(&MINIMUM_VERTEX_COVER, "er:3:0.05");
    let vector = FunctionalVector::new(games, 200, Autoreset::SameStep, None).unwrap();
    let masks = vector.action_mask().unwrap();
    assert!(masks.chunks_exact(3).all(|row| row.contains(&true)));
}

#[test]
fn an_ignored_action_changes_nothing() {
    let options = serde_json::json!({ "graphs": "er:8:0.4", "invalid_actions": "ignored" });
    let options = serde_json::from_value(options).unwrap();
    let mode = Autoreset::Disabled;
    let mut vector = named_environment("vertex-cover", &options, 1, mode).unwrap();
    assert!(vector.action_mask().is_none());
    vector.reset(2);
    let first = vector.observations()[8 * 8 + 8..]
        .iter()
        .position(|&may| may == 1.0);
    let node = [first.unwrap() as u32];
    assert_eq!(
        vector.step(Actions::Discrete(&node)).unwrap().rewards,
        [-1.0]
    );
    let seen = vector.observations().to_vec();
    for _ in 0..14 {
        assert_eq!(
            vector.step(Actions::Discrete(&node)).unwrap().rewards,
            [0.0]
        );
        assert_eq!(vector.observations(), seen);
        assert!(!vector.last_step().ended(0));
    }
    assert!(vector.step(Actions::Discrete(&node)).unwrap().truncated[0]);
}

#[test]
fn wrong_graphs_are_refused() {
    let message = |graphs: &str| {
        let options = BTreeMap::from([("graphs".to_owned(), graphs.into())]);
        let made = named_environment("vertex-cover", &options, 1, Autoreset::SameStep);
        made.unwrap_err().to_string()
    };
    for (graphs, part) in [
        ("er:20", "er:20"),
        ("no/such.mtx", "none of them"),
        ("er:3000:0.1", "1 to 2048"),
        ("er:5:0", "may be picked"),
    ] {
        assert!(message(graphs).contains(part), "{}", message(graphs));
    }
}

/// What a step changes of an observation is what the whole of it says, for every problem, weighted graphs too.
#[test]
fn a_changed_observation_is_the_whole_one() {
    use crate::functional::{Action, FunctionalEnvironment};

    let mut weighted = Vec::new();
    for u in 0..7u32 {
        weighted.extend((0..u).map(|v| (v, u, 0.5 + (u * v) as f32)));
    }
    let weighted = Graph::from_weighted_edges(7, &weighted).unwrap();
    let generator = || "er:70:0.1".parse::<GraphSource>().unwrap();
    let mut sources: Vec<_> = PROBLEMS
        .iter()
        .map(|&problem| (problem, generator()))
        .collect();
    sources.push((&MAXIMUM_CUT, GraphSource::Fixed(Arc::new(weighted))));
    for (problem, graphs) in sources {
        let environment = GraphEnvironment::new(problem, graphs, InvalidActions::Ignored).unwrap();
        let mut rng = KeyedRng::new(3, problem.name, 0);
        let mut state = environment.initial(&mut rng);
        let width = environment.observation_space().flat_width().unwrap();
        let (mut changed, mut whole) = (vec![0.0; width], vec![f32::NAN; width]);
        environment.observe(&state, &mut changed);
        for _ in 0..200 {
            let action = [rng.below_u32(environment.n_nodes())];
            let step = environment.transition(&mut state, Action::Discrete(&action), &mut rng);
            environment.observe_change(&state, &mut changed);
            environment.observe(&state, &mut whole);
            assert_eq!(changed, whole, "{}", problem.name);
            if step.terminated {
                break;
            }
        }
        assert!(state.episode().picks().len() > 1, "{}", problem.name);
    }
}
