//! [`IteratedSearch`]: local search for heavy independent sets, with perturbations.

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::budget::Stopwatch;
use crate::vertex_cover::listed;
use crate::weighted::weight_of;

/// Perturbations between two looks at the clock.
const STEPS_PER_TICK: u64 = 16;
/// Pairs of neighbours are looked for among so many of them at most.
const MOST_CANDIDATES: usize = 24;
/// Perturbations without a better set, for each node, after which the search goes back to the best one.
const PATIENCE_PER_NODE: u64 = 4;

/// One independent set that changes.
///
/// # Source
/// Nogueira, Pinheiro and Subramanian (2018), "A hybrid iterated local search heuristic for the maximum weight independent set
/// problem": a node for its lighter neighbours in the set, two nodes for one; perturbations by forced nodes, worse sets kept for a
/// while. Forced nodes and acceptance: Andrade, Resende and Werneck (2012).
pub(super) struct IteratedSearch<'a> {
    graph: &'a Graph,
    weights: &'a [u32],
    random: KeyedRng,
    is_in: Vec<bool>,
    /// The weight of each node's neighbours in the set.
    around: Vec<u64>,
    weight: u64,
    /// Nodes outside that may be worth more than their neighbours inside, and nodes inside that two others may be worth more than.
    waiting: Vec<u32>,
    is_waiting: Vec<bool>,
    /// Nodes that came or went since the last set that was accepted.
    log: Vec<u32>,
    best: Vec<u32>,
    best_weight: u64,
    since_best: u64,
}

