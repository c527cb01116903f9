//! Graph problems, as the policies of this crate are trained for them and applied.
//!
//! A [`Problem`] begins [`Episode`]s. The solver asks an episode which nodes may be picked, picks one, and reads what
//! the network sees of the state; at the end it has the problem check the answer. How to add one is worked out in the
//! crate's example `add_a_problem`.

pub use shardgraph_environments::baselines::{linear_updates, squared_degrees};
pub use shardgraph_environments::{
    Baseline, Episode, MAXIMUM_CLIQUE, MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET,
    MINIMUM_DOMINATING_SET, MINIMUM_VERTEX_COVER, Objective, PROBLEMS, Problem, ProblemState,
    ResidualGraph, Sense, problem_by_name,
};
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;

use crate::Error;

/// The objective of an answer, after its check.
///
/// # Errors
/// [`ErrorKind::Verification`](crate::ErrorKind::Verification) with the reason why it is no answer to the problem on
/// this graph.
pub fn check_answer(problem: &Problem, graph: &Graph, answer: &[u32]) -> Result<Objective, Error> {
    problem
        .evaluate(graph, answer)
        .map_err(|why| crate::ErrorKind::Verification(format!("{}: {why}", problem.title)).into())
}

/// Refuses a graph with weights that the problem does not read.
pub(crate) fn check_graph(problem: &Problem, adjacency: &Adjacency) -> Result<(), Error> {
    match adjacency.weighted() {
        Some(_) if !problem.reads_weights => Err(Error::input(format!(
            "{} reads no edge weights: give the graph without them",
            problem.title
        ))),
        _ => Ok(()),
    }
}
