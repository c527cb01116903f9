//! Small worlds of numbered states: the frozen lake, the walk along a cliff and the taxi.

use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

/// Writes a one-hot row.
fn one_hot(state: u32, out: &mut [f32]) {
    out.fill(0.0);
    out[state as usize] = 1.0;
}

/// A grid of rows and columns, cell by cell in rows.
#[derive(Clone, Copy, Debug)]
struct Grid {
    n_rows: u32,
    n_columns: u32,
}

impl Grid {
    fn moved(self, cell: u32, direction: (i32, i32)) -> u32 {
        let (down, right) = direction;
        let (row, column) = (cell / self.n_columns, cell % self.n_columns);
        let to = |at: u32, by: i32, n: u32| at.saturating_add_signed(by).min(n - 1);
        to(row, down, self.n_rows) * self.n_columns + to(column, right, self.n_columns)
    }
}

const LEFT: (i32, i32) = (0, -1);
const DOWN: (i32, i32) = (1, 0);
const RIGHT: (i32, i32) = (0, 1);
const UP: (i32, i32) = (-1, 0);

/// A frozen lake with holes: the goal earns 1. On slippery ice the player goes where he wants in one
/// case of three, else to one of the sides.
///
/// # Source
/// Gymnasium's FrozenLake-v1, with its maps.
#[derive(Clone, Copy, Debug)]
pub struct FrozenLake {
    map: &'static [u8],
    grid: Grid,
    is_slippery: bool,
}

/// Options of the lake.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrozenLakeOptions {
    /// Cells of a side: 4 or 8.
    pub side: u32,
    /// The ice is slippery.
    pub slippery: bool,
}

impl Default for FrozenLakeOptions {
    fn default() -> FrozenLakeOptions {
        FrozenLakeOptions {
            side: 4,
            slippery: true,
        }
    }
}

impl FrozenLake {
    /// `None` for a lake that there is no map of.
    pub(crate) fn new(options: &FrozenLakeOptions) -> Option<FrozenLake> {
        let map: &[u8] = match options.side {
            4 => b"SFFFFHFHFFFHHFFG",
            8 => b"SFFFFFFFFFFFFFFFFFFHFFFFFFFFFHFFFFFHFFFFFHHFFFHFFHFFHFHFFFFHFFFG",
            _ => return None,
        };
        Some(FrozenLake {
            map,
            grid: Grid {
                n_rows: options.side,
                n_columns: options.side,
            },
            is_slippery: options.slippery,
        })
    }

    /// Where one of the directions leads.
    fn arrive(&self, cell: u32, direction: u32) -> (u32, Transition) {
        let cell = self
            .grid
            .moved(cell, [LEFT, DOWN, RIGHT, UP][direction as usize]);
        let ground = self.map[cell as usize];
        let transition = Transition {
            reward: f32::from(u8::from(ground == b'G')),
            terminated: matches!(ground, b'G' | b'H'),
        };
        (cell, transition)
    }
}

impl FunctionalEnvironment for FrozenLake {
    type State = u32;

    fn observation_space(&self) -> Space {
        Space::discrete(self.map.len() as u32).expect("cells")
    }

    fn action_space(&self) -> Space {
        Space::discrete(4).expect("four directions")
    }

    fn initial(&self, _rng: &mut KeyedRng) -> u32 {
        0
    }

    fn transition(&self, cell: &mut u32, action: Action<'_>, rng: &mut KeyedRng) -> Transition {
        let slip = if self.is_slippery {
            rng.below_u32(3) + 3
        } else {
            4
        };
        let direction = (action.number() + slip) % 4;
        let (to, transition) = self.arrive(*cell, direction);
        *cell = to;
        transition
    }

    fn observe(&self, cell: &u32, out: &mut [f32]) {
        one_hot(*cell, out);
    }

    fn is_state(&self, cell: &u32) -> bool {
        (*cell as usize) < self.map.len()
    }
}

/// A walk along a cliff: each step costs 1, a fall 100 and leads back to the start.
///
/// # Source
/// Sutton and Barto, Reinforcement Learning, example 6.6; Gymnasium's CliffWalking-v1.
#[derive(Clone, Copy, Debug, Default)]
pub struct CliffWalking;

const CLIFF: Grid = Grid {
    n_rows: 4,
    n_columns: 12,
};
const CLIFF_START: u32 = 36;
const CLIFF_GOAL: u32 = 47;

impl FunctionalEnvironment for CliffWalking {
    type State = u32;

    fn observation_space(&self) -> Space {
        Space::discrete(CLIFF.n_rows * CLIFF.n_columns).expect("cells")
    }

    fn action_space(&self) -> Space {
        Space::discrete(4).expect("four directions")
    }

    fn initial(&self, _rng: &mut KeyedRng) -> u32 {
        CLIFF_START
    }

    fn transition(&self, cell: &mut u32, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        let to = CLIFF.moved(*cell, [UP, RIGHT, DOWN, LEFT][action.number() as usize]);
        let falls = (CLIFF_START + 1..CLIFF_GOAL).contains(&to);
        *cell = if falls { CLIFF_START } else { to };
        Transition {
            reward: if falls { -100.0 } else { -1.0 },
            terminated: to == CLIFF_GOAL,
        }
    }

