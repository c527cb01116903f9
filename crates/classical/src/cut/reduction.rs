//! [`Reduction`]: nodes of at most three neighbours are eliminated and small components cut exactly.

use crate::cut::enumerate::SmallComponents;
use crate::cut::instance::Instance;

/// Weights of the kernel are in finer units, because a star of three edges becomes a triangle of half units.
const FINER: i64 = 256;
/// Largest degree that is eliminated.
const MAX_DEGREE: usize = 3;

/// A smaller instance with the same optimum but for an offset, and the way back.
///
/// # Source
/// Degree one and two: Dahn, Kriege and Mutzel (2021), "Structure preserving reductions for maximum cut". Degree three: the
/// star-triangle transformation of Ising spins, Onsager (1944) and Fisher (1959), at temperature zero.
pub(crate) struct Reduction {
    pub(crate) kernel: Instance,
    /// Weight that the eliminated nodes and settled components add, in units of the kernel.
    pub(crate) offset: i64,
    /// Node of the graph for each node of the kernel.
    nodes: Vec<u32>,
    eliminated: Vec<Elimination>,
    /// Side of each node in a settled component, false for all others.
    settled: Vec<bool>,
}

/// A node that was eliminated, with the edges that it had then.
struct Elimination {
    node: u32,
    edges: Vec<(u32, i64)>,
}

impl Reduction {
    /// # Complexity
    /// O(n + m) where the ends of new edges have few neighbours, as a new edge is searched in the shorter row.
    pub(crate) fn new(instance: &Instance) -> Reduction {
        let mut eliminator = Eliminator::new(instance);
        eliminator.run();
        eliminator.finish(instance)
    }

    /// The sides of all nodes, the best for these sides of the kernel.
    pub(crate) fn lift(&self, kernel_sides: &[bool]) -> Vec<bool> {
        let mut sides = self.settled.clone();
        for (&v, &side) in self.nodes.iter().zip(kernel_sides) {
            sides[v as usize] = side;
        }
        for elimination in self.eliminated.iter().rev() {
            let edges = elimination.edges.iter();
            let pull = edges.map(|&(u, weight)| match sides[u as usize] {
                true => -weight,
                false => weight,
            });
            sides[elimination.node as usize] = pull.sum::<i64>() > 0;
        }
        sides
    }

    /// The sides of the kernel's nodes in a cut of the graph.
    pub(crate) fn restrict(&self, sides: &[bool]) -> Vec<bool> {
        self.nodes.iter().map(|&v| sides[v as usize]).collect()
    }
}

struct Eliminator {
    ends: Vec<[u32; 2]>,
    /// Weight of each edge; 0 for one that is gone.
    weights: Vec<i64>,
    /// Edges of each node, gone ones among them.
    rows: Vec<Vec<u32>>,
    degrees: Vec<usize>,
    is_eliminated: Vec<bool>,
    eliminated: Vec<Elimination>,
    queue: Vec<u32>,
    offset: i64,
}

impl Eliminator {
    fn new(instance: &Instance) -> Eliminator {
        let n = instance.n_nodes();
        let mut eliminator = Eliminator {
            ends: Vec::new(),
            weights: Vec::new(),
            rows: vec![Vec::new(); n],
            degrees: vec![0; n],
            is_eliminated: vec![false; n],
            eliminated: Vec::new(),
            queue: Vec::new(),
            offset: 0,
        };
        for (u, v, weight) in instance.edges().filter(|(_, _, weight)| *weight != 0) {
            eliminator.push_edge(u as u32, v as u32, weight * FINER);
        }
        eliminator.queue = (0..n as u32).rev().collect();
        eliminator
    }

    fn push_edge(&mut self, u: u32, v: u32, weight: i64) {
        let edge = self.ends.len() as u32;
        self.ends.push([u, v]);
        self.weights.push(weight);
        for end in [u, v] {
            self.rows[end as usize].push(edge);
            self.degrees[end as usize] += 1;
        }
    }

    fn run(&mut self) {
        while let Some(v) = self.queue.pop() {
            let is_small = self.degrees[v as usize] <= MAX_DEGREE;
            if is_small && !self.is_eliminated[v as usize] {
                self.eliminate(v);
            }
        }
    }

