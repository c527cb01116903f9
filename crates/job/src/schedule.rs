//! The schedule of checkpoints.

use shardgraph_collectives::Op;
use shardgraph_device::Timer;

use crate::{Error, Ranks};

/// A checkpoint that time asks for waits at least this many times what the last one took to write.
const LEAST_PAUSE: f64 = 10.0;

/// Schedule of checkpoints: every so many steps, every so many seconds, and after the last step.
///
/// Seconds are a wish: between two checkpoints lie at least ten times what the last one took, so that writing takes at most a
/// tenth of a run.
///
/// ```
/// use shardgraph_job::{CheckpointSchedule, World, Error};
///
/// let due = World::Threads(1).run(Default::default(), |ranks| {
///     let schedule = CheckpointSchedule::every_steps(100);
///     Ok::<_, Error>([(99, 100), (100, 101), (160, 240)].map(|(before, step)| {
///         schedule.is_due(before, step, ranks).unwrap()
///     }))
/// })?;
/// assert_eq!(due, [true, false, true]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct CheckpointSchedule {
    steps: Option<u64>,
    seconds: Option<f64>,
    timer: Timer,
    last_s: f64,
    took_s: f64,
}

impl CheckpointSchedule {
    /// Schedule by steps, by seconds or by both; with neither there is one checkpoint, after the last step.
    #[must_use]
    pub fn new(steps: Option<u64>, seconds: Option<f64>) -> CheckpointSchedule {
        CheckpointSchedule {
            steps: steps.filter(|&steps| steps > 0),
            seconds,
            timer: Timer::wall(),
            last_s: 0.0,
            took_s: 0.0,
        }
    }

    /// Schedule by steps alone; 0 means after the last step only.
    #[must_use]
    pub fn every_steps(steps: u64) -> CheckpointSchedule {
        CheckpointSchedule::new(Some(steps), None)
    }

    /// True if a checkpoint follows, where the run went from step `before` to `step` and goes on.
    ///
    /// All ranks ask, and get the answer of rank 0, as their clocks differ.
    ///
    /// # Errors
    /// [`Error::Comm`] when a rank is lost.
    pub fn is_due(&self, before: u64, step: u64, ranks: &mut Ranks<'_>) -> Result<bool, Error> {
        let has_passed = self
            .steps
            .is_some_and(|every| step / every > before / every);
        if has_passed {
            return Ok(true);
        }
        let Some(seconds) = self.seconds else {
            return Ok(false);
        };
        let mut flag = [u32::from(self.is_time(seconds))];
        let buf = (&mut flag).into();
        ranks
            .comm
            .run(Op::Broadcast { buf, root: 0 }, ranks.timeout)?;
        Ok(flag[0] == 1)
    }

    /// True if enough seconds have passed since the last checkpoint; for jobs of one rank.
    #[must_use]
    pub fn is_time(&self, seconds: f64) -> bool {
        let pause = seconds.max(LEAST_PAUSE * self.took_s);
        self.timer.elapsed_s() - self.last_s >= pause
    }

    /// Writes a checkpoint, and remembers how long it took.
    pub fn timed<R>(&mut self, write: impl FnOnce() -> R) -> R {
        let begun_s = self.timer.elapsed_s();
        let written = write();
        self.last_s = self.timer.elapsed_s();
        self.took_s = self.last_s - begun_s;
        written
    }
}
