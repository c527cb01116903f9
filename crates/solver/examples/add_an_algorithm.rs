//! A training algorithm of one's own in one file: an evolution strategy with one parent and one child, on the policies that the program has.
//!
//! `cargo run --release -p shardgraph-solver --example add_an_algorithm` trains a policy of GraphSAGE and a hidden layer by it and writes it
//! as a file that `shardgraph solve` takes. `docs/extending/adding-layers.md` goes through this file.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::path::Path;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_random::KeyedRng;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::MINIMUM_VERTEX_COVER;
use shardgraph_solver::{
    AdjacencyScale, EmbeddingKind, Error, HeadKind, PolicyConfig, SolveOptions, TrainedPolicy,
    solve,
};

/// How the strategy works. The step is multiplied by `longer` after a child that is no worse, and by its fourth root's inverse after
/// another: the one-fifth rule.
///
/// # Source
/// Rechenberg, Evolutionsstrategie, 1973.
struct Settings {
    n_children: u64,
    n_ranks: u32,
    step: f32,
    longer: f32,
}

// 1. What is optimised: episodes are played by the solver, on any number of ranks, with covers that have been checked.

/// The nodes that a policy needs for all graphs.
fn cost(policy: &TrainedPolicy, graphs: &[Adjacency], n_ranks: u32) -> Result<usize, Error> {
    let options = SolveOptions {
        n_ranks,
        ..SolveOptions::default()
    };
    let covers = graphs
        .iter()
        .map(|graph| Ok(solve(graph, policy, &options, &mut |_, _| ())?.nodes.len()));
    covers.sum()
}

// 2. The algorithm: parameters are one flat run of numbers; random numbers come from streams with a name.

/// Improves a policy; gives the cost before and after.
fn evolve(
    policy: &mut TrainedPolicy,
    graphs: &[Adjacency],
    settings: &Settings,
) -> Result<(usize, usize), Error> {
    let first = cost(policy, graphs, settings.n_ranks)?;
    let (mut best, mut step) = (first, settings.step);
    for child in 0..settings.n_children {
        let mut stream = KeyedRng::new(1, "evolution", child);
        let parent = policy.params.flat().to_vec();
        let moved: Vec<f32> = parent
            .iter()
            .map(|x| x + step * stream.normal() as f32)
            .collect();
        policy.params.set_flat(&moved)?;
        let of_child = cost(policy, graphs, settings.n_ranks)?;
        if of_child <= best {
            (best, step) = (of_child, step * settings.longer);
        } else {
            policy.params.set_flat(&parent)?;
            step /= settings.longer.powf(0.25);
        }
    }
    Ok((first, best))
}

// 3. That is all: the file has the model's layers and sizes, and every command takes it.

fn train(settings: &Settings, file: Option<&Path>) -> Result<(usize, usize, u64), Error> {
    let sizes =
        PolicyConfig::of_problem(&MINIMUM_VERTEX_COVER, 8, 2, AdjacencyScale::LargestDegree);
    let config = sizes.with_layers(EmbeddingKind::GRAPH_SAGE, HeadKind::MLP);
    let mut policy = TrainedPolicy::random(config, 1, 0.3)?;
    let mut graphs = Vec::new();
    for seed in 0..8 {
        let spec: GeneratorSpec = "er:30:0.15".parse()?;
        graphs.push(Adjacency::from_graph(spec.graph(seed)?));
    }
    let (before, after) = evolve(&mut policy, &graphs, settings)?;
    if let Some(file) = file {
        policy.write(file)?;
    }
    Ok((before, after, policy.params_hash()))
}

fn main() -> Result<(), Error> {
    let settings = Settings {
        n_children: 300,
        n_ranks: 1,
        step: 0.1,
        longer: 1.3,
    };
    let file = std::env::temp_dir().join("evolved.safetensors");
    let (before, after, _) = train(&settings, Some(&file))?;
    println!(
        "{before} nodes for 8 graphs, then {after}: {}",
        file.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_improves_and_ranks_change_nothing() {
        let settings = |n_ranks| Settings {
            n_children: 25,
            n_ranks,
            step: 0.1,
            longer: 1.3,
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.safetensors");
        let (before, after, hash) = train(&settings(1), Some(&file)).unwrap();
        assert!(after < before, "{before} {after}");
        assert_eq!(train(&settings(3), None).unwrap(), (before, after, hash));
        assert_eq!(TrainedPolicy::read(&file).unwrap().params_hash(), hash);
    }
}
