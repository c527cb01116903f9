//! The training graphs, by number: generated on first use, or read from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shardgraph_device::Device;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::random::Stream;
use shardgraph_graph::{Graph, ReadOptions, WeightPolicy, read_graph};
use shardgraph_layers::autodiff::RowShard;
use shardgraph_shard::{CsrShard, Partition};

use super::TrainConfig;
use super::checkpoint::{InputHash, hash_graph};
use crate::Error;
use crate::problem::Problem;

#[derive(Clone)]
enum Source {
    Generator(GeneratorSpec),
    File(Arc<Graph>),
}

/// A numbered set of graphs. Edge weights of files are left out where the problem reads none. Graph `i` is the same for every run with
/// the same settings.
#[derive(Clone)]
pub(super) struct Dataset {
    /// The first number of each source, and the source.
    sources: Vec<(u64, Source)>,
    n_graphs: u64,
    seed: u64,
    problem: &'static dyn Problem,
    made: BTreeMap<u64, Arc<Graph>>,
    shards: BTreeMap<u64, RowShard>,
    inputs: Vec<InputHash>,
}

impl Dataset {
    pub(super) fn new(problem: &'static dyn Problem, config: &TrainConfig) -> Result<Self, Error> {
        let mut dataset = Self {
            sources: Vec::new(),
            n_graphs: 0,
            seed: config.seed,
            problem,
            made: BTreeMap::new(),
            shards: BTreeMap::new(),
            inputs: Vec::new(),
        };
        for text in &config.graphs {
            let first = dataset.n_graphs;
            if Path::new(text).is_file() {
                let options = ReadOptions {
                    weights: match problem.reads_weights() {
                        true => WeightPolicy::Declared,
                        false => WeightPolicy::Ignore,
                    },
                    ..ReadOptions::default()
                };
                let import = read_graph(Path::new(text), &options)?;
                dataset.inputs.push(hash_graph(text, &import.graph));
                let graph = Arc::new(import.graph);
                has_steps(problem, &graph, text)?;
                dataset.sources.push((first, Source::File(graph)));
                dataset.n_graphs += 1;
            } else {
                let spec: GeneratorSpec = text.parse().map_err(|e| {
                    Error::input(format!(
                        "`{text}`: there is no such file, and as a generator: {e}"
                    ))
                })?;
                dataset.sources.push((first, Source::Generator(spec)));
                dataset.n_graphs += config.graphs_per_generator;
                dataset.graph(first)?; // a generator without edges is found out before the run begins
            }
        }
        Ok(dataset)
    }

    /// Whether a graph file has edge weights; generated graphs have none.
    pub(super) fn is_weighted(&self) -> bool {
        let is_weighted =
            |source: &Source| matches!(source, Source::File(graph) if graph.weights().is_some());
        self.sources.iter().any(|(_, source)| is_weighted(source))
    }

    /// What the graph files held.
    pub(super) fn inputs(&self) -> &[InputHash] {
        &self.inputs
    }

    /// The own rows of a graph in the device's memory; cut once and kept.
    pub(super) fn shard(
        &mut self,
        id: u64,
        rank: u32,
        n_ranks: u32,
        device: &Device,
    ) -> Result<RowShard, Error> {
        if let Some(shard) = self.shards.get(&id) {
            return Ok(shard.clone());
        }
        let graph = self.graph(id)?;
        let own = Partition::by_rows(graph.n_nodes(), n_ranks).range(rank);
        let shard = RowShard::Csr(Arc::new(CsrShard::by_rows(&graph, own))).resident(device)?;
        self.shards.insert(id, shard.clone());
        Ok(shard)
    }

    /// The graph of an episode, drawn evenly from all graphs.
    pub(super) fn draw(&self, episode: u64) -> u64 {
        Stream::new(self.seed, "episode", episode).below(self.n_graphs)
    }

    /// A graph by its number.
    pub(super) fn graph(&mut self, id: u64) -> Result<Arc<Graph>, Error> {
        if let Some(graph) = self.made.get(&id) {
            return Ok(Arc::clone(graph));
        }
        let at = self.sources.partition_point(|(first, _)| *first <= id);
        let graph = match &self.sources[at - 1].1 {
            Source::File(graph) => Arc::clone(graph),
            Source::Generator(spec) => {
                // A seed for each graph; a graph without an edge has no episode, so the next seed stands in for it.
                let mut seeds = Stream::new(self.seed, "training graph", id);
                let mut graph = spec.graph(seeds.next_u64())?;
                for _ in 0..100 {
                    if graph.n_edges() > 0 {
                        break;
                    }
                    graph = spec.graph(seeds.next_u64())?;
                }
                let graph = Arc::new(graph);
                has_steps(self.problem, &graph, &spec.to_string())?;
                graph
            }
        };
        self.made.insert(id, Arc::clone(&graph));
        Ok(graph)
    }
}

fn has_steps(problem: &dyn Problem, graph: &Arc<Graph>, source: &str) -> Result<(), Error> {
    if graph.n_edges() == 0 {
        return Err(Error::input(format!(
            "{source}: a training graph needs at least one edge"
        )));
    }
    match problem.begin(Arc::clone(graph)).is_done() {
        true => Err(Error::input(format!(
            "{source}: {} has no step on this graph, so nothing can be learnt from it",
            problem.title()
        ))),
        false => Ok(()),
    }
}
