//! [`BitGraph`]: a graph in bit rows whose changes can be undone, for branch and reduce.

use shardgraph_graph::Graph;

/// One change, for the way back and for the independent set that it stands for.
#[derive(Clone, Copy, Debug)]
enum Op {
    Remove(u32),
    Join(u32, u32),
    /// The node is in the independent set.
    Take(u32),
    /// A node of degree 2 and its neighbours, which live on as one node under the name `a`.
    Fold {
        middle: u32,
        a: u32,
        b: u32,
    },
}

/// A graph that loses nodes and gets them folded, with a trail of what was done.
pub(crate) struct BitGraph {
    n_words: usize,
    rows: Vec<u64>,
    alive: Vec<u64>,
    n_alive: u32,
    degrees: Vec<u32>,
    trail: Vec<Op>,
    /// Nodes of the independent set that the trail stands for.
    n_taken: u32,
    /// Nodes whose neighbourhood has changed, until a rule looks at them.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

/// The set bits of words, ascending.
pub(crate) fn bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    (0u32..).zip(words).flat_map(|(place, mut word)| {
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros();
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(64 * place + bit)
        })
    })
}

impl BitGraph {
    pub(crate) fn new(graph: &Graph) -> BitGraph {
        let n = graph.n_nodes() as usize;
        let n_words = n.div_ceil(64);
        let mut rows = vec![0; n * n_words];
        let mut alive = vec![0; n_words];
        for v in 0..n {
            alive[v / 64] |= 1 << (v % 64);
            for &u in graph.neighbors(v as u32) {
                rows[v * n_words + u as usize / 64] |= 1 << (u % 64);
            }
        }
        BitGraph {
            n_words,
            rows,
            alive,
            n_alive: n as u32,
            degrees: graph.degrees(),
            trail: Vec::new(),
            n_taken: 0,
            touched: (0..n as u32).rev().collect(),
            is_touched: vec![true; n],
        }
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.degrees.len()
    }

    pub(crate) fn n_words(&self) -> usize {
        self.n_words
    }

    pub(crate) fn n_alive(&self) -> u32 {
        self.n_alive
    }

    pub(crate) fn n_taken(&self) -> u32 {
        self.n_taken
    }

    pub(crate) fn alive(&self) -> &[u64] {
        &self.alive
    }

    pub(crate) fn is_alive(&self, v: u32) -> bool {
        self.alive[v as usize / 64] >> (v % 64) & 1 == 1
    }

    pub(crate) fn degree(&self, v: u32) -> u32 {
        self.degrees[v as usize]
    }

    /// The neighbours of `v`, the removed ones among them.
    pub(crate) fn row(&self, v: u32) -> &[u64] {
        &self.rows[v as usize * self.n_words..][..self.n_words]
    }

    pub(crate) fn has_edge(&self, u: u32, v: u32) -> bool {
        self.row(u)[v as usize / 64] >> (v % 64) & 1 == 1
    }

