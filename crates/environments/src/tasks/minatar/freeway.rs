//! Freeway: a chicken crosses eight lanes of cars; the other side earns 1, a car sends it back. A
//! game has 2,500 steps.

use serde::{Deserialize, Serialize};

use super::game::{Board, Cells, Chance, Game, Move, SIDE, is_cell};
use crate::functional::Transition;

/// The rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freeway;

const N_CARS: usize = 8;
/// Steps between two moves of the chicken.
const PLAYER_SPEED: i32 = 3;
const TIME_LIMIT: i32 = 2500;
/// Column of the chicken.
const COLUMN: i32 = 4;

/// A car of the lane below its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Car {
    x: i32,
    timer: i32,
    /// Steps between two moves, 1 to 5; below 0 to the left.
    speed: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    cars: [Car; N_CARS],
    y: i32,
    move_timer: i32,
    terminate_timer: i32,
}

impl Car {
    /// Moves a cell when its time has come, without a branch: cars of all speeds are hard to predict.
    fn advance(&mut self) {
        let moves = self.timer <= 0;
        let by = self.speed.signum() * i32::from(moves);
        self.x = on_ring(self.x + by);
        self.timer = if moves {
            self.speed.abs()
        } else {
            self.timer - 1
        };
    }
}

/// A column at most one beyond the border, on the other side of the board.
fn on_ring(x: i32) -> i32 {
    x + SIDE * (i32::from(x < 0) - i32::from(x >= SIDE))
}

impl State {
    /// Gives every car a speed and a direction; it keeps its place.
    fn draw_speeds(&mut self, chance: &mut impl Chance) {
        for car in &mut self.cars {
            car.speed = 1 + chance.below(5) as i32;
        }
        for car in &mut self.cars {
            car.timer = car.speed;
            if chance.flag(0.5) {
                car.speed = -car.speed;
            }
        }
    }
}

impl Game for Freeway {
    type State = State;

    const N_CHANNELS: usize = 7;
    const MINIMAL: &'static [Move] = &[Move::Nothing, Move::Up, Move::Down];

    fn initial(&self, chance: &mut impl Chance) -> State {
        let mut state = State {
            cars: [Car::default(); N_CARS],
            y: SIDE - 1,
            move_timer: PLAYER_SPEED,
            terminate_timer: TIME_LIMIT,
        };
        state.draw_speeds(chance);
        state
    }

    fn advance(
        &self,
        state: &mut State,
        chosen: Move,
        _ramping: bool,
        chance: &mut impl Chance,
    ) -> Transition {
        let mut transition = Transition::default();
        let down = chosen.down() * i32::from(state.move_timer == 0);
        state.move_timer = if down == 0 {
            state.move_timer
        } else {
            PLAYER_SPEED
        };
        state.y = (state.y + down).clamp(0, SIDE - 1);
        if state.y == 0 {
            transition.reward = 1.0;
            state.draw_speeds(chance);
            state.y = SIDE - 1;
        }
        let columns = state.cars.map(|car| car.x);
        state.cars.iter_mut().for_each(Car::advance);
        // A car hits from where it was, or where it is now.
        if (1..=N_CARS as i32).contains(&state.y) {
            let lane = state.y as usize - 1;
            if columns[lane] == COLUMN || state.cars[lane].x == COLUMN {
                state.y = SIDE - 1;
            }
        }
        state.move_timer -= i32::from(state.move_timer > 0);
        state.terminate_timer -= 1;
        transition.terminated = state.terminate_timer < 0;
        transition
    }

    fn draw(&self, state: &State, board: &mut Board) {
        board.mark(Cells::at(COLUMN, state.y), 0);
        let mut cars = Cells::default();
        for (car, row) in state.cars.iter().zip(1..) {
            cars = cars.with(Cells::at(car.x, row));
            let behind = on_ring(car.x - car.speed.signum());
            let channel = car.speed.unsigned_abs() as usize + 1;
            board.mark(Cells::at(behind, row), channel);
        }
        board.mark(cars, 1);
    }

    fn is_on_board(&self, state: &State) -> bool {
        let is_car = |car: &Car| {
            is_cell(car.x, 0)
                && (1..=5).contains(&car.speed.unsigned_abs())
                && (0..=5).contains(&car.timer)
        };
        is_cell(0, state.y)
            && (0..=PLAYER_SPEED).contains(&state.move_timer)
            && (-1..=TIME_LIMIT).contains(&state.terminate_timer)
            && state.cars.iter().all(is_car)
    }
}
