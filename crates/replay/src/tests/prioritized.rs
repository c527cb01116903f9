//! The prioritised memory against one that adds priorities up slot by slot; sums without drift;
//! every slot within reach.

use proptest::prelude::*;

use super::{random_below, random_uniform};
use crate::naive::NaiveRows;
use crate::{
    ColumnLayout, ElementKind, Error, ItemId, LeafRef, Prioritization, PrioritizedBatch,
    PrioritizedMemory, Rows,
};

/// Errors are priorities, but for a thousandth that alpha = 1 leaves alone.
pub(crate) const PLAIN: Prioritization = Prioritization {
    alpha: 1.0,
    epsilon: 0.0009765625,
};

pub(crate) fn layout() -> ColumnLayout {
    ColumnLayout::new(&[("number", ElementKind::U32, 1)]).unwrap()
}

pub(crate) fn memory_of(capacity: usize, prioritization: Prioritization) -> PrioritizedMemory {
    PrioritizedMemory::new(layout(), capacity, prioritization).unwrap()
}

pub(crate) fn insert(memory: &mut PrioritizedMemory, number: u32) -> ItemId {
    memory.insert(&[LeafRef::U32(&[number])]).unwrap()
}

/// The sums that the leaves imply.
fn check_sums(memory: &mut PrioritizedMemory) {
    memory.refresh();
    let mut rebuilt = memory.tree.clone();
    rebuilt.refresh_range(0, memory.capacity());
    assert!(
        rebuilt == memory.tree,
        "a node is not the sum of its children"
    );
    let leaves: Vec<f32> = (0..memory.len() as u32)
        .map(|slot| memory.tree.leaf(slot))
        .collect();
    let sum: f64 = leaves.iter().map(|&leaf| f64::from(leaf)).sum();
    let (total, smallest) = (memory.tree.total(), memory.tree.smallest());
    assert!((total - sum).abs() <= 1e-12 * sum, "{total} and {sum}");
    let least = leaves.iter().fold(f32::INFINITY, |a, &b| a.min(b));
    assert_eq!(smallest.to_bits(), least.to_bits());
}

#[derive(Clone, Debug)]
enum Op {
    Insert,
    InsertWith(f32),
    InsertRows(Vec<f32>),
    Update(Vec<(usize, f32)>),
    Sample(usize, f64),
}

fn op() -> impl Strategy<Value = Op> {
    let error = || (-64i8..64).prop_map(|x| f32::from(x) / 4.0);
    prop_oneof![
        4 => Just(Op::Insert),
        3 => error().prop_map(Op::InsertWith),
        2 => prop::collection::vec(error(), 0..20).prop_map(Op::InsertRows),
        4 => prop::collection::vec((0usize..1000, error()), 0..40).prop_map(Op::Update),
        4 => (1usize..40, 0.01f64..0.99).prop_map(|(n, at)| Op::Sample(n, at)),
    ]
}

fn priority(error: f32, prioritization: Prioritization) -> f32 {
    let base = f64::from(error.abs() + prioritization.epsilon);
    base.powf(f64::from(prioritization.alpha)) as f32
}

