//! Ranks that come together over the network, and what keeps them apart.

use crate::world::{free_port, patient};
use shardgraph_collectives::{Comm, CommError, CommErrorKind, Op, OpKind, Timeout, tcp};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

pub(crate) fn config(rank: u32, size: u32, port: u16) -> tcp::TcpConfig {
    tcp::TcpConfig {
        rank,
        size,
        master_addr: "127.0.0.1".to_string(),
        master_port: port,
        job: "test".to_string(),
        version: "1.0".to_string(),
        timeout: patient(),
        secret: None,
    }
}

/// Lets each process join on a thread of its own; those with a communicator meet once.
pub(crate) fn join_all(configs: Vec<tcp::TcpConfig>) -> Vec<Result<(u32, u32), CommError>> {
    let join = |config: tcp::TcpConfig| {
        let mut comm: Comm = tcp::join(&config)?;
        comm.run(Op::Barrier, patient())?;
        Ok((comm.rank(), comm.size()))
    };
    let spawn = |config| thread::spawn(move || join(config));
    let handles: Vec<_> = configs.into_iter().map(spawn).collect();
    handles
        .into_iter()
        .map(|h| h.join().expect("no panic"))
        .collect()
}

#[test]
fn ranks_meet_by_address_in_any_order() {
    for size in 1..=6 {
        let port = free_port();
        let configs = (0..size).rev().map(|rank| config(rank, size, port));
        for (rank, result) in (0..size).rev().zip(join_all(configs.collect())) {
            assert_eq!(result.unwrap(), (rank, size));
        }
    }
}

/// A name in place of a number, and all interfaces in place of one.
#[test]
fn rank_0_is_found_by_name() {
    let port = free_port();
    let named = |rank| tcp::TcpConfig {
        master_addr: "localhost".to_string(),
        ..config(rank, 2, port)
    };
    for result in join_all(vec![named(0), named(1)]) {
        result.unwrap();
    }
}

#[test]
fn ranks_meet_over_ipv6() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIPPED: ranks over IPv6: this machine has no ::1");
        return;
    }
    let port = free_port();
    let there = |rank| tcp::TcpConfig {
        master_addr: "::1".to_string(),
        ..config(rank, 3, port)
    };
    for result in join_all(vec![there(0), there(1), there(2)]) {
        assert_eq!(result.unwrap().1, 3);
    }
}

