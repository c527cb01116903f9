//! [`LocalSearch`]: tabu search for a clique over adjacency bits, by adding, swapping and dropping a node.

use shardgraph_random::KeyedRng;

use crate::budget::Stopwatch;
use crate::clique::bits::BitRows;

/// Steps without a larger clique after which the search restarts.
const PATIENCE: u64 = 4000;
/// Least number of steps that a dropped node stays out.
const TENURE: u64 = 7;
/// Steps between two looks at the clock.
const STEPS_PER_TICK: u64 = 256;
/// List of the nodes that miss as many neighbours in the clique as its index; those that miss more are in none.
const N_LISTS: usize = 2;

/// One search; a step changes one place of the clique.
///
/// # Source
/// Wu, Hao and Glover (2012), "Multi-neighborhood tabu search for the maximum weight clique problem" (MN/TS), with weights of one.
///
/// # Complexity
/// A step: the non-neighbours of the nodes that come and go, and n / 64 words.
pub(crate) struct LocalSearch<'a> {
    rows: &'a BitRows,
    random: KeyedRng,
    clique: Vec<usize>,
    is_in: Vec<bool>,
    /// Number of clique nodes that are no neighbour.
    missing: Vec<u32>,
    lists: [Vec<u32>; N_LISTS],
    /// Position in the list or, for members, in the clique.
    position: Vec<u32>,
    free_at: Vec<u64>,
    step: u64,
}

impl<'a> LocalSearch<'a> {
    pub(crate) fn new(rows: &'a BitRows, random: KeyedRng) -> LocalSearch<'a> {
        let n = rows.n_nodes();
        LocalSearch {
            rows,
            random,
            clique: Vec::new(),
            is_in: vec![false; n],
            missing: vec![0; n],
            lists: [(0..n as u32).collect(), Vec::new()],
            position: (0..n as u32).collect(),
            free_at: vec![0; n],
            step: 0,
        }
    }

    /// The largest clique that was met, no smaller than `start`; ends at `target` nodes too.
    pub(crate) fn run(
        mut self,
        start: &[usize],
        target: usize,
        max_steps: u64,
        stopwatch: &Stopwatch<'_>,
    ) -> Vec<usize> {
        let mut best = start.to_vec();
        for &v in start {
            self.add(v);
        }
        let (mut round_best, mut last_gain) = (self.clique.len(), 0);
        while self.step < max_steps && best.len() < target {
            if self.step.is_multiple_of(STEPS_PER_TICK) && stopwatch.is_late() {
                break;
            }
            self.step += 1;
            self.take_step();
            if self.clique.len() > round_best {
                (round_best, last_gain) = (self.clique.len(), self.step);
                if round_best > best.len() {
                    best.clone_from(&self.clique);
                }
            } else if self.step - last_gain > PATIENCE {
                self.restart();
                (round_best, last_gain) = (0, self.step);
            }
        }
        best
    }

    fn take_step(&mut self) {
        if let Some(v) = self.pick(0) {
            return self.add(v);
        }
        if let Some(v) = self.pick(1) {
            let rows = self.rows;
            let out = self.clique.iter().find(|&&u| !rows.is_adjacent(u, v));
            if let Some(&u) = out {
                let n_swaps = self.lists[1].len();
                self.drop(u);
                self.free_at[u] = self.step + TENURE + self.random.index(n_swaps.max(1)) as u64;
                self.add(v);
            }
            return;
        }
        if !self.clique.is_empty() {
            let u = self.clique[self.random.index(self.clique.len())];
            self.drop(u);
            self.free_at[u] = self.step + TENURE;
        }
    }

    /// A random node of this list that is not tabu.
    fn pick(&mut self, list: usize) -> Option<usize> {
        let nodes = &self.lists[list];
        let begin = self.random.index(nodes.len());
        let round = nodes[begin..].iter().chain(&nodes[..begin]);
        let mut free = round.filter(|&&v| self.free_at[v as usize] <= self.step);
        free.next().map(|&v| v as usize)
    }

    fn restart(&mut self) {
        while let Some(&u) = self.clique.last() {
            self.drop(u);
        }
        self.free_at.fill(0);
    }

    fn add(&mut self, v: usize) {
        self.leave_list(v);
        self.is_in[v] = true;
        self.position[v] = self.clique.len() as u32;
        self.clique.push(v);
        let rows = self.rows;
        rows.for_each_non_neighbor(v, |u| {
            self.leave_list(u);
            self.missing[u] += 1;
            self.enter_list(u);
        });
    }

    fn drop(&mut self, v: usize) {
        let at = self.position[v] as usize;
        self.clique.swap_remove(at);
        if let Some(&moved) = self.clique.get(at) {
            self.position[moved] = at as u32;
        }
        self.is_in[v] = false;
        self.enter_list(v);
        let rows = self.rows;
        rows.for_each_non_neighbor(v, |u| {
            self.leave_list(u);
            self.missing[u] -= 1;
            self.enter_list(u);
        });
    }

    fn leave_list(&mut self, u: usize) {
        let missing = self.missing[u] as usize;
        if self.is_in[u] || missing >= N_LISTS {
            return;
        }
        let (list, at) = (&mut self.lists[missing], self.position[u] as usize);
        list.swap_remove(at);
        if let Some(&moved) = list.get(at) {
            self.position[moved as usize] = at as u32;
        }
    }

    fn enter_list(&mut self, u: usize) {
        let missing = self.missing[u] as usize;
        if self.is_in[u] || missing >= N_LISTS {
            return;
        }
        self.position[u] = self.lists[missing].len() as u32;
        self.lists[missing].push(u as u32);
    }
}
