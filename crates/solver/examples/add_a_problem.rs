//! A problem of one's own in one file: maximum 2-packing, the most nodes of which no two are joined or have a common neighbour.
//!
//! `cargo run --release -p shardgraph-solver --example add_a_problem` trains a policy for it on small graphs, solves a larger one on one
//! rank and on three, and prints the answer beside a greedy one. `docs/adding-a-problem.md` goes through this file.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use shardgraph_environments::ResidualGraph;
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_solver::problem::{Baseline, Episode, Objective, Problem, Sense, check_answer};
use shardgraph_solver::train::{RunOptions, TrainConfig, train_problem};
use shardgraph_solver::{Error, SolveOptions, solve_problem};

// 1. The problem: its names, what is better, what an answer is worth.

#[derive(Debug)]
struct TwoPacking;

static TWO_PACKING: TwoPacking = TwoPacking;

impl Problem for TwoPacking {
    fn name(&self) -> &'static str {
        "two-packing"
    }

    fn title(&self) -> &'static str {
        "maximum 2-packing"
    }

    fn objective_name(&self) -> &'static str {
        "packing size"
    }

    fn sense(&self) -> Sense {
        Sense::Maximise
    }

    /// How many nodes a pick would rule out: see [`Packing::push_features`].
    fn n_node_features(&self) -> usize {
        1
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        let n_nodes = graph.n_nodes() as usize;
        Box::new(Packing {
            rest: ResidualGraph::new(graph),
            picks: Vec::new(),
            in_packing: vec![false; n_nodes],
        })
    }

    /// From the graph and the answer alone: a check that trusts the episode would check nothing.
    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        let mut size = 0;
        for v in 0..graph.n_nodes() {
            let near = graph.neighbors(v).iter().filter(|&&u| marks[u as usize]);
            let n_near = near.count() + usize::from(marks[v as usize]);
            if n_near > 1 {
                return Err(format!(
                    "node {v} is in, or next to, two or more of the set"
                ));
            }
            size += u64::from(marks[v as usize]);
        }
        Ok(Objective::Count(size))
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![("min_degree", min_degree_packing)]
    }
}

// 2. An episode: a state, what may be picked, what a pick does, and what the network reads.

#[derive(Clone)]
struct Packing {
    /// The nodes that may still be picked, and the edges between them.
    rest: ResidualGraph,
    picks: Vec<u32>,
    in_packing: Vec<bool>,
}

impl Packing {
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
}

impl Episode for Packing {
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        let graph = Arc::clone(self.rest.graph());
        Packing::around(&graph, node).for_each(|u| self.rest.remove(u));
        self.picks.push(node);
        self.in_packing[node as usize] = true;
        Ok(1.0) // the return is the size of the packing
    }

    fn is_done(&self) -> bool {
        self.rest.n_present() == 0
    }

    fn is_candidate(&self, node: u32) -> bool {
        !self.rest.removed()[node as usize]
    }

    fn picks(&self) -> &[u32] {
        &self.picks
    }

    fn in_answer(&self, node: u32) -> bool {
        self.in_packing[node as usize]
    }

    fn is_present(&self, node: u32) -> bool {
        !self.rest.removed()[node as usize]
    }

    fn degrees(&self) -> &[u32] {
        self.rest.degrees()
    }

    /// Paths of up to two edges to nodes that are left, scaled as the degrees are: twice, for its order is their square.
    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let graph = self.rest.graph();
        let is_left = |u: &u32| !self.rest.removed()[*u as usize];
        let n_near = match is_left(&node) {
            true => Packing::around(graph, node).filter(is_left).count(),
            false => 0,
        };
        features.push(n_near as f32 * scale * scale);
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
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
            Packing::around(graph, v).for_each(|u| is_out[u as usize] = true);
        }
        fits
    });
    nodes
}

// 3. That is all: it trains and solves on any number of ranks.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (found, greedy) = train_and_solve(600, "er:300:0.01")?;
    println!("{}: {found} nodes, greedy {greedy}", TWO_PACKING.title());
    Ok(())
}

/// The sizes of the policy's packing and of the greedy one.
fn train_and_solve(steps: u64, graph: &str) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let config = TrainConfig {
        problem: TWO_PACKING.name().to_string(),
        graphs: vec!["er:20:0.1".to_string(), "er:30:0.08".to_string()],
        steps,
        embed_dim: 8,
        batch_size: 16,
        ..TrainConfig::default()
    };
    let trained = train_problem(&TWO_PACKING, &config, &RunOptions::default(), &mut |_| ())?;
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
