//! A rank's mailbox with a deadline on every wait.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use shardgraph_collectives::messages::{Event, Mailbox};
use shardgraph_collectives::{CommError, CommErrorKind, Timeout};
use shardgraph_device::Timer;

use crate::error::{Error, ErrorKind};

/// The rank of the learner in every topology.
pub(crate) const LEARNER: u32 = 0;

/// The kinds of messages that all topologies have; their own ones are below.
pub(crate) mod common_tag {
    /// Learner to all: it cannot go on; whether what a user gave is the reason, and the reason.
    pub(crate) const REFUSAL: u32 = 100;
    /// Learner to each, as the first: its key, which [`super::super::learner_run::LearnerRun::arrival`] gives.
    pub(crate) const BEGIN: u32 = 101;
}

/// How long a learner that cannot go on waits for those who will look for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a rank sends and receives.
pub(crate) struct Port {
    mailbox: Mailbox,
    deadline: Timeout,
    /// Whether a rank that is lost may come back, as a new process of its number.
    may_return: bool,
    since: Timer,
    /// Who has not been heard of.
    missing: RefCell<BTreeSet<u32>>,
    /// Who has come, and was not lost since.
    there: RefCell<BTreeSet<u32>>,
    /// What a test does to this rank.
    #[cfg(test)]
    pub(crate) fault: Option<fault::Fault>,
}

impl Port {
    /// Of a thread among threads.
    pub(crate) fn new(mailbox: Mailbox, deadline: Timeout) -> Port {
        let others = (0..mailbox.size()).filter(|rank| *rank != mailbox.rank());
        Port {
            missing: RefCell::new(others.collect()),
            there: RefCell::default(),
            mailbox,
            deadline,
            may_return: false,
            since: Timer::wall(),
            #[cfg(test)]
            fault: None,
        }
    }

    /// Of a process among processes.
    pub(crate) fn of_process(mailbox: Mailbox, deadline: Timeout) -> Port {
        Port {
            may_return: true,
            ..Port::new(mailbox, deadline)
        }
    }

    /// Whether a rank that is lost may come back.
    pub(crate) fn may_return(&self) -> bool {
        self.may_return
    }

