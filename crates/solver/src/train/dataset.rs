//! The training graphs, by number: generated on first use, or read from files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Graph, ReadOptions, WeightPolicy, read_graph};
use shardgraph_random::KeyedRng;
use shardgraph_storage::Hasher;

use super::TrainConfig;
use super::kept::Kept;
use crate::Error;
use crate::problem::Problem;

/// What generated graphs may take before those that were not used for longest are dropped; they can be made again.
const MAX_GENERATED_BYTES: u64 = 2 << 30;
/// Nodes that are drawn, at most, to find a graph with an edge; a hundred graphs are tried at least.
const NODES_TRIED: u64 = 10_000_000;

/// Where training graphs come from.
#[derive(Clone)]
pub(super) enum Source {
    Generator(GeneratorSpec),
    File(Arc<Graph>),
}

impl Source {
    pub(super) fn n_nodes(&self) -> u32 {
        match self {
            Self::Generator(spec) => spec.n_nodes(),
            Self::File(graph) => graph.n_nodes(),
        }
    }

    /// As many as are expected.
    pub(super) fn n_edges(&self) -> f64 {
        match self {
            Self::Generator(spec) => spec.expected_edges(),
            Self::File(graph) => graph.n_edges() as f64,
        }
    }
}

/// One graph file of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputHash {
    pub(super) source: String,
    pub(super) xxh3: String,
}

impl InputHash {
    /// What the graph of a file holds, as one number.
    fn of(source: &str, graph: &Graph) -> Self {
        let mut hasher = Hasher::new();
        hasher.numbers(graph.offsets().iter().copied());
        hasher.numbers(graph.columns().iter().copied());
        hasher.numbers(graph.weights().unwrap_or_default().iter().copied());
        Self {
            source: source.to_string(),
            xxh3: format!("{:016x}", hasher.finish()),
        }
    }
}

/// A numbered set of graphs. Edge weights of files are left out where the problem reads none.
/// Graph `i` is the same for every run with the same settings. Clones share the graphs that were made.
#[derive(Clone)]
pub(super) struct Dataset {
    /// The first number of each source, and the source.
    sources: Vec<(u64, Source)>,
    n_graphs: u64,
    seed: u64,
    problem: &'static Problem,
    made: Arc<Mutex<Kept<Arc<Graph>>>>,
    inputs: Vec<InputHash>,
}

impl Dataset {
    pub(super) fn new(problem: &'static Problem, config: &TrainConfig) -> Result<Self, Error> {
        let mut dataset = Self {
            sources: Vec::new(),
            n_graphs: 0,
            seed: config.seed,
            problem,
            made: Arc::new(Mutex::new(Kept::new(MAX_GENERATED_BYTES))),
            inputs: Vec::new(),
        };
        if config.weighted && !problem.reads_weights {
            return Err(Error::input(format!(
                "weighted: {} reads no edge weights: leave it out",
                problem.title
            )));
        }
        for text in &config.graphs {
            dataset.n_graphs += dataset.add(text, config)?;
        }
        Ok(dataset)
    }

    /// Adds a source behind the others, and gives its number of graphs.
    fn add(&mut self, text: &str, config: &TrainConfig) -> Result<u64, Error> {
        let first = self.n_graphs;
        if Path::new(text).is_file() {
            let graph = Arc::new(self.read(text, config)?);
            if config.weighted && graph.weights().is_none() {
                return Err(Error::input(format!(
                    "weighted: {text} has no edge weights: leave the file or `weighted` out"
                )));
            }
            has_steps(self.problem, &graph, text)?;
            self.sources.push((first, Source::File(graph)));
            return Ok(1);
        }
        let spec = generator(text)?;
        if config.weighted {
            return Err(Error::input(format!(
                "weighted: the edges of {text} have no weights: give graph files alone"
            )));
        }
        self.sources.push((first, Source::Generator(spec)));
        // A generator without edges is found out before the run begins.
        self.graph(first)?;
        Ok(config.graphs_per_generator)
    }

    fn read(&mut self, text: &str, config: &TrainConfig) -> Result<Graph, Error> {
        let weights = match (self.problem.reads_weights, config.weighted) {
            (true, true) => WeightPolicy::ThirdColumn,
            (true, false) => WeightPolicy::Declared,
            (false, _) => WeightPolicy::Ignore,
        };
        let options = ReadOptions {
            weights,
            ..ReadOptions::default()
        };
        let import = read_graph(Path::new(text), &options)?;
        self.inputs.push(InputHash::of(text, &import.graph));
        Ok(import.graph)
    }

