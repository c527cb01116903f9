//! Messages between processes over TCP: every pair of ranks has a connection, which the one that joined later has opened.
//!
//! Rank 0 numbers those who come (their generation) and tells each where the others are that came before it. A rank takes a connection only
//! from a generation that it has not seen yet, so that nothing of an older process comes after a newer one. A rank that has lost rank 0 looks for
//! another one in its place, which takes it with the generation that it has.

mod meeting;

use super::frame;
use super::inbox::{Inbox, Put};
use super::link::{Link, Shared as SharedLink};
use super::{Limits, Refusal, last_word};
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::tcp::TcpConfig;
use crate::tcp::intro::{Intro, Lobby, PROTOCOL, Purpose};
use crate::tcp::{cannot_listen, join, refused};
use meeting::WayBack;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks for processes that join.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a rank that leaves waits for its last messages to go out.
const GRACE: Duration = Duration::from_secs(1);
/// What the threads need: they have no deep calls.
const STACK_BYTES: usize = 256 << 10;

/// One rank's connections.
pub(super) struct Station {
    hub: Arc<Hub>,
}

/// Shared by the threads of a station.
struct Hub {
    config: TcpConfig,
    limits: Limits,
    /// Which one of its number this rank is.
    generation: u64,
    inbox: Arc<Inbox>,
    places: Mutex<Places>,
    joined: Condvar,
    is_closing: AtomicBool,
}

struct Places {
    ranks: Vec<Place>,
    /// Rank 0: the generation that it gave last.
    newest: u64,
    threads: Vec<JoinHandle<()>>,
}

/// What is known of one number.
#[derive(Default)]
struct Place {
    generation: u64,
    link: Option<SharedLink>,
    /// Where it listens, as rank 0 sees it; on the others, where rank 0 listens.
    address: Option<SocketAddr>,
    /// How it ended.
    why: String,
    /// Whether it was said, since one of this number joined last, that another one takes no part.
    is_absent: bool,
}

impl Station {
    pub(super) fn join(
        config: &TcpConfig,
        limits: Limits,
    ) -> Result<(Station, Arc<Inbox>), CommErrorKind> {
        crate::tcp::check(config)?;
        if config.rank > 0 {
            return meeting::visit(config, limits);
        }
        let listener = join::listen(config).map_err(|error| cannot_listen(config, &error))?;
        let lobby = Lobby::new(listener).map_err(refused)?;
        let hub = Hub::new(config, limits, first_generation());
        Station::start(hub, lobby)
    }

    /// Begins to look for those who join.
    fn start(hub: Arc<Hub>, lobby: Lobby) -> Result<(Station, Arc<Inbox>), CommErrorKind> {
        let station = Station {
            hub: Arc::clone(&hub),
        };
        let inbox = Arc::clone(&hub.inbox);
        let doorkeeper = Arc::clone(&hub);
        let body = move || doorkeeper.watch(&lobby);
        let handle = spawn("messages".to_string(), body).map_err(refused)?;
        hub.lock().threads.push(handle);
        Ok((station, inbox))
    }

    pub(super) fn send(
        &self,
        to: u32,
        tag: u32,
        bytes: &[u8],
        expiry: Expiry,
    ) -> Result<(), Refusal> {
        let hub = &self.hub;
        if to != hub.config.rank {
            return hub
                .link_to(to, expiry)?
                .send(frame::message(tag, bytes), expiry);
        }
        match hub
            .inbox
            .put((to, hub.generation), tag, bytes.to_vec(), Some(expiry))
        {
            Put::Done => Ok(()),
            Put::Full(unread) => Err(Refusal::NoRoom(format!(
                "{unread} bytes wait to be received here"
            ))),
            Put::Gone => Err(Refusal::Lost(last_word().to_string())),
        }
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(body)
}

/// The generation of a rank 0, after which it counts: larger than all that an older rank 0 in its place has given, as long as their clock does
/// not go back. (Milliseconds since 1970; nobody joins a thousand times a second.)
fn first_generation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_millis() as u64)
}

