//! Mirrored and resized bit matrices against a matrix of bools.

use proptest::prelude::*;

use super::{SIZES, listed_edges};
use crate::bits::BitShard;
use crate::half_matrix::HalfMatrix;
use crate::naive;
use crate::transpose::mirror;

fn rows_of(shard: &BitShard) -> Vec<Vec<u32>> {
    (0..shard.n_rows())
        .map(|u| {
            let mut row = Vec::new();
            shard.for_each_in_row(u, &mut |v| row.push(v));
            row
        })
        .collect()
}

proptest! {
    #[test]
    fn a_mirrored_matrix_has_both_triangles((n, edges) in listed_edges()) {
        let words_per_row = n.div_ceil(64) as usize;
        let mut words = vec![0u64; words_per_row * n as usize];
        for &(u, v) in &edges {
            words[u as usize * words_per_row + v as usize / 64] |= 1 << (v % 64);
        }
        mirror(&mut words, n as usize, words_per_row);
        prop_assert!(is_symmetric(&words, n as usize, words_per_row));
        let matrix = naive::matrix(n, &edges);
        let expected: Vec<_> = (0..n).map(|u| naive::neighbors(&matrix, u, 0..n)).collect();
        prop_assert_eq!(rows_of(&BitShard::from_words(n, 0..n, words)), expected);
    }

    #[test]
    fn a_resized_matrix_keeps_its_edges((n, edges) in listed_edges(), room in prop::sample::select(SIZES.to_vec())) {
        let mut half = HalfMatrix::new(n);
        edges.iter().for_each(|&(u, v)| half.set(u, v));
        half.resize(n + room);
        half.resize(n + room / 2);
        let n_edges = half.mirror();
        let matrix = naive::matrix(n + room / 2, &edges);
        prop_assert_eq!(n_edges, naive::n_edges(&matrix));
        let expected: Vec<_> = (0..n + room / 2).map(|u| naive::neighbors(&matrix, u, 0..n)).collect();
        prop_assert_eq!(rows_of(&half.into_shard()), expected);
    }
}

#[test]
fn one_bit_without_its_mirror_is_found() {
    for n in [2, 63, 64, 65, 129] {
        let words_per_row = 129_usize.div_ceil(64);
        let mut words = vec![0u64; words_per_row * 129];
        assert!(is_symmetric(&words, 129, words_per_row));
        words[(n - 1) * words_per_row] |= 1;
        assert!(
            !is_symmetric(&words, 129, words_per_row),
            "bit ({}, 0)",
            n - 1
        );
        words[(n - 1) / 64] |= 1 << ((n - 1) % 64);
        assert!(is_symmetric(&words, 129, words_per_row));
    }
}

/// True if bit (u, v) is set exactly when (v, u) is.
fn is_symmetric(words: &[u64], n: usize, words_per_row: usize) -> bool {
    let bit = |u: usize, v: usize| words[u * words_per_row + v / 64] >> (v % 64) & 1;
    (0..n).all(|u| (0..u).all(|v| bit(u, v) == bit(v, u)))
}
