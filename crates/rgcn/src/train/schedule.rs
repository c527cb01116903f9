//! The schedule of checkpoints: every so many epochs, or seconds.

use shardgraph_device::Timer;

use crate::Error;
use crate::model::comm::RankComm;

/// Writing takes at most one part in this many of a run's time.
const SHARE: f64 = 10.0;

/// The rules of a run, and the time of its last checkpoint.
pub(crate) struct CheckpointSchedule {
    n_epochs: u32,
    /// Epochs between two; 0: time decides alone.
    every: u32,
    /// Seconds between two; none: epochs decide alone.
    seconds: Option<f64>,
    timer: Timer,
    last_s: f64,
    took_s: f64,
}

impl CheckpointSchedule {
    /// That of a run that begins now and ends after `n_epochs` in all.
    pub(crate) fn new(n_epochs: u32, every: u32, seconds: Option<f64>) -> CheckpointSchedule {
        CheckpointSchedule {
            n_epochs,
            every,
            seconds,
            timer: Timer::wall(),
            last_s: 0.0,
            took_s: 0.0,
        }
    }

    pub(crate) fn n_epochs(&self) -> u32 {
        self.n_epochs
    }

    /// True if a checkpoint follows so many epochs. All ranks ask and get the first one's answer,
    /// as their clocks differ.
    pub(crate) fn is_due(&self, n_done: u32, ranks: &mut RankComm<'_>) -> Result<bool, Error> {
        let is_multiple = self.every > 0 && n_done.is_multiple_of(self.every);
        if n_done == self.n_epochs || is_multiple {
            return Ok(true);
        }
        let Some(seconds) = self.seconds else {
            return Ok(false);
        };
        let is_time = self.timer.elapsed_s() - self.last_s >= seconds.max(SHARE * self.took_s);
        ranks.flag_of_first(is_time)
    }

    /// Writes one, and remembers how long it took.
    pub(crate) fn write(&mut self, write: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let begin = self.timer.elapsed_s();
        write()?;
        self.last_s = self.timer.elapsed_s();
        self.took_s = self.last_s - begin;
        Ok(())
    }
}
