//! What holds for every space and every value of it.

use proptest::prelude::*;
use shardgraph_random::KeyedRng;

use super::{has_graph, spaces};
use crate::naive;
use crate::space::{GraphValue, LeafRef, Space, SpaceKind, Value};

fn sample(space: &Space, seed: u64) -> Value {
    space.sample(&mut KeyedRng::new(seed, "space", 0))
}

/// Every value that differs from `value` in one place so that `space` contains it no more, and the
/// path of that place.
fn mutations(space: &Space, value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    match (space.kind(), value) {
        (SpaceKind::Box { low, high, .. }, Value::F32(list)) => {
            for (idx, number) in broken_numbers(list, low.at(0), high.at(0)) {
                let mut list = list.clone();
                list[idx] = number;
                all.push(Value::F32(list));
            }
            let longer = [list.as_slice(), &list[..1]].concat();
            all.extend([Value::F32(longer), Value::F32(list[1..].to_vec())]);
            all.extend([Value::U32(0), Value::Bits(vec![0; list.len()])]);
        }
        (SpaceKind::Discrete { n }, Value::U32(_)) => {
            all.extend([*n, u32::MAX].map(Value::U32));
            all.extend([Value::F32(vec![0.0]), Value::Bits(vec![0])]);
        }
        (SpaceKind::MultiBinary { n }, Value::Bits(bits)) => {
            for idx in [0, n / 2, n - 1] {
                let mut bits = bits.clone();
                bits[idx] = 2;
                all.push(Value::Bits(bits));
            }
            let longer = [bits.as_slice(), &[0]].concat();
            all.extend([Value::Bits(longer), Value::Bits(bits[1..].to_vec())]);
            all.push(Value::F32(vec![0.0; *n]));
        }
        (SpaceKind::Graph { .. }, Value::Graph(_)) => return graph_mutations(value),
        _ => return member_mutations(space, value),
    }
    all.into_iter()
        .map(|value| (String::new(), value))
        .collect()
}

fn broken_numbers(list: &[f32], low: f32, high: f32) -> Vec<(usize, f32)> {
    let mut numbers = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    // Beyond the largest float is infinity.
    numbers.extend(
        [low.next_down(), high.next_up()]
            .into_iter()
            .filter(|x| *x < low || *x > high),
    );
    let places = [0, list.len() / 2, list.len() - 1];
    let at = |idx: usize| numbers.iter().map(move |&x| (idx, x)).collect::<Vec<_>>();
    places.into_iter().flat_map(at).collect()
}

fn graph_mutations(value: &Value) -> Vec<(String, Value)> {
    let Value::Graph(graph) = value else {
        unreachable!()
    };
    let mut all = vec![(String::new(), Value::U32(0))];
    let mut add = |path: &str, change: &dyn Fn(&mut GraphValue)| {
        let mut graph = graph.clone();
        change(&mut graph);
        all.push((path.into(), Value::Graph(graph)));
    };
    add("edges", &|graph| graph.edges.push([graph.n_nodes, 0]));
    add("edges", &|graph| graph.edges.push([0, u32::MAX]));
    add("node_features", &|graph| graph.node_features.push(0.0));
    add("edge_features", &|graph| graph.edge_features.push(0.0));
    if !graph.node_features.is_empty() {
        add("node_features", &|graph| graph.n_nodes += 1);
        add("node_features", &|graph| graph.node_features[0] = f32::NAN);
    }
    if !graph.edge_features.is_empty() {
        add("edge_features", &|graph| graph.edges.push([0, 0]));
        add("edge_features", &|graph| {
            graph.edge_features.pop();
        });
        add("edge_features", &|graph| {
            graph.edge_features[0] = f32::INFINITY
        });
    }
    all
}

fn member_mutations(space: &Space, value: &Value) -> Vec<(String, Value)> {
    let mut all = vec![(String::new(), Value::U32(0))];
    let within = |name: &str, path: String| match path.as_str() {
        "" => name.to_owned(),
        _ => format!("{name}/{path}"),
    };
    match (space.kind(), value) {
        (SpaceKind::Dict { spaces }, Value::Dict(members)) => {
            for (name, space) in spaces {
                let mut missing = members.clone();
                missing.remove(name);
                all.push((name.clone(), Value::Dict(missing)));
                for (path, member) in mutations(space, &members[name]) {
                    let mut members = members.clone();
                    members.insert(name.clone(), member);
                    all.push((within(name, path), Value::Dict(members)));
                }
            }
            let mut more = members.clone();
            more.insert("more".into(), Value::U32(0));
            all.push(("more".into(), Value::Dict(more)));
        }
        (SpaceKind::Tuple { spaces }, Value::Tuple(members)) => {
            for (idx, space) in spaces.iter().enumerate() {
                for (path, member) in mutations(space, &members[idx]) {
                    let mut members = members.clone();
                    members[idx] = member;
                    all.push((within(&idx.to_string(), path), Value::Tuple(members)));
                }
            }
            let more = [members.as_slice(), &members[..1]].concat();
            all.extend(
                [&members[1..], &more]
                    .map(|members| (String::new(), Value::Tuple(members.to_vec()))),
            );
        }
        _ => unreachable!("{value:?} is of {space:?}"),
    }
    all
}

