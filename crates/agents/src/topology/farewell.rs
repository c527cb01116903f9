//! How a learner leaves: everybody of its launch hears that the run is over, also who comes only then.

use std::collections::BTreeSet;
use std::time::Duration;

use shardgraph_collectives::Deadline;
use shardgraph_collectives::messages::Event;
use shardgraph_device::Timer;

use super::Port;

/// A rank that a run has ended without, and why.
pub(crate) type Absent = (u32, String);

/// Takes leave when the run is over and written. Who is there, and whoever comes meanwhile, hears the tag `stop`, and is waited for until it says
/// `done` or leaves. Who has never come is waited for too: ranks of one launch start at about the same time and look for the learner
/// for one deadline, so it is there for one deadline since it came. Gives those who did not come, or came and could not take part.
pub(crate) fn see_off(
    port: &Port,
    mut there: BTreeSet<u32>,
    (stop, done): (u32, u32),
) -> Vec<Absent> {
    let timer = Timer::wall();
    let left = || port.deadline().saturating_sub(timer.elapsed());
    let hears = |rank: u32| {
        let sent = port.send_within(rank, stop, &[], Deadline::after(left()));
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
            Some(Event::Absent { rank, why }) => absent.push((rank, why)),
            None if patience.is_zero() => break,
            _ => {}
        }
    }
    let why = format!("it did not come within {} s", port.deadline().as_secs_f64());
    absent.extend(port.missing().into_iter().map(|rank| (rank, why.clone())));
    absent
}
