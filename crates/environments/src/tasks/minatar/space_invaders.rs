//! Space Invaders: aliens come down row by row and shoot; each that is hit earns 1.

use serde::{Deserialize, Serialize};

use super::game::{Board, Cells, Chance, Game, Move, SIDE, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceInvaders;

const SHOT_COOL_DOWN: i32 = 5;
const ENEMY_MOVE_INTERVAL: i32 = 12;
const ENEMY_SHOT_INTERVAL: i32 = 10;
/// The bottom row, which is the cannon's.
const BOTTOM: i32 = SIDE - 1;
/// Six aliens.
const ALIENS: u16 = 0b00_1111_1100;
/// Four rows of them.
const WAVE: Cells = Cells::of_rows([ALIENS, ALIENS, ALIENS, ALIENS, 0, 0, 0, 0, 0, 0]);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    x: i32,
    friendly_bullets: Cells,
    enemy_bullets: Cells,
    aliens: Cells,
    is_right: bool,
    enemy_move_interval: i32,
    alien_move_timer: i32,
    alien_shot_timer: i32,
    ramp_index: u32,
    shot_timer: i32,
}

impl State {
    /// Moves all aliens to a side, or a row down at the border; true if they have landed.
    fn move_aliens(&mut self) -> bool {
        self.alien_move_timer = (self.aliens.len() as i32).min(self.enemy_move_interval);
        let border = if self.is_right { SIDE - 1 } else { 0 };
        if self.aliens.columns() >> border & 1 == 0 {
            self.aliens = self.aliens.aside(self.is_right);
            return self.aliens.has(self.x, BOTTOM);
        }
        self.is_right = !self.is_right;
        // Those that leave below come in again above: the game has ended.
        let landed = self.aliens.to_top();
        self.aliens = self.aliens.down().with(landed);
        !landed.is_empty() || self.aliens.has(self.x, BOTTOM)
    }

    /// The lowest alien of the column nearest to the cannon shoots; of two, that on the left.
    fn shoot(&mut self) {
        self.alien_shot_timer = ENEMY_SHOT_INTERVAL;
        let columns = self.aliens.columns();
        let with_aliens = (0..SIDE).filter(|x| columns >> x & 1 == 1);
        let Some(x) = with_aliens.min_by_key(|&x| (x - self.x).abs()) else {
            return;
        };
        if let Some(y) = self.aliens.lowest(x) {
            self.enemy_bullets = self.enemy_bullets.with(Cells::at(x, y));
        }
    }
}

impl Game for SpaceInvaders {
    type State = State;

    const N_CHANNELS: usize = 6;
    const MINIMAL: &'static [Move] = &[Move::Nothing, Move::Left, Move::Right, Move::Fire];

    fn initial(&self, _chance: &mut impl Chance) -> State {
        State {
            x: 5,
            friendly_bullets: Cells::default(),
            enemy_bullets: Cells::default(),
            aliens: WAVE,
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
        let fires = chosen == Move::Fire && state.shot_timer == 0;
        let bullet = Cells::at(state.x, BOTTOM).only_if(fires);
        state.shot_timer = if fires {
            SHOT_COOL_DOWN
        } else {
            state.shot_timer
        };
        state.x = (state.x + chosen.right()).clamp(0, SIDE - 1);
        state.friendly_bullets = state.friendly_bullets.with(bullet).up();
        state.enemy_bullets = state.enemy_bullets.down();
        let mut terminated =
            state.enemy_bullets.has(state.x, BOTTOM) || state.aliens.has(state.x, BOTTOM);
        if state.alien_move_timer == 0 {
            terminated |= state.move_aliens();
        }
        if state.alien_shot_timer == 0 {
            state.shoot();
        }
        let hit = state.aliens.among(state.friendly_bullets);
        state.aliens = state.aliens.without(hit);
        state.friendly_bullets = state.friendly_bullets.without(hit);
        state.shot_timer -= i32::from(state.shot_timer > 0);
        state.alien_move_timer -= 1;
        state.alien_shot_timer -= 1;
        if state.aliens.is_empty() {
            if state.enemy_move_interval > 6 && ramping {
                state.enemy_move_interval -= 1;
                state.ramp_index += 1;
            }
            state.aliens = WAVE;
        }
        Transition {
            reward: hit.len() as f32,
            terminated,
        }
    }

    fn draw(&self, state: &State, board: &mut Board) {
        board.mark(Cells::at(state.x, BOTTOM), 0);
        board.mark(state.aliens, 1);
        board.mark(state.aliens, if state.is_right { 3 } else { 2 });
        board.mark(state.friendly_bullets, 4);
        board.mark(state.enemy_bullets, 5);
    }

    fn is_on_board(&self, state: &State) -> bool {
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
    }
}
