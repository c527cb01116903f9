//! [`SearchState`]: a set of nodes, what it leaves uncovered, and what each node would gain or lose.

use std::ops::Range;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::vertex_cover::incidence::{COVERED, Incidence};
use crate::vertex_cover::{Error, ErrorKind};

/// A node that is not in the set.
const OUTSIDE: u32 = 1 << 31;
/// A node of whose neighbours one has come or gone since it went: configuration checking.
const MAY_ENTER: u32 = 1;
/// Scores are below this.
const SCORE_LIMIT: u32 = 1 << 30;
/// Words that are compared at a time.
const CHUNK: usize = 64;

/// What local search changes.
///
/// A node's word holds `OUTSIDE`, `MAY_ENTER` and, between them, its score: the weight of the edges that only it covers, or
/// would. So the words of nodes within are below those of nodes outside and ordered by what leaving costs, and a node that comes
/// or goes adds the same number to its neighbours within and outside.
pub(crate) struct SearchState {
    incidence: Incidence,
    words: Vec<u32>,
    /// The step in which a node last came or went.
    stamps: Vec<u64>,
    cover: Vec<u32>,
    /// The place of each node in `cover`.
    places: Vec<u32>,
    uncovered: Vec<u32>,
    /// The place of each edge in `uncovered`, or [`COVERED`].
    edge_places: Vec<u32>,
    total_weight: u64,
    weight_limit: u32,
    /// The least of each chunk of words, while the cheapest node is looked for.
    minima: Vec<i32>,
}

impl SearchState {
    /// Starts with a cover.
    pub(crate) fn new(graph: &Graph, cover: &[u32]) -> Result<SearchState, Error> {
        let incidence = Incidence::new(graph)?;
        let n = graph.n_nodes() as usize;
        let mut state = SearchState {
            words: vec![OUTSIDE | MAY_ENTER; n],
            stamps: vec![0; n],
            cover: cover.to_vec(),
            places: vec![0; n],
            uncovered: Vec::new(),
            edge_places: vec![COVERED; incidence.n_entries()],
            total_weight: graph.n_edges(),
            weight_limit: weight_limit(graph.max_degree())?,
            minima: Vec::new(),
            incidence,
        };
        for (place, &v) in (0u32..).zip(cover) {
            state.places[v as usize] = place;
            state.words[v as usize] = MAY_ENTER;
        }
        state.count_scores();
        Ok(state)
    }

    pub(crate) fn cover(&self) -> &[u32] {
        &self.cover
    }

    /// Whether `v` is in the set.
    pub(crate) fn holds(&self, v: u32) -> bool {
        self.words[v as usize] & OUTSIDE == 0
    }

    pub(crate) fn is_cover(&self) -> bool {
        self.uncovered.is_empty()
    }

    pub(crate) fn n_edges(&self) -> u64 {
        self.incidence.n_entries() as u64 / 2
    }

    pub(crate) fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// The weight of the edges that only `v` covers, or would.
    pub(crate) fn score(&self, v: u32) -> u32 {
        (self.words[v as usize] & !OUTSIDE) >> 1
    }

    pub(crate) fn remove(&mut self, u: u32, step: u64) {
        self.words[u as usize] = (self.words[u as usize] | OUTSIDE) & !MAY_ENTER;
        self.stamps[u as usize] = step;
        let place = self.places[u as usize];
        self.cover.swap_remove(place as usize);
        if let Some(&moved) = self.cover.get(place as usize) {
            self.places[moved as usize] = place;
        }
        let first = self.incidence.first_entry(u);
        for (entry, &(n, weight)) in (first..).zip(self.incidence.row(u)) {
            let word = &mut self.words[n as usize];
            let was_outside = *word & OUTSIDE != 0;
            *word = (*word + 2 * weight) | MAY_ENTER;
            if was_outside {
                let edge = self.incidence.edge(entry);
                self.edge_places[edge as usize] = self.uncovered.len() as u32;
                self.uncovered.push(edge);
            }
        }
    }

    pub(crate) fn add(&mut self, v: u32, step: u64) {
        self.words[v as usize] &= !OUTSIDE;
        self.stamps[v as usize] = step;
        self.places[v as usize] = self.cover.len() as u32;
        self.cover.push(v);
        let first = self.incidence.first_entry(v);
        for (entry, &(n, weight)) in (first..).zip(self.incidence.row(v)) {
            let word = &mut self.words[n as usize];
            *word = (*word - 2 * weight) | MAY_ENTER;
            if *word & OUTSIDE != 0 {
                let edge = self.incidence.edge(entry);
                let place = std::mem::replace(&mut self.edge_places[edge as usize], COVERED);
                self.uncovered.swap_remove(place as usize);
                if let Some(&moved) = self.uncovered.get(place as usize) {
                    self.edge_places[moved as usize] = place;
                }
            }
        }
    }

