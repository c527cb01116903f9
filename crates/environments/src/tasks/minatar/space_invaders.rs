//! Space Invaders: aliens come down row by row and shoot; each that is hit earns 1.

use serde::{Deserialize, Serialize};

use super::game::{Board, Chance, Game, Move, SIDE, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceInvaders;

const SHOT_COOL_DOWN: i32 = 5;
const ENEMY_MOVE_INTERVAL: i32 = 12;
const ENEMY_SHOT_INTERVAL: i32 = 10;
/// The bottom row, which is the cannon's.
const BOTTOM: usize = SIDE as usize - 1;

/// Rows of the board, a bit a column.
type Rows = [u16; SIDE as usize];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    x: i32,
    friendly_bullets: Rows,
    enemy_bullets: Rows,
    aliens: Rows,
    is_right: bool,
    enemy_move_interval: i32,
    alien_move_timer: i32,
    alien_shot_timer: i32,
    ramp_index: u32,
    shot_timer: i32,
}

/// Four rows of six aliens.
fn wave() -> Rows {
    let mut rows = Rows::default();
    rows[..4].fill(0b00_1111_1100);
    rows
}

fn has(rows: &Rows, x: i32, y: usize) -> bool {
    rows[y] >> x & 1 == 1
}

fn count(rows: &Rows) -> i32 {
    rows.iter().map(|row| row.count_ones() as i32).sum()
}

/// Columns with a mark, a bit a column.
fn columns(rows: &Rows) -> u16 {
    rows.iter().fold(0, |columns, row| columns | row)
}

impl State {
    fn move_bullets(&mut self) {
        self.friendly_bullets.rotate_left(1);
        self.friendly_bullets[BOTTOM] = 0;
        self.enemy_bullets.rotate_right(1);
        self.enemy_bullets[0] = 0;
    }

    /// Moves all aliens to a side, or a row down at the border; true if they have landed.
    fn move_aliens(&mut self) -> bool {
        self.alien_move_timer = count(&self.aliens).min(self.enemy_move_interval);
        let border = if self.is_right { SIDE - 1 } else { 0 };
        if columns(&self.aliens) >> border & 1 == 0 {
            for row in &mut self.aliens {
                *row = if self.is_right { *row << 1 } else { *row >> 1 };
            }
            return has(&self.aliens, self.x, BOTTOM);
        }
        self.is_right = !self.is_right;
        let has_landed = self.aliens[BOTTOM] != 0;
        self.aliens.rotate_right(1);
        has_landed || has(&self.aliens, self.x, BOTTOM)
    }

    /// The lowest alien of the column nearest to the cannon shoots; of two, that on the left.
    fn shoot(&mut self) {
        self.alien_shot_timer = ENEMY_SHOT_INTERVAL;
        let columns = columns(&self.aliens);
        let with_aliens = (0..SIDE).filter(|x| columns >> x & 1 == 1);
        let Some(x) = with_aliens.min_by_key(|&x| (x - self.x).abs()) else {
            return;
        };
        if let Some(y) = (0..=BOTTOM).rev().find(|&y| has(&self.aliens, x, y)) {
            self.enemy_bullets[y] |= 1 << x;
        }
    }

    /// Takes aliens and bullets that meet off the board; the number of aliens.
    fn hit(&mut self) -> u32 {
        let mut n_hit = 0;
        for (aliens, bullets) in self.aliens.iter_mut().zip(&mut self.friendly_bullets) {
            let both = *aliens & *bullets;
            if both != 0 {
                n_hit += both.count_ones();
                *aliens &= !both;
                *bullets &= !both;
            }
        }
        n_hit
    }
}

impl Game for SpaceInvaders {
    type State = State;

    const N_CHANNELS: usize = 6;
    const MINIMAL: &'static [Move] = &[Move::Nothing, Move::Left, Move::Right, Move::Fire];

    fn initial(&self, _chance: &mut impl Chance) -> State {
        State {
            x: 5,
            friendly_bullets: Rows::default(),
            enemy_bullets: Rows::default(),
            aliens: wave(),
            is_right: false,
            enemy_move_interval: ENEMY_MOVE_INTERVAL,
            alien_move_timer: ENEMY_MOVE_INTERVAL,
            alien_shot_timer: ENEMY_SHOT_INTERVAL,
            ramp_index: 0,
            shot_timer: 0,
        }
    }

    fn advance(
        &self,
        state: &mut State,
        chosen: Move,
        ramping: bool,
        _chance: &mut impl Chance,
    ) -> Transition {
        match chosen {
            Move::Fire if state.shot_timer == 0 => {
                state.friendly_bullets[BOTTOM] |= 1 << state.x;
                state.shot_timer = SHOT_COOL_DOWN;
            }
            Move::Left => state.x = (state.x - 1).max(0),
            Move::Right => state.x = (state.x + 1).min(SIDE - 1),
            _ => {}
        }
        state.move_bullets();
        let mut terminated =
            has(&state.enemy_bullets, state.x, BOTTOM) || has(&state.aliens, state.x, BOTTOM);
        if state.alien_move_timer == 0 {
            terminated |= state.move_aliens();
        }
        if state.alien_shot_timer == 0 {
            state.shoot();
        }
        let n_hit = state.hit();
        state.shot_timer -= i32::from(state.shot_timer > 0);
        state.alien_move_timer -= 1;
        state.alien_shot_timer -= 1;
        if columns(&state.aliens) == 0 {
            if state.enemy_move_interval > 6 && ramping {
                state.enemy_move_interval -= 1;
                state.ramp_index += 1;
            }
            state.aliens = wave();
        }
        Transition {
            reward: n_hit as f32,
            terminated,
        }
    }

    fn draw(&self, state: &State, board: &mut Board) {
        board.mark(state.x, SIDE - 1, 0);
        board.mark_rows(&state.aliens, 1);
        board.mark_rows(&state.aliens, if state.is_right { 3 } else { 2 });
        board.mark_rows(&state.friendly_bullets, 4);
        board.mark_rows(&state.enemy_bullets, 5);
    }

    fn is_on_board(&self, state: &State) -> bool {
        let rows = [&state.aliens, &state.friendly_bullets, &state.enemy_bullets];
        let timers = [
            (state.shot_timer, 0, SHOT_COOL_DOWN),
            (state.alien_shot_timer, 0, ENEMY_SHOT_INTERVAL),
            (state.alien_move_timer, 0, ENEMY_MOVE_INTERVAL),
            (state.enemy_move_interval, 1, ENEMY_MOVE_INTERVAL),
        ];
        is_cell(state.x, 0)
            && timers
                .iter()
                .all(|(at, least, most)| (least..=most).contains(&at))
            && state.ramp_index < 1000
            && rows.into_iter().flatten().all(|row| *row < 1 << SIDE)
    }
}
