//! The loop of one rank: epochs, checkpoints, and what the model says at the end.

use std::borrow::Borrow;
use std::ops::Range;

use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::Timer;

use super::due::Due;
use super::evaluation::{held_out, labelled};
use super::folder::{RunFolder, Saved};
use super::memory::{self, DeviceMemory, Here};
use super::state::{State, gather, params_hash};
use super::{EpochReport, Evaluation, Outcome, RunOptions};
use crate::config::{Config, Execution, MAX_WIDTH, Mode};
use crate::model::loss::Targets;
use crate::model::network::{Network, Peers, diverged, max_blocks};
use crate::model::plan::{Extent, Layout};
use crate::partition::{CostModel, Method};
use crate::{Error, ErrorKind, Labels, RelationalGraph};

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
    Err(Error::new(ErrorKind::Labels, message))
}

/// Refuses settings and labels that cannot be right.
pub(super) fn check(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
) -> Result<(), Error> {
    config.check()?;
    config.check_features(graph)?;
    labels.check_nodes(graph)?;
    check_classes(labels, config)
}

/// What all ranks of a run share.
pub(super) struct Job<'a> {
    labels: &'a Labels,
    config: &'a Config,
    layout: Layout<'a>,
    /// Of the labelled nodes that are none to learn from, where epochs do not work on them.
    evaluated: Option<Layout<'a>>,
    /// Training labels in the order of the nodes.
    train: Vec<(u32, u32)>,
    deadline: Deadline,
    checkpoint_epochs: u32,
    checkpoint_s: Option<f64>,
}

/// The layout of a run that learns from `train`.
fn layout_of<'a>(
    graph: &'a RelationalGraph,
    config: &Config,
    (train, n_classes): (&[u32], u32),
    (n_ranks, method): (u32, Method),
) -> Result<Layout<'a>, Error> {
    let extent = Extent {
        n_layers: config.hidden.len() + 1,
        n_ranks: n_ranks as usize,
        max_blocks: max_blocks(
            config,
            n_classes,
            graph.n_relations() as usize + usize::from(config.self_loop),
        ),
        normaliser: config.normaliser,
        method,
        model: CostModel::of(config),
    };
    let outputs = match config.mode {
        Mode::Full => None,
        Mode::Pruned => Some(train),
    };
    Layout::new(graph, config.self_loop, outputs, extent)
}

