//! [`SparseSearch`]: maximum clique of any graph, one neighbourhood of a degeneracy order after the other.

use crate::clique::bits::BitRows;
use crate::clique::degeneracy::DegeneracyOrder;
use crate::clique::exact::{BranchAndBound, WorkLimit};

/// Exact search over the later neighbours of each rank, from the last rank to the first.
///
/// # Source
/// Rossi, Gleich, Gebremedhin and Patwary (2014), "Fast maximum clique algorithms for large graphs" (PMC): cores, colours and
/// neighbourhoods prune first; [`BranchAndBound`] solves what they leave.
pub(crate) struct SparseSearch<'a> {
    order: &'a DegeneracyOrder,
    /// For each rank, no clique with it as its first has more nodes than this.
    limits: Vec<u32>,
    /// Ranks of the largest clique so far.
    pub(crate) best: Vec<u32>,
    /// Ranks below this are left.
    next: usize,
    /// Position in the neighbourhood at hand plus 1, 0 for ranks outside of it.
    position: Vec<u32>,
}

impl<'a> SparseSearch<'a> {
    pub(crate) fn new(order: &'a DegeneracyOrder) -> SparseSearch<'a> {
        let colours = order.colours();
        let mut seen_by = vec![usize::MAX; order.n_nodes() + 1];
        let mut limit = |rank: usize| {
            let mut n_colours = 0;
            for &u in order.later(rank) {
                let seen = &mut seen_by[colours[u as usize] as usize];
                n_colours += u32::from(*seen != rank);
                *seen = rank;
            }
            n_colours + 1
        };
        SparseSearch {
            order,
            limits: (0..order.n_nodes()).map(&mut limit).collect(),
            best: Vec::new(),
            next: order.n_nodes(),
            position: vec![0; order.n_nodes()],
        }
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.order.n_nodes()
    }

    /// A clique from each rank whose limit allows a larger one, those of the largest limit first: the last later neighbours join first.
    ///
    /// # Complexity
    /// O(n log n) and at most so many comparisons of rows.
    pub(crate) fn greedy(&mut self, max_looks: u64) {
        let mut ranks: Vec<u32> = (0..self.order.n_nodes() as u32).collect();
        ranks.sort_by_key(|&rank| std::cmp::Reverse(self.limits[rank as usize]));
        let mut looks = 0;
        for rank in ranks {
            if (self.limits[rank as usize] as usize) <= self.best.len() || looks > max_looks {
                return;
            }
            let mut clique = vec![rank];
            for &u in self.order.later(rank as usize).iter().rev() {
                // Members were taken from the last on: all but the first come after `u`.
                let row = self.order.later(u as usize);
                let joins = |v: &u32| row.binary_search(v).is_ok();
                looks += clique.len() as u64;
                if row.len() + 2 > clique.len() && clique[1..].iter().all(joins) {
                    clique.push(u);
                }
            }
            if clique.len() > self.best.len() {
                self.best = clique;
            }
        }
    }

    /// The largest clique that ranks not yet searched can begin, or the best so far.
    pub(crate) fn upper_bound(&self) -> usize {
        let left = self.limits[..self.next].iter().copied().max();
        (left.unwrap_or(0) as usize).max(self.best.len())
    }

    /// Searches ranks until none is left or the work limit comes; true for the former, when the best is an optimum.
    pub(crate) fn run(&mut self, work: &mut WorkLimit<'_>) -> bool {
        while self.next > 0 {
            let rank = self.next - 1;
            if (self.limits[rank] as usize) > self.best.len() {
                work.spend(self.order.later(rank).len() + 1);
                if !work.is_over {
                    self.search_neighborhood(rank, work);
                }
                if work.is_over {
                    return false;
                }
            }
            self.next = rank;
        }
        true
    }

    fn search_neighborhood(&mut self, rank: usize, work: &mut WorkLimit<'_>) {
        let size = self.best.len();
        let core = |u: &u32| self.order.cores[*u as usize] as usize >= size;
        let later = self.order.later(rank).iter().copied();
        let mut nodes: Vec<u32> = later.filter(core).collect();
        // Each member of a larger clique has at least so many neighbours among the others.
        loop {
            if nodes.len() < size {
                return;
            }
            let rows = nodes.iter().map(|&u| self.order.later(u as usize).len());
            work.spend(rows.sum());
            let degrees = self.degrees_within(&nodes);
            let before = nodes.len();
            let mut degree = degrees.iter();
            nodes.retain(|_| degree.next().is_some_and(|d| d + 1 >= size));
            if nodes.len() == before {
                // Nodes of many neighbours are coloured first and branched on last.
                let mut order: Vec<usize> = (0..nodes.len()).collect();
                order.sort_by_key(|&i| std::cmp::Reverse(degrees[i]));
                nodes = order.into_iter().map(|i| nodes[i]).collect();
                break;
            }
        }
        let rows = self.rows_within(&nodes);
        let found = BranchAndBound::run(&rows, size.saturating_sub(1), work);
        if let Some(found) = found {
            self.best = found.iter().map(|&i| nodes[i]).collect();
            self.best.push(rank as u32);
        }
    }

    fn degrees_within(&mut self, nodes: &[u32]) -> Vec<usize> {
        let mut degrees = vec![0; nodes.len()];
        self.for_each_edge(nodes, |i, j| {
            degrees[i] += 1;
            degrees[j] += 1;
        });
        degrees
    }

    fn rows_within(&mut self, nodes: &[u32]) -> BitRows {
        let mut rows = BitRows::new(nodes.len());
        self.for_each_edge(nodes, |i, j| rows.join(i, j));
        rows
    }

    fn for_each_edge(&mut self, nodes: &[u32], mut visit: impl FnMut(usize, usize)) {
        for (i, &u) in (1u32..).zip(nodes) {
            self.position[u as usize] = i;
        }
        for (i, &u) in nodes.iter().enumerate() {
            for &v in self.order.later(u as usize) {
                let j = self.position[v as usize];
                if j > 0 {
                    visit(i, j as usize - 1);
                }
            }
        }
        for &u in nodes {
            self.position[u as usize] = 0;
        }
    }

    /// Ranks that a clique of more nodes than the best can hold, at most `max_nodes` of them, and the adjacency between them.
    pub(crate) fn kernel(&mut self, max_nodes: usize) -> (Vec<u32>, BitRows) {
        let size = self.best.len() as u32;
        let ranks = (0..self.order.n_nodes() as u32).rev();
        let mut nodes: Vec<u32> = ranks
            .filter(|&r| self.order.cores[r as usize] >= size)
            .take(max_nodes)
            .collect();
        nodes.extend(
            self.best
                .iter()
                .filter(|r| self.order.cores[**r as usize] < size),
        );
        let rows = self.rows_within(&nodes);
        (nodes, rows)
    }
}
