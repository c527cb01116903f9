//! Partition of the nodes by degree: each part gets the same share of the ends of edges.
//!
//! A node's rank is its place by falling degree. Ranks go to the parts back and forth: 0, 1, ...,
//! p-1, p-1, ..., 1, 0, 0, 1, ... A part's rows are in the order of their ranks, so the rows that
//! are touched most lie together.

/// `n_nodes` ranks in `n_parts` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DegreePartition {
    pub(crate) n_nodes: u32,
    pub(crate) n_parts: u32,
}

impl DegreePartition {
    /// Part of a rank, and its row there.
    pub(crate) fn place(self, rank: u32) -> (u32, u32) {
        let (row, idx) = (rank / self.n_parts, rank % self.n_parts);
        (self.mirrored(row, idx), row)
    }

    /// Rank of a row of a part.
    pub(crate) fn rank(self, part: u32, row: u32) -> u32 {
        row * self.n_parts + self.mirrored(row, part)
    }

    /// Number of rows of a part.
    pub(crate) fn n_rows(self, part: u32) -> u32 {
        let (whole, rest) = (self.n_nodes / self.n_parts, self.n_nodes % self.n_parts);
        whole + u32::from(self.mirrored(whole, part) < rest)
    }

    /// Even rows go up, odd rows go down: its own inverse.
    fn mirrored(self, row: u32, part: u32) -> u32 {
        match row % 2 {
            0 => part,
            _ => self.n_parts - 1 - part,
        }
    }
}

/// Nodes by falling degree; equal degrees by rising id.
pub(crate) fn by_falling_degree(degrees: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..degrees.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| {
        let (of_a, of_b) = (degrees[a as usize], degrees[b as usize]);
        of_b.total_cmp(&of_a).then(a.cmp(&b))
    });
    order
}

/// Position of each node in `order`.
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
            let partition = DegreePartition { n_nodes, n_parts };
            let mut seen: Vec<Vec<bool>> =
                (0..n_parts).map(|part| vec![false; partition.n_rows(part) as usize]).collect();
            for rank in 0..n_nodes {
                let (part, row) = partition.place(rank);
                prop_assert_eq!(partition.rank(part, row), rank);
                prop_assert!(!std::mem::replace(&mut seen[part as usize][row as usize], true));
            }
            prop_assert!(seen.concat().iter().all(|&seen| seen));
        }
    }

    #[test]
    fn parts_share_the_degrees() {
        let degrees: Vec<f64> = (0..1000).map(|v| 1000.0 / f64::from(v + 1)).collect();
        let partition = DegreePartition {
            n_nodes: 1000,
            n_parts: 4,
        };
        let mut sums = [0.0f64; 4];
        for (rank, &node) in (0..).zip(&by_falling_degree(&degrees)[4..]) {
            sums[partition.place(rank + 4).0 as usize] += degrees[node as usize];
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
