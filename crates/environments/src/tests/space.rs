//! Spaces: random ones for the properties, and what is refused with which words.

mod properties;
mod refusals;
mod samples;
mod serialised;

use proptest::prelude::*;

use crate::space::{Bounds, Space, SpaceKind};

/// Sizes around those that loops are unrolled to.
const SIZES: [usize; 7] = [1, 2, 31, 32, 33, 63, 65];

/// Random spaces of the given depth: leaves, and dicts and tuples of one to three members around
/// them.
pub(crate) fn spaces(depth: u32) -> BoxedStrategy<Space> {
    leaf_spaces()
        .prop_recursive(depth, 16, 3, |member| {
            let members = prop::collection::vec(member, 1..=3);
            (members, any::<bool>()).prop_map(|(members, is_dict)| {
                if !is_dict {
                    return Space::tuple(members).unwrap();
                }
                // In an order that is not that of the alphabet.
                let names = ["speed", "angle", "body"];
                Space::dict(names.into_iter().zip(members).collect()).unwrap()
            })
        })
        .boxed()
}

fn leaf_spaces() -> impl Strategy<Value = Space> {
    prop_oneof![
        boxes(),
        prop::sample::select(&SIZES[..]).prop_map(|n| Space::discrete(n as u32).unwrap()),
        prop::sample::select(&SIZES[..]).prop_map(|n| Space::multi_binary(n).unwrap()),
        (0..3usize, 0..3usize).prop_map(|(nodes, edges)| Space::graph(nodes, edges).unwrap()),
    ]
}

fn boxes() -> impl Strategy<Value = Space> {
    let shape = prop::sample::select(vec![
        vec![],
        vec![1],
        vec![3],
        vec![2, 3],
        vec![31],
        vec![2, 1, 16],
        vec![33],
    ]);
    let bound = prop::sample::select(vec![-f32::MAX, -2.5, -1.0, 0.0, 1e-30, 1.0, 3.0, f32::MAX]);
    (shape, [bound.clone(), bound], any::<[bool; 3]>()).prop_map(|(shape, bounds, flags)| {
        let [one, other] = bounds;
        let low = if flags[0] {
            f32::NEG_INFINITY
        } else {
            one.min(other)
        };
        let high = if flags[1] {
            f32::INFINITY
        } else {
            one.max(other)
        };
        let width = shape.iter().product();
        let form = if flags[2] {
            (Bounds::Each(vec![low; width]), Bounds::All(high))
        } else {
            (Bounds::All(low), Bounds::Each(vec![high; width]))
        };
        Space::boxed(&shape, form.0, form.1).unwrap()
    })
}

/// True if there is a graph in the space.
pub(crate) fn has_graph(space: &Space) -> bool {
    match space.kind() {
        SpaceKind::Graph { .. } => true,
        SpaceKind::Dict { spaces } => spaces.iter().any(|(_, space)| has_graph(space)),
        SpaceKind::Tuple { spaces } => spaces.iter().any(has_graph),
        _ => false,
    }
}