impl<'a> Job<'a> {
    /// Finds out what each rank will do.
    pub(super) fn new(
        graph: &'a RelationalGraph,
        labels: &'a Labels,
        config: &'a Config,
        (options, here): (&RunOptions, Here),
    ) -> Result<Job<'a>, Error> {
        let mut train = labels.train().to_vec();
        train.sort_unstable();
        let nodes: Vec<u32> = train.iter().map(|&(node, _)| node).collect();
        let n_classes = labels.n_classes();
        let cut = (options.n_ranks, options.partition);
        let mut layout = layout_of(graph, config, (&nodes, n_classes), cut)?;
        if config.features && options.budget_per_device.is_some() {
            let message =
                "budget_per_device: features are not taken in tiles: leave the budget out";
            return Err(Error::new(ErrorKind::Config, message));
        }
        layout.budget = options.budget_per_device;
        let has_budget = options.budget_per_device.is_some();
        let dealt = (options.n_ranks, options.partition, has_budget);
        options.execution.check(config, dealt)?;
        layout.builds_weights = options.execution == Execution::Paper;
        let evaluated = match config.mode {
            Mode::Full => None,
            Mode::Pruned => Some(layout.with_outputs(Some(&held_out(labels)))),
        };
        let layouts: Vec<&Layout<'_>> = [&layout].into_iter().chain(&evaluated).collect();
        memory::check(config, &layouts, (options, n_classes), here)?;
        Ok(Job {
            labels,
            config,
            layout,
            evaluated,
            train,
            deadline: options.deadline,
            checkpoint_epochs: options.checkpoint_epochs,
            checkpoint_s: options.checkpoint_s,
        })
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// One rank's run, from the beginning or a state.
    pub(super) fn run(
        &self,
        comm: &mut Comm,
        state: Option<impl Borrow<State>>,
        folder: Option<&mut RunFolder>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Outcome, Error> {
        let rank = comm.rank() as usize;
        let is_kept = self.is_kept(comm, folder.is_some())?;
        let peers = &mut Peers {
            comm,
            deadline: self.deadline,
        };
        let mut network = Network::new(self.config, &self.layout, rank, self.labels.n_classes())?;
        let begin = match state {
            None => 0,
            Some(state) => state.borrow().load(&mut network, peers)?,
        };
        let reports = self.epochs(&mut network, (begin, is_kept), folder, peers, progress)?;
        network.check_finite(peers)?;
        let params_hash = params_hash(&mut network, peers)?;
        let bytes_per_rank = vec![network.n_bytes()];
        let own = DeviceMemory::of(&network, reports.len());
        let devices = own.gather(peers.comm, self.deadline)?;
        let evaluation = self.evaluate(network, peers)?;
        Ok(Outcome {
            config: self.config.clone(),
            reports,
            evaluation,
            params_hash,
            bytes_per_rank,
            devices,
            n_idle_ranks: self.layout.n_idle_ranks,
        })
    }

    /// The epochs from `begin` on, with what goes to the folder of a run that is kept.
    fn epochs(
        &self,
        network: &mut Network<'_>,
        (begin, is_kept): (u32, bool),
        mut folder: Option<&mut RunFolder>,
        peers: &mut Peers<'_>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Vec<EpochReport>, Error> {
        let rank = peers.comm.rank() as usize;
        let targets = self.targets(&self.layout, &self.train, rank);
        let n_epochs = self.config.epochs;
        let mut due = Due::new(n_epochs, self.checkpoint_epochs, self.checkpoint_s);
        let mut reports = Vec::new();
        for epoch in begin..n_epochs {
            let report = self.epoch(network, &targets, epoch, peers)?;
            if let Some(folder) = &mut folder {
                folder.append(&report)?;
            }
            progress(&report);
            reports.push(report);
            let n_done = epoch + 1;
            if is_kept && due.is_now(n_done, peers)? {
                due.keep(|| self.keep(network, folder.as_deref_mut(), n_done, peers))?;
            }
        }
        Ok(reports)
    }

    /// Writes a checkpoint after so many epochs, where there is a folder: rank 0 has it, and all give their part.
    fn keep(
        &self,
        network: &mut Network<'_>,
        folder: Option<&mut RunFolder>,
        n_done: u32,
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        network.check_finite(peers)?;
        let state = gather(network, n_done, peers)?;
        match (folder, state) {
            (Some(folder), Some(state)) => folder.checkpoint(&state, self.config, self.labels),
            _ => Ok(()),
        }
    }

    /// Whether there is a folder, which rank 0 alone has.
    fn is_kept(&self, comm: &mut Comm, has_folder: bool) -> Result<bool, Error> {
        let mut flag = [u32::from(has_folder)];
        let op = shardgraph_collectives::Op::Broadcast {
            buf: (&mut flag).into(),
            root: 0,
        };
        comm.run(op, self.deadline)?;
        Ok(flag[0] == 1)
    }

    fn targets(&self, layout: &Layout<'_>, labels: &[(u32, u32)], rank: usize) -> Targets {
        let last = layout.n_layers();
        Targets::new(labels, &layout.sets[last], &places_of_ranks(layout), rank)
    }

    /// One epoch: forward, loss, backward, step.
    fn epoch(
        &self,
        network: &mut Network<'_>,
        targets: &Targets,
        epoch: u32,
        peers: &mut Peers<'_>,
    ) -> Result<EpochReport, Error> {
        let timer = Timer::wall();
        network.forward(peers, Some(epoch))?;
        let logits = &network.made[network.layers.len() - 1];
        let mut gradient = vec![0.0; logits.len()];
        let n_classes = self.labels.n_classes() as usize;
        let scores = targets.score(logits, n_classes, Some(&mut gradient), peers)?;
        if !scores.loss.is_finite() {
            return Err(diverged());
        }
        let forward_ms = timer.elapsed_s() * 1e3;
        network.backward(peers, gradient, epoch + 1)?;
        let right = scores.predicted.iter().zip(&self.train);
        let n_right = right
            .filter(|(predicted, (_, class))| *predicted == class)
            .count();
        Ok(EpochReport {
            step: u64::from(epoch) + 1,
            loss: scores.loss,
            train_accuracy: n_right as f64 / self.train.len() as f64,
            forward_ms,
            backward_ms: timer.elapsed_s() * 1e3 - forward_ms,
        })
    }

    /// What the trained model says of all labelled nodes.
    fn evaluate(
        &self,
        mut network: Network<'_>,
        peers: &mut Peers<'_>,
    ) -> Result<Evaluation, Error> {
        let nodes = labelled(self.labels);
        let Some(layout) = &self.evaluated else {
            let predicted = classes(&mut network, &nodes, peers)?;
            return Ok(Evaluation::new(self.labels, &nodes, &predicted));
        };
        let learnt: Vec<u32> = self.train.iter().map(|&(node, _)| node).collect();
        let of_learnt = classes(&mut network, &learnt, peers)?;
        let mut wider = network.for_outputs(layout, self.config.epochs)?;
        drop(network);
        let held_out = held_out(self.labels);
        let of_held_out = classes(&mut wider, &held_out, peers)?;
        let mut pairs: Vec<(u32, u32)> = learnt.into_iter().zip(of_learnt).collect();
        pairs.extend(held_out.into_iter().zip(of_held_out));
        pairs.sort_unstable();
        let predicted: Vec<u32> = pairs.into_iter().map(|(_, class)| class).collect();
        Ok(Evaluation::new(self.labels, &nodes, &predicted))
    }
}

/// Each rank's places in what the last layer makes.
fn places_of_ranks(layout: &Layout<'_>) -> Vec<Range<usize>> {
    let ranks = 0..layout.n_ranks();
    ranks
        .map(|rank| layout.places(layout.n_layers(), rank))
        .collect()
}

/// The likeliest class of nodes, which ascend and are among the network's outputs.
fn classes(
    network: &mut Network<'_>,
    nodes: &[u32],
    peers: &mut Peers<'_>,
) -> Result<Vec<u32>, Error> {
    network.forward(peers, None)?;
    let last = network.layers.len() - 1;
    let n_classes = network.layers[last].width;
    let unlabelled: Vec<(u32, u32)> = nodes.iter().map(|&node| (node, 0)).collect();
    let (layout, rank) = (network.layout, network.rank);
    let targets = Targets::new(
        &unlabelled,
        &layout.sets[last + 1],
        &places_of_ranks(layout),
        rank,
    );
    Ok(targets
        .score(&network.made[last], n_classes, None, peers)?
        .predicted)
}

/// The likeliest class of nodes in any order by a saved model, on one rank.
pub(super) fn predict(
    graph: &RelationalGraph,
    saved: &Saved,
    nodes: &[u32],
    deadline: Deadline,
) -> Result<Vec<u32>, Error> {
    let n_nodes = graph.n_nodes();
    if let Some(node) = nodes.iter().find(|&&node| node >= n_nodes) {
        let message = format!("node {node}: expected a node below {n_nodes}");
        return Err(Error::new(ErrorKind::Graph, message));
    }
    saved.config.check_features(graph)?;
    let mut wanted = nodes.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let layout = layout_of(
        graph,
        &saved.config,
        (&saved.train_nodes, saved.n_classes()),
        (1, Method::Source),
    )?;
    let wider = layout.with_outputs(Some(&wanted));
    let mut comm = Comm::solo();
    let peers = &mut Peers {
        comm: &mut comm,
        deadline,
    };
    let mut network = Network::new(&saved.config, &layout, 0, saved.n_classes())?;
    saved.state.load(&mut network, peers)?;
    let mut network = network.for_outputs(&wider, saved.state.epochs_done)?;
    let predicted = classes(&mut network, &wanted, peers)?;
    let of_node = |node: &u32| {
        wanted
            .binary_search(node)
            .map(|at| predicted[at])
            .unwrap_or(0)
    };
    Ok(nodes.iter().map(of_node).collect())
}
