//! Maximum cut, one node a step: the two sides between which the edges weigh most.
//!
//! No node leaves the graph, and the gain of a node is a feature of it, so policies take their
//! general path.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::episode::{Episode, ProblemState};
use crate::problem::{Baseline, Objective, Problem, Sense};
use crate::residual::ResidualGraph;
use crate::space::{GraphValue, Space};
use crate::{baselines, verify};

/// The two sides between which the edges weigh most; the answer is the second side.
pub static MAXIMUM_CUT: Problem = Problem {
    name: "cut",
    title: "maximum cut",
    objective_name: "cut weight",
    sense: Sense::Maximise,
    n_node_features: 1,
    reads_weights: true,
    begin: |graph| Episode::<MaximumCut>::new(graph).erased(),
    check: |graph, marks| {
        let weight = verify::cut_weight(graph, marks);
        Ok(match graph.weights() {
            Some(_) => Objective::Weight(weight),
            None => Objective::Count(weight as u64),
        })
    },
    baselines: &[
        Baseline {
            name: "largest_gain",
            find: baselines::largest_gain_cut,
            n_updates: baselines::linear_updates,
        },
        Baseline {
            name: "one_flip",
            find: baselines::one_flip_cut,
            n_updates: baselines::linear_updates,
        },
    ],
};

/// Each pick moves one node to the second side, and none moves back.
///
/// Candidates are the nodes of the first side that add to the cut. The gain of the cut is the
/// reward, so the return is the cut's weight. The episode terminates when no candidate is left.
/// With weights that are not negative a best cut can be reached: take a smallest side of one; each
/// of its nodes, in any order, adds to the cut. With negative weights it can be out of reach.
///
/// An observation has every edge with its weight as feature, and for each node its side (0 or 1)
/// and its gain.
///
/// # Units
/// Edges without weights weigh 1. Gains and the cut's weight are f64 sums of f32 weights: exact for
/// weights that are integers, or alike in size.
///
/// # Source
/// The states and actions are those of S2V-DQN (Khalil et al., 2017), which lets nodes move that
/// add nothing.
///
/// ```
/// use shardgraph_environments::{Environment, Episode, MaximumCut};
/// use shardgraph_graph::Graph;
///
/// let square = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])?;
/// let mut episode = Episode::<MaximumCut>::new(square.into());
/// assert_eq!(episode.step(0)?.reward, 2.0);
/// assert_eq!(episode.candidates(), [2]); // 1 and 3 would add nothing
/// assert!(episode.step(2)?.terminated);
/// assert_eq!(episode.state().weight(), 4.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaximumCut {
    /// The whole graph: no node is ever removed.
    whole: ResidualGraph,
    is_moved: Vec<bool>,
    gains: Vec<f64>,
    weight: f64,
    /// The number of nodes on the first side that would add to the cut.
    n_gaining: u32,
    /// 1 / the largest sum of absolute weights at a node: makes gains and rewards numbers up to 1.
    inverse_weight: f64,
}

impl MaximumCut {
    /// For each node whether it is on the second side.
    pub fn is_moved(&self) -> &[bool] {
        &self.is_moved
    }

    /// The gain of the cut when a node changes its side, whichever it is on; below 0 for a loss.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// The weight of the edges between the sides.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Updates the gain of `u` after the other end of one of its edges has moved.
    fn change_edge(&mut self, u: u32, weight: f64) {
        let gain = &mut self.gains[u as usize];
        if self.is_moved[u as usize] {
            *gain += 2.0 * weight;
            return;
        }
        self.n_gaining -= u32::from(*gain > 0.0);
        *gain -= 2.0 * weight;
        self.n_gaining += u32::from(*gain > 0.0);
    }
}

/// The sum over the edges of `v` of a function of their weights.
fn sum_weights(graph: &Graph, v: u32, of: impl Fn(f32) -> f32) -> f64 {
    match graph.weights_of(v) {
        Some(weights) => weights.iter().map(|&weight| f64::from(of(weight))).sum(),
        None => f64::from(graph.degree(v)),
    }
}

impl ProblemState for MaximumCut {
    fn new(graph: Arc<Graph>) -> MaximumCut {
        let nodes = 0..graph.n_nodes();
        let totals = nodes.clone().map(|v| sum_weights(&graph, v, f32::abs));
        let largest = totals.fold(0.0, f64::max);
        let gains: Vec<f64> = nodes.map(|v| sum_weights(&graph, v, |w| w)).collect();
        MaximumCut {
            is_moved: vec![false; gains.len()],
            weight: 0.0,
            n_gaining: gains.iter().filter(|&&gain| gain > 0.0).count() as u32,
            gains,
            inverse_weight: if largest > 0.0 { 1.0 / largest } else { 1.0 },
            whole: ResidualGraph::new(graph),
        }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.whole
    }

    fn pick(&mut self, node: u32) -> f64 {
        let v = node as usize;
        let gain = self.gains[v];
        self.n_gaining -= u32::from(gain > 0.0);
        self.is_moved[v] = true;
        self.gains[v] = -gain;
        self.weight += gain;
        let graph = Arc::clone(self.whole.graph());
        for (u, weight) in graph.weighted_neighbors(node) {
            self.change_edge(u, f64::from(weight));
        }
        gain
    }

    fn is_complete(&self) -> bool {
        self.n_gaining == 0
    }

    fn is_candidate(&self, node: u32) -> bool {
        !self.is_moved[node as usize] && self.gains[node as usize] > 0.0
    }

    fn refusal(&self, is_picked: bool) -> &'static str {
        match is_picked {
            true => "has moved already",
            false => "adds nothing to the cut",
        }
    }

    /// The gain as a share of the largest sum of weights at a node.
    fn reward(&self, change: f64) -> f32 {
        (change * self.inverse_weight) as f32
    }

    fn edge_scale(&self) -> f32 {
        self.inverse_weight.min(f64::from(f32::MAX)) as f32
    }

    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        features.push((self.gains[node as usize] * f64::from(scale)) as f32);
    }

    fn observation(&self, in_answer: &[bool]) -> GraphValue {
        let limit = f64::from(f32::MAX);
        let features = |(&moved, &gain): (&bool, &f64)| {
            let gain = gain.clamp(-limit, limit) as f32;
            [f32::from(moved), gain]
        };
        let graph = self.whole.graph();
        GraphValue {
            n_nodes: graph.n_nodes(),
            edges: graph.edges().map(|(u, v)| [u, v]).collect(),
            node_features: in_answer
                .iter()
                .zip(&self.gains)
                .flat_map(features)
                .collect(),
            edge_features: graph.weighted_edges().map(|edge| edge.2).collect(),
        }
    }

    fn observation_space(&self) -> Space {
        Space::graph(2, 1).expect("three features")
    }
}
