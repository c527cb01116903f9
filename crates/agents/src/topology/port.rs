//! A rank's mailbox with a deadline on every wait.

use std::collections::BTreeSet;
use std::time::Duration;

use shardgraph_collectives::messages::{Event, Mailbox};
use shardgraph_collectives::{CommError, CommErrorKind, Deadline};

use crate::error::{Error, ErrorKind};

/// Where a rank sends and receives.
pub(crate) struct Port {
    mailbox: Mailbox,
    deadline: Deadline,
    /// Whether a rank that is lost may come back, as a new process of its number.
    may_return: bool,
    /// How many messages this rank still sends before it ends as if it were killed.
    #[cfg(test)]
    pub(crate) dies_after: std::cell::Cell<Option<u64>>,
}

impl Port {
    /// Of a thread among threads.
    pub(crate) fn new(mailbox: Mailbox, deadline: Deadline) -> Port {
        Port {
            mailbox,
            deadline,
            may_return: false,
            #[cfg(test)]
            dies_after: std::cell::Cell::new(None),
        }
    }

    /// Of a process among processes.
    pub(crate) fn of_process(mailbox: Mailbox, deadline: Deadline) -> Port {
        Port {
            may_return: true,
            ..Port::new(mailbox, deadline)
        }
    }

    /// Whether a rank that is lost may come back.
    pub(crate) fn may_return(&self) -> bool {
        self.may_return
    }

    /// Waits until everybody has come or the deadline has passed, for a run that is over before anybody was needed; gives who is there.
    /// What they say meanwhile is not heard.
    pub(crate) fn wait_for_all(&self) -> BTreeSet<u32> {
        self.wait_for_all_within(self.deadline)
    }

    /// Before a learner leaves that cannot even begin: processes that come a little later would look for it until their deadline; so they find
    /// it and hear that it leaves.
    pub(crate) fn linger(&self) {
        if self.may_return {
            let patience = self.deadline.duration().min(Duration::from_secs(5));
            self.wait_for_all_within(Deadline::after(patience));
        }
    }

    fn wait_for_all_within(&self, deadline: Deadline) -> BTreeSet<u32> {
        let n_others = self.mailbox.size() as usize - 1;
        let (mut seen, mut there) = (BTreeSet::new(), BTreeSet::new());
        while seen.len() < n_others {
            match self.mailbox.recv(deadline) {
                Some(Event::Joined { rank, .. }) => {
                    seen.insert(rank);
                    there.insert(rank);
                }
                Some(Event::Lost { rank, .. }) => drop(there.remove(&rank)),
                Some(_) => {}
                None => break,
            }
        }
        there
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
        match self.send_within(to, tag, bytes, Deadline::after(Duration::ZERO)) {
            Err(error) if error.comm_error().is_some_and(is_not_taken) => Ok(false),
            sent => sent,
        }
    }

    fn send_within(
        &self,
        to: u32,
        tag: u32,
        bytes: &[u8],
        deadline: Deadline,
    ) -> Result<bool, Error> {
        #[cfg(test)]
        self.count_down()?;
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
        self.mailbox.recv(self.deadline).ok_or_else(|| {
            let seconds = self.deadline.duration().as_secs_f64();
            ErrorKind::Topology(format!(
                "rank {} waited {seconds} s for {what}, and nothing came: see what the other ranks say, or raise the deadline",
                self.rank()
            ))
            .into()
        })
    }

    /// The next event, if there is one.
    pub(crate) fn poll(&self) -> Option<Event> {
        self.mailbox.received().next()
    }

    #[cfg(test)]
    fn count_down(&self) -> Result<(), Error> {
        match self.dies_after.get() {
            Some(0) => Err(Error::internal("killed by the test")),
            left => {
                self.dies_after.set(left.map(|n| n - 1));
                Ok(())
            }
        }
    }
}

fn is_not_taken(error: &CommError) -> bool {
    matches!(error.kind(), CommErrorKind::NotTaken { .. })
}

/// The learner has ended before it said that the run is over.
pub(crate) fn learner_lost(rank: u32, why: &str) -> Error {
    ErrorKind::Topology(format!(
        "rank {rank} has lost the learner ({why}): the run is over here; resume it from the learner's checkpoint"
    ))
    .into()
}
