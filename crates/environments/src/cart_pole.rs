//! The cart with a pole on it, to be kept upright by pushes to the left and to the right: the task
//! on which every agent is tried first.

use shardgraph_random::{KeyedStreams, first_uniforms};

use crate::environment::{Environment, Step};
use crate::error::Error;
use crate::space::{Space, Value};

const GRAVITY: f64 = 9.8;
const CART_MASS: f64 = 1.0;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = CART_MASS + POLE_MASS;
/// Half of the pole's length.
const LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = POLE_MASS * LENGTH;
const FORCE: f64 = 10.0;
/// Seconds between two states.
const TAU: f64 = 0.02;
const POSITION_LIMIT: f64 = 2.4;
/// 12 degrees.
const ANGLE_LIMIT: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// Steps until an episode is truncated.
pub(crate) const STEP_LIMIT: u32 = 500;

/// A push to the left, and one to the right.
pub(crate) const N_ACTIONS: u32 = 2;

/// Position, velocity, angle, angular velocity.
pub(crate) type Motion = [f64; 4];

/// Cart and pole: action 0 pushes the cart to the left, action 1 to the right, and every step earns
/// 1.
///
/// The episode terminates when the cart is more than 2.4 from the middle or the pole more than 12
/// degrees from upright, and is truncated after 500 steps. An observation is position, velocity,
/// angle and angular velocity. Motion is computed in f64, with explicit Euler steps of 0.02 s; only
/// the observation is rounded to f32.
///
/// # Determinism
/// Episode e of the environment (seed, index) begins where the stream of (seed, index, e) says, so
/// it can be played alone. Steps have the same bits on every machine: sine and cosine are series
/// here, not the platform's.
///
/// # Source
/// Barto, Sutton and Anderson, Neuronlike adaptive elements that can solve difficult learning
/// control problems, IEEE Transactions on Systems, Man, and Cybernetics 13(5), 1983, appendix
/// (without its friction); masses, lengths, limits and the first state's range are those of
/// Gymnasium's CartPole-v1. Unlike there, a step that terminates on the limit is not truncated as
/// well.
///
/// ```
/// use shardgraph_environments::{CartPole, Environment};
///
/// let mut cart = CartPole::new(7, 0);
/// let mut n_steps = 0;
/// while !cart.is_done() {
///     let [_, _, angle, _] = *cart.state();
///     cart.step(u32::from(angle > 0.0))?; // pushes to where the pole leans
///     n_steps += 1;
/// }
/// assert!((20..100).contains(&n_steps));
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CartPole {
    start: Start,
    motion: Motion,
    observation: [f32; 4],
    n_steps: u32,
    terminated: bool,
}

/// The key of an environment's chance: a stream for each episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) seed: u64,
    pub(crate) streams: KeyedStreams,
    index: u32,
    /// The number of the next episode.
    pub(crate) episode: u32,
}

impl Start {
    pub(crate) fn new(seed: u64, index: u32, episode: u32) -> Start {
        Start {
            seed,
            streams: KeyedStreams::new(seed, "cartpole"),
            index,
            episode,
        }
    }

    /// The key of the next episode's stream.
    #[inline(always)]
    pub(crate) fn next_key(&mut self) -> u64 {
        let key = u64::from(self.index) << 32 | u64::from(self.episode);
        self.episode = self.episode.wrapping_add(1);
        key
    }

    /// The first state of the next episode.
    pub(crate) fn next(&mut self) -> Motion {
        first_motions([self.streams], [self.next_key()]).map(|[number]| number)
    }
}

/// The first states of episodes, coordinate by coordinate: each from -0.05 to 0.05.
#[inline(always)]
pub(crate) fn first_motions<const N: usize>(
    streams: [KeyedStreams; N],
    keys: [u64; N],
) -> [[f64; N]; 4] {
    first_uniforms(streams, keys).map(|numbers| numbers.map(|number| number * 0.1 - 0.05))
}

impl CartPole {
    /// The range of each number of an observation, the last one included: `-limit[i]..=limit[i]`.
    /// The velocities have no limit.
    pub const OBSERVATION_LIMITS: [f32; 4] =
        [4.8, f32::INFINITY, 2.0 * ANGLE_LIMIT as f32, f32::INFINITY];

    /// The first episode of the environment (seed, index).
    pub fn new(seed: u64, index: u32) -> CartPole {
        let mut cart = CartPole {
            start: Start::new(seed, index, 0),
            motion: [0.0; 4],
            observation: [0.0; 4],
            n_steps: 0,
            terminated: false,
        };
        cart.reset();
        cart
    }

