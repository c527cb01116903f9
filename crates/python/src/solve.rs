//! Graph problems: the best of policy, greedy algorithms, reductions and search, as `shardgraph solve` finds it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{IntoPyArray as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use shardgraph_classical::{Budget, Options, independent_set, vertex_cover};
use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::{
    MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Problem, check_answer, problem_by_name,
};
use shardgraph_solver::{
    BestOptions, Error, ErrorKind, SolveOptions, TrainedPolicy, cover_by_independent_set,
    solve as solve_cover, solve_best, solve_problem,
};

use crate::errors::{IntoPyErr, Wrong};
use crate::graph::NativeGraph;
use crate::job::{Done, Stop, detached, run};

/// Seconds for the policy and the search once the reductions are done, where no limit is given.
const SECONDS_AFTER_REDUCTIONS: f64 = 1.0;

/// How an answer is looked for; the keywords of the Python functions.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Request {
    method: String,
    time_limit: Option<f64>,
    steps: Option<u64>,
    seed: u64,
    threads: u32,
    model: Option<PathBuf>,
    /// Run every part, although an answer is proved to be the best.
    all_rows: bool,
}

/// An answer before it becomes a Python object.
struct Found {
    nodes: Vec<u32>,
    objective: f64,
    bound: Option<f64>,
    is_optimal: bool,
    found_by: String,
    /// Name, objective and seconds.
    stages: Vec<(String, f64, f64)>,
}

/// What can go wrong in a solve.
enum SolveError {
    Argument(Wrong),
    Solver(Error),
    Classical(shardgraph_classical::Error),
}

impl From<Error> for SolveError {
    fn from(error: Error) -> SolveError {
        SolveError::Solver(error)
    }
}

impl From<shardgraph_classical::Error> for SolveError {
    fn from(error: shardgraph_classical::Error) -> SolveError {
        SolveError::Classical(error)
    }
}

impl IntoPyErr for SolveError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            SolveError::Argument(wrong) => wrong.into_py(py),
            SolveError::Solver(error) => error.into_py(py),
            SolveError::Classical(error) => error.into_py(py),
        }
    }
}

/// Finds an answer; a dictionary of what `Solution` shows.
#[pyfunction]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    graph: &NativeGraph,
    problem: &str,
    weights: Option<PyReadonlyArray1<'py, u32>>,
    request: Request,
) -> PyResult<Bound<'py, PyDict>> {
    let problem = problem_by_name(problem).map_err(|error| Wrong(error.to_string()).into_py(py))?;
    let weights = weights
        .as_ref()
        .map(PyReadonlyArray1::as_slice)
        .transpose()?;
    let graph = &graph.graph;
    let done = run(py, |stop| match weights {
        Some(weights) => weighted(problem, graph, weights, &request, stop),
        None => unweighted(problem, graph, &request, stop),
    })?;
    let Done { value, interrupted } = done;
    let dict = PyDict::new(py);
    let nodes: Vec<i64> = value.nodes.into_iter().map(i64::from).collect();
    dict.set_item("nodes", nodes.into_pyarray(py))?;
    dict.set_item("objective", value.objective)?;
    dict.set_item("bound", value.bound)?;
    dict.set_item("optimal", value.is_optimal)?;
    dict.set_item("found_by", value.found_by)?;
    dict.set_item("stages", PyList::new(py, value.stages)?)?;
    dict.set_item("interrupted", interrupted)?;
    Ok(dict)
}

/// The objective of an answer after the problem's check.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    graph: &NativeGraph,
    problem: &str,
    nodes: PyReadonlyArray1<'_, i64>,
) -> PyResult<f64> {
    let problem = problem_by_name(problem).map_err(|error| Wrong(error.to_string()).into_py(py))?;
    let graph = &graph.graph;
    let id = |&node: &i64| u32::try_from(node).map_err(|_| Wrong::node(node, graph.n_nodes()));
    let ids: Result<Vec<u32>, Wrong> = nodes.as_slice()?.iter().map(id).collect();
    let ids = ids.map_err(|wrong| wrong.into_py(py))?;
    detached(py, || check_answer(problem, graph, &ids)).map(|objective| objective.value())
}

/// The budget of a request by this clock, until the flag is set.
fn budget<'a>(
    request: &Request,
    clock: &'a (dyn Fn() -> f64 + Sync),
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
) -> Budget<'a> {
    Budget {
        clock,
        time_limit: request.time_limit,
        is_cancelled,
    }
}

