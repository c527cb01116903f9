//! What a process says first on a connection, and the lobby where connections wait until they are called for.

use crate::bytes::{Reader, put_text};
use crate::deadline::Expiry;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes whenever bytes on the wire change their meaning.
pub(crate) const PROTOCOL: u32 = 3;

const MAGIC: [u8; 8] = *b"shrdgrph";
const MAX_INTRO_LEN: usize = 8 << 10;
/// Connections that have not said who they are; more than this many are strangers, and the oldest must go.
const MAX_SILENT: usize = 256;

/// What a connection is for. A `port` is where the process that connects listens itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To rank 0: to become part of the first world, and its control connection.
    Join {
        port: u16,
    },
    /// To another rank of a world.
    Data {
        world: u64,
    },
    Control {
        world: u64,
    },
    /// To the mailbox of rank 0: to be given a generation, and told where the others are.
    Visit {
        port: u16,
    },
    /// To the mailbox of a new rank 0: the generation that the old one gave.
    Return {
        generation: u64,
        port: u16,
    },
    /// To another mailbox: the generation of the one that calls, and the rank that is meant, as the port may have another owner by now.
    Call {
        generation: u64,
        to: u32,
    },
    /// To rank 0: to say, after this, why the process cannot take part.
    Decline,
}

impl Purpose {
    /// A code and two numbers. Every purpose has both, so that all of an introduction can be read by who knows none of its purpose.
    fn words(self) -> (u8, u64, u16) {
        match self {
            Purpose::Join { port } => (0, 0, port),
            Purpose::Data { world } => (1, world, 0),
            Purpose::Control { world } => (2, world, 0),
            Purpose::Visit { port } => (3, 0, port),
            Purpose::Return { generation, port } => (4, generation, port),
            // There are at most `MAX_RANKS`.
            Purpose::Call { generation, to } => (5, generation, to as u16),
            Purpose::Decline => (6, 0, 0),
        }
    }

    fn of_words((code, long, short): (u8, u64, u16)) -> Option<Purpose> {
        Some(match code {
            0 => Purpose::Join { port: short },
            1 => Purpose::Data { world: long },
            2 => Purpose::Control { world: long },
            3 => Purpose::Visit { port: short },
            4 => Purpose::Return {
                generation: long,
                port: short,
            },
            5 => Purpose::Call {
                generation: long,
                to: u32::from(short),
            },
            6 => Purpose::Decline,
            _ => return None,
        })
    }
}

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intro {
    pub(crate) protocol: u32,
    /// The version of the program.
    pub(crate) version: String,
    pub(crate) job: String,
    pub(crate) purpose: Purpose,
    /// The rank in the world of its purpose, or among the mailboxes.
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Intro {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = self.protocol.to_le_bytes().to_vec();
        put_text(&self.version, &mut body);
        put_text(&self.job, &mut body);
        let (code, long, short) = self.purpose.words();
        body.push(code);
        body.extend(long.to_le_bytes());
        body.extend(self.rank.to_le_bytes());
        body.extend(self.size.to_le_bytes());
        body.extend(short.to_le_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    /// Another protocol may mean something else by what follows its number, the version and the job.
    fn of_body(body: &[u8]) -> Option<Intro> {
        let mut reader = Reader(body);
        let (protocol, version, job) = (reader.u32()?, reader.text()?, reader.text()?);
        let (code, long) = (reader.u8()?, reader.u64()?);
        let (rank, size, short) = (reader.u32()?, reader.u32()?, reader.u16()?);
        Some(Intro {
            protocol,
            version,
            job,
            purpose: Purpose::of_words((code, long, short))?,
            rank,
            size,
        })
    }
}

/// Connections that came in.
pub(crate) struct Lobby {
    listener: TcpListener,
    guests: Mutex<Vec<Guest>>,
}

struct Guest {
    stream: TcpStream,
    bytes: Vec<u8>,
    intro: Option<Intro>,
}

impl Lobby {
    pub(crate) fn new(listener: TcpListener) -> io::Result<Lobby> {
        listener.set_nonblocking(true)?;
        Ok(Lobby {
            listener,
            guests: Mutex::default(),
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// A connection whose introduction is `wanted`, if it has come. Does not wait.
    pub(crate) fn take(&self, wanted: impl Fn(&Intro) -> bool) -> Option<(Intro, TcpStream)> {
        let mut guests = self.lock();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                guests.push(Guest {
                    stream,
                    bytes: Vec::new(),
                    intro: None,
                });
            }
        }
        guests.retain_mut(Guest::read);
        let is_silent = |guest: &Guest| guest.intro.is_none();
        if guests.iter().filter(|guest| is_silent(guest)).count() > MAX_SILENT
            && let Some(oldest) = guests.iter().position(is_silent)
        {
            guests.remove(oldest);
        }
        let position = guests
            .iter()
            .position(|guest| guest.intro.as_ref().is_some_and(&wanted))?;
        let guest = guests.remove(position);
        Some((guest.intro?, guest.stream))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// Reads the introduction, and not one byte more. False for who must be shown out.
    fn read(&mut self) -> bool {
        while self.intro.is_none() {
            let Some(wanted) = self.n_wanted() else {
                return false;
            };
            if wanted == 0 {
                self.intro = Intro::of_body(&self.bytes[MAGIC.len() + 4..]);
                return self.intro.is_some();
            }
            match read_some(&self.stream, wanted, &mut self.bytes) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// How many bytes the introduction still has; `None` if it is none.
    fn n_wanted(&self) -> Option<usize> {
        let (head, n_known) = (MAGIC.len() + 4, self.bytes.len());
        let n_magic = n_known.min(MAGIC.len());
        if self.bytes[..n_magic] != MAGIC[..n_magic] {
            return None;
        }
        if n_known < head {
            return Some(head - n_known);
        }
        let len = Reader(&self.bytes[MAGIC.len()..]).u32()? as usize;
        (len <= MAX_INTRO_LEN).then(|| head + len - n_known)
    }
}

/// Appends at most `n` bytes; false if there is nothing to read now.
pub(crate) fn read_some(mut stream: &TcpStream, n: usize, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let known = bytes.len();
    bytes.resize(known + n, 0);
    let read = stream.read(&mut bytes[known..]);
    bytes.truncate(known + read.as_ref().copied().unwrap_or_default());
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes all of a short message to a socket that blocks for a while, and lets it block no more.
pub(crate) fn introduce(stream: &TcpStream, intro: &Intro, expiry: Expiry) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(expiry.left())?;
    let mut writer = stream;
    writer.write_all(&intro.bytes())?;
    stream.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn introductions_come_back_and_prefixes_do_not() {
        let (port, world, generation) = (u16::MAX, u64::MAX, 1 << 40);
        for purpose in [
            Purpose::Join { port },
            Purpose::Data { world },
            Purpose::Control { world },
            Purpose::Visit { port },
            Purpose::Return { generation, port },
            Purpose::Call { generation, to: 63 },
            Purpose::Decline,
        ] {
            let intro = Intro {
                protocol: PROTOCOL,
                version: "1.0".to_string(),
                job: "a job".to_string(),
                purpose,
                rank: 5,
                size: 64,
            };
            let bytes = intro.bytes();
            let body = &bytes[MAGIC.len() + 4..];
            assert_eq!(Intro::of_body(body), Some(intro));
            for len in 0..body.len() {
                assert_eq!(Intro::of_body(&body[..len]), None, "{len}");
            }
        }
        assert_eq!(Purpose::of_words((7, 0, 0)), None);
    }
}
