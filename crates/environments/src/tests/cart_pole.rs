//! Cart and pole against the equations of motion, solved another way, and against episodes worked
//! out with them.

use shardgraph_random::KeyedRng;

use crate::cart_pole::{Motion, advance, has_fallen};
use crate::{CartPole, Environment, Step};

/// A step out of the two coupled equations of a cart and a uniform rod on it, solved for both
/// accelerations by Cramer's rule:
///
///   (M + m) x'' + m l cos(theta) theta'' = F + m l theta'^2 sin(theta)
///   cos(theta) x'' + 4/3 l theta'' = g sin(theta)
fn reference(&[x, x_dot, theta, theta_dot]: &Motion, action: u32) -> Motion {
    let (cart, rod, l, g) = (1.0, 0.1, 0.5, 9.8);
    let force = if action == 1 { 10.0 } else { -10.0 };
    let (sin, cos) = theta.sin_cos();
    let rows = [[cart + rod, rod * l * cos], [cos, 4.0 / 3.0 * l]];
    let right = [force + rod * l * theta_dot.powi(2) * sin, g * sin];
    let determinant = rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0];
    let x_acc = (right[0] * rows[1][1] - rows[0][1] * right[1]) / determinant;
    let theta_acc = (rows[0][0] * right[1] - right[0] * rows[1][0]) / determinant;
    let tau = 0.02;
    [
        x + tau * x_dot,
        x_dot + tau * x_acc,
        theta + tau * theta_dot,
        theta_dot + tau * theta_acc,
    ]
}

fn fell(&[x, _, theta, _]: &Motion) -> bool {
    !(-2.4..=2.4).contains(&x) || theta.to_degrees().abs() > 12.0
}

/// How many steps until the fall.
fn n_steps(
    start: Motion,
    step: fn(&Motion, u32) -> Motion,
    fallen: fn(&Motion) -> bool,
    policy: fn(u32, &Motion) -> u32,
) -> u32 {
    let mut motion = start;
    (0..1000)
        .find(|&n| {
            motion = step(&motion, policy(n, &motion));
            fallen(&motion)
        })
        .unwrap()
        + 1
}

/// From each start: pushing right, pushing left, left and right in turn, and towards where the pole
/// leans.
#[test]
fn known_episodes_fall_when_the_equations_say() {
    let policies: [fn(u32, &Motion) -> u32; 4] = [
        |_, _| 1,
        |_, _| 0,
        |n, _| n % 2,
        |_, m| u32::from(m[2] > 0.0),
    ];
    let cases: [(Motion, [u32; 4]); 4] = [
        ([0.0; 4], [9, 9, 33, 56]),
        ([0.05; 4], [11, 8, 20, 53]),
        ([-0.05; 4], [8, 11, 36, 53]),
        ([0.0, 0.0, 0.05, 0.0], [11, 8, 21, 39]),
    ];
    for (start, expected) in cases {
        let got = policies.map(|policy| n_steps(start, advance, has_fallen, policy));
        let reference = policies.map(|policy| n_steps(start, reference, fell, policy));
        assert_eq!((got, reference), (expected, expected), "from {start:?}");
    }
}

/// Step by step, each from where the cart is: an upright pole lets every difference grow, those of
/// rounding too.
#[test]
fn a_long_episode_follows_the_reference() {
    let mut cart = CartPole::new(3, 0);
    for n in 0..500 {
        let [x, x_dot, theta, theta_dot] = cart.motion();
        let action = u32::from(0.01 * x + 0.05 * x_dot + theta + 0.5 * theta_dot > 0.0);
        let expected = reference(&cart.motion(), action);
        let step = cart.step(action).unwrap();
        let motion = cart.motion();
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14 * (1.0 + b.abs());
        assert!(
            motion.iter().zip(&expected).all(is_near),
            "{motion:?} and {expected:?} at step {n}"
        );
        let rounded = motion.map(|number| (number as f32).to_bits());
        assert_eq!(cart.state().map(f32::to_bits), rounded);
        let expected = Step {
            reward: 1.0,
            terminated: false,
            truncated: n == 499,
        };
        assert_eq!(step, expected, "step {n}");
    }
    assert!(cart.is_done());
}

