//! [`MaxSatBound`]: an upper bound of an independent set by cliques and by what unit propagation refutes.

use crate::vertex_cover::bit_graph::BitGraph;

const NONE: u32 = u32::MAX;

/// What the bound needs beside the graph, kept between calls.
///
/// A partition into cliques bounds an independent set by its number of cliques: a soft clause "one of these nodes" for each. Unit
/// propagation finds disjoint groups of clauses that contradict each other, of which one at least is broken.
///
/// # Source
/// Akiba and Iwata (2016), section 4.1, for the partition; Li and Quan (2010), "An efficient branch-and-bound algorithm based on
/// MaxSAT for the maximum clique problem", for failed literals, in the complement.
pub(crate) struct MaxSatBound {
    clique_of: Vec<u32>,
    cliques: Vec<Vec<u32>>,
    n_joined: Vec<u32>,
    order: Vec<u32>,
    /// Nodes of each clique that are not ruled out.
    n_open: Vec<u32>,
    /// Cliques of a group that was found.
    is_used: Vec<bool>,
    /// The clique whose node ruled a node out.
    ruled_out_by: Vec<u32>,
    ruled_out: Vec<u32>,
    units: Vec<u32>,
    /// The cliques of the group at hand.
    group: Vec<u32>,
    is_in_group: Vec<bool>,
}

impl MaxSatBound {
    pub(crate) fn new(n_nodes: usize) -> MaxSatBound {
        MaxSatBound {
            clique_of: vec![NONE; n_nodes],
            cliques: Vec::new(),
            n_joined: vec![0; n_nodes],
            order: Vec::new(),
            n_open: Vec::new(),
            is_used: Vec::new(),
            ruled_out_by: vec![NONE; n_nodes],
            ruled_out: Vec::new(),
            units: Vec::new(),
            group: Vec::new(),
            is_in_group: Vec::new(),
        }
    }

    /// Whether no independent set of what is alive has more than `most` nodes, as far as this bound sees.
    pub(crate) fn is_at_most(&mut self, graph: &BitGraph, most: u32) -> bool {
        let n_cliques = self.partition(graph);
        n_cliques <= most || self.refute(graph, n_cliques - most) >= n_cliques - most
    }

    /// No independent set of what is alive has more nodes.
    pub(crate) fn most(&mut self, graph: &BitGraph) -> u32 {
        let n_cliques = self.partition(graph);
        n_cliques - self.refute(graph, n_cliques)
    }

    /// The number of cliques of a greedy partition: each node, those with few neighbours first, joins the largest clique that takes it.
    pub(crate) fn partition(&mut self, graph: &BitGraph) -> u32 {
        self.order.clear();
        self.order.extend(graph.nodes());
        self.order.sort_unstable_by_key(|&v| (graph.degree(v), v));
        let mut n_cliques = 0;
        for i in 0..self.order.len() {
            self.clique_of[self.order[i] as usize] = NONE;
        }
        for i in 0..self.order.len() {
            let v = self.order[i];
            let mut best = NONE;
            for u in graph.neighbors(v) {
                let c = self.clique_of[u as usize];
                if c == NONE {
                    continue;
                }
                self.n_joined[c as usize] += 1;
                let len = self.cliques[c as usize].len();
                let is_whole = self.n_joined[c as usize] as usize == len;
                if is_whole && (best == NONE || len > self.cliques[best as usize].len()) {
                    best = c;
                }
            }
            for u in graph.neighbors(v) {
                let c = self.clique_of[u as usize];
                if c != NONE {
                    self.n_joined[c as usize] = 0;
                }
            }
            if best == NONE {
                best = n_cliques as u32;
                if self.cliques.len() == n_cliques {
                    self.cliques.push(Vec::new());
                }
                self.cliques[n_cliques].clear();
                n_cliques += 1;
            }
            self.cliques[best as usize].push(v);
            self.clique_of[v as usize] = best;
        }
        self.cliques.truncate(n_cliques);
        n_cliques as u32
    }

