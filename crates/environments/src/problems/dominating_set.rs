//! Minimum dominating set, one node a step: the fewest nodes such that every other node has one of
//! them as neighbour.
//!
//! Whether a node is dominated, and how many it would dominate, are features of it, so policies
//! take their general path, on the graph of the nodes that would dominate something new.

use std::sync::{Arc, OnceLock};

use shardgraph_graph::Graph;

use crate::episode::{Episode, ProblemState};
use crate::problem::{Baseline, Objective, Problem, Sense};
use crate::residual::ResidualGraph;
use crate::space::{GraphValue, Space};
use crate::{baselines, verify};

/// The fewest nodes such that every other node has one of them as neighbour.
pub static MINIMUM_DOMINATING_SET: Problem = Problem {
    name: "dominating-set",
    title: "minimum dominating set",
    objective_name: "set size",
    sense: Sense::Minimise,
    n_node_features: 2,
    reads_weights: false,
    begin: |graph| Episode::<MinimumDominatingSet>::new(graph).erased(),
    check: |graph, marks| match verify::undominated_node(graph, marks) {
        None => Ok(Objective::size(marks)),
        Some(v) => Err(format!("node {v} is not dominated")),
    },
    baselines: &[Baseline {
        name: "most_new",
        find: baselines::most_new_dominating_set,
        n_updates: baselines::linear_updates,
    }],
};

/// Each pick puts one node in the set. A node dominates itself and its neighbours.
///
/// Candidates are the nodes that would dominate something new; they are the residual graph, and all
/// nodes that are not dominated are among them. Each pick costs 1, so the return is minus the set's
/// size. The episode terminates when every node is dominated. Every smallest dominating set can be
/// picked so, in any order: each of its nodes dominates one that no other does.
///
/// An observation has the edges between candidates, and for each node whether it is in the set and
/// whether it is dominated (0 or 1), and the number of nodes that it would dominate newly.
///
/// # Complexity
/// O(n + m) for a whole episode.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MinimumDominatingSet};
/// use shardgraph_graph::Graph;
///
/// let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?;
/// let mut episode = Episode::<MinimumDominatingSet>::new(star.into());
/// episode.step(1)?;
/// assert_eq!(episode.state().n_new(), [2, 0, 1, 1]); // 0 and 1 are dominated
/// assert!(episode.step(0)?.terminated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinimumDominatingSet {
    residual: ResidualGraph,
    is_dominated: Vec<bool>,
    n_new: Vec<u32>,
    /// The largest of `n_new`, computed when a feature first asks for it in this state.
    most_new: OnceLock<u32>,
}

impl MinimumDominatingSet {
    /// For each node whether it is in the set or has a neighbour there.
    pub fn is_dominated(&self) -> &[bool] {
        &self.is_dominated
    }

    /// For each node the number of nodes that it would dominate newly, itself included.
    pub fn n_new(&self) -> &[u32] {
        &self.n_new
    }

    fn dominate(&mut self, graph: &Graph, node: u32) {
        if std::mem::replace(&mut self.is_dominated[node as usize], true) {
            return;
        }
        self.lower(node);
        for &neighbor in graph.neighbors(node) {
            self.lower(neighbor);
        }
    }

    fn lower(&mut self, node: u32) {
        self.n_new[node as usize] -= 1;
        if self.n_new[node as usize] == 0 {
            self.residual.remove(node);
        }
    }
}

impl ProblemState for MinimumDominatingSet {
    fn new(graph: Arc<Graph>) -> MinimumDominatingSet {
        let n_new: Vec<u32> = (0..graph.n_nodes()).map(|v| graph.degree(v) + 1).collect();
        MinimumDominatingSet {
            residual: ResidualGraph::new(graph),
            is_dominated: vec![false; n_new.len()],
            n_new,
            most_new: OnceLock::new(),
        }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.residual
    }

    fn pick(&mut self, node: u32) -> f64 {
        let graph = Arc::clone(self.residual.graph());
        self.dominate(&graph, node);
        for &neighbor in graph.neighbors(node) {
            self.dominate(&graph, neighbor);
        }
        self.most_new = OnceLock::new();
        -1.0
    }

    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "is in the set already",
            false => "dominates nothing new",
        }
    }

    /// Whether a node is open, and the number that it would dominate, both as shares of the most
    /// that any would: late in an episode they are small for each, however large the degrees still
    /// are, and graphs with a few large degrees look to the others like any graph.
    fn push_features(&self, node: u32, _: f32, features: &mut Vec<f32>) {
        let is_open = !self.is_dominated[node as usize];
        let most = || self.n_new.iter().copied().max().unwrap_or(0).max(1);
        let most_new = *self.most_new.get_or_init(most);
        let share = self.n_new[node as usize] as f32 / most_new as f32;
        features.extend([f32::from(is_open) / most_new as f32, share]);
    }

    fn observation(&self, in_answer: &[bool]) -> GraphValue {
        let features = |(v, &n_new): (usize, &u32)| {
            let marks = [in_answer[v], self.is_dominated[v]].map(f32::from);
            [marks[0], marks[1], n_new as f32]
        };
        let nodes = self.n_new.iter().enumerate();
        GraphValue {
            node_features: nodes.flat_map(features).collect(),
            ..self.residual.to_value()
        }
    }

    fn observation_space(&self) -> Space {
        Space::graph(3, 0).expect("three features")
    }
}