    /// The node of the cover that leaves at least cost, of equals the one that stayed longest; `except` stays.
    ///
    /// # Complexity
    /// O(n), several nodes a cycle.
    pub(crate) fn cheapest(&mut self, except: Option<u32>) -> Option<u32> {
        self.cheapest_in(&[0..self.words.len(), 0..0], except)
    }

    /// As [`SearchState::cheapest`] among so many nodes with consecutive ids, of which the first is drawn; among all where none of
    /// these is in the cover.
    pub(crate) fn cheapest_of(
        &mut self,
        n_compared: usize,
        except: Option<u32>,
        random: &mut KeyedRng,
    ) -> Option<u32> {
        let n = self.words.len();
        if n_compared >= n {
            return self.cheapest(except);
        }
        let first = random.below(n as u64) as usize;
        let end = first + n_compared;
        let ranges = [first..end.min(n), 0..end.saturating_sub(n)];
        let found = self.cheapest_in(&ranges, except);
        found.or_else(|| self.cheapest(except))
    }

    fn cheapest_in(&mut self, ranges: &[Range<usize>], except: Option<u32>) -> Option<u32> {
        let kept = except.map(|v| (v, self.words[v as usize]));
        if let Some((v, word)) = kept {
            self.words[v as usize] = word | OUTSIDE;
        }
        self.minima.clear();
        for range in ranges {
            let chunks = self.words[range.clone()].chunks(CHUNK);
            self.minima.extend(chunks.map(least_score));
        }
        let least = self.minima.iter().copied().min();
        let is_within = |least: &i32| (*least as u32) < OUTSIDE >> 1;
        let cheapest = least
            .filter(is_within)
            .and_then(|least| self.oldest_with(least, ranges));
        if let Some((v, word)) = kept {
            self.words[v as usize] = word;
        }
        cheapest
    }

    /// Of the nodes in these ranges with this score and in the cover, the one that stayed longest. `minima` has their chunks' least.
    fn oldest_with(&self, score: i32, ranges: &[Range<usize>]) -> Option<u32> {
        let chunks = ranges.iter().flat_map(|range| {
            range
                .clone()
                .step_by(CHUNK)
                .map(move |first| first..(first + CHUNK).min(range.end))
        });
        let mut oldest: Option<(u64, u32)> = None;
        for (chunk, _) in chunks
            .zip(&self.minima)
            .filter(|(_, least)| **least == score)
        {
            for v in chunk.filter(|&v| (self.words[v] >> 1) as i32 == score) {
                let candidate = (self.stamps[v], v as u32);
                oldest = Some(oldest.map_or(candidate, |oldest| oldest.min(candidate)));
            }
        }
        oldest.map(|(_, v)| v)
    }

    /// The end of a drawn uncovered edge that may enter and gains more, of equals the one that was outside longer.
    pub(crate) fn entering(&self, random: &mut KeyedRng) -> Option<u32> {
        if self.uncovered.is_empty() {
            return None;
        }
        let drawn = random.below_u32(self.uncovered.len() as u32);
        let (a, b) = self.incidence.ends(self.uncovered[drawn as usize]);
        let rank = |v: u32| {
            let word = self.words[v as usize];
            (
                word & MAY_ENTER,
                word >> 1,
                u64::MAX - self.stamps[v as usize],
            )
        };
        Some(if rank(a) >= rank(b) { a } else { b })
    }

    /// Makes every uncovered edge heavier by 1.
    pub(crate) fn weigh(&mut self) {
        for i in 0..self.uncovered.len() {
            let edge = self.uncovered[i];
            if self.incidence.weight(edge) < self.weight_limit {
                self.incidence.add_weight(edge);
                let (a, b) = self.incidence.ends(edge);
                self.words[a as usize] += 2;
                self.words[b as usize] += 2;
                self.total_weight += 1;
            }
        }
    }

    /// Makes every edge lighter; see [`Incidence::forget`].
    pub(crate) fn forget(&mut self) {
        self.total_weight = self.incidence.forget();
        self.count_scores();
    }

    /// Counts every score from scratch.
    fn count_scores(&mut self) {
        for v in 0..self.words.len() as u32 {
            let row = self.incidence.row(v);
            let only_its_own = row
                .iter()
                .filter(|(u, _)| self.words[*u as usize] & OUTSIDE != 0);
            let score: u32 = only_its_own.map(|(_, weight)| weight).sum();
            let word = &mut self.words[v as usize];
            *word = (*word & (OUTSIDE | MAY_ENTER)) | (2 * score);
        }
    }
}

/// The largest weight of an edge with which the score of a node of the largest degree stays below [`SCORE_LIMIT`].
fn weight_limit(max_degree: u32) -> Result<u32, Error> {
    match (SCORE_LIMIT - 1) / max_degree.max(1) {
        0 => Err(ErrorKind::TooManyNeighbors { degree: max_degree }.into()),
        limit => Ok(limit),
    }
}

