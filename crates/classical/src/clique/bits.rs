//! [`BitRows`]: the adjacency of a small graph, a row of bits for each node, and loops over the bits that are set.

/// A square matrix of bits.
#[derive(Clone, Debug)]
pub(crate) struct BitRows {
    n: usize,
    n_words: usize,
    bits: Vec<u64>,
}

impl BitRows {
    /// No two nodes are adjacent.
    pub(crate) fn new(n: usize) -> BitRows {
        let n_words = n.div_ceil(64);
        BitRows {
            n,
            n_words,
            bits: vec![0; n * n_words],
        }
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.n
    }

    pub(crate) fn n_words(&self) -> usize {
        self.n_words
    }

    pub(crate) fn join(&mut self, u: usize, v: usize) {
        self.bits[u * self.n_words + v / 64] |= 1 << (v % 64);
        self.bits[v * self.n_words + u / 64] |= 1 << (u % 64);
    }

    pub(crate) fn row(&self, v: usize) -> &[u64] {
        &self.bits[v * self.n_words..(v + 1) * self.n_words]
    }

    pub(crate) fn is_adjacent(&self, u: usize, v: usize) -> bool {
        has_bit(self.row(u), v)
    }

    /// Calls `visit` for each node other than `v` that is no neighbour of it.
    pub(crate) fn for_each_non_neighbor(&self, v: usize, mut visit: impl FnMut(usize)) {
        for (at, &word) in self.row(v).iter().enumerate() {
            let mut rest = !word;
            if at == v / 64 {
                rest &= !(1 << (v % 64));
            }
            if at + 1 == self.n_words && !self.n.is_multiple_of(64) {
                rest &= (1 << (self.n % 64)) - 1;
            }
            while rest != 0 {
                visit(at * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

/// The set of `0..n`.
pub(crate) fn full_set(n: usize) -> Vec<u64> {
    let mut set = vec![u64::MAX; n.div_ceil(64)];
    if !n.is_multiple_of(64) {
        set[n / 64] = (1 << (n % 64)) - 1;
    }
    set
}

pub(crate) fn has_bit(set: &[u64], v: usize) -> bool {
    set[v / 64] >> (v % 64) & 1 == 1
}

pub(crate) fn set_bit(set: &mut [u64], v: usize) {
    set[v / 64] |= 1 << (v % 64);
}

pub(crate) fn clear_bit(set: &mut [u64], v: usize) {
    set[v / 64] &= !(1 << (v % 64));
}

pub(crate) fn count(set: &[u64]) -> usize {
    set.iter().map(|word| word.count_ones() as usize).sum()
}

/// The least element, `None` for the empty set.
pub(crate) fn first(set: &[u64]) -> Option<usize> {
    let at = set.iter().position(|word| *word != 0)?;
    Some(at * 64 + set[at].trailing_zeros() as usize)
}
