//! Vertex covers by the rule for nodes of degree 1 and largest degree.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardgraph_graph::Graph;

/// The cover of taking the neighbour of a node of residual degree 1 while there is one, which loses
/// nothing, and else a node of largest residual degree; ties go to the lowest index. In the order
/// of taking.
///
/// # Complexity
/// O((n + m) log n)
///
/// ```
/// use shardgraph_environments::baselines::degree_one_greedy;
/// use shardgraph_graph::Graph;
///
/// // Largest degree alone takes node 1 first, and then one node for each of the other three edges.
/// let graph = Graph::from_edges(7, &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 5), (0, 6)])?;
/// assert_eq!(degree_one_greedy(&graph).len(), 3);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn degree_one_greedy(graph: &Graph) -> Vec<u32> {
    let mut state = State {
        graph,
        degrees: graph.degrees(),
        largest: BinaryHeap::new(),
        ones: BinaryHeap::new(),
    };
    (0..graph.n_nodes()).for_each(|v| state.note(v));
    let mut cover = Vec::new();
    while let Some(v) = state.next() {
        cover.push(v);
        state.take(v);
    }
    cover
}

/// Residual degrees, 0 for nodes that were taken, and queues with entries that may be out of date.
struct State<'g> {
    graph: &'g Graph,
    degrees: Vec<u32>,
    largest: BinaryHeap<(u32, Reverse<u32>)>,
    ones: BinaryHeap<Reverse<u32>>,
}

impl State<'_> {
    fn note(&mut self, v: u32) {
        match self.degrees[v as usize] {
            0 => (),
            1 => self.ones.push(Reverse(v)),
            degree => self.largest.push((degree, Reverse(v))),
        }
    }

    /// The node to take; every edge has ends of degree 1 at least, and so an entry.
    fn next(&mut self) -> Option<u32> {
        while let Some(Reverse(v)) = self.ones.pop() {
            if self.degrees[v as usize] == 1 {
                let neighbors = self.graph.neighbors(v).iter();
                return neighbors.copied().find(|&u| self.degrees[u as usize] > 0);
            }
        }
        while let Some((degree, Reverse(v))) = self.largest.pop() {
            if self.degrees[v as usize] == degree {
                return Some(v);
            }
        }
        None
    }

    fn take(&mut self, v: u32) {
        self.degrees[v as usize] = 0;
        for &u in self.graph.neighbors(v) {
            if self.degrees[u as usize] > 0 {
                self.degrees[u as usize] -= 1;
                self.note(u);
            }
        }
    }
}
