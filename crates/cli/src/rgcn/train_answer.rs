//! What `shardgraph rgcn train` prints of models that classify nodes.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shardgraph_metrics::{mean_and_std, t_interval};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::partition::Method;
use shardgraph_rgcn::{
    Config, DeviceMemory, EpochReport, Evaluation, Execution, Outcome, RankTime,
};

use super::accuracy::{accuracy_of, shown_accuracy};
use super::data::Data;
use super::train::Inputs;
use crate::exit::BadInput;
use crate::peak_memory::peak_memory;

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
pub(super) struct TrainAnswer<'a> {
    graph: &'a str,
    nodes: u32,
    edges: usize,
    relations: u32,
    mode: String,
    ranks: u32,
    device: String,
    partition: Method,
    execution: Execution,
    /// What W_r of all relations, the self loop among them, and all nodes takes: built with one execution (pruned, of the nodes that are read
    /// alone), never with the other. None where there is no basis.
    weight_bytes: Option<u64>,
    /// Ranks with neither a message nor a node.
    idle_ranks: usize,
    seeds: Vec<u64>,
    settings: &'a Config,
    /// Whose accuracy it is: that of the test nodes, or without any that of the training nodes.
    pub(super) accuracy_of: &'static str,
    /// Of each seed.
    accuracies: Vec<f64>,
    /// Over the seeds.
    pub(super) accuracy_mean: f64,
    accuracy_std: f64,
    /// Half the width of the mean's 95 % interval, by Student's t; none for one seed.
    accuracy_interval: Option<f64>,
    /// Of each seed: the epoch whose parameters the model has, by validation the best one.
    best_epochs: Vec<u32>,
    /// Share of the training labels that was held back to find that number of epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_share: Option<f64>,
    /// The shortest epoch of all seeds.
    epoch_ms: Option<f64>,
    forward_ms: Option<f64>,
    backward_ms: Option<f64>,
    final_loss: Option<f64>,
    peak_mib: Option<f64>,
    /// Of the last seed.
    rank_times: &'a [RankTime],
    bytes_per_rank: Vec<u64>,
    budget_per_device: Option<u64>,
    /// Of the last seed.
    devices: &'a [DeviceMemory],
    seconds: f64,
    load_seconds: f64,
    pub(super) classes: &'a [String],
    /// Of the last seed: rows are classes, columns what was predicted.
    pub(super) evaluation: &'a Evaluation,
    params_hash: Vec<String>,
    import: &'a Option<ImportReport>,
    /// The picture and the run's folder, where they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) curve: Option<&'a PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out: Option<&'a Path>,
}

/// What is printed of a run's models.
pub(super) fn answer<'a>(
    inputs: &'a Inputs,
    outcomes: &'a [Outcome],
    seconds: f64,
) -> anyhow::Result<TrainAnswer<'a>> {
    let (data, labelled) = (&inputs.data, &inputs.labelled);
    let Some(last) = outcomes.last() else {
        return Err(BadInput("seeds = 0: expected 1 or more".to_owned()).into());
    };
    let (accuracy_mean, accuracy_std, accuracy_interval) = accuracy(outcomes);
    Ok(TrainAnswer {
        graph: &data.name,
        nodes: data.graph.n_nodes(),
        edges: data.graph.n_edges(),
        relations: data.graph.n_relations(),
        mode: last.config.mode.to_string(),
        ranks: inputs.options.n_ranks,
        device: inputs.options.device.kind().to_string(),
        partition: inputs.options.partition,
        execution: inputs.options.execution,
        weight_bytes: weight_bytes(data, last),
        idle_ranks: last.n_idle_ranks,
        seeds: outcomes.iter().map(|outcome| outcome.config.seed).collect(),
        settings: &last.config,
        accuracy_of: accuracy_of(&last.evaluation),
        accuracies: outcomes
            .iter()
            .map(|outcome| shown_accuracy(&outcome.evaluation))
            .collect(),
        accuracy_mean,
        accuracy_std,
        accuracy_interval,
        best_epochs: outcomes.iter().map(|outcome| outcome.best_epoch).collect(),
        valid_share: inputs.valid_share,
        epoch_ms: least(outcomes, EpochReport::epoch_ms),
        forward_ms: least(outcomes, |report| report.forward_ms),
        backward_ms: least(outcomes, |report| report.backward_ms),
        final_loss: last.reports.last().map(|report| report.loss),
        peak_mib: peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        rank_times: &last.times,
        bytes_per_rank: last.bytes_per_rank.clone(),
        budget_per_device: inputs.options.budget_per_device,
        devices: &last.devices,
        seconds,
        load_seconds: data.load_seconds,
        classes: &labelled.classes,
        evaluation: &last.evaluation,
        params_hash: outcomes.iter().map(params_hash).collect(),
        import: &data.report,
        curve: None,
        out: None,
    })
}

/// Mean and standard deviation over the seeds, and half of the mean's 95 % interval where there are several.
fn accuracy(outcomes: &[Outcome]) -> (f64, f64, Option<f64>) {
    let shown = |outcome: &Outcome| shown_accuracy(&outcome.evaluation);
    let accuracies: Vec<f64> = outcomes.iter().map(shown).collect();
    let (mean, std) = mean_and_std(&accuracies);
    (mean, std, t_interval(&accuracies))
}

/// The least of a time over all epochs of all seeds; none where no epoch ran.
fn least(outcomes: &[Outcome], of: fn(&EpochReport) -> f64) -> Option<f64> {
    let reports = outcomes.iter().flat_map(|outcome| &outcome.reports);
    reports.map(of).reduce(f64::min)
}

/// Bytes of W_r of the first layer, for all relations and nodes.
fn weight_bytes(data: &Data, outcome: &Outcome) -> Option<u64> {
    let config = &outcome.config;
    let n_relations = u64::from(data.graph.n_relations()) + u64::from(config.self_loop);
    let width = config.hidden.first().copied();
    let width = width.unwrap_or(outcome.evaluation.confusion.len()) as u64;
    let is_one_hot = config.bases > 0 && config.embedding == 0;
    is_one_hot.then(|| 4 * n_relations * u64::from(data.graph.n_nodes()) * width)
}

fn params_hash(outcome: &Outcome) -> String {
    format!("{:016x}", outcome.params_hash)
}
