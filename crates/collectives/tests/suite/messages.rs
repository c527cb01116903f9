//! Messages between two ranks: order, back pressure, and ranks that come and go, over threads and
//! over TCP.

use crate::messages_tcp::config;
use crate::world::{free_port, patient, short};
use shardgraph_collectives::messages::{Event, Limits, Mailbox, Router};
use shardgraph_collectives::{CommError, CommErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// How a rank gets its mailbox.
pub(crate) type Join = Box<dyn Fn(u32) -> Mailbox + Sync>;

/// Runs a check over threads and over TCP.
fn for_each_world(size: u32, limits: Limits, check: impl Fn(&Join)) {
    let router = Router::new(size, limits);
    check(&(Box::new(move |rank| router.join(rank).expect("a mailbox")) as Join));
    check(&over_tcp(size, limits));
}

pub(crate) fn over_tcp(size: u32, limits: Limits) -> Join {
    let port = free_port();
    Box::new(move |rank| Mailbox::join(&config(rank, size, port), limits).expect("a mailbox"))
}

/// Small enough that senders wait in every test that sends much.
pub(crate) fn tight() -> Limits {
    Limits {
        queue_bytes: 16 << 10,
        ..Limits::default()
    }
}

/// The next event, which must come.
pub(crate) fn next(mailbox: &Mailbox) -> Event {
    mailbox.recv(patient()).expect("an event in time")
}

/// The next message; others may join meanwhile.
pub(crate) fn next_message(mailbox: &Mailbox) -> (u32, u32, Vec<u8>) {
    loop {
        match next(mailbox) {
            Event::Message { from, tag, bytes } => return (from, tag, bytes),
            Event::Joined { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until `rank` is lost; messages and arrivals may come before.
pub(crate) fn why_lost(mailbox: &Mailbox, rank: u32) -> String {
    loop {
        match next(mailbox) {
            Event::Lost {
                rank: lost, why, ..
            } if lost == rank => return why,
            _ => {}
        }
    }
}

/// Waits until each of `ranks` is lost, whichever is first.
fn wait_for_losses(mailbox: &Mailbox, ranks: &[u32]) {
    let mut left = ranks.to_vec();
    while !left.is_empty() {
        if let Event::Lost { rank, .. } = next(mailbox) {
            left.retain(|other| *other != rank);
        }
    }
}

fn kind(result: Result<(), CommError>) -> CommErrorKind {
    result.expect_err("an error").kind().clone()
}

fn text(from: u32, to: u32, idx: u32) -> Vec<u8> {
    let len = (idx as usize * 37) % 3000;
    (0..len)
        .map(|i| (i as u32 + from * 7 + to * 31 + idx) as u8)
        .collect()
}

/// Every rank sends to every rank, itself too, from two threads at once, while a third receives.
#[test]
fn messages_arrive_in_the_order_of_their_sender() {
    const N: u32 = 60;
    for size in 1..=6 {
        for_each_world(size, tight(), |join| {
            // Nobody leaves before all have received.
            let end = Barrier::new(size as usize);
            thread::scope(|scope| {
                for rank in 0..size {
                    let end = &end;
                    scope.spawn(move || {
                        let mailbox = join(rank);
                        send_and_receive(&mailbox, N);
                        end.wait();
                    });
                }
            });
        });
    }
}

fn send_and_receive(mailbox: &Mailbox, n: u32) {
    let (own, size) = (mailbox.rank(), mailbox.size());
    let send = |series: u32| {
        for idx in 0..n {
            for to in 0..size {
                let tag = 1000 * series + idx;
                let sent = mailbox.send(to, tag, &text(own, to, tag), patient());
                sent.expect("room in time");
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| send(0));
        scope.spawn(|| send(1));
        let mut heard = vec![[0; 2]; size as usize];
        for _ in 0..2 * n * size {
            let (from, tag, bytes) = next_message(mailbox);
            let expected = &mut heard[from as usize][(tag / 1000) as usize];
            assert_eq!(tag % 1000, *expected, "from {from}");
            *expected += 1;
            assert_eq!(bytes, text(from, own, tag));
        }
    });
}

#[test]
fn long_messages_arrive_whole_and_too_long_ones_are_refused() {
    let limits = Limits {
        max_message_bytes: 20 << 20,
        ..tight()
    };
    for_each_world(2, limits, |join| {
        let (first, second) = (join(0), join(1));
        let long: Vec<u8> = (0..20 << 20).map(|i: u32| (i ^ (i >> 8)) as u8).collect();
        for (tag, bytes) in [(1, &long[..]), (2, &[])] {
            first.send(1, tag, bytes, patient()).unwrap();
            assert!(next_message(&second) == (0, tag, bytes.to_vec()));
        }
        let longer = vec![0; long.len() + 1];
        for (to, bytes, words) in [
            (1, &longer[..], "max_message_bytes"),
            (2, &[][..], "no rank 2"),
        ] {
            let CommErrorKind::Argument { what, .. } = kind(first.send(to, 0, bytes, patient()))
            else {
                panic!("an argument does not fit")
            };
            assert!(what.contains(words), "{what}");
        }
        second.send(0, 3, b"still there", patient()).unwrap();
        assert_eq!(next_message(&first).1, 3);
    });
}

/// Rank 1 does not receive. Who sends to it waits; what goes to rank 2 does not; and nothing of
/// what was taken is lost.
#[test]
fn a_slow_receiver_holds_up_its_senders_only() {
    for_each_world(3, tight(), |join| {
        let mailboxes = [join(0), join(1), join(2)];
        let block = vec![1; 300_000];
        let mut n_taken = 0;
        let refusal = loop {
            match mailboxes[0].send(1, n_taken, &block, short()) {
                Ok(()) => n_taken += 1,
                Err(error) => break error,
            }
            assert!(n_taken < 1000, "no bound");
        };
        let CommErrorKind::NotTaken { rank: 1, why, .. } = refusal.kind() else {
            panic!("{refusal}")
        };
        assert!(why.contains("bytes wait"), "{why}");
        for tag in 0..50 {
            mailboxes[0].send(2, tag, &[0; 5000], patient()).unwrap();
            assert_eq!(next_message(&mailboxes[2]).1, tag);
        }
        // Another sender has room of its own.
        mailboxes[2].send(1, 77, b"me too", patient()).unwrap();
        let mut tags = Vec::new();
        let mut other = None;
        while tags.len() < n_taken as usize || other.is_none() {
            match next_message(&mailboxes[1]) {
                (0, tag, _) => tags.push(tag),
                (_, tag, _) => other = Some(tag),
            }
        }
        assert_eq!(tags, (0..n_taken).collect::<Vec<_>>());
        assert_eq!(other, Some(77));
        mailboxes[0].send(1, 5, b"again", patient()).unwrap();
        assert_eq!(next_message(&mailboxes[1]).1, 5);
    });
}

/// What a rank sent before it left is there before the word that it left; the others go on.
#[test]
fn a_rank_that_leaves_is_lost_after_its_last_message() {
    for_each_world(3, Limits::default(), |join| {
        let (first, second, third) = (join(0), join(1), join(2));
        // It has taken the connection of rank 2.
        while !matches!(next(&second), Event::Joined { rank: 2, .. }) {}
        for tag in 0..100 {
            second.send(0, tag, &[9; 1000], patient()).unwrap();
        }
        drop(second);
        let mut tags = 0;
        loop {
            match next(&first) {
                Event::Message { from: 1, tag, .. } => {
                    assert_eq!(tag, tags);
                    tags += 1;
                }
                Event::Lost { rank: 1, why, .. } => {
                    assert_eq!(why, "it left");
                    break;
                }
                Event::Joined { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(tags, 100);
        assert_eq!(why_lost(&third, 1), "it left");
        let refusal = kind(first.send(1, 0, b"x", patient()));
        assert!(matches!(
            refusal,
            CommErrorKind::PeerLost { rank: Some(1), .. }
        ));
        first.send(2, 8, b"go on", patient()).unwrap();
        assert_eq!(next_message(&third).1, 8);
    });
}

#[test]
fn a_panic_is_told_and_others_go_on() {
    for_each_world(2, Limits::default(), |join| {
        let first = join(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let second = join(1);
            assert_eq!(second.rank(), 0, "planted");
        }));
        assert!(panic.is_err());
        assert_eq!(why_lost(&first, 1), "its thread panicked");
        let again = join(1);
        first.send(1, 4, b"welcome back", patient()).unwrap();
        assert_eq!(next_message(&again).1, 4);
    });
}

/// Each time with a larger generation, and with its messages between its coming and its going.
#[test]
fn a_rank_joins_again() {
    const N: usize = 5;
    for_each_world(3, Limits::default(), |join| {
        let (first, witness) = (join(0), join(2));
        for life in 0..N as u32 {
            let actor = join(1);
            for to in [0, 2] {
                actor.send(to, life, b"", patient()).unwrap();
            }
            // A send to it reaches this one and no other.
            first.send(1, 100 + life, b"", patient()).unwrap();
            assert_eq!(next_message(&actor).1, 100 + life);
            drop(actor);
            // Who sends next must not take the old one for the new.
            assert_eq!(lives(&first, 1), vec![life]);
        }
        assert_eq!(lives(&witness, N), (0..N as u32).collect::<Vec<_>>());
    });
}

/// The tags of the next `n` lives of rank 1.
fn lives(mailbox: &Mailbox, n: usize) -> Vec<u32> {
    let (mut tags, mut current, mut last) = (Vec::new(), None, 0);
    let mut n_ended = 0;
    while n_ended < n {
        match next(mailbox) {
            Event::Joined {
                rank: 1,
                generation,
            } => {
                assert!(current.is_none() && generation > last);
                (current, last) = (Some(generation), generation);
            }
            Event::Message { from: 1, tag, .. } => {
                assert!(current.is_some(), "a message of nobody");
                tags.push(tag);
            }
            Event::Lost {
                rank: 1,
                generation,
                ..
            } => {
                assert_eq!(current.take(), Some(generation));
                n_ended += 1;
            }
            _ => {}
        }
    }
    tags
}

/// The older one loses all others and can send nothing more.
#[test]
fn a_second_rank_of_a_number_takes_the_place_of_the_first() {
    for_each_world(3, Limits::default(), |join| {
        let (learner, other) = (join(0), join(2));
        let older = join(1);
        older.send(0, 1, b"older", patient()).unwrap();
        assert_eq!(next_message(&learner), (1, 1, b"older".to_vec()));
        let newer = join(1);
        for mailbox in [&learner, &other] {
            let why = why_lost(mailbox, 1);
            assert!(why.contains("another one has joined"), "{why}");
            assert!(matches!(next(mailbox), Event::Joined { rank: 1, .. }));
        }
        wait_for_losses(&older, &[0, 2]);
        for rank in [0, 2] {
            let refusal = kind(older.send(rank, 2, b"older", patient()));
            assert!(
                matches!(refusal, CommErrorKind::PeerLost { .. }),
                "{refusal:?}"
            );
        }
        // It does not come back either: longer than a rank that has lost rank 0 waits before it
        // looks for it.
        thread::sleep(Duration::from_millis(400));
        for mailbox in [&older, &learner] {
            assert_eq!(mailbox.received().next(), None);
        }
        drop(older);
        newer.send(0, 3, b"newer", patient()).unwrap();
        assert_eq!(
            next(&learner),
            Event::Message {
                from: 1,
                tag: 3,
                bytes: b"newer".to_vec()
            }
        );
        learner.send(1, 4, b"to the newer", patient()).unwrap();
        assert_eq!(next_message(&newer).1, 4);
    });
}

#[test]
fn a_send_waits_for_the_receiver_to_join() {
    for_each_world(2, Limits::default(), |join| {
        let first = join(0);
        let CommErrorKind::NotTaken { rank: 1, why, .. } = kind(first.send(1, 0, b"x", short()))
        else {
            panic!("nobody is there")
        };
        assert!(why.contains("not joined"), "{why}");
        assert_eq!(first.recv(short()), None);
        thread::scope(|scope| {
            let sender = scope.spawn(|| first.send(1, 6, b"y", patient()));
            thread::sleep(short().duration());
            let second = join(1);
            assert_eq!(next_message(&second).1, 6);
            sender.join().expect("no panic").unwrap();
        });
    });
}

#[test]
fn wrong_numbers_and_limits_are_refused() {
    let error = Router::new(2, Limits::default()).join(2).unwrap_err();
    assert!(error.to_string().contains("no rank 2"), "{error}");
    let limits = Limits {
        silence: std::time::Duration::ZERO,
        ..Limits::default()
    };
    let error = Router::new(2, limits).join(0).unwrap_err();
    assert!(error.to_string().contains("silence"), "{error}");
}
