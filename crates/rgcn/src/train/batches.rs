//! Training by batches of nodes: a step computes with the neighbourhood of its nodes alone, whole or
//! sampled, so that neither edges' messages nor features of the whole graph are in memory.

use shardgraph_collectives::Comm;
use shardgraph_device::Timer;
use shardgraph_job::Checkpoint;
use shardgraph_random::KeyedRng;

use super::classes::share_of_right;
use super::evaluation::labelled;
use super::folder::{Begun, Run, Saved};
use super::memory::DeviceMemory;
use super::model::{Model, Start};
use super::run::{self, Trainer};
use super::schedule::CheckpointSchedule;
use super::state::params_hash;
use super::{EpochReport, Evaluation, Outcome, Prediction, RankTime, RunOptions, ValidScores};
use crate::error::diverged;
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::loss::Targets;
use crate::model::neighbourhood::{FanOut, Sampler};
use crate::model::network::Network;
use crate::partition::Method;
use crate::{Config, Error, Labels, RelationalGraph};

/// Refuses what steps by batches do not do.
pub(super) fn check(config: &Config, options: &RunOptions) -> Result<(), Error> {
    if options.n_ranks > 1 {
        let expected = "1 with --batch: a step is one rank's";
        return Err(Error::config("ranks", options.n_ranks, expected));
    }
    if options.budget_per_device.is_some() {
        let message =
            "budget_per_device: a batch has its neighbourhood alone: leave the budget out";
        return Err(Error::new(Error::Config, message));
    }
    options.execution.check(config, options)
}

/// The nodes whose rows a model has: those of a graph, but for given features none.
fn graph_of_rows(config: &Config, graph: &RelationalGraph) -> Result<RelationalGraph, Error> {
    let n_nodes = if config.features { 0 } else { graph.n_nodes() };
    RelationalGraph::new(n_nodes, graph.n_relations(), vec![], vec![], vec![])
}

/// The layout of those rows: no edge, and all nodes, because of their self loops.
fn layout_of_rows<'g>(
    rows: &'g RelationalGraph,
    config: &Config,
    n_classes: u32,
) -> Result<Layout<'g>, Error> {
    let extent = Extent::new(config, n_classes, rows, 1, Method::Source);
    Layout::new(rows, true, None, extent)
}

/// A network that has all rows and no message.
fn network_of_rows<'a>(
    config: &'a Config,
    layout: &'a Layout<'a>,
    n_classes: u32,
) -> Result<Network<'a>, Error> {
    Network::new(RankContext {
        config,
        layout,
        rank: 0,
        n_classes,
    })
}

/// Trains by batches and evaluates.
pub(super) fn train(
    graph: &RelationalGraph,
    labels: &Labels,
    begun: Begun,
    options: &RunOptions,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let Begun {
        config,
        mut folder,
        state,
        best,
    } = begun;
    let rows = graph_of_rows(&config, graph)?;
    let layout = layout_of_rows(&rows, &config, labels.n_classes())?;
    let mut comm = Comm::solo();
    let ranks = &mut RankComm::new(&mut comm, options.deadline);
    let network = network_of_rows(&config, &layout, labels.n_classes())?;
    let mut train = labels.train().to_vec();
    train.sort_unstable();
    let mut trainer = BatchTrainer {
        labels,
        options,
        train,
        batches: Batches::new(graph, &config, labels.n_classes(), Model::new(network)),
    };
    let begin = trainer.batches.model.load(Start { state, best }, ranks)?;
    let schedule = CheckpointSchedule::new(
        config.epochs,
        options.checkpoint_epochs,
        options.checkpoint_s,
    );
    let timer = Timer::wall();
    let reports = match trainer.is_stopped() {
        false => run::run(
            &mut trainer,
            begin,
            schedule,
            folder.as_mut(),
            ranks,
            progress,
        )?,
        true => Vec::new(),
    };
    let epochs_seconds = timer.elapsed_s();
    let mut batches = trainer.batches;
    let best_epoch = batches.model.take_best();
    let nodes = labelled(labels);
    let predicted = batches.predict(&nodes, ranks)?;
    let classes: Vec<u32> = predicted.iter().map(|of| of.class).collect();
    let learnt: Vec<u32> = trainer.train.iter().map(|&(node, _)| node).collect();
    let model = match options.keeps_model {
        false => None,
        true => {
            let run = Run::new(graph, labels, &config, options);
            batches.model.saved(run, &learnt, best_epoch, ranks)?
        }
    };
    let n_bytes = batches.model.network.n_bytes() + batches.peak_bytes;
    Ok(Outcome {
        reports,
        best_epoch,
        evaluation: Evaluation::new(labels, &nodes, &classes),
        params_hash: params_hash(&mut batches.model.network, ranks)?,
        bytes_per_rank: vec![n_bytes],
        times: vec![RankTime {
            epochs_seconds,
            exchange_seconds: 0.0,
        }],
        devices: vec![memory_of(n_bytes)],
        n_idle_ranks: 0,
        model,
        config,
    })
}

