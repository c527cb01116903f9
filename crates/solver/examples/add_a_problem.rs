//! A problem of one's own in one file: maximum 2-packing, the most nodes of which no two are joined or have a common neighbour.
//!
//! `cargo run --release -p shardgraph-solver --example add_a_problem` trains a policy for it on small graphs, solves a larger one on one
//! rank and on three, and prints the answer beside a greedy one. `docs/extending/adding-a-problem.md` goes through this file.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_solver::problem::{
    Baseline, Episode, Objective, Problem, ProblemState, ResidualGraph, Sense, check_answer,
    linear_updates,
};
use shardgraph_solver::train::{RunOptions, TrainConfig, train};
use shardgraph_solver::{SolveOptions, solve_problem};

// 1. The problem: its names, its sense, its check and its baselines.

static TWO_PACKING: Problem = Problem {
    name: "two-packing",
    title: "maximum 2-packing",
    objective_name: "packing size",
    sense: Sense::Maximise,
    n_node_features: 1, // the number of nodes that a pick would rule out
    reads_weights: false,
    begin: |graph| Episode::<TwoPacking>::new(graph).erased(),
    check,
    baselines: &[Baseline {
        name: "min_degree",
        find: min_degree_packing,
        n_updates: linear_updates,
    }],
};

/// From the graph and the answer alone: a check that trusts the episode would check nothing.
fn check(graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
    for v in 0..graph.n_nodes() {
        let near = graph.neighbors(v).iter().filter(|&&u| marks[u as usize]);
        if near.count() + usize::from(marks[v as usize]) > 1 {
            return Err(format!(
                "node {v} is in, or next to, two or more of the set"
            ));
        }
    }
    Ok(Objective::size(marks))
}

// 2. Its state: the candidates, what a pick does, and what the network reads.

#[derive(Clone)]
struct TwoPacking {
    /// The nodes that may still be picked, and the edges between them.
    residual: ResidualGraph,
}

/// `node`, its neighbours and theirs, some more than once.
fn around(graph: &Graph, node: u32) -> impl Iterator<Item = u32> + '_ {
    let neighbors = graph.neighbors(node).iter();
    let second = neighbors
        .clone()
        .flat_map(|&u| graph.neighbors(u).iter().copied());
    std::iter::once(node)
        .chain(neighbors.copied())
        .chain(second)
}

impl ProblemState for TwoPacking {
    fn new(graph: Arc<Graph>) -> Self {
        let residual = ResidualGraph::new(graph);
        TwoPacking { residual }
    }

    fn residual(&self) -> &ResidualGraph {
        &self.residual
    }

    fn pick(&mut self, node: u32) -> f64 {
        let graph = Arc::clone(self.residual.graph());
        around(&graph, node).for_each(|u| self.residual.remove(u));
        1.0 // the return is the size of the packing
    }

    /// Paths of up to two edges to nodes that are left, scaled as the degrees are: twice, for its order is their square.
    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let is_left = |u: &u32| self.residual.is_present(*u);
        let n_near = match is_left(&node) {
            true => around(self.residual.graph(), node).filter(is_left).count(),
            false => 0,
        };
        features.push(n_near as f32 * scale * scale);
    }
}

/// Takes the nodes by rising degree, each if it still fits.
fn min_degree_packing(graph: &Graph) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..graph.n_nodes()).collect();
    nodes.sort_by_key(|&v| graph.degree(v));
    let mut is_out = vec![false; nodes.len()];
    nodes.retain(|&v| {
        let fits = !is_out[v as usize];
        if fits {
            around(graph, v).for_each(|u| is_out[u as usize] = true);
        }
        fits
    });
    nodes
}

// 3. That is all: it trains and solves on any number of ranks.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (found, greedy) = train_and_solve(600, "er:300:0.01")?;
    println!("{}: {found} nodes, greedy {greedy}", TWO_PACKING.title);
    Ok(())
}

/// The sizes of the policy's packing and of the greedy one.
fn train_and_solve(steps: u64, graph: &str) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let config = TrainConfig {
        problem: TWO_PACKING.name.to_string(),
        graphs: vec!["er:20:0.1".to_string(), "er:30:0.08".to_string()],
        steps,
        embed_dim: 8,
        batch_size: 16,
        ..TrainConfig::default()
    };
    let options = RunOptions {
        problem: Some(&TWO_PACKING),
        ..RunOptions::default()
    };
    let trained = train(&config, &options, &mut |_| ())?;
    let graph = Arc::new(graph.parse::<GeneratorSpec>()?.graph(1)?);
    let mut answers = Vec::new();
    for n_ranks in [1, 3] {
        let options = SolveOptions {
            n_ranks,
            ..SolveOptions::default()
        };
        let policy = &trained.policy;
        answers.push(solve_problem(
            &TWO_PACKING,
            &graph,
            policy,
            &options,
            &mut |_, _| (),
        )?);
    }
    assert_eq!(answers[0].nodes, answers[1].nodes, "ranks change nothing");
    let greedy = check_answer(&TWO_PACKING, &graph, &min_degree_packing(&graph))?;
    let sizes = [answers[0].objective, greedy].map(|size| size.value() as u64);
    Ok((sizes[0], sizes[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_trains_and_solves() {
        let (found, greedy) = train_and_solve(60, "er:80:0.03").unwrap();
        assert!(found > 0 && greedy > 0);
    }

    #[test]
    fn two_nodes_with_a_common_neighbour_are_no_packing() {
        let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
        assert!(check_answer(&TWO_PACKING, &path, &[0, 3]).is_ok());
        for wrong in [[0, 1], [0, 2]] {
            assert!(check_answer(&TWO_PACKING, &path, &wrong).is_err());
        }
    }
}
