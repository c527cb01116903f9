//! The rows of one graph: the policy's, and those of everything that needs none. Every answer is checked.

use std::sync::Arc;

use serde::Serialize;
use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{
    Rules, SearchOptions, edge_greedy, improve, reduce_and_peel,
};
use shardgraph_device::Timer;
use shardgraph_environments::baselines::{degree_one_greedy, max_degree_greedy};
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::{
    Baseline, MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Objective, Problem, check_answer,
};
use shardgraph_solver::{
    ReducedSolution, Solution, SolveOptions, TrainedPolicy, cover_by_independent_set, solve,
    solve_problem, solve_reduced,
};

use super::reference::Reference;

/// Whether a row needs the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Policy,
    Baseline,
}

/// One way to an answer.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) objective: Objective,
    /// The objective over the optimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// How much of the way from greedy to the optimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gap_closed: Option<f64>,
    seconds: f64,
}

impl Row {
    pub(super) fn new(name: &'static str, kind: Kind, objective: Objective, seconds: f64) -> Row {
        Row {
            name,
            kind,
            objective,
            ratio: None,
            gap_closed: None,
            seconds,
        }
    }
}

/// The budget of the local search.
pub(super) struct Search {
    pub(super) seconds: Option<f64>,
    pub(super) steps: Option<u64>,
    pub(super) seed: u64,
}

/// What is the same for all graphs.
pub(super) struct Job {
    pub(super) problem: &'static Problem,
    pub(super) policy: TrainedPolicy,
    pub(super) options: SolveOptions,
    pub(super) search: Option<Search>,
    /// Seconds for the exact reference, where the user says any.
    pub(super) exact: Option<f64>,
}

/// The rows of one graph.
pub(super) struct Made {
    pub(super) rows: Vec<Row>,
    pub(super) reference: Reference,
}

/// A graph, and its rows so far.
struct Work<'j> {
    job: &'j Job,
    graph: Arc<Graph>,
    rows: Vec<Row>,
}

impl Job {
    /// All rows of a graph, and its optimum where that can be found.
    pub(super) fn rows(&self, graph: Graph) -> anyhow::Result<Made> {
        let mut work = Work {
            job: self,
            graph: Arc::new(graph),
            rows: Vec::new(),
        };
        match self.problem.name == MINIMUM_VERTEX_COVER.name {
            true => work.covers()?,
            false => work.others()?,
        }
        Ok(Made {
            reference: Reference::of(self.problem, &work.graph, self.exact)?,
            rows: work.rows,
        })
    }

    /// The policy's cover; of a policy for independent sets what its set leaves.
    fn cover(&self, adjacency: &Adjacency) -> Result<Solution, shardgraph_solver::Error> {
        let way = match self.policy.config.problem == MAXIMUM_INDEPENDENT_SET.name {
            true => cover_by_independent_set,
            false => solve,
        };
        way(adjacency, &self.policy, &self.options, &mut |_, _| ())
    }
}

impl Work<'_> {
    /// Checks an answer and makes it a row.
    fn add(
        &mut self,
        name: &'static str,
        kind: Kind,
        answer: &[u32],
        seconds: f64,
    ) -> anyhow::Result<()> {
        let objective = check_answer(self.job.problem, &self.graph, answer)?;
        self.rows.push(Row::new(name, kind, objective, seconds));
        Ok(())
    }

    /// The policy's answer to any other problem, and the problem's own baselines.
    fn others(&mut self) -> anyhow::Result<()> {
        let job = self.job;
        let found = solve_problem(
            job.problem,
            &self.graph,
            &job.policy,
            &job.options,
            &mut |_, _| (),
        )?;
        self.add("policy", Kind::Policy, &found.nodes, found.seconds)?;
        self.problem_baselines()
    }

    fn problem_baselines(&mut self) -> anyhow::Result<()> {
        for Baseline { name, find, .. } in self.job.problem.baselines {
            let timer = Timer::wall();
            let answer = find(&self.graph);
            self.add(name, Kind::Baseline, &answer, timer.elapsed_s())?;
        }
        Ok(())
    }

    fn covers(&mut self) -> anyhow::Result<()> {
        let job = self.job;
        let alone = job.cover(&Adjacency::from_graph((*self.graph).clone()))?;
        self.add("policy", Kind::Policy, &alone.nodes, alone.seconds)?;
        let reduced = solve_reduced(&self.graph, &mut |part| job.cover(part))?;
        self.add(
            "policy_reduce",
            Kind::Policy,
            &reduced.cover,
            reduced.seconds,
        )?;
        if let Some(search) = &job.search {
            let seconds = reduced.seconds;
            let start = &reduced.kernel_cover;
            let name = "policy_local_search";
            self.polish(search, &reduced, name, Kind::Policy, start, seconds)?;
        }
        self.problem_baselines()?;
        self.with_rules(&reduced)?;
        if let Some(search) = &job.search {
            let kernel = reduced.reduction.kernel();
            type FirstCover = fn(&Graph) -> Vec<u32>;
            let starts: [(&str, FirstCover); 2] = [
                ("polish_from_greedy", max_degree_greedy),
                ("polish_from_empty", edge_greedy),
            ];
            for (name, find) in starts {
                let timer = Timer::wall();
                let start = find(kernel);
                let seconds = reduced.reduction_seconds + timer.elapsed_s();
                self.polish(search, &reduced, name, Kind::Baseline, &start, seconds)?;
            }
        }
        Ok(())
    }

    /// Greedy with one rule, and with all of those that the policy had.
    fn with_rules(&mut self, reduced: &ReducedSolution) -> anyhow::Result<()> {
        let timer = Timer::wall();
        let cover = degree_one_greedy(&self.graph);
        let seconds = timer.elapsed_s();
        self.add("degree_one_greedy", Kind::Baseline, &cover, seconds)?;
        let timer = Timer::wall();
        let kernel = reduced.reduction.kernel();
        let peeled = reduce_and_peel(kernel, &Rules::all(), &Budget::unlimited());
        let cover = reduced.reduction.lift(&peeled)?;
        let seconds = reduced.reduction_seconds + timer.elapsed_s();
        self.add("reduce_greedy", Kind::Baseline, &cover, seconds)
    }

    /// Local search on the kernel, from a cover of it.
    fn polish(
        &mut self,
        search: &Search,
        reduced: &ReducedSolution,
        name: &'static str,
        kind: Kind,
        start: &[u32],
        seconds_before: f64,
    ) -> anyhow::Result<()> {
        let timer = Timer::wall();
        let clock = || timer.elapsed_s();
        let watch = Budget {
            clock: &clock,
            time_limit: search.seconds,
            ..Budget::unlimited()
        };
        let default = SearchOptions::default();
        let options = SearchOptions {
            seed: search.seed,
            steps: search.steps.unwrap_or(default.steps),
            ..default
        };
        let found = improve(reduced.reduction.kernel(), start, &options, &watch)?;
        let cover = reduced.reduction.lift(&found.cover)?;
        self.add(name, kind, &cover, seconds_before + found.seconds)
    }
}
