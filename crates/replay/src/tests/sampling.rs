//! Sampling: every transition and no other, each as often as the next.

use super::{random_below, record_episode};
use crate::{Ending, EpisodeMemory, Transition};

/// A memory of 50 transitions that holds the last 50 of 63, in episodes of 7: its ring has gone
/// round.
fn memory_of_50() -> EpisodeMemory {
    let mut memory = EpisodeMemory::new(50);
    for graph_id in 0..9 {
        record_episode(&mut memory, graph_id, 7, Ending::Terminated);
    }
    assert_eq!(memory.len(), 50);
    memory
}

#[test]
fn each_number_below_n_is_one_transition() {
    let memory = memory_of_50();
    let mut next = 0;
    let drawn = memory.sample(50, &mut |n| {
        assert_eq!(n, 50);
        next += 1;
        next - 1
    });
    assert_eq!(drawn, memory.iter().collect::<Vec<_>>());
    assert_eq!(drawn[0].generation, 13);
    let newest = drawn[49];
    assert_eq!(
        (newest.generation, newest.graph_id, newest.step),
        (62, 8, 6)
    );
}

/// With 49 degrees of freedom chi-square is 49 +- 9.9; 49 + 6 * 9.9 is never passed by an even
/// sampler with this seed.
#[test]
fn every_transition_comes_as_often_as_the_next() {
    let memory = memory_of_50();
    let (mut state, mean) = (1, 400.0);
    let mut counts = [0u32; 50];
    for transition in memory.sample(50 * 400, &mut |n| random_below(&mut state, n)) {
        counts[transition.generation as usize - 13] += 1;
    }
    let chi_square: f64 = counts
        .iter()
        .map(|&count| (f64::from(count) - mean).powi(2) / mean)
        .sum();
    assert!(chi_square < 49.0 + 6.0 * 9.9, "chi-square {chi_square}");
    assert!(counts[0] > 0 && counts[49] > 0);
}

#[test]
fn a_half_full_memory_samples_what_it_holds() {
    let mut memory = EpisodeMemory::new(1000);
    assert!(memory.sample(3, &mut |_| 0).is_empty());
    record_episode(&mut memory, 4, 5, Ending::Cut);
    memory.begin_episode(5);
    let (mut state, mut drawn) = (9, memory.iter().collect()); // what the list held goes
    memory.sample_into(200, &mut |n| random_below(&mut state, n), &mut drawn);
    let mut steps: Vec<_> = drawn
        .iter()
        .map(|transition: &Transition| transition.step)
        .collect();
    steps.sort_unstable();
    steps.dedup();
    assert_eq!((drawn.len(), steps), (200, vec![0, 1, 2, 3, 4]));
}

#[test]
#[should_panic(expected = "below(50) gave 50")]
fn a_number_beyond_n_is_refused() {
    memory_of_50().sample(1, &mut |n| n);
}
