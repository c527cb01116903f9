//! Seaquest: a submarine shoots fish and other submarines, which earns 1 each, and brings divers to
//! the surface before its oxygen ends.

use serde::{Deserialize, Serialize};

use super::game::{Board, Cells, Chance, Game, MOVES, Move, SIDE, beside, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seaquest;

const MAX_OXYGEN: i32 = 200;
const INITIAL_SPAWN_SPEED: i32 = 20;
const DIVER_SPAWN_SPEED: i32 = 30;
const INITIAL_MOVE_INTERVAL: i32 = 5;
const SHOT_COOL_DOWN: i32 = 5;
const ENEMY_SHOT_INTERVAL: i32 = 10;
const DIVER_MOVE_INTERVAL: i32 = 5;
/// Divers that the submarine holds.
const MAX_DIVERS: i32 = 6;

/// Something that moves along a row: a bullet, a fish, a submarine or a diver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mover {
    x: i32,
    y: i32,
    is_right: bool,
    /// Steps until it moves; bullets move in every step.
    move_timer: i32,
    /// Steps until a submarine shoots.
    shot_timer: i32,
}

impl Mover {
    fn is_at(&self, x: i32, y: i32) -> bool {
        (self.x, self.y) == (x, y)
    }

    /// Moves a cell; false if that is beyond the border.
    fn advance(&mut self) -> bool {
        self.x = beside(self.x, self.is_right);
        (0..SIDE).contains(&self.x)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    x: i32,
    y: i32,
    is_right: bool,
    oxygen: i32,
    n_divers: i32,
    friendly_bullets: Vec<Mover>,
    enemy_bullets: Vec<Mover>,
    fish: Vec<Mover>,
    submarines: Vec<Mover>,
    divers: Vec<Mover>,
    spawn_speed: i32,
    spawn_timer: i32,
    diver_timer: i32,
    move_speed: i32,
    ramp_index: u32,
    shot_timer: i32,
    is_at_surface: bool,
}

/// A row from 1 to 8, with the side from which it is entered.
fn entry(is_right: bool, chance: &mut impl Chance) -> Mover {
    Mover {
        x: if is_right { 0 } else { SIDE - 1 },
        y: 1 + chance.below(8) as i32,
        is_right,
        ..Mover::default()
    }
}

impl State {
    /// A fish or a submarine, unless something comes the other way in its row.
    fn spawn_enemy(&mut self, chance: &mut impl Chance) {
        let is_right = chance.flag(0.5);
        let is_submarine = chance.flag(1.0 / 3.0);
        let mut enemy = entry(is_right, chance);
        let mut others = self.submarines.iter().chain(&self.fish);
        if others.any(|other| other.y == enemy.y && other.is_right != is_right) {
            return;
        }
        enemy.move_timer = self.move_speed;
        if is_submarine {
            enemy.shot_timer = ENEMY_SHOT_INTERVAL;
            self.submarines.push(enemy);
        } else {
            self.fish.push(enemy);
        }
    }

    fn spawn_diver(&mut self, chance: &mut impl Chance) {
        let is_right = chance.flag(0.5);
        let mut diver = entry(is_right, chance);
        diver.move_timer = DIVER_MOVE_INTERVAL;
        self.divers.push(diver);
    }

    fn take(&mut self, chosen: Move) {
        if chosen == Move::Fire && self.shot_timer == 0 {
            self.friendly_bullets.push(Mover {
                x: self.x,
                y: self.y,
                is_right: self.is_right,
                ..Mover::default()
            });
            self.shot_timer = SHOT_COOL_DOWN;
        }
        let right = chosen.right();
        self.is_right = if right == 0 { self.is_right } else { right > 0 };
        self.x = (self.x + right).clamp(0, SIDE - 1);
        self.y = (self.y + chosen.down()).clamp(0, SIDE - 2);
    }

    /// Moves the player's bullets, newest first; the number of enemies that they hit.
    fn move_friendly_bullets(&mut self) -> u32 {
        let mut n_hit = 0;
        for at in (0..self.friendly_bullets.len()).rev() {
            let bullet = &mut self.friendly_bullets[at];
            let is_inside = bullet.advance();
            let (x, y) = (bullet.x, bullet.y);
            let hits = is_inside
                && (remove_at(&mut self.fish, x, y) || remove_at(&mut self.submarines, x, y));
            n_hit += u32::from(hits);
            if hits || !is_inside {
                self.friendly_bullets.remove(at);
            }
        }
        n_hit
    }