impl Hub {
    fn new(config: &TcpConfig, limits: Limits, generation: u64) -> Arc<Hub> {
        let inbox = Inbox::new(config.size, limits.queue_bytes);
        inbox.open(config.rank, generation);
        let mut ranks = Vec::new();
        ranks.resize_with(config.size as usize, Place::default);
        Arc::new(Hub {
            config: config.clone(),
            limits,
            generation,
            inbox: Arc::new(inbox),
            places: Mutex::new(Places {
                ranks,
                newest: generation,
                threads: Vec::new(),
            }),
            joined: Condvar::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    /// The connection to `to`, once it has joined.
    fn link_to(&self, to: u32, expiry: Expiry) -> Result<SharedLink, Refusal> {
        let mut places = self.lock();
        loop {
            let place = &places.ranks[to as usize];
            if let Some(link) = &place.link {
                return Ok(Arc::clone(link));
            }
            if place.generation > 0 {
                return Err(Refusal::Lost(place.why.clone()));
            }
            let left = expiry.left();
            let left = left.ok_or_else(|| Refusal::NoRoom("it has not joined".to_string()))?;
            let waited = self.joined.wait_timeout(places, left);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The body of the thread that takes in those who come, until the station closes.
    fn watch(self: &Arc<Hub>, lobby: &Lobby) {
        let mut way_back = WayBack::default();
        while !self.is_closing() {
            while let Some((intro, stream)) = lobby.take(|_| true) {
                self.admit(&intro, stream);
            }
            way_back.look(self, lobby);
            thread::sleep(LOOK_EVERY);
        }
    }

    fn admit(self: &Arc<Hub>, intro: &Intro, stream: TcpStream) {
        let own = &self.config;
        match intro.purpose {
            Purpose::Visit { port } if own.rank == 0 => {
                meeting::receive(self, intro, (None, port), stream);
            }
            Purpose::Return { generation, port } if own.rank == 0 => {
                meeting::receive(self, intro, (Some(generation), port), stream);
            }
            Purpose::Call { generation, to } => {
                let is_one_of_us = (intro.protocol, &intro.version, &intro.job, intro.size)
                    == (PROTOCOL, &own.version, &own.job, own.size);
                let is_other = intro.rank < own.size && intro.rank != own.rank;
                let can_be = to == own.rank && meeting::is_possible(generation);
                if is_one_of_us && is_other && can_be {
                    self.connect((intro.rank, generation), None, stream);
                }
            }
            Purpose::Decline if own.rank == 0 => meeting::excuse(self, intro, &stream),
            // Who wants something else is let go.
            _ => {}
        }
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Where rank 0 was, if it is lost, and its generation.
    fn lost_host(&self) -> Option<(SocketAddr, u64)> {
        let places = self.lock();
        let host = &places.ranks[0];
        let address = host.address.filter(|_| host.link.is_none());
        address.map(|address| (address, host.generation))
    }

    /// Whether this one of a rank's number, or a newer one, has been here.
    fn knows(&self, (rank, generation): (u32, u64)) -> bool {
        self.lock().ranks[rank as usize].generation >= generation
    }

    /// Makes a connection that of its rank, unless a newer one has been here.
    fn connect(self: &Arc<Hub>, who: (u32, u64), address: Option<SocketAddr>, stream: TcpStream) {
        let mut places = self.lock();
        let (rank, generation) = who;
        let place = &mut places.ranks[rank as usize];
        if self.is_closing() || generation <= place.generation {
            return;
        }
        let older = place.link.take();
        place.generation = generation;
        place.address = address;
        place.is_absent = false;
        self.inbox.joined(rank, generation);
        let started =
            Link::new(who, stream, self.limits).and_then(|link| self.serve(link, &mut places));
        let place = &mut places.ranks[rank as usize];
        match started {
            Ok(link) => place.link = Some(link),
            Err(error) => {
                place.why = format!("it could not be connected: {error}");
                self.inbox.lost(rank, generation, &place.why);
            }
        }
        drop(places);
        self.joined.notify_all();
        if let Some(older) = older {
            older.dismiss("another one has joined under this rank's number");
        }
    }

    /// A rank that is said to be there, and is not to be reached.
    fn not_reached(&self, (rank, generation): (u32, u64), why: String) {
        let mut places = self.lock();
        let place = &mut places.ranks[rank as usize];
        if generation <= place.generation {
            return;
        }
        (place.generation, place.why) = (generation, why.clone());
        self.inbox.joined(rank, generation);
        self.inbox.lost(rank, generation, &why);
    }

    /// A process of this number that takes no part.
    fn absent(&self, rank: u32, why: String) {
        let mut places = self.lock();
        let place = &mut places.ranks[rank as usize];
        if place.link.is_none() && !std::mem::replace(&mut place.is_absent, true) {
            self.inbox.absent(rank, why);
        }
    }

    /// Starts the two threads of a link.
    fn serve(self: &Arc<Hub>, link: Link, places: &mut Places) -> io::Result<SharedLink> {
        let link = Arc::new(link);
        let (writer, reader, hub) = (Arc::clone(&link), Arc::clone(&link), Arc::clone(self));
        let write = spawn(format!("to rank {}", link.rank), move || writer.write())?;
        let read = spawn(format!("of rank {}", link.rank), move || {
            let why = reader.read(&hub.inbox);
            hub.lose(&reader, &why);
        });
        let read = read.inspect_err(|_| link.cut("no thread to read"))?;
        places.threads.retain(|thread| !thread.is_finished());
        places.threads.extend([write, read]);
        Ok(link)
    }

    /// The connection of a rank has come to its end. Who hears of it can send nothing there any more.
    fn lose(&self, link: &SharedLink, why: &str) {
        let mut places = self.lock();
        let place = &mut places.ranks[link.rank as usize];
        if place.generation == link.generation {
            place.link = None;
            place.why = why.to_string();
        }
        drop(places);
        link.cut(why);
        self.inbox.lost(link.rank, link.generation, why);
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let hub = &self.hub;
        hub.is_closing.store(true, Ordering::Release);
        hub.inbox.close();
        let mut places = hub.lock();
        let links: Vec<SharedLink> = places.ranks.iter().filter_map(|p| p.link.clone()).collect();
        let threads = std::mem::take(&mut places.threads);
        drop(places);
        links.iter().for_each(|link| link.leave(last_word()));
        let expiry = Expiry::of(Deadline::after(GRACE));
        while expiry.left().is_some() && !threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(1));
        }
        links.iter().for_each(|link| link.cut(last_word()));
        for thread in threads {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
