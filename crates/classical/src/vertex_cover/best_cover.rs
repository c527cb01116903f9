//! [`BestCover`]: the smallest cover that a search has met, kept up by what has changed since.

/// A set of nodes, and a log of those that came or went since it was kept.
///
/// Keeping the next one costs what has changed, not what the cover holds: on a large graph improvements are some steps apart.
pub(crate) struct BestCover {
    is_in: Vec<bool>,
    n_in: usize,
    /// Nodes that came or went, maybe more than once; no more than there are nodes.
    log: Vec<u32>,
    /// Whether there were more: then every node is looked at.
    is_overfull: bool,
}

impl BestCover {
    pub(crate) fn new(n_nodes: u32, cover: &[u32]) -> BestCover {
        let mut is_in = vec![false; n_nodes as usize];
        for &v in cover {
            is_in[v as usize] = true;
        }
        BestCover {
            is_in,
            n_in: cover.len(),
            log: Vec::new(),
            is_overfull: false,
        }
    }

    /// How many nodes it holds.
    pub(crate) fn len(&self) -> usize {
        self.n_in
    }

    /// Tells that `v` came or went.
    pub(crate) fn changed(&mut self, v: u32) {
        match self.log.len() < self.is_in.len() {
            true => self.log.push(v),
            false => self.is_overfull = true,
        }
    }

    /// Becomes the set of `n_in` nodes that `is_in` tells.
    ///
    /// # Complexity
    /// O(changes since the last one), at most O(n).
    pub(crate) fn keep(&mut self, n_in: usize, is_in: impl Fn(u32) -> bool) {
        if self.is_overfull {
            for (v, slot) in (0u32..).zip(&mut self.is_in) {
                *slot = is_in(v);
            }
        } else {
            for &v in &self.log {
                self.is_in[v as usize] = is_in(v);
            }
        }
        self.n_in = n_in;
        self.log.clear();
        self.is_overfull = false;
    }

    /// Its nodes, ascending.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        crate::vertex_cover::check::listed(&self.is_in)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use shardgraph_random::KeyedRng;

    use super::*;

    /// What is kept is the set of the moment, whether the log held all changes or not.
    #[test]
    fn the_log_gives_the_set_of_the_moment() {
        const N: u32 = 40;
        let mut random = KeyedRng::new(1, "test", 0);
        let mut now = [false; N as usize];
        let mut best = BestCover::new(N, &[]);
        for n_changes in [0, 1, 5, 39, 40, 41, 200, 3, 0, 45, 1] {
            let before = best.nodes();
            for _ in 0..n_changes {
                let v = random.below_u32(N);
                now[v as usize] ^= true;
                best.changed(v);
            }
            assert_eq!(best.nodes(), before);
            let n_in = now.iter().filter(|is_in| **is_in).count();
            best.keep(n_in, |v| now[v as usize]);
            assert_eq!(
                (best.nodes(), best.len()),
                (crate::vertex_cover::check::listed(&now), n_in)
            );
        }
    }

    #[test]
    fn keeping_looks_at_what_has_changed() {
        let everything: Vec<u32> = (0..100_000).collect();
        let mut best = BestCover::new(100_000, &everything);
        let n_looks = Cell::new(0);
        for v in [7, 70_000, 99_999] {
            best.changed(v);
            best.keep(best.len() - 1, |_| {
                n_looks.set(n_looks.get() + 1);
                false
            });
        }
        assert_eq!((n_looks.get(), best.len()), (3, 99_997));
    }
}
