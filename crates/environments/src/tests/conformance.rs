//! What every environment has to keep, over every environment there is. After the checks of
//! Gymnasium's `env_checker`: equal seeds give equal first states and equal steps, what was handed
//! out stays as it was, observations stay within their limits; and beyond them: what ends an
//! episode, and that nothing goes on after its end.

use shardgraph_graph::Graph;

use super::cut::check_cut;
use super::dominating_set::check_domination;
use super::vector_environment::VectorEnvironment;
use super::{MODES, check_residual, choose};
use crate::space::{Space, Value};
use crate::{
    Autoreset, CartPole, CartPoles, Environment, Episode, Error, MaximumClique, MaximumCut,
    MaximumIndependentSet, MinimumDominatingSet, MinimumVertexCover, ProblemState, Step,
};

/// A state as numbers that compare.
trait Observed: Clone {
    fn numbers(&self) -> Vec<u32>;
}

impl Observed for [f32; 4] {
    fn numbers(&self) -> Vec<u32> {
        self.map(f32::to_bits).to_vec()
    }
}

impl<S: ProblemState + Clone + 'static> Observed for S
where
    S: Checked,
{
    fn numbers(&self) -> Vec<u32> {
        self.check();
        let residual = self.residual();
        let n_nodes = residual.graph().n_nodes();
        assert!(residual.degrees().iter().all(|&degree| degree < n_nodes));
        let marks = residual.removed().iter().map(|&mark| u32::from(mark));
        let degrees = residual.degrees().iter().copied();
        degrees.chain(marks).chain(self.others()).collect()
    }
}

/// A problem's own numbers, and whether they are those of its picks.
trait Checked: ProblemState {
    fn check(&self) {
        check_residual(self.residual());
    }

    fn others(&self) -> Vec<u32> {
        Vec::new()
    }
}

impl Checked for MinimumVertexCover {}
impl Checked for MaximumIndependentSet {}
impl Checked for MaximumClique {}

impl Checked for MaximumCut {
    fn check(&self) {
        check_cut(self);
    }

    fn others(&self) -> Vec<u32> {
        let gains = self.gains().iter().map(|&gain| gain as i32 as u32);
        let marks = self.is_moved().iter().map(|&mark| u32::from(mark));
        gains.chain(marks).collect()
    }
}

impl Checked for MinimumDominatingSet {
    fn check(&self) {
        check_domination(self);
    }

    fn others(&self) -> Vec<u32> {
        let marks = self.is_dominated().iter().map(|&mark| u32::from(mark));
        self.n_new().iter().copied().chain(marks).collect()
    }
}

fn wheel() -> Graph {
    let edges: Vec<_> = (1..12).flat_map(|v| [(0, v), (v, v % 11 + 1)]).collect();
    Graph::from_edges(12, &edges).unwrap()
}

/// Steps and states of a play that `seed` chooses, from the present state to the end of the
/// episode.
fn play<E: Environment<State: Observed>>(
    environment: &mut E,
    mut seed: u64,
) -> Vec<(u32, Step, Vec<u32>)> {
    let mut steps = Vec::new();
    let observations = environment.observation_space();
    let actions = environment.action_space().unwrap();
    observations.contains(&environment.observation()).unwrap();
    while !environment.is_done() {
        let candidates = environment.candidates();
        assert!(candidates.is_sorted() && candidates.iter().all(|&a| environment.is_candidate(a)));
        assert!(candidates.iter().all(|&a| a < environment.n_actions()));
        let action = choose(environment, &mut seed);
        actions.contains(&Value::U32(action)).unwrap();
        let kept = environment.state().clone();
        let before = kept.numbers();
        let step = environment.step(action).unwrap();
        observations.contains(&environment.observation()).unwrap();
        assert_eq!(
            kept.numbers(),
            before,
            "a state that was handed out changed"
        );
        assert!(step.reward.is_finite());
        assert!(!(step.terminated && step.truncated), "an end is no limit");
        assert_eq!(step.terminated || step.truncated, environment.is_done());
        steps.push((action, step, environment.state().numbers()));
    }
    assert!(environment.candidates().is_empty());
    steps
}

