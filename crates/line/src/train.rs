//! Training: from a store to an embedding, order by order, pass by pass, step by step.

mod cell;
mod disk;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod job_tests;
mod journal;
mod options;
mod pager;
mod pipeline;
mod plan;
mod rows;
mod step;
#[cfg(test)]
mod tests;
mod together;
mod turns;

use std::path::Path;

use shardgraph_device::sgns::{self, AliasTable};
use shardgraph_device::{Device, DeviceKind, Timer, free_host_bytes};

use crate::direct::Bounce;
use crate::formats;
use crate::{Config, Embedding, Error, ErrorKind, Mode, Optimiser, Precision, Store};
use cell::Cell;
use journal::{Journal, Position};
use options::Layout;
use pager::{Pager, finished_rows};
use plan::{Planner, Step};
use step::{Clock, Lane, Shared};
use turns::Turns;

pub use journal::{WorkFolderLock, check_work_folder, has_unfinished_run, lock_work_folder};
pub use options::DiskOptions;
pub use pager::DiskUse;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples done, of all orders.
    pub samples: u64,
    /// Samples of the whole run.
    pub n_samples: u64,
}

/// What a run made, and what it took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trained {
    /// The columns of order 1, then those of order 2, as far as each was trained.
    pub embedding: Embedding,
    /// Samples of all orders.
    pub n_samples: u64,
    /// Seconds of all, without reading the graph.
    pub seconds: f64,
    /// Where they went.
    pub work: WorkTime,
}

/// Where the seconds of training went. The first two are summed over threads or streams: with two threads, they may be twice those on the
/// wall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WorkTime {
    /// Reading, shuffling and sending edges.
    pub preparation_s: f64,
    /// Updating rows; on a device, from its own events.
    pub update_s: f64,
    /// The passes on the wall: all but making tables and gathering the answer (with tables on disk, making them is among them).
    pub training_s: f64,
}

impl WorkTime {
    fn of(clock: &Clock) -> WorkTime {
        let [preparation_s, update_s, training_s] = clock.seconds();
        WorkTime {
            preparation_s,
            update_s,
            training_s,
        }
    }
}

impl Trained {
    /// Samples for each second of the passes.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        self.n_samples as f64 / self.work.training_s.max(1e-9)
    }
}

/// Trains an embedding.
///
/// Nodes without an edge keep the small random rows that they began with.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{Config, NodeLabels, Store, train};
///
/// let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]; // two triangles with a bridge
/// let store = Store::from_edges(6, &edges, 1, NodeLabels::numbers(6))?;
/// let config = Config { dim: 8, epochs: 200, ..Config::default() };
/// let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
/// assert_eq!((trained.embedding.n_nodes(), trained.embedding.dim()), (6, 16));
/// assert!(trained.embedding.nearest(0, 2).iter().all(|near| near.node < 3));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// Settings that make no sense, buckets that cannot be read, and what the device fails with; [`ErrorKind::Memory`] for tables that
/// this machine has no memory for, [`ErrorKind::Diverged`] for rows that are no numbers.
///
/// # Complexity
/// [`Config::bytes_per_sample`] of random rows for each of `orders * epochs * E` samples, on `threads` threads, but at most
/// as many as there are parts (half as many for order 1).
///
/// # Determinism
/// On the host the bits depend on the store, the settings and the seed, and not on the number of threads.
///
/// # Source
/// Tang et al., "LINE: Large-scale information network embedding" (WWW 2015).
pub fn train(
    store: &Store,
    config: &Config,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    check(config, device)?;
    check_memory(store, config, free_host_bytes())?;
    let (timer, clock) = (Timer::start(device), Clock::default());
    let mut run = Run {
        store,
        config,
        device,
        layout: Layout::WHOLE,
        clock: &clock,
        progress,
        done: 0,
    };
    let mut values = Vec::new();
    for (at, &order) in config.order.each().iter().enumerate() {
        let place = (config.columns(), at * config.dim);
        match config.precision {
            Precision::Fp32 => run.order::<f32>(order, place, &mut values)?,
            Precision::Fp16 => run.order::<u16>(order, place, &mut values)?,
        }
    }
    let labels = store.labels()?.clone();
    Ok(Trained {
        embedding: Embedding::new(config.columns(), values, labels)?,
        n_samples: run.done,
        seconds: timer.elapsed_s(),
        work: WorkTime::of(&clock),
    })
}

