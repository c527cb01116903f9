//! The GRAPH argument: a file, the name of a built-in graph, or a generator specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use shardgraph_device::{Device, Timer};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{
    EdgeSink, Format, Graph, ImportReport, Labels, NamedEdgeSink, NodeWeights, ReadOptions,
    StreamedNames, WeightPolicy, builtin, read_graph, stream_graph, stream_named,
};
use shardgraph_line::{ImportOptions, InputSummary};
use shardgraph_shard::{Adjacency, AdjacencyBuilder, Storage, choose_storage};

use crate::exit::BadInput;
use crate::input_file::{named, nearest, nearest_file};
use crate::report::ReportArgs;

/// A graph and how to read it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct GraphArgs {
    /// A graph file, a built-in graph (karate, petersen, ...) or a generator (er:3000:0.15)
    graph: OsString,
    /// Format of the file: matrix-market, edge-list, dimacs, metis, pace, gset, ml4co or graphml
    /// [default: by extension, then content]
    #[arg(long, value_name = "FORMAT")]
    input_format: Option<Format>,
    /// Which graph, where there are several, counted from 0
    #[arg(long, value_name = "N", hide_short_help = true)]
    index: Option<usize>,
    /// Nodes that a file may have, however few its edges are [default: some for each edge]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_nodes: Option<u32>,
    /// Take the complement: the edges that the graph lacks
    #[arg(long)]
    complement: bool,
    /// Read edge weights: of an edge list its third column
    #[arg(long)]
    weighted: bool,
    /// Seed of all that is random: of a generated graph too
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// Where a graph comes from.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    BuiltIn(Graph),
    Generator(GeneratorSpec),
}

/// What is known about a graph besides its edges.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The GRAPH argument and what it turned out to be.
    pub(crate) name: String,
    /// What the nodes are called.
    pub(crate) labels: Labels,
    /// What reading a file dropped and merged; absent for graphs that were made here.
    pub(crate) import: Option<ImportReport>,
    /// Seconds for reading or making the graph.
    pub(crate) load_seconds: f64,
    /// Node weights of a file that has them (METIS).
    pub(crate) node_weights: Option<NodeWeights>,
}

impl GraphArgs {
    /// Another graph, read in the same way.
    pub(crate) fn of(&self, graph: &OsString) -> Self {
        Self {
            graph: graph.clone(),
            ..self.clone()
        }
    }

    /// The graph in the form that it is solved in; dense graphs go to bits while they are read.
    ///
    /// Without `--weighted`, edge weights are left out: they do not change what a cover is.
    pub(crate) fn adjacency(&self, report: &ReportArgs) -> anyhow::Result<(Adjacency, Origin)> {
        let timer = Timer::start(&Device::host());
        let (adjacency, mut origin) = if self.complement || self.weighted {
            let (graph, origin) = self.load_graph(WeightPolicy::Ignore)?;
            (Adjacency::from_graph(graph), origin)
        } else {
            self.stream()?
        };
        origin.load_seconds = timer.elapsed_s();
        let storage = storage_name(adjacency.storage());
        report.note(&format!("stored as {storage}, {} bytes", adjacency.bytes()));
        let import = origin.import.as_ref();
        if let Some(warning) = import.and_then(ImportReport::warning) {
            report.warning(&format!("{}: {warning}", origin.name));
        }
        if adjacency.n_nodes() == 0 {
            report.warning(&format!("{}: the graph is empty", origin.name));
        }
        Ok((adjacency, origin))
    }

    /// The graph as lists, with the weights that its file declares.
    pub(crate) fn whole_graph(&self) -> anyhow::Result<(Graph, Origin)> {
        let timer = Timer::start(&Device::host());
        let (graph, mut origin) = self.load_graph(WeightPolicy::Declared)?;
        origin.load_seconds = timer.elapsed_s();
        Ok((graph, origin))
    }

