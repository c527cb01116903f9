//! Shared state of the threads of a TCP endpoint: the ranks that are known, and the link to each.

use super::event::{Limits, Member, Refusal};
use super::inbox::Inbox;
use super::link::Link;
use crate::join::config::TcpConfig;
use crate::join::response::{Accepted, JoinResponse, Peer};
use crate::timeout::Expiry;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Stack of a thread; none has deep calls.
const STACK_BYTES: usize = 256 << 10;

pub(super) struct Hub {
    pub(super) config: TcpConfig,
    limits: Limits,
    /// Generation of this rank.
    pub(super) generation: u64,
    pub(super) inbox: Arc<Inbox>,
    state: Mutex<State>,
    joined: Condvar,
    is_closing: AtomicBool,
}

struct State {
    ranks: Vec<RankState>,
    /// Rank 0: the generation that it gave last.
    newest: u64,
    threads: Vec<JoinHandle<()>>,
}

/// State of one number.
#[derive(Default)]
struct RankState {
    generation: u64,
    link: Option<Arc<Link>>,
    /// Rank 0: the address where it listens.
    address: Option<SocketAddr>,
    /// Cause of its end.
    why: String,
    /// True once it was reported, since one of this number joined last, that another one was
    /// rejected.
    is_rejected: bool,
}

pub(super) fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(body)
}

impl Hub {
    pub(super) fn new(config: &TcpConfig, limits: Limits, generation: u64) -> Arc<Hub> {
        let inbox = Inbox::new(config.size, limits.queue_bytes);
        inbox.open(Member {
            rank: config.rank,
            generation,
        });
        let mut ranks = Vec::new();
        ranks.resize_with(config.size as usize, RankState::default);
        Arc::new(Hub {
            config: config.clone(),
            limits,
            generation,
            inbox: Arc::new(inbox),
            state: Mutex::new(State {
                ranks,
                newest: generation,
                threads: Vec::new(),
            }),
            joined: Condvar::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    /// The link to `to`, once it has joined.
    pub(super) fn link_to(&self, to: u32, expiry: Expiry) -> Result<Arc<Link>, Refusal> {
        let mut state = self.lock();
        loop {
            let rank = &state.ranks[to as usize];
            if let Some(link) = &rank.link {
                return Ok(Arc::clone(link));
            }
            if rank.generation > 0 {
                return Err(Refusal::Lost(rank.why.clone()));
            }
            let left = expiry.left();
            let left = left.ok_or_else(|| Refusal::NoRoom("it has not joined".to_string()))?;
            let waited = self.joined.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Rank 0: the generation of a rank that joins, and what it is told.
    pub(super) fn accept(&self, rank: u32) -> Accepted {
        let mut state = self.lock();
        state.newest += 1;
        let peers = (0u32..).zip(&state.ranks).filter_map(|(other, state)| {
            Some(Peer {
                rank: other,
                generation: state.generation,
                address: state.address.filter(|_| state.link.is_some())?,
            })
        });
        Accepted {
            id: state.newest,
            host: self.generation,
            peers: peers.filter(|peer| peer.rank != rank).collect(),
        }
    }

    /// Makes a connection that of its rank, unless a newer one has been here.
    pub(super) fn connect(self: &Arc<Hub>, member: Member, stream: TcpStream) {
        let state = self.lock();
        self.connect_in(state, member, None, stream);
    }

    /// As [`Hub::connect`] for a rank that is still to be told that it is accepted. A message to
    /// its number that is sent after it knows must not be taken for one to a former rank.
    pub(super) fn accept_and_connect(
        self: &Arc<Hub>,
        member: Member,
        address: SocketAddr,
        stream: TcpStream,
        response: &JoinResponse,
    ) {
        let state = self.lock();
        if response.send(&stream).is_ok() {
            self.connect_in(state, member, Some(address), stream);
        }
    }

    fn connect_in(
        self: &Arc<Hub>,
        mut state: MutexGuard<'_, State>,
        member: Member,
        address: Option<SocketAddr>,
        stream: TcpStream,
    ) {
        let rank = &mut state.ranks[member.rank as usize];
        if self.is_closing() || member.generation <= rank.generation {
            return;
        }
        let older = rank.link.take();
        rank.generation = member.generation;
        rank.address = address;
        rank.is_rejected = false;
        self.inbox.joined(member);
        let started =
            Link::new(member, stream, self.limits).and_then(|link| self.serve(link, &mut state));
        let rank = &mut state.ranks[member.rank as usize];
        match started {
            Ok(link) => rank.link = Some(link),
            Err(error) => {
                rank.why = format!("it could not be connected: {error}");
                self.inbox.lost(member, &rank.why);
            }
        }
        drop(state);
        self.joined.notify_all();
        if let Some(older) = older {
            older.evict("another one has joined under this rank's number");
        }
    }

    /// A rank that is said to be there, and is not to be reached.
    pub(super) fn not_reached(&self, member: Member, why: String) {
        let mut state = self.lock();
        let rank = &mut state.ranks[member.rank as usize];
        if member.generation <= rank.generation {
            return;
        }
        self.inbox.joined(member);
        self.inbox.lost(member, &why);
        (rank.generation, rank.why) = (member.generation, why);
    }

    /// A process of this number that takes no part.
    pub(super) fn rejected(&self, rank: u32, why: String) {
        let mut state = self.lock();
        let rank_state = &mut state.ranks[rank as usize];
        if rank_state.link.is_none() && !std::mem::replace(&mut rank_state.is_rejected, true) {
            self.inbox.rejected(rank, why);
        }
    }

    /// Starts the two threads of a link.
    fn serve(self: &Arc<Hub>, link: Link, state: &mut State) -> io::Result<Arc<Link>> {
        let link = Arc::new(link);
        let (writer, reader, hub) = (Arc::clone(&link), Arc::clone(&link), Arc::clone(self));
        let rank = link.peer.rank;
        let write = spawn(format!("to rank {rank}"), move || writer.write())?;
        let read = spawn(format!("of rank {rank}"), move || {
            let why = reader.read(&hub.inbox);
            hub.lose(&reader, &why);
        });
        let read = read.inspect_err(|_| link.cut("no thread to read"))?;
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.extend([write, read]);
        Ok(link)
    }

    /// A thread that ends with the endpoint.
    pub(super) fn keep(&self, thread: JoinHandle<()>) {
        self.lock().threads.push(thread);
    }

    /// The connection of a rank has come to its end. A sender that hears of it can send nothing
    /// there any more.
    fn lose(&self, link: &Link, why: &str) {
        let mut state = self.lock();
        let rank = &mut state.ranks[link.peer.rank as usize];
        if rank.generation == link.peer.generation {
            rank.link = None;
            rank.why = why.to_string();
        }
        drop(state);
        link.cut(why);
        self.inbox.lost(link.peer, why);
    }

    /// Takes in nothing any more. Gives the links and threads that are there.
    pub(super) fn close(&self) -> (Vec<Arc<Link>>, Vec<JoinHandle<()>>) {
        self.is_closing.store(true, Ordering::Release);
        self.inbox.close();
        let mut state = self.lock();
        let links = state.ranks.iter().filter_map(|rank| rank.link.clone());
        (links.collect(), std::mem::take(&mut state.threads))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
