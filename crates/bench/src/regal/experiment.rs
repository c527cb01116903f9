//! One row of a figure or table about learning: a policy, trained here or given, and what is measured of it on a set of graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shardgraph_collectives::Timeout;
use shardgraph_costgraph::generate::{Synthetic, noisy_copy, synthetic};
use shardgraph_costgraph::{
    DecoderKind, DeviceSet, Graph, Link, ModelOptions, Objective, Problem, topology,
};
use shardgraph_device::Device;
use shardgraph_regal::{
    GeneticOptions, Method, PlaceOptions, Plan, Policy, Preset, StepReport, TrainConfig,
    TrainOptions, Watch, place_watched, place_with_policy, train,
};

use super::sets::{Set, SetName, Source};
use super::statistics::{self, Gains, Scale};
use crate::report::{Failure, Report, clock};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Measure {
    /// The mean of what the method's objective is below the reference's, in %, and how often it is at least as good.
    Improvement,
    /// The same graph by graph: % of graphs by improvement, ties left out of the bars but not of the percentages.
    Histogram,
    /// The mean of minus the method's objective over the reference's.
    Reward,
    /// The same by topology: smallest, quartiles and largest over noisy copies of each graph.
    Topologies,
    /// Of each graph the entropy of the placement actions that its ops take, in nats: % of graphs by entropy.
    Entropies,
    /// How often ops take each kind of placement and scheduling action, and what part of the largest op's bytes such an op has in the mean.
    Actions,
    /// The mean reward of the batches of a training run by step.
    Curve,
}

/// A training run in the midst of an experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Training {
    preset: Preset,
    /// Over those of the preset.
    settings: Map<String, Value>,
    /// So many synthetic graphs of a seed, unfiltered.
    n_synthetic: u64,
    seed: u64,
    /// And the graphs of these sets, with no more ops than that.
    #[serde(default)]
    sources: Vec<Source>,
    #[serde(default)]
    max_ops: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    measure: Measure,
    /// The name of the row, and where it is on the axis.
    series: String,
    #[serde(default)]
    x: f64,
    /// The graphs; of a curve there are none.
    #[serde(default)]
    source: Option<Source>,
    objective: Objective,
    #[serde(default = "regal")]
    method: Method,
    #[serde(default = "paper")]
    decoder: DecoderKind,
    evaluations: u64,
    /// Those of the genetic algorithm that the method is held against; absent: as many.
    #[serde(default)]
    reference_evaluations: Option<u64>,
    genetic: GeneticOptions,
    #[serde(default)]
    memory_bytes: Option<u64>,
    #[serde(default)]
    bandwidth_gbs: Option<f64>,
    /// A policy that comes with the program, or the file of one.
    #[serde(default)]
    policy: Option<PathBuf>,
    /// A policy to make first.
    #[serde(default)]
    train: Option<Training>,
    /// Where that is written, for other rows.
    #[serde(default)]
    keep: Option<PathBuf>,
    /// The paper's number.
    #[serde(default)]
    paper: Option<f64>,
    /// Graphs with more ops are left out.
    #[serde(default)]
    max_ops: Option<usize>,
    /// Noisy copies of each graph, and steps of a curve in one point.
    #[serde(default = "one")]
    n_each: usize,
    /// Bars of a histogram have this width.
    #[serde(default = "two")]
    bar: f64,
    #[serde(default = "one")]
    threads: usize,
}

fn regal() -> Method {
    Method::Regal
}

fn paper() -> DecoderKind {
    DecoderKind::Paper
}

fn one() -> usize {
    1
}

fn two() -> f64 {
    2.0
}

/// A line for each point; one with progress now and then.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let trained = request.train.as_ref();
    let trained = trained.map(|of| trained_on(of, request, out)).transpose()?;
    let (policy, reports) = match (trained, &request.policy) {
        (None, None) => (None, Vec::new()),
        (None, Some(name)) => (Some(Policy::named(name)?), Vec::new()),
        (Some(Some((policy, reports))), None) => (Some(policy), reports),
        (Some(None), _) => return Ok(()),
        (Some(_), Some(_)) => return Err("a policy to train and one that is given".into()),
    };
    if request.measure == Measure::Curve {
        return curve(request, &reports, out);
    }
    let Some(source) = &request.source else {
        return Err("no graphs to measure on".into());
    };
    let Some(set) = source.load(out)? else {
        return Ok(());
    };
    let mut chosen = Chosen::of(set, source.set, request.max_ops);
    if request.measure == Measure::Topologies {
        chosen.one_of_each_topology();
    }
    if chosen.graphs.is_empty() {
        nothing(out, &request.series, &format!("0 {}", chosen.scope));
        return Ok(());
    }
    let job = Job {
        request,
        scope: &chosen.scope,
        policy: policy.as_ref(),
        devices: devices(request)?,
    };
    match request.measure {
        Measure::Improvement | Measure::Histogram | Measure::Reward => {
            job.ratios(&chosen.graphs, out)
        }
        Measure::Topologies => job.topologies(&chosen.graphs, out),
        Measure::Entropies => job.entropies(&chosen.graphs, out),
        Measure::Actions => job.actions(&chosen.graphs, out),
        Measure::Curve => Ok(()),
    }
}