    /// The words of the neighbours of `v` that are left.
    pub(crate) fn living_row(&self, v: u32) -> impl Iterator<Item = u64> + '_ {
        self.row(v)
            .iter()
            .zip(&self.alive)
            .map(|(row, alive)| row & alive)
    }

    pub(crate) fn neighbors(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        bits(self.living_row(v))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        bits(self.alive.iter().copied())
    }

    pub(crate) fn touch(&mut self, v: u32) {
        if !std::mem::replace(&mut self.is_touched[v as usize], true) {
            self.touched.push(v);
        }
    }

    /// A node whose neighbourhood has changed since it was given here.
    pub(crate) fn pop_touched(&mut self) -> Option<u32> {
        let v = self.touched.pop()?;
        self.is_touched[v as usize] = false;
        Some(v)
    }

    fn set_alive(&mut self, v: u32, is_alive: bool) {
        let bit = 1 << (v % 64);
        let word = &mut self.alive[v as usize / 64];
        match is_alive {
            true => (*word, self.n_alive) = (*word | bit, self.n_alive + 1),
            false => (*word, self.n_alive) = (*word & !bit, self.n_alive - 1),
        }
    }

    /// Takes `v` out of the graph: it is in the cover, or its fate is in the trail.
    pub(crate) fn remove(&mut self, v: u32) {
        self.set_alive(v, false);
        for i in 0..self.n_words {
            let mut word = self.rows[v as usize * self.n_words + i] & self.alive[i];
            while word != 0 {
                let u = 64 * i as u32 + word.trailing_zeros();
                word &= word - 1;
                self.degrees[u as usize] -= 1;
                self.touch(u);
            }
        }
        self.trail.push(Op::Remove(v));
    }

    /// Puts `v` into the independent set, and its neighbours into the cover.
    pub(crate) fn take(&mut self, v: u32) {
        for i in 0..self.n_words {
            let mut word = self.rows[v as usize * self.n_words + i] & self.alive[i];
            while word != 0 {
                self.remove(64 * i as u32 + word.trailing_zeros());
                word &= word - 1;
            }
        }
        self.remove(v);
        self.trail.push(Op::Take(v));
        self.n_taken += 1;
    }

    fn flip_edge(&mut self, u: u32, v: u32) {
        for (x, y) in [(u, v), (v, u)] {
            self.rows[x as usize * self.n_words + y as usize / 64] ^= 1 << (y % 64);
        }
    }

    /// Makes one node of `middle`, which has exactly the neighbours `a` and `b`, and of these two, which are not joined: it is `a`.
    pub(crate) fn fold(&mut self, middle: u32, a: u32, b: u32) {
        self.remove(middle);
        self.remove(b);
        for i in 0..self.n_words {
            let new = self.rows[b as usize * self.n_words + i]
                & !self.rows[a as usize * self.n_words + i]
                & self.alive[i];
            for w in bits(std::iter::once(new)).map(|bit| 64 * i as u32 + bit) {
                self.flip_edge(a, w);
                self.degrees[a as usize] += 1;
                self.degrees[w as usize] += 1;
                self.trail.push(Op::Join(a, w));
                self.touch(w);
            }
        }
        self.touch(a);
        self.trail.push(Op::Fold { middle, a, b });
        self.n_taken += 1;
    }

    pub(crate) fn trail_len(&self) -> usize {
        self.trail.len()
    }

    /// Takes back all changes after the first `trail_len`.
    pub(crate) fn undo_to(&mut self, trail_len: usize) {
        while self.trail.len() > trail_len {
            match self.trail.pop() {
                Some(Op::Remove(v)) => {
                    for i in 0..self.n_words {
                        let mut word = self.rows[v as usize * self.n_words + i] & self.alive[i];
                        while word != 0 {
                            let u = 64 * i + word.trailing_zeros() as usize;
                            word &= word - 1;
                            self.degrees[u] += 1;
                        }
                    }
                    self.set_alive(v, true);
                }
                Some(Op::Join(u, v)) => {
                    self.flip_edge(u, v);
                    self.degrees[u as usize] -= 1;
                    self.degrees[v as usize] -= 1;
                }
                Some(Op::Take(_) | Op::Fold { .. }) => self.n_taken -= 1,
                None => {}
            }
        }
    }

    /// The independent set that the changes after the first `trail_len` stand for, in the graph that these changes found.
    pub(crate) fn set_since(&self, trail_len: usize) -> Vec<u32> {
        let mut is_in = vec![false; self.n_nodes()];
        for op in self.trail[trail_len..].iter().rev() {
            match *op {
                Op::Take(v) => is_in[v as usize] = true,
                Op::Fold { middle, a, b } => {
                    let both = is_in[a as usize];
                    is_in[b as usize] = both;
                    is_in[middle as usize] = !both;
                }
                Op::Remove(_) | Op::Join(..) => {}
            }
        }
        crate::vertex_cover::check::listed(&is_in)
    }

    /// Leaves only this part alive, which nothing joins to the rest, and gives what was alive.
    pub(crate) fn focus(&mut self, part: &[u64]) -> Vec<u64> {
        self.n_alive = part.iter().map(|word| word.count_ones()).sum();
        std::mem::replace(&mut self.alive, part.to_vec())
    }

    /// The connected component of `v`.
    pub(crate) fn component(&self, v: u32) -> Vec<u64> {
        let mut reached = vec![0; self.n_words];
        reached[v as usize / 64] |= 1 << (v % 64);
        let mut stack = vec![v];
        while let Some(u) = stack.pop() {
            for (i, word) in self.living_row(u).enumerate() {
                let mut new = word & !reached[i];
                reached[i] |= new;
                while new != 0 {
                    stack.push(64 * i as u32 + new.trailing_zeros());
                    new &= new - 1;
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use shardgraph_random::KeyedRng;

    use super::*;
    use crate::vertex_cover::tests::random_graph;

    fn edges(graph: &BitGraph) -> Vec<(u32, u32)> {
        let above = |v: u32| {
            graph
                .neighbors(v)
                .filter(move |&u| u > v)
                .map(move |u| (v, u))
        };
        graph.nodes().flat_map(above).collect()
    }

    #[test]
    fn every_change_is_undone() {
        for seed in 0..50 {
            let n_nodes = [5, 63, 64, 65, 130][seed as usize % 5];
            let mut graph = BitGraph::new(&random_graph(n_nodes, 3.0 / f64::from(n_nodes), seed));
            let mut random = KeyedRng::new(seed, "test", 0);
            let mut states = vec![(0, edges(&graph), graph.n_taken())];
            while graph.n_alive() > 0 {
                let nodes: Vec<u32> = graph.nodes().collect();
                let v = nodes[random.index(nodes.len())];
                let neighbors: Vec<u32> = graph.neighbors(v).collect();
                match neighbors[..] {
                    [a, b] if !graph.has_edge(a, b) => graph.fold(v, a, b),
                    _ if random.chance(0.5) => graph.take(v),
                    _ => graph.remove(v),
                }
                for v in graph.nodes() {
                    assert_eq!(graph.degree(v), graph.neighbors(v).count() as u32);
                }
                states.push((graph.trail_len(), edges(&graph), graph.n_taken()));
            }
            for (trail_len, expected, n_taken) in states.into_iter().rev() {
                graph.undo_to(trail_len);
                assert_eq!((edges(&graph), graph.n_taken()), (expected, n_taken));
            }
        }
    }
}
