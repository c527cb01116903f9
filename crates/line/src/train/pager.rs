//! The tables of an order, a buffer a part: where rows begin, which of them are in memory, and how jobs get theirs.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use shardgraph_device::{Buffer, Device, Timer};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use super::disk::{Disk, Reply, Request, read_rows, write_rows};
use super::journal::{Journal, Position};
use super::options::Layout;
use super::plan::{Job, Step};
use super::step::Work;
use crate::schedule::{GroupPair, Key, Swap, keys, swaps};
use crate::{Config, Embedding, Error, Store};

/// The parts of a table; those that a job works on, or that are on disk, are away.
type Parts<T> = Vec<Option<Buffer<T>>>;

/// What the disk was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiskUse {
    /// Groups of each table.
    pub n_groups: u32,
    /// Groups that were loaded, or made at first sight.
    pub loads: u64,
    /// Bytes of rows that were read.
    pub read_bytes: u64,
    /// Bytes of rows that were written, those of checkpoints too.
    pub written_bytes: u64,
    /// Seconds that training waited for rows.
    pub stall_s: f64,
    /// Seconds that training waited for checkpoints.
    pub checkpoint_s: f64,
}

/// The tables of one order.
#[derive(Debug)]
pub(crate) struct Pager<'p, T: Cell> {
    store: &'p Store,
    device: &'p Device,
    config: &'p Config,
    order: u32,
    layout: Layout,
    /// Order 1 has the first alone.
    tables: Vec<Parts<T>>,
    paging: Option<Paging<'p, T>>,
}

/// What is needed where not all is in memory, or the run must survive.
#[derive(Debug)]
struct Paging<'p, T: Cell> {
    disk: Disk<T>,
    journal: &'p mut Journal,
    used: &'p mut DiskUse,
    /// The visits of the pass that are to come.
    visits: VecDeque<Visit>,
    current: Option<GroupPair>,
    /// Groups in memory or on their way in, as the plan has them.
    resident: Vec<Key>,
    /// Groups that are on their way in.
    expected: BTreeSet<Key>,
    /// Groups that changed since they were written.
    changed: BTreeSet<Key>,
}

/// A stay with two groups, and the swaps before it.
#[derive(Debug)]
struct Visit {
    groups: GroupPair,
    swap: Swap,
}