/// The graphs of a row.
struct Chosen {
    graphs: Vec<Graph>,
    /// Out of what, behind a number of graphs: what was left out counts, and that the smallest were taken is said.
    scope: String,
}

impl Chosen {
    fn of(set: Set, name: SetName, max_ops: Option<usize>) -> Chosen {
        let mut graphs = set.graphs;
        let n_asked = graphs.len();
        graphs.retain(|graph| graph.n_ops() <= max_ops.unwrap_or(usize::MAX));
        let mut scope = format!("of {n_asked} graphs");
        // Of this set alone the smaller ones come first.
        if name == SetName::Tensorflow && n_asked < set.n_available {
            scope.push_str(&format!(", the smallest of {}", set.n_available));
        }
        if let (Some(max_ops), n_too_large @ 1..) = (max_ops, n_asked - graphs.len()) {
            scope.push_str(&format!(", {n_too_large} above {max_ops} ops left out"));
        }
        Chosen { graphs, scope }
    }

    /// Leaves out graphs that are another one with other numbers.
    fn one_of_each_topology(&mut self) {
        let (mut seen, n_before) = (BTreeSet::new(), self.graphs.len());
        self.graphs
            .retain(|graph| seen.insert(topology::in_degree_hash(graph)));
        if let n_double @ 1.. = n_before - self.graphs.len() {
            let left_out = format!(", {n_double} of a topology that is there already left out");
            self.scope.push_str(&left_out);
        }
    }
}

/// Says that a row has no number, and why: no 0 stands in for it.
fn nothing(out: &mut Report, series: &str, note: &str) {
    out.row(json!({ "series": series, "note": format!("not measured: {note}") }));
}

fn devices(request: &Request) -> Result<DeviceSet, Failure> {
    let link = Link {
        bandwidth_gbs: request.bandwidth_gbs.unwrap_or(f64::INFINITY),
        latency_ns: 0,
    };
    Ok(DeviceSet::uniform(2, request.memory_bytes)?.with_link(link)?)
}

fn point(out: &mut Report, series: &str, x: f64, y: f64, note: &str) {
    out.row(json!({ "series": series, "x": x, "ours": y, "note": note }));
}

/// The policy and its steps; `None` where a set is absent.
fn trained_on(
    training: &Training,
    request: &Request,
    out: &mut Report,
) -> Result<Option<(Policy, Vec<StepReport>)>, Failure> {
    let config = TrainConfig::preset(training.preset).with_settings(training.settings.clone())?;
    let mut graphs = Vec::new();
    for index in 0..training.n_synthetic {
        graphs.push(synthetic(&Synthetic::default(), training.seed, index)?);
    }
    for source in &training.sources {
        let Some(set) = source.load(out)? else {
            return Ok(None);
        };
        graphs.extend(set.graphs);
    }
    let n_asked = graphs.len();
    graphs.retain(|graph| graph.n_ops() <= training.max_ops.unwrap_or(usize::MAX));
    let options = TrainOptions {
        folder: None,
        resume: false,
        stop_at: None,
        threads: request.threads,
        timeout: Timeout::default(),
        start: None,
        device: Device::host(),
    };
    let outcome = train(&config, &graphs, &options, &mut |report| {
        if report.step.is_multiple_of(50) {
            let (series, step) = (&request.series, report.step);
            out.progress(&format!(
                "{series}: step {step}, reward {:?}",
                report.reward
            ));
        }
    })?;
    if let Some(path) = &request.keep {
        outcome.policy.write(path)?;
    }
    out.progress(&format!(
        "{}: trained {} steps on {} graphs, {} above the limit of ops, hash {:016x}",
        request.series,
        outcome.n_steps,
        graphs.len(),
        n_asked - graphs.len(),
        outcome.policy.weights_hash(),
    ));
    Ok(Some((outcome.policy, outcome.reports)))
}

fn curve(request: &Request, reports: &[StepReport], out: &mut Report) -> Result<(), Failure> {
    for reports in reports.chunks(request.n_each.max(1)) {
        let rewards: Vec<f64> = reports
            .iter()
            .filter_map(|r| r.reward)
            .map(f64::from)
            .collect();
        if let (Some(last), Some(mean)) = (reports.last(), statistics::mean(&rewards)) {
            let note = format!("entropy {:.3} nats an op", last.entropy);
            point(out, &request.series, last.step as f64, mean, &note);
        }
    }
    if reports.iter().all(|report| report.reward.is_none()) {
        nothing(out, &request.series, "no step had a reward");
    }
    Ok(())
}

