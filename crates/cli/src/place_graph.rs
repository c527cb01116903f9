//! The GRAPH argument of `shardgraph place`: a file of computation graphs, or the name of synthetic ones.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_costgraph::Graph;
use shardgraph_costgraph_io::NamedCard;
use shardgraph_costgraph_io::{
    Format, Graphs, Imported, ReadOptions, Report, Weights, read_graphs, with_costs,
};
use shardgraph_device::{Device, Timer};

use crate::costgraph_spec::{CostGraphSpec, PREFIX};
use crate::exit::BadInput;
use crate::input_file::{check_exists, meant, named};
use crate::place_machine::Machine;
use crate::report::ReportArgs;
use crate::text::printable;

/// Computation graphs and how to read them.
#[derive(Debug, Args)]
pub(crate) struct CostGraphArgs {
    /// A file of computation graphs (.pb, .pbtxt, .onnx, .jsonl, ..., also .gz and .zst; - is standard input), or costgraph:N for N
    /// synthetic ones
    #[arg(required = true)]
    graph: Option<OsString>,
    /// Format of the file: cost-graph, cost-graph-text, onnx, jsonl, pipedream, msr or stg [default: by
    /// extension, then content]
    #[arg(long, value_name = "FORMAT")]
    input_format: Option<Format>,
    /// Which graph, where there are several, counted from 0
    #[arg(long, value_name = "N", conflicts_with = "all")]
    index: Option<usize>,
    /// Every graph, one after the other; with --format json a line each
    #[arg(long)]
    pub(crate) all: bool,
    /// Size of a named dimension that an ONNX model leaves open; may be given several times [default: 1]
    #[arg(long = "onnx-dim", value_name = "NAME=SIZE", value_parser = dimension)]
    dims: Vec<(String, u64)>,
    /// Where the weights of an ONNX model go: ops of no cost, or persistent memory of the op that uses them [default: persistent]
    #[arg(long, value_enum, value_name = "WHERE")]
    weights: Option<WeightsChoice>,
    /// Measured costs: a CSV file with the columns op, seconds and output_bytes, joined by the names of ops; of ops that it does not name, the
    /// costs stay what they are
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    costs: Option<PathBuf>,
    /// Count what training keeps beside the weights, as multiples of their persistent memory: the gradients, and the state of
    /// this optimiser
    #[arg(long, value_enum, value_name = "OPTIMISER")]
    training_state: Option<TrainingState>,
}

/// What training keeps, as a flag.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TrainingState {
    /// Weights and gradients
    Sgd,
    /// Those, and one moment
    Momentum,
    /// Those, and two moments
    Adam,
}

impl TrainingState {
    /// Numbers that are kept for each weight, itself among them.
    fn factor(self) -> u64 {
        match self {
            TrainingState::Sgd => 2,
            TrainingState::Momentum => 3,
            TrainingState::Adam => 4,
        }
    }
}

/// Where the costs of ops come from.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct CostsAnswer {
    /// Ops whose time --costs has.
    pub(crate) measured: usize,
    /// Ops whose time is an estimate by the roofline of `card`.
    pub(crate) estimated: usize,
    /// Of all ops, those of kinds that the estimate knows nothing of; a launch and their bytes.
    pub(crate) unknown_kinds: u64,
    /// The card that they are for; none for those of a file as they are.
    pub(crate) card: Option<&'static str>,
    /// What a file's costs were multiplied by for that card.
    pub(crate) factor: f64,
}

impl CostsAnswer {
    /// All costs are the file's.
    pub(crate) fn is_as_read(&self) -> bool {
        let n_changed = self.measured + self.estimated;
        n_changed == 0 && self.unknown_kinds == 0 && self.card.is_none()
    }
}

/// Where weights go, as a flag.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum WeightsChoice {
    Ops,
    Persistent,
}

/// What was loaded.
pub(crate) struct Loaded {
    /// The GRAPH argument and what it turned out to be.
    pub(crate) origin: String,
    /// At least one graph, with its number in GRAPH.
    pub(crate) graphs: Vec<(usize, Graph)>,
    /// Where their costs come from.
    pub(crate) costs: CostsAnswer,
    /// Seconds for reading or making them.
    pub(crate) load_seconds: f64,
}

