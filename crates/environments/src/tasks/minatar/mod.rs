//! MinAtar's five games on a board of 10 by 10 cells: Asterix, Breakout, Freeway, Seaquest and Space
//! Invaders.
//!
//! # Source
//! Young and Tian, MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement
//! Learning Experiments, 2019; the rules are those of its package, version 1.0.15, with which
//! `tests/fixtures` compares every step.

mod asterix;
mod breakout;
mod freeway;
mod seaquest;
mod space_invaders;

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

pub(crate) use asterix::Asterix;
pub(crate) use breakout::Breakout;
pub(crate) use freeway::Freeway;
pub(crate) use seaquest::Seaquest;
pub(crate) use space_invaders::SpaceInvaders;

/// Cells of a side of the board.
const SIDE: i32 = 10;

/// What a player does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Nothing,
    Left,
    Up,
    Right,
    Down,
    Fire,
}

/// All moves, in the order of the reference's numbers.
pub(crate) const MOVES: [Move; 6] = [
    Move::Nothing,
    Move::Left,
    Move::Up,
    Move::Right,
    Move::Down,
    Move::Fire,
];

/// Draws of a game: from a generator, or recorded ones in tests.
pub(crate) trait Chance {
    /// True with probability `p`.
    fn flag(&mut self, p: f64) -> bool;
    /// A number below `n`.
    fn below(&mut self, n: u32) -> u32;
}

impl Chance for KeyedRng {
    fn flag(&mut self, p: f64) -> bool {
        self.chance(p)
    }

    fn below(&mut self, n: u32) -> u32 {
        self.below_u32(n)
    }
}

/// The rules of a game.
pub(crate) trait Game: Clone + Debug + Default + Send {
    type State: Clone + Debug + Send + Serialize + DeserializeOwned;

    /// Channels of the board.
    const N_CHANNELS: usize;

    /// Moves that have an effect.
    const MINIMAL: &'static [Move];

    fn initial(&self, chance: &mut impl Chance) -> Self::State;

    /// One step; `ramping`: whether the game becomes harder with time.
    fn advance(
        &self,
        state: &mut Self::State,
        chosen: Move,
        ramping: bool,
        chance: &mut impl Chance,
    ) -> Transition;

    /// Marks what is on the board.
    fn draw(&self, state: &Self::State, board: &mut Board<'_>);

    /// True if everything is on the board.
    fn is_on_board(&self, state: &Self::State) -> bool;
}

/// The cells and channels of an observation.
pub(crate) struct Board<'a> {
    cells: &'a mut [f32],
    n_channels: usize,
}

impl<'a> Board<'a> {
    pub(crate) fn new(cells: &'a mut [f32], n_channels: usize) -> Board<'a> {
        Board { cells, n_channels }
    }

    fn mark(&mut self, x: i32, y: i32, channel: usize) {
        let cell = (y * SIDE + x) as usize;
        self.cells[cell * self.n_channels + channel] = 1.0;
    }

    /// Marks a cell, unless it is beyond the left or the right border.
    fn mark_within(&mut self, x: i32, y: i32, channel: usize) {
        if (0..SIDE).contains(&x) {
            self.mark(x, y, channel);
        }
    }
}

/// True for a cell of the board.
fn is_cell(x: i32, y: i32) -> bool {
    (0..SIDE).contains(&x) && (0..SIDE).contains(&y)
}

/// The neighbouring column in a direction.
fn beside(x: i32, is_right: bool) -> i32 {
    if is_right { x + 1 } else { x - 1 }
}

/// A game as an environment.
#[derive(Clone, Debug)]
pub(crate) struct MinAtar<G> {
    game: G,
    /// Probability that the last action is taken again in place of the chosen one.
    sticky_actions: f64,
    ramping: bool,
    moves: &'static [Move],
}

/// A game's state, and the last action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Played<S> {
    game: S,
    last_action: u32,
}

/// Options of the games.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MinAtarOptions {
    /// Probability that the last action is taken again in place of the chosen one.
    pub sticky_actions: f64,
    /// The game becomes harder with time.
    pub ramping: bool,
    /// Actions without effect are left out.
    pub minimal_actions: bool,
}

impl Default for MinAtarOptions {
    fn default() -> MinAtarOptions {
        MinAtarOptions {
            sticky_actions: 0.1,
            ramping: true,
            minimal_actions: true,
        }
    }
}

impl<G: Game> MinAtar<G> {
    pub(crate) fn new(options: &MinAtarOptions) -> MinAtar<G> {
        MinAtar {
            game: G::default(),
            sticky_actions: options.sticky_actions,
            ramping: options.ramping,
            moves: if options.minimal_actions {
                G::MINIMAL
            } else {
                &MOVES
            },
        }
    }
}

impl<G: Game> FunctionalEnvironment for MinAtar<G> {
    type State = Played<G::State>;

    fn observation_space(&self) -> Space {
        let side = SIDE as usize;
        Space::boxed(&[side, side, G::N_CHANNELS], 0.0, 1.0).expect("a box")
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.moves.len() as u32).expect("moves")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Self::State {
        Played {
            game: self.game.initial(rng),
            last_action: 0,
        }
    }

    fn transition(
        &self,
        state: &mut Self::State,
        action: Action<'_>,
        rng: &mut KeyedRng,
    ) -> Transition {
        if !(self.sticky_actions > 0.0 && rng.chance(self.sticky_actions)) {
            state.last_action = action.number();
        }
        let chosen = self.moves[state.last_action as usize];
        self.game
            .advance(&mut state.game, chosen, self.ramping, rng)
    }

    fn observe(&self, state: &Self::State, out: &mut [f32]) {
        out.fill(0.0);
        let mut board = Board::new(out, G::N_CHANNELS);
        self.game.draw(&state.game, &mut board);
    }

    fn is_state(&self, state: &Self::State) -> bool {
        (state.last_action as usize) < self.moves.len() && self.game.is_on_board(&state.game)
    }
}
