//! How nodes are dealt to parts: by falling degree, back and forth, so that all parts have the same share of the ends of edges.
//!
//! A node's rank is its place by falling degree. Ranks go to the parts as cards to players who sit in a row: 0, 1, ..., p-1,
//! p-1, ..., 1, 0, 0, 1, ... A part's rows are in the order of their ranks, so the rows that are touched most lie together.

/// `n_nodes` ranks dealt to `n_parts` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deal {
    pub(crate) n_nodes: u32,
    pub(crate) n_parts: u32,
}

impl Deal {
    /// The part of a rank, and its row there.
    pub(crate) fn place(self, rank: u32) -> (u32, u32) {
        let (round, seat) = (rank / self.n_parts, rank % self.n_parts);
        (self.seat(round, seat), round)
    }

    /// The rank of a row of a part.
    pub(crate) fn rank(self, part: u32, row: u32) -> u32 {
        row * self.n_parts + self.seat(row, part)
    }

    /// The number of rows of a part.
    pub(crate) fn n_rows(self, part: u32) -> u32 {
        let (whole, rest) = (self.n_nodes / self.n_parts, self.n_nodes % self.n_parts);
        whole + u32::from(self.seat(whole, part) < rest)
    }

    /// Even rounds go up, odd rounds go down: its own inverse.
    fn seat(self, round: u32, part: u32) -> u32 {
        match round % 2 {
            0 => part,
            _ => self.n_parts - 1 - part,
        }
    }
}

/// The nodes by falling degree; equal degrees by rising id.
pub(crate) fn by_falling_degree(degrees: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..degrees.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| {
        let (of_a, of_b) = (degrees[a as usize], degrees[b as usize]);
        of_b.total_cmp(&of_a).then(a.cmp(&b))
    });
    order
}

/// For each node its place in `order`.
pub(crate) fn ranks_of(order: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; order.len()];
    for (rank, &node) in (0u32..).zip(order) {
        ranks[node as usize] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_rank_has_its_own_row(n_nodes in 0u32..300, n_parts in 1u32..20) {
            let deal = Deal { n_nodes, n_parts };
            let mut seen: Vec<Vec<bool>> =
                (0..n_parts).map(|part| vec![false; deal.n_rows(part) as usize]).collect();
            for rank in 0..n_nodes {
                let (part, row) = deal.place(rank);
                prop_assert_eq!(deal.rank(part, row), rank);
                prop_assert!(!std::mem::replace(&mut seen[part as usize][row as usize], true));
            }
            prop_assert!(seen.concat().iter().all(|&seen| seen));
        }
    }

    #[test]
    fn parts_share_the_degrees() {
        let degrees: Vec<f64> = (0..1000).map(|v| 1000.0 / f64::from(v + 1)).collect();
        let deal = Deal {
            n_nodes: 1000,
            n_parts: 4,
        };
        let mut sums = [0.0f64; 4];
        for (rank, &node) in (0..).zip(&by_falling_degree(&degrees)[4..]) {
            sums[deal.place(rank + 4).0 as usize] += degrees[node as usize];
        }
        let (low, high) = (
            sums.iter().copied().fold(f64::MAX, f64::min),
            sums.iter().copied().fold(0.0, f64::max),
        );
        assert!(high / low < 1.1, "{sums:?}");
    }

    #[test]
    fn ties_go_by_id() {
        let order = by_falling_degree(&[1.0, 3.0, 1.0, 2.0]);
        assert_eq!(order, [1, 3, 0, 2]);
        assert_eq!(ranks_of(&order), [2, 0, 3, 1]);
    }
}