struct Pair {
    memory: PrioritizedMemory,
    naive: NaiveRows,
    n_stale: u64,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        let next = self.naive.rows.len() as u32;
        let prioritization = self.memory.prioritization;
        match op {
            Op::Insert => {
                insert(&mut self.memory, next);
                self.naive.insert(next, None);
            }
            Op::InsertWith(error) => {
                self.memory
                    .insert_with(&[LeafRef::U32(&[next])], *error)
                    .unwrap();
                self.naive
                    .insert(next, Some(priority(*error, prioritization)));
            }
            Op::InsertRows(errors) => {
                let mut block = Rows::new(layout());
                for (number, &error) in (next..).zip(errors) {
                    block.push(&[LeafRef::U32(&[number])]).unwrap();
                    self.naive
                        .insert(number, Some(priority(error, prioritization)));
                }
                let first = self.memory.insert_rows_with(&block, errors).unwrap();
                assert_eq!(first, ItemId(u64::from(next)));
            }
            Op::Update(changes) => self.update(changes),
            Op::Sample(n, at) => self.sample(*n, *at),
        }
    }

    /// Of rows that are there, that are gone, and that never were.
    fn update(&mut self, changes: &[(usize, f32)]) {
        let n = self.naive.rows.len() + 3;
        let ids: Vec<_> = changes
            .iter()
            .map(|&(which, _)| ItemId((which % n) as u64))
            .collect();
        let errors: Vec<_> = changes.iter().map(|&(_, error)| error).collect();
        let n_found = self.memory.update(&ids, &errors).unwrap();
        let n_live = ids.iter().filter(|&&id| self.naive.is_live(id)).count();
        self.n_stale += (ids.len() - n_live) as u64;
        assert_eq!(
            (n_found, self.memory.n_stale_updates()),
            (n_live, self.n_stale)
        );
        for (&id, &error) in ids.iter().zip(&errors) {
            self.naive
                .update(id, priority(error, self.memory.prioritization));
        }
    }

    fn sample(&mut self, n: usize, at: f64) {
        let mut batch = PrioritizedBatch::default();
        let drawn = self.memory.sample_into(n, 0.5, &mut || at, &mut batch);
        if n > self.memory.len() {
            let kind = drawn.unwrap_err();
            assert!(matches!(kind, Error::TooFewItems { expected, .. } if expected == n));
            return;
        }
        drawn.unwrap();
        let share = |idx: usize| (idx as f64 + at) / n as f64;
        let expected: Vec<_> = (0..n).map(|idx| self.naive.at_share(share(idx))).collect();
        assert_eq!(batch.ids, expected);
        self.check_weights(&batch);
        let mut rows = Rows::new(layout());
        self.memory.gather_into(&batch.ids, &mut rows).unwrap();
        let numbers: Vec<_> = expected.iter().map(|id| id.0 as u32).collect();
        assert_eq!(rows.u32s(0), numbers);
    }

    /// (N P)^-beta over its largest value, in f64 from the definition.
    fn check_weights(&self, batch: &PrioritizedBatch) {
        let live = self.naive.by_slot();
        let total: f64 = live.iter().map(|&(_, p)| f64::from(p)).sum();
        let weight = |p: f32| (live.len() as f64 * f64::from(p) / total).powf(-0.5);
        let largest = live.iter().map(|&(_, p)| weight(p)).fold(0.0, f64::max);
        for (id, &got) in batch.ids.iter().zip(&batch.weights) {
            let expected = weight(self.naive.rows[id.0 as usize].1) / largest;
            assert!(
                (f64::from(got) - expected).abs() < 1e-6 * expected,
                "{got} and {expected}"
            );
        }
    }

    fn check(&mut self) {
        for &(id, expected) in &self.naive.by_slot() {
            let got = self.memory.priority(id).unwrap();
            assert!(
                (got - expected).abs() <= 1e-6 * expected,
                "{got} and {expected}"
            );
        }
        assert_eq!(
            self.memory.priority(ItemId(self.naive.rows.len() as u64)),
            None
        );
        check_sums(&mut self.memory);
    }
}

proptest! {
    #[test]
    fn any_use_is_that_of_a_memory_that_adds_up(
        capacity in prop::sample::select(vec![1usize, 2, 15, 16, 17, 31, 127, 128, 129, 1025]),
        ops in prop::collection::vec(op(), 0..60),
        alpha in prop::sample::select(vec![0.0f32, 0.6, 1.0]),
    ) {
        let prioritization = Prioritization { alpha, ..PLAIN };
        let memory = memory_of(capacity, prioritization);
        let mut pair = Pair { memory, naive: NaiveRows::new(capacity), n_stale: 0 };
        for op in &ops {
            pair.apply(op);
        }
        pair.check();
    }
}

