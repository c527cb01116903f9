//! List shards: the matrix they hold, COO in and out, and stated bytes.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{graph_of, listed_edges};
use crate::{CsrShard, Error, Partition, naive};

type Entry = (u32, u32, f32);

/// The bytes of one (row, column, value) triple as 64-bit, 64-bit and 32-bit numbers.
const COO_BYTES: u64 = 20;

fn transposed(shard: &CsrShard) -> CsrShard {
    let entries: Vec<_> = shard
        .coo()
        .map(|(row, column, value)| (column, row, value))
        .collect();
    let weighted = shard.values().is_some();
    CsrShard::from_coo(shard.columns_range(), shard.rows(), &entries, weighted).unwrap()
}

proptest! {
    #[test]
    fn shards_hold_the_matrix((n, edges) in listed_edges(), n_ranks in 1..=6u32, weighted: bool) {
        let (graph, matrix) = (graph_of(n, &edges, weighted), naive::matrix(n, &edges));
        let partition = Partition::by_rows(n, n_ranks);
        let mut n_entries = 0;
        for rank in 0..n_ranks {
            let own = partition.range(rank);
            let shard = CsrShard::by_rows(&graph, own.clone());
            prop_assert_eq!((shard.rows(), shard.columns_range()), (own.clone(), 0..n));
            for u in own.clone() {
                prop_assert_eq!(shard.row(u), naive::neighbors(&matrix, u, 0..n));
                prop_assert_eq!(shard.row_values(u), graph.weights_of(u));
            }
            let by_columns = CsrShard::by_columns(&graph, own.clone());
            for u in 0..n {
                prop_assert_eq!(by_columns.row(u), naive::neighbors(&matrix, u, own.clone()));
            }
            prop_assert_eq!(&transposed(&by_columns), &shard);
            n_entries += shard.n_entries();
        }
        prop_assert_eq!(n_entries, graph.n_entries());
    }

    #[test]
    fn coo_goes_out_and_in((n, edges) in listed_edges(), weighted: bool, by_columns: bool) {
        let graph = graph_of(n, &edges, weighted);
        let own = n / 3..n - n / 4;
        let shard = if by_columns { CsrShard::by_columns(&graph, own) } else { CsrShard::by_rows(&graph, own) };
        let mut entries: Vec<_> = shard.coo().collect();
        prop_assert!(entries.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
        entries.sort_by_key(|&(row, column, _)| (column % 7, row % 5)); // some other order
        let again = CsrShard::from_coo(shard.rows(), shard.columns_range(), &entries, weighted).unwrap();
        prop_assert_eq!(again, shard);
    }
}

#[test]
fn an_entry_takes_four_bytes_and_a_row_eight() {
    let edges: Vec<_> = (0..100)
        .flat_map(|u| [(u, (u + 1) % 100), (u, (u + 2) % 100)])
        .collect();
    let shard = CsrShard::by_rows(&graph_of(100, &edges, false), 0..100);
    assert_eq!(shard.bytes(), 4 * 400 + 8 * 101);
    let arrays = size_of_val(shard.cols()) + size_of_val(shard.row_ptr());
    assert_eq!(shard.bytes(), arrays as u64);
    assert!(shard.bytes() < COO_BYTES * shard.n_entries() * 2 / 5);

    let weighted = CsrShard::by_rows(&graph_of(100, &edges, true), 0..100);
    assert_eq!(weighted.bytes(), 8 * 400 + 8 * 101);
}

#[test]
fn a_graph_without_nodes_has_a_shard() {
    for graph in [Graph::default(), Graph::from_edges(0, &[]).unwrap()] {
        let shard = CsrShard::by_rows(&graph, 0..0);
        assert_eq!(shard, CsrShard::by_columns(&graph, 0..0));
        let entries: Vec<_> = shard.coo().collect();
        assert_eq!(
            CsrShard::from_coo(0..0, 0..0, &entries, false).unwrap(),
            shard
        );
    }
}

#[test]
#[should_panic(expected = "row 1 of a shard of rows 2..4")]
fn a_row_of_another_rank_is_refused() {
    CsrShard::by_rows(&graph_of(4, &[(0, 1)], false), 2..4).row(1);
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::Entry { reason, .. } => reason,
        other => panic!("another error: {other:?}"),
    }
}

#[test]
fn entries_that_do_not_fit_are_named() {
    let cases: [(&[Entry], &str); 5] = [
        (&[(1, 5, 1.0)], "lies outside the shard's rows"),
        (&[(4, 5, 1.0)], "lies outside the shard's rows"),
        (&[(2, 9, 1.0)], "lies outside the shard's columns"),
        (&[(3, 3, 1.0)], "joins a node to itself"),
        (&[(2, 5, 1.0), (3, 5, 1.0), (2, 5, 2.0)], "is given twice"),
    ];
    for (entries, expected) in cases {
        let error = CsrShard::from_coo(2..4, 3..9, entries, false).unwrap_err();
        assert_eq!(reason(&error), expected);
    }
    let error = CsrShard::from_coo(2..4, 3..9, &[(2, 5, f32::NAN)], true).unwrap_err();
    let text = "the entry (row 2, column 5) has a value that is not finite; pass each entry of the shard once, inside its ranges";
    assert_eq!(error.to_string(), text);
}
