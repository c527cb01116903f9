//! The linear program of vertex cover: its half-integral optimum that leaves fewest nodes at one half.

use crate::budget::Stopwatch;
use crate::vertex_cover::matching::{Matching, NONE, largest_matching};
use crate::vertex_cover::rows::Rows;
use crate::vertex_cover::strong;

/// What an optimum sets a node to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Zero,
    Half,
    One,
}

/// An optimum of: least sum of x, x(u) + x(v) >= 1 on every edge, 0 <= x; on what it leaves at one half, all halves is the
/// only optimum. None where the time is over first.
///
/// # Complexity
/// O(m sqrt(n))
///
/// # Source
/// Nemhauser and Trotter (1975), by the matching of the double cover; Iwata, Oka and Yoshida (2014), section 3, for the rest.
pub(crate) fn extreme_half_integral(rows: &Rows, stopwatch: &Stopwatch<'_>) -> Option<Vec<Value>> {
    let matching = largest_matching(rows, stopwatch)?;
    let mut values = by_koenig(rows, &matching);
    settle_tails(rows, &matching, &mut values);
    Some(values)
}

/// The cover of the double cover that Koenig's theorem gives: left copies out of reach, right copies within.
fn by_koenig(rows: &Rows, matching: &Matching) -> Vec<Value> {
    let n = rows.n_nodes();
    let (mut left, mut right) = (vec![false; n], vec![false; n]);
    let is_root = |&u: &u32| matching.of_left[u as usize] == NONE;
    let mut stack: Vec<u32> = (0..n as u32).filter(is_root).collect();
    for &u in &stack {
        left[u as usize] = true;
    }
    while let Some(u) = stack.pop() {
        for &v in rows.neighbors(u) {
            if std::mem::replace(&mut right[v as usize], true) {
                continue;
            }
            let mate = matching.of_right[v as usize];
            debug_assert_ne!(mate, NONE, "the matching is not a largest one");
            if !std::mem::replace(&mut left[mate as usize], true) {
                stack.push(mate);
            }
        }
    }
    let value = |(is_left, is_right)| match (is_left, is_right) {
        (true, false) => Value::Zero,
        (false, true) => Value::One,
        _ => Value::Half,
    };
    left.into_iter().zip(right).map(value).collect()
}

/// Sets strong components of the residual graph that nothing leaves, and that hold no node in both copies, to whole numbers.
///
/// The nodes at one half are matched with each other, so that a left copy and its mate are one node here: `u` stands for its left
/// copy and the right copy of `of_left[u]`. Components come after those they point to, and the mirror image of one that is settled
/// has nothing left that points to it: one pass finds all.
fn settle_tails(rows: &Rows, matching: &Matching, values: &mut [Value]) {
    let (halves, old_ids) = part_at_half(rows, values);
    let mut new_ids = vec![NONE; rows.n_nodes()];
    for (new, &old) in (0u32..).zip(&old_ids) {
        new_ids[old as usize] = new;
    }
    // The pair that holds the right copy of each node.
    let pair_of_right: Vec<u32> = (old_ids.iter())
        .map(|&old| new_ids[matching.of_right[old as usize] as usize])
        .collect();
    let mut component_of = vec![NONE; halves.n_nodes()];
    let mut is_settled = vec![false; halves.n_nodes()];
    for (id, component) in (0u32..).zip(strong::components(&halves, &pair_of_right)) {
        for &u in &component {
            component_of[u as usize] = id;
        }
        let is_inside = |&w: &u32| component_of[pair_of_right[w as usize] as usize] == id;
        let is_tail = component.iter().all(|u| {
            !is_settled[*u as usize]
                && !is_inside(u)
                && (halves.neighbors(*u).iter()).all(|w| is_inside(w) || is_settled[*w as usize])
        });
        if !is_tail {
            continue;
        }
        for &u in &component {
            let mate = matching.of_left[old_ids[u as usize] as usize];
            values[old_ids[u as usize] as usize] = Value::Zero;
            values[mate as usize] = Value::One;
            is_settled[u as usize] = true;
            is_settled[new_ids[mate as usize] as usize] = true;
        }
    }
}

/// The part of the graph at one half, and the old id of each of its nodes.
fn part_at_half(rows: &Rows, values: &[Value]) -> (Rows, Vec<u32>) {
    let is_half = |&v: &u32| values[v as usize] == Value::Half;
    let old_ids: Vec<u32> = (0..rows.n_nodes() as u32).filter(is_half).collect();
    let mut new_ids = vec![NONE; rows.n_nodes()];
    for (new, &old) in (0u32..).zip(&old_ids) {
        new_ids[old as usize] = new;
    }
    let mut halves = Rows::with_capacity(old_ids.len());
    for &old in &old_ids {
        let neighbors = rows.neighbors(old).iter().copied();
        halves.push_row(
            neighbors
                .map(|v| new_ids[v as usize])
                .filter(|&v| v != NONE),
        );
    }
    (halves, old_ids)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vertex_cover::tests::small_graph;
    use crate::vertex_cover::{Budget, naive};

    fn solved(graph: &shardgraph_graph::Graph) -> Vec<Value> {
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        extreme_half_integral(&Rows::of(graph), &stopwatch).unwrap()
    }

    /// Twice the sum of the values.
    fn doubled(values: &[Value]) -> u32 {
        let weight = |value: &Value| match value {
            Value::Zero => 0,
            Value::Half => 1,
            Value::One => 2,
        };
        values.iter().map(weight).sum()
    }

    proptest! {
        #[test]
        fn it_is_a_smallest_half_integral_solution_with_fewest_halves(graph in small_graph(8)) {
            let values = solved(&graph);
            for (u, v) in graph.edges() {
                prop_assert!(doubled(&[values[u as usize], values[v as usize]]) >= 2);
            }
            let n_halves = values.iter().filter(|value| **value == Value::Half).count();
            let naive = naive::half_integral(&graph);
            prop_assert_eq!((doubled(&values), n_halves), naive);
        }
    }

    /// The greedy matching takes (0, 2) and (2, 0) and leaves out 1 and 3: a phase is needed.
    #[test]
    fn a_deadline_ends_the_matching() {
        let path = shardgraph_graph::Graph::from_edges(4, &[(0, 2), (0, 3), (1, 2)]).unwrap();
        for (time_limit, is_late) in [(0.0, true), (f64::NAN, true), (1.0, false)] {
            let budget = Budget {
                time_limit: Some(time_limit),
                ..Budget::unlimited()
            };
            let values = extreme_half_integral(&Rows::of(&path), &Stopwatch::begin(&budget));
            assert_eq!(values.is_none(), is_late, "{time_limit}");
        }
    }

    #[test]
    fn an_even_cycle_is_settled_and_an_odd_one_is_not() {
        for (n, is_settled) in [(4u32, true), (5, false), (6, true), (7, false)] {
            let edges: Vec<(u32, u32)> = (0..n).map(|v| (v, (v + 1) % n)).collect();
            let cycle = shardgraph_graph::Graph::from_edges(n, &edges).unwrap();
            let values = solved(&cycle);
            assert_eq!(!values.contains(&Value::Half), is_settled, "{n}");
        }
    }
}
