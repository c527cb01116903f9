//! List scheduling with keys as priorities: placement, order and transfers follow from the clocks.
//!
//! Over free links, a device that meets another at a transfer can take along everything that the other has made so far, at no
//! cost. So the device that is free first takes the first op, by priority, of which every input was made on it or before its last
//! meeting with the input's maker; only where there is none do two devices meet anew. The transfers are put in afterwards, each at
//! the last meeting before its first use. Over links that cost, and between unequal devices, the first op by priority goes
//! where it ends first.
//!
//! Where devices have limits of memory that such a schedule breaks, a second one is made with a [`Ledger`], over all links in the
//! second way: the first op by priority that fits on some device goes where it ends first of those where it fits.

use super::ledger::Ledger;
use super::ranks::{RankSet, Ranking};
use crate::{Problem, Step, accounts::Accounts, colocation::GroupDevices, graph::NONE};

/// The working memory of list scheduling.
#[derive(Clone, Debug)]
pub(super) struct ListScheduler {
    waiting: Vec<u32>,
    /// Ops whose producers have all been placed.
    ready: RankSet,
    /// Of these, by device, those whose inputs it has or has been shown.
    local: Vec<RankSet>,
    /// By op and device: how many inputs of a ready op the device has neither made nor been shown.
    n_missing: Vec<u32>,
    /// Sender-major: a ready op for each input that the row device made and has not shown to the column device.
    expecting: Vec<Vec<u32>>,
    clock: Vec<u64>,
    /// The same, while a device is tried out.
    trial: Vec<u64>,
    ended: Vec<u64>,
    /// The latest end of what precedes an op by a control dependency that does not block.
    ready_at: Vec<u64>,
    /// The place of each op in the sequence of its device.
    sequence: Vec<u32>,
    /// How many ops each device has run.
    n_run: Vec<u32>,
    /// How many of the row device's ops the column device has been shown.
    shown: Vec<u32>,
    /// The latest meeting of two devices.
    met: Vec<u32>,
    /// By tensor and device: when the copy is there, or `u64::MAX`.
    arrival: Vec<u64>,
    link_free: Vec<u64>,
    trial_links: Vec<u64>,
    /// Ops, or meetings as `n_ops + meeting`.
    events: Vec<u32>,
    /// The first transfer of each meeting, a slot (tensor * devices + device), then a linked list.
    meeting_head: Vec<u32>,
    next_in_meeting: Vec<u32>,
    /// Devices are equal and links are free.
    can_meet: bool,
    /// This schedule is made by meetings.
    meets: bool,
    /// Where some device has a limit.
    ledger: Option<Ledger>,
    groups: GroupDevices,
}

/// How many ops that are ready are looked at, by priority, for one that fits.
const LOOK_AHEAD: usize = 64;

impl ListScheduler {
    pub(super) fn new(problem: &Problem<'_>) -> ListScheduler {
        let (o, t, n) = (
            problem.graph.n_ops(),
            problem.graph.n_tensors(),
            problem.n_devices(),
        );
        ListScheduler {
            waiting: vec![0; o],
            ready: RankSet::new(o),
            local: vec![RankSet::new(o); n],
            n_missing: vec![0; o * n],
            expecting: vec![Vec::new(); n * n],
            clock: vec![0; n],
            trial: vec![0; n],
            ended: vec![0; o],
            ready_at: vec![0; o],
            sequence: vec![0; o],
            n_run: vec![0; n],
            shown: vec![0; n * n],
            met: vec![NONE; n * n],
            arrival: vec![u64::MAX; t * n],
            link_free: vec![0; n * n],
            trial_links: vec![0; n],
            events: Vec::with_capacity(2 * o),
            meeting_head: Vec::with_capacity(o),
            next_in_meeting: vec![NONE; t * n],
            can_meet: problem.free_links
                && problem.graph.colocation.is_none()
                && !problem.options.asynchronous
                && (problem.costs.chunks(n)).all(|costs| costs.iter().all(|&c| c == costs[0])),
            meets: false,
            ledger: (problem.devices.devices().iter())
                .any(|device| device.memory_bytes.is_some())
                .then(|| Ledger::new(problem)),
            groups: GroupDevices::new(problem),
        }
    }

