//! Several methods on every graph of a set: a row for each method.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Link, Objective};
use shardgraph_regal::{
    Comparison, Method, MethodSummary, PlaceOptions, Plan, Policy, Row, Watch, place_watched,
    place_with_policy, summary,
};

use super::sets::Source;
use super::statistics::standard_error;
use crate::report::{Failure, Report, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    source: Source,
    objective: Objective,
    /// Of each of the two devices; absent: no limit.
    #[serde(default)]
    memory_bytes: Option<u64>,
    options: PlaceOptions,
    /// `method/decoder`, or a method that has none.
    candidates: Vec<String>,
    /// A policy that comes with the program, or the file of one: three more methods.
    #[serde(default)]
    policy: Option<PathBuf>,
    /// The policy's decoder; absent: its own.
    #[serde(default)]
    policy_decoder: Option<DecoderKind>,
    /// Between the devices; absent: transfers take no time.
    #[serde(default)]
    bandwidth_gbs: Option<f64>,
    /// The best of these candidates counts as one more method.
    #[serde(default)]
    best_of: Vec<String>,
    /// No graph is begun after this time.
    seconds: f64,
    /// What tells tables of one set apart.
    #[serde(default)]
    title: Option<String>,
    /// The paper's % improvement over BRKGA 5K by `method/decoder`.
    #[serde(default)]
    paper: BTreeMap<String, f64>,
}

/// Rows of all methods on the graphs of a set.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let (candidates, best_of) = (parsed(&request.candidates)?, parsed(&request.best_of)?);
    let policy = request.policy.as_deref().map(Policy::named).transpose()?;
    let mut clock = clock();
    let Some(set) = request.source.load(out)? else {
        return Ok(());
    };
    let loaded = clock();
    let options = of_objective(request);
    let job = Job {
        devices: &devices(request)?,
        options: &options,
        candidates: &candidates,
        policy: policy.as_ref(),
        policy_decoder: request.policy_decoder,
    };
    let mut sizes = Vec::new();
    let mut comparisons = Vec::new();
    for graph in &set.graphs {
        if clock() - loaded > request.seconds {
            break;
        }
        let plans = job.plans(graph, &mut clock)?;
        comparisons.push(Comparison::of(graph.name(), request.objective, &plans));
        sizes.push(graph.n_ops());
        let elapsed = clock() - loaded;
        out.progress(&format!(
            "{} ({} ops), {elapsed:.0} s",
            graph.name(),
            graph.n_ops()
        ));
    }
    let table = format!(
        "{}: {} of {} graphs ({} to {} ops; {} were cut off by the time limit)",
        request.title(),
        comparisons.len(),
        set.n_available,
        sizes.iter().min().unwrap_or(&0),
        sizes.iter().max().unwrap_or(&0),
        set.graphs.len() - comparisons.len(),
    );
    for method in summary(&comparisons) {
        out.row(request.row(&table, &method, &comparisons));
    }
    if let Some(improvement) = improvement_of(&comparisons, &best_of) {
        out.row(json!({
            "table": table, "method": "best of BRKGA, greedy, XLA's list order and seeded BRKGA",
            "decoder": "", "improvement_percent": 100.0 * improvement,
        }));
    }
    Ok(())
}