impl CostGraphArgs {
    /// The files that will be read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let path = self.path();
        path.is_file()
            .then_some(path)
            .into_iter()
            .chain(self.costs.as_deref())
    }

    /// GRAPH; the parser insists on it, but beside a subcommand.
    fn path(&self) -> &Path {
        self.graph.as_deref().map_or(Path::new(""), Path::new)
    }

    /// Reads or makes the graphs, with costs for the machine's card; `seed` is that of synthetic ones. All are checked before the first one is
    /// placed.
    pub(crate) fn load(
        &self,
        seed: u64,
        machine: &Machine,
        report: &ReportArgs,
    ) -> anyhow::Result<Loaded> {
        let card = machine.card;
        let timer = Timer::start(&Device::host());
        let path = named(self.path());
        let mut costs = CostsAnswer {
            card: card.map(|card| card.name),
            factor: card.map_or(1.0, |card| 1.0 / card.speed()),
            ..CostsAnswer::default()
        };
        let (origin, graphs) = if path.exists() {
            self.read(path, card, &mut costs, report)?
        } else {
            self.make(&spec_of(path)?, seed)?
        };
        let finished = |(index, graph)| {
            let graph = self.finished(graph, &mut costs)?;
            anyhow::Ok((index, machine.wishes.on(graph)?))
        };
        Ok(Loaded {
            origin,
            graphs: graphs.into_iter().map(finished).collect::<Result<_, _>>()?,
            costs,
            load_seconds: timer.elapsed_s(),
        })
    }

    /// The graph with measured costs, those of the card, and what training keeps.
    fn finished(&self, mut graph: Graph, costs: &mut CostsAnswer) -> anyhow::Result<Graph> {
        if let Some(path) = &self.costs {
            check_exists(path)?;
            let (with_costs, found) = with_costs(&graph, path, costs.factor)?;
            graph = with_costs;
            costs.measured = found.times;
            costs.estimated = costs.estimated.saturating_sub(found.times);
        } else if costs.card.is_some() {
            graph = graph.with_costs_times(costs.factor)?;
        }
        Ok(match self.training_state {
            Some(state) => graph.with_persistent_times(state.factor())?,
            None => graph,
        })
    }

    fn read(
        &self,
        path: &Path,
        card: Option<NamedCard>,
        costs: &mut CostsAnswer,
        report: &ReportArgs,
    ) -> anyhow::Result<(String, Vec<(usize, Graph)>)> {
        let file = read_graphs(path, &self.read_options(card))?;
        let format = file.format();
        self.check_flags(format)?;
        let origin = format!("{}, {format}", path.display());
        let imported = self.chosen(file)?;
        if format == Format::Onnx {
            // The estimates are for the card already.
            costs.factor = 1.0;
            costs.card.get_or_insert("v100");
            costs.estimated = imported.iter().map(|(_, of)| of.graph.n_ops()).sum();
            let unknown = imported
                .iter()
                .flat_map(|(_, of)| of.report.unknown_ops.values());
            costs.unknown_kinds = unknown.sum();
        }
        let tell = |(index, imported): (usize, Imported)| {
            tell(&imported.report, imported.graph.name(), report);
            (index, imported.graph)
        };
        Ok((origin, imported.into_iter().map(tell).collect()))
    }

    fn read_options(&self, card: Option<NamedCard>) -> ReadOptions {
        let usual = ReadOptions::default();
        ReadOptions {
            format: self.input_format,
            dims: self.dims.iter().cloned().collect(),
            weights: match self.weights {
                Some(WeightsChoice::Ops) => Weights::Ops,
                None | Some(WeightsChoice::Persistent) => Weights::Persistent,
            },
            roofline: card.map_or(usual.roofline, |card| card.roofline),
            ..usual
        }
    }

    /// Flags about models say nothing about other files.
    fn check_flags(&self, format: Format) -> Result<(), BadInput> {
        let flag = match (self.dims.is_empty(), self.weights) {
            _ if format == Format::Onnx => return Ok(()),
            (false, _) => "--onnx-dim",
            (true, Some(_)) => "--weights",
            (true, None) => return Ok(()),
        };
        let file = self.path().display();
        Err(BadInput(format!(
            "{file}: {flag} is about ONNX models, this is read as {format}: leave it out, or name another --input-format"
        )))
    }

    fn chosen(&self, file: Graphs) -> anyhow::Result<Vec<(usize, Imported)>> {
        let n_graphs = file.remaining();
        if let Some(index) = self.index {
            return Ok(vec![(index, file.nth_graph(index)?)]);
        }
        if n_graphs > 1 && !self.all {
            return Err(self.several(n_graphs).into());
        }
        if n_graphs == 0 {
            let file = self.path().display();
            return Err(BadInput(format!("{file}: the file holds no graph")).into());
        }
        let numbered = file.enumerate();
        numbered.map(|(i, graph)| Ok((i, graph?))).collect()
    }

    fn make(
        &self,
        spec: &CostGraphSpec,
        seed: u64,
    ) -> anyhow::Result<(String, Vec<(usize, Graph)>)> {
        if self.input_format.is_some() {
            let message = "--input-format is about files: leave it out for synthetic graphs";
            return Err(BadInput(message.into()).into());
        }
        self.check_flags(Format::Jsonl)?;
        let n_graphs = spec.n_graphs();
        let origin = format!("{spec}, generated, seed {seed}");
        if let Some(index) = self.index.filter(|&index| index >= n_graphs) {
            let message = format!("{spec}: there is no graph {index}; there are {n_graphs}");
            return Err(BadInput(message).into());
        }
        if n_graphs > 1 && !self.all && self.index.is_none() {
            return Err(self.several(n_graphs).into());
        }
        let numbered = spec.graphs(seed)?.into_iter().enumerate();
        let is_wanted = |i: usize| self.index.is_none_or(|index| index == i);
        Ok((origin, numbered.filter(|&(i, _)| is_wanted(i)).collect()))
    }

    fn several(&self, n_graphs: usize) -> BadInput {
        BadInput(format!(
            "{}: {n_graphs} graphs: say which with --index, from 0 to {}, or place them with --all",
            self.path().display(),
            n_graphs - 1
        ))
    }
}

