//! The way back to a new rank 0, with one of the two sides played by the test: what one attempt
//! leaves behind for the next.

use crate::messages::{next, next_message, tight, why_lost};
use crate::messages_tcp::{
    Accepted, Hello, Purpose, Response, config, joins, keep_alive, read_frame, stranger, visitor,
    with_length,
};
use crate::world::{free_port, patient};
use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Event, Mailbox};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Whether rank 0 takes rank 2 back; the connection goes on in that case.
fn is_taken(port: u16, generation: u64) -> Option<TcpStream> {
    let mut stream = stranger(port, 2, joins(Some(generation)));
    if let Response::Refused(_) = read_frame(&stream) {
        return None;
    }
    stream.write_all(&keep_alive()).expect("rank 0 is there");
    Some(stream)
}

/// Who gives up before rank 0 answers, or says nothing to its welcome, may come again; who was
/// there and is lost may not.
#[test]
fn an_attempt_to_come_back_that_was_given_up_is_not_counted() {
    const GENERATION: u64 = 77;
    let port = free_port();
    let host = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    for _ in 0..3 {
        drop(stranger(port, 2, joins(Some(GENERATION))));
    }
    let _silent = stranger(port, 2, joins(Some(GENERATION)));
    let joined = Event::Joined {
        rank: 2,
        generation: GENERATION,
    };
    // On a machine with much to do the answer to the welcome may come too late, which is one more
    // attempt given up.
    let back = (0..10).find_map(|_| {
        let back = is_taken(port, GENERATION).expect("it is taken");
        let event = host.recv(Timeout::after(Duration::from_secs(3)))?;
        assert_eq!(event, joined);
        Some(back)
    });
    drop(back.expect("it is there"));
    why_lost(&host, 2);
    for generation in [GENERATION, GENERATION - 1] {
        assert!(is_taken(port, generation).is_none(), "{generation}");
    }
    assert_eq!(host.received().next(), None);
}

/// Newcomers are counted on from the largest generation that came back, which must leave them room.
#[test]
fn a_generation_that_nobody_gives_does_not_close_the_door() {
    let port = free_port();
    let host = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    assert!(is_taken(port, u64::MAX).is_none());
    let _visitor = visitor(port);
    let Event::Joined {
        rank: 2,
        generation,
    } = next(&host)
    else {
        panic!("the visitor joins")
    };
    assert!(generation < 1 << 62, "{generation}");
    // Nor does a call with it take a rank's place for ever.
    let actor = Mailbox::join(&config(1, 3, port), tight()).unwrap();
    actor.send(0, 1, b"here", patient()).unwrap();
    assert_eq!(next_message(&host).0, 1);
    let _caller = stranger(port, 2, calls(u64::MAX, 0));
    let _newer = visitor(port);
    let why = why_lost(&host, 2);
    assert!(why.contains("another one has joined"), "{why}");
    let Event::Joined {
        rank: 2,
        generation: newer,
    } = next(&host)
    else {
        panic!("the newer visitor joins")
    };
    assert!(newer > generation && newer < 1 << 62, "{newer}");
}

/// A connection to a rank 0 that is played here.
fn knock(listener: &TcpListener, wait: Duration) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut n_left = wait.as_millis();
    while n_left > 0 {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("a socket");
            stream
                .set_read_timeout(Some(patient().duration()))
                .expect("a socket");
            return stream;
        }
        thread::sleep(Duration::from_millis(1));
        n_left -= 1;
    }
    panic!("nobody knocks within {wait:?}");
}

/// The generation and the port of the one that knocks, which comes back.
fn comes_back(stream: &TcpStream) -> (u64, u16) {
    let (.., purpose, _): Hello = read_frame(stream);
    let Purpose::Join {
        port,
        generation: Some(generation),
        ..
    } = purpose
    else {
        panic!("{purpose:?}")
    };
    (generation, port)
}

/// Another mailbox that connects to rank `to`.
fn calls(generation: u64, to: u32) -> Purpose {
    Purpose::Mailbox { generation, to }
}

/// A rank 1 of 3 that has lost rank 0, in whose place the listener is.
fn left_alone(port: u16) -> (Mailbox, TcpListener) {
    let join = |rank| Mailbox::join(&config(rank, 3, port), tight()).expect("a mailbox");
    let (host, actor) = (join(0), join(1));
    drop(host);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port of rank 0");
    why_lost(&actor, 0);
    (actor, listener)
}

/// What a rank 0 answers that is played here: the generation of the other, its own, and who else is
/// there.
fn welcome(own: u64, host: u64, others: &[(u32, u64, u16)]) -> Vec<u8> {
    let others = others.iter().map(|&(rank, generation, port)| {
        let address = (Ipv4Addr::LOCALHOST, port).into();
        (rank, generation, address)
    });
    let accepted: Accepted = (own, host, others.collect());
    with_length(&Response::Accepted(accepted))
}

/// Something else listens where rank 0 was, and takes nobody, or has a number that cannot be:
/// whenever rank 0 is there again, it is found soon.
#[test]
fn who_looks_for_rank_0_does_not_get_tired() {
    const N: usize = 8;
    let port = free_port();
    let (actor, listener) = left_alone(port);
    // A pause that was doubled without a bound would be 12 s by then.
    for idx in 0..N {
        let mut stream = knock(&listener, Duration::from_secs(6));
        if idx % 2 == 0 {
            let (own, _) = comes_back(&stream);
            stream.write_all(&welcome(own, u64::MAX, &[])).unwrap();
        }
    }
    drop(listener);
    let host = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    host.send(1, 1, b"back", patient()).unwrap();
    while !matches!(
        next(&actor),
        Event::Message {
            from: 0,
            tag: 1,
            ..
        }
    ) {}
}

/// A new rank 0 names a newcomer that cannot be reached at that time. When it comes itself it is
/// taken.
#[test]
fn a_newcomer_that_was_not_reached_on_the_way_back_can_call() {
    const HOST: u64 = 1 << 61;
    const NEWCOMER: u64 = HOST + 1;
    let port = free_port();
    let (actor, listener) = left_alone(port);
    let others = [(2, NEWCOMER, free_port())];
    // It looks again if this machine has so much to do that the welcome comes too late.
    let assent = (0..10).find_map(|_| {
        let mut stream = knock(&listener, patient().duration());
        let (own, own_port) = comes_back(&stream);
        let mut heard = [0; 12];
        stream.write_all(&welcome(own, HOST, &others)).ok()?;
        stream.read_exact(&mut heard).ok()?;
        assert_eq!(heard[..], keep_alive());
        Some((stream, own_port))
    });
    let (_stream, own_port) = assent.expect("it takes the welcome");
    assert!(matches!(next(&actor), Event::Joined { rank: 0, .. }));
    // It has dialed before it looks at who calls.
    let _call = stranger(own_port, 2, calls(NEWCOMER, 1));
    let joined = Event::Joined {
        rank: 2,
        generation: NEWCOMER,
    };
    assert_eq!(next(&actor), joined);
    assert_eq!(actor.recv(Timeout::after(Duration::from_millis(50))), None);
}
