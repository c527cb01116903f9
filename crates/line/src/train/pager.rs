//! The tables of an order, a buffer a part: where rows begin, which of them are in memory, and how jobs get theirs.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::{self, Builder};
use std::time::Duration;

use shardgraph_device::{Device, DeviceKind, Timer, zeros_vec_on_huge_pages};

use super::cell::Cell;
use super::disk::{Disk, Reply, Request, each_part};
use super::journal::{Journal, Position};
use super::options::Layout;
use super::plan::{Job, Step};
use super::rows::{Rows, Shape};
use super::step::{Work, locked, panicked};
use super::turns::{Home, Part, parts_of};
use crate::direct::Bounce;
use crate::schedule::{Key, Swap, Visit, swaps};
use crate::{Config, Error, ErrorKind, Store};

/// The parts of a table; those that a job works on, or that are on disk, are away.
type Parts<T> = Vec<Option<Rows<T>>>;

/// What the disk was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiskUse {
    /// Groups of each table.
    pub n_groups: u32,
    /// Groups that were loaded, or made at first sight.
    pub loads: u64,
    /// Bytes of rows that were in memory, or on their way there or away, at most.
    pub peak_bytes: u64,
    /// Bytes of rows that were read.
    pub read_bytes: u64,
    /// Bytes of rows that were written, those of checkpoints too.
    pub written_bytes: u64,
    /// Seconds that training waited for rows: the sum of the next three.
    pub stall_s: f64,
    /// Seconds that it waited for groups to be read.
    pub reading_s: f64,
    /// Seconds that it waited for groups to be written, whose memory a new one was to have.
    pub writing_s: f64,
    /// Seconds in which groups were made that had never been written.
    pub making_s: f64,
    /// Seconds that the disk was at work for it, checkpoints included.
    pub busy_s: f64,
    /// Seconds that training waited for checkpoints.
    pub checkpoint_s: f64,
}

impl DiskUse {
    /// Seconds that the disk worked while training went on.
    #[must_use]
    pub fn overlap_s(&self) -> f64 {
        (self.busy_s - self.reading_s - self.writing_s - self.checkpoint_s).max(0.0)
    }
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
    visits: VecDeque<Planned>,
    /// The groups of the present one.
    current: Vec<Key>,
    /// Groups in memory or on their way in, as the plan has them.
    resident: Vec<Key>,
    /// Groups that are on their way in.
    expected: BTreeSet<Key>,
    /// Groups that changed since they were written.
    changed: BTreeSet<Key>,
    /// Groups that have a place in memory: those that are there, and those on their way in.
    n_held: u64,
    /// Whether memory that is free for the next read was asked to be let go of, and is not yet.
    is_forgetting: bool,
    /// Seconds at work of the disk threads of earlier orders.
    busy_before_s: f64,
}

/// The groups of a visit, and the swaps before it.
#[derive(Debug)]
struct Planned {
    wanted: Vec<Key>,
    swap: Swap,
}

impl<T: Cell> Paging<'_, T> {
    /// Asks for a group to be written.
    fn write(&mut self, (order, key): (u32, Key), parts: Vec<Rows<T>>, stays: bool) {
        let (file, instead_of) = self.journal.new_file((order, key.0, key.1));
        self.disk.ask(Request::Write {
            key,
            file,
            instead_of,
            parts,
            stays,
        });
    }

    /// Whether a group can go before visit `at` of those to come: it is here, and no visit until then wants it.
    fn is_free(&self, key: Key, at: usize) -> bool {
        let between = self.visits.iter().take(at).map(|visit| &visit.wanted);
        let mut wanting = std::iter::once(&self.current).chain(between);
        !self.expected.contains(&key) && !wanting.any(|groups| groups.contains(&key))
    }

    /// What can be done now of the swaps of visits to come, in their order.
    fn next_move(&mut self, order: u32) -> Option<Move> {
        let at = self.visits.iter().position(|visit| !visit.swap.is_over())?;
        let Swap { put_away, load } = &self.visits[at].swap;
        let (away, next) = (put_away.first().copied(), load.first().copied());
        let chosen = match (away, next) {
            // Places are free.
            (_, Some(key)) if put_away.len() < load.len() => Move::Load(key),
            (Some(key), _) if self.is_free(key, at) => Move::PutAway(key),
            // One group has a place before the other has left its own.
            (Some(_), Some(key)) if put_away.len() == load.len() => Move::Load(key),
            _ => return None,
        };
        // A group that was never written is made by the threads that train, when they get there.
        if let Move::Load(key) = chosen
            && self.journal.file((order, key.0, key.1)).is_none()
        {
            return None;
        }
        let swap = &mut self.visits[at].swap;
        match chosen {
            Move::Load(_) => swap.load.remove(0),
            Move::PutAway(_) => swap.put_away.remove(0),
        };
        Some(chosen)
    }
}

