//! Carts side by side against carts one by one, and vectors of graph problems by hand.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::MODES;
use super::vector_environment::VectorEnvironment;
use crate::{
    Autoreset, CartPole, CartPoles, Environment, Episode, Error, MinimumVertexCover, ProblemState,
};

fn bits(observation: &[f32; 4]) -> [u32; 4] {
    observation.map(f32::to_bits)
}

struct Pair {
    fast: CartPoles,
    plain: VectorEnvironment<CartPole>,
}

impl Pair {
    fn new(n: usize, autoreset: Autoreset) -> Pair {
        let carts = vec![CartPole::new(0, 0); n];
        Pair {
            fast: CartPoles::new(n, autoreset).unwrap(),
            plain: VectorEnvironment::new(carts, autoreset).unwrap(),
        }
    }

    fn reset(&mut self, seed: u64) {
        self.fast.reset(seed);
        self.plain.reset(seed);
        self.check();
    }

    fn step(&mut self, actions: &[u32]) -> Result<(), Error> {
        let (fast, plain) = (
            self.fast.step(actions).cloned(),
            self.plain.step(actions).cloned(),
        );
        assert_eq!(fast, plain);
        self.check();
        fast.map(drop)
    }

    fn reset_where(&mut self, marks: &[bool]) {
        self.fast.reset_where(marks).unwrap();
        self.plain.reset_where(marks).unwrap();
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.fast.last_step(), self.plain.last_step());
        for idx in 0..self.fast.len() {
            let observation = &self.fast.observations()[idx];
            assert_eq!(bits(observation), bits(self.plain.state(idx)), "cart {idx}");
            let last = self.fast.final_observation(idx).map(bits);
            assert_eq!(last, self.plain.final_state(idx).map(bits), "cart {idx}");
        }
    }

    fn is_done(&self, idx: usize) -> bool {
        self.plain.environment(idx).is_done()
    }
}

proptest! {
    /// Random pushes and a policy that stands 500 steps, side by side: every way for an episode to
    /// end.
    #[test]
    fn carts_side_by_side_move_as_carts_alone(
        n in prop::sample::select(vec![1usize, 7, 8, 9, 17]),
        autoreset in prop::sample::select(MODES.to_vec()),
        seed: u64,
    ) {
        let mut pair = Pair::new(n, autoreset);
        pair.reset(seed);
        let (mut chance, mut n_truncated, mut n_terminated) = (seed, 0, 0);
        for _ in 0..700 {
            let actions: Vec<_> = (0..n).map(|idx| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let good = balance(pair.plain.state(idx));
                let waits = pair.is_done(idx) && autoreset == Autoreset::NextStep;
                if waits { i32::MAX as u32 } else if idx % 2 == 0 { good } else { (chance >> 63) as u32 }
            }).collect();
            pair.step(&actions).unwrap();
            n_truncated += pair.fast.last_step().truncated.iter().filter(|x| **x).count();
            n_terminated += pair.fast.last_step().terminated.iter().filter(|x| **x).count();
            if autoreset == Autoreset::Disabled {
                let done: Vec<_> = (0..n).map(|idx| pair.is_done(idx)).collect();
                if done.contains(&true) {
                    let expected = done.iter().position(|x| *x).unwrap();
                    let error = pair.step(&vec![0; n]).unwrap_err();
                    let is_it = matches!(error, Error::InVector { index, .. } if index == expected);
                    prop_assert!(is_it, "{}", error);
                }
                pair.reset_where(&done);
            }
        }
        prop_assert!(n_truncated >= n.div_ceil(2) && (n_terminated > 0 || n == 1));
    }
}

#[test]
fn steps_that_cannot_be_change_nothing() {
    let cases = [
        (
            vec![0; 9],
            "step: actions: expected 10, one for each environment, given 9",
        ),
        (
            vec![0; 11],
            "step: actions: expected 10, one for each environment, given 11",
        ),
        (
            [vec![0; 9], vec![2]].concat(),
            "environment 9 of the vector: action 2 is neither 0 (left) nor 1 (right)",
        ),
        (
            vec![u32::MAX; 10],
            "environment 0 of the vector: action 4294967295 is neither",
        ),
    ];
    for autoreset in MODES {
        let mut pair = Pair::new(10, autoreset);
        pair.reset(1);
        let before: Vec<_> = pair.fast.observations().iter().map(bits).collect();
        for (actions, expected) in &cases {
            for refused in [
                pair.fast.step(actions).map(|_| ()),
                pair.plain.step(actions).map(|_| ()),
            ] {
                let error = refused.unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
            }
            let after: Vec<_> = pair.fast.observations().iter().map(bits).collect();
            assert_eq!(after, before);
            pair.check();
        }
        assert!(pair.fast.reset_where(&[true; 9]).is_err());
        assert!(pair.plain.reset_where(&[true; 11]).is_err());
        pair.check();
    }
}