/// The least score; below 2^31, so that numbers with a sign, which every machine compares in lanes, do.
fn least_score(words: &[u32]) -> i32 {
    let scores = words.iter().map(|word| (word >> 1) as i32);
    scores.fold(i32::MAX, i32::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vertex_cover::tests::random_graph;

    /// What increments have made of a state is what counting from scratch makes of it.
    fn assert_counted(state: &mut SearchState) {
        let words = state.words.clone();
        state.count_scores();
        assert_eq!(state.words, words);
        let outside = |v: u32| state.words[v as usize] & OUTSIDE != 0;
        let mut uncovered: Vec<u32> = (0..state.incidence.n_entries() as u32)
            .filter(|&entry| state.incidence.edge(entry) == entry)
            .filter(|&entry| {
                let (a, b) = state.incidence.ends(entry);
                outside(a) && outside(b)
            })
            .collect();
        let mut kept = state.uncovered.clone();
        kept.sort_unstable();
        uncovered.sort_unstable();
        assert_eq!(kept, uncovered);
        let weights =
            (0..state.incidence.n_entries() as u32).map(|entry| state.incidence.weight(entry));
        assert_eq!(weights.map(u64::from).sum::<u64>(), 2 * state.total_weight);
    }

    #[test]
    fn increments_agree_with_counting_from_scratch() {
        for seed in 0..20 {
            let graph = random_graph(40, 0.15, seed);
            let all: Vec<u32> = (0..40).collect();
            let mut state = SearchState::new(&graph, &all).unwrap();
            let mut random = KeyedRng::new(seed, "test", 0);
            for step in 1..200 {
                let v = random.below_u32(40);
                match state.words[v as usize] & OUTSIDE {
                    0 => state.remove(v, step),
                    _ => state.add(v, step),
                }
                state.weigh();
                if step % 50 == 0 {
                    state.forget();
                }
                assert_counted(&mut state);
            }
        }
    }

    #[test]
    fn the_cheapest_is_the_oldest_of_the_least() {
        let graph = random_graph(200, 0.1, 3);
        let all: Vec<u32> = (0..200).collect();
        let mut state = SearchState::new(&graph, &all).unwrap();
        let mut random = KeyedRng::new(1, "test", 0);
        for step in 1..300 {
            let v = random.below_u32(200);
            match state.words[v as usize] & OUTSIDE {
                0 => state.remove(v, step),
                _ => state.add(v, step),
            }
            let except = Some(random.below_u32(200));
            let nodes = state.cover.iter().copied().filter(|v| Some(*v) != except);
            let naive = nodes.min_by_key(|&v| (state.score(v), state.stamps[v as usize], v));
            assert_eq!(state.cheapest(except), naive);
            // As many as there are see every node; fewer see a part of them, or all where that holds none.
            assert_eq!(state.cheapest_of(200, except, &mut random), naive);
            let some = state.cheapest_of(1, except, &mut random);
            let Some(some) = some else {
                assert_eq!(naive, None);
                continue;
            };
            assert!(state.cover.contains(&some) && Some(some) != except);
        }
    }

    #[test]
    fn weights_stop_before_scores_overflow() {
        let graph = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let mut state = SearchState::new(&graph, &[1]).unwrap();
        state.weight_limit = 3;
        state.remove(1, 1);
        for _ in 0..10 {
            state.weigh();
        }
        assert_eq!((state.score(1), state.total_weight), (6, 6));
        assert_counted(&mut state);
    }

    /// A score at its largest leaves the bits above it alone, also where the degree divides the limit.
    #[test]
    fn scores_at_the_limit_are_below_it() {
        for degree in [1, 2, 3, 4, 8] {
            let spokes: Vec<(u32, u32)> = (1..=degree).map(|v| (0, v)).collect();
            let star = Graph::from_edges(degree + 1, &spokes).unwrap();
            let mut state = SearchState::new(&star, &[0]).unwrap();
            let limit = state.weight_limit;
            state.incidence.set_weights(limit - 1);
            state.total_weight = u64::from(degree * (limit - 1));
            state.count_scores();
            state.remove(0, 1);
            for _ in 0..3 {
                state.weigh();
            }
            let score = degree * limit;
            assert_eq!((state.score(0), score < SCORE_LIMIT), (score, true));
            assert_counted(&mut state);
            state.add(0, 2);
            assert!(state.is_cover());
            assert_eq!(state.score(0), score);
            assert_counted(&mut state);
        }
        assert_eq!(weight_limit(0).unwrap(), SCORE_LIMIT - 1);
        assert_eq!(weight_limit(SCORE_LIMIT - 1).unwrap(), 1);
        let message = weight_limit(SCORE_LIMIT).unwrap_err().to_string();
        assert!(message.contains("1073741824 neighbours"), "{message}");
    }
}