/// A step of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    PutAway(Key),
    Load(Key),
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
            let rows = pager.first_group((table, 0))?;
            pager.put_group((table, 0), rows);
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
            visits: VecDeque::new(),
            current: Vec::new(),
            resident: Vec::new(),
            expected: BTreeSet::new(),
            changed: BTreeSet::new(),
            n_held: 0,
            is_forgetting: false,
            busy_before_s: used.busy_s,
            used,
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

    /// A group before training, its parts by threads.
    fn first_group(&self, (table, group): Key) -> Result<Vec<Rows<T>>, Error> {
        let (job, device, order) = ((self.store, self.config), self.device, self.order);
        let first = |part| Rows::first(job, device, (order, table), part);
        let parts: Vec<u32> = self.parts(group).collect();
        side_by_side(&parts, self.n_threads(), first)
    }

    fn put_group(&mut self, (table, group): Key, parts: Vec<Rows<T>>) {
        for (part, rows) in self.parts(group).zip(parts) {
            self.tables[table as usize][part as usize] = Some(rows);
        }
    }

    fn shapes(&self, group: u32) -> Vec<Shape> {
        let shape = |part| Shape::of(self.store, self.config, part);
        self.parts(group).map(shape).collect()
    }

    fn group_bytes(&self, group: u32) -> u64 {
        let shapes = self.shapes(group);
        shapes.iter().map(|shape| shape.bytes::<T>()).sum()
    }

    /// Plans the swaps of the visits of a pass, or of what is left of one.
    pub(crate) fn begin_pass(&mut self, visits: &[Visit]) {
        let (order, capacity) = (self.order, self.layout.capacity as usize);
        let Some(paging) = &mut self.paging else {
            return;
        };
        let wanted: Vec<Vec<Key>> = visits.iter().map(|visit| visit.keys(order)).collect();
        let swaps = swaps(&wanted, capacity, &mut paging.resident);
        let visits = wanted.into_iter().zip(swaps);
        paging.visits = visits
            .map(|(wanted, swap)| Planned { wanted, swap })
            .collect();
        paging.current.clear();
    }

    /// Brings in what a step needs, and begins what the next visits will.
    pub(crate) fn enter(&mut self, step: &Step) -> Result<(), Error> {
        let wanted = step.visit.keys(self.order);
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        if paging.current != wanted {
            paging.current.clear();
            let visit = paging.visits.pop_front();
            let visit = visit.expect("the pass was planned from these steps");
            debug_assert_eq!(visit.wanted, wanted);
            for &key in &visit.swap.put_away {
                self.wait_for(&[key])?; // it may be on its way in still
                self.put_away(key);
            }
            for &key in &visit.swap.load {
                self.load(key)?;
            }
            self.wait_for(&wanted)?;
        }
        if let Some(paging) = &mut self.paging {
            // At every step, since a checkpoint may have come between two.
            paging.changed.extend(&wanted);
            paging.current = wanted;
        }
        self.look_ahead()
    }

    /// Begins the swaps of the visits to come, as far as memory and groups in use allow; waits for nothing.
    fn look_ahead(&mut self) -> Result<(), Error> {
        while let Some(reply) = self.ready()? {
            self.take_reply(reply);
        }
        let order = self.order;
        while let Some(next) = self
            .paging
            .as_mut()
            .and_then(|paging| paging.next_move(order))
        {
            match next {
                Move::PutAway(key) => self.put_away(key),
                Move::Load(key) => self.load(key)?,
            }
        }
        Ok(())
    }

    fn ready(&self) -> Result<Option<Reply<T>>, Error> {
        match &self.paging {
            Some(paging) => paging.disk.poll(),
            None => Ok(None),
        }
    }

    /// Lets go of a group. What is read next is read behind its writing, and to its memory.
    fn put_away(&mut self, key: Key) {
        let parts = self.take_group(key);
        let bytes = self.group_bytes(key.1);
        let Some(paging) = &mut self.paging else {
            return;
        };
        paging.n_held -= 1;
        if paging.changed.remove(&key) {
            paging.write((self.order, key), parts, false);
            paging.used.written_bytes += bytes;
        }
    }

    fn take_group(&mut self, (table, group): Key) -> Vec<Rows<T>> {
        let parts = self.parts(group);
        let rows = &mut self.tables[table as usize][parts.start as usize..parts.end as usize];
        rows.iter_mut().filter_map(Option::take).collect()
    }

    fn load(&mut self, key: Key) -> Result<(), Error> {
        let place = (self.order, key.0, key.1);
        let (shapes, bytes) = (self.shapes(key.1), self.group_bytes(key.1));
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        paging.used.loads += 1;
        paging.n_held += 1;
        paging.used.peak_bytes = paging.used.peak_bytes.max(paging.n_held * bytes);
        if let Some(file) = paging.journal.file(place) {
            paging.used.read_bytes += bytes;
            paging.expected.insert(key);
            paging.disk.ask(Request::Read { key, file, shapes });
            return Ok(());
        }
        // Made here and now, so what was put away must be gone, and its memory too.
        paging.is_forgetting = true;
        paging.disk.ask(Request::Forget);
        let waited_s = self.wait_until(|paging| !paging.is_forgetting)?;
        let timer = Timer::wall();
        let rows = self.first_group(key)?;
        self.put_group(key, rows);
        if let Some(paging) = &mut self.paging {
            let making_s = timer.elapsed_s();
            paging.used.writing_s += waited_s;
            paging.used.making_s += making_s;
            paging.used.stall_s += waited_s + making_s;
        }
        Ok(())
    }

    /// Waits until groups are in memory.
    fn wait_for(&mut self, wanted: &[Key]) -> Result<(), Error> {
        let is_so =
            |paging: &Paging<'p, T>| !wanted.iter().any(|key| paging.expected.contains(key));
        let waited_s = self.wait_until(is_so)?;
        if let Some(paging) = &mut self.paging {
            paging.used.reading_s += waited_s;
            paging.used.stall_s += waited_s;
        }
        Ok(())
    }

    /// Takes the disk's answers until all is as it should be; gives the seconds that it took.
    fn wait_until(&mut self, is_so: impl Fn(&Paging<'p, T>) -> bool) -> Result<f64, Error> {
        let timer = Timer::wall();
        while self.paging.as_ref().is_some_and(|paging| !is_so(paging)) {
            self.next_reply()?;
        }
        Ok(timer.elapsed_s())
    }

    /// Waits for an answer of the disk and takes it; true if all that was asked is done.
    fn next_reply(&mut self) -> Result<bool, Error> {
        let Some(paging) = &mut self.paging else {
            return Ok(true);
        };
        let reply = paging.disk.wait()?;
        Ok(self.take_reply(reply))
    }

    /// Takes an answer of the disk; true if all that was asked is done.
    fn take_reply(&mut self, reply: Reply<T>) -> bool {
        let Some(paging) = &mut self.paging else {
            return true;
        };
        match reply {
            Reply::Read(key, parts) => {
                paging.expected.remove(&key);
                self.put_group(key, parts);
            }
            Reply::Written(key, Some(parts)) => self.put_group(key, parts),
            Reply::Forgotten => paging.is_forgetting = false,
            Reply::Settled => return true,
            // [`Disk`] gives failures as errors.
            Reply::Written(_, None) | Reply::Synced | Reply::Failed(_) => {}
        }
        false
    }

    /// Writes all that changed, and makes this moment the one that a resumed run begins with. Training waits meanwhile.
    pub(crate) fn checkpoint(&mut self, position: Position, samples: u64) -> Result<(), Error> {
        let timer = Timer::wall();
        let Some(paging) = &mut self.paging else {
            return Ok(());
        };
        let changed = std::mem::take(&mut paging.changed);
        self.settle(Vec::new())?; // a group that changed may be on its way in still
        for key in changed {
            let parts = self.take_group(key);
            let bytes = self.group_bytes(key.1);
            if let Some(paging) = &mut self.paging {
                paging.write((self.order, key), parts, true);
                paging.used.written_bytes += bytes;
            }
        }
        let files = self.paging.as_ref().map(|paging| paging.journal.paths());
        self.settle(files.unwrap_or_default())?;
        if let Some(paging) = &mut self.paging {
            paging.journal.commit(position, samples)?;
            paging.used.checkpoint_s += timer.elapsed_s();
            paging.used.busy_s = paging.busy_before_s + paging.disk.busy_s();
        }
        Ok(())
    }

    /// Waits until the disk has done all that it was asked for, and files outlast a power cut.
    fn settle(&mut self, files: Vec<PathBuf>) -> Result<(), Error> {
        if let Some(paging) = &mut self.paging {
            let syncs = files.into_iter().map(Request::Sync);
            syncs.for_each(|request| paging.disk.ask(request));
            paging.disk.ask(Request::Settle);
        }
        while !self.next_reply()? {}
        Ok(())
    }

    /// Hands out the rows of all parts of a step.
    pub(crate) fn take_home(&mut self, step: &Step) -> Home<T> {
        let last = self.tables.len() - 1;
        let parts: BTreeSet<Part> = step.jobs().flat_map(|job| parts_of(job, last)).collect();
        let take = |(table, part): Part| {
            let rows = self.tables[table][part as usize].take();
            (
                (table, part),
                rows.expect("parts are put back after a step"),
            )
        };
        parts.into_iter().map(take).collect()
    }

    /// Takes them back.
    pub(crate) fn put_home(&mut self, home: Home<T>) {
        for ((table, part), rows) in home {
            self.tables[table][part as usize] = Some(rows);
        }
    }

    /// Hands out the rows of a job's parts.
    pub(crate) fn take(&mut self, job: &Job) -> Work<T> {
        const AT_HOME: &str = "a part is in one job of a step, and was put back after the last";
        let last = self.tables.len() - 1;
        let mut rows = |table: usize, part: u32| {
            let rows = self.tables[table][part as usize].take();
            rows.expect(AT_HOME)
        };
        let firsts = job.firsts.iter().map(|&part| rows(0, part)).collect();
        Work {
            job: job.clone(),
            firsts,
            second: job.second.map(|part| rows(last, part)),
        }
    }

    /// Takes rows back.
    pub(crate) fn put_back(&mut self, work: Work<T>) {
        for (&part, rows) in work.job.firsts.iter().zip(work.firsts) {
            self.tables[0][part as usize] = Some(rows);
        }
        if let Some(part) = work.job.second {
            let table = self.tables.len() - 1;
            self.tables[table][part as usize] = work.second;
        }
    }

    /// Writes the rows of the first table, all in memory, to `values` by node: rows of so many columns, from one on.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Diverged`] for a number of any table that is not finite, or saturated; of kind [`ErrorKind::Memory`]
    /// where there is no room for `values`, which the first order makes.
    pub(crate) fn into_values(
        self,
        (columns, first): (usize, usize),
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let (parts, n_threads) = (self.parts_of_all(), self.n_threads());
        for table in &self.tables {
            side_by_side(&parts, n_threads, |part| match &table[part as usize] {
                Some(rows) => rows.check(self.device),
                None => Ok(()),
            })?;
        }
        let n_values = self.store.n_nodes() as usize * columns;
        if values.len() < n_values {
            *values = no_values(n_values)?;
        }
        let n_nodes = (self.store.n_nodes() as usize).div_ceil(n_threads).max(1);
        for (part, rows) in (0u32..).zip(self.tables.iter().take(1).flatten()) {
            let rows = rows.as_ref().expect("all parts are put back after a step");
            let pieces = values.chunks_mut(n_nodes * columns).enumerate();
            let pieces = pieces.map(|(at, piece)| (at * n_nodes, piece)).collect();
            super::step::in_turn(
                pieces,
                n_threads,
                |(first_node, piece): (usize, &mut [f32])| {
                    let place = |node: u32, cells: &[T]| {
                        let node = (node as usize).wrapping_sub(first_node);
                        if node < piece.len() / columns {
                            let to = &mut piece[node * columns + first..][..cells.len()];
                            to.iter_mut()
                                .zip(cells)
                                .for_each(|(to, cell)| *to = cell.to_f32());
                        }
                        Ok(())
                    };
                    each_cells((self.store, self.device), part, rows, place)
                },
            )?;
        }
        Ok(())
    }

    fn parts_of_all(&self) -> Vec<u32> {
        (0..self.store.n_parts()).collect()
    }

    /// Threads that work on rows in host memory; a device has one stream.
    fn n_threads(&self) -> usize {
        match self.device.kind() {
            DeviceKind::Host => self.config.threads,
            _ => 1,
        }
    }
}