    fn eliminate(&mut self, v: u32) {
        let edges = self.edges_of(v);
        let weights: Vec<i64> = edges.iter().map(|(_, weight)| *weight).collect();
        // The weight of v's edges, at its better side, where all neighbours share a side, and where only the i-th differs.
        let sum: i64 = weights.iter().sum();
        let together = sum.max(0);
        let apart = |i: usize| weights[i].max(sum - weights[i]);
        if edges.len() == 3 && (together + apart(0) + apart(1) + apart(2)) % 2 != 0 {
            return;
        }
        self.is_eliminated[v as usize] = true;
        self.offset += together;
        self.drop_edges(v);
        match edges.len() {
            2 => self.add_weight(edges[0].0, edges[1].0, apart(0) - together),
            3 => {
                for (i, j, k) in [(0, 1, 2), (0, 2, 1), (1, 2, 0)] {
                    let weight = (apart(i) + apart(j) - apart(k) - together) / 2;
                    self.add_weight(edges[i].0, edges[j].0, weight);
                }
            }
            _ => {}
        }
        self.queue.extend(edges.iter().map(|(u, _)| u));
        self.eliminated.push(Elimination { node: v, edges });
    }

    /// The edges that are left at `v`, each as its other end and its weight.
    fn edges_of(&mut self, v: u32) -> Vec<(u32, i64)> {
        let weights = &self.weights;
        self.rows[v as usize].retain(|&edge| weights[edge as usize] != 0);
        let row = self.rows[v as usize].iter();
        row.map(|&edge| (self.other_end(edge, v), self.weights[edge as usize]))
            .collect()
    }

    fn other_end(&self, edge: u32, v: u32) -> u32 {
        let [a, b] = self.ends[edge as usize];
        if a == v { b } else { a }
    }

    fn drop_edges(&mut self, v: u32) {
        for edge in std::mem::take(&mut self.rows[v as usize]) {
            self.drop_edge(edge);
        }
    }

    fn drop_edge(&mut self, edge: u32) {
        self.weights[edge as usize] = 0;
        for end in self.ends[edge as usize] {
            self.degrees[end as usize] -= 1;
        }
    }

    /// Adds to the weight of the edge between `a` and `b`, which comes into being or goes with it.
    fn add_weight(&mut self, a: u32, b: u32, weight: i64) {
        if weight == 0 {
            return;
        }
        let (from, to) = match self.rows[a as usize].len() <= self.rows[b as usize].len() {
            true => (a, b),
            false => (b, a),
        };
        let row = &mut self.rows[from as usize];
        if row.len() > 2 * self.degrees[from as usize] {
            let weights = &self.weights;
            row.retain(|&edge| weights[edge as usize] != 0);
        }
        let row = &self.rows[from as usize];
        let is_it = |&e: &u32| self.weights[e as usize] != 0 && self.other_end(e, from) == to;
        let found = row.iter().position(is_it);
        let Some(at) = found else {
            self.push_edge(a, b, weight);
            self.move_to_front(a, self.rows[a as usize].len() - 1);
            return self.move_to_front(b, self.rows[b as usize].len() - 1);
        };
        let edge = row[at];
        self.move_to_front(from, at);
        match self.weights[edge as usize] + weight {
            0 => self.drop_edge(edge),
            sum => self.weights[edge as usize] = sum,
        }
    }

    /// The next search in the row of `v` meets this edge first, so that many nodes between the same two cost O(1) each.
    fn move_to_front(&mut self, v: u32, at: usize) {
        self.rows[v as usize].swap(0, at);
    }

    fn finish(self, instance: &Instance) -> Reduction {
        let n = instance.n_nodes();
        let nodes: Vec<u32> = (0..n as u32)
            .filter(|v| !self.is_eliminated[*v as usize])
            .collect();
        let mut position = vec![0; n];
        for (at, &v) in (0u32..).zip(&nodes) {
            position[v as usize] = at;
        }
        let mut edges: Vec<(u32, u32, i64)> = self
            .ends
            .iter()
            .zip(&self.weights)
            .filter(|(_, weight)| **weight != 0)
            .map(|([u, v], &weight)| (position[*u as usize], position[*v as usize], weight))
            .collect();
        // So that the rows ascend.
        for (u, v, _) in &mut edges {
            (*u, *v) = (*u.min(v), *u.max(v));
        }
        edges.sort_unstable();
        let mut rest = Instance::from_edges(nodes.len(), &edges, instance);
        rest.scale *= FINER as f64;
        let small = SmallComponents::new(&rest);
        let mut settled = vec![false; n];
        for (&v, side) in nodes.iter().zip(&small.sides) {
            settled[v as usize] = *side == Some(true);
        }
        let left: Vec<usize> = (0..nodes.len())
            .filter(|&v| small.sides[v].is_none())
            .collect();
        Reduction {
            kernel: rest.induced(&left),
            offset: self.offset + small.cut,
            nodes: left.iter().map(|&v| nodes[v]).collect(),
            eliminated: self.eliminated,
            settled,
        }
    }
}