fn unweighted(
    problem: &'static Problem,
    graph: &Arc<Graph>,
    request: &Request,
    stop: &Stop,
) -> Result<Found, SolveError> {
    let bare = without_weights(problem, graph)?;
    let graph = bare.as_ref().unwrap_or(graph);
    let timer = Timer::wall();
    let clock = || timer.elapsed_s();
    let is_cancelled = || stop.load(Ordering::Relaxed);
    let budget = budget(request, &clock, &is_cancelled);
    let method = request.method.as_str();
    let has_policy = matches!(method, "best" | "policy");
    if !has_policy && !matches!(method, "greedy" | "search" | "exact") {
        return Err(SolveError::Argument(Wrong(format!(
            "method `{method}`: expected best, policy, greedy, search or exact"
        ))));
    }
    let policy = match (has_policy, &request.model) {
        (false, _) => None,
        (true, None) => Some(TrainedPolicy::shipped_for(problem)?),
        (true, Some(path)) => {
            let policy = TrainedPolicy::read(path)?;
            check_policy(&policy, problem)?;
            Some(policy)
        }
    };
    let has_own_limit = request.time_limit.is_some() || matches!(method, "exact" | "policy");
    let options = BestOptions {
        seed: request.seed,
        threads: request.threads,
        steps: request.steps,
        seconds_after_reductions: (!has_own_limit).then_some(SECONDS_AFTER_REDUCTIONS),
        has_greedy: matches!(method, "best" | "greedy"),
        has_search: matches!(method, "best" | "search" | "exact"),
        all_rows: request.all_rows,
    };
    let mut play = |seconds: Option<f64>| match &policy {
        Some(policy) => play_policy(problem, graph, policy, stop, &clock, seconds),
        None => Ok(None),
    };
    let run_policy: Option<&mut shardgraph_solver::RunPolicy<'_>> = match has_policy {
        true => Some(&mut play),
        false => None,
    };
    let best = solve_best(problem, graph, &options, &budget, run_policy)?;
    let stages = best.rows.iter();
    let stages = stages.map(|row| (row.name.to_string(), row.objective.value(), row.seconds));
    Ok(Found {
        stages: stages.collect(),
        objective: best.objective.value(),
        bound: best.bound,
        is_optimal: best.is_optimal,
        found_by: best.found_by.into_owned(),
        nodes: best.nodes,
    })
}

/// A copy without the edge weights that the problem does not read.
fn without_weights(problem: &Problem, graph: &Graph) -> Result<Option<Arc<Graph>>, SolveError> {
    if problem.reads_weights || graph.weights().is_none() {
        return Ok(None);
    }
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    match Graph::from_edges(graph.n_nodes(), &edges) {
        Ok(graph) => Ok(Some(Arc::new(graph))),
        Err(error) => Err(SolveError::Argument(Wrong(error.to_string()))),
    }
}

/// Whether a policy is for independent sets, which cover by what they leave.
fn is_of_sets(policy: &TrainedPolicy) -> bool {
    policy.config.problem == MAXIMUM_INDEPENDENT_SET.name
}

/// Refuses a policy for another problem; for covers one for independent sets serves too.
fn check_policy(policy: &TrainedPolicy, problem: &Problem) -> Result<(), Error> {
    let is_cover = problem.name == MINIMUM_VERTEX_COVER.name;
    match is_cover && is_of_sets(policy) {
        true => policy.check_problem(&MAXIMUM_INDEPENDENT_SET),
        false => policy.check_problem(problem),
    }
}

/// The policy's answer, nothing where it does not come to an end in its seconds.
fn play_policy(
    problem: &'static Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    stop: &Stop,
    clock: &(dyn Fn() -> f64 + Sync),
    seconds: Option<f64>,
) -> Result<Option<Vec<u32>>, Error> {
    let flag = Arc::new(AtomicBool::new(false));
    let options = SolveOptions {
        cancelled: Some(Arc::clone(&flag)),
        ..SolveOptions::default()
    };
    let begin = clock();
    let mut progress = |_: u32, _: usize| {
        let is_late = seconds.is_some_and(|seconds| clock() - begin > seconds);
        if is_late || stop.load(Ordering::Relaxed) {
            flag.store(true, Ordering::Relaxed);
        }
    };
    let nodes = if problem.name == MINIMUM_VERTEX_COVER.name {
        let adjacency = Adjacency::from_graph(Graph::clone(graph));
        let way = match is_of_sets(policy) {
            true => cover_by_independent_set,
            false => solve_cover,
        };
        way(&adjacency, policy, &options, &mut progress).map(|found| found.nodes)
    } else {
        solve_problem(problem, graph, policy, &options, &mut progress).map(|found| found.nodes)
    };
    match nodes {
        Ok(nodes) => Ok(Some(nodes)),
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Node weights: covers and independent sets as they are, cliques as independent sets of the complement.
fn weighted(
    problem: &'static Problem,
    graph: &Graph,
    weights: &[u32],
    request: &Request,
    stop: &Stop,
) -> Result<Found, SolveError> {
    let timer = Timer::wall();
    let clock = || timer.elapsed_s();
    let is_cancelled = || stop.load(Ordering::Relaxed);
    let mut budget = budget(request, &clock, &is_cancelled);
    if request.steps.is_none() && budget.time_limit.is_none() {
        budget.time_limit = Some(SECONDS_AFTER_REDUCTIONS);
    }
    let options = Options {
        seed: request.seed,
        threads: request.threads,
        steps: request.steps,
        starts: &[],
    };
    let found = match problem.name {
        "mvc" => vertex_cover::solve_weighted(graph, weights, &options, &budget)?,
        "mis" => independent_set::solve_weighted(graph, weights, &options, &budget)?,
        "clique" => {
            let complement = graph.complement();
            let complement =
                complement.map_err(|error| SolveError::Argument(Wrong(error.to_string())))?;
            independent_set::solve_weighted(&complement, weights, &options, &budget)?
        }
        _ => {
            return Err(SolveError::Argument(Wrong(format!(
                "{} has no solver for node weights: leave weights out",
                problem.title
            ))));
        }
    };
    check_answer(problem, graph, &found.nodes)?;
    let stages = found.stages.iter();
    let stages = stages.map(|stage| (stage.name.to_owned(), stage.objective, stage.seconds));
    Ok(Found {
        bound: found.bound,
        stages: stages.collect(),
        objective: found.objective,
        is_optimal: found.is_optimal,
        found_by: "weighted search".to_owned(),
        nodes: found.nodes,
    })
}
