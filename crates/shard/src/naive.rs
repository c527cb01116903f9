//! The plainest forms of what this crate does, for its tests: a matrix of bools, and cuts found by trying them all.

use crate::ROW_WORK;

/// The adjacency matrix of the listed edges.
pub(crate) fn matrix(n: u32, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
    let mut matrix = vec![vec![false; n as usize]; n as usize];
    for &(u, v) in edges {
        matrix[u as usize][v as usize] = true;
        matrix[v as usize][u as usize] = true;
    }
    matrix
}

pub(crate) fn n_edges(matrix: &[Vec<bool>]) -> u64 {
    let entries = matrix.iter().flatten().filter(|&&joined| joined);
    entries.count() as u64 / 2
}

/// The neighbours of `u` among `columns`, ascending.
pub(crate) fn neighbors(matrix: &[Vec<bool>], u: u32, columns: std::ops::Range<u32>) -> Vec<u32> {
    columns
        .filter(|&v| matrix[u as usize][v as usize])
        .collect()
}

/// The first edge with no end in the cover.
pub(crate) fn uncovered_edge(matrix: &[Vec<bool>], in_cover: &[bool]) -> Option<(u32, u32)> {
    for u in 0..matrix.len() {
        for v in 0..matrix.len() {
            if matrix[u][v] && !in_cover[u] && !in_cover[v] {
                return Some((u as u32, v as u32));
            }
        }
    }
    None
}

/// The size of the matching in which each node takes its first free neighbour.
pub(crate) fn maximal_matching(matrix: &[Vec<bool>]) -> u64 {
    let mut taken = vec![false; matrix.len()];
    let mut size = 0;
    for u in 0..matrix.len() {
        for v in 0..matrix.len() {
            if matrix[u][v] && !taken[u] && !taken[v] {
                taken[u] = true;
                taken[v] = true;
                size += 1;
            }
        }
    }
    size
}

/// The smallest possible work of the largest of `n_ranks` contiguous pieces of `blocks`, by trying every first piece.
pub(crate) fn smallest_largest_work(blocks: &[u64], n_ranks: u32) -> u64 {
    if n_ranks == 1 {
        return blocks.iter().sum();
    }
    (0..=blocks.len())
        .map(|first| {
            let rest = smallest_largest_work(&blocks[first..], n_ranks - 1);
            rest.max(blocks[..first].iter().sum())
        })
        .min()
        .unwrap()
}

/// The work of rows `rows`: nonzeros and [`ROW_WORK`] for each row.
pub(crate) fn work(matrix: &[Vec<bool>], rows: std::ops::Range<u32>) -> u64 {
    rows.map(|u| matrix[u as usize].iter().filter(|&&joined| joined).count() as u64 + ROW_WORK)
        .sum()
}
