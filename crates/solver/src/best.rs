//! The best answer to a problem that a policy, greedy algorithms, exact reductions and local search find within a time.

use std::borrow::Cow;

use shardgraph_classical::Budget;
use shardgraph_graph::Graph;

use crate::Error;
use crate::problem::{Baseline, Objective, Problem, Sense, check_answer};

mod classical;
#[cfg(test)]
mod tests;

pub use classical::has_classical_search;

/// How [`solve_best`] searches.
#[derive(Debug, Clone)]
pub struct BestOptions {
    /// The one seed, of the local search.
    pub seed: u64,
    /// Independent local searches at the same time.
    pub threads: u32,
    /// Steps of local search, in place of a time: the answer is then the same on every machine.
    pub steps: Option<u64>,
    /// Seconds for the policy and the search once the reductions and the greedy algorithms are done, within the budget; of no meaning
    /// with `steps`.
    pub seconds_after_reductions: Option<f64>,
    /// Run the greedy algorithms.
    pub has_greedy: bool,
    /// Run reductions, exact search and local search.
    pub has_search: bool,
    /// Run everything, although the optimum is proved, for a comparison of all rows.
    pub all_rows: bool,
}

impl Default for BestOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            threads: 1,
            steps: None,
            seconds_after_reductions: Some(1.0),
            has_greedy: true,
            has_search: true,
            all_rows: false,
        }
    }
}

/// A policy as [`solve_best`] runs it: within some seconds, where there is a limit; nothing where it did not come to an end.
pub type RunPolicy<'a> = dyn FnMut(Option<f64>) -> Result<Option<Vec<u32>>, Error> + 'a;

/// An answer beside others: what found it, and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `policy`, the name of a greedy algorithm, or a stage of the search such as `reductions`.
    pub name: Cow<'static, str>,
    /// What the answer is worth, by the problem's check; of a stage of the search, the best answer at its end.
    pub objective: Objective,
    /// Seconds of this part alone.
    pub seconds: f64,
}

/// The best of several checked answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The answer's nodes, ascending.
    pub nodes: Vec<u32>,
    /// What they are worth, by the problem's check.
    pub objective: Objective,
    /// No answer is better than this: a lower bound of what is minimised, an upper bound of what is maximised.
    pub bound: Option<f64>,
    /// Whether the answer is proved to be an optimum.
    pub is_optimal: bool,
    /// The name of the row that has this answer first.
    pub found_by: Cow<'static, str>,
    /// What ran, in this order.
    pub rows: Vec<Row>,
    /// Why the policy has no row, where it was wanted and did not end.
    pub policy_skipped: Option<&'static str>,
    /// Seconds in all, by the budget's clock.
    pub seconds: f64,
}

impl Best {
    /// The distance to the bound as a part of the objective; 0 for a proved optimum.
    pub fn gap(&self) -> Option<f64> {
        let objective = self.objective.value();
        match self.bound {
            _ if self.is_optimal => Some(0.0),
            Some(bound) if objective != 0.0 => Some((objective - bound).abs() / objective.abs()),
            _ => None,
        }
    }
}

/// Finds the best answer of several methods, each checked by the problem's own check.
///
/// Reductions and the first bounds come first: where they prove an optimum, nothing else runs. Greedy algorithms follow, then the policy
/// for at most a third of the time that is left, then local and exact search from the best answer so far. The answer is never worse than
/// any row. Weights that the problem does not read are left alone.
///
/// # Errors
/// When no method is left, an answer fails its check, or the policy cannot be run;
/// a policy that finds nothing is no error.
/// # Complexity
/// The time of the budget, of which a reduction or one step of the policy may take more than is left.
/// # Determinism
/// One seed, one answer with `steps` and without limits of time.
///
/// ```
/// use shardgraph_classical::Budget;
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::problem::MINIMUM_VERTEX_COVER;
/// use shardgraph_solver::{BestOptions, solve_best};
///
/// let karate = builtin::by_name("karate").unwrap();
/// let options = BestOptions { steps: Some(1000), ..BestOptions::default() };
/// let best = solve_best(&MINIMUM_VERTEX_COVER, &karate, &options, &Budget::unlimited(), None)?;
/// assert_eq!((best.nodes.len(), best.is_optimal), (14, true));
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_best(
    problem: &Problem,
    graph: &Graph,
    options: &BestOptions,
    budget: &Budget<'_>,
    mut policy: Option<&mut RunPolicy<'_>>,
) -> Result<Best, Error> {
    let mut portfolio = Portfolio {
        problem,
        graph,
        classical: classical::Search::new(problem, graph),
        options,
        budget: *budget,
        begin: (budget.clock)(),
        limit: budget.time_limit,
        best: None,
        rows: Vec::new(),
    };
    let mut skipped = None;
    let is_greedy_first = options.has_greedy && portfolio.is_hurried();
    if is_greedy_first {
        portfolio.greedy_within_half()?;
    }
    if portfolio.goes_on() {
        portfolio.search(Some(0))?;
    }
    if options.has_greedy && !is_greedy_first && portfolio.goes_on() {
        portfolio.greedy()?;
    }
    if let (Some(seconds), None) = (options.seconds_after_reductions, options.steps) {
        let end = portfolio.seconds() + seconds;
        portfolio.limit = Some(portfolio.limit.map_or(end, |limit| limit.min(end)));
    }
    if let Some(policy) = &mut policy
        && portfolio.goes_on()
    {
        skipped = portfolio.policy(policy)?;
    }
    if portfolio.goes_on() && !portfolio.is_proved() {
        portfolio.search(options.steps)?;
    }
    portfolio.finish(skipped)
}

