//! The pendulum that is to be swung up and held by a torque.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

const GRAVITY: f64 = 10.0;
const SPEED_LIMIT: f64 = 8.0;
const TORQUE_LIMIT: f64 = 2.0;
/// Seconds between two states.
const TAU: f64 = 0.05;

/// Angle from upright, in radians, and angular velocity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swing {
    /// Radians, not wrapped.
    pub angle: f64,
    /// Radians a second, from -8 to 8.
    pub velocity: f64,
}

/// A torque from -2 to 2; the angle, the velocity and the torque cost, and episodes have no end of
/// their own.
///
/// # Source
/// Gymnasium's Pendulum-v1: a rod of mass 1 and length 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pendulum;

impl FunctionalEnvironment for Pendulum {
    type State = Swing;

    fn observation_space(&self) -> Space {
        let high = vec![1.0, 1.0, SPEED_LIMIT as f32];
        let low: Vec<f32> = high.iter().map(|limit| -limit).collect();
        Space::boxed(&[3], low, high).expect("a box")
    }

    fn action_space(&self) -> Space {
        let limit = TORQUE_LIMIT as f32;
        Space::boxed(&[1], -limit, limit).expect("a box")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Swing {
        Swing {
            angle: PI * (2.0 * rng.uniform_f64() - 1.0),
            velocity: 2.0 * rng.uniform_f64() - 1.0,
        }
    }

    #[inline]
    fn transition(&self, swing: &mut Swing, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        let torque = f64::from(action.element()).clamp(-TORQUE_LIMIT, TORQUE_LIMIT);
        let angle = (swing.angle + PI).rem_euclid(2.0 * PI) - PI;
        let cost = angle * angle + 0.1 * swing.velocity * swing.velocity + 0.001 * torque * torque;
        let acceleration = 1.5 * GRAVITY * libm::sin(swing.angle) + 3.0 * torque;
        let velocity = swing.velocity + acceleration * TAU;
        swing.velocity = velocity.clamp(-SPEED_LIMIT, SPEED_LIMIT);
        swing.angle += swing.velocity * TAU;
        Transition {
            reward: -cost as f32,
            terminated: false,
        }
    }

    fn observe(&self, swing: &Swing, out: &mut [f32]) {
        let (sin, cos) = libm::sincos(swing.angle);
        (out[0], out[1], out[2]) = (cos as f32, sin as f32, swing.velocity as f32);
    }

    fn is_state(&self, swing: &Swing) -> bool {
        swing.angle.is_finite() && swing.velocity.abs() <= SPEED_LIMIT
    }
}
