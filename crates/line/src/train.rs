//! Training: from edges to an embedding, order by order, pass by pass, step by step.
//!
//! ```text
//! train, train_on_disk -> TableRun -> the loop of job
//!   PlannedRun                  a dry run of the same code: the layout within a limit
//!   TableTrainer                its steps and checkpoints
//!   RunContext, OrderContext    graph, settings, device, streams
//!   PartitionBuffer             rows of the parts in memory
//!     `- DiskBacking            planned swaps -> IoWorker -> files of rows <- TableCheckpoint
//!   softmax                     the other loss, in memory alone
//!   a step: BucketScheduler (threads of the host) | pipeline (devices)
//!     `- bucket_trainer         samples of a bucket -> kernels
//! ```

mod bucket_scheduler;
mod bucket_trainer;
mod budget;
mod checkpoint;
mod clock;
mod context;
mod disk_backing;
mod disk_use;
mod exchange;
mod export;
mod io_worker;
mod metrics;
mod partition_buffer;
mod pipeline;
mod rank_devices;
mod reports;
mod resident_edges;
mod row_files;
mod rows;
mod scalar;
mod softmax;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_budgets;
#[cfg(test)]
mod tests_of_checkpoints;
#[cfg(test)]
mod tests_of_passes;
#[cfg(test)]
mod tests_on_disk;
mod trainer;
mod warm_start;
mod worker_pool;

use std::path::Path;

use shardgraph_device::{Device, DeviceKind, Timer, free_host_bytes};
use shardgraph_graph::Graph;
use shardgraph_job::{Bytes as _, Metrics};

use crate::memory::{Memory, Purpose};
use crate::schedule::Layout;
use crate::{Config, DiskOptions, Embedding, Error, Loss, Mode, Optimiser, Order, Store, Trial};
use budget::{Outputs, PlannedRun};
use checkpoint::TableCheckpoint;
use clock::Clock;
use context::RunContext;
use export::export;
use rank_devices::RankDevices;
use reports::LossSum;
use resident_edges::ResidentEdges;
pub(crate) use softmax::SoftmaxTraining;
use trainer::{RunDisk, TableRun};
use warm_start::WarmStart;

pub use checkpoint::{check_work_folder, has_unfinished_run, lock_work_folder};
pub use clock::WorkTime;
pub use disk_use::DiskUse;
pub use metrics::read_passes;
pub use reports::PassReport;
pub(crate) use reports::row_norm;
pub(crate) use worker_pool::WorkerPool;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress<'t> {
    /// Samples done, of all orders; 0 beside a trial.
    pub samples: u64,
    /// Samples of the whole run; 0 beside a trial.
    pub n_samples: u64,
    /// The pass that has just ended; with the softmax loss, with tables on disk, and where
    /// [`TrainOptions::reports`] asks for it.
    pub pass: Option<PassReport>,
    /// True within a choice, whose number of trials is not known; its samples are those of a trial.
    pub is_choice: bool,
    /// The trial of a choice that has just ended.
    pub trial: Option<&'t Trial>,
}

impl Progress<'_> {
    /// The same within a choice, whose passes are not those of the answer.
    pub(crate) fn of_choice(self) -> Self {
        Self {
            pass: None,
            is_choice: true,
            ..self
        }
    }
}

/// Result of a run, and its cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trained {
    /// The columns of order 1, then those of order 2, as far as each was trained.
    pub embedding: Embedding,
    /// The context table of order 2, where it was asked for: `context[v] . vertex[u]` scores the
    /// edge from u to v.
    pub contexts: Option<Embedding>,
    /// Samples of all orders.
    pub n_samples: u64,
    /// Seconds of all, without reading the graph.
    pub seconds: f64,
    /// Seconds by what they were spent on.
    pub work: WorkTime,
}

impl Trained {
    /// Samples for each second of the passes.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        self.n_samples as f64 / self.work.training_s.max(1e-9)
    }
}

/// What a training starts from, and what it gives besides the embedding.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrainOptions<'o> {
    /// Rows to start from, by label: as many columns as the run's. Nodes that are not there start
    /// at random, and contexts at zero.
    pub init: Option<&'o Embedding>,
    /// True: the context table of order 2 is given too.
    pub contexts: bool,
    /// True: each pass is reported, with its loss. This takes time, and changes no bit.
    pub reports: bool,
}

