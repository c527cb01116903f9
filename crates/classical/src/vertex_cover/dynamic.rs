//! [`Dynamic`]: a graph that loses nodes and gets them folded.

use shardgraph_graph::Graph;

use crate::vertex_cover::marks::Marks;
use crate::vertex_cover::rows::Rows;

/// Neighbour lists in which removed nodes may linger: never more of them than living ones.
pub(crate) struct Dynamic {
    rows: Vec<Vec<u32>>,
    degrees: Vec<u32>,
    is_alive: Vec<bool>,
    n_alive: usize,
    n_edges: u64,
}

impl Dynamic {
    pub(crate) fn new(graph: &Graph) -> Dynamic {
        let nodes = 0..graph.n_nodes();
        Dynamic {
            rows: nodes.clone().map(|v| graph.neighbors(v).to_vec()).collect(),
            degrees: nodes.map(|v| graph.degree(v)).collect(),
            is_alive: vec![true; graph.n_nodes() as usize],
            n_alive: graph.n_nodes() as usize,
            n_edges: graph.n_edges(),
        }
    }

    pub(crate) fn n_nodes(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn n_edges(&self) -> u64 {
        self.n_edges
    }

    pub(crate) fn is_alive(&self, v: u32) -> bool {
        self.is_alive[v as usize]
    }

    pub(crate) fn degree(&self, v: u32) -> u32 {
        self.degrees[v as usize]
    }

    /// The neighbours of `v` that are left, in no order that means anything.
    pub(crate) fn neighbors(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let row = self.rows[v as usize].iter().copied();
        row.filter(|&u| self.is_alive[u as usize])
    }

    pub(crate) fn has_edge(&self, u: u32, v: u32) -> bool {
        let (short, other) = match self.degree(u) <= self.degree(v) {
            true => (u, v),
            false => (v, u),
        };
        self.neighbors(short).any(|w| w == other)
    }

    /// Takes `v` out and tells which nodes have lost a neighbour.
    pub(crate) fn remove(&mut self, v: u32, lost_one: &mut impl FnMut(u32, u32)) {
        self.bury(v);
        self.n_edges -= u64::from(std::mem::take(&mut self.degrees[v as usize]));
        for u in std::mem::take(&mut self.rows[v as usize]) {
            if self.is_alive[u as usize] {
                self.lose_neighbor(u);
                lost_one(u, self.degrees[u as usize]);
            }
        }
    }

    /// Joins two nodes that are not.
    pub(crate) fn join(&mut self, u: u32, v: u32) {
        self.n_edges += 1;
        for (a, b) in [(u, v), (v, u)] {
            self.rows[a as usize].push(b);
            self.degrees[a as usize] += 1;
        }
    }

    /// Brings removed nodes back as others, without a neighbour. `around` has all who may have one of them in their rows.
    pub(crate) fn revive(&mut self, names: &[u32], around: &[u32]) {
        for &u in around {
            let is_alive = &self.is_alive;
            self.rows[u as usize].retain(|&w| is_alive[w as usize]);
        }
        for &v in names {
            debug_assert!(self.rows[v as usize].is_empty() && self.degree(v) == 0);
            self.is_alive[v as usize] = true;
        }
        self.n_alive += names.len();
    }

    /// Makes one node of `v`, which has exactly the neighbours `a` and `b`, and of these two, which are not joined: it is `a`. Tells
    /// which nodes had both as neighbours.
    ///
    /// # Complexity
    /// The rows of `a` and `b`; where that of `a` is longer than those of all neighbours of `b`, these in its place.
    pub(crate) fn fold(
        &mut self,
        v: u32,
        a: u32,
        b: u32,
        marks: &mut Marks,
        lost_one: &mut impl FnMut(u32, u32),
    ) {
        self.bury(v);
        self.bury(b);
        self.rows[v as usize].clear();
        self.degrees[a as usize] -= 1;
        self.n_edges -= 2;
        let beyond_b: u64 = self.neighbors(b).map(|w| u64::from(self.degree(w))).sum();
        marks.clear();
        if (self.rows[a as usize].len() as u64) <= beyond_b {
            for &w in &self.rows[a as usize] {
                marks.mark(w);
            }
        } else {
            let of_both = self.rows[b as usize].iter();
            for &w in of_both.filter(|&&w| self.rows[w as usize].contains(&a)) {
                marks.mark(w);
            }
        }
        for w in std::mem::take(&mut self.rows[b as usize]) {
            if !self.is_alive[w as usize] {
                continue;
            }
            if marks.has(w) {
                self.n_edges -= 1;
                self.lose_neighbor(w);
                lost_one(w, self.degrees[w as usize]);
            } else {
                // `b` lingers in the row of `w`, and `a` is new.
                self.rows[w as usize].push(a);
                self.rows[a as usize].push(w);
                self.degrees[a as usize] += 1;
                self.tidy(w);
            }
        }
        self.tidy(a);
    }

    /// What is left with new ids, and the old id of each.
    pub(crate) fn compact(&self) -> (Rows, Vec<u32>) {
        let old_ids: Vec<u32> = (0..self.n_nodes()).filter(|&v| self.is_alive(v)).collect();
        let n_ends: u64 = old_ids.iter().map(|&v| u64::from(self.degree(v))).sum();
        debug_assert_eq!(n_ends, 2 * self.n_edges);
        let mut new_ids = vec![u32::MAX; self.rows.len()];
        for (new, &old) in (0u32..).zip(&old_ids) {
            new_ids[old as usize] = new;
        }
        let mut rows = Rows::with_capacity(self.n_alive);
        for &old in &old_ids {
            rows.push_row(self.neighbors(old).map(|u| new_ids[u as usize]));
        }
        (rows, old_ids)
    }

    fn bury(&mut self, v: u32) {
        debug_assert!(self.is_alive[v as usize]);
        self.is_alive[v as usize] = false;
        self.n_alive -= 1;
    }

    fn lose_neighbor(&mut self, u: u32) {
        self.degrees[u as usize] -= 1;
        self.tidy(u);
    }

    /// Takes the removed out of a row once they are half of it.
    fn tidy(&mut self, u: u32) {
        let row = &mut self.rows[u as usize];
        if row.len() > 2 * self.degrees[u as usize] as usize + 4 {
            let is_alive = &self.is_alive;
            row.retain(|&w| is_alive[w as usize]);
            debug_assert_eq!(row.len(), self.degrees[u as usize] as usize);
        }
    }
}