    /// Begins an episode in a state of the caller's: position, velocity, angle, angular velocity.
    ///
    /// ```
    /// use shardgraph_environments::{CartPole, Environment};
    ///
    /// let mut cart = CartPole::new(7, 0);
    /// cart.begin_at([0.0, 0.0, 0.1, 0.0]);
    /// assert_eq!((cart.n_steps(), cart.state()[2]), (0, 0.1));
    /// cart.begin_at([3.0, 0.0, 0.0, 0.0]);
    /// assert!(cart.is_done()); // beyond the end of the track
    /// ```
    pub fn begin_at(&mut self, motion: [f64; 4]) {
        self.motion = motion;
        self.observation = observe(&motion);
        self.n_steps = 0;
        self.terminated = has_fallen(&motion);
    }

    #[cfg(test)]
    pub(crate) fn motion(&self) -> Motion {
        self.motion
    }

    /// The number of steps of this episode so far.
    pub fn n_steps(&self) -> u32 {
        self.n_steps
    }
}

impl Environment for CartPole {
    type State = [f32; 4];

    fn reset(&mut self) {
        let motion = self.start.next();
        self.begin_at(motion);
    }

    fn reset_seeded(&mut self, seed: u64, index: u32) {
        self.start = Start::new(seed, index, 0);
        self.reset();
    }

    #[inline]
    fn step(&mut self, action: u32) -> Result<Step, Error> {
        if self.is_done() {
            let n_steps = self.n_steps;
            return Err(Error::Ended { n_steps });
        }
        if action > 1 {
            return Err(not_a_push(action));
        }
        self.motion = advance(&self.motion, action);
        self.observation = observe(&self.motion);
        self.n_steps += 1;
        self.terminated = has_fallen(&self.motion);
        Ok(Step {
            reward: 1.0,
            terminated: self.terminated,
            truncated: !self.terminated && self.n_steps == STEP_LIMIT,
        })
    }

    fn is_done(&self) -> bool {
        self.terminated || self.n_steps == STEP_LIMIT
    }

    fn n_actions(&self) -> u32 {
        N_ACTIONS
    }

    fn is_candidate(&self, action: u32) -> bool {
        action < 2 && !self.is_done()
    }

    fn state(&self) -> &[f32; 4] {
        &self.observation
    }

    fn observation(&self) -> Value {
        Value::F32(self.observation.to_vec())
    }

    fn observation_space(&self) -> Space {
        observation_space()
    }
}

pub(crate) fn observation_space() -> Space {
    let limits = CartPole::OBSERVATION_LIMITS;
    Space::boxed(&[4], limits.map(|limit| -limit), limits).expect("limits above 0")
}

#[cold]
pub(crate) fn not_a_push(action: u32) -> Error {
    let reason = "is neither 0 (left) nor 1 (right)";
    Error::NotACandidate { action, reason }
}

/// The state 0.02 s later. The pole must not have fallen yet: the series hold for small angles.
#[inline(always)]
pub(crate) fn advance(&[x, x_dot, theta, theta_dot]: &Motion, action: u32) -> Motion {
    // 0 or 1 to -10 or 10, without a branch: a policy's pushes are hard to predict.
    let force = f64::from(action as i32 * 2 - 1) * FORCE;
    let (sin, cos) = (sin(theta), cos(theta));
    let push = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin) * (1.0 / TOTAL_MASS);
    let turn = (GRAVITY * sin - cos * push)
        / (4.0 / 3.0 * LENGTH - LENGTH * POLE_MASS / TOTAL_MASS * (cos * cos));
    let pull = push - POLE_MASS_LENGTH / TOTAL_MASS * turn * cos;
    [
        x + TAU * x_dot,
        x_dot + TAU * pull,
        theta + TAU * theta_dot,
        theta_dot + TAU * turn,
    ]
}

#[inline(always)]
pub(crate) fn has_fallen(&[x, _, theta, _]: &Motion) -> bool {
    (x.abs() > POSITION_LIMIT) | (theta.abs() > ANGLE_LIMIT)
}

#[inline(always)]
pub(crate) fn observe(motion: &Motion) -> [f32; 4] {
    motion.map(|number| number as f32)
}

/// Taylor's series up to x^11: below 12 degrees what is left out is less than 1e-18.
#[inline(always)]
fn sin(x: f64) -> f64 {
    let z = x * x;
    let sum = -1.0 / 39_916_800.0;
    let sum = sum * z + 1.0 / 362_880.0;
    let sum = sum * z - 1.0 / 5_040.0;
    let sum = sum * z + 1.0 / 120.0;
    let sum = sum * z - 1.0 / 6.0;
    x + x * z * sum
}

/// Taylor's series up to x^12: below 12 degrees what is left out is less than 1e-20.
#[inline(always)]
fn cos(x: f64) -> f64 {
    let z = x * x;
    let sum = 1.0 / 479_001_600.0;
    let sum = sum * z - 1.0 / 3_628_800.0;
    let sum = sum * z + 1.0 / 40_320.0;
    let sum = sum * z - 1.0 / 720.0;
    let sum = sum * z + 1.0 / 24.0;
    1.0 - 0.5 * z + z * z * sum
}
