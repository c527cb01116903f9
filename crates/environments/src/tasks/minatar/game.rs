//! The rules of a game as a trait, its board, its moves and its chance.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use shardgraph_random::KeyedRng;

use crate::functional::Transition;

/// Cells of a side of the board.
pub(super) const SIDE: i32 = 10;

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
pub(crate) trait Game: Clone + Debug + Default + Send + Sync {
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
    fn draw(&self, state: &Self::State, board: &mut Board);

    /// True if everything is on the board.
    fn is_on_board(&self, state: &Self::State) -> bool;
}

/// Channels of the game that has the most.
const MAX_CHANNELS: usize = 10;

/// What is on the board: for each channel the marked cells, row by row, a bit a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Board {
    channels: [u128; MAX_CHANNELS],
}

impl Board {
    pub(super) fn mark(&mut self, x: i32, y: i32, channel: usize) {
        self.channels[channel] |= 1 << (y * SIDE + x);
    }

    /// Marks a cell, unless it is beyond the left or the right border.
    pub(super) fn mark_within(&mut self, x: i32, y: i32, channel: usize) {
        if (0..SIDE).contains(&x) {
            self.mark(x, y, channel);
        }
    }

    /// Marks cells of a row, a bit a column.
    pub(super) fn mark_row(&mut self, bits: u16, y: i32, channel: usize) {
        self.channels[channel] |= u128::from(bits) << (y * SIDE);
    }

    /// Marks cells of all rows, a bit a column.
    pub(super) fn mark_rows(&mut self, rows: &[u16; SIDE as usize], channel: usize) {
        for (y, &bits) in (0..).zip(rows) {
            self.mark_row(bits, y, channel);
        }
    }

    /// Writes an observation: the channels of a cell side by side.
    pub(crate) fn write(&self, n_channels: usize, out: &mut [f32]) {
        out.fill(0.0);
        self.write_changes(&Board::default(), n_channels, out);
    }

    /// Brings the observation of the board `before` up to date.
    pub(super) fn write_changes(&self, before: &Board, n_channels: usize, out: &mut [f32]) {
        let boards = self.channels.iter().zip(&before.channels);
        for (channel, (&now, &before)) in boards.take(n_channels).enumerate() {
            let mut changed = now ^ before;
            while changed != 0 {
                let cell = changed.trailing_zeros() as usize;
                changed &= changed - 1;
                out[cell * n_channels + channel] = f32::from((now >> cell) as u8 & 1);
            }
        }
    }
}

/// True for a cell of the board.
pub(super) fn is_cell(x: i32, y: i32) -> bool {
    (0..SIDE).contains(&x) && (0..SIDE).contains(&y)
}

/// The neighbouring column in a direction.
pub(super) fn beside(x: i32, is_right: bool) -> i32 {
    if is_right { x + 1 } else { x - 1 }
}