    /// Whether some device has a limit of memory.
    pub(super) fn is_limited(&self) -> bool {
        self.ledger.is_some()
    }

    /// Schedules all ops; leaves the placement and the clocks in `accounts` and the order in `steps`.
    pub(super) fn run(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        accounts: &mut Accounts,
        steps: &mut Vec<Step>,
    ) {
        self.reset(problem, ranking, self.can_meet);
        steps.clear();
        let placement = &mut accounts.placement[..];
        if self.meets {
            while let Some(first) = self.ready.first() {
                let (op, device) = self.first_to_start(problem, ranking, placement, first);
                self.run_op(problem, ranking, placement, op, device);
                self.events.push(op);
            }
            self.write_steps(problem, steps);
        } else {
            while let Some(rank) = self.ready.first() {
                let op = ranking.code_at(rank);
                let device = self.first_to_end(problem, placement, op);
                self.send_inputs(problem, placement, op, device, steps);
                self.run_op(problem, ranking, placement, op, device);
                steps.push(Step::Op(op));
            }
        }
        accounts.clock.copy_from_slice(&self.clock);
    }

    /// As `run`, with an eye on the limits of memory; an upper bound of the excess.
    pub(super) fn run_within_limits(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        accounts: &mut Accounts,
        steps: &mut Vec<Step>,
    ) -> u64 {
        let Some(mut ledger) = self.ledger.take() else {
            self.run(problem, ranking, accounts, steps);
            return 0;
        };
        self.reset(problem, ranking, false);
        ledger.start(problem);
        steps.clear();
        let placement = &mut accounts.placement[..];
        while let Some(first) = self.ready.first() {
            let (excess, op, device) =
                self.first_to_fit(problem, ranking, placement, &mut ledger, first);
            self.send_inputs(problem, placement, op, device, steps);
            self.run_op(problem, ranking, placement, op, device);
            ledger.run(problem, placement, op);
            debug_assert_eq!(ledger.excess(), excess, "as it was foretold");
            steps.push(Step::Op(op));
        }
        accounts.clock.copy_from_slice(&self.clock);
        let excess = ledger.excess();
        self.ledger = Some(ledger);
        excess
    }

    /// The first op by priority that fits somewhere and the device where it ends first of those; if none fits, the least excess.
    /// Before both, the excess that this makes.
    fn first_to_fit(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        placement: &[u8],
        ledger: &mut Ledger,
        first: u32,
    ) -> (u64, u32, usize) {
        let mut best = (u64::MAX, ranking.code_at(first), 0);
        let mut rank = Some(first);
        for _ in 0..LOOK_AHEAD {
            let Some(candidate) = rank else { break };
            let op = ranking.code_at(candidate);
            let mut choice = (u64::MAX, u64::MAX, 0);
            for device in self.groups.candidates(problem, op) {
                let excess = ledger.excess_with(problem, placement, op, device);
                let start = self.try_device(problem, placement, op, device);
                choice = choice.min((excess, start + problem.cost_ns(op, device), device));
            }
            if choice.0 < best.0 {
                best = (choice.0, op, choice.2);
            }
            if choice.0 <= ledger.excess() {
                break;
            }
            rank = self.ready.next_after(candidate);
        }
        best
    }

    fn reset(&mut self, problem: &Problem<'_>, ranking: &Ranking, meets: bool) {
        self.meets = meets;
        self.groups.reset(problem);
        self.clock.fill(0);
        self.ready_at.fill(0);
        self.n_run.fill(0);
        self.shown.fill(0);
        self.met.fill(NONE);
        self.expecting.iter_mut().for_each(Vec::clear);
        self.arrival.fill(u64::MAX);
        self.link_free.fill(0);
        self.events.clear();
        self.meeting_head.clear();
        for op in 0..self.waiting.len() as u32 {
            let n_inputs = problem.graph.inputs(op).len() as u32;
            self.waiting[op as usize] = n_inputs;
            let rank = ranking.rank_of(op);
            self.ready.insert_if(rank, n_inputs == 0);
            for local in &mut self.local {
                local.insert_if(rank, n_inputs == 0);
            }
        }
    }

