//! Bit shards: the matrix they hold, cuts at any block border, the cover check, stated bytes, and bytes that are not a shard.

use proptest::prelude::*;

use super::{graph_of, listed_edges};
use crate::{BitShard, Error, ErrorKind, Partition, naive};

fn bit_set(flags: &[bool]) -> Vec<u64> {
    let mut words = vec![0; flags.len().div_ceil(64)];
    for idx in (0..flags.len()).filter(|&idx| flags[idx]) {
        words[idx / 64] |= 1 << (idx % 64);
    }
    words
}

proptest! {
    #[test]
    fn shards_hold_the_matrix((n, edges) in listed_edges(), n_ranks in 1..=6u32) {
        let (graph, matrix) = (graph_of(n, &edges, false), naive::matrix(n, &edges));
        let partition = Partition::by_rows(n, n_ranks);
        for rank in 0..n_ranks {
            let own = partition.range(rank);
            let shard = BitShard::from_graph(&graph, own.clone());
            let mut n_entries = 0;
            for u in 0..n {
                let mut row = Vec::new();
                shard.for_each_in_row(u, &mut |v| row.push(v));
                prop_assert_eq!(&row, &naive::neighbors(&matrix, u, own.clone()));
                prop_assert!(own.clone().all(|v| shard.contains(u, v) == matrix[u as usize][v as usize]));
                prop_assert_eq!(shard.row_count(u) as usize, row.len());
                n_entries += row.len() as u64;
            }
            prop_assert_eq!(shard.n_entries(), n_entries);
        }
    }

    #[test]
    fn a_split_matrix_is_the_columns_of_each_rank((n, edges) in listed_edges(), n_ranks in 1..=6u32) {
        let graph = graph_of(n, &edges, false);
        let partition = Partition::by_nonzeros(&graph, n_ranks);
        let whole = BitShard::from_graph(&graph, 0..n);
        let bytes = whole.bytes();
        let shards = whole.split(&partition);
        for (rank, shard) in (0..n_ranks).zip(&shards) {
            prop_assert_eq!(shard, &BitShard::from_graph(&graph, partition.range(rank)));
            prop_assert_eq!(&whole.part(&partition, rank), shard);
        }
        // N/8 bytes a row over all ranks, to the next whole word of each rank.
        let total: u64 = shards.iter().map(BitShard::bytes).sum();
        prop_assert!(total <= bytes + u64::from(n) * 8 * u64::from(n_ranks - 1));
    }

    #[test]
    fn an_edge_within_a_set_is_the_first((n, edges) in listed_edges(), seed: u64) {
        let whole = BitShard::from_graph(&graph_of(n, &edges, false), 0..n);
        let matrix = naive::matrix(n, &edges);
        let keep = |v: u32| seed.rotate_left(v) % 8 == 0;
        let in_set: Vec<bool> = (0..n).map(keep).collect();
        let in_cover: Vec<bool> = in_set.iter().map(|kept| !kept).collect();
        prop_assert_eq!(whole.edge_within(&bit_set(&in_set)), naive::uncovered_edge(&matrix, &in_cover));
    }

    #[test]
    fn bytes_go_out_and_in((n, edges) in listed_edges()) {
        for columns in [0..n, n / 3..n] {
            let shard = BitShard::from_graph(&graph_of(n, &edges, false), columns);
            let bytes = shard.to_bytes();
            prop_assert_eq!(bytes.len() as u64, 20 + shard.bytes());
            prop_assert_eq!(BitShard::from_bytes(&bytes).unwrap(), shard);
        }
    }

    #[test]
    fn any_bytes_are_a_shard_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut with_header = b"SGBIT\0\0\x01".to_vec();
        with_header.extend_from_slice(&bytes);
        let _ = BitShard::from_bytes(&with_header);
        prop_assert!(BitShard::from_bytes(&bytes).is_err() || bytes.starts_with(b"SGBIT"));
    }
}

#[test]
fn a_row_takes_an_eighth_of_a_byte_per_node() {
    let whole = BitShard::from_graph(&graph_of(4096, &[(0, 1)], false), 0..4096);
    assert_eq!(whole.bytes(), 4096 * 4096 / 8);
    assert_eq!(whole.bytes(), size_of_val(whole.words()) as u64);
}

#[test]
#[should_panic(expected = "only a whole matrix can be split")]
fn a_part_cannot_be_split() {
    let part = BitShard::from_graph(&graph_of(4, &[(0, 1)], false), 0..2);
    part.split(&Partition::by_rows(4, 2));
}

#[test]
#[should_panic(expected = "column 2 of a shard of columns 0..2")]
fn a_column_of_another_rank_is_refused() {
    BitShard::from_graph(&graph_of(4, &[(0, 1)], false), 0..2).contains(0, 2);
}

fn reason(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Malformed { reason, .. } => reason,
        other => panic!("another error: {other:?}"),
    }
}

/// The path 0 - 1 - 2 - 3 whole: a 20-byte header and four words of one row each.
fn example_bytes() -> Vec<u8> {
    let path = graph_of(4, &[(0, 1), (1, 2), (2, 3)], false);
    BitShard::from_graph(&path, 0..4).to_bytes()
}

#[test]
fn every_broken_rule_is_found() {
    let cases: [(usize, u8, &str); 7] = [
        (0, b's', "the first 8 bytes are not this form and version"),
        (8, 3, "the columns reach beyond the number of rows"),
        (12, 9, "a range ends before it starts"),
        (8, 5, "the bytes end early"),
        (20, 0b10010, "a bit is set beyond the last column"),
        (20, 0b11, "a node is its own neighbour"),
        (20, 0b1010, "a whole matrix is not symmetric"),
    ];
    for (at, value, expected) in cases {
        let mut bytes = example_bytes();
        bytes[at] = value;
        let error = BitShard::from_bytes(&bytes).unwrap_err();
        assert_eq!(reason(&error), expected, "{value} at byte {at}");
    }
    let mut long = example_bytes();
    long.push(0);
    assert_eq!(
        reason(&BitShard::from_bytes(&long).unwrap_err()),
        "bytes follow the last array"
    );
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    let bytes = example_bytes();
    for len in 0..bytes.len() {
        assert!(BitShard::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            if let Ok(shard) = BitShard::from_bytes(&changed) {
                assert_eq!(shard.to_bytes(), changed, "byte {at}");
            }
        }
    }
}
