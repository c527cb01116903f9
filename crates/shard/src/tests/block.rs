//! Blocks against the whole matrix: what ranks hold and send adds up to it, in every way of sharing.

use proptest::prelude::*;

use super::{graph_of, listed_edges};
use crate::{BitShard, BlockEntries, BlockShard, Communication, Partition};

/// The entries of a block as (row, column, weight), by global ids.
fn entries(block: &BlockShard) -> Vec<(u32, u32, f32)> {
    let exchange = block.exchange();
    let mut all = Vec::new();
    match block.entries() {
        BlockEntries::Lists {
            row_ptr,
            columns,
            values,
        } => {
            assert_eq!(row_ptr.len(), exchange.rows().len() + 1);
            for (row, ends) in exchange.rows().zip(row_ptr.windows(2)) {
                let range = ends[0] as usize..ends[1] as usize;
                assert!(columns[range.clone()].is_sorted_by(|a, b| a < b));
                for i in range {
                    let weight = values.as_ref().map_or(1.0, |values| values[i]);
                    all.push((row, exchange.columns()[columns[i] as usize], weight));
                }
            }
        }
        BlockEntries::Bits {
            words,
            words_per_row,
        } => {
            for (i, &column) in exchange.columns().iter().enumerate() {
                for (bit, row) in exchange.rows().enumerate() {
                    if words[i * words_per_row + bit / 64] >> (bit % 64) & 1 == 1 {
                        all.push((row, column, 1.0));
                    }
                }
            }
        }
    }
    all
}

/// What every rank needs is its own or sent to it, and nothing else is sent.
fn check_sent(blocks: &[BlockShard], partition: &Partition) {
    for (rank, block) in (0..).zip(blocks) {
        for other in 0..partition.n_ranks() {
            let theirs = partition.range(other);
            let columns = block.exchange().columns().iter().copied();
            let wanted: Vec<u32> = columns.filter(|node| theirs.contains(node)).collect();
            let sent = blocks[other as usize].exchange().sent_to(rank);
            match other == rank {
                true => assert!(sent.is_empty()),
                false => assert_eq!(sent, wanted),
            }
        }
    }
}

proptest! {
    #[test]
    fn blocks_add_up_to_the_matrix((n, edges) in listed_edges(), n_ranks in 1u32..=7, weighted in any::<bool>()) {
        let graph = graph_of(n, &edges, weighted);
        let middle = (n_ranks / 3)..(n_ranks / 3 + n_ranks.div_ceil(2)).min(n_ranks);
        let among = Partition::by_rows_among(n, n_ranks, middle);
        let whole = BitShard::from_graph(&graph, 0..n);
        let mut want: Vec<(u32, u32)> = (0..n).flat_map(|u| graph.neighbors(u).iter().map(move |&v| (u, v))).collect();
        want.sort_unstable();
        for partition in [Partition::by_rows(n, n_ranks), Partition::by_nonzeros(&graph, n_ranks), among] {
            for communication in Communication::ALL {
                let cut = |rank| BlockShard::from_graph(&graph, &partition, rank, communication);
                let blocks: Vec<BlockShard> = (0..n_ranks).map(cut).collect();
                check_sent(&blocks, &partition);
                let mut all: Vec<(u32, u32, f32)> = blocks.iter().flat_map(entries).collect();
                all.sort_by_key(|&(u, v, _)| (u, v));
                prop_assert_eq!(&all.iter().map(|&(u, v, _)| (u, v)).collect::<Vec<_>>(), &want);
                for (u, v, weight) in all {
                    let at = graph.neighbors(u).iter().position(|&w| w == v).unwrap();
                    let want = graph.weights_of(u).map_or(1.0, |weights| weights[at]);
                    prop_assert_eq!(want.to_bits(), weight.to_bits());
                }
                for (rank, block) in (0..).zip(&blocks) {
                    let bits = BlockShard::from_bits(&whole, &partition, rank, communication);
                    prop_assert_eq!(bits.exchange(), block.exchange());
                    let pairs = |block| {
                        let mut pairs: Vec<_> = entries(block).iter().map(|&(u, v, _)| (u, v)).collect();
                        pairs.sort_unstable();
                        pairs
                    };
                    prop_assert_eq!(pairs(&bits), pairs(block));
                }
            }
        }
    }
}

/// A rank of a grid of P = pr x pc reads N / pc columns and makes N / pr sums.
#[test]
fn a_grid_has_the_sides_that_its_documentation_says() {
    let graph = graph_of(64 * 6, &[(0, 383)], false);
    for (n_ranks, rows, columns) in [
        (1, 1, 1),
        (2, 1, 2),
        (4, 2, 2),
        (6, 2, 3),
        (3, 1, 3),
        (12, 3, 4),
    ] {
        let partition = Partition::by_rows(384, n_ranks);
        for rank in 0..n_ranks {
            let block = BlockShard::from_graph(&graph, &partition, rank, Communication::Grid);
            let exchange = block.exchange();
            let n_sent = (0..n_ranks)
                .filter(|&other| !exchange.sent_to(other).is_empty())
                .count();
            assert_eq!(
                (exchange.row_group().len() as u32, n_sent as u32 + 1),
                (columns, rows)
            );
            assert!(
                exchange.rows().len().abs_diff(384 / rows as usize) <= 24,
                "{exchange:?}"
            );
        }
    }
}

#[test]
fn names_are_read_and_others_refused() {
    for communication in Communication::ALL {
        assert_eq!(
            communication.to_string().parse::<Communication>().unwrap(),
            communication
        );
    }
    let error = "ring".parse::<Communication>().unwrap_err().to_string();
    assert_eq!(error, "expected paper, gather, halo or grid, not `ring`");
}
