//! Strongly connected components.

use crate::vertex_cover::matching::NONE;
use crate::vertex_cover::rows::Rows;

/// The components of the graph in which `u` points to `target[w]` for each neighbour `w`; a component comes after those it
/// points to.
///
/// # Complexity
/// O(n + m)
///
/// # Source
/// Tarjan (1972), with a stack of its own.
pub(crate) fn components(rows: &Rows, target: &[u32]) -> Vec<Vec<u32>> {
    let n = rows.n_nodes();
    let mut search = Search {
        rows,
        target,
        order: vec![NONE; n],
        low: vec![0; n],
        next: vec![0; n],
        is_open: vec![false; n],
        open: Vec::new(),
        path: Vec::new(),
        n_seen: 0,
        found: Vec::new(),
    };
    for root in 0..n as u32 {
        if search.order[root as usize] == NONE {
            search.from(root);
        }
    }
    search.found
}

struct Search<'a> {
    rows: &'a Rows,
    target: &'a [u32],
    /// When a node was met first.
    order: Vec<u32>,
    /// The earliest open node that it leads to.
    low: Vec<u32>,
    next: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<u32>,
    path: Vec<u32>,
    n_seen: u32,
    found: Vec<Vec<u32>>,
}

impl Search<'_> {
    fn from(&mut self, root: u32) {
        self.enter(root);
        while let Some(&u) = self.path.last() {
            let Some(w) = self.rows.neighbor(u, self.next[u as usize]) else {
                self.leave(u);
                continue;
            };
            self.next[u as usize] += 1;
            let t = self.target[w as usize];
            if self.order[t as usize] == NONE {
                self.enter(t);
            } else if self.is_open[t as usize] {
                self.low[u as usize] = self.low[u as usize].min(self.order[t as usize]);
            }
        }
    }

    fn enter(&mut self, u: u32) {
        self.order[u as usize] = self.n_seen;
        self.low[u as usize] = self.n_seen;
        self.n_seen += 1;
        self.is_open[u as usize] = true;
        self.open.push(u);
        self.path.push(u);
    }

    fn leave(&mut self, u: u32) {
        self.path.pop();
        if let Some(&parent) = self.path.last() {
            self.low[parent as usize] = self.low[parent as usize].min(self.low[u as usize]);
        }
        if self.low[u as usize] != self.order[u as usize] {
            return;
        }
        let first = self.open.iter().rposition(|&w| w == u).unwrap_or(0);
        let component = self.open.split_off(first);
        for &w in &component {
            self.is_open[w as usize] = false;
        }
        self.found.push(component);
    }
}
