//! The rules of a game as a trait, its board, its moves and its chance.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
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

impl Move {
    /// Columns to the right. Without a branch, as [`Move::down`]: a policy's moves are hard to predict.
    #[inline]
    pub(super) fn right(self) -> i32 {
        i32::from(self == Move::Right) - i32::from(self == Move::Left)
    }

    /// Rows down.
    #[inline]
    pub(super) fn down(self) -> i32 {
        i32::from(self == Move::Down) - i32::from(self == Move::Up)
    }
}

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

/// Cells of the board, a bit a cell, row by row. As text and bytes: a number for each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "[u16; SIDE as usize]", try_from = "[u16; SIDE as usize]")]
pub(crate) struct Cells(u128);

const ROW: u128 = (1 << SIDE) - 1;
const BOARD: u128 = (1 << (SIDE * SIDE)) - 1;

impl Cells {
    /// The cells of rows, a bit a column.
    pub(super) const fn of_rows(rows: [u16; SIDE as usize]) -> Cells {
        let (mut cells, mut y) = (0, 0);
        while y < rows.len() {
            cells |= (rows[y] as u128) << (y * SIDE as usize);
            y += 1;
        }
        Cells(cells)
    }

    pub(super) fn at(x: i32, y: i32) -> Cells {
        Cells(1 << (y * SIDE + x))
    }

    /// The cell of a row that is in the board; none if it is beyond the left or the right border.
    pub(super) fn within(x: i32, y: i32) -> Cells {
        Cells::at(x.clamp(0, SIDE - 1), y).only_if((0..SIDE).contains(&x))
    }

    /// Neighbouring cells from the left of a row on, a bit a column.
    pub(super) fn of_row(bits: u16, y: i32) -> Cells {
        Cells(u128::from(bits) << (y * SIDE))
    }

    /// These, or none; without a branch.
    pub(super) fn only_if(self, is_there: bool) -> Cells {
        Cells(self.0 & u128::from(is_there).wrapping_neg())
    }

    pub(super) fn has(self, x: i32, y: i32) -> bool {
        self.0 >> (y * SIDE + x) & 1 == 1
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn with(self, other: Cells) -> Cells {
        Cells(self.0 | other.0)
    }

    pub(super) fn without(self, other: Cells) -> Cells {
        Cells(self.0 & !other.0)
    }

    pub(super) fn among(self, other: Cells) -> Cells {
        Cells(self.0 & other.0)
    }

    /// A row higher; those of the first row are gone.
    pub(super) fn up(self) -> Cells {
        Cells(self.0 >> SIDE)
    }

    /// A row lower; those of the last row are gone.
    pub(super) fn down(self) -> Cells {
        Cells(self.0 << SIDE & BOARD)
    }

    /// Those of the last row in the first.
    pub(super) fn to_top(self) -> Cells {
        Cells(self.0 >> ((SIDE - 1) * SIDE))
    }

    /// A column to a side, where none is at that border.
    pub(super) fn aside(self, is_right: bool) -> Cells {
        Cells(if is_right { self.0 << 1 } else { self.0 >> 1 })
    }

    /// Columns with a cell, a bit a column.
    pub(super) fn columns(self) -> u16 {
        let fives = self.0 | self.0 >> (5 * SIDE); // rows 0 to 4 with rows 5 to 9
        let pairs = fives | fives >> (2 * SIDE); // rows 0 and 2, 1 and 3, 2 and 4
        ((pairs | pairs >> SIDE | pairs >> (2 * SIDE)) & ROW) as u16
    }

    /// The row of the lowest cell of a column.
    pub(super) fn lowest(self, x: i32) -> Option<i32> {
        (0..SIDE).rev().find(|&y| self.has(x, y))
    }
}

impl From<Cells> for [u16; SIDE as usize] {
    fn from(cells: Cells) -> Self {
        std::array::from_fn(|y| (cells.0 >> (y * SIDE as usize) & ROW) as u16)
    }
}

impl TryFrom<[u16; SIDE as usize]> for Cells {
    type Error = &'static str;

    fn try_from(rows: [u16; SIDE as usize]) -> Result<Cells, Self::Error> {
        match rows.iter().all(|&row| u128::from(row) <= ROW) {
            true => Ok(Cells::of_rows(rows)),
            false => Err("a row has more cells than the board"),
        }
    }
}

/// Channels of the game that has the most.
const MAX_CHANNELS: usize = 10;

/// What is on the board, channel by channel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Board {
    channels: [Cells; MAX_CHANNELS],
}

impl Board {
    pub(super) fn mark(&mut self, cells: Cells, channel: usize) {
        self.channels[channel] = self.channels[channel].with(cells);
    }

    /// Writes an observation: the channels of a cell side by side.
    pub(crate) fn write(&self, n_channels: usize, out: &mut [f32]) {
        out.fill(0.0);
        self.write_changes(&Board::default(), n_channels, out);
    }

    /// Brings the observation of the board `before` up to date.
    #[inline]
    pub(super) fn write_changes(&self, before: &Board, n_channels: usize, out: &mut [f32]) {
        let boards = self.channels.iter().zip(&before.channels);
        for (channel, (&Cells(now), &Cells(before))) in boards.take(n_channels).enumerate() {
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
