//! Training that predicts classes: one rank's epochs, and the classes of nodes.

use shardgraph_autodiff::{leave_group, rank_device};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_job::{Checkpoint, RunRecorder};

use super::batches;
use super::evaluation::Evaluation;
use super::evaluation::{held_out, labelled};
use super::execution::Execution;
use super::folder::{Run, Saved};
use super::inputs::{Epochs, Inputs};
use super::memory::{self, DeviceMemory, Here, RunLayouts};
use super::model::{Model, Start};
use super::report::{EpochReport, NodeUnits, Outcome, Prediction, ValidScores};
use super::run::EpochTrainer;
use super::state::{Params, params_hash};
use crate::config::{Config, MAX_WIDTH, Mode};
use crate::device::{DeviceModel, DevicePlan, LabelSets, Step};
use crate::error::diverged;
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::loss::Targets;
use crate::model::network::Network;
use crate::partition::Method;
use crate::{Error, Labels, RelationalGraph};

/// The most ranks of a run.
pub const MAX_RANKS: u32 = 256;

/// Refuses numbers of ranks out of range.
pub(super) fn check_ranks(n_ranks: u32) -> Result<(), Error> {
    match (1..=MAX_RANKS).contains(&n_ranks) {
        true => Ok(()),
        false => Err(Error::config("ranks", n_ranks, "1 to 256")),
    }
}

/// Refuses more classes than a layer may be wide, and fewer than the weights have blocks.
fn check_classes(labels: &Labels, config: &Config) -> Result<(), Error> {
    let n_classes = labels.n_classes();
    if (n_classes as usize) < config.blocks {
        let expected = format!("at most {n_classes}, the classes");
        return Err(Error::config("blocks", config.blocks, &expected));
    }
    if n_classes as usize <= MAX_WIDTH {
        return Ok(());
    }
    let message = format!("{n_classes} classes: expected at most {MAX_WIDTH}");
    Err(Error::new(Error::Labels, message))
}

/// Refuses settings and labels that cannot be right.
pub(super) fn check(inputs: Inputs<'_>) -> Result<(), Error> {
    let Inputs {
        graph,
        labels,
        config,
        ..
    } = inputs;
    config.check()?;
    config.check_features(graph)?;
    labels.check_nodes(graph)?;
    if config.patience > 0 && labels.valid().is_empty() {
        let expected = "0 without nodes to validate on";
        return Err(Error::config("patience", config.patience, expected));
    }
    check_classes(labels, config)
}

/// The part of a run over the whole graph that all ranks share.
pub(super) struct WholeJob<'a> {
    inputs: Inputs<'a>,
    layout: Layout<'a>,
    /// That of the labelled nodes that are none to learn from, where epochs do not reach them.
    evaluated: Option<Layout<'a>>,
    /// Training labels in the order of the nodes.
    train: Vec<(u32, u32)>,
    /// With patience, the labels to validate on in the order of the nodes.
    valid: Vec<(u32, u32)>,
    /// The nodes of both, whose outputs training makes.
    outputs: Vec<u32>,
}

/// The layout of a run that makes the outputs of some nodes.
fn layout_of<'a>(
    graph: &'a RelationalGraph,
    config: &Config,
    outputs: &[u32],
    extent: Extent,
) -> Result<Layout<'a>, Error> {
    let outputs = match config.mode {
        // Batches have the rows of all nodes.
        Mode::Pruned if config.batch == 0 => Some(outputs),
        Mode::Full | Mode::Pruned => None,
    };
    Layout::new(graph, config.self_loop, outputs, extent)
}

/// The nodes of labels, in their order.
fn nodes_of(labels: &[(u32, u32)]) -> Vec<u32> {
    labels.iter().map(|&(node, _)| node).collect()
}

