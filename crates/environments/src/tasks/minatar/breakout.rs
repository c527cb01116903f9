//! Breakout: a paddle, a ball and three rows of bricks; a brick earns 1, a lost ball ends the game.

use serde::{Deserialize, Serialize};

use super::game::{Board, Chance, Game, Move, SIDE, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breakout;

/// Rows of bricks, from the top.
const BRICK_ROWS: std::ops::Range<usize> = 1..4;
/// A full row, a bit a column.
const FULL_ROW: u16 = (1 << SIDE) - 1;

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
    /// Bricks of each row, a bit a column.
    bricks: [u16; SIDE as usize],
    /// The ball has hit a brick since it last flew free.
    strike: bool,
}

fn wall() -> [u16; SIDE as usize] {
    let mut bricks = [0; SIDE as usize];
    bricks[BRICK_ROWS].fill(FULL_ROW);
    bricks
}

impl State {
    fn has_brick(&self, x: i32, y: i32) -> bool {
        self.bricks[y as usize] >> x & 1 == 1
    }
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
            bricks: wall(),
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
        match chosen {
            Move::Left => state.paddle = (state.paddle - 1).max(0),
            Move::Right => state.paddle = (state.paddle + 1).min(SIDE - 1),
            _ => {}
        }
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
        } else if state.has_brick(x, y) {
            strikes = true;
            if !state.strike {
                transition.reward = 1.0;
                state.strike = true;
                state.bricks[y as usize] &= !(1 << x);
                y = state.last_y;
                state.is_down = !state.is_down;
            }
        } else if y == SIDE - 1 {
            if state.bricks == [0; SIDE as usize] {
                state.bricks = wall();
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
        board.mark(state.ball_x, state.ball_y, 1);
        board.mark(state.paddle, SIDE - 1, 0);
        board.mark(state.last_x, state.last_y, 2);
        board.mark_rows(&state.bricks, 3);
    }

    fn is_on_board(&self, state: &State) -> bool {
        is_cell(state.ball_x, state.ball_y)
            && is_cell(state.last_x, state.last_y)
            && is_cell(state.paddle, 0)
            && state.bricks.iter().all(|row| *row <= FULL_ROW)
    }
}
