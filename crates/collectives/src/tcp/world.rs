//! The control connections of a world: how a rank learns that another has left, panicked, died or
//! given up.
//!
//! Each pair of ranks has a second connection that carries no data, so that no message about a
//! failure waits behind data. Every rank that hears of a failure tells all others before it says
//! anything of its own: so all name the rank where it began.
//!
//! A rank that has timed out asks all others for the ranks that they wait for; each rank that waits
//! in an operation answers. The chains of waiting end at ranks that do not answer, which hold up
//! the others.

use super::wait_for::WaitForGraph;
use crate::codec::{self, FrameReader};
use crate::join::pending::PendingPeers;
use crate::op::Call;
use crate::rank_end::{Cause, Ends, RankEnd};
use crate::timeout::{Expiry, Timeout};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The longest control message.
const MAX_MESSAGE_LEN: usize = 8 << 10;

/// One rank's view of a world: its control connections and what they have said.
pub(super) struct World {
    pub(super) rank: u32,
    /// Tells this world's connections from those of others between the same processes.
    pub(super) id: u64,
    n_ranks: u32,
    state: Mutex<State>,
    pub(super) table: AddressTable,
}

struct State {
    /// The connection to each rank, from when it is there until it closes.
    controls: Vec<Option<Control>>,
    /// True for ranks whose control connection has been there.
    is_known: Vec<bool>,
    waits: WaitForGraph,
    ends: Ends,
    has_told: bool,
}

struct Control {
    stream: TcpStream,
    reader: FrameReader,
}

/// Message on a control connection.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum ControlMessage {
    Ended(RankEnd),
    /// Question of this number: which ranks do you wait for?
    Question(u64),
    Answer {
        question: u64,
        waits_for: Vec<u32>,
    },
}

/// Addresses of the ranks of a world: the listener of this process, and the addresses of all
/// in rank order.
pub(super) struct AddressTable {
    pub(super) pending: PendingPeers,
    pub(super) addresses: Vec<SocketAddr>,
}

impl World {
    /// A world whose control connections are still to be added.
    pub(super) fn new(rank: u32, id: u64, table: AddressTable) -> Arc<World> {
        let n_ranks = table.addresses.len();
        let mut controls = Vec::new();
        controls.resize_with(n_ranks, || None);
        Arc::new(World {
            rank,
            id,
            n_ranks: n_ranks as u32,
            state: Mutex::new(State {
                controls,
                is_known: vec![false; n_ranks],
                waits: WaitForGraph::default(),
                ends: Ends::default(),
                has_told: false,
            }),
            table,
        })
    }

    pub(super) fn size(&self) -> u32 {
        self.n_ranks
    }

    /// Adds the control connection to `rank`; the first one counts.
    pub(super) fn add_control(&self, rank: u32, stream: TcpStream) {
        let mut state = self.lock();
        let is_new = !std::mem::replace(&mut state.is_known[rank as usize], true);
        if is_new {
            let reader = FrameReader::default();
            state.controls[rank as usize] = Some(Control { stream, reader });
        }
    }

    /// True where the control connection to `rank` is there, or has been until it closed.
    pub(super) fn has_control(&self, rank: u32) -> bool {
        self.lock().is_known[rank as usize]
    }

    /// The end that keeps `call` from completing, if some rank has ended.
    pub(super) fn end_of(&self, call: &Call) -> Option<RankEnd> {
        let early = || self.lock().ends.leaving_before(call.seq).cloned();
        self.failure().or_else(early)
    }

    /// The failure that ended this world.
    pub(super) fn failure(&self) -> Option<RankEnd> {
        self.poll();
        self.lock().ends.failure().cloned()
    }

    /// Says that this rank leaves, after the failure that made it leave: a rank that gets both must
    /// not take the leaving for the cause.
    pub(super) fn leave(&self, n_done: u64) {
        if let Some(end) = self.failure() {
            self.tell(&end);
        }
        self.tell(&RankEnd {
            seq: Some(n_done),
            ..RankEnd::dropped(self.rank, false)
        });
    }

    /// Tells all peers of an end, the first time that there is one to tell; a rank that leaves says
    /// so always.
    pub(super) fn tell(&self, end: &RankEnd) {
        let mut state = self.lock();
        if end.cause != Cause::Left && state.ends.failure().is_none() {
            state.ends.push(end.clone());
        }
        let is_goodbye = end.cause == Cause::Left && end.rank == Some(self.rank);
        if state.has_told && !is_goodbye {
            return;
        }
        state.has_told = true;
        state.send_to_all(&ControlMessage::Ended(end.clone()));
    }

