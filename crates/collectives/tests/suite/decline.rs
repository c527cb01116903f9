//! Processes that cannot take part and say so, to whoever is there.

use crate::messages::{next, tight, why_lost};
use crate::messages_tcp::config;
use crate::world::{free_port, short};
use shardgraph_collectives::messages::{Event, Mailbox};
use shardgraph_collectives::{CommError, CommErrorKind, tcp};
use std::thread;

const REASON: &str = "settings.toml: there is no such file";

/// That `rank` cannot, for this reason.
fn check(error: &CommError, rank: u32) {
    let is_launch = matches!(error.kind(), CommErrorKind::Launch { .. });
    let sentence = format!("rank {rank} cannot take part: {REASON}");
    assert!(
        is_launch && error.to_string().contains(&sentence),
        "{error}"
    );
}

/// Those who meet as a world, those who pass messages, and those who cannot take part either.
#[test]
fn whoever_comes_to_rank_0_hears_that_it_cannot() {
    let port = free_port();
    let there = |rank| config(rank, 4, port);
    thread::scope(|scope| {
        let joins = scope.spawn(|| tcp::join(&there(1)).unwrap_err());
        let visits = scope.spawn(|| Mailbox::join(&there(2), tight()).unwrap_err());
        let declines = scope.spawn(|| tcp::decline(&there(3), "no GPU"));
        assert!(tcp::decline(&there(0), REASON));
        check(&joins.join().unwrap(), 0);
        check(&visits.join().unwrap(), 0);
        assert!(declines.join().unwrap());
    });
}

/// A process of another job is none of those that must hear it.
#[test]
fn rank_0_waits_for_all_of_its_job_and_no_longer_than_its_deadline() {
    let port = free_port();
    let other_job = tcp::TcpConfig {
        job: "another".to_string(),
        timeout: short(),
        ..config(1, 2, port)
    };
    let brief = tcp::TcpConfig {
        timeout: short(),
        ..config(0, 2, port)
    };
    thread::scope(|scope| {
        scope.spawn(|| Mailbox::join(&other_job, tight()).unwrap_err());
        assert!(!tcp::decline(&brief, REASON));
    });
    assert!(!tcp::decline(&config(2, 2, port), REASON)); // no such rank
    let alone = tcp::TcpConfig {
        timeout: short(),
        ..config(1, 2, port)
    };
    assert!(!tcp::decline(&alone, REASON));
}

#[test]
fn a_world_is_given_up_for_one_that_cannot_take_part() {
    let port = free_port();
    let there = |rank| config(rank, 3, port);
    thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| scope.spawn(move || tcp::join(&there(rank)).unwrap_err()));
        // Not before the other one has come: who finds nobody at the address looks for rank 0 until
        // its timeout.
        thread::sleep(short().duration());
        assert!(tcp::decline(&there(2), REASON));
        check(&ranks.map(|rank| rank.join().unwrap())[0], 2);
    });
}

/// Rank 0 of mailboxes goes on, and hears it once for each that had joined.
#[test]
fn a_mailbox_hears_once_of_one_that_takes_no_part() {
    let port = free_port();
    let learner = Mailbox::join(&config(0, 3, port), tight()).unwrap();
    let absent = |rank: u32, words: &str| match next(&learner) {
        Event::Rejected { rank: absent, why } => assert!(absent == rank && why.contains(words)),
        other => panic!("{other:?}"),
    };
    let decline = |rank| assert!(tcp::decline(&config(rank, 3, port), REASON));
    decline(1);
    decline(1);
    absent(1, REASON);
    let older = tcp::TcpConfig {
        version: "0.9".to_string(),
        ..config(2, 3, port)
    };
    Mailbox::join(&older, tight()).unwrap_err();
    absent(2, "version 0.9");
    let elsewhere = tcp::TcpConfig {
        job: "another".to_string(),
        ..older
    };
    Mailbox::join(&elsewhere, tight()).unwrap_err();
    assert!(tcp::decline(&elsewhere, REASON));
    let actor = Mailbox::join(&config(1, 3, port), tight()).unwrap();
    let joined = |event| assert!(matches!(event, Event::Joined { rank: 1, .. }), "{event:?}");
    joined(next(&learner)); // nothing of the other job before it
    decline(1); // of one that is there
    drop(actor);
    assert_eq!(why_lost(&learner, 1), "it left");
    decline(1);
    absent(1, REASON);
    assert_eq!(learner.received().count(), 0);
}