    /// The number of disjoint groups of cliques that cannot all have a node in one independent set; the search ends with `n_wanted` of
    /// them, and earlier where they are out of reach.
    fn refute(&mut self, graph: &BitGraph, n_wanted: u32) -> u32 {
        let n = self.cliques.len();
        self.n_open.clear();
        self.n_open
            .extend(self.cliques.iter().map(|clique| clique.len() as u32));
        for flags in [&mut self.is_used, &mut self.is_in_group] {
            flags.clear();
            flags.resize(n, false);
        }
        let mut by_len: Vec<u32> = (0..n as u32).collect();
        by_len.sort_by_key(|&c| self.n_open[c as usize]);
        let (mut n_found, mut n_left) = (0, n as u32);
        for c in by_len {
            // A group has two cliques at least.
            let is_out_of_reach = n_wanted < n as u32 && n_found + n_left / 2 < n_wanted;
            if n_found == n_wanted || is_out_of_reach {
                break;
            }
            if self.is_used[c as usize] {
                continue;
            }
            let is_refuted = self.is_refuted(graph, c);
            for i in 0..self.group.len() {
                let c = self.group[i] as usize;
                self.is_in_group[c] = false;
                if is_refuted {
                    self.is_used[c] = true;
                    n_left -= 1;
                }
            }
            self.group.clear();
            n_found += u32::from(is_refuted);
        }
        n_found
    }

    /// Whether each node of a clique, put into the set, leads to a contradiction; `group` has the cliques of these then.
    fn is_refuted(&mut self, graph: &BitGraph, c: u32) -> bool {
        self.join_group(c);
        for i in 0..self.cliques[c as usize].len() {
            let v = self.cliques[c as usize][i];
            let empty = self.propagate(graph, v);
            if let Some(empty) = empty {
                self.explain(empty);
            }
            self.take_back();
            if empty.is_none() {
                return false;
            }
        }
        true
    }

    fn join_group(&mut self, c: u32) {
        if !std::mem::replace(&mut self.is_in_group[c as usize], true) {
            self.group.push(c);
        }
    }

    /// Puts `v` into the set, and what must be in it then; a clique without a node left, if there is one.
    fn propagate(&mut self, graph: &BitGraph, v: u32) -> Option<u32> {
        self.units.clear();
        self.units.push(v);
        let mut head = 0;
        while head < self.units.len() {
            let v = self.units[head];
            head += 1;
            let from = self.clique_of[v as usize];
            for u in graph.neighbors(v) {
                let c = self.clique_of[u as usize];
                let is_free = self.ruled_out_by[u as usize] == NONE;
                if c == from || !is_free || self.is_used[c as usize] {
                    continue;
                }
                self.ruled_out_by[u as usize] = from;
                self.ruled_out.push(u);
                self.n_open[c as usize] -= 1;
                match self.n_open[c as usize] {
                    0 => return Some(c),
                    1 => {
                        let open = self.cliques[c as usize].iter();
                        let is_open = |&&w: &&u32| self.ruled_out_by[w as usize] == NONE;
                        self.units.extend(open.copied().find(|w| is_open(&w)));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// Adds to the group the cliques that emptied this one.
    fn explain(&mut self, empty: u32) {
        let mut stack = vec![empty];
        let mut is_met = vec![empty];
        while let Some(c) = stack.pop() {
            self.join_group(c);
            for i in 0..self.cliques[c as usize].len() {
                let by = self.ruled_out_by[self.cliques[c as usize][i] as usize];
                if by != NONE && !is_met.contains(&by) {
                    is_met.push(by);
                    stack.push(by);
                }
            }
        }
    }

    fn take_back(&mut self) {
        for &u in &self.ruled_out {
            self.ruled_out_by[u as usize] = NONE;
            self.n_open[self.clique_of[u as usize] as usize] += 1;
        }
        self.ruled_out.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_graph::Graph;

    use super::*;
    use crate::vertex_cover::naive;
    use crate::vertex_cover::tests::small_graph;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn no_independent_set_is_larger(graph in small_graph(13)) {
            let most = graph.n_nodes() - naive::cover_size(&graph) as u32;
            let bits = BitGraph::new(&graph);
            let mut bound = MaxSatBound::new(graph.n_nodes() as usize);
            prop_assert!(bound.partition(&bits) >= most);
            for smaller in 0..most {
                prop_assert!(!bound.is_at_most(&bits, smaller));
            }
        }
    }

    /// Cliques alone allow three nodes of a cycle of five.
    #[test]
    fn an_odd_cycle_is_refuted() {
        let cycle = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]).unwrap();
        let bits = BitGraph::new(&cycle);
        let mut bound = MaxSatBound::new(5);
        assert_eq!(bound.partition(&bits), 3);
        assert!(bound.is_at_most(&bits, 2) && !bound.is_at_most(&bits, 1));
    }
}