/// Zeros, or an error where there is no room for them.
fn no_values(n: usize) -> Result<Vec<f32>, Error> {
    zeros_vec_on_huge_pages(n).map_err(|_| {
        let message = format!("no memory for an embedding of {} bytes", 4 * n as u64);
        Error::new(ErrorKind::Memory, message)
    })
}

/// Takes a node's row.
pub(crate) type TakeRow<'t> = dyn FnMut(u32, &[f32]) -> Result<(), Error> + 't;

/// Gives the rows of a finished order, by node, one part in memory at a time.
pub(crate) fn finished_rows<T: Cell>(
    (store, device, config): (&Store, &Device, &Config),
    order: u32,
    (layout, bounce): (Layout, &mut Bounce),
    journal: &Journal,
    take: &mut TakeRow<'_>,
) -> Result<(), Error> {
    let pager = Pager::<T>::empty(store, device, config, order, layout);
    for group in 0..layout.n_groups {
        let mut parts = pager.parts(group);
        let mut take_part = |rows: Rows<T>| match parts.next() {
            Some(part) => each_row((store, device), part, &rows, &mut *take),
            None => Ok(()),
        };
        match journal.file((order, 0, group)) {
            Some(file) => {
                let (place, mut none) = ((device, &mut *bounce), |_| None);
                let shapes = pager.shapes(group);
                each_part(place, &file, &shapes, (&mut none, &mut take_part))?;
            }
            None => {
                let first = |part| Rows::first((store, config), device, (order, 0), part);
                pager
                    .parts(group)
                    .try_for_each(|part| take_part(first(part)?))?;
            }
        }
    }
    Ok(())
}