/// All graphs of a file, or those that the name of synthetic ones stands for, made with this seed.
pub(crate) fn load_all(name: &str, seed: u64, report: &ReportArgs) -> anyhow::Result<Vec<Graph>> {
    let path = named(Path::new(name));
    if !path.exists() {
        return spec_of(path)?.graphs(seed);
    }
    let mut graphs = Vec::new();
    for imported in read_graphs(path, &ReadOptions::default())? {
        let imported = imported?;
        tell(&imported.report, imported.graph.name(), report);
        graphs.push(imported.graph);
    }
    match graphs.is_empty() {
        true => Err(BadInput(format!("{name}: the file holds no graph")).into()),
        false => Ok(graphs),
    }
}

/// What a name that is no file's stands for.
fn spec_of(name: &Path) -> anyhow::Result<CostGraphSpec> {
    let spec = name.to_str().filter(|name| name.starts_with(PREFIX));
    let spec = spec.ok_or_else(|| {
        BadInput(format!(
            "{}: there is no such file{} (or name synthetic graphs, such as costgraph:1)",
            name.display(),
            meant(name)
        ))
    })?;
    Ok(spec.parse()?)
}

/// What reading one graph assumed and left out.
fn tell(found: &Report, graph: &str, report: &ReportArgs) {
    let graph = printable(graph);
    for warning in found.warnings() {
        report.warning(&format!("{graph}: {}", printable(&warning.to_string())));
    }
    if found.implied_views > 0 {
        let n = found.implied_views;
        report.note(&format!(
            "{graph}: {n} outputs without alias_input_port are views of their op's first input"
        ));
    }
    let said = [
        ("accelerators", found.devices.map(u64::from)),
        ("processors", found.cpus.map(u64::from)),
        ("bytes of memory each", found.memory_bytes),
    ];
    for (what, number) in said {
        if let Some(number) = number {
            report.note(&format!("{graph}: the file speaks of {number} {what}"));
        }
    }
}

fn dimension(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.split_once('=').unwrap_or_default();
    match size.parse() {
        Ok(size) if size > 0 && !name.is_empty() => Ok((name.to_owned(), size)),
        _ => Err(format!(
            "expected NAME=SIZE with a size above 0, such as batch=8, found `{text}`"
        )),
    }
}
