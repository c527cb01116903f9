//! Spaces that cannot be, and values that are of no use, with the words that say so.

use std::collections::BTreeMap;

use crate::Error;
use crate::space::{Form, GraphValue, Space, Value};

const INF: f32 = f32::INFINITY;

fn check(refused: Result<Space, Error>, expected: &str) {
    assert_eq!(refused.unwrap_err().to_string(), expected);
}

#[test]
fn boxes_that_cannot_be_are_refused() {
    let size = "Space::boxed: the shape: expected a size of 1 to 2^32 - 1, given";
    check(Space::boxed(&[0], 0.0, 1.0), &format!("{size} [0]"));
    check(
        Space::boxed(&[2, 0, 3], 0.0, 1.0),
        &format!("{size} [2, 0, 3]"),
    );
    check(
        Space::boxed(&[1 << 32], 0.0, 1.0),
        &format!("{size} [4294967296]"),
    );
    check(
        Space::boxed(&[1 << 31, 1 << 31, 4], 0.0, 1.0),
        &format!("{size} [2147483648, 2147483648, 4]"),
    );
    let list = "expected 4, one an element, or a single one, given";
    check(
        Space::boxed(&[2, 2], [0.0; 3], 1.0),
        &format!("Space::boxed: low: {list} 3"),
    );
    check(
        Space::boxed(&[2, 2], 0.0, vec![1.0; 5]),
        &format!("Space::boxed: high: {list} 5"),
    );
    let rule = "expected low <= high, low below inf and high above -inf, given";
    for (low, high, given) in [
        (1.0, 0.5, "1 and 0.5"),
        (f32::NAN, 0.5, "NaN and 0.5"),
        (0.0, f32::NAN, "0 and NaN"),
        (INF, INF, "inf and inf"),
        (-INF, -INF, "-inf and -inf"),
    ] {
        check(
            Space::boxed(&[2], low, high),
            &format!("Space::boxed: the bounds of element 0: {rule} {given}"),
        );
        let refused = Space::boxed(&[3], [0.0, 0.0, low], [INF, INF, high]);
        check(
            refused,
            &format!("Space::boxed: the bounds of element 2: {rule} {given}"),
        );
    }
    assert!(Space::boxed(&[], 1.0, 1.0).is_ok());
    assert!(Space::boxed(&[2], [-INF, 0.0], INF).is_ok());
}

#[test]
fn sizes_and_names_that_cannot_be_are_refused() {
    let size = "expected a size of 1 to 2^32 - 1, given";
    check(Space::discrete(0), &format!("Space::discrete: n: {size} 0"));
    check(
        Space::multi_binary(0),
        &format!("Space::multi_binary: n: {size} 0"),
    );
    check(
        Space::multi_binary(1 << 32),
        &format!("Space::multi_binary: n: {size} 4294967296"),
    );
    check(
        Space::graph(usize::MAX, 1),
        &format!("Space::graph: the features: {size} (18446744073709551615, 1)"),
    );
    check(
        Space::tuple(vec![]),
        "Space::tuple: the members: expected one or more, given none",
    );
    check(
        Space::dict(vec![]),
        "Space::dict: the members: expected one or more, given none",
    );
    let number = Space::discrete(2).unwrap();
    let names =
        "Space::dict: the names: expected each another one, not empty and without '/', given";
    for (name, given) in [
        ("", "\"\" at 1"),
        ("b/c", "\"b/c\" at 1"),
        ("a", "\"a\" at 1"),
    ] {
        let refused = Space::dict(vec![("a", number.clone()), (name, number.clone())]);
        check(refused, &format!("{names} {given}"));
    }
    let large = Space::discrete(u32::MAX).unwrap();
    let refused = Space::tuple(vec![large, number]);
    let width = "Space::tuple: the width of all members when flattened: expected at most 2^32 - 1, given 4294967297";
    check(refused, width);
    assert!(Space::try_from(Form::MultiBinary { n: 0 }).is_err());
}