    /// The op and device that come next: without idling and without meeting if possible, else the first op by priority.
    fn first_to_start(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        placement: &[u8],
        first: u32,
    ) -> (u32, usize) {
        let idle = index_of_min(self.clock.iter().copied());
        self.meet_equals(ranking, idle);
        let (clock, ready_at) = (&self.clock, &self.ready_at);
        let mut rank = self.local[idle].first();
        while let Some(candidate) = rank {
            let op = ranking.code_at(candidate);
            if ready_at[op as usize] <= clock[idle] {
                return (op, idle);
            }
            rank = self.local[idle].next_after(candidate);
        }
        let op = ranking.code_at(first);
        let n = clock.len();
        let start = |device: usize| {
            let missing = self.missing(problem, placement, op, device);
            let senders = missing.map(|t| clock[home(problem, placement, t)]);
            let start = senders.fold(clock[device].max(ready_at[op as usize]), u64::max);
            // Of equal starts, that of the device which would idle longest.
            (start, clock[device])
        };
        let device = index_of_min((0..n).map(start));
        self.meet_senders(problem, ranking, placement, op, device);
        (op, device)
    }

    /// Devices whose clocks are equal meet for nothing: what one has made is there for the other before either goes on.
    fn meet_equals(&mut self, ranking: &Ranking, idle: usize) {
        let n = self.clock.len();
        for other in 0..n {
            let has_news = self.shown[idle * n + other] < self.n_run[idle]
                || self.shown[other * n + idle] < self.n_run[other];
            if other != idle && has_news && self.clock[other] == self.clock[idle] {
                self.meet(ranking, idle, other);
            }
        }
    }

