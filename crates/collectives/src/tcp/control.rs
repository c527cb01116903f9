//! The control connections of a world: how a rank learns that another has left, panicked, died or given up.
//!
//! Each pair of ranks has a second connection that carries nothing but ends, so that no word about a failure waits behind data.
//! Every rank that hears of a failure tells all others before it says anything of its own: so all name the rank where it began.
//!
//! A rank whose deadline has passed calls the roll: whoever waits in an operation answers with the ranks that it waits for itself. Where all chains
//! of waiting end, at ranks that do not answer, are those that hold up the others.

use super::intro::Lobby;
use crate::bytes::{Reader, put_text};
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::op::Call;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Why a world can complete no further operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) cause: Cause,
    /// The rank where it began; `None` if it has no number here.
    pub(super) rank: Option<u32>,
    /// After a mismatch its sequence number: everybody who is in that operation can see both sides. After leaving the number of operations
    /// that the rank had completed.
    pub(super) seq: Option<u64>,
    /// What happened there, as text.
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The rank dropped its communicator.
    Left,
    Panicked,
    /// Its connection broke without a word: the process or the machine is gone.
    Lost,
    Aborted,
}

const CAUSES: [Cause; 4] = [Cause::Left, Cause::Panicked, Cause::Lost, Cause::Aborted];

/// What a message on a control connection may have at most.
const MAX_MESSAGE_LEN: usize = 8 << 10;

/// One rank's view of a world: its control connections and what they have said.
pub(super) struct World {
    pub(super) rank: u32,
    /// Tells this world's connections from those of others between the same processes.
    pub(super) id: u64,
    /// The control connection to each rank; none to this one.
    controls: Vec<Option<TcpStream>>,
    state: Mutex<State>,
    /// The world that this one was split from, and the members there.
    parent: Option<(Arc<World>, Vec<u32>)>,
    pub(super) whereabouts: Whereabouts,
}

struct State {
    roll: Roll,
    /// What has come on each connection and is no whole message yet.
    unread: Vec<Vec<u8>>,
    is_closed: Vec<bool>,
    /// How many operations each rank that left had completed, in the order in which they left.
    left: Vec<(u32, u64, String)>,
    /// The first end that is not a mere leaving.
    end: Option<End>,
    has_told: bool,
}

/// What a world's ranks have said about what they wait for.
#[derive(Default)]
struct Roll {
    /// The number of this rank's last question.
    question: u64,
    /// The answers to it: whom each rank waits for.
    answers: BTreeMap<u32, Vec<u32>>,
    /// Who has asked, with the question's number, and has no answer yet.
    askers: Vec<(u32, u64)>,
}

/// Who holds up a rank.
#[derive(Debug, PartialEq)]
pub(super) enum Culprits {
    /// Ranks of this world.
    Here(Vec<u32>),
    /// Also others, which have no number here: their numbers in the first world.
    Elsewhere(Vec<u32>),
}

/// What goes over a control connection.
#[derive(Debug, PartialEq)]
enum Word {
    Ended(End),
    /// Whom do you wait for?
    Question(u64),
    /// To the question of this number.
    Answer(u64, Vec<u32>),
}

/// Where the ranks of a world are reached: the lobby of this process, and the addresses of all in rank order.
#[derive(Clone)]
pub(super) struct Whereabouts {
    pub(super) lobby: Arc<Lobby>,
    pub(super) addresses: Vec<SocketAddr>,
}

impl World {
    pub(super) fn new(
        rank: u32,
        id: u64,
        controls: Vec<Option<TcpStream>>,
        parent: Option<(Arc<World>, Vec<u32>)>,
        whereabouts: Whereabouts,
    ) -> Arc<World> {
        let n_ranks = controls.len();
        Arc::new(World {
            rank,
            id,
            controls,
            state: Mutex::new(State {
                roll: Roll::default(),
                unread: vec![Vec::new(); n_ranks],
                is_closed: vec![false; n_ranks],
                left: Vec::new(),
                end: None,
                has_told: false,
            }),
            parent,
            whereabouts,
        })
    }

    pub(super) fn size(&self) -> u32 {
        self.controls.len() as u32
    }

