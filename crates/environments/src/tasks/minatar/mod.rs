//! MinAtar's five games on a board of 10 by 10 cells: Asterix, Breakout, Freeway, Seaquest and Space
//! Invaders.
//!
//! # Source
//! Young and Tian, MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement
//! Learning Experiments, 2019; the rules are those of its package, version 1.0.15, with which
//! `tests/fixtures` compares every step.

mod asterix;
mod breakout;
mod environment;
mod freeway;
mod game;
mod seaquest;
mod space_invaders;

pub(crate) use asterix::Asterix;
pub(crate) use breakout::Breakout;
pub(crate) use environment::{MinAtar, MinAtarOptions};
pub(crate) use freeway::Freeway;
pub(crate) use game::Game;
#[cfg(test)]
pub(crate) use game::{Board, Chance, MOVES};
pub(crate) use seaquest::Seaquest;
pub(crate) use space_invaders::SpaceInvaders;