/// The memory of one device that held `n_bytes`: what a neighbourhood takes is not predicted.
fn memory_of(n_bytes: u64) -> DeviceMemory {
    DeviceMemory {
        predicted_bytes: n_bytes,
        peak_bytes: n_bytes,
        tiles: 1,
        ..DeviceMemory::default()
    }
}

/// The probabilities of all classes of nodes in any order by a model that was trained by batches.
pub(super) fn probabilities(
    graph: &RelationalGraph,
    saved: &Saved,
    nodes: &[u32],
    ranks: &mut RankComm<'_>,
) -> Result<Vec<Prediction>, Error> {
    let rows = graph_of_rows(&saved.config, graph)?;
    let layout = layout_of_rows(&rows, &saved.config, saved.n_classes)?;
    let network = network_of_rows(&saved.config, &layout, saved.n_classes)?;
    let mut model = Model::new(network);
    let start = Start {
        state: Some(&saved.state),
        best: saved.best,
    };
    model.load(start, ranks)?;
    let mut batches = Batches::new(graph, &saved.config, saved.n_classes, model);
    batches.model.take_best();
    batches.predict(nodes, ranks)
}

/// A model over a graph that is computed with batch by batch.
struct Batches<'a> {
    graph: &'a RelationalGraph,
    config: &'a Config,
    n_classes: u32,
    model: Model<'a>,
    sampler: Sampler<'a>,
    /// The most bytes of a neighbourhood's network until now.
    peak_bytes: u64,
}

/// One step's network over a neighbourhood, and the places of the batch's nodes in it.
struct BatchPass<'p, 'n> {
    network: &'p mut Network<'n>,
    outputs: &'p [u32],
}

impl<'a> Batches<'a> {
    fn new(
        graph: &'a RelationalGraph,
        config: &'a Config,
        n_classes: u32,
        model: Model<'a>,
    ) -> Batches<'a> {
        Batches {
            graph,
            config,
            n_classes,
            model,
            sampler: Sampler::new(graph),
            peak_bytes: 0,
        }
    }

    /// Runs `body` with the neighbourhood of nodes, which ascend, and takes the rows and layers that
    /// it leaves.
    fn with_neighbourhood<R>(
        &mut self,
        nodes: &[u32],
        fan_out: Option<FanOut>,
        body: impl FnOnce(BatchPass<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let n_layers = self.config.hidden.len() + 1;
        let found = self.sampler.neighbourhood(nodes, n_layers, fan_out)?;
        let place = |node: &u32| found.nodes.partition_point(|other| other < node) as u32;
        let outputs: Vec<u32> = nodes.iter().map(place).collect();
        let extent = Extent::new(self.config, self.n_classes, &found.graph, 1, Method::Source);
        let layout = Layout::new(&found.graph, self.config.self_loop, Some(&outputs), extent)?;
        let context = RankContext {
            config: self.config,
            layout: &layout,
            rank: 0,
            n_classes: self.n_classes,
        };
        let read = (0..layout.sets[0].len()).map(|place| layout.sets[0].node(place));
        let rows: Vec<u32> = read.map(|node| found.nodes[node as usize]).collect();
        let own = &mut self.model.network;
        let input = own.input.gathered(&rows, self.graph.features())?;
        let layers = std::mem::take(&mut own.layers);
        let mut network = Network::assemble(context, layout.plans(0), layers, input)?;
        let result = body(BatchPass {
            network: &mut network,
            outputs: &outputs,
        });
        self.peak_bytes = self.peak_bytes.max(network.n_bytes());
        own.layers = std::mem::take(&mut network.layers);
        own.input.scatter(&rows, &network.input);
        result
    }

    /// The classes of nodes in any order, from their whole neighbourhoods.
    fn predict(
        &mut self,
        nodes: &[u32],
        ranks: &mut RankComm<'_>,
    ) -> Result<Vec<Prediction>, Error> {
        let mut wanted = nodes.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = Vec::with_capacity(wanted.len());
        for batch in wanted.chunks(self.config.batch.max(1) as usize) {
            let n_classes = self.n_classes as usize;
            found.extend(self.with_neighbourhood(batch, None, |pass| {
                pass.network.forward(ranks, None)?;
                let targets = pass.targets(&vec![0; batch.len()]);
                Ok(targets.probabilities(pass.network.logits(), n_classes))
            })?);
        }
        let of = |node: &u32| {
            let place = wanted.partition_point(|other| other < node);
            let (class, probabilities) = found[place].clone();
            Prediction {
                class,
                probabilities,
            }
        };
        Ok(nodes.iter().map(of).collect())
    }
}

impl BatchPass<'_, '_> {
    /// The labels of the batch's nodes in the network's output.
    fn targets(&self, classes: &[u32]) -> Targets {
        let layout = self.network.layout;
        let labels: Vec<(u32, u32)> = self
            .outputs
            .iter()
            .copied()
            .zip(classes.iter().copied())
            .collect();
        let set = &layout.sets[layout.n_layers()];
        Targets::new(&labels, set, &layout.output_places(), 0)
    }
}