/// As [`train`], with tables on disk and at most `disk.memory` bytes in memory, straight to a .npy file (labels beside it).
///
/// A run that was broken off, even by kill -9, goes on from its last checkpoint when it is started again with the same settings
/// in the same folder, to the same bits. The folder is empty again once the file is written.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{Config, DiskOptions, NodeLabels, Store, formats, train, train_on_disk};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (work, out) = (folder.path().join("work"), folder.path().join("nodes.npy"));
///
/// let store = Store::from_edges(4, &[(0, 1), (1, 2), (2, 3)], 1, NodeLabels::numbers(4))?;
/// let config = Config { dim: 4, ..Config::default() };
/// let (device, options) = (Device::host(), DiskOptions::default());
/// train_on_disk(&store, &config, &device, (&work, &out), &options, &mut |_| {})?;
/// let in_memory = train(&store, &config, &device, &mut |_| {})?;
/// assert_eq!(formats::read(&out, None)?, in_memory.embedding);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// As [`train`]; [`ErrorKind::Memory`] for a limit that is too small, [`ErrorKind::Checkpoint`] for a folder with
/// another run, [`ErrorKind::Deadline`] for a disk that does not answer.
///
/// # Determinism
/// As [`train`]; the bits depend on the memory limit too, because it decides in which order buckets are visited.
pub fn train_on_disk(
    store: &Store,
    config: &Config,
    device: &Device,
    (work, npy): (&Path, &Path),
    disk: &DiskOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<TrainedOnDisk, Error> {
    check(config, device)?;
    disk.check()?;
    let (timer, clock) = (Timer::start(device), Clock::default());
    let layout = Layout::new(store, config, disk)?;
    let mut journal = Journal::open(work, store, config, layout)?;
    let resumed_samples = journal.samples();
    let mut run = Run {
        store,
        config,
        device,
        layout,
        clock: &clock,
        progress,
        done: resumed_samples,
    };
    let mut used = DiskUse::default();
    let n_finished = journal.position().orders;
    for (at, &order) in config.order.each().iter().enumerate().skip(n_finished) {
        match config.precision {
            Precision::Fp32 => {
                run.order_on_disk::<f32>((at, order), &mut journal, &mut used, disk)?
            }
            Precision::Fp16 => {
                run.order_on_disk::<u16>((at, order), &mut journal, &mut used, disk)?
            }
        }
    }
    let (n_samples, seconds) = (run.done - resumed_samples, timer.elapsed_s());
    let job = (store, config, device);
    let memory = disk.memory.saturating_sub(disk.program_bytes);
    export(job, layout, &journal, npy, memory)?;
    journal.finish()?;
    Ok(TrainedOnDisk {
        n_samples,
        resumed_samples,
        seconds,
        work: WorkTime::of(&clock),
        disk: used,
    })
}

/// What a run with tables on disk took.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrainedOnDisk {
    /// Samples of this call.
    pub n_samples: u64,
    /// Samples of the calls before it that were broken off.
    pub resumed_samples: u64,
    /// Seconds of training, without reading the graph and writing the file.
    pub seconds: f64,
    /// Where they went.
    pub work: WorkTime,
    /// What went to and from the disk.
    pub disk: DiskUse,
}

/// Refuses settings that make no sense, or that the device has not.
fn check(config: &Config, device: &Device) -> Result<(), Error> {
    config.check()?;
    if device.kind() == DeviceKind::Host {
        return check_host(config);
    }
    if let Some(most) = config
        .edges_in_flight
        .filter(|&n| (n as usize) < config.queues)
    {
        let expected = format!("{} or more, one for each of the queues", config.queues);
        return Err(Error::config("edges_in_flight", most, &expected));
    }
    if config.optimiser == Optimiser::Adagrad {
        return Err(Error::config("optimiser", "adagrad", "sgd on a device"));
    }
    match (config.mode_on(device.kind()), config.precision) {
        (Mode::Atomic, Precision::Fp16) => {
            let expected = "fp32 tables for it on a device";
            Err(Error::config("mode", "atomic", expected))
        }
        _ => Ok(()),
    }
}

/// Threads that share rows have no batches, and batches have no Adagrad.
fn check_host(config: &Config) -> Result<(), Error> {
    let Some(most) = config.edges_in_flight else {
        return Ok(());
    };
    match (config.mode_on(DeviceKind::Host), config.optimiser) {
        (Mode::Deterministic, Optimiser::Sgd) => Ok(()),
        _ => {
            let expected = "none on the host but in the deterministic mode with sgd";
            Err(Error::config("edges_in_flight", most, expected))
        }
    }
}

/// Refuses tables that the host has no memory for: where a process takes more than there is, the system ends it without a word.
///
/// (Where tables are on a device, the embedding is in host memory all the same.)
fn check_memory(store: &Store, config: &Config, free: Option<u64>) -> Result<(), Error> {
    let n_tables = u64::from(config.order.each().iter().max().copied().unwrap_or(1));
    let row = n_tables * config.row_bytes() + 4 * config.columns() as u64;
    let wanted = u64::from(store.n_nodes()) * row;
    match free {
        Some(free) if free < wanted => {
            let message = format!(
                "tables and embedding take {wanted} bytes, {free} are free: take fewer columns, fp16, or a folder for the tables (`--work`)"
            );
            Err(Error::new(ErrorKind::Memory, message))
        }
        _ => Ok(()),
    }
}

