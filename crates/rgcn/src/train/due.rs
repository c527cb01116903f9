//! When a checkpoint is due.

use shardgraph_collectives::Op;
use shardgraph_device::Timer;

use crate::Error;
use crate::model::network::Peers;

/// Writing takes at most one part of so many of a run's time.
const SHARE: f64 = 10.0;

/// The rules of a run, and when its last checkpoint was.
pub(super) struct Due {
    n_epochs: u32,
    /// Epochs between two; 0: time decides alone.
    every: u32,
    /// Seconds between two; none: epochs decide alone.
    seconds: Option<f64>,
    timer: Timer,
    last_s: f64,
    took_s: f64,
}

impl Due {
    /// For a run that begins now and ends after so many epochs in all.
    pub(super) fn new(n_epochs: u32, every: u32, seconds: Option<f64>) -> Due {
        Due {
            n_epochs,
            every,
            seconds,
            timer: Timer::wall(),
            last_s: 0.0,
            took_s: 0.0,
        }
    }

    /// Whether a checkpoint follows so many epochs. All ranks ask and get the first one's answer, as their clocks differ.
    pub(super) fn is_now(&self, n_done: u32, peers: &mut Peers<'_>) -> Result<bool, Error> {
        let is_multiple = self.every > 0 && n_done.is_multiple_of(self.every);
        if n_done == self.n_epochs || is_multiple {
            return Ok(true);
        }
        let Some(seconds) = self.seconds else {
            return Ok(false);
        };
        let is_time = self.timer.elapsed_s() - self.last_s >= seconds.max(SHARE * self.took_s);
        let mut flag = [u32::from(is_time)];
        let op = Op::Broadcast {
            buf: (&mut flag).into(),
            root: 0,
        };
        peers.comm.run(op, peers.deadline)?;
        Ok(flag[0] == 1)
    }

    /// Writes one, and remembers how long it took.
    pub(super) fn keep(&mut self, write: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let begin = self.timer.elapsed_s();
        write()?;
        self.last_s = self.timer.elapsed_s();
        self.took_s = self.last_s - begin;
        Ok(())
    }
}
