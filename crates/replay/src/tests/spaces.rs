//! Layouts of spaces: a value goes into a row, over bytes and through a memory, and comes back
//! equal.

use proptest::prelude::*;
use shardgraph_environments::space::{Space, Value};
use shardgraph_random::KeyedRng;

use super::random_below;
use crate::{ColumnLayout, Error, LeafRef, Rows, UniformMemory};

/// Random spaces of fixed width.
fn spaces() -> impl Strategy<Value = Space> {
    let leaf =
        (0..3, prop::sample::select(vec![1usize, 2, 4, 31, 33, 64])).prop_map(|(kind, n)| {
            match kind {
                0 => Space::boxed(&[n], -1.0, f32::INFINITY),
                1 => Space::discrete(n as u32),
                _ => Space::multi_binary(n),
            }
            .unwrap()
        });
    leaf.prop_recursive(3, 12, 3, |member| {
        (prop::collection::vec(member, 1..=3), any::<bool>()).prop_map(|(members, is_dict)| {
            if is_dict {
                let names = ["speed", "angle", "body"];
                return Space::dict(names.into_iter().zip(members).collect()).unwrap();
            }
            Space::tuple(members).unwrap()
        })
    })
}

fn row(rows: &Rows, idx: usize) -> Vec<LeafRef<'_>> {
    let n_columns = rows.layout().columns().len();
    (0..n_columns)
        .map(|column| rows.cell(column, idx))
        .collect()
}

/// Values of two spaces, observation and action, as the rows of a block.
fn block(observation: &Space, action: &Space, n_rows: usize) -> (Rows, Vec<(Value, Value)>) {
    let spaces = [("observation", observation), ("action", action)];
    let mut rows = Rows::new(ColumnLayout::of_spaces(&spaces).unwrap());
    let mut stream = KeyedRng::new(2, "space", 0);
    let mut values = Vec::new();
    for _ in 0..n_rows {
        let (seen, taken) = (observation.sample(&mut stream), action.sample(&mut stream));
        let cells = [
            observation.split(&seen).unwrap(),
            action.split(&taken).unwrap(),
        ]
        .concat();
        rows.push(&cells).unwrap();
        values.push((seen, taken));
    }
    (rows, values)
}

proptest! {
    #[test]
    fn values_come_back_from_bytes(observation in spaces(), action in spaces(), n_rows in 0..5usize) {
        let (rows, values) = block(&observation, &action, n_rows);
        let mut received = Rows::new(rows.layout().clone());
        received.restore(&rows.to_bytes()).unwrap();
        prop_assert_eq!(&received, &rows);
        let mut memory = UniformMemory::new(rows.layout().clone(), 8).unwrap();
        memory.insert_rows(&received).unwrap();
        let mut restored = UniformMemory::new(rows.layout().clone(), 8).unwrap();
        restored.restore(&memory.to_bytes()).unwrap();
        prop_assert_eq!(&restored, &memory);
        let n_leaves = observation.leaves().len();
        for (idx, (seen, taken)) in values.iter().enumerate() {
            let cells = row(&received, idx);
            prop_assert_eq!(&observation.merge(&cells[..n_leaves]).unwrap(), seen);
            prop_assert_eq!(&action.merge(&cells[n_leaves..]).unwrap(), taken);
        }
    }
}

#[test]
fn columns_are_called_by_their_leaves() {
    let pair = Space::tuple(vec![
        Space::discrete(3).unwrap(),
        Space::multi_binary(9).unwrap(),
    ])
    .unwrap();
    let body = Space::dict(vec![
        ("pair", pair),
        ("angle", Space::boxed(&[2, 3], 0.0, 1.0).unwrap()),
    ])
    .unwrap();
    let layout = ColumnLayout::of_spaces(&[
        ("observation", &body),
        ("action", &Space::discrete(2).unwrap()),
    ]);
    assert_eq!(
        layout.unwrap().to_string(),
        "observation/pair/0: 1 u32, observation/pair/1: 9 u8, observation/angle: 6 f32, action: 1 u32"
    );
}

#[test]
fn spaces_without_a_layout_are_refused() {
    let graph = Space::tuple(vec![
        Space::discrete(3).unwrap(),
        Space::graph(1, 0).unwrap(),
    ])
    .unwrap();
    let error = ColumnLayout::of_spaces(&[("observation", &graph)])
        .unwrap_err()
        .to_string();
    let expected = "ColumnLayout::of_spaces: leaf observation/1/edges: expected a fixed width; episodes on graphs go into an \
                    EpisodeMemory, given a width that varies with the graph";
    assert_eq!(error, expected);
    let number = Space::discrete(3).unwrap();
    assert!(ColumnLayout::of_spaces(&[]).is_err());
    assert!(ColumnLayout::of_spaces(&[("a", &number), ("a", &number)]).is_err());
}

/// Cuts are refused; a changed byte is refused or makes other rows, never a panic.
#[test]
fn damaged_blocks_are_survived() {
    let observation = Space::boxed(&[3], -1.0, 1.0).unwrap();
    let (rows, _) = block(&observation, &Space::multi_binary(2).unwrap(), 3);
    let sound = rows.to_bytes();
    let empty = Rows::new(rows.layout().clone());
    for len in 0..sound.len() {
        let mut target = empty.clone();
        assert!(target.restore(&sound[..len]).is_err(), "{len} bytes");
        assert_eq!(target, empty);
    }
    assert!(
        empty
            .clone()
            .restore(&[sound.as_slice(), &[0]].concat())
            .is_err()
    );
    let mut state = 1;
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 + random_below(&mut state, 255) as u8;
        let mut target = empty.clone();
        match target.restore(&bytes) {
            Ok(()) => assert_eq!(target.to_bytes(), bytes, "byte {at}"),
            Err(_) => assert_eq!(target, empty),
        }
    }
}

#[test]
fn blocks_of_another_layout_and_without_end_are_refused() {
    let (rows, _) = block(
        &Space::discrete(3).unwrap(),
        &Space::multi_binary(2).unwrap(),
        1,
    );
    let mut other =
        Rows::new(ColumnLayout::of_spaces(&[("action", &Space::discrete(2).unwrap())]).unwrap());
    let error = other.restore(&rows.to_bytes()).unwrap_err().to_string();
    let expected = "Rows::restore: the layout of the bytes: expected action: 1 u32, given observation: 1 u32, action: 2 u8";
    assert_eq!(error, expected);
    let mut bytes = rows.to_bytes();
    let at = bytes.len() - (4 + 2) - 8;
    bytes[at..at + 8].fill(0xff);
    let error = rows.clone().restore(&bytes).unwrap_err();
    assert_eq!(
        error,
        Error::Malformed {
            reason: "the bytes end early"
        }
    );
}