    /// The deadline of each wait.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.duration()
    }

    /// What is left of one deadline since this rank came: for so long the others of its launch, which look for it meanwhile, are waited for.
    pub(crate) fn left(&self) -> Duration {
        self.deadline().saturating_sub(self.since.elapsed())
    }

    /// The ranks that have not come, and have not said that they cannot, as far as this rank has received.
    pub(crate) fn missing(&self) -> Vec<u32> {
        self.missing.borrow().iter().copied().collect()
    }

    /// Before a learner leaves that cannot go on: who is there hears why, and who comes within some seconds, so that nobody looks for it
    /// until a deadline.
    pub(crate) fn leave_with(&self, reason: &Error) {
        let patience = self.deadline().min(PATIENCE);
        let timer = Timer::wall();
        let is_input = u8::from(reason.is_input());
        let text = [&[is_input][..], reason.to_string().as_bytes()].concat();
        let tell = |rank: u32| {
            let left = patience.saturating_sub(timer.elapsed());
            // One that cannot hear it sees the learner leave.
            let _ = self.send_within(rank, common_tag::REFUSAL, &text, Timeout::after(left));
        };
        let there = self.there.borrow().clone();
        there.into_iter().for_each(tell);
        loop {
            let left = match self.missing().is_empty() {
                true => Duration::ZERO,
                false => patience.saturating_sub(timer.elapsed()),
            };
            match self.recv_within(left) {
                Some(Event::Joined { rank, .. }) => tell(rank),
                None if left.is_zero() => return,
                _ => {}
            }
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.mailbox.size()
    }

    pub(crate) fn rank(&self) -> u32 {
        self.mailbox.rank()
    }

    /// Whether the message was taken; false where the receiver has ended.
    pub(crate) fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<bool, Error> {
        self.send_within(to, tag, bytes, self.deadline)
    }

    /// As [`Port::send`] without waiting: a message for which there is no room is dropped.
    pub(crate) fn try_send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<bool, Error> {
        match self.send_within(to, tag, bytes, Timeout::after(Duration::ZERO)) {
            Err(error) if error.comm_error().is_some_and(is_not_taken) => Ok(false),
            sent => sent,
        }
    }

    /// As [`Port::send`] with another deadline.
    pub(crate) fn send_within(
        &self,
        to: u32,
        tag: u32,
        bytes: &[u8],
        deadline: Timeout,
    ) -> Result<bool, Error> {
        #[cfg(test)]
        self.fault
            .as_ref()
            .map_or(Ok(()), fault::Fault::before_send)?;
        match self.mailbox.send(to, tag, bytes, deadline) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), CommErrorKind::PeerLost { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// When none comes until the deadline; `what` says what was waited for.
    pub(crate) fn recv(&self, what: &str) -> Result<Event, Error> {
        self.recv_within(self.deadline()).ok_or_else(|| {
            let seconds = self.deadline().as_secs_f64();
            ErrorKind::Topology(format!(
                "rank {} waited {seconds} s for {what}, and nothing came: see what the other ranks say, or raise the deadline",
                self.rank()
            ))
            .into()
        })
    }

    /// The next event, if there is one.
    pub(crate) fn poll(&self) -> Option<Event> {
        self.recv_within(Duration::ZERO)
    }

    /// The next event, if it comes in time.
    pub(crate) fn recv_within(&self, patience: Duration) -> Option<Event> {
        let event = self.mailbox.recv(Timeout::after(patience))?;
        let (mut missing, mut there) = (self.missing.borrow_mut(), self.there.borrow_mut());
        match &event {
            Event::Joined { rank, .. } => {
                missing.remove(rank);
                there.insert(*rank);
            }
            Event::Rejected { rank, .. } => drop(missing.remove(rank)),
            Event::Lost { rank, .. } => drop(there.remove(rank)),
            _ => {}
        }
        Some(event)
    }
}

fn is_not_taken(error: &CommError) -> bool {
    matches!(error.kind(), CommErrorKind::NotTaken { .. })
}

/// The learner cannot go on, and has said why.
pub(crate) fn learner_refused(message: &[u8]) -> Error {
    let (is_input, reason) = match message {
        [is_input, reason @ ..] => (*is_input == 1, String::from_utf8_lossy(reason)),
        [] => (false, "it does not say why".into()),
    };
    let text = format!("rank 0 cannot go on: {reason}");
    match is_input {
        true => Error::input(text),
        false => ErrorKind::Topology(text).into(),
    }
}

/// The learner has ended before it said that the run is over.
pub(crate) fn learner_lost(rank: u32, why: &str) -> Error {
    ErrorKind::Topology(format!(
        "rank {rank} has lost the learner ({why}): the run is over here; resume it from the learner's checkpoint"
    ))
    .into()
}

/// Ranks that die, and others that wait for it.
#[cfg(test)]
pub(crate) mod fault {
    use std::cell::Cell;
    use std::sync::{Arc, OnceLock};

    use crate::error::Error;

    /// The death of a rank before one of its messages.
    pub(crate) struct Fault {
        n_sent: Cell<u64>,
        /// The message that is not sent any more; `None` for a rank that waits.
        dies_before: Option<u64>,
        /// Set when the rank has died.
        death: Arc<OnceLock<()>>,
    }

    /// Messages after which the others wait: the run does not end before the death, however late its rank is scheduled.
    const N_BEFORE_DEATH: u64 = 20;

    impl Fault {
        /// Of a rank that dies before its message of this number, and of those that wait for it.
        pub(crate) fn plant(
            ports: &mut [super::Port],
            victim: u32,
            message: u64,
            others: impl IntoIterator<Item = u32>,
        ) {
            let death = Arc::new(OnceLock::new());
            let fault = |dies_before: Option<u64>| Fault {
                n_sent: Cell::new(0),
                dies_before,
                death: death.clone(),
            };
            for rank in others {
                ports[rank as usize].fault = Some(fault(None));
            }
            ports[victim as usize].fault = Some(fault(Some(message)));
        }

        pub(crate) fn before_send(&self) -> Result<(), Error> {
            let n_sent = self.n_sent.replace(self.n_sent.get() + 1);
            match self.dies_before {
                Some(message) if n_sent >= message => {
                    let _ = self.death.set(());
                    return Err(Error::internal("killed by the test"));
                }
                None if n_sent >= N_BEFORE_DEATH => drop(self.death.wait()),
                _ => {}
            }
            Ok(())
        }
    }
}
