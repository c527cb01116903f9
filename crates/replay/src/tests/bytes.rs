//! Checkpoints: bytes out and in, equal samples afterwards, and bytes that are not a memory.

use super::{random_below, record_episode};
use crate::{Ending, EpisodeMemory, Error};

/// A memory whose ring has gone round, with a target, an empty last episode or an open one.
fn memory(n_open_steps: u32) -> EpisodeMemory {
    let mut memory = EpisodeMemory::new(10);
    record_episode(&mut memory, 3, 6, Ending::Terminated);
    record_episode(&mut memory, 1, 7, Ending::Truncated);
    memory.begin_episode(2);
    for step in 0..n_open_steps {
        memory.record(step, -1.0, Some(0.25)).unwrap();
    }
    memory
}

#[test]
fn a_memory_from_bytes_goes_on_alike() {
    for n_open_steps in [0, 1, 9, 10, 11, 30] {
        let mut first = memory(n_open_steps);
        let mut second = EpisodeMemory::from_bytes(&first.to_bytes()).unwrap();
        assert_eq!(first, second);
        let mut states = [5; 2];
        for round in 0..40 {
            let a = first.sample(8, &mut |n| random_below(&mut states[0], n));
            let b = second.sample(8, &mut |n| random_below(&mut states[1], n));
            assert_eq!(a, b);
            let targets =
                |memory: &EpisodeMemory| a.iter().map(|t| memory.target(t)).collect::<Vec<_>>();
            assert_eq!(targets(&first), targets(&second));
            for memory in [&mut first, &mut second] {
                memory.record(round, 1.5, None).unwrap();
                if round % 9 == 8 {
                    memory.begin_episode(u64::from(round));
                }
            }
        }
        assert_eq!(first.to_bytes(), second.to_bytes());
    }
}

#[test]
fn an_empty_memory_goes_through_bytes() {
    let mut memory = EpisodeMemory::new(3);
    assert_eq!(
        EpisodeMemory::from_bytes(&memory.to_bytes()),
        Ok(memory.clone())
    );
    memory.begin_episode(1);
    assert_eq!(
        EpisodeMemory::from_bytes(&memory.to_bytes()),
        Ok(memory.clone())
    );
    memory.end_episode(Ending::Cut).unwrap();
    assert_eq!(EpisodeMemory::from_bytes(&memory.to_bytes()), Ok(memory));
}

fn reason(bytes: &[u8]) -> &'static str {
    match EpisodeMemory::from_bytes(bytes) {
        Err(Error::Malformed { reason }) => reason,
        other => panic!("no such error: {other:?}"),
    }
}

/// Byte offsets in `memory(2)`: magic 0, capacity 8, n_recorded 16, next_episode 24, n_episodes 32,
/// open 40; the first kept episode at 44 (id, graph, first, ending, n_picks, 6 picks: 56 bytes),
/// the second at 100 (7 picks: 60), the open one at 160 (2 picks: 40), ten slots at 200.
#[test]
fn every_broken_rule_is_found() {
    let nan = f32::NAN.to_bits() + 1;
    let cases: [(usize, u32, &str); 14] = [
        (0, 0, "the first 8 bytes are not this form and version"),
        (
            8,
            0,
            "the capacity is 0 or more than this machine addresses",
        ),
        (8, 1, "the episodes are not those of the last transitions"),
        (16, 14, "the episodes are not those of the last transitions"),
        (24, 2, "the episodes' numbers do not ascend"),
        (40, 2, "the open flag is neither 0 nor 1"),
        (44, 1, "the episodes' numbers do not ascend"),
        (60, 1, "an episode does not begin where the one before ends"),
        (68, 3, "an episode's ending is none of 0, 1 and 2"),
        (72, u32::MAX, "the bytes end early"),
        (184, 0, "the open episode has an ending"),
        (
            200,
            f32::INFINITY.to_bits(),
            "a reward or target is not finite",
        ),
        (204, nan, "a reward or target is not finite"),
        (
            204,
            f32::INFINITY.to_bits(),
            "a reward or target is not finite",
        ),
    ];
    let sound = memory(2).to_bytes();
    assert_eq!(sound.len(), 200 + 10 * 8);
    for (at, value, expected) in cases {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert_eq!(reason(&bytes), expected, "{value} at byte {at}");
    }
}

#[test]
fn episodes_that_do_not_fit_together_are_found() {
    let reason_after = |change: &dyn Fn(&mut EpisodeMemory)| {
        let mut memory = memory(2);
        change(&mut memory);
        reason(&memory.to_bytes())
    };
    let not_those = "the episodes are not those of the last transitions";
    let no_first = reason_after(&|memory| drop(memory.episodes.pop_front()));
    assert_eq!(no_first, not_those);
    let none = reason_after(&|memory| {
        memory.episodes.clear();
        memory.is_open = false;
    });
    assert_eq!(none, "the episodes of its transitions are missing");
    let open_without_episode = reason_after(&|memory| {
        *memory = EpisodeMemory::new(3);
        memory.is_open = true;
    });
    assert_eq!(
        open_without_episode,
        "the episodes of its transitions are missing"
    );
    let empty_between = reason_after(&|memory| {
        memory.episodes[1].picks.clear();
        memory.episodes[1].first = memory.episodes[2].first;
        memory.episodes[0].picks.extend([0; 7]);
    });
    assert_eq!(
        empty_between,
        "an episode does not begin where the one before ends"
    );
    let endless = reason_after(&|memory| memory.episodes[2].first = u64::MAX);
    assert_eq!(endless, "an episode begins at a number without end");
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    for bytes in [
        memory(2).to_bytes(),
        memory(0).to_bytes(),
        EpisodeMemory::new(3).to_bytes(),
    ] {
        for len in 0..bytes.len() {
            assert!(
                EpisodeMemory::from_bytes(&bytes[..len]).is_err(),
                "{len} bytes"
            );
        }
        for n_more in [1, 8] {
            let mut long = bytes.clone();
            long.resize(bytes.len() + n_more, 0);
            let expected = "the bytes end before or after the last transition";
            assert_eq!(reason(&long), expected);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(memory) = EpisodeMemory::from_bytes(&changed) {
                    assert_eq!(memory.to_bytes(), changed, "byte {at}");
                    memory
                        .iter()
                        .for_each(|transition| assert!(memory.prefix(&transition).is_some()));
                }
            }
        }
    }
}
