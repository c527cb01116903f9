//! The ranks of a job: threads of this process, or processes of which this is one.

use shardgraph_collectives::{Comm, CommError, Op, Timeout, threads};
use shardgraph_error::Class;
use shardgraph_storage::hash;

use crate::{Checkpoint, Error, JobError};

/// World of a job: its code does not know which of the two it is in.
#[derive(Debug)]
pub enum World {
    /// Ranks as threads of this process.
    Threads(u32),
    /// One rank of a world of processes, which all run the same job.
    Process(Comm),
}

impl World {
    /// Runs a job on the ranks of this process, and returns what the first of them made.
    ///
    /// # Errors
    /// Of several failed ranks the error that explains most: one that is not the loss of another rank.
    ///
    /// ```
    /// use shardgraph_job::{Error, World};
    /// let n_ranks = World::Threads(3).run(Default::default(), |ranks| {
    ///     ranks.agree(&[("number", 7)])?;
    ///     Ok::<_, Error>(ranks.size())
    /// })?;
    /// assert_eq!(n_ranks, 3);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn run<R: Send, E: JobError + Send>(
        self,
        timeout: Timeout,
        job: impl Fn(&mut Ranks<'_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        let of_rank = |comm: &mut Comm| {
            let mut ranks = Ranks { comm, timeout };
            ranks.fail_together(|ranks| job(ranks))
        };
        match self {
            World::Process(mut comm) => of_rank(&mut comm),
            World::Threads(0) => {
                let message = "ranks: expected at least 1, given 0";
                Err(Error::Options(message.to_owned()).into())
            }
            World::Threads(1) => of_rank(&mut Comm::solo()),
            World::Threads(n) => first_of(threads::run(n, |mut comm| of_rank(&mut comm))),
        }
    }
}

/// Result of the first rank; where ranks failed, the error that explains most.
fn first_of<R, E: JobError>(results: Vec<Result<Result<R, E>, CommError>>) -> Result<R, E> {
    let (mut first, mut cause) = (None, None::<E>);
    for result in results {
        let result = result.unwrap_or_else(|lost| Err(Error::Comm(lost).into()));
        match result {
            Ok(value) => first = first.or(Some(value)),
            Err(error) if cause.is_none() || error.comm_error().is_none() => cause = Some(error),
            Err(_) => {}
        }
    }
    match (cause, first) {
        (Some(error), _) => Err(error),
        (None, Some(value)) => Ok(value),
        (None, None) => Err(Error::Options("a world without ranks".to_owned()).into()),
    }
}

/// One rank's view of its world: its communicator, and the longest wait for another rank.
#[derive(Debug)]
pub struct Ranks<'c> {
    /// The communicator.
    pub comm: &'c mut Comm,
    /// Longest wait for another rank.
    pub timeout: Timeout,
}

impl<'c> Ranks<'c> {
    /// View of a rank through its communicator.
    #[must_use]
    pub fn new(comm: &'c mut Comm, timeout: Timeout) -> Ranks<'c> {
        Ranks { comm, timeout }
    }

    /// Number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// True if this is rank 0, which alone touches the run's folder.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.comm.rank() == 0
    }

    /// Refuses to go on where a rank has another value than rank 0 for an input that all must share.
    ///
    /// # Errors
    /// [`Error::Disagreement`], on all ranks alike, with the first such rank and input.
    pub fn agree(&mut self, facts: &[(&str, u64)]) -> Result<(), Error> {
        let own: Vec<u64> = facts.iter().map(|(_, value)| *value).collect();
        let mut all = vec![0u64; own.len() * self.size() as usize];
        let op = Op::AllGather {
            send: (&own).into(),
            recv: (&mut all).into(),
        };
        self.comm.run(op, self.timeout)?;
        for (rank, theirs) in all.chunks_exact(own.len().max(1)).enumerate() {
            let odd = theirs
                .iter()
                .zip(&all)
                .position(|(their, first)| their != first);
            if let Some(idx) = odd {
                let fact = facts[idx].0.to_owned();
                return Err(Error::Disagreement { rank, fact });
            }
        }
        Ok(())
    }

    /// The fact that all ranks run one version of the program, for [`Ranks::agree`]: MPI compares nothing of its own.
    #[must_use]
    pub fn version_fact() -> (&'static str, u64) {
        let version = hash(env!("CARGO_PKG_VERSION").as_bytes());
        ("version of the program", version)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// [`Error::Comm`] when a rank is lost.
    pub fn barrier(&mut self) -> Result<(), Error> {
        Ok(self.comm.run(Op::Barrier, self.timeout)?)
    }

    /// Checkpoint of rank 0, on all ranks; the others give `None`.
    ///
    /// # Errors
    /// [`Error::Comm`] when a rank is lost; [`Error::Refused`] for one with files beside it.
    pub fn broadcast_checkpoint(&mut self, own: Option<Checkpoint>) -> Result<Checkpoint, Error> {
        let mut bytes = match own {
            Some(own) if self.size() == 1 => return Ok(own),
            Some(own) if !own.files_beside().is_empty() => {
                let reason = "it has files that are too large to be sent; run on one rank";
                return Err(Error::refused("Ranks::broadcast_checkpoint", reason));
            }
            Some(own) => own.to_bytes(),
            None => Vec::new(),
        };
        let mut n_bytes = [bytes.len() as u64];
        let buf = (&mut n_bytes).into();
        self.comm
            .run(Op::Broadcast { buf, root: 0 }, self.timeout)?;
        bytes.resize(usize::try_from(n_bytes[0]).map_err(|_| Error::Torn)?, 0);
        let buf = (&mut bytes).into();
        self.comm
            .run(Op::Broadcast { buf, root: 0 }, self.timeout)?;
        Checkpoint::from_bytes(&bytes)
    }

    /// Does this rank's part of a job; where it fails for a reason of its own, the other ranks end at once with that reason.
    ///
    /// # Errors
    /// That of `part`; for a lost rank the reason that the world has for it.
    pub fn fail_together<R, E: JobError>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        part(self).map_err(|error| {
            if error.comm_error().is_some() {
                return error;
            }
            // Devices that exchange among themselves lose a rank as well; the communicator knows where and why that began.
            let is_lost_rank = error.class() == Class::LostRank;
            if let Some(cause) = self.comm.failure().filter(|_| is_lost_rank) {
                return Error::Comm(cause).into();
            }
            if self.comm.failure().is_none() {
                self.comm
                    .abort_as(JobError::class(&error), &error.to_string());
            }
            error
        })
    }
}