    /// What gives the edges to a sink as they are listed; a weight that is not asked for is 1.
    ///
    /// A file's integer ids may take `max_id_bytes` of memory; its text ids take none here.
    pub(crate) fn feed(
        &self,
        max_id_bytes: u64,
        directed: bool,
    ) -> anyhow::Result<impl FnOnce(&mut dyn NamedEdgeSink) -> Feeding + '_> {
        let source = self.source()?;
        self.check_weighted(&source)?;
        if directed && !matches!(source, Source::File(_)) {
            let why = "directed and weighted are for files; this graph has neither";
            return Err(BadInput(format!("{}: {why}", self.graph.display())).into());
        }
        let whole = match self.complement {
            true => Some(self.load_graph(WeightPolicy::Ignore)?),
            false => None,
        };
        Ok(move |sink: &mut dyn NamedEdgeSink| match (whole, source) {
            (Some((graph, origin)), _) => feed_graph(&graph, origin.labels, sink),
            (None, Source::BuiltIn(graph)) => {
                let labels = Labels::offset(0, graph.n_nodes());
                feed_graph(&graph, labels, sink)
            }
            (None, Source::File(path)) => {
                let options = ReadOptions {
                    max_id_bytes: Some(max_id_bytes),
                    ..self.read_options(WeightPolicy::Ignore)
                };
                let streamed = stream_named(&path, &options, sink)?;
                if directed {
                    let format = match &streamed {
                        StreamedNames::Numbered(streamed) => streamed.report.format,
                        StreamedNames::Named(report) => report.format,
                    };
                    check_directions(&path, format)?;
                }
                Ok(InputSummary::of(streamed))
            }
            (None, Source::Generator(spec)) => {
                spec.stream(self.seed, sink)?;
                Ok(numbered(spec.n_nodes(), Labels::offset(0, spec.n_nodes())))
            }
        })
    }

    /// What tells a file, and how it is read, from others, and from itself at other times.
    pub(crate) fn source_key(&self) -> Option<String> {
        let file = ImportOptions::source_of(self.file()?)?;
        let how = (self.input_format, self.complement, self.index);
        Some(format!("{file} {how:?}"))
    }

    /// The one seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The GRAPH argument as it was given.
    pub(crate) fn argument(&self) -> String {
        self.graph.to_string_lossy().into_owned()
    }

    /// The seed of a graph that is generated; none decides what another graph is.
    pub(crate) fn seed_of_generated(&self) -> Option<u64> {
        let is_generated = matches!(self.source(), Ok(Source::Generator(_)));
        is_generated.then_some(self.seed)
    }

    /// Whether edge weights are wanted.
    pub(crate) fn is_weighted(&self) -> bool {
        self.weighted
    }

    fn load_graph(&self, weights: WeightPolicy) -> anyhow::Result<(Graph, Origin)> {
        let source = self.source()?;
        self.check_weighted(&source)?;
        let (mut graph, mut origin) = match source {
            Source::File(path) => {
                let import = read_graph(&path, &self.read_options(weights))?;
                let mut origin = Origin::file(&path, import.labels, import.report);
                origin.node_weights = import.node_weights;
                (import.graph, origin)
            }
            Source::BuiltIn(graph) => {
                let origin = self.made("built in", graph.n_nodes());
                (graph, origin)
            }
            Source::Generator(spec) => (spec.graph(self.seed)?, self.generated(&spec)),
        };
        if self.complement {
            graph = graph.complement()?;
            origin.name += ", complement";
        }
        Ok((graph, origin))
    }

    /// Refuses `--weighted` where there are no weights that it could ask for.
    fn check_weighted(&self, source: &Source) -> Result<(), BadInput> {
        let name = self.graph.display();
        let why = match source {
            _ if !self.weighted => return Ok(()),
            Source::File(_) if !self.complement => return Ok(()),
            Source::File(_) => "the edges of a complement have no weights: leave --weighted out",
            _ => "directed and weighted are for files; this graph has neither",
        };
        Err(BadInput(format!("{name}: {why}")))
    }

    fn stream(&self) -> anyhow::Result<(Adjacency, Origin)> {
        match self.source()? {
            Source::File(path) => {
                let mut builder = AdjacencyBuilder::new();
                let options = self.read_options(WeightPolicy::Ignore);
                let streamed = stream_graph(&path, &options, &mut builder)?;
                let (adjacency, n_merged) = builder.finish(streamed.n_nodes, false)?;
                let mut import = streamed.report;
                import.duplicates_merged = n_merged;
                Ok((adjacency, Origin::file(&path, streamed.labels, import)))
            }
            Source::BuiltIn(graph) => {
                let origin = self.made("built in", graph.n_nodes());
                Ok((Adjacency::from_graph(graph), origin))
            }
            Source::Generator(spec) => {
                spec.check_memory(adjacency_bytes(&spec))?;
                let mut builder = AdjacencyBuilder::for_generator(&spec);
                spec.stream(self.seed, &mut builder)?;
                let (adjacency, _) = builder.finish(spec.n_nodes(), false)?;
                Ok((adjacency, self.generated(&spec)))
            }
        }
    }

    fn read_options(&self, weights: WeightPolicy) -> ReadOptions {
        ReadOptions {
            format: self.input_format,
            weights: match self.weighted {
                true => WeightPolicy::ThirdColumn,
                false => weights,
            },
            max_nodes: self.max_nodes,
            index: self.index,
            ..ReadOptions::default()
        }
    }

    /// The file that will be read, if GRAPH is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        let path = Path::new(&self.graph);
        path.is_file().then_some(path)
    }

    /// An existing file, else a built-in graph, else a generator.
    fn source(&self) -> anyhow::Result<Source> {
        let path = named(Path::new(&self.graph));
        if path.exists() && !path.is_dir() {
            return Ok(Source::File(path.to_owned()));
        }
        // Built-in graphs and generators have plain names.
        let text = &*self.graph.to_string_lossy();
        let made = match (builtin::by_name(text), text.parse()) {
            (Some(graph), _) => Source::BuiltIn(graph),
            (None, Ok(spec)) => Source::Generator(spec),
            (None, Err(error)) => return Err(no_graph(text, &error).into()),
        };
        match self.index.filter(|&index| index > 0) {
            None => Ok(made),
            Some(index) => Err(BadInput(format!(
                "--index {index}: {text} is no file of several graphs: leave it out"
            ))
            .into()),
        }
    }

    fn made(&self, how: &str, n_nodes: u32) -> Origin {
        Origin {
            name: format!("{} ({how})", self.graph.display()),
            labels: Labels::offset(0, n_nodes),
            import: None,
            load_seconds: 0.0,
            node_weights: None,
        }
    }

    fn generated(&self, spec: &GeneratorSpec) -> Origin {
        self.made(&format!("generated, seed {}", self.seed), spec.n_nodes())
    }
}