    fn observe(&self, cell: &u32, out: &mut [f32]) {
        one_hot(*cell, out);
    }

    fn is_state(&self, cell: &u32) -> bool {
        *cell < CLIFF.n_rows * CLIFF.n_columns
    }
}

/// A taxi that picks a passenger up and sets him down: each step costs 1, a wrong stop 10, the right
/// one earns 20. Actions without effect are masked, unless `masked` is false.
///
/// # Source
/// Dietterich, Hierarchical reinforcement learning with the MAXQ value function decomposition, 2000;
/// Gymnasium's Taxi-v4, with its action mask.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Taxi {
    /// A step with an action without effect is refused, as the mask says.
    pub masked: bool,
}

impl Default for Taxi {
    fn default() -> Taxi {
        Taxi { masked: true }
    }
}

const TAXI: Grid = Grid {
    n_rows: 5,
    n_columns: 5,
};
/// Cells of the four places, in Gymnasium's order: red, green, yellow, blue.
const PLACES: [u32; 4] = [0, 4, 20, 23];
/// A passenger who is in the taxi.
const ABOARD: u32 = 4;
/// Cells with a wall on their right, by row.
const WALLS: [&[u32]; 5] = [&[1], &[1], &[], &[0, 2], &[0, 2]];
/// Gymnasium's numbers of the actions.
const ACTIONS: [(i32, i32); 4] = [DOWN, UP, RIGHT, LEFT];
const PICK_UP: u32 = 4;

/// Where the taxi is, where the passenger is, and where he wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// Cell of the taxi.
    pub cell: u32,
    /// The passenger's place, or 4 in the taxi.
    pub passenger: u32,
    /// The place where the passenger wants to go.
    pub destination: u32,
}

impl Trip {
    /// Gymnasium's number of the state.
    pub fn number(&self) -> u32 {
        (self.cell * 5 + self.passenger) * 4 + self.destination
    }

    /// Where a direction leads: walls stop the taxi.
    fn moved(&self, action: u32) -> u32 {
        let (row, column) = (self.cell / TAXI.n_columns, self.cell % TAXI.n_columns);
        let wall_of = |column: u32| WALLS[row as usize].contains(&column);
        let is_stopped = match ACTIONS[action as usize] {
            RIGHT => wall_of(column),
            LEFT => column > 0 && wall_of(column - 1),
            _ => false,
        };
        match is_stopped {
            true => self.cell,
            false => TAXI.moved(self.cell, ACTIONS[action as usize]),
        }
    }

    fn is_passenger_here(&self) -> bool {
        self.passenger < ABOARD && PLACES[self.passenger as usize] == self.cell
    }

    /// The place at the taxi's cell.
    fn place(&self) -> Option<u32> {
        let found = PLACES.iter().position(|place| *place == self.cell);
        found.map(|place| place as u32)
    }
}

impl FunctionalEnvironment for Taxi {
    type State = Trip;

    fn observation_space(&self) -> Space {
        Space::discrete(500).expect("states")
    }

    fn action_space(&self) -> Space {
        Space::discrete(6).expect("six actions")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Trip {
        let passenger = rng.below_u32(ABOARD);
        Trip {
            cell: rng.below_u32(TAXI.n_rows * TAXI.n_columns),
            passenger,
            destination: (passenger + 1 + rng.below_u32(3)) % 4,
        }
    }

    fn transition(&self, trip: &mut Trip, action: Action<'_>, _rng: &mut KeyedRng) -> Transition {
        let mut transition = Transition {
            reward: -1.0,
            terminated: false,
        };
        match action.number() {
            PICK_UP if trip.is_passenger_here() => trip.passenger = ABOARD,
            PICK_UP => transition.reward = -10.0,
            direction if direction < PICK_UP => trip.cell = trip.moved(direction),
            _ => match trip.place().filter(|_| trip.passenger == ABOARD) {
                Some(place) => {
                    trip.passenger = place;
                    if place == trip.destination {
                        transition = Transition {
                            reward: 20.0,
                            terminated: true,
                        };
                    }
                }
                None => transition.reward = -10.0,
            },
        }
        transition
    }

    fn observe(&self, trip: &Trip, out: &mut [f32]) {
        one_hot(trip.number(), out);
    }

    fn has_mask(&self) -> bool {
        self.masked
    }

    fn mask(&self, trip: &Trip, out: &mut [bool]) {
        for direction in 0..PICK_UP {
            out[direction as usize] = trip.moved(direction) != trip.cell;
        }
        out[PICK_UP as usize] = trip.is_passenger_here();
        out[PICK_UP as usize + 1] = trip.passenger == ABOARD && trip.place().is_some();
    }

    fn is_state(&self, trip: &Trip) -> bool {
        trip.cell < 25 && trip.passenger <= ABOARD && trip.destination < 4
    }
}