/// Writes the columns of all orders: so many nodes at a time as the memory holds beside a part of a table.
///
/// # Complexity
/// Reads all rows once for each piece of the file, and writes it from front to back: rows lie by degree, the file's by node, and
/// a file that is larger than memory does not take writes at random places.
fn export(
    (store, config, device): (&Store, &Config, &Device),
    layout: Layout,
    journal: &Journal,
    npy: &Path,
    memory: u64,
) -> Result<(), Error> {
    let columns = config.columns();
    let n_rows = rows_of_a_piece(store, config, memory);
    let mut bounce = Bounce::default();
    let fill = |nodes: std::ops::Range<u32>, values: &mut [f32]| -> Result<(), Error> {
        for (at, &order) in config.order.each().iter().enumerate() {
            let mut take = |node: u32, row: &[f32]| {
                if nodes.contains(&node) {
                    let start = (node - nodes.start) as usize * columns + at * config.dim;
                    values[start..][..row.len()].copy_from_slice(row);
                }
                Ok(())
            };
            let all = (store, device, config);
            let place = (layout, &mut bounce);
            match config.precision {
                Precision::Fp32 => finished_rows::<f32>(all, order, place, journal, &mut take)?,
                Precision::Fp16 => finished_rows::<u16>(all, order, place, journal, &mut take)?,
            }
        }
        Ok(())
    };
    formats::write_npy_rows(npy, store, (columns, n_rows), fill)
}

/// Rows of the embedding that fit in memory beside the store's head, what transfers go through and a part of a table; at least what a 16th of the
/// memory holds.
fn rows_of_a_piece(store: &Store, config: &Config, memory: u64) -> u32 {
    let part = u64::from(store.n_nodes()).div_ceil(u64::from(store.n_parts())) * config.row_bytes();
    let held = store.head.held_bytes() + part + Bounce::LEN as u64;
    let left = memory.saturating_sub(held).max(memory / 16);
    (left / (4 * config.columns() as u64)).clamp(1, u64::from(u32::MAX)) as u32
}

/// What all jobs share, and the threads that do them.
type Workers<'w, T> = (&'w Shared<'w>, &'w Turns<'w, T>);

/// A run in progress.
struct Run<'r> {
    store: &'r Store,
    config: &'r Config,
    device: &'r Device,
    layout: Layout,
    clock: &'r Clock,
    progress: &'r mut dyn FnMut(Progress),
    /// Samples of all orders so far.
    done: u64,
}

impl<'r> Run<'r> {
    /// Trains one order in memory, and writes its columns to the rows of all orders.
    fn order<T: Cell>(
        &mut self,
        order: u32,
        place: (usize, usize),
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let planner = self.planner(order)?;
        let shared = self.shared(&planner)?;
        let mut pager = Pager::<T>::in_memory(self.store, self.device, self.config, order)?;
        let clock = self.clock;
        let threads = (shared.n_own_threads(), order as usize - 1);
        turns::with_threads(threads, &|work| shared.job(work), |turns| {
            clock.passes(|| -> Result<(), Error> {
                for pass in 0..self.config.epochs {
                    for step in planner.pass(pass) {
                        self.step((&shared, turns), &mut pager, &step)?;
                    }
                }
                Ok(())
            })
        })?;
        pager.into_values(place, values)
    }

    /// Trains one order, or what is left of it, with its rows on disk.
    fn order_on_disk<T: Cell>(
        &mut self,
        (at, order): (usize, u32),
        journal: &mut Journal,
        used: &mut DiskUse,
        disk: &DiskOptions,
    ) -> Result<(), Error> {
        let start = journal.position();
        let planner = self.planner(order)?;
        let shared = self.shared(&planner)?;
        let job = (self.store, self.device, self.config);
        let state = (&mut *journal, used);
        let mut pager = Pager::<T>::on_disk(job, order, self.layout, state, disk.deadline)?;
        let clock = self.clock;
        let threads = (shared.n_own_threads(), order as usize - 1);
        turns::with_threads(threads, &|work| shared.job(work), |turns| {
            let job = (&planner, (&shared, turns), at);
            clock.passes(|| self.passes_on_disk(job, &mut pager, start, disk))
        })?;
        drop(pager);
        journal.forget(order, 1);
        let orders = at + 1;
        journal.commit(
            Position {
                orders,
                ..Position::default()
            },
            self.done,
        )
    }