impl Origin {
    fn file(path: &Path, labels: Labels, import: ImportReport) -> Self {
        Self {
            name: path.display().to_string(),
            labels,
            import: Some(import),
            load_seconds: 0.0,
            node_weights: None,
        }
    }
}

/// The number of nodes and their labels, once all edges are given; nothing where they came with text ids.
pub(crate) type Feeding = Result<InputSummary, shardgraph_graph::Error>;

/// Refuses formats that list each edge without a direction.
fn check_directions(path: &Path, format: Format) -> Result<(), shardgraph_graph::Error> {
    match format {
        Format::EdgeList | Format::MatrixMarket | Format::GraphMl => Ok(()),
        other => {
            let message = format!(
                "{}: directed is for edge lists, matrices and GraphML; {other} has no directions",
                path.display()
            );
            let kind = shardgraph_graph::ErrorKind::Policy;
            Err(shardgraph_graph::Error::new(kind, message))
        }
    }
}

fn feed_graph(graph: &Graph, labels: Labels, sink: &mut dyn EdgeSink) -> Feeding {
    for u in 0..graph.n_nodes() {
        for &v in graph.neighbors(u).iter().filter(|&&v| u < v) {
            sink.edge(u, v, 1.0)?;
        }
    }
    Ok(numbered(graph.n_nodes(), labels))
}

fn numbered(n_nodes: u32, labels: Labels) -> InputSummary {
    InputSummary {
        nodes: Some((n_nodes, labels)),
        ..InputSummary::default()
    }
}