    pub(super) fn n_graphs(&self) -> u64 {
        self.n_graphs
    }

    /// The nodes of the smallest graph: a state has at least as many.
    pub(super) fn fewest_nodes(&self) -> u32 {
        let sizes = self.sources.iter().map(|(_, source)| source.n_nodes());
        sizes.min().unwrap_or(0)
    }

    /// The sources, in the order of the settings.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        self.sources.iter().map(|(_, source)| source.clone())
    }

    /// The graphs that `valid` names.
    pub(super) fn named_for_validation(
        &mut self,
        config: &TrainConfig,
    ) -> Result<Vec<Source>, Error> {
        let mut named = Vec::new();
        for text in &config.valid {
            named.push(match Path::new(text).is_file() {
                true => Source::File(Arc::new(self.read(text, config)?)),
                false => Source::Generator(generator(text)?),
            });
        }
        Ok(named)
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

    /// The graph of an episode, drawn evenly from all.
    pub(super) fn draw(&self, episode: u64) -> u64 {
        KeyedRng::new(self.seed, "episode", episode).below(self.n_graphs)
    }

    /// A graph by its number.
    pub(super) fn graph(&self, id: u64) -> Result<Arc<Graph>, Error> {
        let at = self.sources.partition_point(|(first, _)| *first <= id);
        let spec = match &self.sources[at - 1].1 {
            Source::File(graph) => return Ok(Arc::clone(graph)),
            Source::Generator(spec) => spec,
        };
        // Held while a graph is made, so that the other ranks wait for it and do not make it too.
        let mut made = self.made.lock().unwrap_or_else(|lock| lock.into_inner());
        if let Some(graph) = made.get(id) {
            return Ok(graph);
        }
        let graph = Arc::new(self.generate(spec, id)?);
        has_steps(self.problem, &graph, &spec.to_string())?;
        let bytes = 8 * graph.n_edges() + 8 * u64::from(graph.n_nodes());
        made.put(id, Arc::clone(&graph), bytes);
        Ok(graph)
    }

    /// A seed for each graph; a graph without an edge has no episode, so the next seed stands in for it.
    fn generate(&self, spec: &GeneratorSpec, id: u64) -> Result<Graph, Error> {
        let mut seeds = KeyedRng::new(self.seed, "training graph", id);
        let mut graph = spec.graph(seeds.next_u64())?;
        let n_tries = (NODES_TRIED / u64::from(spec.n_nodes().max(1))).max(100);
        for _ in 0..n_tries {
            if graph.n_edges() > 0 || spec.expected_edges() <= 0.0 {
                break;
            }
            graph = spec.graph(seeds.next_u64())?;
        }
        Ok(graph)
    }
}

fn generator(text: &str) -> Result<GeneratorSpec, Error> {
    text.parse().map_err(|e| {
        Error::input(format!(
            "`{text}`: there is no such file, and as a generator: {e}"
        ))
    })
}

/// The same model with another number of nodes, where that is one of its parameters.
pub(super) fn of_size(spec: GeneratorSpec, n_nodes: u32) -> Option<GeneratorSpec> {
    match spec {
        GeneratorSpec::ErdosRenyi { p, .. } => Some(GeneratorSpec::ErdosRenyi { n_nodes, p }),
        GeneratorSpec::BarabasiAlbert { m, .. } => {
            Some(GeneratorSpec::BarabasiAlbert { n_nodes, m })
        }
        GeneratorSpec::WattsStrogatz { k, p, .. } => {
            Some(GeneratorSpec::WattsStrogatz { n_nodes, k, p })
        }
        GeneratorSpec::StochasticBlock {
            n_blocks,
            p_in,
            p_out,
            ..
        } => Some(GeneratorSpec::StochasticBlock {
            n_nodes,
            n_blocks,
            p_in,
            p_out,
        }),
        GeneratorSpec::ChungLu {
            mean_degree,
            exponent,
            ..
        } => Some(GeneratorSpec::ChungLu {
            n_nodes,
            mean_degree,
            exponent,
        }),
        _ => None,
    }
}

fn has_steps(problem: &Problem, graph: &Arc<Graph>, source: &str) -> Result<(), Error> {
    if graph.n_edges() == 0 {
        return Err(Error::input(format!(
            "{source}: a training graph needs at least one edge"
        )));
    }
    match problem.begin(Arc::clone(graph)).is_done() {
        true => Err(Error::input(format!(
            "{source}: {} has no step on this graph, so nothing can be learnt from it",
            problem.title
        ))),
        false => Ok(()),
    }
}
