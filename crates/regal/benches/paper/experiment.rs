//! One row of a figure or table about learning: a policy, trained here or given, and what is measured of it on a set of graphs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shardgraph_costgraph::generate::{Synthetic, noisy_copy, synthetic};
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Link, ModelOptions, Objective, Problem};
use shardgraph_regal::{
    GeneticOptions, Method, PlaceOptions, Plan, Policy, Preset, StepReport, TrainConfig,
    TrainOptions, Watch, place_watched, place_with_policy, train,
};

use crate::sets::Source;
use crate::{Failure, clock};

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
pub(crate) struct Request {
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
pub(crate) fn run(request: &Request) -> Result<(), Failure> {
    let trained = request.train.as_ref();
    let trained = trained.map(|of| trained_on(of, request)).transpose()?;
    let (policy, reports) = match (trained, &request.policy) {
        (None, None) => (None, Vec::new()),
        (None, Some(name)) => (Some(crate::tables::policy(name)?), Vec::new()),
        (Some(Some((policy, reports))), None) => (Some(policy), reports),
        (Some(None), _) => return Ok(()),
        (Some(_), Some(_)) => return Err("a policy to train and one that is given".into()),
    };
    if request.measure == Measure::Curve {
        return curve(request, &reports);
    }
    let Some(source) = &request.source else {
        return Err("no graphs to measure on".into());
    };
    let Some(mut set) = source.load()? else {
        return Ok(());
    };
    set.graphs
        .retain(|graph| graph.n_ops() <= request.max_ops.unwrap_or(usize::MAX));
    let job = Job {
        request,
        policy: policy.as_ref(),
        devices: devices(request)?,
    };
    match request.measure {
        Measure::Improvement | Measure::Histogram | Measure::Reward => job.ratios(&set.graphs),
        Measure::Topologies => job.topologies(&set.graphs),
        Measure::Entropies => job.entropies(&set.graphs),
        Measure::Actions => job.actions(&set.graphs),
        Measure::Curve => Ok(()),
    }
}

fn devices(request: &Request) -> Result<DeviceSet, Failure> {
    let link = Link {
        bandwidth_gbs: request.bandwidth_gbs.unwrap_or(f64::INFINITY),
        latency_ns: 0,
    };
    Ok(DeviceSet::uniform(2, request.memory_bytes)?.with_link(link)?)
}

fn point(series: &str, x: f64, y: f64, note: &str) {
    println!(
        "{}",
        json!({ "point": { "series": series, "x": x, "y": y, "note": note } })
    );
}

/// The policy and its steps; `None` where a set is absent.
fn trained_on(
    training: &Training,
    request: &Request,
) -> Result<Option<(Policy, Vec<StepReport>)>, Failure> {
    let config = TrainConfig::preset(training.preset).with_settings(training.settings.clone())?;
    let mut graphs = Vec::new();
    for index in 0..training.n_synthetic {
        graphs.push(synthetic(&Synthetic::default(), training.seed, index)?);
    }
    for source in &training.sources {
        let Some(set) = source.load()? else {
            return Ok(None);
        };
        graphs.extend(set.graphs);
    }
    graphs.retain(|graph| graph.n_ops() <= training.max_ops.unwrap_or(usize::MAX));
    let options = TrainOptions {
        folder: None,
        resume: false,
        stop_at: None,
        threads: request.threads,
        start: None,
    };
    let outcome = train(&config, &graphs, &options, &mut |report| {
        if report.step.is_multiple_of(50) {
            println!(
                "{}",
                json!({ "step": report.step, "reward": report.reward })
            );
        }
    })?;
    if let Some(path) = &request.keep {
        outcome.policy.write(path)?;
    }
    println!(
        "{}",
        json!({ "trained": {
            "series": request.series, "n_graphs": graphs.len(), "n_steps": outcome.n_steps,
            "policy_hash": format!("{:016x}", outcome.policy.weights_hash()),
        } })
    );
    Ok(Some((outcome.policy, outcome.reports)))
}

fn curve(request: &Request, reports: &[StepReport]) -> Result<(), Failure> {
    for reports in reports.chunks(request.n_each.max(1)) {
        let rewards: Vec<f64> = reports
            .iter()
            .filter_map(|r| r.reward)
            .map(f64::from)
            .collect();
        if let (Some(last), false) = (reports.last(), rewards.is_empty()) {
            let note = format!("entropy {:.3} nats an op", last.entropy);
            point(&request.series, last.step as f64, mean(&rewards), &note);
        }
    }
    Ok(())
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// What graphs are placed with.
struct Job<'a> {
    request: &'a Request,
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

    fn ratios(&self, graphs: &[Graph]) -> Result<(), Failure> {
        let request = self.request;
        let mut ratios = Vec::new();
        for graph in graphs {
            ratios.extend(self.ratio(graph)?);
            println!(
                "{}",
                json!({ "graph": graph.name(), "ratio": ratios.last() })
            );
        }
        let n = ratios.len();
        let improvements: Vec<f64> = ratios.iter().map(|ratio| 100.0 * (1.0 - ratio)).collect();
        let at_least = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
        let note = format!(
            "+- {:.2}, {n} of {} graphs, matched or beaten on {:.1} %, worst {:.2}, best {:.2}",
            standard_error(&improvements),
            graphs.len(),
            100.0 * at_least as f64 / n.max(1) as f64,
            improvements.iter().copied().fold(f64::INFINITY, f64::min),
            improvements
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max),
        );
        match request.measure {
            Measure::Reward => {
                let rewards: Vec<f64> = ratios.iter().map(|ratio| -ratio).collect();
                point(&request.series, request.x, mean(&rewards), &note);
            }
            Measure::Histogram => {
                let untied: Vec<f64> = improvements.iter().copied().filter(|x| *x != 0.0).collect();
                bars(request, &untied, n, &note);
            }
            _ => point(&request.series, request.x, mean(&improvements), &note),
        }
        Ok(())
    }

