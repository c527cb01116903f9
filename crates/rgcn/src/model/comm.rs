//! A rank's way to the others.

use shardgraph_collectives::{Comm, Op, Reduction, Timeout};
use shardgraph_device::Timer;

use crate::Error;

/// A communicator, and the longest wait for another rank.
pub(crate) struct RankComm<'a> {
    pub(crate) comm: &'a mut Comm,
    pub(crate) deadline: Timeout,
    /// Seconds in operations with other ranks, waits for them among these.
    pub(crate) exchange_s: f64,
    is_dry: bool,
}

impl<'a> RankComm<'a> {
    pub(crate) fn new(comm: &'a mut Comm, deadline: Timeout) -> RankComm<'a> {
        RankComm {
            comm,
            deadline,
            exchange_s: 0.0,
            is_dry: false,
        }
    }

    /// That of a dry run, where nothing is exchanged.
    pub(crate) fn dry(comm: &'a mut Comm) -> RankComm<'a> {
        RankComm {
            is_dry: true,
            ..RankComm::new(comm, Timeout::default())
        }
    }

    /// Runs an operation; in a dry run, whose arrays have no numbers, it does nothing.
    pub(crate) fn run(&mut self, op: Op<'_>) -> Result<(), Error> {
        if self.is_dry {
            return Ok(());
        }
        self.timed(|comm, deadline| Ok(comm.run(op, deadline)?))
    }

    /// Runs operations with other ranks, whose time counts as exchange.
    pub(crate) fn timed<R>(&mut self, run: impl FnOnce(&mut Comm, Timeout) -> R) -> R {
        if self.are_alone() {
            return run(self.comm, self.deadline);
        }
        let timer = Timer::wall();
        let result = run(self.comm, self.deadline);
        self.exchange_s += timer.elapsed_s();
        result
    }

    /// The greatest of a number over all ranks.
    pub(crate) fn largest(&mut self, value: f32) -> Result<f32, Error> {
        let mut largest = [value];
        self.run(Op::AllReduce {
            buf: (&mut largest).into(),
            reduction: Reduction::Max,
        })?;
        Ok(largest[0])
    }

    /// The greatest of a count over all ranks.
    pub(crate) fn most(&mut self, count: u64) -> Result<u64, Error> {
        let mut most = [count];
        self.run(Op::AllReduce {
            buf: (&mut most).into(),
            reduction: Reduction::Max,
        })?;
        Ok(most[0])
    }

    /// Numbers of all ranks in rank order; each gives as many.
    pub(crate) fn gather(&mut self, own: &[u64]) -> Result<Vec<u64>, Error> {
        let mut all = vec![0u64; own.len() * self.comm.size() as usize];
        self.run(Op::AllGather {
            send: own.into(),
            recv: (&mut all).into(),
        })?;
        Ok(all)
    }

    pub(crate) fn are_alone(&self) -> bool {
        self.comm.size() == 1
    }
}