impl<'a> WholeJob<'a> {
    /// Lays the work out for all ranks.
    pub(super) fn new(inputs: Inputs<'a>, here: Here) -> Result<WholeJob<'a>, Error> {
        let Inputs {
            graph,
            labels,
            config,
            options,
        } = inputs;
        let mut train = labels.train().to_vec();
        train.sort_unstable();
        let valid = labels.valid().iter().filter(|_| config.patience > 0);
        let mut valid: Vec<(u32, u32)> = valid.copied().collect();
        valid.sort_unstable();
        let mut outputs = [nodes_of(&train), nodes_of(&valid)].concat();
        outputs.sort_unstable();
        let n_classes = labels.n_classes();
        let extent = Extent::new(config, n_classes, graph, options.n_ranks, options.partition);
        let mut layout = layout_of(graph, config, &outputs, extent)?;
        // The training on a device cuts its messages into tiles by itself.
        let budget = options
            .budget_per_device
            .filter(|_| options.device.is_host());
        if config.features && budget.is_some() {
            let message = "--device-memory: features are not taken in tiles: leave the budget out";
            return Err(Error::new(Error::Config, message));
        }
        options.execution.check(config, options)?;
        layout.budget = budget;
        layout.materialises = options.execution == Execution::Paper;
        let evaluated = match config.mode {
            Mode::Full => None,
            Mode::Pruned => Some(layout.with_outputs(Some(&held_out(labels)))),
        };
        let layouts = RunLayouts {
            trained: &layout,
            evaluated: evaluated.as_ref(),
        };
        memory::check(config, n_classes, layouts, options, here)?;
        let job = WholeJob {
            inputs,
            layout,
            evaluated,
            train,
            valid,
            outputs,
        };
        job.check_budget_on_device(here)?;
        Ok(job)
    }

    /// Refuses a budget that training on a device does not fit in: plans the ranks here, one after
    /// the other, before a run has a folder.
    fn check_budget_on_device(&self, here: Here) -> Result<(), Error> {
        let options = self.inputs.options;
        if options.device.is_host() || options.budget_per_device.is_none() {
            return Ok(());
        }
        here.ranks(options.n_ranks)
            .try_for_each(|rank| ClassTrainer::new(self, rank)?.check_device(options.device.kind()))
    }

    /// The device of a rank: that of the run, or where ranks share it a stream of their own or a
    /// card each.
    fn rank_device(&self, ranks: &mut RankComm<'_>) -> Result<Device, Error> {
        let device = &self.inputs.options.device;
        match device.is_host() || ranks.are_alone() {
            true => Ok(device.clone()),
            false => Ok(rank_device(device, ranks.comm, ranks.deadline)?),
        }
    }

    /// One rank's run.
    pub(super) fn run(
        &self,
        comm: &mut Comm,
        start: Start<'_>,
        recorder: Option<RunRecorder>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Outcome, Error> {
        let inputs = self.inputs;
        let ranks = &mut RankComm::new(comm, inputs.options.deadline);
        let mut trainer = ClassTrainer::new(self, ranks.comm.rank() as usize)?;
        let begin = trainer.model.load(start, ranks)?;
        let device = self.rank_device(ranks)?;
        trainer.begin_on_device(&device, begin)?;
        let Epochs { reports, times } =
            inputs.run_epochs(&mut trainer, begin, recorder, ranks, progress)?;
        let best_epoch = trainer.model.take_best();
        let model = match inputs.options.keeps_model {
            false => None,
            true => {
                let model = &mut trainer.model;
                model.saved(Run::new(inputs), &self.outputs, best_epoch, ranks)?
            }
        };
        let on_device = trainer.device.take().map(|model| model.memory());
        leave_group(&device, ranks.deadline)?;
        let mut network = trainer.model.network;
        let params_hash = params_hash(&mut network, ranks)?;
        let bytes_per_rank = ranks.gather(&[network.n_bytes()])?;
        let memory = on_device.unwrap_or_else(|| DeviceMemory::of(&network, reports.len()));
        let devices = memory.gather(ranks)?;
        let evaluation = self.evaluate(network, best_epoch, ranks)?;
        Ok(Outcome {
            config: inputs.config.clone(),
            reports,
            best_epoch,
            evaluation,
            params_hash,
            bytes_per_rank,
            times,
            devices,
            n_idle_ranks: self.layout.n_idle_ranks,
            model,
        })
    }

    /// The predictions of the model after `n_steps` for all labelled nodes, and their scores.
    fn evaluate(
        &self,
        mut network: Network<'_>,
        n_steps: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Evaluation, Error> {
        let nodes = labelled(self.inputs.labels);
        let Some(layout) = &self.evaluated else {
            let predicted = classes(&mut network, &nodes, ranks)?;
            return Ok(Evaluation::new(self.inputs.labels, &nodes, &predicted));
        };
        let learnt = nodes_of(&self.train);
        let of_learnt = classes(&mut network, &learnt, ranks)?;
        network.keep_parameters();
        let mut wider = network.for_outputs(layout, n_steps)?;
        drop(network);
        let held_out = held_out(self.inputs.labels);
        let of_held_out = classes(&mut wider, &held_out, ranks)?;
        let mut pairs: Vec<(u32, u32)> = learnt.into_iter().zip(of_learnt).collect();
        pairs.extend(held_out.into_iter().zip(of_held_out));
        pairs.sort_unstable();
        let predicted: Vec<u32> = pairs.into_iter().map(|(_, class)| class).collect();
        Ok(Evaluation::new(self.inputs.labels, &nodes, &predicted))
    }
}

/// One rank's model, the labels that it learns from and those that say when training ends.
struct ClassTrainer<'a> {
    job: &'a WholeJob<'a>,
    model: Model<'a>,
    targets: Targets,
    /// With patience.
    valid: Option<Targets>,
    /// The model on a device that is no host; that of the host is stale while epochs run.
    device: Option<DeviceModel>,
}

impl<'a> ClassTrainer<'a> {
    /// A rank's part before the first step.
    fn new(job: &'a WholeJob<'a>, rank: usize) -> Result<ClassTrainer<'a>, Error> {
        let context = RankContext {
            config: job.inputs.config,
            layout: &job.layout,
            rank,
            n_classes: job.inputs.labels.n_classes(),
        };
        let of_labels = |labels: &[(u32, u32)]| {
            let targets = job.layout.targets(context.rank, labels);
            targets.weighted(
                job.inputs.config.class_weights,
                &job.train,
                context.n_classes,
            )
        };
        Ok(ClassTrainer {
            job,
            model: Model::new(Network::new(context)?),
            targets: of_labels(&job.train),
            valid: (!job.valid.is_empty()).then(|| of_labels(&job.valid)),
            device: None,
        })
    }

    /// Refuses a budget that this rank does not fit in.
    fn check_device(&mut self, kind: DeviceKind) -> Result<(), Error> {
        let labels = LabelSets {
            train: &self.targets,
            valid: self.valid.as_ref(),
        };
        let network = &mut self.model.network;
        let limit = self.job.inputs.options.budget_per_device;
        DevicePlan::new(kind, network, &labels, limit).map(drop)
    }

    /// Copies the model to the device of the epochs, after `n_steps` of them.
    fn begin_on_device(&mut self, device: &Device, n_steps: u32) -> Result<(), Error> {
        if !device.is_host() {
            let labels = LabelSets {
                train: &self.targets,
                valid: self.valid.as_ref(),
            };
            let network = &mut self.model.network;
            let limit = self.job.inputs.options.budget_per_device;
            self.device = Some(DeviceModel::new(device, network, &labels, n_steps, limit)?);
        }
        Ok(())
    }

    /// An epoch on the host: forward, loss, backward, step.
    fn epoch_on_host(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<Step, Error> {
        let timer = Timer::wall();
        let network = &mut self.model.network;
        network.forward(ranks, Some(epoch))?;
        let mut gradient = network.logits_gradient();
        let logits = network.logits();
        let n_classes = self.job.inputs.labels.n_classes() as usize;
        let scores = self
            .targets
            .score(logits, n_classes, Some(&mut gradient), ranks)?;
        if !scores.loss.is_finite() {
            return Err(diverged());
        }
        let forward_ms = timer.elapsed_s() * 1e3;
        network.backward(ranks, gradient, epoch + 1)?;
        let scores = ValidScores {
            accuracy: share_of_right(&scores.predicted, &self.job.train),
            loss: scores.loss,
        };
        Ok(Step { scores, forward_ms })
    }

    /// The scores of the nodes to validate on by the parameters of now, which are kept where they
    /// are the best; none without patience.
    fn validate(&mut self, ranks: &mut RankComm<'_>) -> Result<Option<ValidScores>, Error> {
        if let Some(device) = &mut self.device {
            let scores = device.validate(ranks)?;
            if let Some(scores) = scores.filter(|scores| self.model.is_best(scores)) {
                device.keep_best();
                self.model.put_best(scores, Params::default());
            }
            return Ok(scores);
        }
        let Some(valid) = &self.valid else {
            return Ok(None);
        };
        let network = &mut self.model.network;
        network.forward(ranks, None)?;
        let n_classes = self.job.inputs.labels.n_classes() as usize;
        let found = valid.score(network.logits(), n_classes, None, ranks)?;
        let scores = ValidScores {
            accuracy: share_of_right(&found.predicted, &self.job.valid),
            loss: found.loss,
        };
        self.model.keep_best(scores);
        Ok(Some(scores))
    }
}

/// The share of predictions that are the classes of labels.
pub(super) fn share_of_right(predicted: &[u32], labels: &[(u32, u32)]) -> f64 {
    let pairs = predicted.iter().zip(labels);
    let n_right = pairs.filter(|(predicted, (_, class))| *predicted == class);
    n_right.count() as f64 / labels.len().max(1) as f64
}

impl EpochTrainer for ClassTrainer<'_> {
    type Report = EpochReport;

    /// A step, then the nodes to validate on.
    fn epoch(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<EpochReport, Error> {
        let timer = Timer::wall();
        let Step { scores, forward_ms } = match &mut self.device {
            None => self.epoch_on_host(epoch, ranks)?,
            Some(device) => device.step(epoch + 1, ranks)?,
        };
        let epoch_ms = timer.elapsed_s() * 1e3;
        self.model.epochs_done = epoch + 1;
        Ok(EpochReport {
            step: u64::from(epoch) + 1,
            loss: scores.loss,
            train_accuracy: scores.accuracy,
            valid: self.validate(ranks)?,
            forward_ms,
            backward_ms: epoch_ms - forward_ms,
        })
    }

    fn scalars(report: &EpochReport) -> Vec<(&'static str, f32)> {
        report.scalars()
    }

    fn is_stopped(&self) -> bool {
        self.model.has_waited(self.job.inputs.config.patience)
    }

    /// Takes the parameters over from a device first.
    fn check_finite(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        if let Some(device) = &self.device {
            if let Some(best) = device.best()? {
                self.model.set_best(&best);
            }
            device.store(&mut self.model.network)?;
        }
        self.model.network.check_finite(ranks)
    }

    fn checkpoint(
        &mut self,
        _epochs_done: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error> {
        let run = Run::new(self.job.inputs);
        self.model.checkpoint(run, &self.job.outputs, ranks)
    }
}

/// The likeliest class of nodes, which ascend and are among the network's outputs.
fn classes(
    network: &mut Network<'_>,
    nodes: &[u32],
    ranks: &mut RankComm<'_>,
) -> Result<Vec<u32>, Error> {
    network.forward(ranks, None)?;
    let n_classes = network.layers.last().map_or(0, |layer| layer.width);
    let unlabelled: Vec<(u32, u32)> = nodes.iter().map(|&node| (node, 0)).collect();
    let targets = network.layout.targets(network.rank, &unlabelled);
    let scores = targets.score(network.logits(), n_classes, None, ranks)?;
    Ok(scores.predicted)
}

/// The likeliest class of nodes in any order by a saved model, on one rank.
pub(super) fn predict(
    graph: &RelationalGraph,
    saved: &Saved,
    nodes: &[u32],
    deadline: Timeout,
) -> Result<Vec<u32>, Error> {
    let predicted = probabilities(graph, saved, nodes, deadline)?;
    Ok(predicted.into_iter().map(|of| of.class).collect())
}

/// The probabilities of all classes of nodes in any order by a saved model, on one rank.
pub(super) fn probabilities(
    graph: &RelationalGraph,
    saved: &Saved,
    nodes: &[u32],
    deadline: Timeout,
) -> Result<Vec<Prediction>, Error> {
    let n_nodes = graph.n_nodes();
    if let Some(node) = nodes.iter().find(|&&node| node >= n_nodes) {
        let message = format!("node {node}: expected a node below {n_nodes}");
        return Err(Error::new(Error::Graph, message));
    }
    let mut wanted = nodes.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    if saved.config.batch > 0 {
        return batches::probabilities(graph, saved, nodes);
    }
    let predicted = with_network(graph, saved, &wanted, deadline, |network| {
        let unlabelled: Vec<(u32, u32)> = wanted.iter().map(|&node| (node, 0)).collect();
        let targets = network.layout.targets(network.rank, &unlabelled);
        targets.probabilities(network.logits(), saved.n_classes as usize)
    })?;
    let of = |node: &u32| {
        let found = wanted
            .binary_search(node)
            .ok()
            .and_then(|idx| predicted.get(idx));
        let (class, probabilities) = found.cloned().unwrap_or_default();
        Prediction {
            class,
            probabilities,
        }
    };
    Ok(nodes.iter().map(of).collect())
}

/// The units of the last hidden layer of all nodes by a saved model, on one rank.
pub(super) fn hidden_units(
    graph: &RelationalGraph,
    saved: &Saved,
    deadline: Timeout,
) -> Result<NodeUnits, Error> {
    let Some(&width) = saved.config.hidden.last() else {
        let expected = "one hidden layer or more, whose units are asked for";
        return Err(Error::config("hidden", "none", expected));
    };
    let all: Vec<u32> = (0..graph.n_nodes()).collect();
    with_network(graph, saved, &all, deadline, |network| {
        let layer = network.layers.len() - 2;
        let set = &network.layout.sets[layer + 1];
        let mut values = vec![0.0; all.len() * width];
        for (place, units) in network.activations[layer].chunks_exact(width).enumerate() {
            let at = set.node(place) as usize * width;
            values[at..at + width].copy_from_slice(units);
        }
        NodeUnits { width, values }
    })
}

/// Runs `body` with a saved model after a pass forward to the nodes that are wanted, which ascend.
fn with_network<R>(
    graph: &RelationalGraph,
    saved: &Saved,
    wanted: &[u32],
    deadline: Timeout,
    body: impl FnOnce(&Network<'_>) -> R,
) -> Result<R, Error> {
    let (config, n_classes) = (&saved.config, saved.n_classes);
    config.check_features(graph)?;
    let extent = Extent::new(config, n_classes, graph, 1, Method::Source);
    let context = |layout| RankContext {
        config,
        layout,
        rank: 0,
        n_classes,
    };
    let mut comm = Comm::solo();
    let ranks = &mut RankComm::new(&mut comm, deadline);
    if config.features {
        // There are no rows but those of this graph, which need not be that of the training.
        let layout = Layout::new(graph, config.self_loop, Some(wanted), extent)?;
        let mut network = Network::new(context(&layout))?;
        saved.load(&mut network, ranks)?;
        network.forward(ranks, None)?;
        return Ok(body(&network));
    }
    let layout = layout_of(graph, config, &saved.outputs, extent)?;
    let wider = layout.with_outputs(Some(wanted));
    let mut network = Network::new(context(&layout))?;
    saved.load(&mut network, ranks)?;
    let mut network = network.for_outputs(&wider, saved.params_epoch())?;
    network.forward(ranks, None)?;
    Ok(body(&network))
}
