//! Several methods on every graph of a set: a line for each graph, and one that says what was left out.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Link, Objective};
use shardgraph_regal::{
    Comparison, Method, PlaceOptions, Plan, Policy, Row, Watch, place_watched, place_with_policy,
    summary,
};

use crate::sets::Source;
use crate::{Failure, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
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
}

pub(crate) fn run(request: &Request) -> Result<(), Failure> {
    let (candidates, best_of) = (parsed(&request.candidates)?, parsed(&request.best_of)?);
    let policy = request.policy.as_deref().map(Policy::named).transpose()?;
    let mut clock = clock();
    let Some(set) = request.source.load()? else {
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
    let mut comparisons = Vec::new();
    for graph in &set.graphs {
        if clock() - loaded > request.seconds {
            break;
        }
        let plans = job.plans(graph, &mut clock)?;
        let comparison = Comparison::of(graph.name(), request.objective, &plans);
        println!(
            "{}",
            json!({
                "n_ops": graph.n_ops(), "n_tensors": graph.n_tensors(), "n_edges": graph.n_uses(),
                "comparison": comparison, "elapsed": clock() - loaded,
            })
        );
        comparisons.push(comparison);
    }
    let summary = json!({
        "done": comparisons.len(), "chosen": set.graphs.len(), "available": set.n_available,
        "n_candidates": set.candidates.len(), "load_seconds": loaded, "seconds": clock() - loaded,
        "methods": summary(&comparisons), "best_of_improvement": improvement_of(&comparisons, &best_of),
    });
    println!("{}", json!({ "summary": summary }));
    Ok(())
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