/// Every coordinate of single steps, over all angles at which the pole has not fallen.
#[test]
fn single_steps_are_those_of_the_reference() {
    for i in -20..=20 {
        for j in -20..=20 {
            let motion = [
                0.1 * f64::from(j),
                -0.2 * f64::from(i),
                0.01 * f64::from(i),
                0.15 * f64::from(j),
            ];
            for action in [0, 1] {
                let (got, expected) = (advance(&motion, action), reference(&motion, action));
                let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14 * (1.0 + b.abs());
                assert!(
                    got.iter().zip(&expected).all(is_near),
                    "{motion:?}: {got:?} and {expected:?}"
                );
            }
        }
    }
}

#[test]
fn limits_are_where_they_should_be() {
    for (motion, expected) in [
        ([2.4, 9.0, 0.0, 9.0], false),
        ([2.4f64.next_up(), 0.0, 0.0, 0.0], true),
        ([-2.4, 0.0, 0.2094395102, 0.0], false),
        ([-2.4f64.next_up(), 0.0, 0.0, 0.0], true),
        ([0.0, 0.0, 0.2094395103, 0.0], true),
        ([0.0, 0.0, -0.2094395103, 0.0], true),
        ([0.0, 0.0, -0.2094395102, 0.0], false),
    ] {
        assert_eq!(has_fallen(&motion), expected, "{motion:?}");
    }
}

/// Four coordinates of 500 first states: within their range, near its middle on average, and near
/// its ends at some time.
#[test]
fn first_states_fill_their_range() {
    let mut cart = CartPole::new(11, 2);
    let mut firsts = Vec::new();
    for _ in 0..500 {
        firsts.push(cart.motion());
        cart.reset();
    }
    for axis in 0..4 {
        let numbers: Vec<_> = firsts.iter().map(|motion| motion[axis]).collect();
        let largest = numbers.iter().fold(0.0f64, |a, x| a.max(x.abs()));
        assert!((0.049..0.05).contains(&largest), "{largest}");
        let mean = numbers.iter().sum::<f64>() / 500.0;
        assert!(
            mean.abs() < 6.0 * 0.1 / 12f64.sqrt() / 500f64.sqrt(),
            "{mean}"
        );
    }
}

/// Seed, index and number of the episode each key another first state, and the same key the same
/// one.
#[test]
fn episodes_are_keyed() {
    let first_states = |seed, index| {
        let mut cart = CartPole::new(seed, index);
        let mut states = vec![cart.motion()];
        cart.reset();
        states.push(cart.motion());
        states
    };
    let mut all = Vec::new();
    for (seed, index) in [(1, 0), (1, 1), (2, 0), (0, 1), (0, 2)] {
        let states = first_states(seed, index);
        assert_eq!(states, first_states(seed, index));
        let mut reset = CartPole::new(99, 99);
        reset.step(0).unwrap();
        reset.reset_seeded(seed, index);
        assert_eq!(reset, CartPole::new(seed, index));
        all.extend(states);
    }
    for (idx, state) in all.iter().enumerate() {
        assert!(!all[..idx].contains(state));
    }
}

/// Episode e of environment i, from its own stream alone.
#[test]
fn an_episode_can_be_begun_alone() {
    let mut cart = CartPole::new(6, 3);
    for episode in 0..5 {
        let mut stream = KeyedRng::new(6, "cartpole", 3 << 32 | episode);
        let expected = [(); 4].map(|()| stream.uniform_f64() * 0.1 - 0.05);
        assert_eq!(cart.motion().map(f64::to_bits), expected.map(f64::to_bits));
        cart.reset();
    }
}
