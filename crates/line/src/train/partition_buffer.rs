//! Partition buffer: the tables of the order that is trained, which parts of them are in memory, and who has them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use shardgraph_device::Timer;
use shardgraph_job::Checkpoint;

use super::bucket_scheduler::IdleRows;
use super::bucket_trainer::LoadedJob;
use super::checkpoint::{Position, TableCheckpoint};
use super::context::RunContext;
use super::disk_backing::{DiskBacking, Move};
use super::disk_use::DiskUse;
use super::io_worker::{Reply, Request};
use super::row_files::TableKey;
use super::rows::{PartRows, PartShape};
use super::scalar::Scalar;
use crate::Error;
use crate::schedule::{GroupKey, Job, PartKey, Step, Visit};

/// Parts of a table; those that a job works on, or that are on disk, are away.
type Table<T> = Vec<Option<PartRows<T>>>;

/// Tables of the present order.
#[derive(Debug)]
pub(super) struct PartitionBuffer<'p, T: Scalar> {
    run: RunContext<'p>,
    order: u32,
    /// Order 1 has the first alone.
    tables: Vec<Table<T>>,
    disk: Option<DiskBacking<T>>,
}

impl<'p, T: Scalar> PartitionBuffer<'p, T> {
    /// A buffer without rows: all are to be in memory, or come and go as a checkpoint has them.
    pub(super) fn new(run: RunContext<'p>, disk: Option<DiskBacking<T>>) -> PartitionBuffer<'p, T> {
        PartitionBuffer {
            run,
            order: 0,
            tables: Vec::new(),
            disk,
        }
    }

    /// Begins with an order: in memory with all rows as they are before training.
    pub(super) fn begin_order(&mut self, order: u32) -> Result<(), Error> {
        self.order = order;
        let no_rows = || (0..self.run.store.n_parts()).map(|_| None).collect();
        self.tables = (0..order).map(|_| no_rows()).collect();
        if let Some(disk) = &mut self.disk {
            disk.begin_order(order);
            return Ok(());
        }
        for table in 0..order {
            let key = GroupKey { table, group: 0 };
            let rows = self.initial_group(key)?;
            self.put_group(key, rows);
        }
        Ok(())
    }

    /// Ends the order: gives the tables where they are in memory; `None` where they are in files.
    pub(super) fn end_order(&mut self) -> Result<Option<Vec<Vec<PartRows<T>>>>, Error> {
        if self.disk.is_some() {
            self.write_changed(false)?;
        }
        let tables = std::mem::take(&mut self.tables);
        let Some(disk) = &mut self.disk else {
            let rows = |table: Table<T>| table.into_iter().flatten().collect();
            return Ok(Some(tables.into_iter().map(rows).collect()));
        };
        disk.checkpoint.forget(self.order, 1);
        disk.io.send(Request::DropSpare);
        drop(tables);
        self.flush(Vec::new())?;
        Ok(None)
    }

    /// Ends the run: the files of rows, and what the disk was used for.
    pub(super) fn into_files(self) -> Option<(TableCheckpoint, DiskUse)> {
        let disk = self.disk?;
        let busy_s = disk.io.busy_s();
        let used = DiskUse {
            busy_s,
            peak_bytes: self.run.memory.highest().rows,
            ..disk.used
        };
        Some((disk.checkpoint, used))
    }

    /// Root of the mean square of the lengths of the vertex rows, where all are in memory and none is at work.
    pub(super) fn row_norm(&self) -> Result<Option<f64>, Error> {
        if self.disk.is_some() {
            return Ok(None);
        }
        let rows: Vec<&PartRows<T>> = self.tables[0].iter().flatten().collect();
        let pool = self.run.row_pool();
        let squares = pool.map(&rows, |rows| rows.sum_of_squares())?;
        let n_rows = f64::from(self.run.store.n_nodes().max(1));
        Ok(Some((squares.iter().sum::<f64>() / n_rows).sqrt()))
    }

    /// A group before training, its parts by threads.
    fn initial_group(&self, key: GroupKey) -> Result<Vec<PartRows<T>>, Error> {
        let key = TableKey {
            order: self.order,
            table: key.table,
            group: key.group,
        };
        let (run, parts) = (self.run, self.run.parts(key.group));
        let parts: Vec<u32> = parts.collect();
        run.row_pool()
            .map(&parts, |part| PartRows::initial(&run, key, part))
    }

    fn put_group(&mut self, key: GroupKey, parts: Vec<PartRows<T>>) {
        for (part, rows) in self.run.parts(key.group).zip(parts) {
            self.tables[key.table as usize][part as usize] = Some(rows);
        }
    }

    fn take_group(&mut self, key: GroupKey) -> Vec<PartRows<T>> {
        let parts = self.run.parts(key.group);
        let rows = &mut self.tables[key.table as usize][parts.start as usize..parts.end as usize];
        rows.iter_mut().filter_map(Option::take).collect()
    }

    fn shapes(&self, group: u32) -> Vec<PartShape> {
        let shape = |part| PartShape::new(&self.run, part);
        self.run.parts(group).map(shape).collect()
    }

    fn group_bytes(&self, group: u32) -> u64 {
        let shapes = self.shapes(group);
        shapes.iter().map(|shape| shape.bytes::<T>()).sum()
    }

    /// Plans the swaps of the visits of a pass, or of what is left of one.
    pub(super) fn begin_pass(&mut self, visits: &[Visit]) {
        if let Some(disk) = &mut self.disk {
            disk.begin_pass(visits);
        }
    }

    /// Brings in the groups of a visit, and begins the swaps of the next ones.
    pub(super) fn enter(&mut self, visit: &Visit) -> Result<(), Error> {
        let wanted = visit.keys(self.order);
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        if disk.current != wanted {
            disk.current.clear();
            let visit = disk.visits.pop_front();
            let visit = visit.expect("the pass was planned from these steps");
            debug_assert_eq!(visit.wanted, wanted);
            for &key in &visit.swap.evict {
                self.wait_for(&[key])?; // it may be on its way in still
                self.evict(key);
            }
            for &key in &visit.swap.load {
                self.load(key)?;
            }
            self.wait_for(&wanted)?;
        }
        if let Some(disk) = &mut self.disk {
            // At every step, since a checkpoint may have come between two.
            disk.changed.extend(&wanted);
            disk.current = wanted;
        }
        self.look_ahead()
    }

    /// Begins the swaps of the visits to come, as far as memory and groups in use allow.
    fn look_ahead(&mut self) -> Result<(), Error> {
        while let Some(reply) = self.disk.as_ref().map_or(Ok(None), |disk| disk.io.poll())? {
            self.take_reply(reply);
        }
        while let Some(next) = self.disk.as_mut().and_then(DiskBacking::next_move) {
            match next {
                Move::Evict(key) => self.evict(key),
                Move::Load(key) => self.load(key)?,
            }
        }
        Ok(())
    }

    /// Gives up a group. What is read next is read behind its writing, and into its memory.
    fn evict(&mut self, key: GroupKey) {
        let parts = self.take_group(key);
        let bytes = self.group_bytes(key.group);
        let Some(disk) = &mut self.disk else {
            return;
        };
        if disk.changed.remove(&key) {
            disk.write(key, parts, bytes, false);
        }
    }

    fn load(&mut self, key: GroupKey) -> Result<(), Error> {
        let (shapes, bytes) = (self.shapes(key.group), self.group_bytes(key.group));
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        disk.used.loads += 1;
        if let Some(file) = disk.checkpoint.file(disk.table_key(key)) {
            disk.used.read_bytes += bytes;
            disk.loading.insert(key);
            disk.io.send(Request::Read { key, file, shapes });
            return Ok(());
        }
        // Made here and now, so what was evicted must be gone, and its memory too.
        disk.is_dropping_spare = true;
        disk.io.send(Request::DropSpare);
        let waited_s = self.wait_until(|disk| !disk.is_dropping_spare)?;
        let timer = Timer::wall();
        let rows = self.initial_group(key)?;
        self.put_group(key, rows);
        if let Some(disk) = &mut self.disk {
            let making_s = timer.elapsed_s();
            disk.used.writing_s += waited_s;
            disk.used.making_s += making_s;
            disk.used.stall_s += waited_s + making_s;
        }
        Ok(())
    }

    /// Waits until groups are in memory.
    fn wait_for(&mut self, wanted: &[GroupKey]) -> Result<(), Error> {
        let are_here = |disk: &DiskBacking<T>| !wanted.iter().any(|key| disk.loading.contains(key));
        let waited_s = self.wait_until(are_here)?;
        if let Some(disk) = &mut self.disk {
            disk.used.reading_s += waited_s;
            disk.used.stall_s += waited_s;
        }
        Ok(())
    }

    /// Takes replies until a condition holds; gives the seconds that it took.
    fn wait_until(&mut self, condition: impl Fn(&DiskBacking<T>) -> bool) -> Result<f64, Error> {
        let timer = Timer::wall();
        while self.disk.as_ref().is_some_and(|disk| !condition(disk)) {
            self.next_reply()?;
        }
        Ok(timer.elapsed_s())
    }

    /// Waits for a reply and takes it; true if all requests are done.
    fn next_reply(&mut self) -> Result<bool, Error> {
        let Some(disk) = &mut self.disk else {
            return Ok(true);
        };
        let reply = disk.io.wait()?;
        Ok(self.take_reply(reply))
    }

    /// Takes a reply; true if all requests are done.
    fn take_reply(&mut self, reply: Reply<T>) -> bool {
        let Some(disk) = &mut self.disk else {
            return true;
        };
        match reply {
            Reply::Read(key, parts) => {
                disk.loading.remove(&key);
                self.put_group(key, parts);
            }
            Reply::Written(key, Some(parts)) => self.put_group(key, parts),
            Reply::SpareDropped => disk.is_dropping_spare = false,
            Reply::Flushed => return true,
            // `IoWorker` gives failures as errors.
            Reply::Written(_, None) | Reply::Synced | Reply::Failed(_) => {}
        }
        false
    }

    /// Checkpoint of all rows, which are in files then; none where they are in memory alone. Training waits
    /// meanwhile.
    pub(super) fn checkpoint(&mut self, position: Position) -> Result<Option<Checkpoint>, Error> {
        let timer = Timer::wall();
        if self.disk.is_none() {
            return Ok(None);
        }
        self.write_changed(true)?;
        let files = self.disk.as_ref().map(|disk| disk.checkpoint.paths());
        self.flush(files.unwrap_or_default())?;
        let Some(disk) = &mut self.disk else {
            return Ok(None);
        };
        disk.used.checkpoint_s += timer.elapsed_s();
        disk.checkpoint.at(position).map(Some)
    }

    /// Removes files that no checkpoint names any more.
    pub(super) fn remove_stale_files(&self) -> Result<(), Error> {
        let disk = self.disk.as_ref();
        disk.map_or(Ok(()), |disk| disk.checkpoint.remove_stale_files())
    }

    /// Writes the groups that changed, which stay in memory or not.
    fn write_changed(&mut self, stays: bool) -> Result<(), Error> {
        self.flush(Vec::new())?; // a group that changed may be on its way in still
        let changed = self.disk.as_mut().map(|disk| &mut disk.changed);
        for key in changed.map(std::mem::take).unwrap_or_default() {
            let parts = self.take_group(key);
            let bytes = self.group_bytes(key.group);
            if let Some(disk) = &mut self.disk {
                disk.write(key, parts, bytes, stays);
            }
        }
        Ok(())
    }

    /// Waits until all requests are done, and `files` outlast a power cut.
    fn flush(&mut self, files: Vec<PathBuf>) -> Result<(), Error> {
        if let Some(disk) = &mut self.disk {
            for file in files {
                disk.io.send(Request::Sync(file));
            }
            disk.io.send(Request::Flush);
        }
        while !self.next_reply()? {}
        Ok(())
    }

    /// Hands out the rows of all parts of a step.
    pub(super) fn take_idle(&mut self, step: &Step) -> IdleRows<T> {
        let parts = step.jobs().flat_map(Job::parts);
        let parts: BTreeSet<PartKey> = parts.collect();
        parts
            .into_iter()
            .map(|key| (key, self.take_part(key)))
            .collect()
    }

    /// Takes the rows of parts back.
    pub(super) fn put_idle(&mut self, idle: impl IntoIterator<Item = (PartKey, PartRows<T>)>) {
        for (key, rows) in idle {
            self.tables[key.table as usize][key.part as usize] = Some(rows);
        }
    }

    /// Hands out the rows of a job's parts.
    pub(super) fn take_job(&mut self, job: &Job) -> LoadedJob<T> {
        let parts = job.parts().map(|key| self.take_part(key));
        let mut vertex_rows: Vec<PartRows<T>> = parts.collect();
        let context_rows = vertex_rows.split_off(job.vertex_parts.len()).pop();
        LoadedJob {
            job: job.clone(),
            vertex_rows,
            context_rows,
        }
    }

    fn take_part(&mut self, key: PartKey) -> PartRows<T> {
        let rows = self.tables[key.table as usize][key.part as usize].take();
        rows.expect("a part is in one job of a step, and was put back after the last")
    }

    /// Takes the rows of a job back.
    pub(super) fn put_job(&mut self, loaded: LoadedJob<T>) {
        let rows = loaded.vertex_rows.into_iter().chain(loaded.context_rows);
        self.put_idle(loaded.job.parts().zip(rows));
    }
}
