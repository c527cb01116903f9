//! [`LocalSearch`]: weighted local search for set cover.

use shardgraph_random::KeyedRng;

use crate::budget::Stopwatch;
use crate::dominating_set::rows::SetCover;

/// Covers of up to so many members are compared as a whole for each removal.
const COMPARED: usize = 1024;
/// Members that are compared in larger covers: a run of the list.
const COMPARED_OF_MANY: usize = 128;
/// Steps between two looks at the clock.
const STEPS_PER_TICK: u64 = 64;

/// One search: two sets leave and others come, guided by weights of elements that stay uncovered.
///
/// # Source
/// Gao, Weise and Li (2015), "RWLS: an efficient local search algorithm for unicost set covering problem": weights of rows, timestamps,
/// configuration checking and a tabu rule. Here a set's configuration changes when its score does.
///
/// # Complexity
/// A step: the sets of the elements that lose or find their only cover, and `COMPARED` comparisons.
pub(crate) struct LocalSearch<'a> {
    instance: &'a SetCover,
    random: KeyedRng,
    members: Vec<u32>,
    /// Position of a member, `u32::MAX` for other sets.
    position: Vec<u32>,
    /// Weight that a member alone covers, or that another set would newly cover.
    scores: Vec<i64>,
    changed_at: Vec<u64>,
    may_enter: Vec<bool>,
    weights: Vec<i64>,
    n_covers: Vec<u32>,
    /// Sum of the ids of the members that cover an element: the id itself where there is one.
    cover_sums: Vec<u64>,
    uncovered: Vec<u32>,
    uncovered_at: Vec<u32>,
    step: u64,
    /// The set that came last, which does not leave at once.
    entered: u32,
}

impl<'a> LocalSearch<'a> {
    pub(crate) fn new(instance: &'a SetCover, start: &[u32], random: KeyedRng) -> LocalSearch<'a> {
        let (n, m) = (instance.n_sets(), instance.n_elements());
        let mut search = LocalSearch {
            instance,
            random,
            members: Vec::new(),
            position: vec![u32::MAX; n],
            scores: (0..n).map(|s| instance.sets.row(s).len() as i64).collect(),
            changed_at: vec![0; n],
            may_enter: vec![true; n],
            weights: vec![1; m],
            n_covers: vec![0; m],
            cover_sums: vec![0; m],
            uncovered: (0..m as u32).collect(),
            uncovered_at: (0..m as u32).collect(),
            step: 0,
            entered: u32::MAX,
        };
        for &s in start {
            search.add(s);
        }
        search
    }

    /// The smallest cover that was met: the start, or a smaller one; ends at `target` sets too.
    pub(crate) fn run(
        mut self,
        target: usize,
        max_steps: u64,
        stopwatch: &Stopwatch<'_>,
    ) -> Vec<u32> {
        let mut best = self.members.clone();
        loop {
            while self.uncovered.is_empty() {
                if self.members.len() < best.len() {
                    best.clone_from(&self.members);
                }
                if best.len() <= target {
                    return best;
                }
                let Some(s) = self.cheapest(u32::MAX) else {
                    return best;
                };
                self.remove(s);
            }
            let is_tick = self.step.is_multiple_of(STEPS_PER_TICK);
            if self.step == max_steps || is_tick && stopwatch.is_late() {
                return best;
            }
            self.step += 1;
            self.exchange(best.len());
        }
    }

    fn exchange(&mut self, best: usize) {
        if let Some(s) = self.cheapest(self.entered) {
            self.remove(s);
        }
        while !self.uncovered.is_empty() && self.members.len() + 1 < best {
            let e = self.uncovered[self.random.index(self.uncovered.len())];
            let sets = self.instance.elements.row(e as usize).iter().copied();
            let key = |s: u32| {
                (
                    self.scores[s as usize],
                    std::cmp::Reverse(self.changed_at[s as usize]),
                )
            };
            let free = sets.clone().filter(|&s| self.may_enter[s as usize]);
            let entering = free
                .max_by_key(|&s| key(s))
                .or(sets.max_by_key(|&s| key(s)));
            let Some(s) = entering else { return };
            self.add(s);
            self.entered = s;
            for i in 0..self.uncovered.len() {
                let e = self.uncovered[i] as usize;
                self.weights[e] += 1;
                for &t in self.instance.elements.row(e) {
                    self.scores[t as usize] += 1;
                }
            }
        }
    }

    /// The member of least score but `not`, the longest unchanged of equal ones.
    fn cheapest(&mut self, not: u32) -> Option<u32> {
        let n = self.members.len();
        let (begin, compared) = match n > COMPARED {
            true => (self.random.index(n), COMPARED_OF_MANY),
            false => (0, n),
        };
        let (front, back) = self.members.split_at(begin);
        let run = back.iter().chain(front).take(compared).copied();
        run.filter(|&s| s != not)
            .min_by_key(|&s| (self.scores[s as usize], self.changed_at[s as usize]))
    }

    fn add(&mut self, s: u32) {
        let instance = self.instance;
        self.position[s as usize] = self.members.len() as u32;
        self.members.push(s);
        self.changed_at[s as usize] = self.step;
        self.scores[s as usize] = 0;
        for &e in instance.sets.row(s as usize) {
            let e = e as usize;
            let weight = self.weights[e];
            match self.n_covers[e] {
                0 => {
                    self.scores[s as usize] += weight;
                    for &t in instance.elements.row(e).iter().filter(|t| **t != s) {
                        self.scores[t as usize] -= weight;
                        self.may_enter[t as usize] = true;
                    }
                    self.leave_uncovered(e);
                }
                1 => self.scores[self.cover_sums[e] as usize] -= weight,
                _ => {}
            }
            self.n_covers[e] += 1;
            self.cover_sums[e] += u64::from(s);
        }
    }

    fn remove(&mut self, s: u32) {
        let instance = self.instance;
        let at = self.position[s as usize] as usize;
        self.members.swap_remove(at);
        if let Some(&moved) = self.members.get(at) {
            self.position[moved as usize] = at as u32;
        }
        self.position[s as usize] = u32::MAX;
        self.changed_at[s as usize] = self.step;
        self.may_enter[s as usize] = false;
        self.scores[s as usize] = 0;
        for &e in instance.sets.row(s as usize) {
            let e = e as usize;
            let weight = self.weights[e];
            self.n_covers[e] -= 1;
            self.cover_sums[e] -= u64::from(s);
            match self.n_covers[e] {
                0 => {
                    self.scores[s as usize] += weight;
                    for &t in instance.elements.row(e).iter().filter(|t| **t != s) {
                        self.scores[t as usize] += weight;
                        self.may_enter[t as usize] = true;
                    }
                    self.uncovered_at[e] = self.uncovered.len() as u32;
                    self.uncovered.push(e as u32);
                }
                1 => self.scores[self.cover_sums[e] as usize] += weight,
                _ => {}
            }
        }
    }

    fn leave_uncovered(&mut self, e: usize) {
        let at = self.uncovered_at[e] as usize;
        self.uncovered.swap_remove(at);
        if let Some(&moved) = self.uncovered.get(at) {
            self.uncovered_at[moved as usize] = at as u32;
        }
    }
}