fn refused(space: &Space, value: Value) -> String {
    let error = space.contains(&value).unwrap_err().to_string();
    error.strip_prefix("Space::contains: ").unwrap().to_owned()
}

#[test]
fn errors_name_the_member_and_both_sides() {
    let angle = Space::boxed(&[2], [-1.0, -INF], [1.0, INF]).unwrap();
    let gears = Space::tuple(vec![
        Space::discrete(3).unwrap(),
        Space::multi_binary(2).unwrap(),
    ])
    .unwrap();
    let space = Space::dict(vec![("angle", angle), ("gears", gears)]).unwrap();
    let value = |angle: &[f32], gear, bits: &[u8]| {
        let gears = Value::Tuple(vec![Value::U32(gear), Value::Bits(bits.into())]);
        Value::Dict(BTreeMap::from([
            ("angle".into(), Value::F32(angle.into())),
            ("gears".into(), gears),
        ]))
    };
    assert!(space.contains(&value(&[1.0, 1e30], 2, &[1, 0])).is_ok());
    for (value, expected) in [
        (
            value(&[1.5, 0.0], 0, &[0, 0]),
            "member angle: expected numbers from -1 to 1, given 1.5 as element 0",
        ),
        (
            value(&[0.0, INF], 0, &[0, 0]),
            "member angle: expected finite numbers, given inf as element 1",
        ),
        (
            value(&[0.0, f32::NAN], 0, &[0, 0]),
            "member angle: expected finite numbers, given NaN as element 1",
        ),
        (
            value(&[0.0], 0, &[0, 0]),
            "member angle: expected 2 numbers, given 1 numbers",
        ),
        (
            value(&[0.0, 0.0], 3, &[0, 0]),
            "member gears/0: expected a number below 3, given 3",
        ),
        (
            value(&[0.0, 0.0], 0, &[0, 7]),
            "member gears/1: expected zeros and ones, given 7",
        ),
        (
            value(&[0.0, 0.0], 0, &[0]),
            "member gears/1: expected 2 bits, given 1 bits",
        ),
        (Value::U32(1), "the value: expected Dict, given U32"),
        (
            Value::Dict(BTreeMap::new()),
            "member angle: expected F32 of a box, given no such member",
        ),
    ] {
        assert_eq!(refused(&space, value), expected);
    }
}

#[test]
fn graphs_that_are_none_are_refused() {
    let space = Space::graph(1, 2).unwrap();
    let graph = |edges: &[[u32; 2]], node_features: &[f32], edge_features: &[f32]| {
        Value::Graph(GraphValue {
            n_nodes: 2,
            edges: edges.into(),
            node_features: node_features.into(),
            edge_features: edge_features.into(),
        })
    };
    assert!(
        space
            .contains(&graph(&[[0, 1]], &[1.0, 0.0], &[0.5, 0.5]))
            .is_ok()
    );
    for (value, expected) in [
        (
            graph(&[[0, 2]], &[1.0, 0.0], &[0.5, 0.5]),
            "member edges: expected nodes below 2, given 2",
        ),
        (
            graph(&[], &[1.0], &[]),
            "member node_features: expected 2 numbers, given 1 numbers",
        ),
        (
            graph(&[[0, 1]], &[1.0, 0.0], &[0.5]),
            "member edge_features: expected 2 numbers, given 1 numbers",
        ),
        (
            graph(&[], &[1.0, f32::NAN], &[]),
            "member node_features: expected finite numbers, given NaN as element 1",
        ),
    ] {
        assert_eq!(refused(&space, value), expected);
    }
    let error = space.flat_width().unwrap_err().to_string();
    let expected = "Space::flat_width: leaf n_nodes: expected a fixed width; graphs are for layers over graphs, given a part of a graph";
    assert_eq!(error, expected);
}
