//! Waiting for other ranks: with pauses, until a deadline or until the ranks' job has ended elsewhere.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::Timer;

/// For so long a wait asks again and again; then it sleeps in between.
const EAGER: Duration = Duration::from_micros(300);

/// How long a wait sleeps between two questions to NCCL.
const NAP: Duration = Duration::from_micros(50);

/// How often a wait asks the probe.
const PROBE_EVERY: Duration = Duration::from_millis(2);

/// What a group's waits ask for news from outside it: whether the ranks' job has ended, and why. The answer names the rank where it began.
///
/// NCCL does not know of a rank that died or gave up elsewhere; whatever else connects the ranks may.
///
/// ```
/// use shardgraph_device::nccl::Probe;
/// let probe = Probe::new(|| Some("rank 1 was lost".to_string()));
/// assert_eq!(probe.ask().unwrap(), "rank 1 was lost");
/// assert_eq!(Probe::default().ask(), None); // nobody to ask
/// ```
#[derive(Clone, Default)]
pub struct Probe {
    question: Option<Arc<Question>>,
}

type Question = dyn Fn() -> Option<String> + Send + Sync;

impl Probe {
    /// A probe that asks by `question`, which is called every few milliseconds on whatever thread waits, and returns at once.
    pub fn new(question: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            question: Some(Arc::new(question)),
        }
    }

    /// Why the ranks' job has ended, if it has.
    pub fn ask(&self) -> Option<String> {
        self.question.as_ref()?()
    }

    /// The same, within a while: what failed here may be the consequence of something of which the news is on its way.
    pub(super) fn ask_within(&self, patience: Duration) -> Option<String> {
        self.question.as_ref()?;
        let timer = Timer::wall();
        loop {
            let answer = self.ask();
            if answer.is_some() || timer.elapsed() >= patience {
                return answer;
            }
            thread::sleep(PROBE_EVERY);
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Probe");
        shown.field("asks", &self.question.is_some()).finish()
    }
}

/// A wait with pauses.
pub(super) struct Wait<'a> {
    timer: Timer,
    deadline: Duration,
    probe: &'a Probe,
    /// When the probe is to be asked next.
    next_question: Duration,
}

/// Why a wait ends without what was waited for.
pub(super) enum Stop {
    Timeout,
    /// The ranks' job has ended, for this reason.
    Elsewhere(String),
}

impl<'a> Wait<'a> {
    pub(super) fn new(deadline: Duration, probe: &'a Probe) -> Self {
        Self {
            timer: Timer::wall(),
            deadline,
            probe,
            next_question: EAGER,
        }
    }

    /// Lets some time pass, unless the wait is to end.
    pub(super) fn pause(&mut self) -> Result<(), Stop> {
        let waited = self.timer.elapsed();
        if waited >= self.next_question {
            self.next_question = waited + PROBE_EVERY;
            if let Some(why) = self.probe.ask() {
                return Err(Stop::Elsewhere(why));
            }
        }
        if waited >= self.deadline {
            return Err(Stop::Timeout);
        }
        match waited < EAGER {
            true => thread::yield_now(), // ranks may share a core
            false => thread::sleep(NAP),
        }
        Ok(())
    }
}