/// A part's rows as numbers, with their nodes.
fn each_row<T: Cell>(
    job: (&Store, &Device),
    part: u32,
    rows: &Rows<T>,
    mut take: impl FnMut(u32, &[f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut values = Vec::new();
    each_cells(job, part, rows, |node, cells| {
        values.clear();
        values.extend(cells.iter().map(|cell| cell.to_f32()));
        take(node, &values)
    })
}

/// A part's rows as they are, with their nodes.
fn each_cells<T: Cell>(
    (store, device): (&Store, &Device),
    part: u32,
    rows: &Rows<T>,
    mut take: impl FnMut(u32, &[T]) -> Result<(), Error>,
) -> Result<(), Error> {
    let copy; // where they are not in host memory
    let cells = match rows.cells.as_host() {
        Some(cells) => cells,
        None => {
            copy = device.download(&rows.cells)?;
            &copy
        }
    };
    let n_rows = store.deal().n_rows(part);
    let dim = cells.len() / n_rows.max(1) as usize;
    (0..n_rows)
        .zip(cells.chunks_exact(dim.max(1)))
        .try_for_each(|(row, cells)| take(store.node(part, row), cells))
}

/// Does something for each part on so many threads; the results in the parts' order.
fn side_by_side<R: Send>(
    parts: &[u32],
    n_threads: usize,
    of_part: impl Fn(u32) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    if n_threads.min(parts.len()) <= 1 {
        return parts.iter().map(|&part| of_part(part)).collect();
    }
    let done: Vec<Mutex<Option<R>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    let worker = |first: usize| -> Result<(), Error> {
        for at in (first..parts.len()).step_by(n_threads) {
            *locked(&done[at]) = Some(of_part(parts[at])?);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let worker = &worker;
        let start = |first| super::step::started(Builder::new(), scope, move || worker(first));
        let threads = (0..n_threads).map(start);
        let threads = threads.collect::<Result<Vec<_>, Error>>()?;
        let ends = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(panicked())));
        ends.collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<(), Error>>()
    })?;
    let results = done.into_iter().map(|done| done.into_inner());
    let results = results.map(|r| r.unwrap_or_else(|held| held.into_inner()));
    Ok(results.flatten().collect())
}