/// The answers so far.
struct Portfolio<'a> {
    problem: &'a Problem,
    graph: &'a Graph,
    /// Absent where the problem has none.
    classical: Option<classical::Search<'a>>,
    options: &'a BestOptions,
    budget: Budget<'a>,
    /// By the budget's clock.
    begin: f64,
    /// Seconds for all, from the beginning.
    limit: Option<f64>,
    best: Option<Found>,
    rows: Vec<Row>,
}

/// A checked answer.
struct Found {
    nodes: Vec<u32>,
    objective: Objective,
    bound: Option<f64>,
    is_optimal: bool,
    found_by: Cow<'static, str>,
}

/// What a policy reads and cuts before its first step, in seconds an entry of the graph: it is not begun where that alone takes its time.
const SECONDS_AN_ENTRY: f64 = 50e-9;
/// Cost of the slowest greedy algorithm, in seconds an entry. It comes before the reductions, which could leave it no time, where it
/// takes more than these seconds and this share of the limit.
const GREEDY_SECONDS_AN_ENTRY: f64 = 200e-9;
/// The same for each further update of one that reads entries more than a few times.
const GREEDY_SECONDS_AN_UPDATE: f64 = 3e-9;
const NOTICEABLE_SECONDS: f64 = 0.02;
const HURRIED_SHARE: f64 = 0.1;

