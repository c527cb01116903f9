//! The training graphs, by number: generated on first use, or read from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::random::Stream;
use shardgraph_graph::{Graph, ReadOptions, read_graph};

use super::TrainConfig;
use crate::Error;

enum Source {
    Generator(GeneratorSpec),
    File(Arc<Graph>),
}

/// A numbered set of graphs. Graph `i` is the same for every run with the same settings.
pub(super) struct Dataset {
    /// The first number of each source, and the source.
    sources: Vec<(u64, Source)>,
    n_graphs: u64,
    seed: u64,
    made: BTreeMap<u64, Arc<Graph>>,
}

impl Dataset {
    pub(super) fn new(config: &TrainConfig) -> Result<Self, Error> {
        let mut dataset = Self {
            sources: Vec::new(),
            n_graphs: 0,
            seed: config.seed,
            made: BTreeMap::new(),
        };
        for text in &config.graphs {
            let first = dataset.n_graphs;
            if Path::new(text).is_file() {
                let import = read_graph(Path::new(text), &ReadOptions::default())?;
                has_edges(&import.graph, text)?;
                let graph = Arc::new(import.graph);
                dataset.sources.push((first, Source::File(graph)));
                dataset.n_graphs += 1;
            } else {
                let spec: GeneratorSpec = text.parse()?;
                dataset.sources.push((first, Source::Generator(spec)));
                dataset.n_graphs += config.graphs_per_generator;
            }
        }
        Ok(dataset)
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
                has_edges(&graph, &spec.to_string())?;
                Arc::new(graph)
            }
        };
        self.made.insert(id, Arc::clone(&graph));
        Ok(graph)
    }
}

fn has_edges(graph: &Graph, source: &str) -> Result<(), Error> {
    match graph.n_edges() {
        0 => Err(Error::input(format!(
            "{source}: a training graph needs at least one edge"
        ))),
        _ => Ok(()),
    }
}