/// What a generated graph takes in the form that it will be stored in.
fn adjacency_bytes(spec: &GeneratorSpec) -> f64 {
    let n_nodes = f64::from(spec.n_nodes());
    match choose_storage(spec.n_nodes(), spec.expected_edges(), false) {
        Storage::Bits => n_nodes * n_nodes / 8.0,
        Storage::Csr => spec.list_bytes(),
    }
}

/// `csr` or `bits`.
pub(crate) fn storage_name(storage: Storage) -> &'static str {
    match storage {
        Storage::Csr => "csr",
        Storage::Bits => "bits",
    }
}

fn no_graph(text: &str, spec_error: &shardgraph_graph::Error) -> BadInput {
    let path = Path::new(text);
    if path.is_dir() {
        return BadInput(format!("{text}: this is a folder: expected a graph file"));
    }
    let is_generator = text.contains(':') && !text.contains(['/', '\\']);
    if is_generator {
        return BadInput(format!(
            "`{text}` is no graph: as a generator: {spec_error}"
        ));
    }
    let near = nearest_file(path)
        .or_else(|| nearest(text, builtin::names().iter().map(|name| (*name).to_owned())));
    let hint = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    BadInput(format!(
        "{text}: there is no such file{hint} (or name a built-in graph, such as karate, or a generator, such as er:3000:0.15)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(graph: &str) -> GraphArgs {
        GraphArgs {
            graph: graph.into(),
            input_format: None,
            index: None,
            max_nodes: None,
            complement: false,
            weighted: false,
            seed: 1,
        }
    }

    #[test]
    fn a_file_wins_over_a_name_and_a_name_over_a_generator() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("karate");
        std::fs::write(&file, "a b\n").unwrap();
        let source = |graph: &str| args(graph).source().unwrap();
        assert!(matches!(
            source(&file.display().to_string()),
            Source::File(_)
        ));
        assert!(matches!(source("karate"), Source::BuiltIn(_)));
        assert!(matches!(source("er:10:0.5"), Source::Generator(_)));
    }

    #[test]
    fn a_name_of_no_graph_is_answered_with_the_nearest_one() {
        for (graph, reason) in [
            ("missing.mtx", "missing.mtx: there is no such file"),
            (
                "missing.mtx",
                "a built-in graph, such as karate, or a generator",
            ),
            ("karat", "did you mean `karate`?"),
            ("./Cargo.tom", "did you mean `./Cargo.toml`?"),
            ("/", "is a folder"),
            ("er:10:2", "expected a number from 0 to 1"),
            ("", "there is no such file"),
        ] {
            let message = args(graph).source().unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn streamed_and_whole_graphs_are_the_same() {
        for graph in ["karate", "er:60:0.02", "er:60:0.5", "rb:5:4:0.3:1.5"] {
            let streamed = args(graph).stream().unwrap().0;
            let whole = args(graph).load_graph(WeightPolicy::Declared).unwrap().0;
            assert_eq!(streamed.into_graph().unwrap(), whole, "{graph}");
        }
    }

    #[test]
    fn weights_that_no_graph_can_have_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("g.el");
        std::fs::write(&file, "a b 2.5\nb c 1\n").unwrap();
        let file = file.display().to_string();
        let load = |graph: &str, complement| {
            let mut args = args(graph);
            (args.weighted, args.complement) = (true, complement);
            args.load_graph(WeightPolicy::Ignore)
        };
        assert!(load(&file, false).unwrap().0.weights().is_some());
        for (graph, complement, reason) in [
            (&*file, true, "a complement have no weights"),
            ("karate", false, "weighted are for files"),
            ("er:60:0.5", false, "weighted are for files"),
        ] {
            let message = load(graph, complement).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn the_complement_has_the_other_edges() {
        let mut complement = args("petersen");
        complement.complement = true;
        let (graph, origin) = complement.load_graph(WeightPolicy::Declared).unwrap();
        assert_eq!(graph.n_edges(), 45 - 15);
        assert_eq!(origin.name, "petersen (built in), complement");
    }
}
