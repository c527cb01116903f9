//! Budget of a run: what it holds in memory, by a dry run of its own code, and the layout that keeps to a limit.

use shardgraph_device::Device;
use shardgraph_job::Bytes as _;

use super::checkpoint::TableCheckpoint;
use super::clock::Clock;
use super::context::{OrderContext, RunContext};
use super::disk_backing::DiskBacking;
use super::export::RowsByNode;
use super::partition_buffer::PartitionBuffer;
use super::rank_devices::{RankDevices, TIMEOUT};
use super::reports::LossSum;
use super::resident_edges::ResidentEdges;
use super::scalar::Scalar;
use crate::memory::{Bytes, Held, Memory, Purpose};
use crate::schedule::{BucketPass, Layout, Schedule};
use crate::{Config, DiskOptions, Error, Precision, Store};

/// A run that is planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedRun<'p> {
    pub(super) store: &'p Store,
    pub(super) config: &'p Config,
}

/// A layout, and the most bytes that a run holds with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    pub(super) bytes: Bytes,
}

/// What a run writes besides its tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outputs {
    /// Tables and answer are in memory.
    InMemory { contexts: bool, losses: bool },
    /// Tables are in files, from which the answer is written when all else is gone.
    InFiles,
}

/// Layouts that are compared: beyond, the comparison would take longer than it saves.
const CHOICES: usize = 4;

/// Least parts of a group, where there are enough: threads take the pairs of a step's parts in
/// turn, and one pair would leave all threads but one idle. A constant, since the result must not
/// depend on threads.
const JOBS: u32 = 4;

impl PlannedRun<'_> {
    /// The groups with which a run keeps to its memory and moves the fewest bytes.
    ///
    /// # Errors
    /// [`Error::Memory`] with the least limit, where none do.
    ///
    /// # Complexity
    /// All visits of two passes are gone through, a few times for each number of groups.
    pub(super) fn within(self, options: &DiskOptions) -> Result<Plan, Error> {
        let limit = options.memory.saturating_sub(options.program_bytes);
        let schedule = options.schedule;
        let whole = Layout {
            schedule,
            ..Layout::WHOLE
        };
        let plan = self.on_disk(whole)?;
        if plan.bytes.total() <= limit {
            return Ok(plan);
        }
        let n_parts = self.store.n_parts();
        let (mut first, mut with_jobs) = (None, Vec::new());
        for n_groups in (1..=n_parts.ilog2()).map(|log| 1u32 << log) {
            let Some(fit) = self.fit(schedule, n_groups, limit)? else {
                continue;
            };
            first = first.or(Some(fit));
            // As many jobs go on at a time as a group has parts.
            if n_groups * JOBS > n_parts || with_jobs.len() == CHOICES {
                break;
            }
            with_jobs.push(fit);
        }
        let moved = |plan: &Plan| {
            plan.layout
                .moved_bytes(self.config, self.group_bytes(plan.layout))
        };
        let best = with_jobs.into_iter().min_by_key(moved);
        // Else the fewest groups, for the most jobs.
        if let Some(plan) = best.or(first) {
            return Ok(plan);
        }
        let layout = Layout {
            schedule,
            n_groups: n_parts,
            capacity: 2,
        };
        let least = options.program_bytes + self.on_disk(layout)?.bytes.total();
        Err(Error::memory(format!(
            "memory = {}: this graph in {n_parts} parts takes {least} bytes: raise the limit, \
             or import it in more parts",
            options.memory
        )))
    }

    /// As many groups in memory as fit a limit; none where fewer than two do beside the one on its way.
    fn fit(self, schedule: Schedule, n_groups: u32, limit: u64) -> Result<Option<Plan>, Error> {
        let on_disk = |capacity: u64| {
            self.on_disk(Layout {
                schedule,
                n_groups,
                capacity: capacity as u32,
            })
        };
        let fits = |plan: &Plan| plan.bytes.total() <= limit;
        let mut plan = on_disk(2)?;
        let Some(room) = limit.checked_sub(plan.bytes.total()) else {
            return Ok(None);
        };
        // Groups differ by a row for each part, so this is close, and dry runs settle it.
        let (group, most) = (self.group_bytes(plan.layout), 2 * u64::from(n_groups));
        let mut capacity = (room / group).saturating_add(2).min(most);
        while capacity > 2 {
            let next = on_disk(capacity)?;
            if fits(&next) {
                plan = next;
                break;
            }
            capacity -= 1;
        }
        while capacity < most {
            let next = on_disk(capacity + 1)?;
            if !fits(&next) {
                break;
            }
            (plan, capacity) = (next, capacity + 1);
        }
        Ok(Some(plan))
    }

    /// Mean bytes of a group of a table.
    fn group_bytes(self, layout: Layout) -> u64 {
        let table = u64::from(self.store.n_nodes()) * self.config.row_bytes();
        table.div_ceil(u64::from(layout.n_groups)).max(1)
    }

    fn on_disk(self, layout: Layout) -> Result<Plan, Error> {
        // As many jobs work at a time as a group has parts, and not as there are threads: the layout, and with
        // it the result, must not depend on threads.
        let n_jobs = self.store.n_parts().div_ceil(layout.n_groups);
        let bytes = self.dry_run(layout, Outputs::InFiles, n_jobs)?.peak();
        Ok(Plan { layout, bytes })
    }

    /// The account of a run that is dry.
    ///
    /// Its own code runs on an account without memory: on the host, whatever the device, since rows are as many
    /// bytes there.
    pub(super) fn dry_run(
        self,
        layout: Layout,
        outputs: Outputs,
        n_jobs: u32,
    ) -> Result<Memory, Error> {
        let (host, memory) = (Device::host(), Memory::dry());
        let config = Config {
            threads: 1,
            ranks: 1,
            ..self.config.clone()
        };
        let (devices, resident) = (RankDevices::open(&host, &config)?, ResidentEdges::default());
        let losses = match outputs {
            Outputs::InMemory { losses: false, .. } => None,
            _ => Some(LossSum::default()),
        };
        let run = RunContext {
            store: self.store,
            config: &config,
            device: &host,
            devices: &devices,
            layout,
            warm_start: None,
            losses: losses.as_ref(),
            resident: &resident,
            memory: &memory,
        };
        match config.precision {
            Precision::Fp32 => dry_run_of::<f32>(run, outputs, n_jobs)?,
            Precision::Fp16 => dry_run_of::<u16>(run, outputs, n_jobs)?,
        }
        Ok(memory)
    }
}

