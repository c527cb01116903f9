//! Reductions between the branches of branch and reduce, on a [`BitGraph`].

use crate::budget::Stopwatch;
use crate::vertex_cover::bit_graph::{BitGraph, bits};

/// A set of the unconfined rule that grows further than this is taken as confining, which is always safe.
const LARGEST_SET: usize = 16;

/// Nodes that are looked at between two looks at the clock.
const LOOKS_PER_TICK: u64 = 64;

/// Words that the rules need beside the graph, kept between calls.
pub(crate) struct BitRules {
    set: Vec<u64>,
    closed: Vec<u64>,
    frontier: Vec<u64>,
    /// Nodes that wait for the rules beyond degree 2.
    waiting: Vec<u32>,
    is_waiting: Vec<bool>,
    n_looks: u64,
}

impl BitRules {
    pub(crate) fn new(graph: &BitGraph) -> BitRules {
        let words = vec![0; graph.n_words()];
        BitRules {
            set: words.clone(),
            closed: words.clone(),
            frontier: words,
            waiting: Vec::new(),
            is_waiting: vec![false; graph.n_nodes()],
            n_looks: 0,
        }
    }

    /// Applies the rules near what has changed until none of them applies, or the time is over: degree 0, 1 and 2 with folds,
    /// domination, unconfined. False where the time is over.
    ///
    /// # Source
    /// As [`crate::vertex_cover::Rules`].
    pub(crate) fn apply(&mut self, graph: &mut BitGraph, stopwatch: &Stopwatch<'_>) -> bool {
        loop {
            while let Some(v) = graph.pop_touched() {
                if graph.is_alive(v)
                    && !few_neighbors(graph, v)
                    && !std::mem::replace(&mut self.is_waiting[v as usize], true)
                {
                    self.waiting.push(v);
                }
            }
            let Some(v) = self.waiting.pop() else {
                return true;
            };
            self.n_looks += 1;
            if self.n_looks.is_multiple_of(LOOKS_PER_TICK) && stopwatch.is_late() {
                return false;
            }
            self.is_waiting[v as usize] = false;
            if graph.is_alive(v) {
                self.look_far(graph, v);
            }
        }
    }

    fn look_far(&mut self, graph: &mut BitGraph, v: u32) {
        if self.is_unconfined(graph, v) {
            graph.remove(v);
            return;
        }
        let is_dominating = |&u: &u32| {
            let outside = graph.living_row(v).zip(graph.row(u)).enumerate();
            outside.into_iter().all(|(i, (own, other))| {
                let itself = if u as usize / 64 == i {
                    1 << (u % 64)
                } else {
                    0
                };
                own & !other & !itself == 0
            })
        };
        let dominating = graph.neighbors(v).find(is_dominating);
        if let Some(u) = dominating {
            graph.remove(u);
            graph.touch(v);
        }
    }

    fn add(&mut self, graph: &BitGraph, v: u32) {
        let (place, bit) = (v as usize / 64, 1 << (v % 64));
        self.set[place] |= bit;
        for (i, word) in graph.living_row(v).enumerate() {
            self.frontier[i] |= word;
            self.closed[i] |= word;
        }
        self.closed[place] |= bit;
    }

    /// Whether a largest independent set can do without `v`; see [`crate::vertex_cover::Rules::unconfined`].
    fn is_unconfined(&mut self, graph: &BitGraph, v: u32) -> bool {
        for words in [&mut self.set, &mut self.closed, &mut self.frontier] {
            words.fill(0);
        }
        self.add(graph, v);
        for _ in 0..LARGEST_SET {
            let mut extension = None;
            for u in bits(self.frontier.iter().copied()) {
                let in_set = graph.row(u).iter().zip(&self.set);
                if in_set
                    .map(|(row, set)| (row & set).count_ones())
                    .sum::<u32>()
                    != 1
                {
                    continue;
                }
                let outside = graph.living_row(u).zip(&self.closed);
                let mut outside = bits(outside.map(|(row, closed)| row & !closed));
                match (outside.next(), outside.next()) {
                    (None, _) => return true,
                    (Some(w), None) if extension.is_none() => extension = Some(w),
                    _ => {}
                }
            }
            match extension {
                None => return false,
                Some(w) => self.add(graph, w),
            }
        }
        false
    }
}

/// Degree 0, 1 and 2; false where `v` has more neighbours.
fn few_neighbors(graph: &mut BitGraph, v: u32) -> bool {
    match graph.degree(v) {
        0 | 1 => graph.take(v),
        2 => {
            let mut neighbors = graph.neighbors(v);
            let (Some(a), Some(b)) = (neighbors.next(), neighbors.next()) else {
                return false;
            };
            drop(neighbors);
            match graph.has_edge(a, b) {
                true => graph.take(v),
                false => graph.fold(v, a, b),
            }
        }
        _ => return false,
    }
    true
}

/// The mirrors of `v`: nodes at distance 2 whose neighbours hold those of `v` but for a clique. Where no largest independent set has
/// `v`, none has a mirror.
///
/// # Source
/// Fomin, Grandoni and Kratsch (2009), "A measure & conquer approach for the analysis of exact algorithms": mirrors.
pub(crate) fn mirrors(graph: &BitGraph, v: u32) -> Vec<u32> {
    let mut second = vec![0u64; graph.n_words()];
    for u in graph.neighbors(v) {
        for (word, row) in second.iter_mut().zip(graph.living_row(u)) {
            *word |= row;
        }
    }
    for (word, row) in second.iter_mut().zip(graph.row(v)) {
        *word &= !row;
    }
    second[v as usize / 64] &= !(1 << (v % 64));
    let is_mirror = |&w: &u32| {
        let rest = graph
            .living_row(v)
            .zip(graph.row(w))
            .map(|(row, other)| row & !other);
        let rest: Vec<u32> = bits(rest).collect();
        let joined = |(i, &x): (usize, &u32)| rest[..i].iter().all(|&y| graph.has_edge(x, y));
        rest.iter().enumerate().all(joined)
    };
    bits(second.into_iter()).filter(is_mirror).collect()
}
