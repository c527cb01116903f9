//! Bit shards: the matrix they hold, cuts at any block border, the cover check and stated bytes.

use proptest::prelude::*;

use super::{graph_of, listed_edges};
use crate::{BitShard, Partition, naive};

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
