//! Every task beside the reference implementation: `tests/fixtures/make.py` made the steps.

use std::io::Read as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use shardgraph_random::KeyedRng;

use super::acrobot::Acrobot;
use super::minatar::{
    Asterix, Board, Breakout, Chance, Freeway, Game, MOVES, Seaquest, SpaceInvaders,
};
use super::mountain_car::{MountainCar, MountainCarContinuous};
use super::pendulum::Pendulum;
use super::tabular::{CliffWalking, FrozenLake, FrozenLakeOptions, Taxi, Trip};
use crate::functional::{Action, FunctionalEnvironment, Transition};

/// The lines of a fixture.
fn rows<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = format!(
        "{}/tests/fixtures/{name}.jsonl.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A step of a control task.
#[derive(Deserialize)]
struct Step {
    before: serde_json::Value,
    action: f64,
    after: serde_json::Value,
    observation: Vec<f64>,
    reward: f64,
    terminated: bool,
}

/// All numbers of a value, in order.
fn numbers(value: &serde_json::Value) -> Vec<f64> {
    match value {
        serde_json::Value::Number(number) => vec![number.as_f64().unwrap()],
        serde_json::Value::Array(items) => items.iter().flat_map(numbers).collect(),
        serde_json::Value::Object(keys) => keys.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

fn assert_near(found: &[f64], expected: &[f64], margin: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= margin * (1.0 + b.abs()),
            "{what}: {found:?} {expected:?}"
        );
    }
}

/// Compares every step of a fixture; returns how many ended an episode.
fn check_control<E: FunctionalEnvironment>(environment: &E, name: &str, margin: f64) -> usize {
    let (mut n_ends, mut rng) = (0, KeyedRng::new(1, "unused", 0));
    for (idx, step) in rows::<Step>(name).into_iter().enumerate() {
        let what = format!("{name}, step {idx}");
        let mut state: E::State = serde_json::from_value(step.before).unwrap();
        let discrete = [step.action as u32];
        let continuous = [step.action as f32];
        let is_box = environment.action_space().flat_width().unwrap() == 1;
        let action = match is_box {
            true => Action::Continuous(&continuous),
            false => Action::Discrete(&discrete),
        };
        let transition = environment.transition(&mut state, action, &mut rng);
        let after = serde_json::to_value(&state).unwrap();
        assert_near(&numbers(&after), &numbers(&step.after), margin, &what);
        let mut observation = vec![0.0f32; step.observation.len()];
        environment.observe(&state, &mut observation);
        let observation: Vec<f64> = observation.into_iter().map(f64::from).collect();
        assert_near(&observation, &step.observation, margin.max(1e-6), &what);
        assert_near(&[f64::from(transition.reward)], &[step.reward], 1e-5, &what);
        assert_eq!(transition.terminated, step.terminated, "{what}");
        n_ends += usize::from(step.terminated);
    }
    n_ends
}

#[test]
fn control_tasks_step_as_gymnasium_does() {
    assert!(check_control(&MountainCar, "mountain_car", 1e-12) > 0);
    // Gymnasium keeps this state in 32 bits.
    check_control(&MountainCarContinuous, "mountain_car_continuous", 1e-6);
    assert!(check_control(&Acrobot, "acrobot", 1e-10) > 0);
    check_control(&Pendulum, "pendulum", 1e-6);
}

/// Outcomes of a state: by action, (probability, next state, reward, end); and the action mask.
type Outcomes = (u32, Vec<Vec<(f64, u32, f32, bool)>>, Vec<u8>);

#[test]
fn numbered_worlds_have_gymnasiums_outcomes() {
    let mut rng = KeyedRng::new(1, "unused", 0);
    for (state, actions, _) in rows::<Outcomes>("cliff_walking") {
        // The reference lists outcomes of states that no walk is ever in: the cliff and the goal.
        if state >= 37 {
            continue;
        }
        for (action, outcomes) in actions.iter().enumerate() {
            let mut cell = state;
            let numbers = [action as u32];
            let found = CliffWalking.transition(&mut cell, Action::Discrete(&numbers), &mut rng);
            let (_, to, reward, terminated) = outcomes[0];
            assert_eq!(
                (cell, found),
                (to, Transition { reward, terminated }),
                "{state} {action}"
            );
        }
    }
    let mut mask = [false; 6];
    for (number, actions, allowed) in rows::<Outcomes>("taxi") {
        let trip = Trip {
            cell: number / 20,
            passenger: number / 4 % 5,
            destination: number % 4,
        };
        assert_eq!(trip.number(), number);
        Taxi::default().mask(&trip, &mut mask);
        assert_eq!(mask.map(u8::from).as_slice(), allowed, "{trip:?}");
        for (action, outcomes) in actions.iter().enumerate() {
            let mut after = trip;
            let numbers = [action as u32];
            let found =
                Taxi::default().transition(&mut after, Action::Discrete(&numbers), &mut rng);
            let (_, to, reward, terminated) = outcomes[0];
            let expected = (to, Transition { reward, terminated });
            assert_eq!((after.number(), found), expected, "{trip:?} {action}");
        }
    }
}

#[test]
fn ice_slips_as_often_as_gymnasium_says() {
    for side in [4, 8] {
        let lake = FrozenLake::new(&FrozenLakeOptions {
            side,
            slippery: true,
        })
        .unwrap();
        for (state, actions, _) in rows::<Outcomes>(&format!("frozen_lake_{side}")) {
            for (action, outcomes) in actions.iter().enumerate() {
                // From holes and the goal the reference stays where it is; no episode is there.
                if outcomes.len() == 1 {
                    continue;
                }
                let numbers = [action as u32];
                let mut seen: Vec<(u32, u32)> = Vec::new();
                for index in 0..60 {
                    let mut cell = state;
                    let mut rng = KeyedRng::new(1, "ice", index);
                    let found = lake.transition(&mut cell, Action::Discrete(&numbers), &mut rng);
                    seen.push((cell, found.reward as u32));
                }
                seen.sort_unstable();
                seen.dedup();
                let mut expected: Vec<(u32, u32)> = outcomes
                    .iter()
                    .map(|outcome| (outcome.1, outcome.2 as u32))
                    .collect();
                expected.sort_unstable();
                expected.dedup();
                assert_eq!(seen, expected, "{side}: {state} {action}");
            }
        }
    }
}

/// Draws that the reference made.
struct Recorded(std::vec::IntoIter<f64>);

impl Chance for Recorded {
    fn flag(&mut self, p: f64) -> bool {
        self.0.next().unwrap() < p
    }

    fn below(&mut self, n: u32) -> u32 {
        let number = self.0.next().unwrap() as u32;
        assert!(number < n);
        number
    }
}

/// A step of a game.
#[derive(Deserialize)]
struct Played<S> {
    before: S,
    action: usize,
    draws: Vec<f64>,
    after: S,
    board: Vec<usize>,
    reward: f32,
    terminated: bool,
}

/// Compares every step of a game; returns its rewards and its ends.
fn check_game<G: Game>(name: &str) -> (f32, usize)
where
    G::State: PartialEq,
{
    let (game, mut rewards, mut n_ends) = (G::default(), 0.0, 0);
    for (idx, step) in rows::<Played<G::State>>(name).into_iter().enumerate() {
        let what = format!("{name}, step {idx}");
        let mut state = step.before;
        let mut draws = Recorded(step.draws.into_iter());
        let found = game.advance(&mut state, MOVES[step.action], true, &mut draws);
        let expected = Transition {
            reward: step.reward,
            terminated: step.terminated,
        };
        assert_eq!(found, expected, "{what}");
        assert_eq!(state, step.after, "{what}");
        assert_eq!(draws.0.len(), 0, "{what}: draws left");
        assert!(game.is_on_board(&state), "{what}");
        let mut cells = vec![0.0; 100 * G::N_CHANNELS];
        let mut board = Board::default();
        game.draw(&state, &mut board);
        board.write(G::N_CHANNELS, &mut cells);
        let marked: Vec<usize> = (0..cells.len()).filter(|&at| cells[at] > 0.0).collect();
        assert_eq!(marked, step.board, "{what}");
        rewards += step.reward;
        n_ends += usize::from(step.terminated);
    }
    (rewards, n_ends)
}

#[test]
fn games_step_as_minatar_does() {
    let found = [
        check_game::<Breakout>("breakout"),
        check_game::<Asterix>("asterix"),
        check_game::<SpaceInvaders>("space_invaders"),
        check_game::<Seaquest>("seaquest"),
    ];
    assert!(
        found
            .iter()
            .all(|(rewards, n_ends)| *rewards > 0.0 && *n_ends > 0),
        "{found:?}"
    );
    assert!(check_game::<Freeway>("freeway").0 > 0.0);
}
