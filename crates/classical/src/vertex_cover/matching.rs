//! A largest matching between two copies of a graph's nodes, where u of the one is joined to v of the other if uv is an edge.

use crate::budget::Stopwatch;
use crate::vertex_cover::rows::Rows;

/// No mate, no layer.
pub(crate) const NONE: u32 = u32::MAX;

/// Mates of the left and of the right copies; [`NONE`] for the unmatched.
pub(crate) struct Matching {
    pub(crate) of_left: Vec<u32>,
    pub(crate) of_right: Vec<u32>,
}

/// A largest matching of the bipartite double cover; none where the time is over first, which is asked before each phase.
///
/// # Complexity
/// O(m sqrt(n))
///
/// # Source
/// Hopcroft and Karp (1973).
pub(crate) fn largest_matching(rows: &Rows, stopwatch: &Stopwatch<'_>) -> Option<Matching> {
    let mut search = HopcroftKarp {
        rows,
        matching: greedy(rows),
        layer: vec![NONE; rows.n_nodes()],
        next: vec![0; rows.n_nodes()],
        queue: Vec::with_capacity(rows.n_nodes()),
        path: Vec::new(),
        last_layer: NONE,
    };
    while search.layers() {
        if stopwatch.is_late() {
            return None;
        }
        search.next.fill(0);
        for root in 0..rows.n_nodes() as u32 {
            if search.matching.of_left[root as usize] == NONE {
                search.augment(root);
            }
        }
    }
    Some(search.matching)
}

/// Every left copy takes the first right copy that is free.
fn greedy(rows: &Rows) -> Matching {
    let n = rows.n_nodes();
    let mut matching = Matching {
        of_left: vec![NONE; n],
        of_right: vec![NONE; n],
    };
    for u in 0..n as u32 {
        let is_free = |&&v: &&u32| matching.of_right[v as usize] == NONE;
        if let Some(&v) = rows.neighbors(u).iter().find(is_free) {
            matching.join(u, v);
        }
    }
    matching
}

impl Matching {
    fn join(&mut self, left: u32, right: u32) {
        self.of_left[left as usize] = right;
        self.of_right[right as usize] = left;
    }
}

struct HopcroftKarp<'a> {
    rows: &'a Rows,
    matching: Matching,
    /// Steps from an unmatched left copy, for left copies.
    layer: Vec<u32>,
    /// The edge of each left copy that is tried next.
    next: Vec<usize>,
    queue: Vec<u32>,
    path: Vec<u32>,
    /// The layer from which an unmatched right copy is reached first.
    last_layer: u32,
}

impl HopcroftKarp<'_> {
    /// Numbers the left copies by layers; false when no unmatched right copy can be reached.
    fn layers(&mut self) -> bool {
        self.queue.clear();
        for u in 0..self.rows.n_nodes() as u32 {
            let is_root = self.matching.of_left[u as usize] == NONE;
            self.layer[u as usize] = if is_root { 0 } else { NONE };
            if is_root {
                self.queue.push(u);
            }
        }
        self.last_layer = NONE;
        let mut head = 0;
        while head < self.queue.len() && self.layer[self.queue[head] as usize] < self.last_layer {
            let u = self.queue[head];
            head += 1;
            for &v in self.rows.neighbors(u) {
                match self.matching.of_right[v as usize] {
                    NONE => self.last_layer = self.layer[u as usize],
                    mate if self.layer[mate as usize] == NONE => {
                        self.layer[mate as usize] = self.layer[u as usize] + 1;
                        self.queue.push(mate);
                    }
                    _ => {}
                }
            }
        }
        self.last_layer != NONE
    }

    /// Follows the layers from `root` to an unmatched right copy, if they lead there, and turns the path over.
    fn augment(&mut self, root: u32) {
        self.path.clear();
        self.path.push(root);
        while let Some(&u) = self.path.last() {
            let Some(v) = self.rows.neighbor(u, self.next[u as usize]) else {
                self.path.pop();
                if let Some(&parent) = self.path.last() {
                    self.next[parent as usize] += 1;
                }
                continue;
            };
            match self.matching.of_right[v as usize] {
                NONE => return self.turn_over(),
                mate if self.layer[mate as usize] == self.layer[u as usize] + 1 => {
                    self.path.push(mate);
                }
                _ => self.next[u as usize] += 1,
            }
        }
    }

    fn turn_over(&mut self) {
        while let Some(u) = self.path.pop() {
            if let Some(v) = self.rows.neighbor(u, self.next[u as usize]) {
                self.matching.join(u, v);
            }
            // No other path of this phase goes through here.
            self.next[u as usize] = usize::MAX;
        }
    }
}