#[test]
fn a_rank_that_never_comes_is_named_on_all_that_did() {
    let port = free_port();
    let soon = |rank| tcp::TcpConfig {
        timeout: Timeout::after(Duration::from_millis(400)),
        ..config(rank, 5, port)
    };
    for result in join_all(vec![soon(0), soon(1), soon(3)]) {
        let error = result.expect_err("no world");
        let CommErrorKind::Timeout { op, missing, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!((*op, missing), (OpKind::Join, &vec![2, 4]));
    }
}

#[test]
fn without_rank_0_the_others_say_where_they_looked() {
    let port = free_port();
    let alone = tcp::TcpConfig {
        timeout: Timeout::after(Duration::from_millis(200)),
        ..config(1, 2, port)
    };
    let error = tcp::join(&alone).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            CommErrorKind::PeerLost {
                rank: Some(0),
                op: OpKind::Join,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

/// What all ranks of a world of two or three say where one does not fit.
fn refusals(configs: Vec<tcp::TcpConfig>, words: &[&str]) {
    for result in join_all(configs) {
        let error = result.expect_err("no world");
        assert!(
            matches!(error.kind(), CommErrorKind::Launch { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn processes_that_do_not_fit_are_named() {
    let port = free_port();
    let older = tcp::TcpConfig {
        version: "0.9".to_string(),
        ..config(1, 2, port)
    };
    refusals(
        vec![config(0, 2, port), older],
        &["rank 0", "1.0", "rank 1", "0.9"],
    );
    let port = free_port();
    refusals(
        vec![config(0, 2, port), config(1, 3, port)],
        &["2 ranks", "of 3 ranks", "rank 1"],
    );
    let port = free_port();
    refusals(
        vec![config(0, 3, port), config(1, 3, port), config(1, 3, port)],
        &["two processes", "rank 1"],
    );
}

/// The second rank 0 on a machine cannot have the port.
#[test]
fn a_second_rank_0_is_told_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = tcp::join(&config(0, 2, port)).unwrap_err();
    assert!(error.to_string().contains("another rank 0"), "{error}");
}

#[test]
fn numbers_that_make_no_world_are_refused_at_once() {
    for (rank, size, words) in [
        (0, 0, "at least one"),
        (2, 2, "from 0 to 1"),
        (0, tcp::MAX_RANKS + 1, "at most"),
    ] {
        let error = tcp::join(&config(rank, size, 1)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A process of another job, one that says nothing, and one that says something else: the world
/// comes together without them.
#[test]
fn strangers_do_not_disturb() {
    let port = free_port();
    let first = thread::spawn(move || join_all(vec![config(0, 2, port)]));
    let stranger = || connected(port);
    let _silent = stranger();
    let mut loud = stranger();
    loud.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut huge = stranger();
    huge.write_all(b"\xff\xff\xff\xffshrdgrph").unwrap();
    let mut garbled = stranger();
    garbled.write_all(b"\x0c\0\0\0shrdgrph\x01\0\0\0").unwrap();
    let other_job = tcp::TcpConfig {
        job: "another".to_string(),
        ..config(1, 2, port)
    };
    let error = tcp::join(&other_job).unwrap_err();
    assert!(error.to_string().contains("job `another`"), "{error}");
    let second = join_all(vec![config(1, 2, port)]);
    for result in first.join().unwrap().into_iter().chain(second) {
        result.unwrap();
    }
}

/// Strangers that are silent or send half a hello: the ranks
/// each other nevertheless.
#[test]
fn a_flood_of_strangers_does_not_keep_ranks_apart() {
    const N_STRANGERS: usize = 300;
    let port = free_port();
    let first = thread::spawn(move || join_all(vec![config(0, 2, port)]));
    let mut strangers = Vec::new();
    while strangers.len() < N_STRANGERS {
        let timeout = Duration::from_millis(200);
        let Ok(mut stream) =
            TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), timeout)
        else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        if strangers.len() % 2 == 0 {
            // An evicted one may be closed already.
            let _ = stream.write_all(b"\x40\0\0\0shrd");
        }
        strangers.push(stream);
    }
    let second = join_all(vec![config(1, 2, port)]);
    for result in first.join().unwrap().into_iter().chain(second) {
        result.unwrap();
    }
}

/// Plays a rank up to its hello: the bytes of a process of this build.
#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn hello_of(rank: u32, size: u32) -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let brief = tcp::TcpConfig {
        timeout: Timeout::after(Duration::from_millis(500)),
        ..config(rank, size, port)
    };
    let joining = thread::spawn(move || tcp::join(&brief).map(drop));
    let (mut stream, _) = listener.accept().unwrap();
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut hello = len.to_vec();
    hello.resize(4 + u32::from_le_bytes(len) as usize, 0);
    stream.read_exact(&mut hello[4..]).unwrap();
    drop((stream, listener));
    joining.join().unwrap().unwrap_err();
    hello
}

/// A rank that dies while others are still coming, before or after it was accepted: all that are
/// there know within a second.
#[test]
fn a_death_during_joining_is_seen_at_once() {
    for is_accepted in [false, true] {
        let port = free_port();
        let hello = hello_of(1, 3);
        // It may come when rank 0 has gone already, and then looks for it.
        let last = tcp::TcpConfig {
            timeout: Timeout::after(Duration::from_secs(3)),
            ..config(2, 3, port)
        };
        let started = thread::spawn(move || join_all(vec![config(0, 3, port), last]));
        if !is_accepted {
            let mut doomed = connected(port);
            doomed.write_all(&hello).unwrap();
            // Rank 0 and rank 2 may have seen each other or not.
            thread::sleep(Duration::from_millis(20));
        } else {
            let mut doomed = connected(port);
            doomed.write_all(&hello).unwrap();
            doomed.read_exact(&mut [0; 4]).unwrap();
        }
        let (done, is_done) = std::sync::mpsc::channel();
        thread::spawn(move || done.send(started.join().unwrap()));
        let results = is_done
            .recv_timeout(Duration::from_secs(15))
            .expect("long before the timeout");
        for result in results {
            let error = result.unwrap_err();
            let CommErrorKind::PeerLost { rank, .. } = error.kind() else {
                panic!("{error}")
            };
            // A rank that comes too late finds that rank 0 has gone.
            assert!(matches!(rank, Some(1 | 0)), "{error}");
        }
    }
}

/// Rank 0 dies while it waits for the others.
#[test]
fn without_rank_0_the_gathered_ranks_do_not_wait() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let joining = thread::spawn(move || join_all(vec![config(1, 3, port)]));
    let (stream, _) = listener.accept().unwrap();
    thread::sleep(Duration::from_millis(20));
    drop((stream, listener));
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(joining.join().unwrap()));
    let results = is_done
        .recv_timeout(Duration::from_secs(5))
        .expect("long before the timeout");
    let error = results.into_iter().next().unwrap().unwrap_err();
    let is_lost = matches!(error.kind(), CommErrorKind::PeerLost { rank: Some(0), .. });
    assert!(
        is_lost && error.to_string().contains("gathering"),
        "{error}"
    );
}

/// A connection to rank 0, once it listens.
fn connected(port: u16) -> TcpStream {
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return stream,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A rank that starts after another was lost hears of it from rank 0, and does not look for rank 0
/// until its time is over.
#[test]
fn a_rank_that_comes_late_hears_who_was_lost() {
    use crate::messages_tcp::{Hello, Kind, Purpose, with_length};
    let port = free_port();
    let host = thread::spawn(move || join_all(vec![config(0, 3, port)]).remove(0));
    let purpose = Purpose::Join {
        kind: Kind::Comm,
        port: 9,
    };
    let (version, job) = ("1.0".to_string(), "test".to_string());
    let hello: Hello = (*b"shrdgrph", 6, version, job, 2, 3, purpose, None);
    let lost = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(mut stream) => {
                stream.write_all(&with_length(&hello)).unwrap();
                break stream;
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    // Rank 0 reads the hello before it sees the end.
    thread::sleep(Duration::from_millis(200));
    drop(lost);
    thread::sleep(Duration::from_millis(200));
    let late = join_all(vec![config(1, 3, port)]).remove(0).unwrap_err();
    for error in [late, host.join().unwrap().unwrap_err()] {
        assert!(
            matches!(error.kind(), CommErrorKind::PeerLost { rank: Some(2), .. }),
            "{error}"
        );
    }
}