/// Training by batches of the nodes to learn from.
struct BatchTrainer<'a> {
    labels: &'a Labels,
    options: &'a RunOptions,
    /// In the order of the nodes.
    train: Vec<(u32, u32)>,
    batches: Batches<'a>,
}

/// The loss of a batch, and its nodes of the right class.
#[derive(Default)]
struct BatchScore {
    loss: f64,
    n_right: f64,
    /// Milliseconds up to the loss: the neighbourhood and the pass forward.
    forward_ms: f64,
}

impl BatchTrainer<'_> {
    /// One step along the gradient of a batch, whose nodes ascend.
    fn step(
        &mut self,
        batch: &[(u32, u32)],
        step: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<BatchScore, Error> {
        let config = self.batches.config;
        let (nodes, classes): (Vec<u32>, Vec<u32>) = batch.iter().copied().unzip();
        let fan_out = FanOut {
            most: config.fan_out,
            seed: config.seed,
            step,
        };
        let (n_classes, train) = (self.batches.n_classes, &self.train);
        let timer = Timer::wall();
        self.batches
            .with_neighbourhood(&nodes, Some(fan_out), |pass| {
                let targets = pass.targets(&classes);
                let targets = targets.weighted(config.class_weights, train, n_classes);
                let network = pass.network;
                network.forward(ranks, Some(step))?;
                let mut gradient = vec![0.0; network.logits().len()];
                let logits = network.logits();
                let scores =
                    targets.score(logits, n_classes as usize, Some(&mut gradient), ranks)?;
                if !scores.loss.is_finite() {
                    return Err(diverged());
                }
                let forward_ms = timer.elapsed_s() * 1e3;
                network.backward(ranks, gradient, step + 1)?;
                let n = batch.len() as f64;
                Ok(BatchScore {
                    loss: n * scores.loss,
                    n_right: n * share_of_right(&scores.predicted, batch),
                    forward_ms,
                })
            })
    }

    /// The scores of the nodes to validate on; none without patience.
    fn validate(&mut self, ranks: &mut RankComm<'_>) -> Result<Option<ValidScores>, Error> {
        if self.batches.config.patience == 0 {
            return Ok(None);
        }
        let nodes: Vec<u32> = self.labels.valid().iter().map(|&(node, _)| node).collect();
        let found = self.batches.predict(&nodes, ranks)?;
        let classes: Vec<u32> = found.iter().map(|of| of.class).collect();
        let loss = |(of, (_, class)): (&Prediction, &(u32, u32))| {
            -of.probabilities[*class as usize]
                .max(f64::MIN_POSITIVE)
                .ln()
        };
        let losses = found.iter().zip(self.labels.valid()).map(loss);
        let scores = ValidScores {
            accuracy: share_of_right(&classes, self.labels.valid()),
            loss: losses.sum::<f64>() / nodes.len().max(1) as f64,
        };
        self.batches.model.keep_best(scores);
        Ok(Some(scores))
    }
}

impl Trainer for BatchTrainer<'_> {
    type Report = EpochReport;

    /// A pass over the training nodes in the order of the epoch.
    fn epoch(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<EpochReport, Error> {
        let timer = Timer::wall();
        let config = self.batches.config;
        let mut order = self.train.clone();
        KeyedRng::new(config.seed, "rgcn batches", epoch.into()).shuffle(&mut order);
        let batch = config.batch as usize;
        let first = epoch.checked_mul(order.len().div_ceil(batch) as u32);
        let first = first.ok_or_else(|| {
            let expected = "fewer than 2^32 steps in all";
            Error::config("epochs", config.epochs, expected)
        })?;
        let mut sum = BatchScore::default();
        for (step, batch) in (first..).zip(order.chunks_mut(batch)) {
            batch.sort_unstable();
            let score = self.step(batch, step, ranks)?;
            sum.loss += score.loss;
            sum.n_right += score.n_right;
            sum.forward_ms += score.forward_ms;
        }
        let epoch_ms = timer.elapsed_s() * 1e3;
        self.batches.model.epochs_done = epoch + 1;
        let n = self.train.len() as f64;
        Ok(EpochReport {
            step: u64::from(epoch) + 1,
            loss: sum.loss / n,
            train_accuracy: sum.n_right / n,
            valid: self.validate(ranks)?,
            forward_ms: sum.forward_ms,
            backward_ms: epoch_ms - sum.forward_ms,
        })
    }

    fn scalars(report: &EpochReport) -> Vec<(&'static str, f32)> {
        report.scalars()
    }

    fn is_stopped(&self) -> bool {
        self.batches.model.has_waited(self.batches.config.patience)
    }

    fn check_finite(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        self.batches.model.network.check_finite(ranks)
    }

    fn checkpoint(
        &mut self,
        _epochs_done: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error> {
        let Batches { graph, config, .. } = self.batches;
        let run = Run::new(graph, self.labels, config, self.options);
        let nodes: Vec<u32> = self.train.iter().map(|&(node, _)| node).collect();
        self.batches.model.checkpoint(run, &nodes, ranks)
    }
}