/// Of as many ranges as there are rows of equal priority each holds one row, the newest and the
/// last slot's too.
#[test]
fn every_slot_is_within_reach() {
    for capacity in [
        1u32, 2, 3, 15, 16, 17, 100, 127, 128, 129, 1000, 1023, 1024, 1025, 9000,
    ] {
        let mut memory = memory_of(capacity as usize, PLAIN);
        let mut batch = PrioritizedBatch::default();
        for n_inserted in [capacity.div_ceil(2), capacity / 2, capacity.div_ceil(3)] {
            for number in 0..n_inserted {
                insert(&mut memory, number);
            }
            for at in [0.0, 0.5, 0.999] {
                let n = memory.len();
                memory.sample_into(n, 1.0, &mut || at, &mut batch).unwrap();
                let mut ids = batch.ids.clone();
                ids.sort_unstable();
                let newest = memory.n_inserted();
                let live: Vec<_> = (newest - n as u64..newest).map(ItemId).collect();
                assert_eq!(ids, live, "capacity {capacity}");
                assert_eq!(batch.weights, vec![1.0; n]);
            }
        }
    }
}

/// With 99 degrees of freedom chi-square is 99 +- 14.1; six deviations are never passed with this
/// seed.
#[test]
fn rows_come_as_often_as_their_priorities_say() {
    let mut memory = memory_of(100, PLAIN);
    let ids: Vec<_> = (0..163).map(|number| insert(&mut memory, number)).collect();
    let errors: Vec<_> = (0..163).map(|number| (number % 7 + 1) as f32).collect();
    assert_eq!(memory.update(&ids, &errors), Ok(100));
    let (mut state, mut counts, n_draws) = (5, [0u32; 100], 100_000);
    let mut batch = PrioritizedBatch::default();
    for _ in 0..n_draws {
        let mut uniform = || random_uniform(&mut state);
        memory
            .sample_into(1, 1.0, &mut uniform, &mut batch)
            .unwrap();
        counts[batch.ids[0].0 as usize - 63] += 1;
    }
    let total: f32 = errors[63..].iter().sum();
    let term = |(&count, &error): (&u32, &f32)| {
        let mean = f64::from(n_draws) * f64::from(error / total);
        (f64::from(count) - mean).powi(2) / mean
    };
    let chi_square: f64 = counts.iter().zip(&errors[63..]).map(term).sum();
    assert!(
        (chi_square - 99.0).abs() < 6.0 * 14.1,
        "chi-square {chi_square}"
    );
}

/// Errors over 12 orders of magnitude, where a sum that is only added to goes astray.
#[test]
fn a_million_updates_leave_no_drift() {
    let mut memory = memory_of(5000, PLAIN);
    for number in 0..7000 {
        insert(&mut memory, number);
    }
    let (mut state, mut ids, mut errors) = (3, vec![ItemId(0); 100], vec![0.0; 100]);
    for round in 0..10_000 {
        for (id, error) in ids.iter_mut().zip(&mut errors) {
            *id = ItemId(memory.n_inserted() - 1 - random_below(&mut state, 5000));
            *error = 10f32.powi(random_below(&mut state, 13) as i32 - 6);
        }
        assert_eq!(memory.update(&ids, &errors), Ok(100));
        if round % 10 == 0 {
            insert(&mut memory, round);
            memory.refresh();
        }
    }
    check_sums(&mut memory);
}

/// Masses on the borders, and leaves so unequal that rounding would carry a draw onto an empty
/// slot.
#[test]
fn no_draw_falls_on_an_empty_slot() {
    for (capacity, n) in [(1000, 17), (1000, 129), (40, 33), (9000, 4097)] {
        let mut memory = memory_of(capacity, PLAIN);
        let ids: Vec<_> = (0..n).map(|number| insert(&mut memory, number)).collect();
        let error = |id: &ItemId| {
            if id.0.is_multiple_of(3) {
                1e30
            } else {
                1e-3 * id.0 as f32
            }
        };
        memory
            .update(&ids, &ids.iter().map(error).collect::<Vec<_>>())
            .unwrap();
        let mut batch = PrioritizedBatch::default();
        for at in [0.0, 1.0f64.next_down()] {
            for n_items in 1..=(n as usize).min(100) {
                memory
                    .sample_into(n_items, 1.0, &mut || at, &mut batch)
                    .unwrap();
                assert!(batch.ids.iter().all(|id| id.0 < u64::from(n)));
            }
        }
    }
}

