//! Training by batches of nodes: a step computes with the neighbourhood of its nodes alone, whole or
//! sampled, so that neither edges' messages nor features of the whole graph are in memory.

use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_device::Timer;
use shardgraph_job::{Checkpoint, RunRecorder};
use shardgraph_random::KeyedRng;

use super::classes::share_of_right;
use super::evaluation::Evaluation;
use super::evaluation::labelled;
use super::execution::Execution;
use super::folder::{Run, Saved};
use super::inputs::{Epochs, Inputs};
use super::memory::DeviceMemory;
use super::model::{Model, Start};
use super::options::RunOptions;
use super::report::{EpochReport, Outcome, Prediction, ValidScores};
use super::run::EpochTrainer;
use super::state::params_hash;
use crate::error::diverged;
use crate::model::comm::RankComm;
use crate::model::frame::Frame;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::loss::Targets;
use crate::model::neighbourhood::{FanOut, Sampler};
use crate::model::network::Network;
use crate::partition::Method;
use crate::{Config, Error, RelationalGraph};

/// Refuses what steps by batches do not do.
pub(super) fn check(options: &RunOptions) -> Result<(), Error> {
    if options.budget_per_device.is_some() {
        let message = "--device-memory: a batch has its neighbourhood alone: leave the budget out";
        return Err(Error::new(Error::Config, message));
    }
    if options.execution != Execution::Grouped {
        let expected = "grouped with --batch: the baseline takes the whole graph";
        return Err(Error::config("execution", options.execution, expected));
    }
    Ok(())
}