/// What graphs are placed with.
struct Job<'a> {
    request: &'a Request,
    scope: &'a str,
    policy: Option<&'a Policy>,
    devices: DeviceSet,
}

impl Job<'_> {
    fn plan(&self, graph: &Graph, method: Method, evaluations: u64) -> Result<Plan, Failure> {
        let options = PlaceOptions {
            method,
            decoder: Some(self.request.decoder),
            objective: self.request.objective,
            evaluations,
            genetic: self.request.genetic,
            threads: self.request.threads,
            ..PlaceOptions::default()
        };
        let mut clock = clock();
        let watch = &mut Watch {
            clock: &mut clock,
            deadline: None,
            on_progress: &mut |_| true,
        };
        if !Method::LEARNED.contains(&method) {
            return Ok(place_watched(graph, &self.devices, &options, watch)?);
        }
        let policy = self.policy.ok_or("the method needs a policy")?;
        Ok(place_with_policy(
            graph,
            &self.devices,
            &options,
            policy,
            watch,
        )?)
    }

    /// The method's objective over the reference's, where both plans fit.
    fn ratio(&self, graph: &Graph) -> Result<Option<f64>, Failure> {
        let request = self.request;
        let n = request.reference_evaluations.unwrap_or(request.evaluations);
        let reference = self.plan(graph, Method::Brkga, n)?;
        let plan = match (request.method, n == request.evaluations) {
            (Method::Brkga, true) => reference.clone(),
            (method, _) => self.plan(graph, method, request.evaluations)?,
        };
        let both_fit = reference.fits() && plan.fits() && reference.value() > 0;
        Ok(both_fit.then(|| plan.value() as f64 / reference.value() as f64))
    }

    fn ratios(&self, graphs: &[Graph], out: &mut Report) -> Result<(), Failure> {
        let mut ratios = Vec::new();
        for graph in graphs {
            ratios.extend(self.ratio(graph)?);
            out.progress(&format!(
                "{}: {} ratio {:?}",
                self.request.series,
                graph.name(),
                ratios.last()
            ));
        }
        self.show_ratios(&ratios, graphs.len(), out);
        Ok(())
    }

    /// The points of all ratios, if there are some.
    fn show_ratios(&self, ratios: &[f64], n_graphs: usize, out: &mut Report) {
        let request = self.request;
        let mut counted = format!("{} {}", ratios.len(), self.scope);
        if let n_unfit @ 1.. = n_graphs - ratios.len() {
            counted.push_str(&format!(", {n_unfit} without two plans that fit"));
        }
        let scale = match request.measure {
            Measure::Reward => Scale::Reward,
            _ => Scale::Percent,
        };
        let gains = Gains::new(scale, ratios);
        let Some(mean) = gains.mean() else {
            nothing(out, &request.series, &counted);
            return;
        };
        if request.measure == Measure::Histogram {
            let note = format!("{}; {counted}", gains.note_with_mean());
            self.bars(&gains.untied(), ratios.len(), &note, out);
        } else {
            let note = format!("{}; {counted}", gains.note());
            out.row(json!({
                "series": request.series, "x": request.x, "ours": mean, "paper": request.paper, "ratios": ratios,
                "note": note,
            }));
        }
    }

    /// % of `n` things by value, the middles of bars that have some.
    fn bars(&self, values: &[f64], n: usize, note: &str, out: &mut Report) {
        let bars = statistics::bars(values, self.request.bar, n);
        for (middle, height) in &bars {
            point(out, &self.request.series, *middle, *height, note);
        }
        if bars.is_empty() {
            nothing(out, &self.request.series, &format!("all are ties; {note}"));
        }
    }

    fn topologies(&self, graphs: &[Graph], out: &mut Report) -> Result<(), Failure> {
        for (at, graph) in graphs.iter().enumerate() {
            let mut rewards = Vec::new();
            for copy in 0..self.request.n_each {
                let copy = noisy_copy(graph, 1, copy as u64)?;
                rewards.extend(self.ratio(&copy)?.map(|ratio| -ratio));
            }
            let note = format!("{}, {} copies", graph.name(), rewards.len());
            let Some(quartiles) = statistics::quartiles(rewards) else {
                nothing(
                    out,
                    &self.request.series,
                    &format!("{note} with two plans that fit"),
                );
                continue;
            };
            let names = ["smallest", "25 %", "median", "75 %", "largest"];
            for (name, reward) in names.iter().zip(quartiles) {
                let series = format!("{}, {name}", self.request.series);
                point(
                    out,
                    &series,
                    at as f64,
                    reward,
                    &format!("{note}; {} {}", graphs.len(), self.scope),
                );
            }
        }
        Ok(())
    }

    fn decisions(&self, graph: &Graph) -> Result<shardgraph_regal::Decisions, Failure> {
        let policy = self.policy.ok_or("actions need a policy")?;
        let problem = self.problem(graph)?;
        let options = PlaceOptions {
            objective: self.request.objective,
            decoder: Some(policy.config().decoder),
            threads: self.request.threads,
            ..PlaceOptions::default()
        };
        let features = policy.config().features_of(&problem, &options)?;
        Ok(policy.decisions(&problem, &features, options.seed)?)
    }

    fn problem<'g>(&self, graph: &'g Graph) -> Result<Problem<'g>, Failure> {
        let objective = self.request.objective;
        Ok(Problem::new(
            graph,
            &self.devices,
            objective,
            ModelOptions::default(),
        )?)
    }

    fn entropies(&self, graphs: &[Graph], out: &mut Report) -> Result<(), Failure> {
        let mut entropies = Vec::new();
        for graph in graphs {
            let affinities = self.decisions(graph)?.affinities;
            let mut counts: BTreeMap<Vec<[u32; 2]>, u64> = BTreeMap::new();
            for op in 0..graph.n_ops() {
                let action = affinities.iter().map(|of_device| of_device[op]).collect();
                *counts.entry(action).or_default() += 1;
            }
            let counts: Vec<u64> = counts.into_values().collect();
            entropies.push(statistics::entropy(&counts));
            out.progress(&format!(
                "{}: {} entropy {:?}",
                self.request.series,
                graph.name(),
                entropies.last()
            ));
        }
        if let Some(mean) = statistics::mean(&entropies) {
            let note = format!("mean {mean:.3} nats; {} {}", graphs.len(), self.scope);
            self.bars(&entropies, entropies.len(), &note, out);
        }
        Ok(())
    }

    /// Kinds of action: a higher mean for the first device, for the second, for neither; a priority in the upper half of the levels or in
    /// the lower one.
    fn actions(&self, graphs: &[Graph], out: &mut Report) -> Result<(), Failure> {
        let levels = self
            .policy
            .map_or(2, |policy| policy.config().scheduling_levels);
        let mut cells = [[(0u64, 0.0f64); 2]; 3];
        for graph in graphs {
            let decisions = self.decisions(graph)?;
            let bytes: Vec<f64> = (0..graph.n_ops() as u32)
                .map(|op| bytes_of(graph, op))
                .collect();
            let largest = bytes.iter().copied().fold(0.0, f64::max).max(1.0);
            for (op, bytes) in bytes.iter().enumerate() {
                let mean_of =
                    |device: usize| decisions.affinities.get(device).map_or(0, |of| of[op][0]);
                let priority = decisions.priorities.as_ref().map(|of| of[op][0]);
                let (placement, row) = statistics::cell([mean_of(0), mean_of(1)], priority, levels);
                let cell = &mut cells[placement][row];
                *cell = (cell.0 + 1, cell.1 + bytes / largest);
            }
        }
        self.show_actions(&cells, graphs.len(), out);
        Ok(())
    }

    /// Points of shares and of weights, cell by cell; a cell without an op has no weight.
    fn show_actions(&self, cells: &[[(u64, f64); 2]; 3], n_graphs: usize, out: &mut Report) {
        let n: u64 = cells.iter().flatten().map(|cell| cell.0).sum();
        let names = ["device 1", "device 2", "neither"];
        for ((x, name), row) in names.iter().enumerate().zip(cells) {
            for (priority, &(count, weight)) in ["high", "low"].iter().zip(row) {
                let note = format!("{name}, {count} of {n} ops; {n_graphs} {}", self.scope);
                let series = format!("{}, {priority} priority", self.request.series);
                let shown = [
                    ("% of ops", statistics::part(count as f64, n as f64)),
                    (
                        "mean % of the largest op's bytes",
                        statistics::part(weight, count as f64),
                    ),
                ];
                for (what, value) in shown {
                    let series = format!("{series}, {what}");
                    match value {
                        Some(value) => point(out, &series, x as f64, value, &note),
                        None => nothing(out, &series, &note),
                    }
                }
            }
        }
    }
}

/// Inputs and outputs of an op.
fn bytes_of(graph: &Graph, op: u32) -> f64 {
    let inputs = graph.inputs(op).iter().copied();
    let all = inputs.chain(graph.outputs(op));
    all.map(|tensor| graph.tensor_bytes(tensor) as f64).sum()
}