#[test]
fn a_vector_of_nothing_is_refused() {
    let nothing = VectorEnvironment::<CartPole>::new(Vec::new(), Autoreset::NextStep);
    let expected = "VectorEnvironment::new: environments: expected 1 to 2^32 - 1, given 0";
    assert_eq!(nothing.unwrap_err().to_string(), expected);
    assert!(CartPoles::new(0, Autoreset::NextStep).is_err());
}

fn balance([x, x_dot, angle, turn]: &[f32; 4]) -> u32 {
    u32::from(0.01 * x + 0.05 * x_dot + angle + 0.5 * turn > 0.0)
}

/// Balanced for a while and then pushed over, so that the fall is the 500th step: an end, and no
/// limit.
#[test]
fn a_fall_on_the_limit_is_an_end() {
    let episode = |(seed, n_balanced): (u64, u32)| {
        let mut cart = CartPole::new(seed, 0);
        let mut pushes = Vec::new();
        while !cart.is_done() {
            let is_balanced = cart.n_steps() < n_balanced;
            pushes.push(if is_balanced {
                balance(cart.state())
            } else {
                1
            });
            let step = cart.step(pushes[pushes.len() - 1]).unwrap();
            assert!(!(step.terminated && step.truncated));
            if step.terminated && cart.n_steps() == 500 {
                return Some((seed, pushes));
            }
        }
        None
    };
    let mut tries = (0..20).flat_map(|seed| (480..500).map(move |n| (seed, n)));
    let (seed, pushes) = tries
        .find_map(episode)
        .expect("one of these falls at step 500");
    let mut pair = Pair::new(1, Autoreset::SameStep);
    pair.reset(seed);
    pushes.iter().for_each(|&push| pair.step(&[push]).unwrap());
    let step = pair.fast.last_step();
    assert_eq!((step.terminated[0], step.truncated[0]), (true, false));
}

fn cover(n: u32, edges: &[(u32, u32)]) -> Episode<MinimumVertexCover> {
    Episode::<MinimumVertexCover>::new(Graph::from_edges(n, edges).unwrap().into())
}

/// A star, done with one pick, beside a path of four, done with two.
fn star_and_path(autoreset: Autoreset) -> VectorEnvironment<Episode<MinimumVertexCover>> {
    let both = vec![
        cover(3, &[(0, 1), (0, 2)]),
        cover(4, &[(0, 1), (1, 2), (2, 3)]),
    ];
    let mut both = VectorEnvironment::new(both, autoreset).unwrap();
    both.reset(0);
    both
}

#[test]
fn an_episode_begins_at_the_next_step() {
    let mut both = star_and_path(Autoreset::NextStep);
    assert_eq!(both.step(&[0, 1]).unwrap().terminated, [true, false]);
    assert!(both.state(0).residual().n_edges() == 0 && both.final_state(0).is_none());
    let step = both.step(&[u32::MAX, 2]).unwrap();
    assert_eq!(
        (&step.reset, &step.rewards),
        (&vec![true, false], &vec![0.0, -1.0])
    );
    assert_eq!(step.terminated, [false, true]);
    assert_eq!(both.state(0).residual().n_edges(), 2);
    let step = both.step(&[1, 0]).unwrap();
    assert_eq!(
        (&step.reset, &step.rewards),
        (&vec![false, true], &vec![-1.0, 0.0])
    );
    assert_eq!(step.terminated, [false, false]);
}

#[test]
fn an_episode_begins_within_the_same_step() {
    let mut both = star_and_path(Autoreset::SameStep);
    for _ in 0..3 {
        let step = both.step(&[0, 1]).unwrap();
        assert_eq!(
            (&step.terminated, &step.reset),
            (&vec![true, false], &vec![false; 2])
        );
        assert_eq!(
            (
                both.state(0).residual().n_edges(),
                both.final_state(0).unwrap().residual().n_edges()
            ),
            (2, 0)
        );
        assert!(both.final_state(1).is_none());
        both.step(&[0, 2]).unwrap();
        assert_eq!(
            (
                both.state(1).residual().n_edges(),
                both.final_state(1).unwrap().residual().n_edges()
            ),
            (3, 0)
        );
    }
}
