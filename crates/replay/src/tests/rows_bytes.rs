//! Checkpoints of uniform and prioritised memories: equal samples afterwards, other configurations,
//! and damaged bytes.

use super::prioritized::{PLAIN, insert, memory_of};
use super::rows::layout;
use super::{random_below, random_uniform};
use crate::{
    Error, ItemId, LeafRef, Prioritization, PrioritizedBatch, PrioritizedMemory, UniformMemory,
};

fn uniform(n: u32) -> UniformMemory {
    let mut memory = UniformMemory::new(layout(), 5).unwrap();
    for number in 0..n {
        let x = number as f32;
        let cells = [
            LeafRef::F32(&[x, -x, 0.5]),
            LeafRef::U32(&[number]),
            LeafRef::U8(&[1, 2]),
        ];
        memory.insert(&cells).unwrap();
    }
    memory
}

fn prioritized(n: u32) -> PrioritizedMemory {
    let mut memory = memory_of(40, PLAIN);
    for number in 0..n {
        let id = insert(&mut memory, number);
        memory
            .update(&[id, ItemId(0)], &[number as f32 / 3.0, 2.0])
            .unwrap();
    }
    memory
}

#[test]
fn prioritised_memories_from_bytes_go_on_alike() {
    for n in [0, 1, 39, 40, 41, 90] {
        let mut first = prioritized(n);
        insert(&mut first, n); // not in the sums yet
        let mut second = prioritized(7);
        second.restore(&first.to_bytes()).unwrap();
        let (mut states, mut batches) = (
            [5; 2],
            [PrioritizedBatch::default(), PrioritizedBatch::default()],
        );
        for round in 0..60 {
            for (idx, memory) in [&mut first, &mut second].into_iter().enumerate() {
                let state = &mut states[idx];
                let batch = &mut batches[idx];
                let n_items = memory.len().min(8);
                memory
                    .sample_into(n_items, 0.4, &mut || random_uniform(state), batch)
                    .unwrap();
                let errors: Vec<_> = batch
                    .ids
                    .iter()
                    .map(|_| random_uniform(state) as f32)
                    .collect();
                insert(memory, round);
                memory.update(&batch.ids, &errors).unwrap();
            }
            assert_eq!(batches[0], batches[1]);
        }
        assert_eq!(first.to_bytes(), second.to_bytes());
        assert!(first.n_stale_updates() > 0 || n == 0);
    }
}

#[test]
fn uniform_memories_from_bytes_go_on_alike() {
    for n in [0, 1, 5, 12] {
        let (mut first, mut second) = (uniform(n), uniform(3));
        second.restore(&first.to_bytes()).unwrap();
        assert_eq!(first, second);
        for memory in [&mut first, &mut second] {
            memory.insert_rows(&memory.ring.rows.clone()).unwrap();
        }
        assert_eq!(first, second);
        let (mut states, mut ids) = ([1; 2], [Vec::new(), Vec::new()]);
        for (idx, memory) in [&first, &second].into_iter().enumerate() {
            let mut below = |n| random_below(&mut states[idx], n);
            memory
                .sample_into(memory.len(), &mut below, &mut ids[idx])
                .unwrap();
        }
        assert_eq!(ids[0], ids[1]);
    }
}

#[test]
fn checkpoints_of_other_configurations_are_named() {
    let bytes = prioritized(9).to_bytes();
    let mut smaller = memory_of(39, PLAIN);
    let error = smaller.restore(&bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "PrioritizedMemory::restore: the capacity of the bytes: expected 39, given 40"
    );
    let mut flatter = memory_of(
        40,
        Prioritization {
            alpha: 0.5,
            ..PLAIN
        },
    );
    let error = flatter.restore(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("the prioritization of the bytes: expected alpha 0.5 and"),
        "{error}"
    );
    let mut wider = PrioritizedMemory::new(layout(), 40, PLAIN).unwrap();
    let error = wider.restore(&bytes).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "expected observation: 3 f32, action: 1 u32, flags: 2 u8, given number: 1 u32"
        ),
        "{error}"
    );
    let error = uniform(1).restore(&bytes).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }));
}

/// What restores has the bytes it came from, and what does not leaves the memory alone.
fn survives(bytes: &[u8], restore: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {
    for len in 0..bytes.len() {
        assert_eq!(restore(&bytes[..len]), None, "{len} bytes");
    }
    for n_more in [1, 4] {
        let mut long = bytes.to_vec();
        long.resize(bytes.len() + n_more, 0);
        assert_eq!(restore(&long), None);
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x40, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[at] ^= flip;
            if let Some(again) = restore(&changed) {
                assert_eq!(again, changed, "byte {at}");
            }
        }
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    for n in [0, 3, 12] {
        survives(&uniform(n).to_bytes(), &mut |bytes| {
            let mut memory = uniform(2);
            let restored = memory.restore(bytes).is_ok();
            assert!(restored || memory == uniform(2));
            restored.then(|| memory.to_bytes())
        });
    }
    for n in [0, 3, 50] {
        let untouched = prioritized(2).to_bytes();
        survives(&prioritized(n).to_bytes(), &mut |bytes| {
            let mut memory = prioritized(2);
            let restored = memory.restore(bytes).is_ok();
            assert!(restored || memory.to_bytes() == untouched);
            let mut batch = PrioritizedBatch::default();
            let n_items = memory.len().min(4);
            memory
                .sample_into(n_items, 0.5, &mut || 0.7, &mut batch)
                .unwrap();
            restored.then(|| memory.to_bytes())
        });
    }
}

/// After the layout of one column (4 + 4 + 6 + 4 + 4 bytes): magic 0, alpha 8, epsilon 12, layout
/// 16, capacity 38, insertions 46, three rows 54, stale updates 66, largest 74, leaves 78.
#[test]
fn every_broken_rule_is_found() {
    let sound = prioritized(3).to_bytes();
    assert_eq!(sound.len(), 90);
    let cases: [(usize, u32, &str); 9] = [
        (0, 0, "the first 8 bytes are not this form and version"),
        (16, 0, "the columns make no layout"),
        (24, u32::MAX, "a column's name is not UTF-8"),
        (30, 3, "a column's kind is none of 0, 1 and 2"),
        (50, u32::MAX, "the number of insertions is without end"),
        (46, 4, "the bytes end early"),
        (
            74,
            0.5f32.to_bits(),
            "a priority is not between 0 and the largest",
        ),
        (78, 0, "a priority is not between 0 and the largest"),
        (
            82,
            f32::NAN.to_bits(),
            "a priority is not between 0 and the largest",
        ),
    ];
    for (at, value, expected) in cases {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let error = prioritized(0).restore(&bytes).unwrap_err();
        let Error::Malformed { reason } = &error else {
            panic!("no such error: {error}")
        };
        assert_eq!(*reason, expected, "{value} at byte {at}");
    }
    for largest in [0.5, f32::INFINITY, f32::NAN] {
        let mut bytes = prioritized(0).to_bytes();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&largest.to_le_bytes());
        assert!(prioritized(0).restore(&bytes).is_err());
    }
}