/// Cost of a run with tables on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrainedOnDisk {
    /// Samples of this call.
    pub n_samples: u64,
    /// Samples of earlier calls that were interrupted.
    pub resumed_samples: u64,
    /// Seconds of training, without reading the graph and writing the file.
    pub seconds: f64,
    /// Seconds by what they were spent on.
    pub work: WorkTime,
    /// Use of the disk.
    pub disk: DiskUse,
}

/// Paths and options of a run whose tables lie on disk.
#[derive(Debug)]
pub struct DiskRun<'p> {
    /// Folder of the tables, the checkpoints and the metrics.
    pub work: &'p Path,
    /// Metrics in another folder, cut back to the step that [`check_work_folder`] gave.
    pub metrics: Option<Metrics>,
    /// The .npy file of the embedding; its labels lie beside it.
    pub npy: &'p Path,
    /// Memory, order and checkpoints.
    pub options: &'p DiskOptions,
}

/// Trains an embedding.
///
/// Nodes without an edge keep their small random first rows.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{Config, NodeLabels, Store, train};
///
/// // Two triangles with a bridge.
/// let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)];
/// let store = Store::from_edges(6, &edges, 1, NodeLabels::numbers(6))?;
/// let config = Config { dim: 8, epochs: 200, ..Config::default() };
/// let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
/// assert_eq!((trained.embedding.n_nodes(), trained.embedding.dim()), (6, 16));
/// assert!(trained.embedding.nearest(0, 2).iter().all(|near| near.node < 3));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// Settings that make no sense, buckets that cannot be read, and failures of the device;
/// [`Error::Memory`] for tables that this machine has no memory for, [`Error::Diverged`] for rows
/// that are no numbers.
///
/// # Complexity
/// [`Config::bytes_per_sample`] of random rows for each of `orders * epochs * E` samples, on
/// `threads` threads, but at most as many as there are parts (half as many for order 1).
///
/// # Determinism
/// On the host the bits depend on the store, the settings and the seed, and not on the number of
/// threads.
///
/// # Source
/// Tang et al., "LINE: Large-scale information network embedding" (WWW 2015).
pub fn train(
    store: &Store,
    config: &Config,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    train_with(store, config, TrainOptions::default(), device, progress)
}

/// As [`train`], from rows of an earlier embedding and with the context table, as asked.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{Config, NodeLabels, Order, Store, TrainOptions, train, train_with};
///
/// let config = Config { order: Order::Second, dim: 4, ..Config::default() };
/// let store = Store::from_edges(3, &[(0, 1), (1, 2)], 1, NodeLabels::numbers(3))?;
/// let earlier = train(&store, &config, &Device::host(), &mut |_| {})?.embedding;
/// // A node more: it starts at random.
/// let store = Store::from_edges(4, &[(0, 1), (1, 2), (2, 3)], 1, NodeLabels::numbers(4))?;
/// let options = TrainOptions { init: Some(&earlier), contexts: true, ..Default::default() };
/// let trained = train_with(&store, &config, options, &Device::host(), &mut |_| {})?;
/// assert_eq!(trained.contexts.unwrap().dim(), 4);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// As [`train`]; [`Error::Setting`] for rows of other columns or of no node, and for contexts
/// without order 2.
pub fn train_with(
    store: &Store,
    config: &Config,
    options: TrainOptions<'_>,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    let run = PlannedRun { store, config };
    train_within(run, options, device, &Memory::default(), progress)
}

/// As [`train_with`], with an account.
fn train_within(
    run: PlannedRun<'_>,
    options: TrainOptions<'_>,
    device: &Device,
    memory: &Memory,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    let PlannedRun { store, config } = run;
    check(config, device)?;
    if options.contexts && config.order == Order::First {
        let expected = "false for order 1, whose table has both ends of an edge";
        return Err(Error::setting("contexts", true, expected));
    }
    check_memory(run, options, free_host_bytes())?;
    let labels = store.labels()?;
    let warm_start = options
        .init
        .map(|rows| WarmStart::new(rows, labels, config));
    let warm_start = warm_start.transpose()?;
    if config.loss == Loss::Softmax {
        return train_softmax(store, config, warm_start.as_ref(), progress);
    }
    let (timer, clock) = (Timer::start(device), Clock::default());
    let _graph = memory.hold(Purpose::Graph, store.held_bytes());
    let losses = options.reports.then(LossSum::default);
    let devices = RankDevices::open(device, config)?;
    let resident = ResidentEdges::new(store, config, &devices, None)?;
    let context = RunContext {
        store,
        config,
        device,
        devices: &devices,
        layout: Layout::WHOLE,
        warm_start: warm_start.as_ref(),
        losses: losses.as_ref(),
        resident: &resident,
        memory,
    };
    let run = TableRun {
        context,
        clock: &clock,
        disk: None,
        wants_contexts: options.contexts,
    };
    let trained = run.train(progress)?;
    devices.close()?;
    let contexts = options.contexts.then_some(trained.contexts);
    let contexts = contexts.map(|rows| Embedding::new(config.dim, rows, labels.clone()));
    Ok(Trained {
        embedding: Embedding::new(config.columns(), trained.values, labels.clone())?,
        contexts: contexts.transpose()?,
        n_samples: trained.samples,
        seconds: timer.finish_s()?,
        work: clock.work_time(),
    })
}

