//! Processes that share a secret, and those that come without it.

use crate::messages::{next_message, tight};
use crate::messages_tcp::{self, joins, stranger};
use crate::tcp_join::{self, join_all};
use crate::world::{free_port, patient};
use shardgraph_collectives::messages::Mailbox;
use shardgraph_collectives::{CommErrorKind, Op, Timeout, tcp};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

fn secret(text: &str) -> Option<tcp::Secret> {
    Some(tcp::Secret::new(text).expect("long enough"))
}

fn shared() -> Option<tcp::Secret> {
    secret("a secret of all ranks")
}

fn with(secret: Option<tcp::Secret>, config: tcp::TcpConfig) -> tcp::TcpConfig {
    tcp::TcpConfig { secret, ..config }
}

/// Ranks of a communicator, which connect in pairs.
#[test]
fn ranks_that_share_a_secret_join() {
    let port = free_port();
    let ranks: Vec<_> = (0..4)
        .map(|rank| {
            thread::spawn(move || {
                let config = with(shared(), tcp_join::config(rank, 4, port));
                let mut comm = tcp::join(&config)?;
                comm.run(Op::Barrier, patient())?;
                Ok::<_, shardgraph_collectives::CommError>(comm.size())
            })
        })
        .collect();
    for rank in ranks {
        assert_eq!(rank.join().unwrap().unwrap(), 4);
    }
}

/// Who has no secret, or another one, is told so at once; who has it joins all the same.
#[test]
fn processes_without_the_secret_are_refused_and_keep_nobody_out() {
    let port = free_port();
    let host = thread::spawn(move || {
        join_all(vec![with(shared(), tcp_join::config(0, 2, port))]).remove(0)
    });
    for (secret, words) in [
        (None, "share a secret"),
        (secret("the secret of another job"), "another secret"),
    ] {
        let config = with(secret, tcp_join::config(1, 2, port));
        let error = tcp::join(&config).map(drop).unwrap_err();
        assert!(
            matches!(error.kind(), CommErrorKind::Launch { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
    let joined = join_all(vec![with(shared(), tcp_join::config(1, 2, port))]).remove(0);
    assert_eq!(joined.unwrap(), (1, 2));
    assert_eq!(host.join().unwrap().unwrap(), (0, 2));
}

#[test]
fn a_secret_that_rank_0_does_not_have_is_named_on_both_sides() {
    let port = free_port();
    let configs = vec![
        tcp_join::config(0, 2, port),
        with(shared(), tcp_join::config(1, 2, port)),
    ];
    for joined in join_all(configs) {
        let error = joined.unwrap_err();
        assert!(
            error.to_string().contains("rank 0 has no secret"),
            "{error}"
        );
    }
}

/// One that says that it is a rank, and cannot prove it, does not end the gathering: without a
/// secret another version does.
#[test]
fn what_is_not_proved_changes_nothing() {
    let port = free_port();
    let host = thread::spawn(move || {
        join_all(vec![with(shared(), tcp_join::config(0, 2, port))]).remove(0)
    });
    for _ in 0..200 {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let hello: messages_tcp::Hello = (
            *b"shrdgrph",
            6,
            "another".to_string(),
            "test".to_string(),
            1,
            2,
            joins(),
            Some([7; 32]),
        );
        // It hears the challenge, and has no answer to it.
        let said = messages_tcp::with_length(&hello);
        let _ = stream
            .write_all(&said)
            .and_then(|()| stream.write_all(&messages_tcp::with_length(&[0u8; 32])));
    }
    let joined = join_all(vec![with(shared(), tcp_join::config(1, 2, port))]).remove(0);
    assert_eq!(joined.unwrap(), (1, 2));
    assert_eq!(host.join().unwrap().unwrap(), (0, 2));
}

/// Mailboxes, in pairs.
#[test]
fn mailboxes_that_share_a_secret_meet() {
    let port = free_port();
    let join = |rank| {
        let config = with(shared(), messages_tcp::config(rank, 3, port));
        Mailbox::join(&config, tight()).unwrap()
    };
    let (learner, first, second) = (join(0), join(1), join(2));
    for (from, to) in [(&first, 0), (&second, 1), (&first, 2), (&learner, 2)] {
        from.send(to, 4, b"known", patient()).unwrap();
    }
    assert_eq!(next_message(&learner).0, 1);
    assert_eq!(next_message(&first).0, 2);
    let mut heard = [next_message(&second).0, next_message(&second).0];
    heard.sort_unstable();
    assert_eq!(heard, [0, 1]);
    // A stranger of the old kind hears that there is a secret, and is no rank.
    let mut unknown = stranger(port, 1, joins());
    let mut answer = Vec::new();
    let _ = unknown.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("share a secret"), "{text}");
    first.send(0, 5, b"still here", patient()).unwrap();
    assert_eq!(next_message(&learner).1, 5);
    let alone = tcp::TcpConfig {
        timeout: Timeout::after(Duration::from_secs(5)),
        ..with(None, messages_tcp::config(2, 3, port))
    };
    let error = Mailbox::join(&alone, tight()).unwrap_err();
    assert!(error.to_string().contains("share a secret"), "{error}");
}
