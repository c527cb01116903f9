//! [`upper_bound`]: the positive weight less what frustrated cycles take from every cut, or what the sizes of two sides allow.

use crate::budget::Stopwatch;
use crate::cut::instance::Instance;

/// Pairs of neighbours that are looked at for triangles, and entries that are read for longer cycles.
const TRIANGLE_LOOKS: usize = 10_000_000;
const FOREST_ENTRIES: usize = 4_000_000;
/// Most forests.
const MAX_FORESTS: usize = 32;

/// A bound that no cut exceeds.
///
/// In a cycle with an odd number of positive edges, every cut misses a positive edge or holds a negative one. Such cycles are packed into
/// the absolute weights of their edges: triangles first, then fundamental cycles of breadth-first forests. Between two sides of a
/// component of s nodes are at most floor(s / 2) ceil(s / 2) edges, which decides complete graphs.
///
/// # Source
/// Barahona and Mahjoub (1986), "On the cut polytope": the odd cycle inequalities, here with a greedy dual solution.
///
/// # Complexity
/// O(n + m), and at most the numbers of looks above.
pub(crate) fn upper_bound(instance: &Instance, stopwatch: &Stopwatch<'_>) -> i64 {
    let mut packing = Packing::new(instance);
    packing.pack_triangles(stopwatch);
    let n_entries = instance.columns.len().max(1);
    let n_forests = (FOREST_ENTRIES / n_entries).min(MAX_FORESTS);
    for forest in 0..n_forests {
        let first_root = forest * instance.n_nodes() / n_forests;
        if stopwatch.is_late() || packing.pack_forest(first_root) == 0 {
            break;
        }
    }
    (instance.positive_weight() - packing.packed).min(size_bound(instance))
}

/// Sum over the components of positive edges: the largest weight, times the most pairs of nodes between two sides.
fn size_bound(instance: &Instance) -> i64 {
    let mut is_seen = vec![false; instance.n_nodes()];
    let (mut bound, mut stack) = (0_i64, Vec::new());
    for root in 0..instance.n_nodes() {
        if std::mem::replace(&mut is_seen[root], true) {
            continue;
        }
        let (mut n_nodes, mut largest) = (0_i64, 0);
        stack.push(root);
        while let Some(v) = stack.pop() {
            n_nodes += 1;
            for entry in instance.offsets[v]..instance.offsets[v + 1] {
                let (u, weight) = (instance.columns[entry] as usize, instance.weights[entry]);
                if weight > 0 {
                    largest = largest.max(weight);
                    if !std::mem::replace(&mut is_seen[u], true) {
                        stack.push(u);
                    }
                }
            }
        }
        let n_pairs = (n_nodes / 2) * (n_nodes - n_nodes / 2);
        bound = bound.saturating_add(largest.saturating_mul(n_pairs));
    }
    bound
}

struct Packing<'a> {
    instance: &'a Instance,
    /// Edge of each entry of the rows.
    edges: Vec<u32>,
    is_positive: Vec<bool>,
    /// What the cycles leave of the absolute weight of each edge.
    left: Vec<i64>,
    packed: i64,
}

