//! A game as an environment, with sticky actions.

use serde::{Deserialize, Serialize};
use shardgraph_random::KeyedRng;

use super::game::{Board, Game, MOVES, Move, SIDE};
use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

/// A game as an environment.
#[derive(Clone, Debug)]
pub(crate) struct MinAtar<G> {
    game: G,
    /// Probability that the last action is taken again in place of the chosen one.
    sticky_actions: f64,
    ramping: bool,
    moves: &'static [Move],
}

/// A game's state, and the last action.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Played<S> {
    game: S,
    last_action: u32,
    /// The state's board and the one before the last transition, in turn; absent before the first one.
    #[serde(skip)]
    boards: Option<[Board; 2]>,
    /// Which of both is the state's.
    #[serde(skip)]
    now: u8,
}

/// Options of the games.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MinAtarOptions {
    /// Probability that the last action is taken again in place of the chosen one.
    pub sticky_actions: f64,
    /// The game becomes harder with time.
    pub ramping: bool,
    /// Actions without effect are left out.
    pub minimal_actions: bool,
}

impl Default for MinAtarOptions {
    fn default() -> MinAtarOptions {
        MinAtarOptions {
            sticky_actions: 0.1,
            ramping: true,
            minimal_actions: true,
        }
    }
}

impl<G: Game> MinAtar<G> {
    pub(crate) fn new(options: &MinAtarOptions) -> MinAtar<G> {
        MinAtar {
            game: G::default(),
            sticky_actions: options.sticky_actions,
            ramping: options.ramping,
            moves: if options.minimal_actions {
                G::MINIMAL
            } else {
                &MOVES
            },
        }
    }

    fn draw(&self, game: &G::State) -> Board {
        let mut board = Board::default();
        self.game.draw(game, &mut board);
        board
    }

    fn board_of(&self, state: &Played<G::State>) -> Board {
        match &state.boards {
            Some(boards) => boards[usize::from(state.now)],
            None => self.draw(&state.game),
        }
    }
}

impl<G: Game> FunctionalEnvironment for MinAtar<G> {
    type State = Played<G::State>;

    const OBSERVES_CHANGES: bool = true;

    fn observation_space(&self) -> Space {
        let side = SIDE as usize;
        Space::boxed(&[side, side, G::N_CHANNELS], 0.0, 1.0).expect("a box")
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.moves.len() as u32).expect("moves")
    }

    fn initial(&self, rng: &mut KeyedRng) -> Self::State {
        let game = self.game.initial(rng);
        Played {
            last_action: 0,
            boards: Some([self.draw(&game); 2]),
            now: 0,
            game,
        }
    }

    fn transition(
        &self,
        state: &mut Self::State,
        action: Action<'_>,
        rng: &mut KeyedRng,
    ) -> Transition {
        // Without a branch: it is not known yet when the action is.
        let repeats = self.sticky_actions > 0.0 && rng.chance(self.sticky_actions);
        state.last_action = match repeats {
            true => state.last_action,
            false => action.number(),
        };
        let chosen = self.moves[state.last_action as usize];
        let first = || [self.draw(&state.game); 2];
        let boards = state.boards.get_or_insert_with(first);
        let transition = self
            .game
            .advance(&mut state.game, chosen, self.ramping, rng);
        state.now ^= 1;
        let board = &mut boards[usize::from(state.now)];
        *board = Board::default();
        self.game.draw(&state.game, board);
        transition
    }

    fn observe(&self, state: &Self::State, out: &mut [f32]) {
        self.board_of(state).write(G::N_CHANNELS, out);
    }

    /// Most cells stay as they are: those that change are written.
    fn observe_change(&self, state: &Self::State, out: &mut [f32]) {
        let Some(boards) = &state.boards else {
            return self.observe(state, out);
        };
        let now = usize::from(state.now);
        boards[now].write_changes(&boards[1 - now], G::N_CHANNELS, out);
    }

    fn observe_instead(&self, shown: &Self::State, state: &Self::State, out: &mut [f32]) {
        let (board, before) = (self.board_of(state), self.board_of(shown));
        board.write_changes(&before, G::N_CHANNELS, out);
    }

    fn is_state(&self, state: &Self::State) -> bool {
        (state.last_action as usize) < self.moves.len() && self.game.is_on_board(&state.game)
    }
}
