//! Disk behind a partition buffer: planned swaps, groups on their way, and the I/O thread.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::checkpoint::TableCheckpoint;
use super::context::RunContext;
use super::disk_use::DiskUse;
use super::io_worker::{IoWorker, Request};
use super::row_files::TableKey;
use super::rows::PartRows;
use super::scalar::Scalar;
use crate::Error;
use crate::schedule::{GroupKey, Swap, Visit, swaps};

/// What a buffer needs where not all is in memory, or the run must survive.
#[derive(Debug)]
pub(super) struct DiskBacking<T: Scalar> {
    pub(super) io: IoWorker<T>,
    pub(super) checkpoint: TableCheckpoint,
    pub(super) used: DiskUse,
    order: u32,
    capacity: usize,
    /// Visits of the pass that are to come.
    pub(super) visits: VecDeque<PlannedVisit>,
    /// Groups of the present visit.
    pub(super) current: Vec<GroupKey>,
    /// Groups in memory or on their way in, as the plan has them.
    resident: Vec<GroupKey>,
    /// Groups that are on their way in.
    pub(super) loading: BTreeSet<GroupKey>,
    /// Groups that changed since they were written.
    pub(super) changed: BTreeSet<GroupKey>,
    /// A disk as slow as can be: no group leaves before its place is needed. In a dry run.
    is_slowest: bool,
    /// Set while the I/O thread is asked to free the memory for the next read.
    pub(super) is_dropping_spare: bool,
}

/// Groups of a visit, and the swaps before it.
#[derive(Debug)]
pub(super) struct PlannedVisit {
    pub(super) wanted: Vec<GroupKey>,
    pub(super) swap: Swap,
}

/// One step of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Evict(GroupKey),
    Load(GroupKey),
}

impl<T: Scalar> DiskBacking<T> {
    pub(super) fn start(
        run: &RunContext<'_>,
        checkpoint: TableCheckpoint,
        timeout: Duration,
    ) -> Result<DiskBacking<T>, Error> {
        Ok(DiskBacking {
            io: IoWorker::start(run.device, run.memory, timeout)?,
            is_slowest: run.memory.is_dry(),
            checkpoint,
            order: 0,
            capacity: run.layout.capacity as usize,
            visits: VecDeque::new(),
            current: Vec::new(),
            resident: Vec::new(),
            loading: BTreeSet::new(),
            changed: BTreeSet::new(),
            is_dropping_spare: false,
            used: DiskUse {
                n_groups: run.layout.n_groups,
                ..DiskUse::default()
            },
        })
    }

    /// Begins with an order, of which no group is in memory.
    pub(super) fn begin_order(&mut self, order: u32) {
        debug_assert!(self.changed.is_empty() && self.loading.is_empty());
        self.order = order;
        self.resident.clear();
    }

    pub(super) fn table_key(&self, key: GroupKey) -> TableKey {
        TableKey {
            order: self.order,
            table: key.table,
            group: key.group,
        }
    }

    /// Plans the swaps of the visits of a pass, or of what is left of one.
    pub(super) fn begin_pass(&mut self, visits: &[Visit]) {
        let wanted: Vec<Vec<GroupKey>> =
            visits.iter().map(|visit| visit.keys(self.order)).collect();
        let swaps = swaps(&wanted, self.capacity, &mut self.resident);
        let visits = wanted.into_iter().zip(swaps);
        self.visits = visits
            .map(|(wanted, swap)| PlannedVisit { wanted, swap })
            .collect();
        self.current.clear();
    }

    /// Requests that a group of `bytes` bytes be written.
    pub(super) fn write(
        &mut self,
        key: GroupKey,
        parts: Vec<PartRows<T>>,
        bytes: u64,
        stays: bool,
    ) {
        let (file, superseded) = self.checkpoint.new_file(self.table_key(key));
        self.used.written_bytes += bytes;
        self.io.send(Request::Write {
            key,
            file,
            superseded,
            parts,
            stays,
        });
    }

    /// True if a group can go before visit `at` of those to come: it is here, and not wanted.
    fn is_free(&self, key: GroupKey, at: usize) -> bool {
        let between = self.visits.iter().take(at).map(|visit| &visit.wanted);
        let mut wanting = std::iter::once(&self.current).chain(between);
        !self.is_slowest
            && !self.loading.contains(&key)
            && !wanting.any(|groups| groups.contains(&key))
    }

    /// What can be done now of the swaps of visits to come, in their order.
    pub(super) fn next_move(&mut self) -> Option<Move> {
        let at = self.visits.iter().position(|visit| !visit.swap.is_over())?;
        let Swap { evict, load } = &self.visits[at].swap;
        let (away, next) = (evict.first().copied(), load.first().copied());
        let chosen = match (away, next) {
            // Places are free.
            (_, Some(key)) if evict.len() < load.len() => Move::Load(key),
            (Some(key), _) if self.is_free(key, at) => Move::Evict(key),
            // One group has a place before the other has left its own.
            (Some(_), Some(key)) if evict.len() == load.len() => Move::Load(key),
            _ => return None,
        };
        // A group that was never written is made by the training threads, when they get there.
        if let Move::Load(key) = chosen
            && self.checkpoint.file(self.table_key(key)).is_none()
        {
            return None;
        }
        let swap = &mut self.visits[at].swap;
        match chosen {
            Move::Load(_) => swap.load.remove(0),
            Move::Evict(_) => swap.evict.remove(0),
        };
        Some(chosen)
    }
}