    /// The inputs of `op` that `device` has neither made nor been shown.
    fn missing<'a>(
        &'a self,
        problem: &'a Problem<'_>,
        placement: &'a [u8],
        op: u32,
        device: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let inputs = problem.graph.inputs(op).iter().copied();
        inputs.filter(move |&t| {
            problem.is_transferred(t) && !self.is_shown(problem, placement, t, device)
        })
    }

    fn is_shown(&self, problem: &Problem<'_>, placement: &[u8], tensor: u32, to: usize) -> bool {
        let producer = problem.graph.producer(tensor) as usize;
        let from = usize::from(placement[producer]);
        from == to || self.sequence[producer] < self.shown[from * self.clock.len() + to]
    }

    /// `device` meets every device that made a missing input of `op`.
    fn meet_senders(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        placement: &[u8],
        op: u32,
        device: usize,
    ) {
        for &tensor in problem.graph.inputs(op) {
            if problem.is_transferred(tensor) && !self.is_shown(problem, placement, tensor, device)
            {
                let sender = home(problem, placement, tensor);
                self.meet(ranking, sender, device);
            }
        }
    }

    /// Both clocks to the later one; each has now been shown what the other has made.
    fn meet(&mut self, ranking: &Ranking, a: usize, b: usize) {
        let n = self.clock.len();
        let time = self.clock[a].max(self.clock[b]);
        (self.clock[a], self.clock[b]) = (time, time);
        self.show(ranking, a, b);
        self.show(ranking, b, a);
        let meeting = self.meeting_head.len() as u32;
        (self.met[a * n + b], self.met[b * n + a]) = (meeting, meeting);
        self.meeting_head.push(NONE);
        self.events.push(self.ended.len() as u32 + meeting);
    }

    /// All that `from` has made is there for `to`.
    fn show(&mut self, ranking: &Ranking, from: usize, to: usize) {
        let n = self.clock.len();
        self.shown[from * n + to] = self.n_run[from];
        for op in self.expecting[from * n + to].drain(..) {
            let n_missing = &mut self.n_missing[op as usize * n + to];
            *n_missing -= 1;
            let rank = ranking.rank_of(op);
            let is_local = *n_missing == 0 && self.ready.contains(rank);
            self.local[to].insert_if(rank, is_local);
        }
    }

    fn run_op(
        &mut self,
        problem: &Problem<'_>,
        ranking: &Ranking,
        placement: &mut [u8],
        op: u32,
        device: usize,
    ) {
        let graph = problem.graph;
        let rank = ranking.rank_of(op);
        self.ready.remove(rank);
        for local in &mut self.local {
            local.remove(rank);
        }
        placement[op as usize] = device as u8;
        self.groups.settle(problem, op, device);
        let start = self.clock[device].max(self.ready_at[op as usize]);
        let end = start + problem.cost_ns(op, device);
        self.clock[device] = end;
        self.ended[op as usize] = end;
        self.sequence[op as usize] = self.n_run[device];
        self.n_run[device] += 1;
        self.note_uses(problem, placement, op, device);
        for tensor in graph.outputs(op) {
            self.arrival[tensor as usize * self.clock.len() + device] = end;
            let waits = !problem.is_transferred(tensor);
            for &consumer in graph.consumers(tensor) {
                let at = &mut self.ready_at[consumer as usize];
                *at = if waits { end.max(*at) } else { *at };
                self.waiting[consumer as usize] -= 1;
                if self.waiting[consumer as usize] == 0 {
                    self.make_ready(problem, ranking, placement, consumer);
                }
            }
        }
    }

    fn make_ready(&mut self, problem: &Problem<'_>, ranking: &Ranking, placement: &[u8], op: u32) {
        let rank = ranking.rank_of(op);
        self.ready.insert_if(rank, true);
        let n = if self.meets { self.clock.len() } else { 0 };
        for device in 0..n {
            let mut n_missing = 0;
            for &tensor in problem.graph.inputs(op) {
                if problem.is_transferred(tensor)
                    && !self.is_shown(problem, placement, tensor, device)
                {
                    let from = home(problem, placement, tensor);
                    self.expecting[from * n + device].push(op);
                    n_missing += 1;
                }
            }
            self.n_missing[op as usize * n + device] = n_missing;
            self.local[device].insert_if(rank, n_missing == 0);
        }
    }

    /// The inputs of `op` that were made elsewhere travel at the last meeting, if nothing took them earlier.
    fn note_uses(&mut self, problem: &Problem<'_>, placement: &[u8], op: u32, device: usize) {
        let n = self.clock.len();
        for &tensor in problem.graph.inputs(op) {
            let from = home(problem, placement, tensor);
            let slot = tensor as usize * n + device;
            if from == device || !problem.is_transferred(tensor) || self.arrival[slot] != u64::MAX {
                continue;
            }
            self.arrival[slot] = self.clock[device];
            let meeting = self.met[from * n + device] as usize;
            self.next_in_meeting[slot] = self.meeting_head[meeting];
            self.meeting_head[meeting] = slot as u32;
        }
    }

    fn write_steps(&self, problem: &Problem<'_>, steps: &mut Vec<Step>) {
        let (n_ops, n) = (problem.graph.n_ops() as u32, self.clock.len() as u32);
        for &event in &self.events {
            if event < n_ops {
                steps.push(Step::Op(event));
                continue;
            }
            let mut slot = self.meeting_head[(event - n_ops) as usize];
            while slot != NONE {
                steps.push(Step::Transfer {
                    tensor: slot / n,
                    to: (slot % n) as u8,
                });
                slot = self.next_in_meeting[slot as usize];
            }
        }
    }

    /// The device on which `op` ends first, transfers of its inputs included.
    fn first_to_end(&mut self, problem: &Problem<'_>, placement: &[u8], op: u32) -> usize {
        let mut best = (u64::MAX, 0);
        for device in self.groups.candidates(problem, op) {
            let start = self.try_device(problem, placement, op, device);
            best = best.min((start + problem.cost_ns(op, device), device));
        }
        best.1
    }

    /// When `op` could start on `device`; leaves in the trial clocks what the transfers of its inputs would make of the real ones.
    fn try_device(
        &mut self,
        problem: &Problem<'_>,
        placement: &[u8],
        op: u32,
        device: usize,
    ) -> u64 {
        let n = self.clock.len();
        self.trial.copy_from_slice(&self.clock);
        for from in 0..n {
            self.trial_links[from] = self.link_free[from * n + device];
        }
        let mut start = self.ready_at[op as usize];
        for &tensor in problem.graph.inputs(op) {
            let arrival = self.arrival[tensor as usize * n + device];
            if arrival != u64::MAX || !problem.is_transferred(tensor) {
                // A control dependency that does not block is in `ready_at`.
                start = start.max(if arrival == u64::MAX { 0 } else { arrival });
                continue;
            }
            let from = home(problem, placement, tensor);
            let duration = problem.transfer_ns(tensor, from, device);
            if problem.options.asynchronous {
                let made = self.ended[problem.graph.producer(tensor) as usize];
                let link = &mut self.trial_links[from];
                *link = made.max(*link) + duration;
                start = start.max(*link);
            } else {
                let end = self.trial[from].max(self.trial[device]) + duration;
                (self.trial[from], self.trial[device]) = (end, end);
            }
        }
        start.max(self.trial[device])
    }

    /// Sends to `device` what `op` needs there.
    fn send_inputs(
        &mut self,
        problem: &Problem<'_>,
        placement: &[u8],
        op: u32,
        device: usize,
        steps: &mut Vec<Step>,
    ) {
        let n = self.clock.len();
        let start = self.try_device(problem, placement, op, device);
        self.clock.copy_from_slice(&self.trial);
        for from in 0..n {
            self.link_free[from * n + device] = self.trial_links[from];
        }
        self.ready_at[op as usize] = start;
        for &tensor in problem.graph.inputs(op) {
            let arrival = &mut self.arrival[tensor as usize * n + device];
            if *arrival == u64::MAX && problem.is_transferred(tensor) {
                // Later users may take the copy for as late as this start: over a blocking link it is on their clock anyway, and
                // over an asynchronous one it is what the op at hand waited for.
                *arrival = start;
                steps.push(Step::Transfer {
                    tensor,
                    to: device as u8,
                });
            }
        }
    }
}

