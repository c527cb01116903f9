//! The greedy answers that a learned policy is measured against: cheap, deterministic, and hard to
//! beat.

mod clique;
mod cut;
mod degree_one;
mod domination;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardgraph_graph::Graph;

pub use clique::max_degree_clique;
pub use cut::{largest_gain_cut, one_flip_cut};
pub use degree_one::degree_one_greedy;
pub use domination::most_new_dominating_set;

/// The cover of picking a node of largest residual degree until no edge is left; ties go to the
/// lowest index.
///
/// # Complexity
/// O(n + m) plus sorting each bucket of equal degree.
///
/// ```
/// use shardgraph_environments::baselines::max_degree_greedy;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)])?;
/// assert_eq!(max_degree_greedy(&path), [1, 3]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn max_degree_greedy(graph: &Graph) -> Vec<u32> {
    let mut degrees = graph.degrees();
    let mut buckets = Buckets::new(&degrees);
    let mut picks = Vec::new();
    for level in buckets.levels() {
        for v in buckets.take_sorted(level) {
            if degrees[v as usize] < level {
                buckets.put(v, degrees[v as usize]);
                continue;
            }
            picks.push(v);
            graph
                .neighbors(v)
                .iter()
                .for_each(|&u| degrees[u as usize] -= 1);
        }
    }
    picks
}

/// The cover of [`max_degree_greedy`] with ties broken by the smallest d2, the sum of the
/// neighbours' residual degrees, and then by the lowest index.
///
/// # Complexity
/// O(sum of squared degrees) updates of d2 and as many heap operations at most.
pub fn max_degree_greedy_d2(graph: &Graph) -> Vec<u32> {
    let degrees = graph.degrees();
    let mut greedy = TieBreak {
        buckets: Buckets::new(&degrees),
        d2: sums_over_neighbors(graph, &degrees),
        removed: vec![false; degrees.len()],
        ties: BinaryHeap::new(),
        graph,
        degrees,
    };
    let mut picks = Vec::new();
    for level in greedy.buckets.levels() {
        greedy.open(level);
        while let Some(v) = greedy.best(level) {
            picks.push(v);
            greedy.remove(v, level);
        }
    }
    picks
}

/// Nodes and entries of the adjacency: what an algorithm reads that looks at each edge a few times.
pub fn linear_updates(graph: &Graph) -> u64 {
    u64::from(graph.n_nodes()) + 2 * graph.n_edges()
}

/// The sum of squared degrees: what [`max_degree_greedy_d2`] updates.
pub fn squared_degrees(graph: &Graph) -> u64 {
    let degrees = (0..graph.n_nodes()).map(|v| u64::from(graph.degree(v)));
    linear_updates(graph) + degrees.map(|degree| degree * degree).sum::<u64>()
}

/// The independent set of taking a node of smallest residual degree and dropping its neighbours
/// until no node is left; ties go to the lowest index. In the order of taking.
///
/// # Complexity
/// O((n + m) log n)
pub fn min_degree_independent_set(graph: &Graph) -> Vec<u32> {
    let mut degrees = graph.degrees();
    let mut gone = vec![false; degrees.len()];
    let mut queue: BinaryHeap<_> = (0..graph.n_nodes())
        .map(|v| Reverse((graph.degree(v), v)))
        .collect();
    let mut set = Vec::new();
    while let Some(Reverse((_, v))) = queue.pop() {
        // Degrees only fall, so a node's newest entry comes out first, and its older ones when it
        // is gone.
        if std::mem::replace(&mut gone[v as usize], true) {
            continue;
        }
        set.push(v);
        for &u in graph.neighbors(v) {
            if std::mem::replace(&mut gone[u as usize], true) {
                continue;
            }
            for &w in graph.neighbors(u).iter().filter(|&&w| !gone[w as usize]) {
                degrees[w as usize] -= 1;
                queue.push(Reverse((degrees[w as usize], w)));
            }
        }
    }
    set
}

/// The cover that [`min_degree_independent_set`] leaves, ascending.
pub fn min_degree_cover(graph: &Graph) -> Vec<u32> {
    others(graph, &min_degree_independent_set(graph))
}

