//! Options of a run whose tables lie on disk.

use std::time::Duration;

use crate::Error;
use crate::schedule::Schedule;

/// Memory, order and checkpoints of a run whose tables lie on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOptions {
    /// Bytes that the process may hold in memory.
    pub memory: u64,
    /// Bytes of it besides the run: code, stacks, and what the allocator keeps.
    pub program_bytes: u64,
    /// Order in which groups of parts are visited.
    pub schedule: Schedule,
    /// Seconds between two checkpoints, at least ten times what the last one took; 0: after each
    /// step.
    pub checkpoint_s: f64,
    /// Longest wait for the disk.
    pub deadline: Duration,
}

impl Default for DiskOptions {
    /// 4 GiB, nothing besides the run, the schedules with few loads, a checkpoint a minute, ten
    /// minutes of waiting.
    fn default() -> DiskOptions {
        DiskOptions {
            memory: 4 << 30,
            program_bytes: 0,
            schedule: Schedule::Auto,
            checkpoint_s: 60.0,
            deadline: Duration::from_secs(600),
        }
    }
}

impl DiskOptions {
    /// Refuses what is out of range.
    ///
    /// # Errors
    /// [`Error::Setting`], which names the setting.
    pub fn check(&self) -> Result<(), Error> {
        if self.checkpoint_s.is_nan() || self.checkpoint_s < 0.0 {
            let expected = "a number of 0 or more";
            let found = self.checkpoint_s;
            return Err(Error::setting("checkpoint_seconds", found, expected));
        }
        match self.deadline.is_zero() {
            true => Err(Error::setting("deadline", 0, "a time above 0")),
            false => Ok(()),
        }
    }
}
