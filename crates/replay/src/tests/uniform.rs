//! The uniform memory against one that keeps everything, rows of every width, and even sampling.

use proptest::prelude::*;

use super::random_below;
use crate::naive::NaiveRows;
use crate::{ColumnLayout, ElementKind, Error, ItemId, LeafRef, Rows, UniformMemory};

/// One column of each kind and of each width that is copied in another way.
fn wide_layout() -> ColumnLayout {
    ColumnLayout::new(&[
        ("a", ElementKind::F32, 1),
        ("b", ElementKind::F32, 2),
        ("c", ElementKind::U32, 3),
        ("d", ElementKind::U32, 4),
        ("e", ElementKind::U8, 8),
        ("f", ElementKind::U8, 9),
    ])
    .unwrap()
}

/// A row of which every element says where it is and which row it is of.
fn insert(number: u32, mut put: impl FnMut(&[LeafRef<'_>])) {
    let float = |i: u32| (number * 10 + i) as f32;
    let word = |i: u32| number * 10 + i;
    let byte = |i: u32| (number * 10 + i) as u8;
    let bytes: Vec<u8> = (0..9).map(byte).collect();
    put(&[
        LeafRef::F32(&[float(0)]),
        LeafRef::F32(&[float(0), float(1)]),
        LeafRef::U32(&[word(0), word(1), word(2)]),
        LeafRef::U32(&[word(0), word(1), word(2), word(3)]),
        LeafRef::U8(&bytes[..8]),
        LeafRef::U8(&bytes),
    ]);
}

fn rows_of(numbers: impl IntoIterator<Item = u32>) -> Rows {
    let mut rows = Rows::new(wide_layout());
    for number in numbers {
        insert(number, |cells| rows.push(cells).unwrap());
    }
    rows
}

proptest! {
    #[test]
    fn rows_come_back_as_they_went_in(
        capacity in prop::sample::select(vec![1usize, 2, 7, 16, 33]),
        blocks in prop::collection::vec((any::<bool>(), 0u32..40), 0..6),
    ) {
        let mut memory = UniformMemory::new(wide_layout(), capacity).unwrap();
        let mut naive = NaiveRows::new(capacity);
        for (as_block, n) in blocks {
            let first = naive.rows.len() as u32;
            if as_block {
                let id = memory.insert_rows(&rows_of(first..first + n)).unwrap();
                prop_assert_eq!(id, ItemId(u64::from(first)));
            }
            for number in first..first + n {
                if !as_block {
                    insert(number, |cells| assert_eq!(memory.insert(cells), Ok(ItemId(u64::from(number)))));
                }
                naive.insert(number, None);
            }
        }
        prop_assert_eq!(memory.n_inserted(), naive.rows.len() as u64);
        let live: Vec<_> = naive.by_slot().iter().map(|&(id, _)| id).collect();
        prop_assert_eq!(memory.len(), live.len());
        let mut out = rows_of([0]);
        memory.gather_into(&live, &mut out).unwrap();
        prop_assert_eq!(&out, &rows_of(live.iter().map(|id| id.0 as u32)));
        // Stale and future rows are refused, and leave the batch as it was.
        for id in [naive.rows.len() as u64, u64::MAX].into_iter().chain((naive.rows.len() as u64).checked_sub(capacity as u64 + 1)) {
            let error = memory.gather_into(&[ItemId(id)], &mut out).unwrap_err();
            let is_stale = matches!(error, Error::Stale { .. });
            prop_assert!(is_stale);
            prop_assert_eq!(out.len(), live.len());
        }
    }
}

/// With 49 degrees of freedom chi-square is 49 +- 9.9; 49 + 6 * 9.9 is never passed by an even
/// sampler with this seed.
#[test]
fn every_row_comes_as_often_as_the_next() {
    let mut memory = UniformMemory::new(wide_layout(), 50).unwrap();
    memory.insert_rows(&rows_of(0..63)).unwrap();
    let (mut state, mut ids, mut counts) = (1, Vec::new(), [0u32; 50]);
    for _ in 0..400 {
        let mut below = |n| random_below(&mut state, n);
        memory.sample_into(50, &mut below, &mut ids).unwrap();
        ids.iter().for_each(|id| counts[id.0 as usize - 13] += 1);
    }
    let chi_square: f64 = counts
        .iter()
        .map(|&n| (f64::from(n) - 400.0).powi(2) / 400.0)
        .sum();
    assert!(chi_square < 49.0 + 6.0 * 9.9, "chi-square {chi_square}");
    assert!(chi_square > 49.0 - 6.0 * 9.9, "chi-square {chi_square}");
}

#[test]
fn a_batch_larger_than_the_memory_is_refused() {
    let mut memory = UniformMemory::new(wide_layout(), 50).unwrap();
    let mut ids = vec![ItemId(3)];
    memory.insert_rows(&rows_of(0..2)).unwrap();
    let error = memory.sample_into(3, &mut |_| 0, &mut ids).unwrap_err();
    let expected = Error::TooFewItems {
        method: "UniformMemory::sample_into",
        expected: 3,
        given: 2,
    };
    assert_eq!((&error, &ids), (&expected, &vec![ItemId(3)]));
    assert!(
        error
            .to_string()
            .contains("a batch of 3 needs a memory of at least as many rows, and this one holds 2")
    );
}

#[test]
#[should_panic(expected = "below(2) gave 2")]
fn a_number_beyond_n_is_refused() {
    let mut memory = UniformMemory::new(wide_layout(), 50).unwrap();
    memory.insert_rows(&rows_of(0..2)).unwrap();
    let _ = memory.sample_into(1, &mut |n| n, &mut Vec::new());
}
