//! Solving any problem on P ranks: every rank has the state and scores its own nodes; all take the same picks.

use std::sync::Arc;

use shardgraph_collectives::Comm;
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;

use crate::problem::Problem;
use crate::solver::Inputs;
use crate::{Error, Solution, SolveOptions, TrainedPolicy};

/// Solves any [`Problem`] on a graph with a policy for it, and checks the answer.
///
/// `progress` is called on rank 0 after each step with the number of candidates left and that of picks.
///
/// # Errors
/// When the policy is for another problem, the graph has weights that the problem does not read, the options cannot be right, a rank
/// is lost, a score is no number, or the answer fails its check.
/// # Complexity
/// In closed form, where the state [follows the residual graph](crate::problem::ProblemState::follows_residual) (sets and cliques), a step costs the
/// neighbours of what its picks removed, and their neighbours; one after which the largest degree is another costs all present nodes. Else each step makes
/// the rows of the own nodes anew, in time of their edges, and evaluates the model on them. Of three or more layers of the default kinds one rank
/// computes the rows within L steps of what changed, where the mean degree is at most the root of the number of nodes. Every rank has the state: some bytes a node.
/// # Determinism
/// The same answer for every number of ranks.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::problem::{MAXIMUM_CLIQUE, Objective};
/// use shardgraph_solver::{AdjacencyScale, PolicyConfig, SolveOptions, TrainedPolicy, solve_problem};
///
/// let karate = std::sync::Arc::new(builtin::by_name("karate").unwrap());
/// let config = PolicyConfig::of_problem(&MAXIMUM_CLIQUE, 8, 2, AdjacencyScale::LargestDegree);
/// let untrained = TrainedPolicy::random(config, 1, 0.1)?;
/// let options = SolveOptions::default();
/// let answer = solve_problem(&MAXIMUM_CLIQUE, &karate, &untrained, &options, &mut |_, _| ())?;
/// assert_eq!(answer.objective, Objective::Count(answer.nodes.len() as u64));
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_problem(
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    solve_problem_as_rank(&mut Comm::solo(), problem, graph, policy, options, progress)
}

/// As [`solve_problem`], for several graphs at once: each step evaluates the policy on the states of all graphs in one batch and exchanges
/// the picks of all together.
///
/// `progress` is told the sums over the graphs. The answers come in the order of the graphs; each has the seconds of all.
///
/// # Errors
/// As [`solve_problem`]; one graph without an answer leaves none to the others.
/// # Complexity
/// As many steps as the longest episode has. Every rank has the states of all graphs.
/// # Determinism
/// Each answer is that of [`solve_problem`] on its graph alone.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::problem::MAXIMUM_INDEPENDENT_SET;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve_problems};
///
/// let graphs = ["karate", "petersen"].map(|name| std::sync::Arc::new(builtin::by_name(name).unwrap()));
/// let policy = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET)?;
/// let options = SolveOptions::default();
/// let answers = solve_problems(&MAXIMUM_INDEPENDENT_SET, &graphs, &policy, &options, &mut |_, _| ())?;
/// assert_eq!(answers.len(), 2);
/// assert_eq!(answers[1].nodes.len(), 4);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_problems(
    problem: &Problem,
    graphs: &[Arc<Graph>],
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Vec<Solution>, Error> {
    let alone = &mut Comm::solo();
    solve_problems_as_rank(alone, problem, graphs, policy, options, progress)
}

/// As [`solve_problem`], as one rank of a world of processes: all call it with the same arguments, and all get the same answer.
///
/// Several processes are the ranks; one alone has those of `options`, as threads.
///
/// # Errors
/// As [`solve_problem`]. [`ErrorKind::Input`](crate::ErrorKind::Input) on all ranks where one has another problem, graph, policy or options than rank 0.
pub fn solve_problem_as_rank(
    comm: &mut Comm,
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    let graphs = std::slice::from_ref(graph);
    only(solve_problems_as_rank(
        comm, problem, graphs, policy, options, progress,
    )?)
}

/// As [`solve_problems`], as one rank of a world of processes.
///
/// # Errors
/// As [`solve_problem_as_rank`].
pub fn solve_problems_as_rank(
    comm: &mut Comm,
    problem: &Problem,
    graphs: &[Arc<Graph>],
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Vec<Solution>, Error> {
    let lists = graphs.iter().map(Arc::clone).map(Adjacency::Csr);
    let inputs = Inputs {
        problem,
        graphs: &lists.collect::<Vec<_>>(),
        policy,
        options,
        is_incremental: false,
    };
    inputs.solve(comm, progress)
}

/// The answer of the one graph.
pub(crate) fn only(answers: Vec<Solution>) -> Result<Solution, Error> {
    let none = || Error::internal("a graph without an answer");
    answers.into_iter().next().ok_or_else(none)
}
