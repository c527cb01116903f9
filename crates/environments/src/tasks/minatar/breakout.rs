//! Breakout: a paddle, a ball and three rows of bricks; a brick earns 1, a lost ball ends the game.

use serde::{Deserialize, Serialize};

use super::game::{Board, Cells, Chance, Game, Move, SIDE, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breakout;

/// A full row, a bit a column.
const FULL_ROW: u16 = (1 << SIDE) - 1;
/// Three rows of bricks.
const WALL: Cells = Cells::of_rows([0, FULL_ROW, FULL_ROW, FULL_ROW, 0, 0, 0, 0, 0, 0]);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    ball_x: i32,
    ball_y: i32,
    last_x: i32,
    last_y: i32,
    /// The ball moves to the right, and down.
    is_right: bool,
    is_down: bool,
    paddle: i32,
    bricks: Cells,
    /// The ball has hit a brick since it last flew free.
    strike: bool,
}

impl Game for Breakout {
    type State = State;

    const N_CHANNELS: usize = 4;
    const MINIMAL: &'static [Move] = &[Move::Nothing, Move::Left, Move::Right];

    fn initial(&self, chance: &mut impl Chance) -> State {
        let from_left = chance.below(2) == 0;
        let ball_x = if from_left { 0 } else { SIDE - 1 };
        State {
            ball_x,
            ball_y: 3,
            last_x: ball_x,
            last_y: 3,
            is_right: from_left,
            is_down: true,
            paddle: 4,
            bricks: WALL,
            strike: false,
        }
    }

    fn advance(
        &self,
        state: &mut State,
        chosen: Move,
        _ramping: bool,
        _chance: &mut impl Chance,
    ) -> Transition {
        state.paddle = (state.paddle + chosen.right()).clamp(0, SIDE - 1);
        (state.last_x, state.last_y) = (state.ball_x, state.ball_y);
        let mut x = state.ball_x + if state.is_right { 1 } else { -1 };
        let mut y = state.ball_y + if state.is_down { 1 } else { -1 };
        if !(0..SIDE).contains(&x) {
            x = x.clamp(0, SIDE - 1);
            state.is_right = !state.is_right;
        }
        let mut transition = Transition::default();
        let mut strikes = false;
        if y < 0 {
            y = 0;
            state.is_down = !state.is_down;
        } else if state.bricks.has(x, y) {
            strikes = true;
            if !state.strike {
                transition.reward = 1.0;
                state.strike = true;
                state.bricks = state.bricks.without(Cells::at(x, y));
                y = state.last_y;
                state.is_down = !state.is_down;
            }
        } else if y == SIDE - 1 {
            if state.bricks.is_empty() {
                state.bricks = WALL;
            }
            if state.ball_x == state.paddle {
                state.is_down = !state.is_down;
                y = state.last_y;
            } else if x == state.paddle {
                // The ball comes in over the corner, and leaves by where it came from.
                (state.is_right, state.is_down) = (!state.is_right, !state.is_down);
                y = state.last_y;
            } else {
                transition.terminated = true;
            }
        }
        state.strike &= strikes;
        (state.ball_x, state.ball_y) = (x, y);
        transition
    }

    fn draw(&self, state: &State, board: &mut Board) {
        board.mark(Cells::at(state.paddle, SIDE - 1), 0);
        board.mark(Cells::at(state.ball_x, state.ball_y), 1);
        board.mark(Cells::at(state.last_x, state.last_y), 2);
        board.mark(state.bricks, 3);
    }

    fn is_on_board(&self, state: &State) -> bool {
        is_cell(state.ball_x, state.ball_y)
            && is_cell(state.last_x, state.last_y)
            && is_cell(state.paddle, 0)
    }
}
