//! Spaces that cannot be, and values that are of no use, with the words that say so.

use std::collections::BTreeMap;

use crate::Error;
use crate::space::{GraphValue, LeafRef, Space, SpaceKind, Value};

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
}

#[test]
fn bounds_that_cannot_be_are_refused() {
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
        Space::graph(1 << 32, 1),
        "Space::graph: the features: expected at most 2^32 - 1, given 4294967296",
    );
    check(
        Space::tuple(vec![]),
        "Space::tuple: the members: expected one or more, given none",
    );
    check(
        Space::dict::<&str>(vec![]),
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
    let width =
        "Space::tuple: the flat width of all members: expected at most 2^32 - 1, given 4294967297";
    check(refused, width);
    assert!(Space::try_from(SpaceKind::MultiBinary { n: 0 }).is_err());
}

fn refused(space: &Space, value: Value) -> String {
    let error = space.contains(&value).unwrap_err().to_string();
    error.strip_prefix("Space::contains: ").unwrap().to_owned()
}

/// A dict of a box and of a tuple, and values of its form.
fn car() -> Space {
    let angle = Space::boxed(&[2], [-1.0, -INF], [1.0, INF]).unwrap();
    let gears = vec![Space::discrete(3).unwrap(), Space::multi_binary(2).unwrap()];
    Space::dict(vec![
        ("angle", angle),
        ("gears", Space::tuple(gears).unwrap()),
    ])
    .unwrap()
}

fn car_value(angle: &[f32], gear: u32, bits: &[u8]) -> Value {
    let gears = Value::Tuple(vec![Value::U32(gear), Value::Bits(bits.into())]);
    let angle = Value::F32(angle.into());
    Value::Dict(BTreeMap::from([
        ("angle".into(), angle),
        ("gears".into(), gears),
    ]))
}

#[test]
fn errors_name_the_member_and_both_sides() {
    let refused = |angle: &[f32], gear, bits: &[u8]| refused(&car(), car_value(angle, gear, bits));
    assert!(car().contains(&car_value(&[1.0, 1e30], 2, &[1, 0])).is_ok());
    let angle = "member angle: expected";
    let finite = format!("{angle} finite numbers, given");
    let low = format!("{angle} numbers from -1 to 1, given 1.5 as element 0");
    assert_eq!(refused(&[1.5, 0.0], 0, &[0, 0]), low);
    assert_eq!(
        refused(&[0.0, INF], 0, &[0, 0]),
        format!("{finite} inf as element 1")
    );
    assert_eq!(
        refused(&[0.0, f32::NAN], 0, &[0, 0]),
        format!("{finite} NaN as element 1")
    );
    assert_eq!(
        refused(&[0.0], 0, &[0, 0]),
        format!("{angle} 2 numbers, given 1")
    );
    let gear = "member gears/0: expected a number below 3, given 3";
    assert_eq!(refused(&[0.0, 0.0], 3, &[0, 0]), gear);
    let bits = "member gears/1: expected";
    assert_eq!(
        refused(&[0.0, 0.0], 0, &[0, 7]),
        format!("{bits} zeros and ones, given 7")
    );
    assert_eq!(
        refused(&[0.0, 0.0], 0, &[0]),
        format!("{bits} 2 bits, given 1")
    );
}

#[test]
fn values_of_another_form_are_refused() {
    let missing = "member angle: expected F32 of a box, given no such member";
    assert_eq!(refused(&car(), Value::Dict(BTreeMap::new())), missing);
    let form = "the value: expected Dict, given U32";
    assert_eq!(refused(&car(), Value::U32(1)), form);
    let Value::Dict(mut members) = car_value(&[0.0, 0.0], 0, &[0, 0]) else {
        panic!("no dict")
    };
    members.insert("wheel".into(), Value::U32(0));
    let unknown = "member wheel: expected no such member, given U32";
    assert_eq!(refused(&car(), Value::Dict(members)), unknown);
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
            "member node_features: expected 2 numbers, given 1",
        ),
        (
            graph(&[[0, 1]], &[1.0, 0.0], &[0.5]),
            "member edge_features: expected 2 numbers, given 1",
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

/// Half an edge is not left out.
#[test]
fn an_odd_number_of_ends_makes_no_edges() {
    let space = Space::graph(0, 0).unwrap();
    let cells = |ends| {
        [
            LeafRef::U32(&[2]),
            LeafRef::U32(ends),
            LeafRef::F32(&[]),
            LeafRef::F32(&[]),
        ]
    };
    assert!(space.merge(&cells(&[0, 1])).is_ok());
    let error = space.merge(&cells(&[0, 1, 1])).unwrap_err().to_string();
    let expected =
        "Space::merge: member edges: expected two nodes an edge, given an odd number of nodes";
    assert_eq!(error, expected);
}
