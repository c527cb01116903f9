//! Solving one graph on P ranks: cut, run the episode, check the answer.

use std::collections::BTreeMap;
use std::sync::Mutex;

use shardgraph_collectives::Comm;
use shardgraph_device::DeviceKind;
use shardgraph_graph::Graph;
use shardgraph_job::World;
use shardgraph_layers::Path;
use shardgraph_shard::{Adjacency, Storage};

use crate::error::ErrorKind;
use crate::exchange::Exchange;
use crate::kept_scores::is_sparse;
use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Objective};
use crate::solve_problem::only;
use crate::solver::{Inputs, Solver};
use crate::{Error, SolveOptions, TrainedPolicy};

/// A checked solution.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Its nodes, in the order in which they were picked.
    pub nodes: Vec<u32>,
    /// What it is worth, by the problem's check.
    pub objective: Objective,
    /// Policy evaluations.
    pub n_steps: u64,
    /// The path of the embedding that was used.
    pub path: Path,
    /// The form of the adjacency that was used.
    pub storage: Storage,
    /// What ranks exchanged, for all graphs that were solved together; absent with the closed form, which sums nothing over neighbours, and where one rank
    /// keeps the rows of its layers.
    pub exchange: Option<Exchange>,
    /// Seconds for cutting, the episode and the check; of all graphs that were solved together.
    pub seconds: f64,
}

impl Solution {
    /// The path and the storage in one word, for reports: for example `collapsed+bits`.
    pub fn path_name(&self) -> String {
        let storage = match self.storage {
            Storage::Csr => "csr",
            Storage::Bits => "bits",
        };
        format!("{}+{storage}", self.path)
    }
}

/// Finds a vertex cover with a policy and checks it.
///
/// `progress` is called on rank 0 after each step with the number of candidates left and the cover's size.
///
/// # Errors
/// When the options cannot be right, a score overflows, a rank is lost, or the cover fails its check.
/// # Complexity
/// On the collapsed path, for each removed node `v` with residual neighbours `N(v)`: lists read the lists of `N(v)`,
/// bits read `|N(v)| N / 8` B; every evaluation costs a few operations a candidate. Other paths compute `L - 1` or `L`
/// sparse products of width K for each evaluation.
/// # Determinism
/// The same cover for every number of ranks (where floats are added over ranks, as `Communication::ColumnAllReduce` and
/// `Communication::Grid` do, but for ties within rounding), and in the closed form on every device. The model's operations round in
/// another order on another device, which can decide ties.
/// # Source
/// OpenGraphGym-MG, algorithm 4 and section 4.5.1.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve};
///
/// let karate = Adjacency::from_graph(builtin::by_name("karate").unwrap());
/// let policy = TrainedPolicy::shipped()?;
/// let answer = solve(&karate, &policy, &SolveOptions::default(), &mut |_, _| ())?;
/// assert_eq!(answer.nodes.len(), 14);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    solve_as_rank(&mut Comm::solo(), adjacency, policy, options, progress)
}

/// Whether rows of three or more layers are kept from pick to pick, with the problem's own state: on one rank of the
/// host, without a wish that this way does not know.
fn keeps_rows(adjacency: &Adjacency, policy: &TrainedPolicy, options: &SolveOptions) -> bool {
    let is_usual = options.n_ranks == 1
        && options.communication.is_none()
        && !options.keep_isolated
        && !options.reduce_inside
        && options.path.is_none_or(|path| path == Path::Collapsed)
        && options.device.kind() == DeviceKind::Host;
    let has_layers = policy.config.n_layers > 2 && policy.config.has_default_layers();
    let is_fit = |graph: &Graph| graph.weights().is_none() && is_sparse(graph);
    is_usual && has_layers && matches!(adjacency, Adjacency::Csr(graph) if is_fit(graph))
}