/// The independent set that [`max_degree_greedy`] leaves, ascending.
pub fn max_degree_complement(graph: &Graph) -> Vec<u32> {
    others(graph, &max_degree_greedy(graph))
}

/// The nodes that are not in a list, ascending.
fn others(graph: &Graph, nodes: &[u32]) -> Vec<u32> {
    let mut is_other = vec![true; graph.n_nodes() as usize];
    for &v in nodes {
        is_other[v as usize] = false;
    }
    (0..graph.n_nodes())
        .filter(|&v| is_other[v as usize])
        .collect()
}

fn sums_over_neighbors(graph: &Graph, degrees: &[u32]) -> Vec<u64> {
    let degree = |&u: &u32| u64::from(degrees[u as usize]);
    (0..graph.n_nodes())
        .map(|v| graph.neighbors(v).iter().map(degree).sum())
        .collect()
}

/// Nodes by a degree that they have or once had: degrees only fall, so a node that is met in too
/// high a bucket moves down.
struct Buckets {
    by_degree: Vec<Vec<u32>>,
}

impl Buckets {
    fn new(degrees: &[u32]) -> Buckets {
        let n_levels = degrees
            .iter()
            .max()
            .map_or(0, |&degree| degree as usize + 1);
        let mut buckets = Buckets {
            by_degree: vec![Vec::new(); n_levels],
        };
        for (v, &degree) in (0..).zip(degrees) {
            buckets.put(v, degree);
        }
        buckets
    }

    /// From the largest degree down to 1.
    fn levels(&self) -> impl Iterator<Item = u32> + use<> {
        (1..self.by_degree.len() as u32).rev()
    }

    fn put(&mut self, v: u32, degree: u32) {
        self.by_degree[degree as usize].push(v);
    }

    fn take_sorted(&mut self, level: u32) -> Vec<u32> {
        let mut bucket = std::mem::take(&mut self.by_degree[level as usize]);
        bucket.sort_unstable();
        bucket
    }
}

/// The state of [`max_degree_greedy_d2`]. `ties` holds (d2, v) for the nodes of the present level;
/// d2 only falls, so a node's newest pair comes out first, and its older ones when it is gone or
/// below the level.
struct TieBreak<'a> {
    graph: &'a Graph,
    degrees: Vec<u32>,
    d2: Vec<u64>,
    removed: Vec<bool>,
    buckets: Buckets,
    ties: BinaryHeap<Reverse<(u64, u32)>>,
}

impl TieBreak<'_> {
    fn open(&mut self, level: u32) {
        self.ties.clear();
        for v in self.buckets.take_sorted(level) {
            match self.degrees[v as usize] {
                degree if degree < level => self.buckets.put(v, degree),
                _ => self.ties.push(Reverse((self.d2[v as usize], v))),
            }
        }
    }

    fn best(&mut self, level: u32) -> Option<u32> {
        while let Some(Reverse((_, v))) = self.ties.pop() {
            if self.degrees[v as usize] == level && !self.removed[v as usize] {
                return Some(v);
            }
        }
        None
    }

    /// Removing v takes deg v from its neighbours' d2 and, through their lower degrees, 1 from the
    /// d2 of each of theirs.
    fn remove(&mut self, v: u32, level: u32) {
        self.removed[v as usize] = true;
        let graph = self.graph;
        for &u in graph.neighbors(v) {
            if self.removed[u as usize] {
                continue;
            }
            if self.degrees[u as usize] == level {
                self.buckets.put(u, level - 1);
            }
            self.degrees[u as usize] -= 1;
            self.d2[u as usize] -= u64::from(level);
            for &w in graph.neighbors(u).iter().filter(|&&w| w != v) {
                self.lower_d2(w, level);
            }
        }
    }

    fn lower_d2(&mut self, w: u32, level: u32) {
        if self.removed[w as usize] {
            return;
        }
        self.d2[w as usize] -= 1;
        if self.degrees[w as usize] == level {
            self.ties.push(Reverse((self.d2[w as usize], w)));
        }
    }
}
