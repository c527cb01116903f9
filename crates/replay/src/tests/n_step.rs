//! n-step returns against tables worked out by hand: rewards 1, 2, 4, 8 and gamma 1/2, so every
//! full term is 1.

use super::record_episode;
use crate::{Ending, EpisodeMemory, NStep};

/// (step, n, reward_sum, bootstrap_step, discount, whether the sum reached the last step) for an
/// episode of four steps that has not terminated.
const OPEN_TABLE: [(usize, u32, f32, u32, f32, bool); 10] = [
    (0, 1, 1.0, 1, 0.5, false),
    (0, 2, 2.0, 2, 0.25, false),
    (0, 3, 3.0, 3, 0.125, false),
    (0, 4, 4.0, 4, 0.0625, true),
    (0, 5, 4.0, 4, 0.0625, true),
    (1, 2, 4.0, 3, 0.25, false),
    (2, 1, 4.0, 3, 0.5, false),
    (2, 2, 8.0, 4, 0.25, true),
    (3, 1, 8.0, 4, 0.5, true),
    (3, 9, 8.0, 4, 0.5, true),
];

fn check(ending: Ending, expected: impl Fn((usize, u32, f32, u32, f32, bool)) -> NStep) {
    let mut memory = EpisodeMemory::new(100);
    record_episode(&mut memory, 0, 3, Ending::Terminated); // a neighbour before
    record_episode(&mut memory, 0, 4, ending);
    record_episode(&mut memory, 0, 3, Ending::Terminated); // and one behind
    let transitions: Vec<_> = memory.iter().skip(3).take(4).collect();
    for row in OPEN_TABLE {
        let got = memory.n_step(&transitions[row.0], row.1, 0.5);
        assert_eq!(
            got,
            Some(expected(row)),
            "{ending:?}, step {}, n {}",
            row.0,
            row.1
        );
    }
}

fn open_row(row: (usize, u32, f32, u32, f32, bool), ending: Ending) -> NStep {
    let (_, _, reward_sum, step, discount, at_end) = row;
    NStep {
        reward_sum,
        bootstrap_step: Some(step),
        discount,
        ending: at_end.then_some(ending),
    }
}

#[test]
fn a_truncated_episode_bootstraps_at_its_last_state() {
    check(Ending::Truncated, |row| open_row(row, Ending::Truncated));
}

#[test]
fn a_cut_episode_bootstraps_at_its_last_state() {
    check(Ending::Cut, |row| open_row(row, Ending::Cut));
}

#[test]
fn a_terminated_episode_has_nothing_after_its_end() {
    check(Ending::Terminated, |row| {
        let open = open_row(row, Ending::Terminated);
        if !row.5 {
            return open;
        }
        NStep {
            bootstrap_step: None,
            discount: 0.0,
            ..open
        }
    });
}

#[test]
fn a_running_episode_reaches_as_far_as_it_has_come() {
    let mut memory = EpisodeMemory::new(100);
    memory.begin_episode(0);
    let first = memory.record(5, 1.0, None).unwrap();
    let so_far = |memory: &EpisodeMemory| memory.n_step(&first, 3, 0.5).unwrap();
    assert_eq!(
        (so_far(&memory).bootstrap_step, so_far(&memory).ending),
        (Some(1), Some(Ending::Cut))
    );
    memory.record(6, 2.0, None).unwrap();
    assert_eq!(so_far(&memory).bootstrap_step, Some(2));
    memory.record(7, 4.0, None).unwrap();
    memory.record(8, 8.0, None).unwrap();
    assert_eq!(
        (so_far(&memory).bootstrap_step, so_far(&memory).ending),
        (Some(3), None)
    );
}

#[test]
#[should_panic(expected = "at least one reward")]
fn no_steps_are_refused() {
    let mut memory = EpisodeMemory::new(1);
    memory.begin_episode(0);
    let transition = memory.record(0, 0.0, None).unwrap();
    memory.n_step(&transition, 0, 0.9);
}