impl<'a> Packing<'a> {
    fn new(instance: &'a Instance) -> Packing<'a> {
        // Rows ascend: the smaller ends of a node's edges come by in the order of its row.
        let mut next = instance.offsets.clone();
        let mut edges = vec![0; instance.columns.len()];
        let (mut is_positive, mut left) = (Vec::new(), Vec::new());
        for u in 0..instance.n_nodes() {
            for entry in instance.offsets[u]..instance.offsets[u + 1] {
                let v = instance.columns[entry] as usize;
                if v < u {
                    continue;
                }
                edges[entry] = left.len() as u32;
                edges[next[v]] = left.len() as u32;
                next[v] += 1;
                is_positive.push(instance.weights[entry] > 0);
                left.push(instance.weights[entry].abs());
            }
        }
        Packing {
            instance,
            edges,
            is_positive,
            left,
            packed: 0,
        }
    }

    /// Neighbours of `v` over edges with weight left, with these edges.
    fn open_row(&self, v: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let range = self.instance.offsets[v]..self.instance.offsets[v + 1];
        range
            .map(|entry| {
                (
                    self.instance.columns[entry] as usize,
                    self.edges[entry] as usize,
                )
            })
            .filter(|(_, edge)| self.left[*edge] > 0)
    }

    /// Takes the least weight left of a frustrated cycle from its edges.
    fn pack(&mut self, cycle: &[usize]) -> i64 {
        let n_positive = cycle.iter().filter(|&&edge| self.is_positive[edge]).count();
        let least = cycle.iter().map(|&edge| self.left[edge]).min().unwrap_or(0);
        if n_positive % 2 == 0 || least == 0 {
            return 0;
        }
        for &edge in cycle {
            self.left[edge] -= least;
        }
        self.packed += least;
        least
    }

    fn pack_triangles(&mut self, stopwatch: &Stopwatch<'_>) {
        let n = self.instance.n_nodes();
        let mut edge_to = vec![usize::MAX; n];
        let (mut row, mut second) = (Vec::new(), Vec::new());
        let mut looks = 0;
        for u in 0..n {
            row.clear();
            row.extend(self.open_row(u).filter(|(v, _)| *v > u));
            for &(v, edge) in &row {
                edge_to[v] = edge;
            }
            for &(v, edge) in &row {
                looks += self.instance.offsets[v + 1] - self.instance.offsets[v];
                second.clear();
                let above = self.open_row(v).filter(|(w, _)| *w > v);
                second.extend(above.filter(|(w, _)| edge_to[*w] != usize::MAX));
                for &(w, other) in &second {
                    self.pack(&[edge, other, edge_to[w]]);
                    if self.left[edge] == 0 {
                        break;
                    }
                }
            }
            for &(v, _) in &row {
                edge_to[v] = usize::MAX;
            }
            if looks > TRIANGLE_LOOKS || stopwatch.is_late() {
                return;
            }
        }
    }

    /// Packs fundamental cycles of the breadth-first forest whose first root is this one; the weight that they take.
    fn pack_forest(&mut self, first_root: usize) -> i64 {
        let n = self.instance.n_nodes();
        let mut forest = Forest {
            parents: vec![(usize::MAX, usize::MAX); n],
            depths: vec![usize::MAX; n],
            order: Vec::with_capacity(n),
        };
        for root in (first_root..n).chain(0..first_root) {
            self.grow(&mut forest, root);
        }
        let mut packed = 0;
        let (mut row, mut cycle) = (Vec::new(), Vec::new());
        for at in 0..n {
            let v = forest.order[at];
            row.clear();
            row.extend(self.open_row(v).filter(|(u, _)| *u > v));
            for &(u, edge) in &row {
                forest.cycle(u, v, edge, &mut cycle);
                packed += self.pack(&cycle);
            }
        }
        packed
    }

    fn grow(&self, forest: &mut Forest, root: usize) {
        if forest.depths[root] != usize::MAX {
            return;
        }
        forest.depths[root] = 0;
        let mut head = forest.order.len();
        forest.order.push(root);
        while head < forest.order.len() {
            let v = forest.order[head];
            head += 1;
            for (u, edge) in self.open_row(v) {
                if forest.depths[u] == usize::MAX {
                    forest.depths[u] = forest.depths[v] + 1;
                    forest.parents[u] = (v, edge);
                    forest.order.push(u);
                }
            }
        }
    }
}

struct Forest {
    /// Parent of each node, and the edge to it.
    parents: Vec<(usize, usize)>,
    depths: Vec<usize>,
    order: Vec<usize>,
}

impl Forest {
    /// The edges of the cycle that an edge between `u` and `v` closes; none for an edge of the forest.
    fn cycle(&self, mut u: usize, mut v: usize, edge: usize, cycle: &mut Vec<usize>) {
        cycle.clear();
        if self.parents[u].1 == edge || self.parents[v].1 == edge {
            return;
        }
        cycle.push(edge);
        while u != v {
            let deeper = if self.depths[u] >= self.depths[v] {
                &mut u
            } else {
                &mut v
            };
            let (parent, edge) = self.parents[*deeper];
            cycle.push(edge);
            *deeper = parent;
        }
    }
}