impl<'p, T: Cell> Pager<'p, T> {
    /// All rows in memory, as they are before training.
    pub(crate) fn in_memory(
        store: &'p Store,
        device: &'p Device,
        config: &'p Config,
        order: u32,
    ) -> Result<Pager<'p, T>, Error> {
        let mut pager = Pager::empty(store, device, config, order, Layout::WHOLE);
        for table in 0..order {
            pager.put_group((table, 0), pager.first_group((table, 0))?);
        }
        Ok(pager)
    }

    /// Rows that come and go, as a journal has them.
    pub(crate) fn on_disk(
        (store, device, config): (&'p Store, &'p Device, &'p Config),
        order: u32,
        layout: Layout,
        (journal, used): (&'p mut Journal, &'p mut DiskUse),
        deadline: Duration,
    ) -> Result<Pager<'p, T>, Error> {
        let mut pager = Pager::empty(store, device, config, order, layout);
        used.n_groups = layout.n_groups;
        pager.paging = Some(Paging {
            disk: Disk::start(device, deadline)?,
            journal,
            used,
            visits: VecDeque::new(),
            current: None,
            resident: Vec::new(),
            expected: BTreeSet::new(),
            changed: BTreeSet::new(),
        });
        Ok(pager)
    }

    fn empty(
        store: &'p Store,
        device: &'p Device,
        config: &'p Config,
        order: u32,
        layout: Layout,
    ) -> Pager<'p, T> {
        let no_rows = || (0..store.n_parts()).map(|_| None).collect();
        Pager {
            store,
            device,
            config,
            order,
            layout,
            tables: (0..order).map(|_| no_rows()).collect(),
            paging: None,
        }
    }

    fn parts(&self, group: u32) -> std::ops::Range<u32> {
        let size = self.store.n_parts() / self.layout.n_groups;
        group * size..(group + 1) * size
    }

    /// A group before training.
    fn first_group(&self, (table, group): Key) -> Result<Vec<Buffer<T>>, Error> {
        let rows = |part| first_rows(self.store, self.config, (self.order, table), part);
        let parts = self
            .parts(group)
            .map(|part| Ok(self.device.upload(&rows(part))?));
        parts.collect()
    }

    fn put_group(&mut self, (table, group): Key, parts: Vec<Buffer<T>>) {
        for (part, rows) in self.parts(group).zip(parts) {
            self.tables[table as usize][part as usize] = Some(rows);
        }
    }

    fn n_cells(&self, group: u32) -> Vec<usize> {
        let n_rows = |part| self.store.deal().n_rows(part) as usize;
        self.parts(group)
            .map(|part| n_rows(part) * self.config.dim)
            .collect()
    }

    fn group_bytes(&self, group: u32) -> u64 {
        (self.n_cells(group).iter().sum::<usize>() * size_of::<T>()) as u64
    }

    /// Plans the swaps of the steps of a pass, or of what is left of one.
    pub(crate) fn begin_pass(&mut self, steps: &[Step]) {
        let (order, capacity) = (self.order, self.layout.capacity as usize);
        let Some(paging) = &mut self.paging else {
            return;
        };
        let visits: Vec<GroupPair> = steps
            .chunk_by(|a, b| a.groups == b.groups)
            .map(|stay| stay[0].groups)
            .collect();
        let wanted: Vec<Vec<Key>> = visits.iter().map(|&groups| keys(order, groups)).collect();
        let swaps = swaps(&wanted, capacity, &mut paging.resident);
        let visits = visits.into_iter().zip(swaps);
        paging.visits = visits
            .map(|(groups, swap)| Visit { groups, swap })
            .collect();
        paging.current = None;
    }

    /// Brings in what a step needs, and asks for what the next visit will.
    pub(crate) fn enter(&mut self, step: &Step) -> Result<(), Error> {
        let wanted = keys(self.order, step.groups);
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        if paging.current != Some(step.groups) {
            paging.current = Some(step.groups);
            let visit = paging.visits.pop_front();
            let visit = visit.expect("the pass was planned from these steps");
            debug_assert_eq!(visit.groups, step.groups);
            self.swap(&visit.swap, &[])?;
            self.wait_for(&wanted)?;
            self.prefetch(&wanted)?;
        }
        if let Some(paging) = &mut self.paging {
            // At every step, since a checkpoint may have come between two.
            paging.changed.extend(wanted);
        }
        Ok(())
    }

    /// Begins the swap of the next visit, as far as groups in use allow.
    fn prefetch(&mut self, in_use: &[Key]) -> Result<(), Error> {
        let next = self
            .paging
            .as_mut()
            .and_then(|paging| paging.visits.front_mut());
        let Some(swap) = next.map(|visit| std::mem::take(&mut visit.swap)) else {
            return Ok(());
        };
        let later = self.swap(&swap, in_use)?;
        if let Some(next) = self
            .paging
            .as_mut()
            .and_then(|paging| paging.visits.front_mut())
        {
            next.swap = later;
        }
        Ok(())
    }

    /// Sends groups to the disk and asks for others; gives back what cannot go yet because it is in use.
    fn swap(&mut self, swap: &Swap, in_use: &[Key]) -> Result<Swap, Error> {
        let mut later = Swap::default();
        for &key in &swap.put_away {
            match in_use.contains(&key) {
                true => later.put_away.push(key),
                false => {
                    self.wait_for(&[key])?; // it may be on its way in still
                    self.put_away(key);
                }
            }
        }
        for &key in &swap.load {
            self.load(key)?;
        }
        Ok(later)
    }

    fn put_away(&mut self, key: Key) {
        let (group, table) = (self.parts(key.1), key.0 as usize);
        let taken = group.filter_map(|part| self.tables[table][part as usize].take());
        let parts: Vec<Buffer<T>> = taken.collect();
        let bytes = self.group_bytes(key.1);
        let Some(paging) = &mut self.paging else {
            return;
        };
        if !paging.changed.remove(&key) {
            return; // as it is on disk
        }
        let (path, replaced) = paging.journal.new_file((self.order, key.0, key.1));
        paging.disk.ask(Request::Write { path, parts });
        paging.used.written_bytes += bytes;
        if let Some(replaced) = replaced {
            paging.disk.ask(Request::Remove(replaced));
        }
    }

    fn load(&mut self, key: Key) -> Result<(), Error> {
        let place = (self.order, key.0, key.1);
        let file = self
            .paging
            .as_ref()
            .and_then(|paging| paging.journal.file(place));
        let (n_cells, bytes) = (self.n_cells(key.1), self.group_bytes(key.1));
        if let Some(paging) = &mut self.paging {
            paging.used.loads += 1;
        }
        match (file, &mut self.paging) {
            (Some(path), Some(paging)) => {
                paging.used.read_bytes += bytes;
                paging.expected.insert(key);
                paging.disk.ask(Request::Read { key, path, n_cells });
            }
            _ => {
                let rows = self.first_group(key)?;
                self.put_group(key, rows);
            }
        }
        Ok(())
    }

    /// Waits until groups are in memory.
    fn wait_for(&mut self, wanted: &[Key]) -> Result<(), Error> {
        let timer = Timer::wall();
        while let Some(paging) = &mut self.paging
            && wanted.iter().any(|key| paging.expected.contains(key))
        {
            self.take_reply()?;
        }
        if let Some(paging) = &mut self.paging {
            paging.used.stall_s += timer.elapsed_s();
        }
        Ok(())
    }

    /// Takes one answer of the disk; true if all that was asked is done.
    fn take_reply(&mut self) -> Result<bool, Error> {
        let Some(paging) = &mut self.paging else {
            return Ok(true);
        };
        match paging.disk.wait()? {
            Reply::Read(key, parts) => {
                paging.expected.remove(&key);
                self.put_group(key, parts);
                Ok(false)
            }
            Reply::Settled => Ok(true),
            Reply::Failed(error) => Err(error),
        }
    }

    /// Writes all that changed, and makes this moment the one that a resumed run begins with.
    pub(crate) fn checkpoint(&mut self, position: Position, samples: u64) -> Result<(), Error> {
        let timer = Timer::wall();
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        paging.disk.ask(Request::Settle);
        let changed = std::mem::take(&mut paging.changed);
        while !self.take_reply()? {}
        for (table, group) in changed {
            let bytes = self.group_bytes(group);
            let parts = self.parts(group);
            let rows = &mut self.tables[table as usize][parts.start as usize..parts.end as usize];
            let taken: Vec<Buffer<T>> = rows.iter_mut().filter_map(Option::take).collect();
            if let Some(paging) = &mut self.paging {
                let (path, replaced) = paging.journal.new_file((self.order, table, group));
                write_rows(self.device, &path, &taken)?;
                paging.used.written_bytes += bytes;
                if let Some(replaced) = replaced {
                    paging.disk.ask(Request::Remove(replaced));
                }
            }
            self.put_group((table, group), taken);
        }
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        paging.disk.ask(Request::Settle); // removals, before the journal tidies up
        while !self.take_reply()? {}
        if let Some(paging) = &mut self.paging {
            paging.journal.commit(position, samples)?;
            paging.used.checkpoint_s += timer.elapsed_s();
        }
        Ok(())
    }

    /// Hands out the rows of a job's parts.
    pub(crate) fn take<'j>(&mut self, job: &'j Job) -> Work<'j, T> {
        const AT_HOME: &str = "a part is in one job of a step, and was put back after the last";
        let (a, b) = (job.pair.0 as usize, job.pair.1 as usize);
        let first = self.tables[0][a].take().expect(AT_HOME);
        let second = match self.tables.len() {
            1 if a == b => None,
            1 => Some(self.tables[0][b].take().expect(AT_HOME)),
            _ => Some(self.tables[1][b].take().expect(AT_HOME)),
        };
        Work { job, first, second }
    }

    /// Takes rows back.
    pub(crate) fn put_back(&mut self, work: Work<'_, T>) {
        let (a, b) = (work.job.pair.0 as usize, work.job.pair.1 as usize);
        self.tables[0][a] = Some(work.first);
        if work.second.is_some() {
            let table = self.tables.len() - 1;
            self.tables[table][b] = work.second;
        }
    }

    /// The rows of the first table by node; all in memory.
    pub(crate) fn into_embedding(self) -> Result<Embedding, Error> {
        let dim = self.config.dim;
        let mut values = vec![0.0; self.store.n_nodes() as usize * dim];
        for (part, rows) in (0u32..).zip(self.tables.iter().take(1).flatten()) {
            let rows = rows.as_ref().expect("all parts are put back after a step");
            let cells = self.device.download(rows)?;
            each_row(self.store, part, &cells, |node, row| {
                values[node as usize * dim..][..dim].copy_from_slice(row);
                Ok(())
            })?;
        }
        Embedding::new(dim, values, self.store.labels()?.clone())
    }
}