/// Draws for a batch, then the slots take new rows, then the priorities come: the new rows keep
/// theirs.
#[test]
fn late_priorities_of_overwritten_rows_are_ignored_and_counted() {
    let mut memory = memory_of(4, PLAIN);
    let ids: Vec<_> = (0..4).map(|number| insert(&mut memory, number)).collect();
    insert(&mut memory, 4);
    insert(&mut memory, 5);
    assert_eq!(memory.update(&ids, &[9.0; 4]), Ok(2));
    assert_eq!(memory.n_stale_updates(), 2);
    let priorities: Vec<_> = (0..6).map(|id| memory.priority(ItemId(id))).collect();
    let high = Some(9.0 + PLAIN.epsilon);
    assert_eq!(priorities, [None, None, high, high, Some(1.0), Some(1.0)]);
    insert(&mut memory, 6); // with the largest priority there was
    assert_eq!(memory.priority(ItemId(6)), high);
    let stale = memory
        .gather_into(&ids, &mut Rows::new(layout()))
        .unwrap_err();
    let expected =
        "PrioritizedMemory::gather_into: row 0 is not in the memory, which holds rows 3..7;";
    assert!(stale.to_string().starts_with(expected), "{stale}");
}

#[test]
fn prioritizations_out_of_range_are_refused() {
    for (alpha, epsilon) in [
        (-0.1, 1e-6),
        (1.1, 1e-6),
        (f32::NAN, 1e-6),
        (0.5, 0.0),
        (0.5, -1.0),
        (0.5, f32::NAN),
    ] {
        let prioritization = Prioritization { alpha, epsilon };
        let error = PrioritizedMemory::new(layout(), 3, prioritization)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("expected alpha from 0 to 1 and epsilon above 0, given alpha"),
            "{error}"
        );
    }
}

#[test]
fn numbers_out_of_range_are_refused_and_change_nothing() {
    let mut memory = memory_of(3, PLAIN);
    let ids: Vec<_> = (0..3).map(|number| insert(&mut memory, number)).collect();
    let before = memory.to_bytes();
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = memory
            .update(&ids, &[1.0, value, 2.0])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("PrioritizedMemory::update: TD error 1: expected a finite number"),
            "{error}"
        );
        assert!(memory.insert_with(&[LeafRef::U32(&[1])], value).is_err());
        let mut block = Rows::new(layout());
        block.push(&[LeafRef::U32(&[1])]).unwrap();
        assert!(memory.insert_rows_with(&block, &[value]).is_err());
        assert!(memory.insert_rows_with(&block, &[]).is_err());
    }
    assert!(memory.update(&ids, &[1.0]).is_err());
    for beta in [-0.1, 1.1, f32::NAN] {
        assert!(
            memory
                .sample_into(1, beta, &mut || 0.5, &mut PrioritizedBatch::default())
                .is_err()
        );
    }
    assert_eq!(memory.to_bytes(), before);
}

/// The smallest and largest errors there are still make priorities that can be drawn and added.
#[test]
fn extreme_errors_stay_in_range() {
    for alpha in [0.0, 0.3, 1.0] {
        let epsilon = f32::MIN_POSITIVE;
        let mut memory = memory_of(3, Prioritization { alpha, epsilon });
        let ids: Vec<_> = (0..3).map(|number| insert(&mut memory, number)).collect();
        memory.update(&ids, &[0.0, f32::MAX, f32::MIN]).unwrap();
        let is_sound = |&id: &ItemId| {
            memory
                .priority(id)
                .is_some_and(|p| p > 0.0 && p.is_finite())
        };
        assert!(ids.iter().all(is_sound));
        let mut batch = PrioritizedBatch::default();
        memory.sample_into(3, 0.5, &mut || 0.5, &mut batch).unwrap();
        assert!(batch.weights.iter().all(|w| (0.0..=1.0).contains(w)));
    }
}

#[test]
#[should_panic(expected = "uniform() gave 1")]
fn a_number_outside_the_unit_interval_is_refused() {
    let mut memory = memory_of(3, PLAIN);
    insert(&mut memory, 0);
    let _ = memory.sample_into(1, 0.5, &mut || 1.0, &mut PrioritizedBatch::default());
}
