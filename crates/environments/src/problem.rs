//! The table entry of a graph problem: its names, its rules, its check and its baselines.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use shardgraph_graph::Graph;

use crate::episode::Episode;

/// The sense of an objective: whether a larger or a smaller one is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sense {
    /// Smaller is better.
    Minimise,
    /// Larger is better.
    Maximise,
}

/// The objective of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Objective {
    /// A number of nodes or edges.
    Count(u64),
    /// A sum of weights.
    Weight(f64),
}

impl Objective {
    /// The number of marked nodes.
    pub fn size(marks: &[bool]) -> Objective {
        Objective::Count(marks.iter().filter(|&&mark| mark).count() as u64)
    }

    /// The objective as a number.
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

/// A greedy algorithm that a learned policy is measured against.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    /// The name of its row in reports.
    pub name: &'static str,
    /// The algorithm: the nodes of an answer.
    pub find: fn(&Graph) -> Vec<u32>,
    /// The elementary updates that it makes, up to logarithms: [`linear_updates`](crate::baselines::linear_updates), or more. A search
    /// with little time leaves it out by this number.
    pub n_updates: fn(&Graph) -> u64,
}

/// A problem whose answers are sets of nodes of one graph, found one node after the other.
///
/// ```
/// use std::sync::Arc;
/// use shardgraph_environments::{MAXIMUM_CLIQUE, Objective};
/// use shardgraph_graph::Graph;
///
/// let kite = Arc::new(Graph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (2, 3)])?);
/// let mut episode = MAXIMUM_CLIQUE.begin(kite.clone());
/// for node in [2, 0, 1] {
///     episode.pick(node)?;
/// }
/// assert!(episode.is_done());
/// assert_eq!(MAXIMUM_CLIQUE.evaluate(&kite, episode.picks()), Ok(Objective::Count(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Problem {
    /// The short name: of the flag `--problem`, and in policy files.
    pub name: &'static str,
    /// The name in words.
    pub title: &'static str,
    /// The name of the objective: "set size".
    pub objective_name: &'static str,
    /// The sense of the objective.
    pub sense: Sense,
    /// Numbers that a network reads of a node beside its membership in the answer; part of a
    /// policy's shape. With none, and without weights, policies take their closed form: then the
    /// degrees of present nodes must be all that they read.
    pub n_node_features: usize,
    /// True if edge weights mean something. A graph with weights is refused where they do not.
    pub reads_weights: bool,
    /// An episode before its first pick: usually `|graph| Episode::<State>::new(graph).erased()`.
    pub begin: fn(Arc<Graph>) -> Episode,
    /// The objective, worked out from the graph and a mark for each node alone, or why they are no
    /// answer.
    pub check: fn(&Graph, &[bool]) -> Result<Objective, String>,
    /// Greedy algorithms to stand beside a policy. Their answers are checked as its are.
    pub baselines: &'static [Baseline],
}

impl Problem {
    /// An episode on a graph before its first pick.
    pub fn begin(&self, graph: Arc<Graph>) -> Episode {
        (self.begin)(graph)
    }

    /// The objective of an answer, after its check.
    ///
    /// # Errors
    /// The reason why the nodes are no answer.
    pub fn evaluate(&self, graph: &Graph, answer: &[u32]) -> Result<Objective, String> {
        let mut marks = vec![false; graph.n_nodes() as usize];
        for &node in answer {
            match marks.get_mut(node as usize) {
                None => return Err(format!("node {node} does not exist")),
                Some(true) => return Err(format!("node {node} is in the answer twice")),
                Some(mark) => *mark = true,
            }
        }
        (self.check)(graph, &marks)
    }
}