fn home(problem: &Problem<'_>, placement: &[u8], tensor: u32) -> usize {
    usize::from(placement[problem.graph.producer(tensor) as usize])
}

/// The first index of the smallest item.
fn index_of_min<T: Ord>(items: impl Iterator<Item = T>) -> usize {
    items
        .enumerate()
        .min_by(|a, b| a.1.cmp(&b.1))
        .map_or(0, |(idx, _)| idx)
}

#[cfg(test)]
mod tests {
    use super::ListScheduler;
    use crate::accounts::Accounts;
    use crate::decode::ranks::Ranking;
    use crate::tests::random_problems::{for_problems, keys};

    /// The sets that meetings keep up to date, against a walk over everything that is ready.
    #[test]
    fn what_is_local_is_what_misses_no_input() {
        let n_looks = std::cell::Cell::new(0);
        for_problems(400, 40, |problem, seed| {
            let (n_ops, n) = (problem.graph().n_ops(), problem.n_devices());
            let mut ranking = Ranking::new(n_ops);
            let keys = keys(seed, problem);
            (0..n_ops).for_each(|op| ranking.push(keys[n_ops * n + op], op as u32));
            ranking.sort();
            let mut list = ListScheduler::new(problem);
            let mut placement = Accounts::new(problem).placement;
            list.reset(problem, &ranking, list.can_meet);
            while let Some(first) = list.ready.first().filter(|_| list.meets) {
                let (op, device) = list.first_to_start(problem, &ranking, &placement, first);
                list.run_op(problem, &ranking, &mut placement, op, device);
                for (rank, device) in (0..n_ops as u32).flat_map(|r| (0..n).map(move |d| (r, d))) {
                    let op = ranking.code_at(rank);
                    let mut missing = list.missing(problem, &placement, op, device);
                    let is_local = list.ready.contains(rank) && missing.next().is_none();
                    assert_eq!(list.local[device].contains(rank), is_local);
                    n_looks.set(n_looks.get() + 1);
                }
            }
        });
        assert!(n_looks.get() > 10_000);
    }
}
