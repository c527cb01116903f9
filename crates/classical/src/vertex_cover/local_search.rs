//! [`improve`]: local search that makes a cover smaller, within a budget.

use serde::{Deserialize, Serialize};
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::best_cover::BestCover;
use crate::vertex_cover::check::check_cover;
use crate::vertex_cover::search_state::SearchState;
use crate::vertex_cover::{Error, ErrorKind};

/// Steps between two looks at the clock; it is looked at for each smaller cover too.
const STEPS_PER_TICK: u64 = 256;
/// Nodes that are compared for each removal, where the options do not say.
const COMPARED: u32 = 2048;

/// How a cover is improved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchOptions {
    /// The one seed.
    pub seed: u64,
    /// Steps after which the search ends: one node leaves and one comes.
    pub steps: u64,
    /// Nodes that are compared for each removal, of which the cheapest in the cover leaves: a run of consecutive ids in larger graphs.
    pub compared: u32,
    /// The search ends with a cover of this size.
    pub target: u32,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            seed: 1,
            steps: u64::MAX,
            compared: COMPARED,
            target: 0,
        }
    }
}

/// What a local search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Improved {
    /// The smallest cover that was met, ascending: the one it started from, or a smaller one.
    pub cover: Vec<u32>,
    /// Steps that were made.
    pub steps: u64,
    /// The step after which the cover was found; 0 for what came before the first.
    pub best_step: u64,
    /// Seconds of the whole search, by the budget's clock.
    pub seconds: f64,
    /// Seconds until the cover was found.
    pub best_seconds: f64,
}

impl Improved {
    /// Steps a second; 0 on a clock that stands still.
    #[must_use]
    pub fn steps_per_s(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.steps as f64 / self.seconds,
            false => 0.0,
        }
    }
}

