//! Unconfined nodes: those that a smallest cover may hold because leaving them out forces a set that another is as good as.

use crate::vertex_cover::dynamic::Dynamic;
use crate::vertex_cover::marks::Marks;

/// A set that grows further than this is taken as confining, which is always safe.
const LARGEST_SET: usize = 64;

/// What the test needs beside the graph, kept between calls.
pub(crate) struct UnconfinedTest {
    /// The closed neighbourhood of the set.
    closed: Marks,
    /// The neighbours of the set.
    frontier: Vec<u32>,
    /// For each node of the frontier, how many of the set it has as neighbours.
    n_in_set: Vec<u32>,
}

/// How many neighbours a node of the frontier has outside the closed neighbourhood.
enum Outside {
    None,
    One(u32),
    More,
}

impl UnconfinedTest {
    pub(crate) fn new(n_nodes: usize) -> UnconfinedTest {
        UnconfinedTest {
            closed: Marks::new(n_nodes),
            frontier: Vec::new(),
            n_in_set: vec![0; n_nodes],
        }
    }

    /// Whether `v` is unconfined.
    ///
    /// # Source
    /// Akiba and Iwata (2016), section 3.2: S starts as {v}; a neighbour u of S with one neighbour in S and none outside N\[S\] says
    /// yes, with one outside adds that to S; with neither left, no.
    pub(crate) fn is_unconfined(&mut self, graph: &Dynamic, v: u32) -> bool {
        self.closed.clear();
        self.frontier.clear();
        self.add(graph, v);
        for _ in 0..LARGEST_SET {
            let mut extension = None;
            for &u in &self.frontier {
                if self.n_in_set[u as usize] != 1 {
                    continue;
                }
                match self.outside(graph, u) {
                    Outside::None => return true,
                    Outside::One(w) if extension.is_none() => extension = Some(w),
                    _ => {}
                }
            }
            match extension {
                None => return false,
                Some(w) => self.add(graph, w),
            }
        }
        false
    }

    fn add(&mut self, graph: &Dynamic, v: u32) {
        self.closed.mark(v);
        for u in graph.neighbors(v) {
            if self.closed.mark(u) {
                self.frontier.push(u);
                self.n_in_set[u as usize] = 0;
            }
            self.n_in_set[u as usize] += 1;
        }
    }

    fn outside(&self, graph: &Dynamic, u: u32) -> Outside {
        let mut outside = graph.neighbors(u).filter(|&x| !self.closed.has(x));
        match (outside.next(), outside.next()) {
            (None, _) => Outside::None,
            (Some(w), None) => Outside::One(w),
            _ => Outside::More,
        }
    }
}
