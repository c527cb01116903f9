//! [`reduce`]: rules for maximum weight independent set, and the way back.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::{Dynamic, Marks, listed};

/// Nodes with more neighbours are left to the neighbourhood rule.
const MOST_NEIGHBORS: u32 = 16;
/// Nodes that are looked at between two looks at the clock.
const LOOKS_PER_TICK: u64 = 256;

/// A step that lifting takes back.
enum Rewrite {
    /// The node is in the set.
    Take(u32),
    /// The node is in the set where none of these neighbours is: each has lost its weight.
    Simplicial { node: u32, neighbors: Vec<u32> },
    /// A node and its two neighbours, which live on as one node under the name `a`.
    Fold { middle: u32, a: u32, b: u32 },
    /// Two nodes with the same neighbours, which live on under the name of the first.
    Twin { node: u32, twin: u32 },
}

/// A kernel with weights of its own, and how its sets become sets of the graph.
pub(super) struct WeightedReduction {
    pub(super) kernel: Graph,
    pub(super) weights: Vec<u32>,
    pub(super) old_ids: Vec<u32>,
    /// The weight that a lifted set has more than the set of the kernel.
    pub(super) offset: u64,
    n_nodes: usize,
    rewrites: Vec<Rewrite>,
}

impl WeightedReduction {
    /// Makes an independent set of the graph, ascending, from one of the kernel: heavier by `offset`.
    pub(super) fn lift(&self, set_of_kernel: &[u32]) -> Vec<u32> {
        let mut is_in = vec![false; self.n_nodes];
        for &v in set_of_kernel {
            is_in[self.old_ids[v as usize] as usize] = true;
        }
        for rewrite in self.rewrites.iter().rev() {
            match rewrite {
                Rewrite::Take(v) => is_in[*v as usize] = true,
                Rewrite::Simplicial { node, neighbors } => {
                    is_in[*node as usize] = !neighbors.iter().any(|&u| is_in[u as usize]);
                }
                Rewrite::Fold { middle, a, b } => {
                    let both = is_in[*a as usize];
                    is_in[*b as usize] = both;
                    is_in[*middle as usize] = !both;
                }
                Rewrite::Twin { node, twin } => is_in[*twin as usize] = is_in[*node as usize],
            }
        }
        listed(&is_in)
    }
}

/// Shrinks a graph with node weights until no rule applies, or the time is over.
///
/// # Complexity
/// A look at a node: the rows of its neighbours, for nodes of up to [`MOST_NEIGHBORS`] of these, else its own row.
///
/// # Source
/// Lamm, Schulz, Strash, Williger and Zhang (2019), "Exactly solving the maximum weight independent set problem on large real-world
/// graphs": neighbourhood removal, simplicial nodes with weight transfer, folding, twins, domination.
pub(super) fn reduce(graph: &Graph, weights: &[u32], budget: &Budget<'_>) -> WeightedReduction {
    let n_nodes = graph.n_nodes() as usize;
    let mut reducer = Reducer {
        graph: Dynamic::new(graph),
        weights: weights.to_vec(),
        offset: 0,
        rewrites: Vec::new(),
        waiting: (0..graph.n_nodes()).rev().collect(),
        is_waiting: vec![true; n_nodes],
        marks: Marks::new(n_nodes),
    };
    reducer.run(&Stopwatch::begin(budget));
    let (rows, old_ids) = reducer.graph.compact();
    WeightedReduction {
        kernel: rows.into_graph(),
        weights: (old_ids.iter())
            .map(|&v| reducer.weights[v as usize])
            .collect(),
        old_ids,
        offset: reducer.offset,
        n_nodes,
        rewrites: reducer.rewrites,
    }
}

struct Reducer {
    graph: Dynamic,
    weights: Vec<u32>,
    offset: u64,
    rewrites: Vec<Rewrite>,
    waiting: Vec<u32>,
    is_waiting: Vec<bool>,
    marks: Marks,
}

impl Reducer {
    fn run(&mut self, stopwatch: &Stopwatch<'_>) {
        let mut n_looks = 0u64;
        while let Some(v) = self.waiting.pop() {
            self.is_waiting[v as usize] = false;
            n_looks += 1;
            if n_looks.is_multiple_of(LOOKS_PER_TICK) && stopwatch.is_late() {
                return;
            }
            if self.graph.is_alive(v) {
                self.look_at(v);
            }
        }
    }

    fn weight(&self, v: u32) -> u64 {
        u64::from(self.weights[v as usize])
    }

    fn wait(&mut self, v: u32) {
        if !std::mem::replace(&mut self.is_waiting[v as usize], true) {
            self.waiting.push(v);
        }
    }

    fn remove(&mut self, v: u32) {
        let mut touched = Vec::new();
        self.graph.remove(v, &mut |u, _| touched.push(u));
        touched.into_iter().for_each(|u| self.wait(u));
    }

    fn neighbors(&self, v: u32) -> Vec<u32> {
        self.graph.neighbors(v).collect()
    }

    /// Tells `v` and its neighbours that its weight or its neighbours have changed.
    fn has_changed(&mut self, v: u32) {
        self.wait(v);
        self.neighbors(v).into_iter().for_each(|u| self.wait(u));
    }

    fn look_at(&mut self, v: u32) {
        let neighbors = self.neighbors(v);
        let around: u64 = neighbors.iter().map(|&u| self.weight(u)).sum();
        if self.weight(v) >= around {
            return self.take(v, &neighbors);
        }
        if neighbors.len() > MOST_NEIGHBORS as usize {
            return;
        }
        if self.is_clique(&neighbors) {
            return self.simplicial(v, &neighbors);
        }
        if let [a, b] = neighbors[..] {
            // Not joined, and heavier together.
            if self.weight(v) >= self.weight(a).max(self.weight(b)) && self.fold(v, a, b) {
                return;
            }
        }
        if self.merge_twin(v, &neighbors) {
            return;
        }
        self.remove_dominated(v, &neighbors);
    }