fn dry_run_of<T: Scalar>(run: RunContext<'_>, outputs: Outputs, n_jobs: u32) -> Result<(), Error> {
    let (clock, memory) = (Clock::default(), run.memory);
    let _graph = memory.hold(Purpose::Graph, run.store.held_bytes());
    let streams = run.streams()?;
    let backing = match outputs {
        Outputs::InMemory { .. } => None,
        Outputs::InFiles => Some(DiskBacking::start(
            &run,
            TableCheckpoint::dry(&run),
            TIMEOUT,
        )?),
    };
    let mut buffer = PartitionBuffer::<T>::new(run, backing);
    let (mut answer, mut contexts) = (RowsByNode::default(), RowsByNode::default());
    for &order in run.config.order.each() {
        buffer.begin_order(order)?;
        let context = OrderContext::new(run, order, &streams, &clock)?;
        let jobs = jobs_of_largest(&context, n_jobs)?;
        let mut visits = run.layout.visits(order);
        // The second pass reads what the first has written.
        for _ in 0..2 {
            buffer.begin_pass(&visits);
            for visit in &visits {
                buffer.enter(visit)?;
            }
            visits.reverse();
        }
        drop(jobs);
        let tables = buffer.end_order()?;
        if let (Outputs::InMemory { contexts: true, .. }, 2) = (outputs, order) {
            contexts.make_room(&run, run.config.dim)?;
        }
        if tables.is_some() {
            answer.make_room(&run, run.config.columns())?;
        }
    }
    Ok(())
}

/// Memory of as many jobs, each of which works on the largest bucket.
fn jobs_of_largest(context: &OrderContext<'_>, n_jobs: u32) -> Result<[Held; 2], Error> {
    let (run, memory) = (context.run, context.run.memory.beside());
    let run_beside = RunContext {
        memory: &memory,
        ..run
    };
    let (order, streams) = (context.planner.order, context.streams);
    let of_job = OrderContext::new(run_beside, order, streams, context.clock)?;
    if let Some(bucket_pass) = largest_bucket(run.store) {
        of_job.make_room(bucket_pass)?;
    }
    let (of_job, n_jobs) = (memory.highest(), u64::from(n_jobs));
    Ok([
        run.memory.hold(Purpose::Edges, n_jobs * of_job.edges),
        run.memory.hold(Purpose::Losses, n_jobs * of_job.losses),
    ])
}

/// A visit of the largest bucket, whose first losses are looked at.
fn largest_bucket(store: &Store) -> Option<BucketPass> {
    let n_parts = store.n_parts();
    let buckets = (0..n_parts).flat_map(|i| (0..n_parts).map(move |j| (i, j)));
    let (vertex, context) = buckets.max_by_key(|&(i, j)| store.n_edges_of(i, j))?;
    let n_samples = match store.is_weighted() {
        false => store.n_edges_of(vertex, context),
        true => store.samples(1.0).largest() + 1,
    };
    Some(BucketPass {
        vertex,
        context,
        is_reversed: false,
        number: 0,
        first_sample: 0,
        n_samples,
    })
}
