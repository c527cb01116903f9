//! Weights before the first step: drawn, or such that the policy is a greedy algorithm.

use serde::{Deserialize, Serialize};
use shardgraph_layers::autodiff::Params;

use crate::problem::{
    MAXIMUM_CLIQUE, MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET, MINIMUM_DOMINATING_SET,
    MINIMUM_VERTEX_COVER, Problem,
};
use crate::{Error, PolicyConfig, TrainedPolicy};

/// The policy that a run begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum InitialRule {
    /// As `Greedy` for cliques, as `Random` for other problems, which learn more from random weights
    /// (`cargo xtask repro opengraphgym-mg seeds seeds-rb`).
    #[default]
    Auto,
    /// The greedy algorithm of the problem, where the layers are structure2vec and the Q head; else
    /// random weights.
    ///
    /// It is tried on the held-back graphs before the first step, so a run gives it where it learns
    /// nothing better.
    Greedy,
    /// Random weights, as the paper has it.
    Random,
}

/// What a greedy algorithm takes the node with the most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GreedyInput {
    Degree,
    /// The least of it.
    LeastDegree,
    /// A feature of the problem, by its number.
    Feature(usize),
}

impl GreedyInput {
    /// That of a known problem: the baselines `max_degree`, `min_degree`, `largest_gain` and
    /// `most_new`.
    fn of(problem: &Problem) -> Option<Self> {
        let known = [
            (&MINIMUM_VERTEX_COVER, Self::Degree),
            (&MAXIMUM_INDEPENDENT_SET, Self::LeastDegree),
            (&MAXIMUM_CLIQUE, Self::Degree),
            (&MAXIMUM_CUT, Self::Feature(0)),
            (&MINIMUM_DOMINATING_SET, Self::Feature(1)),
        ];
        let found = known.iter().find(|(known, _)| known.name == problem.name);
        found.map(|(_, input)| *input)
    }
}

impl InitialRule {
    pub(super) fn of_old_runs() -> Self {
        Self::Random
    }

    /// Whether a policy begins as a greedy algorithm.
    pub(super) fn is_greedy(self, problem: &Problem, config: &PolicyConfig) -> bool {
        let is_wanted = match self {
            Self::Random => false,
            Self::Greedy => GreedyInput::of(problem).is_some(),
            Self::Auto => problem.name == MAXIMUM_CLIQUE.name,
        };
        is_wanted && config.has_default_layers()
    }

    /// A policy for a problem before its training.
    ///
    /// The first embedding column carries the input of the greedy algorithm through all layers, and
    /// it is the only one that a node's score reads. The other weights stay random, so that all of
    /// them learn from the first step on.
    pub(super) fn policy(
        self,
        problem: &Problem,
        config: PolicyConfig,
        seed: u64,
        std_dev: f32,
    ) -> Result<TrainedPolicy, Error> {
        let mut policy = TrainedPolicy::random(config, seed, std_dev)?;
        if self.is_greedy(problem, &policy.config)
            && let Some(input) = GreedyInput::of(problem)
        {
            let weights = greedy_weights(input, policy.config.embed_dim, &policy.params);
            policy.params.set_flat(&weights)?;
        }
        Ok(policy)
    }
}

/// The weights with those changed that carry a greedy algorithm's input to the score.
fn greedy_weights(input: GreedyInput, embed_dim: usize, params: &Params) -> Vec<f32> {
    let sign = match input {
        GreedyInput::LeastDegree => -1.0,
        _ => 1.0,
    };
    let reads_degree = !matches!(input, GreedyInput::Feature(_));
    let mut weights = Vec::with_capacity(params.flat().len());
    for id in params.ids() {
        let (name, n_columns) = (params.name(id), params.shape(id).cols);
        let of_entry = |(i, &drawn): (usize, &f32)| match (name, i / n_columns, i % n_columns) {
            ("theta1", row, 0) => one_if(input == GreedyInput::Feature(row.wrapping_sub(1))),
            // One unit of weight adds 1 to the column where the degree is read.
            ("theta2", _, 0) => one_if(reads_degree),
            ("theta3", row, 0) => one_if(reads_degree && row == 0),
            ("theta4", _, 0) => 0.0,
            ("theta6", row, 0) => one_if(row == 0),
            ("theta7", row, _) if row >= embed_dim => sign * one_if(row == embed_dim),
            _ => drawn,
        };
        weights.extend(params.values_of(id).iter().enumerate().map(of_entry));
    }
    weights
}

fn one_if(holds: bool) -> f32 {
    f32::from(u8::from(holds))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardgraph_graph::Graph;
    use shardgraph_graph::generate::GeneratorSpec;
    use shardgraph_shard::Adjacency;

    use super::*;
    use crate::problem::{PROBLEMS, check_answer};
    use crate::{AdjacencyScale, SolveOptions, solve, solve_problem};

    fn answer(problem: &Problem, graph: &Arc<Graph>, policy: &TrainedPolicy) -> Vec<u32> {
        let options = SolveOptions::default();
        if problem.name == MINIMUM_VERTEX_COVER.name {
            let lists = Adjacency::from_graph((**graph).clone());
            let found = solve(&lists, policy, &options, &mut |_, _| ());
            return found.unwrap().nodes;
        }
        let found = solve_problem(problem, graph, policy, &options, &mut |_, _| ());
        found.unwrap().nodes
    }

    /// With ties to the lowest index in both, the objectives are the same.
    #[test]
    fn the_first_policy_is_the_first_baseline() {
        for (problem, n_layers) in PROBLEMS.into_iter().zip([1, 2, 3, 2, 3]) {
            let config = PolicyConfig::of_problem(problem, 5, n_layers, AdjacencyScale::default());
            let rule = InitialRule::Greedy;
            let policy = rule.policy(problem, config, 3, 0.1).unwrap();
            let greedy = problem.baselines[0].find;
            for (spec, seed) in [("er:60:0.1", 1), ("er:60:0.3", 2), ("ba:70:2", 3)] {
                let spec: GeneratorSpec = spec.parse().unwrap();
                let graph = Arc::new(spec.graph(seed).unwrap());
                let of = |nodes: &[u32]| check_answer(problem, &graph, nodes).unwrap();
                let found = answer(problem, &graph, &policy);
                assert_eq!(of(&found), of(&greedy(&graph)), "{} {spec}", problem.name);
            }
        }
    }
}