/// Takes a node's row.
pub(crate) type TakeRow<'t> = dyn FnMut(u32, &[f32]) -> Result<(), Error> + 't;

/// Gives the rows of a finished order, by node, one group in memory at a time.
pub(crate) fn finished_rows<T: Cell>(
    (store, device, config): (&Store, &Device, &Config),
    order: u32,
    layout: Layout,
    journal: &Journal,
    take: &mut TakeRow<'_>,
) -> Result<(), Error> {
    let pager = Pager::<T>::empty(store, device, config, order, layout);
    for group in 0..layout.n_groups {
        let rows = match journal.file((order, 0, group)) {
            Some(path) => read_rows::<T>(device, &path, &pager.n_cells(group))?,
            None => pager.first_group((0, group))?,
        };
        for (part, rows) in pager.parts(group).zip(rows) {
            each_row(store, part, &device.download(&rows)?, &mut *take)?;
        }
    }
    Ok(())
}

/// A part's rows as numbers, with their nodes.
fn each_row<T: Cell>(
    store: &Store,
    part: u32,
    cells: &[T],
    mut take: impl FnMut(u32, &[f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let n_rows = store.deal().n_rows(part);
    let dim = cells.len() / n_rows.max(1) as usize;
    for (row, cells) in (0..n_rows).zip(cells.chunks_exact(dim.max(1))) {
        let values: Vec<f32> = cells.iter().map(|cell| cell.to_f32()).collect();
        take(store.node(part, row), &values)?;
    }
    Ok(())
}

/// The rows of a part before training: uniform within half a column's share for vertices, zeros for contexts.
///
/// # Source
/// LINE's and word2vec's own way.
fn first_rows<T: Cell>(
    store: &Store,
    config: &Config,
    (order, table): (u32, u32),
    part: u32,
) -> Vec<T> {
    let n_cells = store.deal().n_rows(part) as usize * config.dim;
    if table == 1 {
        return vec![T::default(); n_cells];
    }
    let mut stream = Stream::new(super::seed_of(config, order), "line rows", u64::from(part));
    let scale = 1.0 / config.dim as f32;
    let cell = |_| T::from_f32((stream.uniform_f32() - 0.5) * scale);
    (0..n_cells).map(cell).collect()
}