impl Request {
    fn title(&self) -> String {
        let set = json!(self.source.set);
        let objective = json!(self.objective);
        let words = [set.as_str(), objective.as_str(), self.title.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// A method's row: means over the graphs, and every graph's own numbers.
    fn row(&self, table: &str, method: &MethodSummary, all: &[Comparison]) -> Value {
        let is_its = |row: &&Row| row.method == method.method && row.decoder == method.decoder;
        let rows: Vec<&Row> = all
            .iter()
            .filter_map(|of| of.rows.iter().find(is_its))
            .collect();
        let improvements: Vec<f64> = rows.iter().filter_map(|row| row.improvement).collect();
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let (name, value): (&str, fn(&Row) -> u64) = match self.objective {
            Objective::Memory => ("peak_bytes", |row| row.peak_bytes),
            Objective::Runtime => ("runtime_ns", |row| row.runtime_ns),
        };
        let values: Vec<u64> = rows.iter().map(|row| value(row)).collect();
        let seconds: Vec<f64> = rows.iter().map(|row| row.seconds).collect();
        let decoder = method.decoder.map_or("", DecoderKind::name);
        let key = format!("{}/{decoder}", method.method);
        let mut line = json!({
            "table": table, "method": method.method, "decoder": decoder,
            "improvement_percent": percent(method.improvement),
            "standard_error_percent": percent(standard_error(&improvements)),
            "gap_to_best_percent": percent(method.gap_to_best), "gap_to_bound_percent": percent(method.gap),
            "wins": method.n_wins, "ties": method.n_ties, "losses": method.n_losses,
            "worst_percent": percent(method.worst_improvement), "does_not_fit": method.n_unfit,
            "seconds": seconds, "paper": self.paper.get(key.trim_end_matches('/')),
        });
        line[name] = json!(values);
        line
    }
}

fn of_objective(request: &Request) -> PlaceOptions {
    PlaceOptions {
        objective: request.objective,
        ..request.options.clone()
    }
}

fn devices(request: &Request) -> Result<DeviceSet, Failure> {
    let link = Link {
        bandwidth_gbs: request.bandwidth_gbs.unwrap_or(f64::INFINITY),
        latency_ns: 0,
    };
    Ok(DeviceSet::uniform(2, request.memory_bytes)?.with_link(link)?)
}

/// What every graph is placed with.
struct Job<'a> {
    devices: &'a DeviceSet,
    options: &'a PlaceOptions,
    candidates: &'a [(Method, DecoderKind)],
    policy: Option<&'a Policy>,
    policy_decoder: Option<DecoderKind>,
}

impl Job<'_> {
    fn plans(&self, graph: &Graph, clock: &mut dyn FnMut() -> f64) -> Result<Vec<Plan>, Failure> {
        let watch = &mut Watch {
            clock,
            deadline: None,
            on_progress: &mut |_| true,
        };
        let mut plans = Vec::new();
        for &(method, decoder) in self.candidates {
            let options = PlaceOptions {
                method,
                decoder: Some(decoder),
                ..self.options.clone()
            };
            plans.push(place_watched(graph, self.devices, &options, watch)?);
        }
        for method in Method::LEARNED {
            let options = PlaceOptions {
                method,
                decoder: self.policy_decoder,
                ..self.options.clone()
            };
            if let Some(policy) = self.policy {
                let devices = self.devices;
                plans.push(place_with_policy(graph, devices, &options, policy, watch)?);
            }
        }
        Ok(plans)
    }
}

/// The mean of what the best of some candidates improves on the genetic algorithm with the paper's decoder, over the graphs where
/// that fits the memory and one of them does.
fn improvement_of(comparisons: &[Comparison], of: &[(Method, DecoderKind)]) -> Option<f64> {
    let is_member = |row: &&Row| {
        let mut of = of.iter();
        of.any(|&(method, kind)| {
            row.method == method && row.decoder.is_none_or(|decoder| decoder == kind)
        })
    };
    let best = |comparison: &Comparison| {
        let members = comparison.rows.iter().filter(is_member);
        members.filter_map(|row| row.improvement).reduce(f64::max)
    };
    let improvements: Vec<f64> = comparisons.iter().filter_map(best).collect();
    let n = improvements.len() as f64;
    (n > 0.0).then(|| improvements.iter().sum::<f64>() / n)
}

fn parsed(candidates: &[String]) -> Result<Vec<(Method, DecoderKind)>, Failure> {
    candidates.iter().map(|text| candidate(text)).collect()
}

fn candidate(text: &str) -> Result<(Method, DecoderKind), Failure> {
    let (method, decoder) = text.split_once('/').unwrap_or((text, "paper"));
    let found = DecoderKind::ALL
        .into_iter()
        .find(|kind| kind.name() == decoder);
    let decoder = found.ok_or_else(|| format!("`{decoder}` is no decoder"))?;
    Ok((method.parse()?, decoder))
}
