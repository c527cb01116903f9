//! Leaves of nested spaces: cut, joined, and named as the space names them.

use shardgraph_autodiff::Params;
use shardgraph_environments::space::{RankedSpace, Space};
use shardgraph_graph::random::Stream;

use super::run;
use crate::{Merger, Splitter, check};

fn nested() -> Space {
    let camera = vec![
        ("angle", Space::boxed(&[2, 2], -1.0, 1.0).unwrap()),
        ("mode", Space::discrete(3).unwrap()),
    ];
    let pair = vec![Space::multi_binary(2).unwrap(), Space::discrete(1).unwrap()];
    let members = vec![
        ("camera", Space::dict(camera).unwrap()),
        ("pair", Space::tuple(pair).unwrap()),
    ];
    Space::dict(members).unwrap()
}

#[test]
fn leaves_have_the_spaces_names_and_places() {
    let space = nested();
    let splitter = Splitter::build("split", &space).unwrap();
    let given: Vec<(&str, usize, usize)> = splitter
        .leaves()
        .iter()
        .map(|leaf| (leaf.path.as_str(), leaf.start, leaf.width))
        .collect();
    let expected = [
        ("camera/angle", 0, 4),
        ("camera/mode", 4, 3),
        ("pair/0", 7, 2),
        ("pair/1", 9, 1),
    ];
    assert_eq!(given, expected);
    let named: Vec<String> = space.leaves().into_iter().map(|leaf| leaf.path).collect();
    assert_eq!(named, expected.map(|(path, ..)| path));
}

#[test]
fn merging_is_the_inverse_of_splitting() {
    let space = nested();
    let (splitter, merger) = (
        Splitter::build("split", &space).unwrap(),
        Merger::build("merge", &space).unwrap(),
    );
    let (mut row, mut stream) = ([0.0; 10], Stream::new(1, "test", 0));
    space
        .flatten_into(&space.sample(&mut stream), &mut row)
        .unwrap();
    let out = run(&Params::new(), &[(10, &row)], |ctx, x| {
        let mut parts = splitter.split(ctx, x[0])?;
        parts.push(merger.merge(ctx, &parts)?);
        Ok(parts)
    });
    assert_eq!(out[4], row);
    assert_eq!((&out[0][..], &out[2][..]), (&row[..4], &row[7..9]));
    let batch = RankedSpace::new(space).with_batch();
    let checked = check("split", &Params::new(), &[batch], 1, |ctx, x| {
        let parts = splitter.split(ctx, x[0])?;
        Ok(vec![merger.merge(ctx, &parts)?, parts[1]])
    });
    assert_eq!(checked.unwrap().n_unclear, 0);
}

#[test]
fn graphs_have_no_leaves_of_fixed_width() {
    let graphs = Space::graph(2, 0).unwrap();
    let error = Splitter::build("split", &graphs).unwrap_err().to_string();
    assert!(
        error.contains(
            "`split`, Splitter::build: the observation space: expected a space of fixed width"
        ),
        "{error}"
    );
}