impl<'a> IteratedSearch<'a> {
    /// The search with this index from an independent set; each index has its own random numbers.
    pub(super) fn new(
        graph: &'a Graph,
        weights: &'a [u32],
        start: &[u32],
        seed: u64,
        index: u64,
    ) -> IteratedSearch<'a> {
        let n = graph.n_nodes() as usize;
        let mut search = IteratedSearch {
            graph,
            weights,
            random: KeyedRng::new(seed, "weighted-search", index),
            is_in: vec![false; n],
            around: vec![0; n],
            weight: 0,
            waiting: Vec::new(),
            is_waiting: vec![false; n],
            log: Vec::new(),
            best: start.to_vec(),
            best_weight: weight_of(weights, start),
            since_best: 0,
        };
        start.iter().for_each(|&v| search.insert(v));
        (0..graph.n_nodes()).rev().for_each(|v| search.wait(v));
        search
    }

    /// The heaviest set so far.
    pub(super) fn best(&self) -> &[u32] {
        &self.best
    }

    /// Goes on by so many perturbations, up to a set of weight `target` or the end of the time.
    pub(super) fn run(&mut self, steps: u64, target: u64, stopwatch: &Stopwatch<'_>) {
        self.improve();
        self.keep();
        self.log.clear();
        let patience = PATIENCE_PER_NODE * u64::from(self.graph.n_nodes());
        for step in 0..steps {
            let is_tick = step % STEPS_PER_TICK == 0;
            if self.best_weight >= target || is_tick && stopwatch.is_late() {
                return;
            }
            let weight_before = self.weight;
            self.perturb();
            self.improve();
            self.since_best += 1;
            self.keep();
            let has_lost = self.weight < weight_before;
            if has_lost && !self.is_accepted(weight_before) {
                self.take_back();
            }
            self.log.clear();
            if self.since_best > patience {
                self.restore_best();
            }
        }
    }

    fn weight_of(&self, v: u32) -> u64 {
        u64::from(self.weights[v as usize])
    }

    fn wait(&mut self, v: u32) {
        if !std::mem::replace(&mut self.is_waiting[v as usize], true) {
            self.waiting.push(v);
        }
    }

    /// Puts a node into the set, in the place of its neighbours there.
    fn insert(&mut self, v: u32) {
        let graph = self.graph;
        // Neighbours without weight are inside too.
        let inside = graph
            .neighbors(v)
            .iter()
            .filter(|u| self.is_in[**u as usize]);
        let inside: Vec<u32> = inside.copied().collect();
        inside.into_iter().for_each(|u| self.remove(u));
        self.is_in[v as usize] = true;
        self.weight += self.weight_of(v);
        self.log.push(v);
        self.wait(v);
        for &u in self.graph.neighbors(v) {
            self.around[u as usize] += u64::from(self.weights[v as usize]);
        }
    }

    fn remove(&mut self, v: u32) {
        self.is_in[v as usize] = false;
        self.weight -= self.weight_of(v);
        self.log.push(v);
        for &u in self.graph.neighbors(v) {
            self.around[u as usize] -= u64::from(self.weights[v as usize]);
        }
        self.wait(v);
        let graph = self.graph;
        for &u in graph.neighbors(v) {
            self.wait(u);
        }
    }

    /// Makes the set heavier until neither of the two moves does.
    fn improve(&mut self) {
        while let Some(v) = self.waiting.pop() {
            self.is_waiting[v as usize] = false;
            if self.is_in[v as usize] {
                self.two_for_one(v);
            } else if self.weight_of(v) > self.around[v as usize] {
                self.insert(v);
            } else if let Some(x) = self.only_neighbor_inside(v) {
                self.wait(x);
            }
        }
    }

    /// The one neighbour of `v` in the set, if there is just one.
    fn only_neighbor_inside(&self, v: u32) -> Option<u32> {
        let mut inside = self
            .graph
            .neighbors(v)
            .iter()
            .filter(|u| self.is_in[**u as usize]);
        let first = inside.next();
        first.filter(|_| inside.next().is_none()).copied()
    }

    /// Two nodes that are not joined, see only `x` in the set and weigh more than it come in its place.
    fn two_for_one(&mut self, x: u32) {
        let own = self.weight_of(x);
        let is_tight = |u: &u32| self.around[*u as usize] == own && self.weights[*u as usize] > 0;
        let tight = self.graph.neighbors(x).iter().copied().filter(is_tight);
        let tight: Vec<u32> = tight.take(MOST_CANDIDATES).collect();
        for (i, &u) in tight.iter().enumerate() {
            for &v in &tight[..i] {
                if self.weight_of(u) + self.weight_of(v) > own && !self.graph.has_edge(u, v) {
                    self.insert(u);
                    return self.insert(v);
                }
            }
        }
    }

    /// Forces a drawn node in, mostly one, seldom several.
    fn perturb(&mut self) {
        let n_nodes = self.graph.n_nodes();
        let mut n_forced = 1;
        while n_forced < 8 && self.random.chance(0.2) {
            n_forced += 1;
        }
        for _ in 0..n_forced {
            let v = self.random.below_u32(n_nodes);
            if !self.is_in[v as usize] {
                self.insert(v);
            }
        }
    }

    /// Whether a lighter set is kept: the more seldom, the further it is from the one before and from the best.
    fn is_accepted(&mut self, weight_before: u64) -> bool {
        let mean = self.best_weight as f64 / (self.best.len().max(1)) as f64;
        let lost = (weight_before - self.weight) as f64 / mean.max(1.0);
        let from_best = (self.best_weight - self.weight) as f64 / mean.max(1.0);
        self.random
            .chance(1.0 / (1.0 + 10.0 * lost * (1.0 + from_best)))
    }

    fn keep(&mut self) {
        if self.weight > self.best_weight {
            self.best_weight = self.weight;
            self.best = listed(&self.is_in);
            self.since_best = 0;
        }
    }

    /// Undoes what the log holds.
    fn take_back(&mut self) {
        let log = std::mem::take(&mut self.log);
        for v in log.into_iter().rev() {
            match self.is_in[v as usize] {
                true => self.remove(v),
                false => self.insert(v),
            }
        }
        for v in std::mem::take(&mut self.waiting) {
            self.is_waiting[v as usize] = false;
        }
    }

    fn restore_best(&mut self) {
        for v in listed(&self.is_in) {
            self.remove(v);
        }
        for v in self.best.clone() {
            self.insert(v);
        }
        self.log.clear();
        self.since_best = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;
    use crate::independent_set::check_independent_set;
    use crate::vertex_cover::tests::random_graph;
    use crate::weighted::naive;
    use crate::weighted::tests::random_weights;

    /// The sums and the weight that moves keep up are those of counting; no set is above the optimum, and nearly all reach it.
    #[test]
    fn moves_keep_sums_and_reach_optima() {
        let mut n_reached = 0;
        for seed in 0..40 {
            let graph = random_graph(18, 0.3, seed);
            let weights = random_weights(18, if seed % 2 == 0 { 3 } else { 50 }, seed);
            let mut search = IteratedSearch::new(&graph, &weights, &[], seed, 0);
            let stopwatch = Stopwatch::begin(&Budget::unlimited());
            search.run(400, u64::MAX, &stopwatch);
            check_independent_set(&graph, search.best()).unwrap();
            check_independent_set(&graph, &listed(&search.is_in)).unwrap();
            for v in 0..18 {
                let inside = graph
                    .neighbors(v)
                    .iter()
                    .filter(|u| search.is_in[**u as usize]);
                let around: u64 = inside.map(|&u| u64::from(weights[u as usize])).sum();
                assert_eq!(search.around[v as usize], around);
            }
            assert_eq!(search.weight, weight_of(&weights, &listed(&search.is_in)));
            let optimum = naive::set_weight(&graph, &weights);
            assert!(search.best_weight <= optimum);
            n_reached += u32::from(search.best_weight == optimum);
        }
        assert!(n_reached >= 38, "{n_reached}");
    }
}