proptest! {
    #[test]
    fn samples_and_zeros_are_contained(space in spaces(3), seed: u64) {
        let value = sample(&space, seed);
        space.contains(&value).unwrap();
        space.contains(&space.zeros()).unwrap();
        prop_assert_eq!(value, sample(&space, seed));
    }

    #[test]
    fn no_mutation_is_contained(space in spaces(3), seed: u64) {
        let value = sample(&space, seed);
        for (path, mutated) in mutations(&space, &value) {
            let error = space.contains(&mutated).unwrap_err().to_string();
            let start = match path.as_str() {
                "" => "Space::contains: the value: expected ".to_owned(),
                path => format!("Space::contains: member {path}: expected "),
            };
            prop_assert!(error.starts_with(&start), "{} is to begin with {}", error, start);
            prop_assert!(space.split(&mutated).is_err());
            if let Ok(width) = space.flat_width() {
                let mut out = vec![7.0; width];
                prop_assert!(space.flatten_into(&mutated, &mut out).is_err());
                prop_assert_eq!(out, vec![7.0; width]);
            }
        }
    }

    #[test]
    fn merge_is_the_inverse_of_split(space in spaces(3), seed: u64) {
        let value = sample(&space, seed);
        let cells = space.split(&value).unwrap();
        let leaves = space.leaves();
        prop_assert_eq!(cells.len(), leaves.len());
        for (leaf, cell) in leaves.iter().zip(&cells) {
            prop_assert_eq!(leaf.kind, cell.kind(), "{}", &leaf.path);
            prop_assert!(leaf.width.is_none_or(|width| width == cell.width()), "{}", leaf.path);
        }
        let again = space.merge(&cells).unwrap();
        prop_assert_eq!(space.split(&again).unwrap(), cells);
        prop_assert_eq!(again, value);
    }

    /// Every list of leaves with one change that makes it fit no more.
    #[test]
    fn merge_refuses_other_cells(space in spaces(3), seed: u64) {
        let value = sample(&space, seed);
        let cells = space.split(&value).unwrap();
        prop_assert!(space.merge(&cells[1..]).is_err());
        prop_assert!(space.merge(&[cells.as_slice(), &cells[..1]].concat()).is_err());
        for (idx, leaf) in space.leaves().iter().enumerate() {
            let others = [LeafRef::F32(&[f32::NAN]), LeafRef::U32(&[u32::MAX; 3]), LeafRef::U8(&[2]), LeafRef::F32(&[0.0; 99])];
            for other in others {
                let mut cells = cells.clone();
                cells[idx] = other;
                let error = space.merge(&cells).unwrap_err().to_string();
                let is_named = error.contains(&leaf.path);
                prop_assert!(error.starts_with("Space::merge: ") && is_named, "{}", error);
            }
        }
    }

    #[test]
    fn flattened_values_are_those_of_the_leaves(space in spaces(3), seed: u64) {
        let value = sample(&space, seed);
        if has_graph(&space) {
            prop_assert!(space.flat_width().is_err());
            prop_assert!(space.flatten_into(&value, &mut []).is_err());
            return Ok(());
        }
        let expected = naive::flatten(&space, &value);
        let width = space.flat_width().unwrap();
        prop_assert_eq!(width, expected.len());
        let widths = space.leaves().into_iter().map(|leaf| leaf.flat_width.unwrap());
        prop_assert_eq!(width, widths.sum::<usize>());
        let mut out = vec![7.0; width];
        space.flatten_into(&value, &mut out).unwrap();
        prop_assert_eq!(out, expected);
        for len in [width - 1, width + 1] {
            prop_assert!(space.flatten_into(&value, &mut vec![0.0; len]).is_err());
        }
    }

    #[test]
    fn paths_are_unique_and_stable(space in spaces(3)) {
        let leaves = space.leaves();
        for (idx, leaf) in leaves.iter().enumerate() {
            prop_assert!(leaves[..idx].iter().all(|other| other.path != leaf.path));
            prop_assert_eq!(leaf.width.is_none() , leaf.flat_width.is_none() && !leaf.path.ends_with("n_nodes"));
        }
        prop_assert_eq!(leaves, space.clone().leaves());
    }
}