fn check<E: Environment<State: Observed> + Clone>(mut environment: E) {
    for (seed, index) in [(0, 0), (1, 0), (1, 1), (u64::MAX, u32::MAX)] {
        environment.reset_seeded(seed, index);
        let mut other = environment.clone();
        play(&mut other, 77);
        other.reset_seeded(seed, index);
        // Two episodes: the second one begins with a reset without a seed.
        for _ in 0..2 {
            assert_eq!(environment.state().numbers(), other.state().numbers());
            assert_eq!(play(&mut environment, seed), play(&mut other, seed));
            environment.reset();
            other.reset();
        }
    }
    check_refusals(environment);
}

/// Steps that cannot be are errors, and change nothing.
fn check_refusals<E: Environment<State: Observed>>(mut environment: E) {
    environment.reset_seeded(5, 0);
    let before = environment.state().numbers();
    let actions = environment.action_space().unwrap();
    for action in [environment.n_actions(), u32::MAX] {
        assert!(actions.contains(&Value::U32(action)).is_err());
        assert!(!environment.is_candidate(action));
        let error = environment.step(action).unwrap_err();
        assert!(matches!(error, Error::NotACandidate { .. }));
        assert_eq!(environment.state().numbers(), before);
    }
    let steps = play(&mut environment, 3);
    let last = environment.state().numbers();
    for action in 0..environment.n_actions() {
        let error = environment.step(action).unwrap_err();
        let n_steps = steps.len() as u32;
        assert_eq!(error, Error::Ended { n_steps });
        assert_eq!(environment.state().numbers(), last);
    }
    environment.reset();
    assert!(!environment.is_done());
}

/// Alone and as one of several, with each way to begin anew: a vector changes nothing of what its
/// environments do.
fn check_in_vector<E: Environment<State: Observed> + Clone>(environment: E) {
    let mut alone = environment.clone();
    alone.reset_seeded(9, 2);
    let play_on = |seed| {
        let steps = play(&mut alone, seed);
        alone.reset();
        steps
    };
    let episodes: Vec<_> = (0..3).map(play_on).collect();
    for autoreset in MODES {
        let mut vector = VectorEnvironment::new(vec![environment.clone(); 3], autoreset).unwrap();
        vector.reset(9);
        for episode in &episodes {
            for (action, step, state) in episode {
                check_step(&mut vector, autoreset, *action, *step, state);
            }
            begin(&mut vector, autoreset);
        }
    }
}

/// Environment 2 of three takes `action`, and does what it did alone.
fn check_step<E: Environment<State: Observed>>(
    vector: &mut VectorEnvironment<E>,
    autoreset: Autoreset,
    action: u32,
    expected: Step,
    state: &[u32],
) {
    let others = first_candidates(vector);
    let got = vector.step(&[others[0], others[1], action]).unwrap();
    let step = Step {
        reward: got.rewards[2],
        terminated: got.terminated[2],
        truncated: got.truncated[2],
    };
    assert_eq!((step, got.reset[2]), (expected, false));
    let is_next = got.ended(2) && autoreset == Autoreset::SameStep;
    let last = vector.final_state(2).map(Observed::numbers);
    assert_eq!(last, is_next.then(|| state.to_vec()));
    assert!(is_next || vector.state(2).numbers() == state);
    if autoreset == Autoreset::Disabled {
        let is_done = [0, 1].map(|idx| vector.environment(idx).is_done());
        vector
            .reset_where(&[is_done[0], is_done[1], false])
            .unwrap();
    }
}

/// What environments 0 and 1 do; one that begins an episode is given no action.
fn first_candidates<E: Environment<State: Observed>>(vector: &VectorEnvironment<E>) -> [u32; 2] {
    let first = |idx| vector.environment(idx).candidates().first().copied();
    [0, 1].map(|idx| first(idx).unwrap_or(u32::MAX))
}