/// As [`solve`], as one rank of a world of processes: all call it with the same arguments, and all get the same answer.
///
/// Several processes are the ranks; one alone has those of `options`, as threads. Each process has the whole graph and works on its part of it. `progress` is
/// called on rank 0.
///
/// # Errors
/// As [`solve`]. [`ErrorKind::Input`] on all ranks where one has another graph, policy or options than rank 0.
/// # Complexity
/// As [`solve`], and one pass over the graph for the comparison.
///
/// ```
/// use shardgraph_collectives::tcp;
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve_as_rank};
///
/// let karate = Adjacency::from_graph(builtin::by_name("karate").unwrap());
/// let policy = TrainedPolicy::shipped()?;
/// let sizes = tcp::run(2, |mut comm| {
///     let options = SolveOptions::default();
///     solve_as_rank(&mut comm, &karate, &policy, &options, &mut |_, _| ()).map(|answer| answer.nodes.len())
/// });
/// for size in sizes {
///     assert_eq!(size.unwrap()?, 14);
/// }
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_as_rank(
    comm: &mut Comm,
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    let inputs = Inputs {
        problem: &MINIMUM_VERTEX_COVER,
        graphs: std::slice::from_ref(adjacency),
        policy,
        options,
        is_incremental: comm.size() > 1 || !keeps_rows(adjacency, policy, options),
    };
    only(inputs.solve(comm, progress)?)
}

/// The scores of all nodes of a graph before any pick, computed from scratch: one policy evaluation.
///
/// The policy is for covers, or for independent sets. Without the state's own part of the scores, which is the same for all nodes. Nodes without an edge get NaN: they are
/// no candidates.
///
/// # Errors
/// As [`solve`].
/// # Determinism
/// The same bits for every number of ranks on one path, where `Communication::is_exact`.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, score_nodes};
///
/// let star = Adjacency::from_graph(shardgraph_graph::Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?);
/// let scores = score_nodes(&star, &TrainedPolicy::shipped()?, &SolveOptions::default())?;
/// assert!(scores.values[0] > scores.values[1]);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn score_nodes(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> Result<Scores, Error> {
    // Before any pick the states of both problems are alike.
    let problem = match policy.config.problem == MAXIMUM_INDEPENDENT_SET.name {
        true => &MAXIMUM_INDEPENDENT_SET,
        false => &MINIMUM_VERTEX_COVER,
    };
    let solver = Solver::new(&Inputs {
        problem,
        graphs: std::slice::from_ref(adjacency),
        policy,
        options,
        is_incremental: true,
    })?;
    if solver.is_closed_form_on_device() {
        return Err(Error::input(
            "scores in closed form are computed on the host: use --device host, or --path free-first-layer",
        ));
    }
    solver.check_memory(1)?;
    let parts = Mutex::new(BTreeMap::new());
    World::Threads(options.n_ranks).run(options.deadline, |ranks| -> Result<(), Error> {
        let part = solver.score_rank(ranks.comm)?;
        if let Ok(mut parts) = parts.lock() {
            parts.insert(ranks.rank(), part);
        }
        Ok(())
    })?;
    let parts = parts.into_inner().unwrap_or_default();
    let seconds = parts.values().map(|part| part.seconds).fold(0.0, f64::max);
    let exchange = parts.get(&0).and_then(|part| part.exchange);
    let path = parts.get(&0).map_or(Path::General, |part| part.path);
    let values: Vec<Vec<f32>> = parts.into_values().map(|part| part.values).collect();
    Ok(Scores {
        values: values.concat(),
        path,
        storage: adjacency.storage(),
        exchange,
        seconds,
    })
}

/// One score a node.
#[derive(Debug, Clone)]
pub struct Scores {
    /// The scores in node order; NaN for nodes without an edge.
    pub values: Vec<f32>,
    /// The path of the embedding that was used.
    pub path: Path,
    /// The form of the adjacency that was used.
    pub storage: Storage,
    /// What ranks exchanged; absent with the closed form, which sums nothing over neighbours.
    pub exchange: Option<Exchange>,
    /// Seconds of the slowest rank, from uncounted degrees to scores; cutting the graph and taking memory for the evaluation come before.
    pub seconds: f64,
}

/// Checks that the cover has no node twice and touches every edge.
///
/// # Errors
/// [`ErrorKind::Verification`] naming the node or the edge.
pub fn check_cover(adjacency: &Adjacency, cover: &[u32]) -> Result<(), Error> {
    let wrong = |text: String| Err(ErrorKind::Verification(text).into());
    let mut in_cover = vec![false; adjacency.n_nodes() as usize];
    for &node in cover {
        match in_cover.get_mut(node as usize) {
            None => return wrong(format!("node {node} does not exist")),
            Some(true) => return wrong(format!("node {node} is in the cover twice")),
            Some(slot) => *slot = true,
        }
    }
    match adjacency.uncovered_edge(&in_cover) {
        None => Ok(()),
        Some((u, v)) => wrong(format!("the edge between nodes {u} and {v} is not covered")),
    }
}