impl Portfolio<'_> {
    fn seconds(&self) -> f64 {
        (self.budget.clock)() - self.begin
    }

    /// The seconds that are left; absent without a limit.
    fn rest(&self) -> Option<f64> {
        self.limit.map(|limit| (limit - self.seconds()).max(0.0))
    }

    fn is_proved(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.is_optimal)
    }

    /// Whether there is something to find and time for it. Without any answer, greedy algorithms have the time they need.
    fn goes_on(&self) -> bool {
        let is_over = self.rest().is_some_and(|rest| rest <= 0.0) || (self.budget.is_cancelled)();
        match self.best {
            None => true,
            Some(_) => !is_over && (self.options.all_rows || !self.is_proved()),
        }
    }

    /// Reductions, exact and local search; with no steps the first of these alone.
    fn search(&mut self, steps: Option<u64>) -> Result<(), Error> {
        if !self.options.has_search {
            return Ok(());
        }
        let budget = Budget {
            time_limit: self.rest(),
            ..self.budget
        };
        let starts: Vec<&[u32]> = self.best.iter().map(|best| &best.nodes[..]).collect();
        let options = shardgraph_classical::Options {
            seed: self.options.seed,
            threads: self.options.threads,
            steps,
            starts: &starts,
        };
        let Some(search) = &mut self.classical else {
            return Ok(());
        };
        let found = search.run(&options, &budget)?;
        let objective = check_answer(self.problem, self.graph, &found.nodes)?;
        let first = found.stages.iter().find(|stage| {
            let reached = objective_like(objective, stage.objective);
            !is_better(self.problem.sense, objective, reached)
        });
        let found_by = first.map_or("search", |stage| stage.name);
        for stage in &found.stages {
            self.rows.push(Row {
                name: stage.name.into(),
                objective: objective_like(objective, stage.objective),
                seconds: stage.seconds,
            });
        }
        if found.stages.is_empty() {
            self.rows.push(Row {
                name: found_by.into(),
                objective,
                seconds: 0.0,
            });
        }
        self.offer(Found {
            nodes: found.nodes,
            objective,
            bound: found.bound,
            is_optimal: found.is_optimal,
            found_by: found_by.into(),
        });
        Ok(())
    }

    /// Nodes and entries of the graph.
    fn n_entries(&self) -> f64 {
        f64::from(self.graph.n_nodes()) + 2.0 * self.graph.n_edges() as f64
    }

    /// True if one greedy algorithm takes a noticeable part of the limit.
    fn is_hurried(&self) -> bool {
        let greedy = self.n_entries() * GREEDY_SECONDS_AN_ENTRY;
        let is_long = |limit| greedy > NOTICEABLE_SECONDS.max(HURRIED_SHARE * limit);
        self.limit.is_some_and(is_long)
    }

    fn greedy(&mut self) -> Result<(), Error> {
        let after = self.options.seconds_after_reductions;
        for baseline in self.problem.baselines {
            if self.best.is_some() && !self.goes_on() {
                break;
            }
            // One that takes longer than what follows has no place in a quick answer.
            let seconds = match (self.rest(), self.options.steps) {
                (Some(rest), _) => Some(rest),
                (None, Some(_)) => None,
                (None, None) => after,
            };
            if self.has_time(baseline, seconds) {
                self.run_baseline(baseline)?;
            }
        }
        Ok(())
    }

    /// Greedy algorithms from the last of the table on, until half of the limit is over.
    fn greedy_within_half(&mut self) -> Result<(), Error> {
        for baseline in self.problem.baselines.iter().rev() {
            let is_half_over = self.limit.is_some_and(|limit| self.seconds() > limit / 2.0);
            if self.best.is_some() && (is_half_over || !self.goes_on()) {
                break;
            }
            let half = self.limit.map(|limit| limit / 2.0 - self.seconds());
            if self.has_time(baseline, half) {
                self.run_baseline(baseline)?;
            }
        }
        Ok(())
    }

    /// False for a greedy algorithm that updates much more than there are entries, and takes longer than these seconds by that; it runs
    /// where nothing else has an answer, and where all rows are asked for.
    fn has_time(&self, baseline: &Baseline, seconds: Option<f64>) -> bool {
        let n_further = (baseline.n_updates)(self.graph) as f64 - self.n_entries();
        let is_short = |seconds| n_further * GREEDY_SECONDS_AN_UPDATE <= seconds;
        self.best.is_none() || self.options.all_rows || seconds.is_none_or(is_short)
    }

    fn run_baseline(&mut self, baseline: &Baseline) -> Result<(), Error> {
        let begin = self.seconds();
        let nodes = (baseline.find)(self.graph);
        let name = Cow::Owned(format!("greedy {}", baseline.name));
        self.take(nodes, name, begin)
    }

    /// Why it has no answer, if it has none.
    fn policy(&mut self, policy: &mut RunPolicy<'_>) -> Result<Option<&'static str>, Error> {
        let share = self.rest().map(|rest| rest / 3.0);
        let seconds = self.n_entries() * SECONDS_AN_ENTRY;
        if share.is_some_and(|share| seconds > share) && self.best.is_some() {
            return Ok(Some("the graph is too large for the policy in this time"));
        }
        let begin = self.seconds();
        match policy(share.filter(|_| self.best.is_some()))? {
            None => Ok(Some("the policy did not end in its third of the time")),
            Some(nodes) => {
                self.take(nodes, "policy".into(), begin)?;
                Ok(None)
            }
        }
    }

    /// A row for an answer that has no bound of its own.
    fn take(&mut self, nodes: Vec<u32>, name: Cow<'static, str>, begin: f64) -> Result<(), Error> {
        let objective = check_answer(self.problem, self.graph, &nodes)?;
        self.rows.push(Row {
            name: name.clone(),
            objective,
            seconds: self.seconds() - begin,
        });
        self.offer(Found {
            nodes,
            objective,
            bound: None,
            is_optimal: false,
            found_by: name,
        });
        Ok(())
    }

    /// Keeps the better answer and the tighter bound.
    fn offer(&mut self, mut new: Found) {
        let sense = self.problem.sense;
        if let Some(old) = self.best.take() {
            let bound = match (old.bound, new.bound) {
                (Some(a), Some(b)) if sense == Sense::Minimise => Some(a.max(b)),
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            let is_optimal = old.is_optimal || new.is_optimal;
            if !is_better(sense, new.objective, old.objective) {
                new = old;
            }
            (new.bound, new.is_optimal) = (bound, is_optimal);
        }
        new.bound = new
            .bound
            .map(|bound| reachable(sense, new.objective, bound));
        let is_met = |bound: f64| bound.total_cmp(&new.objective.value()).is_eq();
        new.is_optimal |= new.bound.is_some_and(is_met);
        if new.is_optimal {
            new.bound = Some(new.objective.value());
        }
        self.best = Some(new);
    }

    fn finish(self, policy_skipped: Option<&'static str>) -> Result<Best, Error> {
        let seconds = self.seconds();
        let mut best = self.best.ok_or_else(|| {
            Error::input("no method is left that could find an answer: leave --method out")
        })?;
        best.nodes.sort_unstable();
        Ok(Best {
            nodes: best.nodes,
            objective: best.objective,
            bound: best.bound,
            is_optimal: best.is_optimal,
            found_by: best.found_by,
            rows: self.rows,
            policy_skipped,
            seconds,
        })
    }
}

/// A number as an objective of the same kind.
fn objective_like(kind: Objective, value: f64) -> Objective {
    match kind {
        Objective::Count(_) => Objective::Count(value.round().max(0.0) as u64),
        Objective::Weight(_) => Objective::Weight(value),
    }
}

/// A bound, on a count rounded to the next number that a count can reach.
fn reachable(sense: Sense, kind: Objective, bound: f64) -> f64 {
    /// Bounds are sums of floats.
    const ROUNDING: f64 = 1e-6;
    match (kind, sense) {
        (Objective::Weight(_), _) => bound,
        (_, Sense::Minimise) => (bound - ROUNDING).ceil().max(0.0),
        (_, Sense::Maximise) => (bound + ROUNDING).floor(),
    }
}

pub(crate) fn is_better(sense: Sense, one: Objective, other: Objective) -> bool {
    match sense {
        Sense::Minimise => one.value() < other.value(),
        Sense::Maximise => one.value() > other.value(),
    }
}