    fn take(&mut self, v: u32, neighbors: &[u32]) {
        self.offset += self.weight(v);
        self.rewrites.push(Rewrite::Take(v));
        neighbors.iter().for_each(|&u| self.remove(u));
        self.remove(v);
    }

    fn is_clique(&self, nodes: &[u32]) -> bool {
        let joined = |(i, &u): (usize, &u32)| nodes[..i].iter().all(|&v| self.graph.has_edge(u, v));
        nodes.iter().enumerate().all(joined)
    }

    /// `v` sees a clique: lighter neighbours go, and the others lose its weight.
    fn simplicial(&mut self, v: u32, neighbors: &[u32]) {
        let own = self.weights[v as usize];
        let (light, heavy): (Vec<u32>, Vec<u32>) = neighbors
            .iter()
            .partition(|&&u| self.weights[u as usize] <= own);
        self.offset += u64::from(own);
        light.into_iter().for_each(|u| self.remove(u));
        self.remove(v);
        for &u in &heavy {
            self.weights[u as usize] -= own;
            self.has_changed(u);
        }
        self.rewrites.push(Rewrite::Simplicial {
            node: v,
            neighbors: heavy,
        });
    }

    /// False where the weight of the folded node does not fit.
    fn fold(&mut self, middle: u32, a: u32, b: u32) -> bool {
        let folded = self.weight(a) + self.weight(b) - self.weight(middle);
        let Ok(folded) = u32::try_from(folded) else {
            return false;
        };
        self.offset += self.weight(middle);
        self.graph
            .fold(middle, a, b, &mut self.marks, &mut |_, _| {});
        self.weights[a as usize] = folded;
        self.rewrites.push(Rewrite::Fold { middle, a, b });
        self.has_changed(a);
        true
    }

    /// Gives `v` the weight of another node with the same neighbours; false where there is none.
    fn merge_twin(&mut self, v: u32, neighbors: &[u32]) -> bool {
        let Some(&first) = neighbors.iter().min_by_key(|&&u| (self.graph.degree(u), u)) else {
            return false;
        };
        self.marks.clear();
        for &u in neighbors {
            self.marks.mark(u);
        }
        let is_twin = |&x: &u32| {
            x != v
                && self.graph.degree(x) as usize == neighbors.len()
                && self.graph.neighbors(x).all(|u| self.marks.has(u))
        };
        let twin = self.graph.neighbors(first).find(is_twin);
        let Some(twin) = twin else {
            return false;
        };
        let Some(sum) = self.weights[v as usize].checked_add(self.weights[twin as usize]) else {
            return false;
        };
        self.weights[v as usize] = sum;
        self.rewrites.push(Rewrite::Twin { node: v, twin });
        self.remove(twin);
        self.has_changed(v);
        true
    }

    /// Neighbours that are no heavier and see all that `v` sees are not needed.
    fn remove_dominated(&mut self, v: u32, neighbors: &[u32]) {
        for &u in neighbors {
            if self.weight(u) > self.weight(v) || self.graph.degree(u) < self.graph.degree(v) {
                continue;
            }
            self.marks.clear();
            for w in self.graph.neighbors(u) {
                self.marks.mark(w);
            }
            let sees = |w: u32| w == u || self.marks.has(w);
            if self.graph.neighbors(v).all(sees) {
                self.remove(u);
                return self.wait(v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::independent_set::check_independent_set;
    use crate::vertex_cover::tests::small_graph;
    use crate::weighted::naive;
    use crate::weighted::tests::random_weights;
    use crate::weighted::weight_of;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The kernel's optimum and the offset are the graph's optimum, and each set is lifted by the offset.
        #[test]
        fn the_optimum_is_kept(graph in small_graph(12), seed in any::<u64>(), most in 0..12u32) {
            let weights = random_weights(graph.n_nodes(), most, seed);
            let reduction = reduce(&graph, &weights, &Budget::unlimited());
            let of_kernel = naive::set_weight(&reduction.kernel, &reduction.weights);
            prop_assert_eq!(of_kernel + reduction.offset, naive::set_weight(&graph, &weights));
            let set = crate::weighted::greedy(&reduction.kernel, &reduction.weights);
            let lifted = reduction.lift(&set);
            check_independent_set(&graph, &lifted).unwrap();
            let grown = weight_of(&reduction.weights, &set) + reduction.offset;
            prop_assert_eq!(weight_of(&weights, &lifted), grown);
        }
    }

    /// A path, a star and a cycle are reduced to nothing.
    #[test]
    fn simple_shapes_vanish() {
        let graph = |n, edges: &[(u32, u32)]| Graph::from_edges(n, edges).unwrap();
        let path: Vec<(u32, u32)> = (1..30).map(|v| (v - 1, v)).collect();
        let star: Vec<(u32, u32)> = (1..30).map(|v| (0, v)).collect();
        let cycle: Vec<(u32, u32)> = (0..30).map(|v| (v, (v + 1) % 30)).collect();
        for edges in [path, star, cycle] {
            let reduction = reduce(
                &graph(30, &edges),
                &random_weights(30, 9, 4),
                &Budget::unlimited(),
            );
            assert_eq!(reduction.kernel.n_nodes(), 0, "{edges:?}");
        }
    }
}
