//! Rewards for training: where each pick earns the same, the change of an estimate of the answer says at once what a pick was worth.

use serde::{Deserialize, Serialize};

use crate::problem::{
    Episode, MAXIMUM_INDEPENDENT_SET, MINIMUM_DOMINATING_SET, MINIMUM_VERTEX_COVER, Problem,
};

/// What a pick earns in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum RewardRule {
    /// Its reward, and the change of an estimate of the rest: for covers and independent sets that of Caro and Wei, for dominating sets a lower bound;
    /// else its reward alone.
    ///
    /// The undiscounted return changes by a constant of the graph. With a discount, rewards that are equal for all picks hide what a pick is worth
    /// once an episode is much longer than 1 / (1 - gamma).
    #[default]
    #[serde(alias = "caro-wei")]
    Estimate,
    /// Its reward, as the paper has it.
    Objective,
}

impl RewardRule {
    pub(super) fn of_old_runs() -> Self {
        Self::Objective
    }

    /// What is expected to be earned from a state on.
    ///
    /// # Source
    /// An independent set of at least sum 1 / (deg + 1) nodes exists: Caro (1979), Wei (1981). A dominating set has at least sum 1 / p_v nodes, v not yet
    /// dominated and p_v the most nodes that any of those which dominate v would dominate newly: the dual of the covering program, Lovasz (1975).
    /// Added to a reward as a change of potential: Ng, Harada and Russell, Policy invariance under reward transformations, ICML 1999, here without the
    /// discount.
    /// # Complexity
    /// O(n), for dominating sets O(n + m)
    pub(super) fn potential(self, problem: &Problem, episode: &Episode) -> f64 {
        let residual = episode.state().residual();
        let nodes = || {
            let degrees = residual.degrees().iter().zip(0..);
            let present = degrees.filter(|&(_, node)| residual.is_present(node));
            present.map(|(&degree, _)| f64::from(degree))
        };
        match self {
            Self::Estimate if problem.name == MINIMUM_VERTEX_COVER.name => {
                -nodes().map(|degree| degree / (degree + 1.0)).sum::<f64>()
            }
            Self::Estimate if problem.name == MAXIMUM_INDEPENDENT_SET.name => {
                nodes().map(|degree| 1.0 / (degree + 1.0)).sum()
            }
            Self::Estimate if problem.name == MINIMUM_DOMINATING_SET.name => {
                -dominating_nodes(episode)
            }
            _ => 0.0,
        }
    }
}

/// A lower bound of the nodes that dominate what is not dominated yet.
fn dominating_nodes(episode: &Episode) -> f64 {
    let graph = episode.state().residual().graph();
    let nodes = 0..graph.n_nodes();
    let closed = |v: u32| graph.neighbors(v).iter().copied().chain([v]);
    let mut features = Vec::new();
    for v in nodes.clone() {
        episode.state().push_features(v, 1.0, &mut features);
    }
    let per_node = MINIMUM_DOMINATING_SET.n_node_features;
    let is_open = |v: u32| features[v as usize * per_node] > 0.0;
    let n_new = |v: u32| closed(v).filter(|&u| is_open(u)).count() as u32;
    let n_new: Vec<u32> = nodes.clone().map(n_new).collect();
    let price = |v: u32| {
        let most = closed(v).map(|u| n_new[u as usize]).max();
        1.0 / f64::from(most.unwrap_or(1).max(1))
    };
    nodes.filter(|&v| is_open(v)).map(price).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardgraph_graph::Graph;
    use shardgraph_graph::generate::GeneratorSpec;

    use super::*;
    use crate::problem::PROBLEMS;

    /// Picks the first candidate each time; the rewards with the changes of potential, and those alone.
    fn returns(problem: &Problem, rule: RewardRule) -> (f64, f64, f64) {
        let spec: GeneratorSpec = "er:30:0.2".parse().unwrap();
        let mut episode = problem.begin(Arc::new(spec.graph(3).unwrap()));
        let start = rule.potential(problem, &episode);
        let (mut shaped, mut plain) = (0.0, 0.0);
        while !episode.is_done() {
            let before = rule.potential(problem, &episode);
            let node = (0..30).find(|&v| episode.is_candidate(v)).unwrap();
            let reward = f64::from(episode.pick(node).unwrap());
            plain += reward;
            shaped += reward + rule.potential(problem, &episode) - before;
        }
        (shaped, plain, start)
    }

    #[test]
    fn whole_returns_differ_by_the_first_estimate() {
        for problem in PROBLEMS {
            let (shaped, plain, start) = returns(problem, RewardRule::Estimate);
            assert!((shaped - (plain - start)).abs() < 1e-9, "{}", problem.name);
            let (shaped, plain, start) = returns(problem, RewardRule::Objective);
            assert!(shaped.to_bits() == plain.to_bits() && start.to_bits() == 0);
        }
    }

    #[test]
    fn the_estimate_is_that_of_caro_and_wei() {
        let edges = [(0, 1), (0, 2), (0, 3), (0, 4)];
        let graph = Arc::new(Graph::from_edges(5, &edges).unwrap());
        let n_leaves = f64::from(graph.n_nodes() - 1);
        let sizes = n_leaves / 2.0 + 1.0 / (n_leaves + 1.0);
        let of = |problem: &Problem| {
            RewardRule::Estimate.potential(problem, &problem.begin(Arc::clone(&graph)))
        };
        assert!((of(&MAXIMUM_INDEPENDENT_SET) - sizes).abs() < 1e-9);
        let cover = f64::from(graph.n_nodes()) - sizes;
        assert!((of(&MINIMUM_VERTEX_COVER) + cover).abs() < 1e-9);
    }

    /// Two stars whose centres are neighbours, and a node alone: three nodes dominate them.
    #[test]
    fn the_estimate_of_a_dominating_set_is_no_more_than_the_smallest() {
        let edges = [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6), (4, 7)];
        let graph = Arc::new(Graph::from_edges(9, &edges).unwrap());
        let problem = &MINIMUM_DOMINATING_SET;
        let mut episode = problem.begin(Arc::clone(&graph));
        let rest = |episode: &Episode| -RewardRule::Estimate.potential(problem, episode);
        // Each of the two stars' eight nodes sees a centre that dominates five.
        assert!((rest(&episode) - (8.0 / 5.0 + 1.0)).abs() < 1e-9);
        episode.pick(0).unwrap();
        // Three leaves are left, which the other centre dominates together.
        assert!((rest(&episode) - (3.0 / 3.0 + 1.0)).abs() < 1e-9);
        episode.pick(4).unwrap();
        assert!((rest(&episode) - 1.0).abs() < 1e-9);
        episode.pick(8).unwrap();
        assert!(rest(&episode).abs() < 1e-9 && episode.is_done());
    }
}
