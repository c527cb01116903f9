//! Two links with a motor between them, whose tip is to be swung above a line.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

const GRAVITY: f64 = 9.8;
/// Distance from a link's joint to its centre of mass; links have mass 1, length 1 and moment 1.
const CENTRE: f64 = 0.5;
const SPEED_LIMITS: [f64; 2] = [4.0 * PI, 9.0 * PI];
/// Seconds between two states.
const TAU: f64 = 0.2;

/// The angle of the first link from hanging down, of the second from the first, and their velocities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Radians, from -pi to pi.
    pub angles: [f64; 2],
    /// Radians a second.
    pub velocities: [f64; 2],
}

/// Three torques on the joint between the links, -1, 0 and 1; each step costs 1, and the step that
/// swings the tip above the line nothing.
///
/// # Source
/// Sutton and Barto, Reinforcement Learning, chapter 11 of the first edition; the numbers are those
/// of Gymnasium's Acrobot-v1. Motion is one step of the classical Runge-Kutta method.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acrobot;

/// Rates of the angles and of the velocities.
fn rates(state: &[f64; 4], torque: f64) -> [f64; 4] {
    let [first, second, first_rate, second_rate] = *state;
    let (sin_second, cos_second) = libm::sincos(second);
    let d1 = CENTRE * CENTRE + (1.0 + CENTRE * CENTRE + 2.0 * CENTRE * cos_second) + 2.0;
    let d2 = CENTRE * CENTRE + CENTRE * cos_second + 1.0;
    // The cosine of an angle less a quarter turn.
    let phi2 = CENTRE * GRAVITY * libm::cos(first + second - PI / 2.0);
    let phi1 = -CENTRE * second_rate * second_rate * sin_second
        - 2.0 * CENTRE * second_rate * first_rate * sin_second
        + (CENTRE + 1.0) * GRAVITY * libm::cos(first - PI / 2.0)
        + phi2;
    let pull = torque + d2 / d1 * phi1 - CENTRE * first_rate * first_rate * sin_second - phi2;
    let second_acceleration = pull / (CENTRE * CENTRE + 1.0 - d2 * d2 / d1);
    let first_acceleration = -(d2 * second_acceleration + phi1) / d1;
    [
        first_rate,
        second_rate,
        first_acceleration,
        second_acceleration,
    ]
}

fn runge_kutta(state: &[f64; 4], torque: f64) -> [f64; 4] {
    let moved = |by: &[f64; 4], seconds: f64| -> [f64; 4] {
        std::array::from_fn(|at| state[at] + seconds * by[at])
    };
    let k1 = rates(state, torque);
    let k2 = rates(&moved(&k1, TAU / 2.0), torque);
    let k3 = rates(&moved(&k2, TAU / 2.0), torque);
    let k4 = rates(&moved(&k3, TAU), torque);
    std::array::from_fn(|at| {
        state[at] + TAU / 6.0 * (k1[at] + 2.0 * k2[at] + 2.0 * k3[at] + k4[at])
    })
}

/// The angle in [-pi, pi], by whole turns.
fn wrapped(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl FunctionalEnvironment for Acrobot {
    type State = Links;

    fn observation_space(&self) -> Space {
        let speeds = SPEED_LIMITS.map(|limit| limit as f32);
        let high = vec![1.0, 1.0, 1.0, 1.0, speeds[0], speeds[1]];
        let low: Vec<f32> = high.iter().map(|limit| -limit).collect();
        Space::boxed(&[6], low, high).expect("a box")
    }

    fn action_space(&self) -> Space {
        Space::discrete(3).expect("three actions")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Links {
        let mut small = || 0.2 * rng.uniform_f64() - 0.1;
        Links {
            angles: [small(), small()],
            velocities: [small(), small()],
        }
    }

    fn transition(&self, links: &mut Links, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        let torque = f64::from(action.number()) - 1.0;
        let Links { angles, velocities } = *links;
        let state = [angles[0], angles[1], velocities[0], velocities[1]];
        let next = runge_kutta(&state, torque);
        let speed = |at: usize| next[2 + at].clamp(-SPEED_LIMITS[at], SPEED_LIMITS[at]);
        *links = Links {
            angles: [wrapped(next[0]), wrapped(next[1])],
            velocities: [speed(0), speed(1)],
        };
        let [first, second] = links.angles;
        let terminated = -libm::cos(first) - libm::cos(first + second) > 1.0;
        Transition {
            reward: if terminated { 0.0 } else { -1.0 },
            terminated,
        }
    }

    fn observe(&self, links: &Links, out: &mut [f32]) {
        for (at, angle) in links.angles.iter().enumerate() {
            let (sin, cos) = libm::sincos(*angle);
            (out[2 * at], out[2 * at + 1]) = (cos as f32, sin as f32);
        }
        (out[4], out[5]) = (links.velocities[0] as f32, links.velocities[1] as f32);
    }

    fn is_state(&self, links: &Links) -> bool {
        let is_slow = |at: usize| links.velocities[at].abs() <= SPEED_LIMITS[at];
        // Wrapping an angle that is far off would take for ever.
        links.angles.iter().all(|angle| angle.abs() <= PI) && is_slow(0) && is_slow(1)
    }
}