    /// Why `call` cannot complete, if some rank has ended.
    pub(super) fn end_of(&self, call: &Call) -> Option<End> {
        self.failure().or_else(|| self.leaving_before(call))
    }

    /// The failure that ended this world. One above it explains an end here, and not the other way round.
    fn failure(&self) -> Option<End> {
        self.poll();
        self.end_above().or_else(|| self.lock().end.clone())
    }

    /// Says that this rank leaves, after what made it leave: who gets both must not take the leaving for the cause.
    pub(super) fn leave(&self, n_done: u64) {
        if let Some(end) = self.failure() {
            self.tell(&end);
        }
        self.tell(&End {
            cause: Cause::Left,
            rank: Some(self.rank),
            seq: Some(n_done),
            why: "it dropped its communicator".to_string(),
        });
    }

    fn leaving_before(&self, call: &Call) -> Option<End> {
        let state = self.lock();
        let gone = |&&(_, n_done, _): &&(u32, u64, String)| n_done <= call.seq;
        state.left.iter().find(gone).map(|(rank, n_done, why)| End {
            cause: Cause::Left,
            rank: Some(*rank),
            seq: Some(*n_done),
            why: why.clone(),
        })
    }

    /// The failure that ended the world above this one, with the rank's number here.
    fn end_above(&self) -> Option<End> {
        let (parent, members) = self.parent.as_ref()?;
        let end = parent.failure()?;
        // This rank may leave the world above next, and those who are there must have heard why.
        parent.tell(&end);
        Some(end.within(members))
    }

    /// Tells all peers of an end, the first time that there is one to tell; a rank that leaves says so always.
    pub(super) fn tell(&self, end: &End) {
        let mut state = self.lock();
        if end.cause != Cause::Left {
            state.end.get_or_insert_with(|| end.clone());
        }
        let is_farewell = end.cause == Cause::Left && end.rank == Some(self.rank);
        if state.has_told && !is_farewell {
            return;
        }
        state.has_told = true;
        let message = Word::Ended(end.clone()).message();
        self.send_to_open(&state, &message);
    }

    /// Asks all ranks whom they wait for: those of the first world, because a chain of waiting can lead through several of its groups.
    pub(super) fn call_roll(&self) {
        let (first, _) = self.in_first(Vec::new());
        let mut state = first.lock();
        state.roll.question += 1;
        state.roll.answers.clear();
        let message = Word::Question(state.roll.question).message();
        first.send_to_open(&state, &message);
    }

    /// Tells those who have asked whom this rank waits for.
    pub(super) fn answer_roll(&self, waits_for: impl FnOnce() -> Vec<u32>) {
        let (first, _) = self.in_first(Vec::new());
        let mut state = first.lock();
        if state.roll.askers.is_empty() {
            return;
        }
        let (_, waits_for) = self.in_first(waits_for());
        for (rank, question) in std::mem::take(&mut state.roll.askers) {
            if let Some(control) = &first.controls[rank as usize]
                && !state.is_closed[rank as usize]
            {
                let answer = Word::Answer(question, waits_for.clone());
                send(control, &answer.message());
            }
        }
    }

    /// Those who hold up this rank, which waits for `missing`, as far as the answers to its question tell; ascending.
    pub(super) fn culprits(&self, missing: Vec<u32>) -> Culprits {
        let (first, missing) = self.in_first(missing);
        let culprits = first.lock().roll.culprits(first.rank, missing);
        let (_, members) = self.in_first((0..self.size()).collect());
        let here = |rank: &u32| members.iter().position(|member| member == rank);
        let here: Option<Vec<u32>> = culprits
            .iter()
            .map(|rank| Some(here(rank)? as u32))
            .collect();
        match here {
            Some(mut here) => {
                here.sort_unstable();
                Culprits::Here(here)
            }
            None => Culprits::Elsewhere(culprits),
        }
    }

    /// The world that this one comes from in the end, and the numbers that `ranks` have there.
    fn in_first(&self, mut ranks: Vec<u32>) -> (&World, Vec<u32>) {
        let mut world = self;
        while let Some((parent, members)) = &world.parent {
            for rank in &mut ranks {
                *rank = members[*rank as usize];
            }
            world = parent;
        }
        (world, ranks)
    }

