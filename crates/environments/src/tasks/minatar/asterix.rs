//! Asterix: gold earns 1 and an enemy ends the game; both cross the board in eight rows.

use serde::{Deserialize, Serialize};

use super::game::{Board, Cells, Chance, Game, Move, SIDE, beside, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asterix;

/// Rows in which something may cross, from row 1 on.
const N_ROWS: usize = 8;
const RAMP_INTERVAL: i32 = 100;
const INITIAL_SPAWN_SPEED: i32 = 10;
const INITIAL_MOVE_INTERVAL: i32 = 5;

/// Gold or an enemy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Thing {
    x: i32,
    is_right: bool,
    is_gold: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    x: i32,
    y: i32,
    things: [Option<Thing>; N_ROWS],
    spawn_speed: i32,
    spawn_timer: i32,
    move_speed: i32,
    move_timer: i32,
    ramp_timer: i32,
    ramp_index: u32,
}

impl State {
    fn spawn(&mut self, chance: &mut impl Chance) {
        let is_right = chance.flag(0.5);
        let is_gold = chance.flag(1.0 / 3.0);
        let n_free = self.things.iter().filter(|thing| thing.is_none()).count();
        if n_free == 0 {
            return;
        }
        let choice = chance.below(n_free as u32) as usize;
        let mut free = self.things.iter_mut().filter(|thing| thing.is_none());
        if let Some(place) = free.nth(choice) {
            *place = Some(Thing {
                x: if is_right { 0 } else { SIDE - 1 },
                is_right,
                is_gold,
            });
        }
    }

    /// What the player meets in its row is taken, or ends the game.
    fn meet(&mut self, transition: &mut Transition) {
        let place = &mut self.things[self.y as usize - 1];
        match place {
            Some(thing) if thing.x == self.x => {
                if thing.is_gold {
                    *place = None;
                    transition.reward += 1.0;
                } else {
                    transition.terminated = true;
                }
            }
            _ => {}
        }
    }

    fn move_things(&mut self, transition: &mut Transition) {
        for place in &mut self.things {
            *place = place.and_then(|thing| {
                let x = beside(thing.x, thing.is_right);
                (0..SIDE).contains(&x).then_some(Thing { x, ..thing })
            });
        }
        self.meet(transition);
    }

    fn become_harder(&mut self) {
        if self.spawn_speed <= 1 && self.move_speed <= 1 {
            return;
        }
        if self.ramp_timer >= 0 {
            self.ramp_timer -= 1;
            return;
        }
        if self.move_speed > 1 && self.ramp_index % 2 == 1 {
            self.move_speed -= 1;
        }
        if self.spawn_speed > 1 {
            self.spawn_speed -= 1;
        }
        self.ramp_index += 1;
        self.ramp_timer = RAMP_INTERVAL;
    }
}

impl Game for Asterix {
    type State = State;

    const N_CHANNELS: usize = 4;
    const MINIMAL: &'static [Move] =
        &[Move::Nothing, Move::Left, Move::Up, Move::Right, Move::Down];

    fn initial(&self, _chance: &mut impl Chance) -> State {
        State {
            x: 5,
            y: 5,
            things: [None; N_ROWS],
            spawn_speed: INITIAL_SPAWN_SPEED,
            spawn_timer: INITIAL_SPAWN_SPEED,
            move_speed: INITIAL_MOVE_INTERVAL,
            move_timer: INITIAL_MOVE_INTERVAL,
            ramp_timer: RAMP_INTERVAL,
            ramp_index: 0,
        }
    }

    fn advance(
        &self,
        state: &mut State,
        chosen: Move,
        ramping: bool,
        chance: &mut impl Chance,
    ) -> Transition {
        let mut transition = Transition::default();
        if state.spawn_timer == 0 {
            state.spawn(chance);
            state.spawn_timer = state.spawn_speed;
        }
        state.x = (state.x + chosen.right()).clamp(0, SIDE - 1);
        state.y = (state.y + chosen.down()).clamp(1, N_ROWS as i32);
        state.meet(&mut transition);
        if state.move_timer == 0 {
            state.move_timer = state.move_speed;
            state.move_things(&mut transition);
        }
        state.spawn_timer -= 1;
        state.move_timer -= 1;
        if ramping {
            state.become_harder();
        }
        transition
    }

    fn draw(&self, state: &State, board: &mut Board) {
        board.mark(Cells::at(state.x, state.y), 0);
        for (thing, row) in state.things.iter().zip(1..) {
            let Some(thing) = thing else { continue };
            let channel = if thing.is_gold { 3 } else { 1 };
            board.mark(Cells::at(thing.x, row), channel);
            let behind = beside(thing.x, !thing.is_right);
            board.mark(Cells::within(behind, row), 2);
        }
    }

    fn is_on_board(&self, state: &State) -> bool {
        let timers = [
            (state.spawn_speed, 1, INITIAL_SPAWN_SPEED),
            (state.move_speed, 1, INITIAL_MOVE_INTERVAL),
            (state.spawn_timer, 0, INITIAL_SPAWN_SPEED),
            (state.move_timer, 0, INITIAL_MOVE_INTERVAL),
            (state.ramp_timer, -1, RAMP_INTERVAL),
        ];
        is_cell(state.x, 0)
            && (1..=N_ROWS as i32).contains(&state.y)
            && timers
                .iter()
                .all(|(at, least, most)| (least..=most).contains(&at))
            && state.ramp_index < 1000
            && state
                .things
                .iter()
                .flatten()
                .all(|thing| is_cell(thing.x, 0))
    }
}