/// Trains by the softmax loss.
fn train_softmax(
    store: &Store,
    config: &Config,
    warm_start: Option<&WarmStart<'_>>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    if store.is_weighted() {
        let expected = "sgns for edges with weights";
        return Err(Error::setting("loss", "softmax", expected));
    }
    let timer = Timer::wall();
    let mut training = SoftmaxTraining::new(&store.graph()?, config, warm_start);
    training.train_to(config.epochs, progress)?;
    let rows = training.rows().to_vec();
    Ok(Trained {
        contexts: None,
        embedding: Embedding::new(config.dim, rows, store.labels()?.clone())?,
        n_samples: training.n_samples(),
        seconds: timer.elapsed_s(),
        work: training.work_time(),
    })
}

/// A training by the softmax loss that can go on, on the host.
///
/// # Errors
/// As [`train`].
pub(crate) fn softmax_training(
    graph: &Graph,
    config: &Config,
    device: &Device,
) -> Result<SoftmaxTraining, Error> {
    check(config, device)?;
    Ok(SoftmaxTraining::new(graph, config, None))
}

/// As [`train`], with tables on disk and bounded memory, straight to a .npy file.
///
/// An interrupted run, even one ended by kill -9, goes on from its last checkpoint when it is
/// started again with the same settings in the same folder, to the same bits. Of the run, the folder
/// has the metrics alone once the file is written: a line for each pass.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{
///     Config, DiskOptions, DiskRun, NodeLabels, Store, formats, train, train_on_disk,
/// };
/// # let folder = tempfile::tempdir().unwrap();
/// # let (work, npy) = (folder.path().join("work"), folder.path().join("nodes.npy"));
///
/// let store = Store::from_edges(4, &[(0, 1), (1, 2), (2, 3)], 1, NodeLabels::numbers(4))?;
/// let config = Config { dim: 4, ..Config::default() };
/// let options = DiskOptions::default();
/// let disk = DiskRun { work: &work, metrics: None, npy: &npy, options: &options };
/// train_on_disk(&store, &config, &Device::host(), disk, &mut |_| {})?;
/// let in_memory = train(&store, &config, &Device::host(), &mut |_| {})?;
/// assert_eq!(formats::read(&npy, None)?, in_memory.embedding);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// As [`train`]; [`Error::Memory`] for a limit that is too small, [`Error::Checkpoint`] for a
/// folder with another run, [`Error::Timeout`] for a disk that does not answer.
///
/// # Determinism
/// As [`train`]; the bits depend on the memory limit too: it decides the order of the buckets.
pub fn train_on_disk(
    store: &Store,
    config: &Config,
    device: &Device,
    disk: DiskRun<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<TrainedOnDisk, Error> {
    let run = PlannedRun { store, config };
    train_on_disk_within(run, device, disk, &Memory::default(), progress)
}

/// As [`train_on_disk`], with an account.
fn train_on_disk_within(
    run: PlannedRun<'_>,
    device: &Device,
    disk: DiskRun<'_>,
    memory: &Memory,
    progress: &mut dyn FnMut(Progress),
) -> Result<TrainedOnDisk, Error> {
    let (PlannedRun { store, config }, options) = (run, disk.options);
    check(config, device)?;
    check_on_disk(config)?;
    options.check()?;
    let (timer, clock) = (Timer::start(device), Clock::default());
    let _graph = memory.hold(Purpose::Graph, store.held_bytes());
    let devices = RankDevices::open(device, config)?;
    let resident = ResidentEdges::new(store, config, &devices, Some(options.memory))?;
    let planned = run.within(options)?;
    let context = RunContext {
        store,
        config,
        device,
        devices: &devices,
        layout: planned.layout,
        warm_start: None,
        losses: None,
        resident: &resident,
        memory,
    };
    let (checkpoint, mut recorder) = TableCheckpoint::open(disk.work, disk.metrics, &context)?;
    let start = checkpoint.position();
    let losses = LossSum::resumed(start.losses);
    let context = RunContext {
        losses: Some(&losses),
        ..context
    };
    let run = TableRun {
        context,
        clock: &clock,
        disk: Some(RunDisk {
            options,
            checkpoint,
            recorder: &mut recorder,
        }),
        wants_contexts: false,
    };
    let trained = run.train(progress)?;
    devices.close()?;
    let seconds = timer.finish_s()?;
    let (checkpoint, used) = trained.files.expect("tables of this run are in files");
    let held_bytes = memory.peak().total(); // the answer takes what is left
    let limit = options.memory.saturating_sub(options.program_bytes);
    export(&context, &checkpoint, disk.npy, limit)?;
    checkpoint.finish(&recorder)?;
    Ok(TrainedOnDisk {
        n_samples: trained.samples - start.samples,
        resumed_samples: start.samples,
        seconds,
        work: clock.work_time(),
        disk: DiskUse {
            predicted_bytes: planned.bytes.total(),
            held_bytes,
            ..used
        },
    })
}

/// Refuses settings that tables on disk do not have.
fn check_on_disk(config: &Config) -> Result<(), Error> {
    match config.loss {
        Loss::Sgns => Ok(()),
        Loss::Softmax => {
            let expected = "sgns with tables on disk (`--work`)";
            Err(Error::setting("loss", "softmax", expected))
        }
    }
}

/// Refuses settings that make no sense, or that the device lacks.
fn check(config: &Config, device: &Device) -> Result<(), Error> {
    config.check()?;
    if device.kind() == DeviceKind::Host {
        return check_host(config);
    }
    if config.loss == Loss::Softmax {
        return Err(Error::setting("loss", "softmax", "sgns on a device"));
    }
    let n_queues = config.queues * config.ranks as usize;
    if let Some(most) = config.edges_in_flight.filter(|&n| (n as usize) < n_queues) {
        let expected = format!("{n_queues} or more, one for each of the queues");
        return Err(Error::setting("edges_in_flight", most, &expected));
    }
    if config.optimiser == Optimiser::Adagrad {
        return Err(Error::setting("optimiser", "adagrad", "sgd on a device"));
    }
    Ok(())
}

/// Threads of the host share no rows, and batches have no Adagrad.
fn check_host(config: &Config) -> Result<(), Error> {
    if config.ranks > 1 {
        let expected = "1 on the host, whose threads share the work";
        return Err(Error::setting("ranks", config.ranks, expected));
    }
    if config.mode == Some(Mode::Hogwild) {
        let expected = "deterministic on the host, whose threads share no rows";
        return Err(Error::setting("mode", "hogwild", expected));
    }
    match config.edges_in_flight {
        Some(most) if config.optimiser == Optimiser::Adagrad => {
            let expected = "none on the host with adagrad";
            Err(Error::setting("edges_in_flight", most, expected))
        }
        _ => Ok(()),
    }
}

/// Refuses a run that the host has no memory for: a process that takes more is ended by the system
/// without a word.
///
/// (Where tables are on a device, the embedding is in host memory all the same.)
fn check_memory(
    run: PlannedRun<'_>,
    options: TrainOptions<'_>,
    free: Option<u64>,
) -> Result<(), Error> {
    let Some(free) = free else {
        return Ok(());
    };
    let outputs = Outputs::InMemory {
        contexts: options.contexts,
        losses: options.reports,
    };
    let n_jobs = run.store.n_parts().min(run.config.threads as u32);
    let held = run.dry_run(Layout::WHOLE, outputs, n_jobs)?.peak();
    let wanted = held.total() - held.graph; // which is there
    match free < wanted {
        true => Err(Error::memory(format!(
            "tables and embedding take {wanted} bytes, {free} are free: take fewer columns, fp16, \
             or a folder for the tables (`--work`)"
        ))),
        false => Ok(()),
    }
}
