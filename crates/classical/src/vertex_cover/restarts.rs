//! [`RestartingSearch`]: a long local search beside short ones from other covers.

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::budget::Stopwatch;
use crate::searches::best_of;
use crate::solution::Options;
use crate::vertex_cover::Error;
use crate::vertex_cover::local_search::Search;

/// Steps of a short search for each node.
const STEPS_PER_NODE: u64 = 20;
/// The long search has this many times the steps of the short ones.
const LONG_SHARE: u64 = 3;
/// Larger graphs have the long search alone: a start from nothing does not catch up with it.
const MOST_NODES: u32 = 10_000;

/// A local search that keeps its edge weights, and restarts beside it. A restart that finds a smaller cover takes the place of the
/// long search.
///
/// The optima of dense graphs lie far apart: edge weights do not lead from one to another, and a new start does.
///
/// # Source
/// [`crate::vertex_cover::improve`] for each search; Andrade, Resende and Werneck (2012), "Fast local search for the maximum
/// independent set problem", for starts around a node that is forced into the independent set.
pub(crate) struct RestartingSearch<'g> {
    graph: &'g Graph,
    long: Search,
    seed: u64,
    index: u64,
    n_restarts: u64,
    /// Steps of all searches.
    steps: u64,
}

/// The work of one stage of local search.
pub(crate) struct SearchJob<'a> {
    pub(crate) graph: &'a Graph,
    /// A cover.
    pub(crate) start: &'a [u32],
    /// Steps of each search.
    pub(crate) steps: u64,
    /// A cover of this size ends the search.
    pub(crate) target: u32,
}

/// The best cover of `options.threads` independent searches, the first of equal ones.
///
/// # Errors
/// `Option` for no thread at all, `Thread` where the system starts no more of them; else as [`RestartingSearch::new`].
pub(crate) fn search_in_parallel(
    job: &SearchJob<'_>,
    options: &Options<'_>,
    stopwatch: &Stopwatch<'_>,
) -> Result<Vec<u32>, Error> {
    let search = |index: u64| -> Result<Vec<u32>, Error> {
        let mut search = RestartingSearch::new(job.graph, job.start, options.seed, index)?;
        search.run(job.steps, job.target, stopwatch)?;
        Ok(search.best())
    };
    best_of(options.threads, search, |cover| cover.len())
}

impl<'g> RestartingSearch<'g> {
    /// The search with this index from a cover; each index has its own random numbers.
    pub(crate) fn new(
        graph: &'g Graph,
        start: &[u32],
        seed: u64,
        index: u64,
    ) -> Result<RestartingSearch<'g>, Error> {
        let random = KeyedRng::new(seed, "vertex-cover-search", index);
        Ok(RestartingSearch {
            graph,
            long: Search::new(graph, start, random)?,
            seed,
            index,
            n_restarts: 0,
            steps: 0,
        })
    }

    /// Size of the smallest cover so far.
    pub(crate) fn best_len(&self) -> usize {
        self.long.best().len()
    }

    /// The smallest cover so far, ascending.
    pub(crate) fn best(&self) -> Vec<u32> {
        self.long.best().nodes()
    }

    /// Goes on by so many steps, up to a cover of `target` nodes or the end of the time.
    pub(crate) fn run(
        &mut self,
        steps: u64,
        target: u32,
        stopwatch: &Stopwatch<'_>,
    ) -> Result<(), Error> {
        let end = self.steps.saturating_add(steps);
        let round = STEPS_PER_NODE * u64::from(self.graph.n_nodes().max(50));
        while self.steps < end && self.best_len() > target as usize && !stopwatch.is_late() {
            let is_alone = self.graph.n_nodes() > MOST_NODES;
            let long_steps = match is_alone {
                true => end - self.steps,
                false => (LONG_SHARE * round).min(end - self.steps),
            };
            self.run_long(long_steps, target, stopwatch);
            let short_steps = round.min(end - self.steps);
            if is_alone || short_steps == 0 || self.best_len() <= target as usize {
                continue;
            }
            self.restart(short_steps, target, stopwatch)?;
        }
        Ok(())
    }

    fn run_long(&mut self, steps: u64, target: u32, stopwatch: &Stopwatch<'_>) {
        self.long.run(self.long.step() + steps, target, stopwatch);
        self.steps += steps;
    }

    fn restart(&mut self, steps: u64, target: u32, stopwatch: &Stopwatch<'_>) -> Result<(), Error> {
        self.n_restarts += 1;
        let key = (self.index << 40) + self.n_restarts;
        let mut random = KeyedRng::new(self.seed, "vertex-cover-restart", key);
        let start = random_cover(self.graph, &mut random);
        let mut short = Search::new(self.graph, &start, random)?;
        let n_before = self.best_len();
        short.run(steps, target, stopwatch);
        self.steps += steps;
        if short.best().len() < n_before {
            self.long = short;
        }
        Ok(())
    }
}

/// A minimal cover without a drawn node: of drawn nodes in turn all that are not joined to the drawn ones before stay out.
fn random_cover(graph: &Graph, random: &mut KeyedRng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..graph.n_nodes()).collect();
    random.shuffle(&mut order);
    let mut in_cover = vec![false; order.len()];
    for &v in &order {
        if !in_cover[v as usize] {
            for &u in graph.neighbors(v) {
                in_cover[u as usize] = true;
            }
        }
    }
    crate::vertex_cover::check::listed(&in_cover)
}
