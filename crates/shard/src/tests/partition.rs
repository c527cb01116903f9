//! Partitions: blocks that depend on n alone, ranges that are all rows, and the smallest largest work.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{graph_of, listed_edges};
use crate::{Partition, block_rows, naive};

#[test]
fn blocks_are_the_smallest_powers_of_two_that_stay_within_64() {
    for n in (0..5_000).chain([1 << 20, (1 << 20) + 1, u32::MAX - 1, u32::MAX]) {
        let height = block_rows(n);
        assert!(height.is_power_of_two());
        assert!(n.div_ceil(height) <= 64, "n = {n}");
        assert!(
            height == 1 || n.div_ceil(height / 2) > 64,
            "n = {n}: half the height would do"
        );
    }
}

fn check_shape(partition: &Partition, n: u32, n_ranks: u32) {
    assert_eq!((partition.n_rows(), partition.n_ranks()), (n, n_ranks));
    let (mut end, mut block_end) = (0, 0);
    for rank in 0..n_ranks {
        let (rows, blocks) = (partition.range(rank), partition.blocks(rank));
        assert_eq!((rows.start, blocks.start), (end, block_end));
        assert!(rows.start % partition.block_rows() == 0 || rows.start == n);
        let blocks_suffice = n_ranks <= partition.n_blocks();
        assert!(
            !(blocks_suffice && rows.is_empty()),
            "rank {rank} of {n_ranks}"
        );
        assert!(rows.clone().all(|v| partition.owner(v) == rank));
        assert_eq!(partition.counts()[rank as usize], rows.len());
        (end, block_end) = (rows.end, blocks.end);
    }
    assert_eq!((end, block_end), (n, partition.n_blocks()));
}

#[test]
fn ranges_cover_all_rows_on_block_borders() {
    for n in (0..300).chain([1023, 1024, 1025, 4095, 4096, 4097, 21_000]) {
        for n_ranks in [1, 2, 3, 4, 5, 6, 63, 64, 65, 100] {
            check_shape(&Partition::by_rows(n, n_ranks), n, n_ranks);
        }
    }
}

#[test]
fn cuts_by_rows_differ_by_a_block_at_most() {
    let thirds = Partition::by_rows(21_000, 3);
    assert_eq!(thirds.block_rows(), 512);
    assert_eq!(thirds.counts(), [14 * 512, 14 * 512, 21_000 - 28 * 512]);
}

#[test]
fn the_largest_row_number_is_cut_without_overflow() {
    let partition = Partition::by_rows(u32::MAX, 6);
    assert_eq!(partition.range(5).end, u32::MAX);
    assert_eq!(partition.owner(u32::MAX - 1), 5);
}

#[test]
fn the_rank_of_a_hub_gets_fewer_rows() {
    let edges: Vec<_> = (1..64).map(|v| (0, v)).collect();
    let star = Graph::from_edges(64, &edges).unwrap();
    // The hub's row costs 63 + 8, a leaf's 1 + 8. 216 hold the hub and 16 leaves, or 24 leaves; 215 would not do.
    assert_eq!(Partition::by_nonzeros(&star, 3).counts(), [17, 24, 23]);
}

#[test]
#[should_panic(expected = "at least one rank")]
fn no_ranks_is_refused() {
    Partition::by_rows(10, 0);
}

#[test]
#[should_panic(expected = "row 10 of a partition of 10 rows")]
fn a_row_beyond_the_last_has_no_owner() {
    Partition::by_rows(10, 3).owner(10);
}

proptest! {
    #[test]
    fn the_largest_work_is_the_smallest_possible((n, edges) in listed_edges(), n_ranks in 1..=3u32) {
        let matrix = naive::matrix(n, &edges);
        let partition = Partition::by_nonzeros(&graph_of(n, &edges, false), n_ranks);
        check_shape(&partition, n, n_ranks);
        let height = block_rows(n);
        let blocks: Vec<u64> = (0..n)
            .step_by(height as usize)
            .map(|start| naive::work(&matrix, start..n.min(start + height)))
            .collect();
        let largest = (0..n_ranks).map(|rank| naive::work(&matrix, partition.range(rank))).max();
        prop_assert_eq!(largest, Some(naive::smallest_largest_work(&blocks, n_ranks)));
    }

    #[test]
    fn more_ranks_than_blocks_leave_ranges_empty((n, edges) in listed_edges(), n_ranks in 4..=80u32) {
        check_shape(&Partition::by_nonzeros(&graph_of(n, &edges, false), n_ranks), n, n_ranks);
    }
}