    /// All passes of an order from a position on, with states to go on from between steps and at the end.
    fn passes_on_disk<T: Cell>(
        &mut self,
        (planner, workers, orders): (&Planner<'_>, Workers<'_, T>, usize),
        pager: &mut Pager<'_, T>,
        start: Position,
        disk: &DiskOptions,
    ) -> Result<(), Error> {
        let (mut timer, mut pause) = (Timer::wall(), disk.checkpoint_s);
        for pass in start.pass..self.config.epochs {
            let mut steps = planner.pass(pass);
            let first = if pass == start.pass { start.step } else { 0 };
            steps.by_ref().take(first).for_each(drop);
            pager.begin_pass(&steps.visits());
            for (step, todo) in (first + 1..).zip(steps) {
                pager.enter(&todo)?;
                self.step(workers, pager, &todo)?;
                if timer.elapsed_s() >= pause {
                    let took = Timer::wall();
                    pager.checkpoint(Position { orders, pass, step }, self.done)?;
                    pause = disk.pause_after(took.elapsed_s());
                    timer = Timer::wall();
                }
            }
        }
        let (pass, step) = (self.config.epochs, 0);
        pager.checkpoint(Position { orders, pass, step }, self.done)
    }

    fn step<T: Cell>(
        &mut self,
        (shared, turns): Workers<'_, T>,
        pager: &mut Pager<T>,
        step: &Step,
    ) -> Result<(), Error> {
        if shared.has_turns() {
            let home = pager.take_home(step);
            pager.put_home(turns.step(step, home)?);
        } else {
            for round in &step.rounds {
                let jobs = round.iter().map(|job| pager.take(job)).collect();
                for work in shared.round(jobs, self.config.threads)? {
                    pager.put_back(work);
                }
            }
        }
        self.done += step.jobs().map(plan::Job::n_samples).sum::<u64>();
        let n_orders = self.config.order.each().len() as u64;
        (self.progress)(Progress {
            samples: self.done,
            n_samples: n_orders * shared.n_samples,
        });
        Ok(())
    }

    fn planner(&self, order: u32) -> Result<Planner<'r>, Error> {
        let planner = Planner {
            store: self.store,
            order,
            seed: seed_of(self.config, order),
            layout: self.layout,
            has_small_jobs: self.device.kind() != DeviceKind::Host
                || self.config.mode_on(DeviceKind::Host) != Mode::Deterministic,
        };
        planner.check(self.config.epochs)?;
        Ok(planner)
    }

    fn shared(&self, planner: &Planner<'r>) -> Result<Shared<'r>, Error> {
        let mut settings = self.config.settings();
        settings.seed = planner.seed;
        settings.mode = match (self.config.mode_on(self.device.kind()), self.device.kind()) {
            (Mode::Deterministic, DeviceKind::Host) => match self.config.edges_in_flight {
                None => sgns::Mode::Hogwild, // alone with its rows
                Some(batch) => sgns::Mode::Deterministic { batch },
            },
            (Mode::Deterministic, _) => sgns::Mode::Deterministic { batch: BATCH },
            (Mode::Atomic, _) => sgns::Mode::Atomic,
            (Mode::Hogwild, _) => sgns::Mode::Hogwild,
        };
        Ok(Shared {
            store: self.store,
            config: self.config,
            device: self.device,
            settings,
            lanes: self.lanes()?,
            first_rate: self.config.first_rate(),
            n_samples: planner.samples_of_a_pass() * u64::from(self.config.epochs),
            clock: self.clock,
        })
    }

    /// The device's streams; rows of the host have one owner, its threads.
    fn lanes(&self) -> Result<Vec<Lane>, Error> {
        let n_lanes = match self.device.kind() {
            DeviceKind::Host => 1,
            _ => self.config.queues,
        };
        let lane = |_| -> Result<Lane, Error> {
            let device = match self.device.kind() {
                DeviceKind::Host => self.device.clone(),
                _ => self.device.new_stream()?,
            };
            let parts = 0..self.store.n_parts();
            let negatives = parts.map(|part| self.negatives(&device, part));
            let negatives = negatives.collect::<Result<_, _>>()?;
            Ok(Lane { device, negatives })
        };
        (0..n_lanes).map(lane).collect()
    }

    /// The noise of a part: degree^0.75.
    fn negatives(&self, device: &Device, part: u32) -> Result<Option<AliasTable>, Error> {
        let degrees = self.store.degrees_of(part);
        let weights: Vec<f64> = degrees.iter().map(|&d| f64::from(d).powf(0.75)).collect();
        match weights.iter().any(|&weight| weight > 0.0) {
            true => Ok(Some(AliasTable::upload(device, &weights)?)),
            false => Ok(None),
        }
    }
}

/// Samples whose gradients are summed up before a row changes, in the deterministic mode of a device.
const BATCH: u32 = 64;

/// Orders draw from different streams.
fn seed_of(config: &Config, order: u32) -> u64 {
    config
        .seed
        .wrapping_mul(2)
        .wrapping_add(u64::from(order - 1))
}
