//! Messages between processes: strangers, garbage, silence, and processes that are killed or
//! stopped.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::messages::{Join, next, next_message, over_tcp, tight, why_lost};
use crate::world::{free_port, patient, short};
use shardgraph_collectives::messages::{Event, Limits, Mailbox};
use shardgraph_collectives::{CommErrorKind, Timeout, tcp};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) fn config(rank: u32, size: u32, port: u16) -> tcp::TcpConfig {
    tcp::TcpConfig {
        rank,
        size,
        master_addr: "127.0.0.1".to_string(),
        master_port: port,
        job: "messages".to_string(),
        version: "1.0".to_string(),
        timeout: patient(),
        secret: None,
    }
}

/// Purpose of a connection, as a process says it that was not built from this source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    Join { kind: Kind, port: u16 },
    Decline(String),
    Data(u64),
    Control(u64),
    Mailbox { generation: u64, to: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Comm,
    Mailboxes,
}

/// Magic, protocol, version, job, rank, number of ranks, purpose, nonce.
pub(crate) type Hello = (
    [u8; 8],
    u32,
    String,
    String,
    u32,
    u32,
    Purpose,
    Option<[u8; 32]>,
);

/// Generation of the one that joins, generation of rank 0, and the others.
pub(crate) type Accepted = (u64, u64, Vec<(u32, u64, SocketAddr)>);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Accepted(Accepted),
    Refused(Refusal),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    Launch(String),
    Missing(Vec<u32>),
    Lost(u32),
}

/// The port is that of no process.
pub(crate) fn joins() -> Purpose {
    Purpose::Join {
        kind: Kind::Mailboxes,
        port: 9,
    }
}

pub(crate) fn with_length(value: &impl Serialize) -> Vec<u8> {
    let body = postcard::to_allocvec(value).expect("plain data");
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// The next message of a length, as one of its type.
pub(crate) fn read_frame<T: DeserializeOwned>(mut stream: &TcpStream) -> T {
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("it says something");
    let mut body = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut body).expect("it says all of it");
    postcard::from_bytes(&body).expect("a message")
}

/// Comes to a rank as another one of three.
pub(crate) fn stranger(port: u16, rank: u32, purpose: Purpose) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream
        .set_read_timeout(Some(patient().duration()))
        .expect("a socket");
    let (version, job) = ("1.0".to_string(), "messages".to_string());
    let hello: Hello = (*b"shrdgrph", 6, version, job, rank, 3, purpose, None);
    stream.write_all(&with_length(&hello)).expect("it is read");
    stream
}

/// Joins as rank 2 of 3, and is accepted.
pub(crate) fn visitor(port: u16) -> TcpStream {
    let stream = stranger(port, 2, joins());
    let response: Response = read_frame(&stream);
    assert!(matches!(response, Response::Accepted(_)), "{response:?}");
    stream
}

/// A call with a generation that no rank 0 gives takes no rank's place.
#[test]
fn a_generation_that_nobody_gives_does_not_close_the_door() {
    let port = free_port();
    let host = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    let call = Purpose::Mailbox {
        generation: u64::MAX,
        to: 0,
    };
    let _caller = stranger(port, 2, call);
    let joined = || match next(&host) {
        Event::Joined {
            rank: 2,
            generation,
        } => generation,
        other => panic!("the visitor joins: {other:?}"),
    };
    let _visitor = visitor(port);
    let generation = joined();
    let _newer = visitor(port);
    let why = why_lost(&host, 2);
    assert!(why.contains("another one has joined"), "{why}");
    let newer = joined();
    assert!(newer > generation && newer < 1 << 62, "{newer}");
}

/// Garbage at the door changes nothing. Garbage of a rank that has joined ends that rank only.
#[test]
fn garbage_ends_nothing_but_its_sender() {
    let port = free_port();
    let learner = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    let actor = Mailbox::join(&config(1, 3, port), tight()).unwrap();
    let door = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let _silent = door();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\xff\xff\xff\xffshrdgrph",
        b"\x0c\0\0\0shrdgrph\x01\0\0\0",
    ] {
        door().write_all(bytes).unwrap();
    }
    let huge = [0x53, 0x67, 0x73, 0x6d, 0, 0, 0, 0, 255, 255, 255, 255];
    for (bytes, words) in [
        (&b"this is no frame"[..], "no message"),
        (&huge, "at most"),
        (b"Sgsm", "its process ended"),
    ] {
        let mut stranger = visitor(port);
        stranger.write_all(bytes).unwrap();
        // Garbage is noticed without an end of the stream. (The learner closes with the rest of
        // it unread, which resets the connection: an end of it here could be refused.)
        let is_incomplete = bytes.len() < 12;
        if is_incomplete {
            stranger.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let why = why_lost(&learner, 2);
        assert!(why.contains(words), "{why}");
    }
    actor.send(0, 5, b"here", patient()).unwrap();
    assert_eq!(next_message(&learner).1, 5);
}