/// Has environment 2, whose episode ended, begin the next one.
fn begin<E: Environment<State: Observed>>(vector: &mut VectorEnvironment<E>, autoreset: Autoreset) {
    let others = first_candidates(vector);
    match autoreset {
        Autoreset::NextStep => {
            let step = vector.step(&[others[0], others[1], u32::MAX]).unwrap();
            assert!(step.reset[2] && !step.ended(2));
            assert_eq!(step.rewards[2].to_bits(), 0);
        }
        Autoreset::SameStep => {}
        Autoreset::Disabled => {
            let error = vector.step(&[others[0], others[1], 0]).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("environment 2 of the vector: the episode ended after"),
                "{error}"
            );
            vector.reset_where(&[false, false, true]).unwrap();
        }
    }
}

#[test]
fn cart_and_pole_conforms() {
    check(CartPole::new(0, 0));
    check_in_vector(CartPole::new(0, 0));
}

#[test]
fn minimum_vertex_cover_conforms() {
    let cover = Episode::<MinimumVertexCover>::new(wheel().into());
    for environment in [cover.clone(), cover.with_step_limit(3)] {
        check(environment.clone());
        check_in_vector(environment);
    }
}

#[test]
fn maximum_independent_set_conforms() {
    let set = Episode::<MaximumIndependentSet>::new(wheel().into());
    for environment in [set.clone(), set.with_step_limit(2)] {
        check(environment.clone());
        check_in_vector(environment);
    }
}

#[test]
fn maximum_clique_conforms() {
    let clique = Episode::<MaximumClique>::new(wheel().into());
    for environment in [clique.clone(), clique.with_step_limit(2)] {
        check(environment.clone());
        check_in_vector(environment);
    }
}

#[test]
fn maximum_cut_conforms() {
    let cut = Episode::<MaximumCut>::new(wheel().into());
    for environment in [cut.clone(), cut.with_step_limit(3)] {
        check(environment.clone());
        check_in_vector(environment);
    }
}

#[test]
fn minimum_dominating_set_conforms() {
    // A ring, since one node dominates a wheel.
    let ring: Vec<_> = (0..12).map(|v| (v, (v + 1) % 12)).collect();
    let set = Episode::<MinimumDominatingSet>::new(Graph::from_edges(12, &ring).unwrap().into());
    for environment in [set.clone(), set.with_step_limit(3)] {
        check(environment.clone());
        check_in_vector(environment);
    }
}

/// Limits that a first step could pass would be found by no rollout of cart and pole, which ends
/// long before them.
#[test]
fn the_spaces_of_cart_and_pole_are_those_of_its_limits() {
    let cart = CartPole::new(0, 0);
    let space = cart.observation_space();
    assert_eq!(cart.observation(), Value::F32(cart.state().to_vec()));
    for axis in 0..4 {
        let limit = CartPole::OBSERVATION_LIMITS[axis].min(f32::MAX);
        for bound in [-limit, limit] {
            let mut numbers = vec![0.0; 4];
            numbers[axis] = bound;
            assert!(space.contains(&Value::F32(numbers.clone())).is_ok());
            numbers[axis] = if bound > 0.0 {
                bound.next_up()
            } else {
                bound.next_down()
            };
            assert!(space.contains(&Value::F32(numbers)).is_err());
        }
    }
    let carts = CartPoles::new(3, Autoreset::SameStep).unwrap();
    assert_eq!(carts.observation_space(), space);
    assert_eq!(Ok(carts.action_space()), cart.action_space());
    assert_eq!(cart.action_space(), Space::discrete(2));
}

#[test]
fn a_graph_without_nodes_has_no_action_space() {
    let nothing = Episode::<MinimumVertexCover>::new(Graph::from_edges(0, &[]).unwrap().into());
    assert!(nothing.action_space().is_err());
    nothing
        .observation_space()
        .contains(&nothing.observation())
        .unwrap();
}
