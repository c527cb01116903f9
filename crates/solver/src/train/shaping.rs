//! Rewards for training: where each pick earns the same, the change of an estimate of the answer says at once what a pick was worth.

use serde::{Deserialize, Serialize};

use crate::problem::{Episode, MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Problem};

/// What a pick earns in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum RewardRule {
    /// Its reward, and the change of the Caro-Wei estimate of the rest, for covers and independent sets; else its reward alone.
    ///
    /// The undiscounted return changes by a constant of the graph. With a discount, rewards that are equal for all picks hide what a pick is worth
    /// once an episode is much longer than 1 / (1 - gamma).
    #[default]
    CaroWei,
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
    /// An independent set of at least sum 1 / (deg + 1) nodes exists: Caro (1979), Wei (1981). Added to a reward as a change of potential: Ng, Harada and
    /// Russell, Policy invariance under reward transformations, ICML 1999, here without the discount.
    /// # Complexity
    /// O(n)
    pub(super) fn potential(self, problem: &Problem, episode: &Episode) -> f64 {
        let residual = episode.state().residual();
        let nodes = || {
            let degrees = residual.degrees().iter().zip(0..);
            let present = degrees.filter(|&(_, node)| residual.is_present(node));
            present.map(|(&degree, _)| f64::from(degree))
        };
        match self {
            Self::CaroWei if problem.name == MINIMUM_VERTEX_COVER.name => {
                -nodes().map(|degree| degree / (degree + 1.0)).sum::<f64>()
            }
            Self::CaroWei if problem.name == MAXIMUM_INDEPENDENT_SET.name => {
                nodes().map(|degree| 1.0 / (degree + 1.0)).sum()
            }
            _ => 0.0,
        }
    }
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
            let (shaped, plain, start) = returns(problem, RewardRule::CaroWei);
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
            RewardRule::CaroWei.potential(problem, &problem.begin(Arc::clone(&graph)))
        };
        assert!((of(&MAXIMUM_INDEPENDENT_SET) - sizes).abs() < 1e-9);
        let cover = f64::from(graph.n_nodes()) - sizes;
        assert!((of(&MINIMUM_VERTEX_COVER) + cover).abs() < 1e-9);
    }
}