/// Makes a cover smaller by local search; ends after `options.steps`, at the budget's time_limit, or with a cover of the target's size.
///
/// Edges that stay uncovered get heavier, and lighter together once they are heavy; a node that left comes back only after a
/// neighbour came or went.
///
/// # Errors
/// `NoNode`, `Twice` or `Uncovered` for a start that is no cover, `Option` for options out of range or without an end, `TooLarge`,
/// `TooManyNeighbors`.
///
/// # Complexity
/// A step: the degrees of the two nodes that change places, and `compared` comparisons, several a cycle. A smaller cover: what has
/// changed since the last, and n comparisons. Memory: 20 B an entry (two for each edge), about 30 B a node.
///
/// # Determinism
/// The same cover for the same graph, start, seed and steps, on every machine, without a time_limit.
///
/// # Source
/// Cai, Su, Luo and Sattar (2013), NuMVC: weights, forgetting, configuration checking, the exchange in two stages; Cai (2015),
/// FastVC, for looking at a part of a large cover only; here a part that lies together in memory, so that it can be large.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{SearchOptions, improve};
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let everything: Vec<u32> = (0..10).collect();
/// let options = SearchOptions { steps: 100, ..SearchOptions::default() };
/// let found = improve(&petersen, &everything, &options, &Budget::unlimited())?;
/// assert_eq!(found.cover.len(), 6);
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn improve(
    graph: &Graph,
    start: &[u32],
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Improved, Error> {
    check_cover(graph, start)?;
    check(options, budget)?;
    let stopwatch = Stopwatch::begin(budget);
    let random = KeyedRng::new(options.seed, "vertex-cover-search", 0);
    let mut search = Search::new(graph, start, random)?;
    search.n_compared = options.compared as usize;
    search.run(options.steps, options.target, &stopwatch);
    Ok(Improved {
        cover: search.best.nodes(),
        steps: search.step,
        best_step: search.best_step,
        seconds: stopwatch.seconds(),
        best_seconds: search.best_seconds,
    })
}

fn check(options: &SearchOptions, budget: &Budget<'_>) -> Result<(), Error> {
    let wrong = |field, value, expected| {
        Err(ErrorKind::Option {
            field,
            value,
            expected,
        }
        .into())
    };
    match (options.compared, budget.time_limit) {
        (0, _) => wrong("compared", "0".to_owned(), "1 or more"),
        (_, Some(time_limit)) if time_limit.is_nan() => {
            wrong("time_limit", time_limit.to_string(), "seconds")
        }
        (_, None) if options.steps == u64::MAX => wrong(
            "steps",
            options.steps.to_string(),
            "fewer steps, or a time limit",
        ),
        _ => Ok(()),
    }
}

/// The sum of weights at which edges get lighter: a mean of n / 2.
fn heavy_weight(graph: &Graph) -> u64 {
    let half = u64::from(graph.n_nodes() / 2).max(1);
    graph.n_edges().saturating_mul(half)
}

/// One local search, which can be stopped and go on.
pub(crate) struct Search {
    state: SearchState,
    random: KeyedRng,
    n_compared: usize,
    heavy: u64,
    step: u64,
    /// The node that came last, which does not leave at once.
    entered: Option<u32>,
    best: BestCover,
    best_step: u64,
    best_seconds: f64,
}

impl Search {
    /// A search from a cover.
    pub(crate) fn new(graph: &Graph, start: &[u32], random: KeyedRng) -> Result<Search, Error> {
        let best = BestCover::new(graph.n_nodes(), start);
        let mut search = Search {
            state: SearchState::new(graph, &best.nodes())?,
            best,
            random,
            n_compared: COMPARED as usize,
            heavy: heavy_weight(graph),
            step: 0,
            entered: None,
            best_step: 0,
            best_seconds: 0.0,
        };
        search.strip();
        Ok(search)
    }

    /// The smallest cover so far.
    pub(crate) fn best(&self) -> &BestCover {
        &self.best
    }

    /// Steps so far.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Takes out what the start does not need.
    fn strip(&mut self) {
        for v in self.best.nodes() {
            if self.state.score(v) == 0 {
                self.remove(v);
            }
        }
    }

    /// Goes on up to a step, a cover of `target` nodes or the end of the time.
    pub(crate) fn run(&mut self, end_step: u64, target: u32, stopwatch: &Stopwatch<'_>) {
        loop {
            if self.state.is_cover() {
                let Some(u) = self.state.cheapest(None) else {
                    return self.keep(stopwatch);
                };
                if self.state.score(u) > 0 {
                    self.keep(stopwatch);
                    if self.best.len() <= target as usize || stopwatch.is_late() {
                        return;
                    }
                }
                self.remove(u);
                continue;
            }
            let is_tick = self.step.is_multiple_of(STEPS_PER_TICK);
            if self.step >= end_step || is_tick && stopwatch.is_late() {
                return;
            }
            self.step += 1;
            self.exchange();
        }
    }

    /// Remembers the cover at hand, if it is smaller than the last one.
    fn keep(&mut self, stopwatch: &Stopwatch<'_>) {
        let size = self.state.cover().len();
        if size < self.best.len() {
            self.best.keep(size, |v| self.state.holds(v));
            self.best_step = self.step;
            self.best_seconds = stopwatch.seconds();
        }
    }

    fn remove(&mut self, u: u32) {
        self.state.remove(u, self.step);
        self.best.changed(u);
    }

    /// One step: the cheapest node leaves, an end of an uncovered edge comes, and what is uncovered then gets heavier.
    fn exchange(&mut self) {
        let leaving = (self.state).cheapest_of(self.n_compared, self.entered, &mut self.random);
        if let Some(u) = leaving {
            self.remove(u);
        }
        if let Some(v) = self.state.entering(&mut self.random) {
            self.state.add(v, self.step);
            self.best.changed(v);
            self.entered = Some(v);
        }
        self.state.weigh();
        if self.state.total_weight() > self.heavy.max(2 * self.state.n_edges()) {
            self.state.forget();
        }
    }
}