    /// Asks all ranks whom they wait for.
    pub(super) fn ask_who_waits(&self) {
        let mut state = self.lock();
        let question = state.waits.begin();
        state.send_to_all(&ControlMessage::Question(question));
    }

    /// Answers the ranks that have asked whom this rank waits for.
    pub(super) fn answer(&self, waits_for: impl FnOnce() -> Vec<u32>) {
        let mut state = self.lock();
        let askers = state.waits.take_askers();
        if askers.is_empty() {
            return;
        }
        let waits_for = waits_for();
        for (rank, question) in askers {
            if let Some(control) = &state.controls[rank as usize] {
                let waits_for = waits_for.clone();
                let answer = ControlMessage::Answer {
                    question,
                    waits_for,
                };
                send(&control.stream, &codec::frame(&answer));
            }
        }
    }

    /// The ranks that hold up this one, which waits for `missing`, as far as the answers to its
    /// question tell; ascending.
    pub(super) fn find_blocked(&self, missing: Vec<u32>) -> Vec<u32> {
        let mut blocked = self.lock().waits.find_blocked(self.rank, missing);
        blocked.sort_unstable();
        blocked
    }

    /// Reads what the control connections have to say.
    fn poll(&self) {
        let mut state = self.lock();
        for rank in 0..self.n_ranks {
            if let Some(control) = state.controls[rank as usize].take()
                && let Some(control) = state.read(rank, control)
            {
                state.controls[rank as usize] = Some(control);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send_to_all(&self, message: &ControlMessage) {
        let message = codec::frame(message);
        for control in self.controls.iter().flatten() {
            send(&control.stream, &message);
        }
    }

    /// Takes in what has come from `rank`. Gives its connection back while it is open.
    fn read(&mut self, rank: u32, mut control: Control) -> Option<Control> {
        let why = loop {
            match control.reader.poll(&control.stream, MAX_MESSAGE_LEN) {
                Ok(Some(message)) => self.take_in(rank, &message),
                Ok(None) => return Some(control),
                Err(error) => {
                    break match error.kind() {
                        ErrorKind::UnexpectedEof => "its process ended".to_string(),
                        ErrorKind::InvalidData => {
                            "its control connection carries something else".to_string()
                        }
                        _ => format!("its connection broke: {error}"),
                    };
                }
            }
        };
        if !self.ends.has_left(rank) && self.ends.failure().is_none() {
            self.ends.push(RankEnd::new(Cause::Lost, Some(rank), why));
        }
        None
    }

    fn take_in(&mut self, from: u32, message: &[u8]) {
        match codec::decode(message) {
            Some(ControlMessage::Ended(end)) => self.ends.push(end),
            Some(ControlMessage::Question(question)) => self.waits.note_question(from, question),
            Some(ControlMessage::Answer {
                question,
                waits_for,
            }) => self.waits.note_answer(from, question, waits_for),
            None => {}
        }
    }
}

/// Writes a short message to a socket that does not block. A rank that cannot be told hears of it
/// when the connection closes; a message of which only the first part could be written closes it,
/// because the next one would be taken for the rest.
fn send(mut control: &TcpStream, message: &[u8]) {
    let expiry = Expiry::of(Timeout::after(Duration::from_millis(100)));
    let mut rest = message;
    while !rest.is_empty() {
        match control.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && expiry.left().is_some() => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(_) => {
                if rest.len() < message.len() {
                    let _ = control.shutdown(Shutdown::Both);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::config::MAX_RANKS;

    #[test]
    fn messages_come_back_and_the_longest_is_read() {
        let longest = RankEnd {
            seq: Some(u64::MAX),
            ..RankEnd::new(Cause::Aborted, Some(u32::MAX), "x".repeat(10_000))
        };
        let frame = codec::frame(&ControlMessage::Ended(longest));
        assert!(frame.len() <= MAX_MESSAGE_LEN);
        for message in [
            ControlMessage::Ended(RankEnd::new(Cause::Lost, None, "gone")),
            ControlMessage::Question(u64::MAX),
            ControlMessage::Answer {
                question: 8,
                waits_for: (0..MAX_RANKS).collect(),
            },
        ] {
            let frame = codec::frame(&message);
            assert!(frame.len() <= MAX_MESSAGE_LEN);
            assert_eq!(codec::decode(&frame[4..]), Some(message));
        }
        assert_eq!(codec::decode::<ControlMessage>(&[9; 40]), None);
    }
}
