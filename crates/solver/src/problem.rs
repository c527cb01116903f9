//! What a graph problem has to say of itself so that policies for it are trained and applied: the one seam for a new problem.
//!
//! A [`Problem`] begins [`Episode`]s. The solver asks an episode which nodes may be picked, picks one, and reads what the
//! network sees of the state; at the end it has the problem check the answer. How to add one is worked out in the crate's
//! example `add_a_problem`.

mod clique;
mod cut;
mod dominating_set;
mod independent_set;
mod on_residual;
mod vertex_cover;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use shardgraph_graph::Graph;

use crate::{AdjacencyScale, Error};

pub use clique::MAXIMUM_CLIQUE;
pub use cut::MAXIMUM_CUT;
pub use dominating_set::MINIMUM_DOMINATING_SET;
pub use independent_set::MAXIMUM_INDEPENDENT_SET;
pub use on_residual::OnResidual;
pub use vertex_cover::MINIMUM_VERTEX_COVER;

/// Whether a larger or a smaller objective is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sense {
    /// Smaller is better.
    Minimise,
    /// Larger is better.
    Maximise,
}

/// What an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Objective {
    /// A number of nodes or edges.
    Count(u64),
    /// A sum of weights.
    Weight(f64),
}

impl Objective {
    /// The objective as a number, whichever it is.
    pub fn value(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Weight(weight) => weight,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Weight(weight) => weight.fmt(f),
        }
    }
}

/// A name, and what finds an answer on a graph without a policy.
pub type Baseline = (&'static str, fn(&Graph) -> Vec<u32>);

/// A problem whose answers are sets of nodes of one graph, found one node after the other.
pub trait Problem: fmt::Debug + Sync {
    /// The short name: of the flag `--problem`, and in policy files.
    fn name(&self) -> &'static str;

    /// The name in words.
    fn title(&self) -> &'static str;

    /// What the objective is: "set size".
    fn objective_name(&self) -> &'static str;

    /// Which objectives are better.
    fn sense(&self) -> Sense;

    /// Numbers that the network reads of a node beside its membership in the answer; part of a policy's shape. With none, and without
    /// weights, the layers' closed form holds, and episodes must keep it: nodes outside the residual graph have no degree.
    fn n_node_features(&self) -> usize {
        0
    }

    /// Whether edge weights mean something. A graph with weights is refused where they do not.
    fn reads_weights(&self) -> bool {
        false
    }

    /// An episode on a graph before its first pick.
    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode>;

    /// What an answer is worth, worked out from the graph and the answer alone; `marks` has an element for each node.
    ///
    /// # Errors
    /// Why it is no answer.
    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String>;

    /// Greedy algorithms, by name, to stand beside the policy. Their answers are checked as its are.
    fn baselines(&self) -> Vec<Baseline>;
}

/// A state of a problem, with what the network reads of it.
///
/// Every rank has the whole state and takes the same picks; reading is by node, because a rank scores its own nodes only.
pub trait Episode: Send + Sync {
    /// Puts a candidate in the answer and gives the reward for learning.
    ///
    /// # Errors
    /// When the node is no candidate.
    fn pick(&mut self, node: u32) -> Result<f32, Error>;

    /// Whether no node may be picked any more.
    fn is_done(&self) -> bool;

    /// Whether a node may be picked now.
    fn is_candidate(&self, node: u32) -> bool;

    /// The picks in order.
    fn picks(&self) -> &[u32];

    /// The answer so far: the picks, where a problem knows no other.
    fn answer(&self) -> Vec<u32> {
        self.picks().to_vec()
    }

    /// Whether a node is in the answer: the network's first feature of a node.
    fn in_answer(&self, node: u32) -> bool;

    /// Whether a node takes part in the sums over neighbours: whether it is in the residual graph.
    fn is_present(&self, node: u32) -> bool;

    /// The number of present neighbours of each node; 0 for a node that is not present.
    fn degrees(&self) -> &[u32];

    /// What the edges of the state weigh by a policy's rule; other weights, and features, are multiplied by it.
    fn scale(&self, rule: AdjacencyScale) -> f32 {
        rule.of(self.degrees().iter().copied().max().unwrap_or(0))
    }

    /// Appends the [`Problem::n_node_features`] further features of a node, in a state with this scale.
    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let _ = (node, scale, features);
    }

    /// A copy of this state.
    fn copy(&self) -> Box<dyn Episode>;
}

impl Clone for Box<dyn Episode> {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// The problems that the program knows by name; the first is the default.
pub static PROBLEMS: [&dyn Problem; 5] = [
    &MINIMUM_VERTEX_COVER,
    &MAXIMUM_INDEPENDENT_SET,
    &MAXIMUM_CLIQUE,
    &MAXIMUM_CUT,
    &MINIMUM_DOMINATING_SET,
];

/// The problem with this short name.
///
/// # Errors
/// When there is none; the message has the names.
///
/// ```
/// use shardgraph_solver::problem::{Sense, problem_by_name};
/// assert_eq!(problem_by_name("cut")?.sense(), Sense::Maximise);
/// assert!(problem_by_name("tsp").is_err());
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn problem_by_name(name: &str) -> Result<&'static dyn Problem, Error> {
    let found = PROBLEMS.iter().find(|problem| problem.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = PROBLEMS.iter().map(|problem| problem.name()).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        Error::input(format!(
            "expected {} or {last}; found {name}",
            others.join(", ")
        ))
    })
}

/// What an answer is worth, after its check.
///
/// # Errors
/// [`ErrorKind::Verification`](crate::ErrorKind::Verification) saying why it is no answer to the problem on this graph.
pub fn check_answer(
    problem: &dyn Problem,
    graph: &Graph,
    answer: &[u32],
) -> Result<Objective, Error> {
    let wrong =
        |why: String| crate::ErrorKind::Verification(format!("{}: {why}", problem.title())).into();
    let mut marks = vec![false; graph.n_nodes() as usize];
    for &node in answer {
        match marks.get_mut(node as usize) {
            None => return Err(wrong(format!("node {node} does not exist"))),
            Some(true) => return Err(wrong(format!("node {node} is in the answer twice"))),
            Some(mark) => *mark = true,
        }
    }
    problem.check(graph, &marks).map_err(wrong)
}

/// Refuses a graph that means less than it says.
pub(crate) fn check_graph(problem: &dyn Problem, graph: &Graph) -> Result<(), Error> {
    match graph.weights() {
        Some(_) if !problem.reads_weights() => Err(Error::input(format!(
            "{} reads no edge weights: give the graph without them",
            problem.title()
        ))),
        _ => Ok(()),
    }
}

fn size(marks: &[bool]) -> Objective {
    Objective::Count(marks.iter().filter(|&&mark| mark).count() as u64)
}