/// Runs `body` as the only rank: with what all ranks have whole, and alike.
fn alone<R>(body: impl FnOnce(&mut RankComm<'_>) -> R) -> R {
    body(&mut RankComm::new(&mut Comm::solo(), Timeout::default()))
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

/// One rank's run by batches: trains and evaluates.
///
/// Every rank has all rows and layers, and finds the neighbourhood of a step. They share its
/// messages out, and give each other the rows that they have stepped.
pub(super) fn run(
    inputs: Inputs<'_>,
    comm: &mut Comm,
    start: Start<'_>,
    recorder: Option<RunRecorder>,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let Inputs {
        graph,
        labels,
        config,
        options,
    } = inputs;
    let rows = graph_of_rows(config, graph)?;
    let layout = layout_of_rows(&rows, config, labels.n_classes())?;
    let ranks = &mut RankComm::new(comm, options.deadline);
    let network = network_of_rows(config, &layout, labels.n_classes())?;
    let mut train = labels.train().to_vec();
    train.sort_unstable();
    let mut trainer = BatchTrainer {
        inputs,
        train,
        batches: Batches {
            method: options.partition,
            ..Batches::new(graph, config, labels.n_classes(), Model::new(network))
        },
    };
    let begin = alone(|alone| trainer.batches.model.load(start, alone))?;
    let Epochs { reports, times } =
        inputs.run_epochs(&mut trainer, begin, recorder, ranks, progress)?;
    let best_epoch = trainer.batches.model.take_best();
    let nodes = labelled(labels);
    let predicted = trainer.batches.predict_shared(&nodes, ranks)?;
    let classes: Vec<u32> = predicted.iter().map(|of| of.class).collect();
    let learnt: Vec<u32> = trainer.train.iter().map(|&(node, _)| node).collect();
    let mut batches = trainer.batches;
    let n_bytes = batches.model.network.n_bytes() + batches.peak_bytes;
    let bytes_per_rank = ranks.gather(&[n_bytes])?;
    let (model, params_hash) = alone(|alone| {
        let model = match options.keeps_model {
            false => None,
            true => batches
                .model
                .saved(Run::new(inputs), &learnt, best_epoch, alone)?,
        };
        Ok::<_, Error>((model, params_hash(&mut batches.model.network, alone)?))
    })?;
    Ok(Outcome {
        reports,
        best_epoch,
        evaluation: Evaluation::new(labels, &nodes, &classes),
        params_hash,
        devices: bytes_per_rank
            .iter()
            .map(|&bytes| memory_of(bytes))
            .collect(),
        bytes_per_rank,
        times,
        n_idle_ranks: 0,
        model,
        config: config.clone(),
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
) -> Result<Vec<Prediction>, Error> {
    let rows = graph_of_rows(&saved.config, graph)?;
    let layout = layout_of_rows(&rows, &saved.config, saved.n_classes)?;
    let network = network_of_rows(&saved.config, &layout, saved.n_classes)?;
    let mut model = Model::new(network);
    let start = Start {
        state: Some(&saved.state),
        best: saved.best,
    };
    alone(|alone| model.load(start, alone))?;
    model.take_best();
    let mut batches = Batches::new(graph, &saved.config, saved.n_classes, model);
    alone(|alone| batches.predict_shared(nodes, alone))
}

/// A model over a graph that is computed with batch by batch.
struct Batches<'a> {
    graph: &'a RelationalGraph,
    config: &'a Config,
    n_classes: u32,
    model: Model<'a>,
    sampler: Sampler<'a>,
    /// The partition of a step's messages.
    method: Method,
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
            method: Method::Source,
            peak_bytes: 0,
        }
    }

    /// Runs `body` with the neighbourhood of nodes, which ascend, shared out to `ranks`, and takes
    /// the rows and layers that it leaves on all of them.
    fn with_neighbourhood<R>(
        &mut self,
        nodes: &[u32],
        fan_out: Option<FanOut>,
        ranks: &mut RankComm<'_>,
        body: impl FnOnce(BatchPass<'_, '_>, &mut RankComm<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let n_layers = self.config.hidden.len() + 1;
        let found = self.sampler.neighbourhood(nodes, n_layers, fan_out)?;
        let place = |node: &u32| found.nodes.partition_point(|other| other < node) as u32;
        let outputs: Vec<u32> = nodes.iter().map(place).collect();
        let (rank, n_ranks) = (ranks.comm.rank() as usize, ranks.comm.size());
        let extent = Extent::new(
            self.config,
            self.n_classes,
            &found.graph,
            n_ranks,
            self.method,
        );
        let layout = Layout::new(&found.graph, self.config.self_loop, Some(&outputs), extent)?;
        let context = RankContext {
            config: self.config,
            layout: &layout,
            rank,
            n_classes: self.n_classes,
        };
        let read = (0..layout.sets[0].len()).map(|place| layout.sets[0].node(place));
        let rows: Vec<u32> = read.map(|node| found.nodes[node as usize]).collect();
        let own = &mut self.model.network;
        let own_rows = &rows[layout.places(0, rank)];
        let frame = Frame::new(context)?;
        let features = self.graph.features();
        let input = own.input.gathered(own_rows, features, &frame.storage)?;
        let mut network = frame.network(std::mem::take(&mut own.layers), input);
        let pass = BatchPass {
            network: &mut network,
            outputs: &outputs,
        };
        let result = body(pass, ranks);
        self.peak_bytes = self.peak_bytes.max(network.n_bytes());
        own.layers = std::mem::take(&mut network.layers);
        let result = result?;
        let places = (0..n_ranks as usize).map(|rank| layout.places(0, rank).len());
        let counts: Vec<usize> = places.collect();
        own.input.scatter(&rows, &counts, &network.input, ranks)?;
        Ok(result)
    }

    /// The classes of nodes in any order, from their whole neighbourhoods; ranks take turns at the
    /// batches, and all have all answers.
    fn predict_shared(
        &mut self,
        nodes: &[u32],
        ranks: &mut RankComm<'_>,
    ) -> Result<Vec<Prediction>, Error> {
        let mut wanted = nodes.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let (rank, n_ranks) = (ranks.comm.rank() as usize, ranks.comm.size() as usize);
        let batches: Vec<&[u32]> = wanted.chunks(self.config.batch.max(1) as usize).collect();
        let mut own = Vec::new();
        for batch in batches.iter().skip(rank).step_by(n_ranks) {
            for (class, probabilities) in alone(|alone| self.predict(batch, alone))? {
                own.push(u64::from(class));
                own.extend(probabilities.iter().map(|p| p.to_bits()));
            }
        }
        let width = 1 + self.n_classes as usize;
        let of_rank = |rank: usize| batches.iter().skip(rank).step_by(n_ranks);
        let counts = (0..n_ranks).map(|rank| of_rank(rank).map(|batch| width * batch.len()).sum());
        let counts: Vec<usize> = counts.collect();
        let mut all = vec![0u64; width * wanted.len()];
        ranks.run(Op::AllGatherV {
            send: (&own).into(),
            recv: (&mut all).into(),
            counts: &counts,
        })?;
        // The answers stand by rank, each rank's in the order of its batches.
        let in_order: Vec<u32> = (0..n_ranks)
            .flat_map(of_rank)
            .copied()
            .flatten()
            .copied()
            .collect();
        let mut rows: Vec<(u32, &[u64])> =
            in_order.into_iter().zip(all.chunks_exact(width)).collect();
        rows.sort_unstable_by_key(|&(node, _)| node);
        let of = |node: &u32| {
            let (_, row) = rows[wanted.partition_point(|other| other < node)];
            Prediction {
                class: row[0] as u32,
                probabilities: row[1..].iter().map(|&bits| f64::from_bits(bits)).collect(),
            }
        };
        Ok(nodes.iter().map(of).collect())
    }

    /// The likeliest class and all probabilities of nodes, which ascend.
    fn predict(
        &mut self,
        batch: &[u32],
        alone: &mut RankComm<'_>,
    ) -> Result<Vec<(u32, Vec<f64>)>, Error> {
        let n_classes = self.n_classes as usize;
        self.with_neighbourhood(batch, None, alone, |pass, alone| {
            pass.network.forward(alone, None)?;
            let targets = pass.targets(&vec![0; batch.len()]);
            Ok(targets.probabilities(pass.network.logits(), n_classes))
        })
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
        layout.targets(self.network.rank, &labels)
    }
}

/// Training by batches of the nodes to learn from.
struct BatchTrainer<'a> {
    inputs: Inputs<'a>,
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
            .with_neighbourhood(&nodes, Some(fan_out), ranks, |pass, ranks| {
                let targets = pass.targets(&classes);
                let targets = targets.weighted(config.class_weights, train, n_classes);
                let network = pass.network;
                network.forward(ranks, Some(step))?;
                let mut gradient = network.logits_gradient();
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
        let nodes: Vec<u32> = self
            .inputs
            .labels
            .valid()
            .iter()
            .map(|&(node, _)| node)
            .collect();
        let found = self.batches.predict_shared(&nodes, ranks)?;
        let classes: Vec<u32> = found.iter().map(|of| of.class).collect();
        let loss = |(of, (_, class)): (&Prediction, &(u32, u32))| {
            -of.probabilities[*class as usize]
                .max(f64::MIN_POSITIVE)
                .ln()
        };
        let losses = found.iter().zip(self.inputs.labels.valid()).map(loss);
        let scores = ValidScores {
            accuracy: share_of_right(&classes, self.inputs.labels.valid()),
            loss: losses.sum::<f64>() / nodes.len().max(1) as f64,
        };
        self.batches.model.keep_best(scores);
        Ok(Some(scores))
    }
}

impl EpochTrainer for BatchTrainer<'_> {
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
        if ranks.comm.rank() > 0 {
            return Ok(None);
        }
        let run = Run::new(self.inputs);
        let nodes: Vec<u32> = self.train.iter().map(|&(node, _)| node).collect();
        alone(|alone| self.batches.model.checkpoint(run, &nodes, alone))
    }
}