    /// Moves the divers; those that the submarine meets come aboard while there is room.
    fn move_divers(&mut self) {
        for at in (0..self.divers.len()).rev() {
            let comes_aboard = |state: &State| {
                state.divers[at].is_at(state.x, state.y) && state.n_divers < MAX_DIVERS
            };
            let mut is_gone = comes_aboard(self);
            self.n_divers += i32::from(is_gone);
            if !is_gone && self.divers[at].move_timer == 0 {
                self.divers[at].move_timer = DIVER_MOVE_INTERVAL;
                is_gone = !self.divers[at].advance();
                if !is_gone && comes_aboard(self) {
                    self.n_divers += 1;
                    is_gone = true;
                }
            } else {
                self.divers[at].move_timer -= 1;
            }
            if is_gone {
                self.divers.remove(at);
            }
        }
    }

    /// Moves fish or submarines, newest first; adds what bullets hit to the reward.
    fn move_enemies(&mut self, are_submarines: bool, transition: &mut Transition) {
        let n_enemies = self.enemies(are_submarines).len();
        for at in (0..n_enemies).rev() {
            let (x, y, move_speed) = (self.x, self.y, self.move_speed);
            let enemy = &mut self.enemies(are_submarines)[at];
            transition.terminated |= enemy.is_at(x, y);
            let mut is_gone = false;
            if enemy.move_timer == 0 {
                enemy.move_timer = move_speed;
                is_gone = !enemy.advance();
                let enemy = *enemy;
                if !is_gone && enemy.is_at(x, y) {
                    transition.terminated = true;
                } else if !is_gone && remove_at(&mut self.friendly_bullets, enemy.x, enemy.y) {
                    transition.reward += 1.0;
                    is_gone = true;
                }
            } else {
                enemy.move_timer -= 1;
            }
            if are_submarines {
                self.shoot(at);
            }
            if is_gone {
                self.enemies(are_submarines).remove(at);
            }
        }
    }

    fn enemies(&mut self, are_submarines: bool) -> &mut Vec<Mover> {
        match are_submarines {
            true => &mut self.submarines,
            false => &mut self.fish,
        }
    }

    /// A submarine shoots when its time has come, also in the step in which it leaves.
    fn shoot(&mut self, at: usize) {
        let submarine = &mut self.submarines[at];
        if submarine.shot_timer > 0 {
            submarine.shot_timer -= 1;
            return;
        }
        submarine.shot_timer = ENEMY_SHOT_INTERVAL;
        self.enemy_bullets.push(Mover {
            move_timer: 0,
            shot_timer: 0,
            ..*submarine
        });
    }

    /// Moves the enemies' bullets; true if one hits the submarine.
    fn move_enemy_bullets(&mut self) -> bool {
        let (x, y) = (self.x, self.y);
        let mut hits = false;
        for at in (0..self.enemy_bullets.len()).rev() {
            let bullet = &mut self.enemy_bullets[at];
            hits |= bullet.is_at(x, y);
            if bullet.advance() {
                hits |= bullet.is_at(x, y);
            } else {
                self.enemy_bullets.remove(at);
            }
        }
        hits
    }

    /// Uses oxygen below the surface. At the surface the divers are counted, and the game is lost
    /// without one.
    fn breathe(&mut self, ramping: bool, transition: &mut Transition) {
        transition.terminated |= self.oxygen <= 0;
        if self.y > 0 {
            self.oxygen -= 1;
            self.is_at_surface = false;
        } else if !self.is_at_surface {
            match self.n_divers {
                0 => transition.terminated = true,
                _ => transition.reward += self.surface(ramping),
            }
        }
    }

    /// Sets divers ashore: one, or all six, which earns what oxygen is left in tenths. After six the
    /// reference counts one diver too few, and so does this.
    fn surface(&mut self, ramping: bool) -> f32 {
        self.is_at_surface = true;
        let mut reward = 0;
        if self.n_divers == MAX_DIVERS {
            self.n_divers = 0;
            reward = self.oxygen * 10 / MAX_OXYGEN;
        }
        self.oxygen = MAX_OXYGEN;
        self.n_divers -= 1;
        if ramping && (self.spawn_speed > 1 || self.move_speed > 2) {
            if self.move_speed > 2 && self.ramp_index % 2 == 1 {
                self.move_speed -= 1;
            }
            if self.spawn_speed > 1 {
                self.spawn_speed -= 1;
            }
            self.ramp_index += 1;
        }
        reward as f32
    }
}

/// Removes the first of those at a cell; true if there is one.
fn remove_at(movers: &mut Vec<Mover>, x: i32, y: i32) -> bool {
    let found = movers.iter().position(|mover| mover.is_at(x, y));
    if let Some(at) = found {
        movers.remove(at);
    }
    found.is_some()
}

/// Where they are.
fn cells_of(movers: &[Mover]) -> Cells {
    let cells = movers.iter().map(|mover| Cells::at(mover.x, mover.y));
    cells.fold(Cells::default(), Cells::with)
}

impl Game for Seaquest {
    type State = State;

