//! A bit matrix under construction: each edge is one bit, in the row that the stream is writing anyway; the other triangle is
//! filled in one pass at the end. That halves the random writes and makes the rest sequential.

use crate::bits::{BitShard, count_ones};
use crate::transpose::mirror;

/// A square bit matrix with room for `n` nodes, in which an edge (u, v) is bit (u, v) or bit (v, u).
pub(crate) struct HalfMatrix {
    n: u32,
    words_per_row: usize,
    words: Vec<u64>,
    last_v: u32,
}

/// The bytes of a bit matrix of `n` nodes.
pub(crate) fn matrix_bytes(n: u32) -> u64 {
    u64::from(n) * u64::from(n.div_ceil(64)) * 8
}

impl HalfMatrix {
    pub(crate) fn new(n: u32) -> HalfMatrix {
        let words_per_row = n.div_ceil(64) as usize;
        HalfMatrix {
            n,
            words_per_row,
            words: vec![0; words_per_row * n as usize],
            last_v: u32::MAX,
        }
    }

    /// The number of nodes there is room for.
    pub(crate) fn n_nodes(&self) -> u32 {
        self.n
    }

    /// Sets the edge (u, v), both below [`HalfMatrix::n_nodes`].
    ///
    /// Streams list edges by their first or by their second end; the end that stays the same names the row, so that one row
    /// stays in cache.
    pub(crate) fn set(&mut self, u: u32, v: u32) {
        let (row, bit) = if v == self.last_v { (v, u) } else { (u, v) };
        self.last_v = v;
        self.words[row as usize * self.words_per_row + bit as usize / 64] |= 1 << (bit % 64);
    }

    /// Makes room for `n` nodes, or takes away the room of nodes at and beyond `n`, none of which may have an edge. In place.
    pub(crate) fn resize(&mut self, n: u32) {
        let words_per_row = n.div_ceil(64) as usize;
        let (from, to) = (self.words_per_row, words_per_row);
        let n_kept = self.n.min(n) as usize;
        if to < from {
            (0..n_kept).for_each(|row| {
                self.words
                    .copy_within(row * from..row * from + to, row * to)
            });
        }
        self.words.resize(n as usize * to, 0);
        if to > from {
            // From the last row down, so that no row is overwritten before it has moved.
            for row in (0..n_kept).rev() {
                self.words
                    .copy_within(row * from..(row + 1) * from, row * to);
                self.words[row * to + from..(row + 1) * to].fill(0);
            }
        }
        (self.n, self.words_per_row) = (n, words_per_row);
    }

    /// Fills the other triangle, so that each edge is two bits, and counts the edges.
    pub(crate) fn mirror(&mut self) -> u64 {
        mirror(&mut self.words, self.n as usize, self.words_per_row);
        count_ones(&self.words) / 2
    }

    /// Calls `visit` with each set bit; an edge that was listed in both orientations may come twice.
    pub(crate) fn for_each_edge(self, visit: &mut dyn FnMut(u32, u32)) {
        let half = self.into_shard();
        for u in 0..half.n_rows() {
            half.for_each_in_row(u, &mut |v| visit(u, v));
        }
    }

    /// The matrix as a shard; [`HalfMatrix::mirror`] comes first.
    pub(crate) fn into_shard(self) -> BitShard {
        BitShard::from_words(self.n, 0..self.n, self.words)
    }
}