    fn send_to_open(&self, state: &State, message: &[u8]) {
        for (control, is_closed) in self.controls.iter().zip(&state.is_closed) {
            if let (Some(control), false) = (control, is_closed) {
                send(control, message);
            }
        }
    }

    /// Reads what the control connections have to say.
    fn poll(&self) {
        let mut state = self.lock();
        for (rank, control) in (0u32..).zip(&self.controls) {
            if let Some(control) = control
                && !state.is_closed[rank as usize]
            {
                state.read_from(rank, control);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Roll {
    fn culprits(&self, own: u32, missing: Vec<u32>) -> Vec<u32> {
        let (mut seen, mut silent) = (BTreeSet::from([own]), BTreeSet::new());
        let mut open = missing.clone();
        while let Some(rank) = open.pop() {
            match self.answers.get(&rank) {
                _ if !seen.insert(rank) => {}
                Some(waits_for) => open.extend(waits_for),
                None => {
                    silent.insert(rank);
                }
            }
        }
        match silent.is_empty() {
            true => missing,
            false => silent.into_iter().collect(),
        }
    }
}

impl State {
    fn read_from(&mut self, rank: u32, mut control: &TcpStream) {
        let mut buffer = [0; 1024];
        let why = loop {
            match control.read(&mut buffer) {
                Ok(0) => break "its process ended".to_string(),
                Ok(n) => {
                    self.unread[rank as usize].extend(&buffer[..n]);
                    self.take_messages(rank);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break format!("its connection broke: {error}"),
            }
        };
        self.is_closed[rank as usize] = true;
        if !self.left.iter().any(|(left, ..)| *left == rank) {
            self.end.get_or_insert(End {
                cause: Cause::Lost,
                rank: Some(rank),
                seq: None,
                why,
            });
        }
    }

    fn take_messages(&mut self, from: u32) {
        let mut unread = std::mem::take(&mut self.unread[from as usize]);
        while let Some((len, rest)) = unread.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            if len > MAX_MESSAGE_LEN {
                self.end.get_or_insert(End {
                    cause: Cause::Lost,
                    rank: Some(from),
                    seq: None,
                    why: "its control connection carries something else".to_string(),
                });
                break;
            }
            let Some(message) = rest.get(..len) else {
                break;
            };
            match Word::of_message(message) {
                Some(Word::Ended(end)) => self.note(end),
                Some(Word::Question(question)) => self.roll.askers.push((from, question)),
                Some(Word::Answer(question, waits_for)) if question == self.roll.question => {
                    self.roll.answers.insert(from, waits_for);
                }
                Some(Word::Answer(..)) | None => {}
            }
            unread.drain(..4 + len);
        }
        self.unread[from as usize] = unread;
    }

    /// The first failure stays; a rank that merely left gives way to one.
    fn note(&mut self, end: End) {
        match (end.cause, end.rank, end.seq) {
            (Cause::Left, Some(rank), Some(n_done)) => self.left.push((rank, n_done, end.why)),
            _ => {
                self.end.get_or_insert(end);
            }
        }
    }
}

impl End {
    /// What an operation gets that can no longer complete.
    pub(super) fn error(&self, call: &Call) -> CommErrorKind {
        let why = self.why.clone();
        match self.cause {
            Cause::Aborted => CommErrorKind::Aborted { by: self.rank, why },
            Cause::Left | Cause::Panicked | Cause::Lost => CommErrorKind::PeerLost {
                rank: self.rank,
                op: call.op,
                seq: call.seq,
                why,
            },
        }
    }

    /// The same end as seen by a group of the ranks, where each has the number of its position.
    fn within(&self, group: &[u32]) -> End {
        let position = group.iter().position(|&member| Some(member) == self.rank);
        End {
            rank: position.map(|position| position as u32),
            seq: None,
            ..self.clone()
        }
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        let code = CAUSES.iter().position(|&cause| cause == self.cause);
        bytes.push(code.unwrap_or_default() as u8);
        bytes.extend(self.rank.unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(self.seq.unwrap_or(u64::MAX).to_le_bytes());
        put_text(&self.why, bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Option<End> {
        Some(End {
            cause: *CAUSES.get(reader.u8()? as usize)?,
            rank: reader.u32().filter(|&rank| rank != u32::MAX),
            seq: reader.u64().filter(|&seq| seq != u64::MAX),
            why: reader.text()?,
        })
    }
}

impl Word {
    /// The kinds of words, as their first byte says.
    const ENDED: u8 = 0;
    const QUESTION: u8 = 1;
    const ANSWER: u8 = 2;

    /// The word as bytes, with their number before it.
    fn message(&self) -> Vec<u8> {
        /// More ranks than this are not named.
        const MAX_RANKS: usize = 1000;
        let mut message = vec![0; 4];
        match self {
            Word::Ended(end) => {
                message.push(Word::ENDED);
                end.put(&mut message);
            }
            Word::Question(question) => {
                message.push(Word::QUESTION);
                message.extend(question.to_le_bytes());
            }
            Word::Answer(question, waits_for) => {
                message.push(Word::ANSWER);
                message.extend(question.to_le_bytes());
                let ranks = waits_for.iter().take(MAX_RANKS);
                message.extend(ranks.flat_map(|rank| rank.to_le_bytes()));
            }
        }
        let len = message.len() as u32 - 4;
        message[..4].copy_from_slice(&len.to_le_bytes());
        message
    }

    fn of_message(body: &[u8]) -> Option<Word> {
        let mut reader = Reader(body);
        Some(match reader.u8()? {
            Word::ENDED => Word::Ended(End::read(&mut reader)?),
            Word::QUESTION => Word::Question(reader.u64()?),
            Word::ANSWER => {
                let question = reader.u64()?;
                Word::Answer(question, std::iter::from_fn(|| reader.u32()).collect())
            }
            _ => return None,
        })
    }
}

/// Writes a short message to a socket that does not block. Who cannot be told hears of it when the connection closes; a message of which only the
/// first part could be written closes it, because the next one would be taken for the rest.
fn send(mut control: &TcpStream, message: &[u8]) {
    let expiry = Expiry::of(Deadline::after(Duration::from_millis(100)));
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

    #[test]
    fn an_end_comes_back_as_it_was() {
        for cause in CAUSES {
            for (rank, seq) in [(Some(3), None), (None, Some(17)), (Some(0), Some(0))] {
                let end = End {
                    cause,
                    rank,
                    seq,
                    why: format!("{cause:?}"),
                };
                let word = Word::Ended(end);
                assert_eq!(Word::of_message(&word.message()[4..]), Some(word));
            }
        }
        for word in [
            Word::Question(u64::MAX),
            Word::Answer(7, vec![]),
            Word::Answer(8, vec![3, 0, u32::MAX]),
        ] {
            assert_eq!(Word::of_message(&word.message()[4..]), Some(word));
        }
        assert_eq!(Word::of_message(&[9; 40]), None);
        assert_eq!(Word::of_message(&[]), None);
        let many = Word::Answer(0, vec![1; 100_000]).message();
        assert!(many.len() <= MAX_MESSAGE_LEN);
    }

    #[test]
    fn who_holds_up_the_others_is_found_along_chains_of_waiting() {
        let culprits = |answers: &[(u32, &[u32])], missing: &[u32]| {
            let answers = answers.iter().map(|(rank, of)| (*rank, of.to_vec()));
            let roll = Roll {
                answers: answers.collect(),
                ..Roll::default()
            };
            roll.culprits(5, missing.to_vec())
        };
        assert_eq!(culprits(&[], &[4, 2]), [2, 4]);
        assert_eq!(culprits(&[(4, &[0])], &[4]), [0]);
        assert_eq!(culprits(&[(4, &[3]), (3, &[5, 0, 1])], &[4]), [0, 1]);
        // A circle, and ranks that have got meanwhile what they waited for.
        assert_eq!(culprits(&[(4, &[3]), (3, &[4, 5])], &[4]), [4]);
        assert_eq!(culprits(&[(4, &[]), (1, &[0])], &[4]), [4]);
    }
}