    const N_CHANNELS: usize = 10;
    const MINIMAL: &'static [Move] = &MOVES;

    fn initial(&self, _chance: &mut impl Chance) -> State {
        State {
            x: 5,
            y: 0,
            is_right: false,
            oxygen: MAX_OXYGEN,
            n_divers: 0,
            friendly_bullets: Vec::new(),
            enemy_bullets: Vec::new(),
            fish: Vec::new(),
            submarines: Vec::new(),
            divers: Vec::new(),
            spawn_speed: INITIAL_SPAWN_SPEED,
            spawn_timer: INITIAL_SPAWN_SPEED,
            diver_timer: DIVER_SPAWN_SPEED,
            move_speed: INITIAL_MOVE_INTERVAL,
            ramp_index: 0,
            shot_timer: 0,
            is_at_surface: true,
        }
    }

    fn advance(
        &self,
        state: &mut State,
        chosen: Move,
        ramping: bool,
        chance: &mut impl Chance,
    ) -> Transition {
        if state.spawn_timer == 0 {
            state.spawn_enemy(chance);
            state.spawn_timer = state.spawn_speed;
        }
        if state.diver_timer == 0 {
            state.spawn_diver(chance);
            state.diver_timer = DIVER_SPAWN_SPEED;
        }
        state.take(chosen);
        let mut transition = Transition {
            reward: state.move_friendly_bullets() as f32,
            terminated: false,
        };
        state.move_divers();
        state.move_enemies(true, &mut transition);
        transition.terminated |= state.move_enemy_bullets();
        state.move_enemies(false, &mut transition);
        for timer in [
            &mut state.spawn_timer,
            &mut state.diver_timer,
            &mut state.shot_timer,
        ] {
            *timer -= i32::from(*timer > 0);
        }
        state.breathe(ramping, &mut transition);
        transition
    }

    fn draw(&self, state: &State, board: &mut Board) {
        let (submarine, behind) = (
            Cells::at(state.x, state.y),
            beside(state.x, !state.is_right),
        );
        board.mark(submarine, 0);
        board.mark(Cells::within(behind, state.y), 1);
        let n_full = state.oxygen.max(0) * 10 / MAX_OXYGEN;
        board.mark(Cells::of_row((1 << n_full) - 1, SIDE - 1), 7);
        let n_divers = state.n_divers.max(0);
        let divers = ((1 << n_divers) - 1) << (9 - n_divers);
        board.mark(Cells::of_row(divers, SIDE - 1), 8);
        board.mark(cells_of(&state.friendly_bullets), 2);
        board.mark(cells_of(&state.enemy_bullets), 4);
        let mut trails = Cells::default();
        for (movers, channel) in [(&state.fish, 5), (&state.submarines, 6), (&state.divers, 9)] {
            board.mark(cells_of(movers), channel);
            trails = movers.iter().fold(trails, |trails, mover| {
                trails.with(Cells::within(beside(mover.x, !mover.is_right), mover.y))
            });
        }
        board.mark(trails, 3);
    }

    fn is_on_board(&self, state: &State) -> bool {
        let movers = [
            &state.friendly_bullets,
            &state.enemy_bullets,
            &state.fish,
            &state.submarines,
            &state.divers,
        ];
        let timers = [
            (state.oxygen, -1, MAX_OXYGEN),
            (state.n_divers, -1000, MAX_DIVERS),
            (state.spawn_speed, 1, INITIAL_SPAWN_SPEED),
            (state.spawn_timer, 0, INITIAL_SPAWN_SPEED),
            (state.diver_timer, 0, DIVER_SPAWN_SPEED),
            (state.move_speed, 2, INITIAL_MOVE_INTERVAL),
            (state.shot_timer, 0, SHOT_COOL_DOWN),
        ];
        let is_mover = |mover: &Mover| {
            is_cell(mover.x, mover.y)
                && (0..=INITIAL_MOVE_INTERVAL).contains(&mover.move_timer)
                && (0..=ENEMY_SHOT_INTERVAL).contains(&mover.shot_timer)
        };
        is_cell(state.x, state.y)
            && timers
                .iter()
                .all(|(at, least, most)| (least..=most).contains(&at))
            && state.ramp_index < 1000
            && movers.into_iter().flatten().all(is_mover)
    }
}
