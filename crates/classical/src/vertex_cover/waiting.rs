//! Nodes that wait for the rules of a reduction, and those that are guessed where no rule applies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardgraph_graph::Graph;

use crate::vertex_cover::queue::Queue;

/// Nodes whose neighbourhood has changed since a rule looked at them.
pub(crate) struct Waiting {
    pub(crate) few_neighbors: Queue,
    pub(crate) dominated: Queue,
    /// For the unconfined rule and funnels.
    pub(crate) far: Queue,
    /// Whether anything has changed since these two, which see further than the nodes that are told of a change, looked at all nodes.
    pub(crate) is_far_stale: bool,
    /// For structions.
    pub(crate) open: Queue,
    /// As `is_far_stale`, for them.
    pub(crate) is_open_stale: bool,
    /// Who is guessed next, where there are guesses.
    pub(crate) by_degree: Option<ByDegree>,
}

impl Waiting {
    /// All nodes of a graph wait.
    pub(crate) fn all_of(graph: &Graph) -> Waiting {
        let n = graph.n_nodes() as usize;
        let mut waiting = Waiting {
            few_neighbors: Queue::new(n),
            dominated: Queue::new(n),
            far: Queue::new(n),
            is_far_stale: false,
            open: Queue::new(n),
            is_open_stale: false,
            by_degree: None,
        };
        for v in 0..graph.n_nodes() {
            waiting.push(v, graph.degree(v));
        }
        (waiting.is_far_stale, waiting.is_open_stale) = (false, false);
        waiting
    }

    pub(crate) fn push(&mut self, v: u32, degree: u32) {
        if degree <= 2 {
            self.few_neighbors.push(v);
        }
        self.push_beside(v);
        if let Some(by_degree) = &mut self.by_degree {
            by_degree.push(v, degree);
        }
    }

    /// As [`Waiting::push`], for a node that keeps its degree beside one that has changed.
    pub(crate) fn push_beside(&mut self, v: u32) {
        self.dominated.push(v);
        self.far.push(v);
        self.open.push(v);
        (self.is_far_stale, self.is_open_stale) = (true, true);
    }
}

/// What is decided where no rule applies.
#[derive(Clone, Copy)]
pub(crate) enum Guess {
    /// A node of largest degree is in the cover.
    LargestDegree,
    /// A node of smallest degree is not, so that its neighbours are.
    SmallestDegree,
}

/// Nodes in the order in which they are guessed, by the degrees they had when they were put in.
pub(crate) struct ByDegree {
    guess: Guess,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

impl ByDegree {
    pub(crate) fn new(graph: &Graph, guess: Guess) -> ByDegree {
        let heap = BinaryHeap::with_capacity(graph.n_nodes() as usize);
        let mut by_degree = ByDegree { guess, heap };
        for v in 0..graph.n_nodes() {
            by_degree.push(v, graph.degree(v));
        }
        by_degree
    }

    fn push(&mut self, v: u32, degree: u32) {
        self.heap.push(Reverse((self.rank(degree), v)));
    }

    fn rank(&self, degree: u32) -> u32 {
        match self.guess {
            Guess::LargestDegree => u32::MAX - degree,
            Guess::SmallestDegree => degree,
        }
    }

    /// The node that is guessed next, by its degree now; a node that is gone has none.
    pub(crate) fn pop(&mut self, degree: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        while let Some(Reverse((rank, v))) = self.heap.pop() {
            if degree(v).is_some_and(|degree| self.rank(degree) == rank) {
                return Some(v);
            }
        }
        None
    }
}