    fn topologies(&self, graphs: &[Graph]) -> Result<(), Failure> {
        for (at, graph) in graphs.iter().enumerate() {
            let mut rewards = Vec::new();
            for copy in 0..self.request.n_each {
                let copy = noisy_copy(graph, 1, copy as u64)?;
                rewards.extend(self.ratio(&copy)?.map(|ratio| -ratio));
            }
            rewards.sort_by(f64::total_cmp);
            let last = rewards.len().saturating_sub(1);
            let names = ["smallest", "25 %", "median", "75 %", "largest"];
            for (name, part) in names.iter().zip([0.0, 0.25, 0.5, 0.75, 1.0]) {
                let Some(&reward) = rewards.get((part * last as f64).round() as usize) else {
                    continue;
                };
                let series = format!("{}, {name}", self.request.series);
                point(
                    &series,
                    at as f64,
                    reward,
                    &format!("{}, {} copies", graph.name(), rewards.len()),
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

    fn entropies(&self, graphs: &[Graph]) -> Result<(), Failure> {
        let mut entropies = Vec::new();
        for graph in graphs {
            let affinities = self.decisions(graph)?.affinities;
            let mut counts: BTreeMap<Vec<[u32; 2]>, u64> = BTreeMap::new();
            for op in 0..graph.n_ops() {
                let action = affinities.iter().map(|of_device| of_device[op]).collect();
                *counts.entry(action).or_default() += 1;
            }
            let parts = counts.values().map(|&n| n as f64 / graph.n_ops() as f64);
            entropies.push(-parts.map(|p| p * p.ln()).sum::<f64>());
            println!(
                "{}",
                json!({ "graph": graph.name(), "entropy": entropies.last() })
            );
        }
        let note = format!(
            "mean {:.3} nats over {} graphs",
            mean(&entropies),
            graphs.len()
        );
        bars(self.request, &entropies, entropies.len(), &note);
        Ok(())
    }

    /// Kinds of action: a higher mean for the first device, for the second, for neither; a priority in the upper half of the levels or in
    /// the lower one.
    fn actions(&self, graphs: &[Graph]) -> Result<(), Failure> {
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
                let mean_of = |device: usize| decisions.affinities.get(device).map(|of| of[op][0]);
                let placement = match mean_of(0).cmp(&mean_of(1)) {
                    std::cmp::Ordering::Greater => 0,
                    std::cmp::Ordering::Less => 1,
                    std::cmp::Ordering::Equal => 2,
                };
                let is_high = decisions
                    .priorities
                    .as_ref()
                    .map(|of| 2 * of[op][0] >= levels);
                let cell = &mut cells[placement][usize::from(is_high != Some(true))];
                *cell = (cell.0 + 1, cell.1 + bytes / largest);
            }
        }
        self.show_actions(&cells, graphs.len());
        Ok(())
    }

    /// Points of shares and of weights, cell by cell.
    fn show_actions(&self, cells: &[[(u64, f64); 2]; 3], n_graphs: usize) {
        let n: u64 = cells.iter().flatten().map(|cell| cell.0).sum();
        let names = ["device 1", "device 2", "neither"];
        for ((x, name), row) in names.iter().enumerate().zip(cells) {
            for (priority, &(count, weight)) in ["high", "low"].iter().zip(row) {
                let note = format!("{name}, {n} ops of {n_graphs} graphs");
                let share = 100.0 * count as f64 / n.max(1) as f64;
                let series = &self.request.series;
                point(
                    &format!("{series}, {priority} priority, % of ops"),
                    x as f64,
                    share,
                    &note,
                );
                let weight = 100.0 * weight / count.max(1) as f64;
                point(
                    &format!("{series}, {priority} priority, mean % of the largest op's bytes"),
                    x as f64,
                    weight,
                    &note,
                );
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

/// % of `n` things by value, the middles of bars that have some.
fn bars(request: &Request, values: &[f64], n: usize, note: &str) {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for value in values {
        *counts
            .entry((value / request.bar).floor() as i64)
            .or_default() += 1;
    }
    for (at, count) in counts {
        let middle = (at as f64 + 0.5) * request.bar;
        point(
            &request.series,
            middle,
            100.0 * count as f64 / n.max(1) as f64,
            note,
        );
    }
}

/// Of a mean of these numbers.
fn standard_error(of: &[f64]) -> f64 {
    let n = of.len() as f64;
    let middle = mean(of);
    let squares: f64 = of.iter().map(|x| (x - middle) * (x - middle)).sum();
    (squares / (n - 1.0).max(1.0) / n.max(1.0)).sqrt()
}
