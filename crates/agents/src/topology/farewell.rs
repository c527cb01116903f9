//! How a learner leaves: everybody of its launch hears that the run is over, also who comes only then.

use std::collections::BTreeSet;
use std::time::Duration;

use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::Event;
use shardgraph_device::Timer;

use super::port::Port;

/// A rank that a run has ended without, and why.
pub(crate) type Absent = (u32, String);

/// Takes leave when the run is over and written. Who is there, and whoever comes meanwhile, hears the tag `stop`, and is waited for until it says
/// `done` or leaves. Who has never come is waited for too: ranks of one launch start at about the same time and look for the learner
/// for one deadline, so it is there for one deadline since it came. Gives those who did not come, or came and could not take part.
pub(crate) fn see_off(port: &Port, mut there: BTreeSet<u32>, stop: u32, done: u32) -> Vec<Absent> {
    let timer = Timer::wall();
    let left = || port.deadline().saturating_sub(timer.elapsed());
    let hears = |rank: u32| {
        let sent = port.send_within(rank, stop, &[], Timeout::after(left()));
        sent.unwrap_or(false)
    };
    there.retain(|rank| hears(*rank));
    let mut absent = Vec::new();
    loop {
        let of_answers = if there.is_empty() {
            Duration::ZERO
        } else {
            left()
        };
        let of_arrivals = match port.missing().is_empty() {
            true => Duration::ZERO,
            false => port.left(),
        };
        let patience = of_answers.max(of_arrivals);
        match port.recv_within(patience) {
            Some(Event::Message { from, tag, .. }) if tag == done => drop(there.remove(&from)),
            Some(Event::Joined { rank, .. }) if hears(rank) => drop(there.insert(rank)),
            Some(Event::Lost { rank, .. }) => drop(there.remove(&rank)),
            Some(Event::Rejected { rank, why }) => absent.push((rank, why)),
            None if patience.is_zero() => break,
            _ => {}
        }
    }
    let why = format!("it did not come within {} s", port.deadline().as_secs_f64());
    absent.extend(port.missing().into_iter().map(|rank| (rank, why.clone())));
    absent
}

#[cfg(test)]
mod tests {
    use shardgraph_collectives::messages::{Limits, Mailbox};
    use shardgraph_collectives::tcp;

    use super::*;

    #[test]
    fn who_declines_and_who_never_comes_are_named() {
        // Below those that a system gives to whoever connects.
        let first = std::process::id() % 20_000;
        let mut ports = (0..2000).map(|idx| 10_000 + (first + idx) as u16);
        let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let master_port = ports.find(is_free).unwrap();
        let deadline = Timeout::after(Duration::from_secs(3));
        let config = |rank| tcp::TcpConfig {
            rank,
            size: 3,
            master_addr: "127.0.0.1".to_owned(),
            master_port,
            job: "farewell".to_owned(),
            version: "1".to_owned(),
            timeout: deadline,
            secret: None,
        };
        let mailbox = Mailbox::join(&config(0), Limits::default()).unwrap();
        let port = Port::of_process(mailbox, deadline);
        let absent = std::thread::scope(|scope| {
            let declines = scope.spawn(|| tcp::decline(&config(1), "no settings"));
            let absent = see_off(&port, BTreeSet::new(), 1, 2);
            assert!(declines.join().unwrap());
            absent
        });
        let expected = [
            (1, "it cannot take part: no settings".to_owned()),
            (2, "it did not come within 3 s".to_owned()),
        ];
        assert_eq!(absent, expected);
    }
}
