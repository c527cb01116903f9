//! Slots of an arena for values whose lifetimes are known.

/// A value of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    /// Elements.
    pub(crate) len: usize,
    /// The step that makes it.
    pub(crate) first: usize,
    /// The last step that needs it.
    pub(crate) last: usize,
}

impl Value {
    pub(crate) fn meets(&self, other: &Value) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The slot of each value, all multiples of `alignment`, and the length of the arena.
///
/// The largest come first, each in the smallest gap that holds it between those that live at the same time: a known
/// heuristic, within a few percent of the fullest moment where sizes are few.
///
/// # Complexity
/// `O(n^2)`.
pub(crate) fn assign_slots(values: &[Value], alignment: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..values.len()).filter(|&i| values[i].len > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(values[i].len), i));
    let mut slots = vec![0usize; values.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(order.len()); // ascending by slot
    let mut total = 0;
    for i in order {
        let len = values[i].len.next_multiple_of(alignment);
        let (mut end, mut best) = (0, None);
        for &other in placed
            .iter()
            .filter(|&&other| values[i].meets(&values[other]))
        {
            let gap = slots[other].saturating_sub(end);
            if gap >= len && best.is_none_or(|(size, _)| gap < size) {
                best = Some((gap, end));
            }
            end = end.max(slots[other] + values[other].len.next_multiple_of(alignment));
        }
        slots[i] = best.map_or(end, |(_, first)| first);
        total = total.max(slots[i] + len);
        let at = placed.partition_point(|&other| slots[other] <= slots[i]);
        placed.insert(at, i);
    }
    (slots, total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<Value>> {
        let value = (0usize..200, 0usize..40, 0usize..12);
        prop::collection::vec(value, 0..60).prop_map(|values| {
            let value = |(len, first, life)| Value {
                len,
                first,
                last: first + life,
            };
            values.into_iter().map(value).collect()
        })
    }

    proptest! {
        /// Each step's elements, one by one: none has two owners, and the arena is no shorter than its fullest step.
        #[test]
        fn values_that_live_together_do_not_overlap(values in values(), alignment in prop_oneof![Just(1usize), Just(64)]) {
            let (slots, total) = assign_slots(&values, alignment);
            for step in 0..52 {
                let mut owner = vec![None; total];
                for (i, value) in values.iter().enumerate() {
                    if value.first <= step && step <= value.last {
                        prop_assert_eq!(slots[i] % alignment, 0);
                        for slot in &mut owner[slots[i]..slots[i] + value.len] {
                            prop_assert_eq!(*slot, None);
                            *slot = Some(i);
                        }
                    }
                }
            }
            let all: usize = values.iter().map(|value| value.len.next_multiple_of(alignment)).sum();
            prop_assert!(total <= all);
        }
    }

    #[test]
    fn a_chain_takes_two_slots() {
        let value = |i: usize| Value {
            len: 10,
            first: i,
            last: i + 1,
        };
        let chain: Vec<Value> = (0..100).map(value).collect();
        assert_eq!(assign_slots(&chain, 1).1, 20);
    }
}
