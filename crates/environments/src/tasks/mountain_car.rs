//! The car in a valley that must swing to reach the hill on the right: with three pushes, and with a
//! continuous one.

use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

const POSITION: (f64, f64) = (-1.2, 0.6);
const SPEED_LIMIT: f64 = 0.07;
const GRAVITY: f64 = 0.0025;

/// Position and velocity of the car.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Car {
    /// From -1.2 to 0.6; the bottom of the valley is at -0.52.
    pub position: f64,
    /// From -0.07 to 0.07 a step.
    pub velocity: f64,
}

impl Car {
    fn initial(rng: &mut KeyedRng) -> Car {
        Car {
            position: -0.6 + 0.2 * rng.uniform_f64(),
            velocity: 0.0,
        }
    }

    /// Moves under a force; the left end stops the car.
    fn advance(&mut self, force: f64) {
        let velocity = self.velocity + force - GRAVITY * libm::cos(3.0 * self.position);
        self.velocity = velocity.clamp(-SPEED_LIMIT, SPEED_LIMIT);
        self.position = (self.position + self.velocity).clamp(POSITION.0, POSITION.1);
        if self.position <= POSITION.0 && self.velocity < 0.0 {
            self.velocity = 0.0;
        }
    }

    fn is_at(&self, goal: f64) -> bool {
        self.position >= goal && self.velocity >= 0.0
    }

    fn is_in_valley(&self) -> bool {
        (POSITION.0..=POSITION.1).contains(&self.position) && self.velocity.abs() <= SPEED_LIMIT
    }

    fn observe(&self, out: &mut [f32]) {
        (out[0], out[1]) = (self.position as f32, self.velocity as f32);
    }
}

fn observation_space() -> Space {
    let bounds = |position: f64, speed: f64| vec![position as f32, speed as f32];
    let (low, high) = (
        bounds(POSITION.0, -SPEED_LIMIT),
        bounds(POSITION.1, SPEED_LIMIT),
    );
    Space::boxed(&[2], low, high).expect("a box")
}

/// Three actions: a push to the left, none, a push to the right; each step costs 1.
///
/// # Source
/// Moore, Efficient Memory-based Learning for Robot Control, 1990; the numbers are those of
/// Gymnasium's MountainCar-v0.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountainCar;

impl FunctionalEnvironment for MountainCar {
    type State = Car;

    fn observation_space(&self) -> Space {
        observation_space()
    }

    fn action_space(&self) -> Space {
        Space::discrete(3).expect("three actions")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Car {
        Car::initial(rng)
    }

    #[inline]
    fn transition(&self, car: &mut Car, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        car.advance((f64::from(action.number()) - 1.0) * 0.001);
        Transition {
            reward: -1.0,
            terminated: car.is_at(0.5),
        }
    }

    fn observe(&self, car: &Car, out: &mut [f32]) {
        car.observe(out);
    }

    fn is_state(&self, car: &Car) -> bool {
        car.is_in_valley()
    }
}

/// One action from -1 to 1, whose square costs; the goal earns 100.
///
/// # Source
/// Gymnasium's MountainCarContinuous-v0, whose state is kept in 32 bits; here in 64.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountainCarContinuous;

impl FunctionalEnvironment for MountainCarContinuous {
    type State = Car;

    fn observation_space(&self) -> Space {
        observation_space()
    }

    fn action_space(&self) -> Space {
        Space::boxed(&[1], -1.0, 1.0).expect("a box")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Car {
        Car::initial(rng)
    }

    #[inline]
    fn transition(&self, car: &mut Car, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        let element = f64::from(action.element());
        car.advance(element.clamp(-1.0, 1.0) * 0.0015);
        let terminated = car.is_at(0.45);
        let goal = if terminated { 100.0 } else { 0.0 };
        Transition {
            reward: (goal - 0.1 * element * element) as f32,
            terminated,
        }
    }

    fn observe(&self, car: &Car, out: &mut [f32]) {
        car.observe(out);
    }

    fn is_state(&self, car: &Car) -> bool {
        car.is_in_valley()
    }
}