#[test]
fn a_process_that_does_not_fit_is_told_why() {
    let port = free_port();
    let _learner = Mailbox::join(&config(0, 2, port), tight()).unwrap();
    let other_job = tcp::TcpConfig {
        job: "another".to_string(),
        ..config(1, 2, port)
    };
    let older = tcp::TcpConfig {
        version: "0.9".to_string(),
        ..config(1, 2, port)
    };
    for (config, words) in [
        (other_job, "job `another`"),
        (older, "version 0.9"),
        (config(1, 3, port), "counts 2 ranks"),
        (config(2, 2, port), "rank 2 of 2"),
    ] {
        let error = Mailbox::join(&config, tight()).unwrap_err();
        assert!(
            matches!(error.kind(), CommErrorKind::Launch { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
    let second = Mailbox::join(&config(0, 2, port), tight()).unwrap_err();
    assert!(second.to_string().contains("another rank 0"), "{second}");
}

#[test]
fn without_rank_0_the_others_say_where_they_looked() {
    let port = free_port();
    let alone = tcp::TcpConfig {
        timeout: Timeout::after(Duration::from_millis(200)),
        ..config(1, 2, port)
    };
    let error = Mailbox::join(&alone, tight()).unwrap_err();
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(matches!(
        error.kind(),
        CommErrorKind::PeerLost { rank: Some(0), .. }
    ));
}

/// Ranks with nothing to say stay; one of which nothing is heard is lost.
#[test]
fn silence_is_a_loss_and_idleness_is_not() {
    let limits = Limits {
        silence: Duration::from_secs(1),
        ..tight()
    };
    let port = free_port();
    let learner = Mailbox::join(&config(0, 3, port), limits).unwrap();
    let actor = Mailbox::join(&config(1, 3, port), limits).unwrap();
    let _mute = visitor(port);
    let why = why_lost(&learner, 2);
    assert!(why.contains("nothing was heard"), "{why}");
    std::thread::sleep(limits.silence);
    actor.send(0, 1, b"still here", patient()).unwrap();
    assert_eq!(
        next(&learner),
        Event::Message {
            from: 1,
            tag: 1,
            bytes: b"still here".to_vec()
        }
    );
}

#[test]
fn ranks_meet_over_ipv6() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIPPED: messages over IPv6: this machine has no ::1");
        return;
    }
    let port = free_port();
    let there = |rank| tcp::TcpConfig {
        master_addr: "::1".to_string(),
        ..config(rank, 3, port)
    };
    let mailboxes: Vec<Mailbox> = (0..3)
        .map(|rank| Mailbox::join(&there(rank), tight()).unwrap())
        .collect();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        mailboxes[from]
            .send(to as u32, 9, b"six", patient())
            .unwrap();
        assert_eq!(next_message(&mailboxes[to]).0, from as u32);
    }
}

/// The process that `as_a_process` plays, when it is started with this variable: the port of rank 0.
const ACTOR: &str = "SHARDGRAPH_TEST_ACTOR";

/// No test of its own: the actor of the tests below. It sends its number of messages and answers
/// every message.
#[test]
fn as_a_process() {
    let Some(port) = std::env::var(ACTOR).ok().and_then(|port| port.parse().ok()) else {
        return;
    };
    let mailbox = Mailbox::join(&config(1, 3, port), quick()).unwrap();
    for tag in 0..10 {
        mailbox.send(0, tag, &[7; 100_000], patient()).unwrap();
    }
    loop {
        if let (from, tag @ 1000.., _) = next_message(&mailbox) {
            mailbox.send(from, tag + 1, &[], patient()).unwrap();
        }
    }
}

fn quick() -> Limits {
    Limits {
        silence: Duration::from_secs(3),
        ..tight()
    }
}

fn start_actor(port: u16) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command
        .args(["--exact", "messages_tcp::as_a_process"])
        .env(ACTOR, port.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("it starts again")
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "no kill");
}

/// An actor process is killed, started again, stopped: the learner drops it and goes on with
/// another.
#[test]
fn processes_that_die_or_stop_are_dropped_and_replaced() {
    let port = free_port();
    let join: Join = Box::new(move |rank| Mailbox::join(&config(rank, 3, port), quick()).unwrap());
    let (learner, other) = (join(0), join(2));
    for end in ["KILL", "KILL", "STOP"] {
        let mut actor = start_actor(port);
        for tag in 0..10 {
            let (from, heard, bytes) = next_message(&learner);
            assert_eq!((from, heard, bytes.len()), (1, tag, 100_000));
        }
        learner.send(1, 1000, &[], patient()).unwrap();
        assert_eq!(next_message(&learner), (1, 1001, Vec::new()));
        signal(&actor, end);
        if end == "STOP" {
            check_stopped(&learner, &other);
        }
        let why = why_lost(&learner, 1);
        let words = if end == "STOP" {
            "nothing was heard"
        } else {
            "process ended"
        };
        assert!(
            why.contains(words) || why.contains("connection broke"),
            "{why}"
        );
        let lost = learner.send(1, 0, &[], patient()).unwrap_err();
        assert!(
            matches!(lost.kind(), CommErrorKind::PeerLost { rank: Some(1), .. }),
            "{lost}"
        );
        learner.send(2, 3, b"go on", patient()).unwrap();
        assert_eq!(next_message_or_news(&other), 3);
        actor.kill().unwrap();
        actor.wait().unwrap();
    }
}

/// Sends to the stopped process come to their timeout, and those to the other do not wait.
fn check_stopped(learner: &Mailbox, other: &Mailbox) {
    let block = vec![1; 1 << 20];
    let refusal = loop {
        if let Err(refusal) = learner.send(1, 0, &block, short()) {
            break refusal;
        }
    };
    assert!(
        matches!(refusal.kind(), CommErrorKind::NotTaken { rank: 1, .. }),
        "{refusal}"
    );
    learner
        .send(2, 4, b"meanwhile", patient())
        .expect("room in time");
    assert_eq!(next_message_or_news(other), 4);
}

fn next_message_or_news(mailbox: &Mailbox) -> u32 {
    loop {
        if let Event::Message { tag, .. } = next(mailbox) {
            return tag;
        }
    }
}

/// A rank that leaves while another does not receive leaves within its grace, not never.
#[test]
fn leaving_does_not_wait_for_a_receiver_that_never_reads() {
    let join = over_tcp(2, tight());
    let (first, second) = (join(0), join(1));
    while first.send(1, 0, &vec![0; 1 << 20], short()).is_ok() {}
    drop(first);
    why_lost(&second, 0);
}
