//! The rounds of a step without waiting between them: a job begins once its parts have gone through the jobs before it.
//!
//! Each part has its jobs in the order of the rounds whatever the threads do, so the bits are those of one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use super::cell::Cell;
use super::plan::{Job, Step};
use super::rows::Rows;
use super::step::{Work, locked, panicked};
use crate::Error;

/// A part of a table.
pub(super) type Part = (usize, u32);

/// Rows of parts that no job is at work on.
pub(super) type Home<T> = BTreeMap<Part, Rows<T>>;

/// The parts of a job, in the order of its rows; `last` is the table of its second.
pub(super) fn parts_of(job: &Job, last: usize) -> impl Iterator<Item = Part> {
    let firsts = job.firsts.iter().map(|&part| (0, part));
    firsts.chain(job.second.map(|part| (last, part)))
}

/// What the threads of a step share.
struct Turns<'s, T: Cell> {
    last: usize,
    state: Mutex<State<'s, T>>,
    /// A job is done, or all is over.
    changed: Condvar,
}

struct State<'s, T: Cell> {
    /// Jobs that did not begin, by their numbers.
    waiting: BTreeMap<usize, &'s Job>,
    home: Home<T>,
    /// The jobs that each part has before it.
    ahead: BTreeMap<Part, VecDeque<usize>>,
    failure: Option<Error>,
}

/// Does all jobs of a step on so many threads, and gives the rows back.
pub(super) fn run<T: Cell>(
    step: &Step,
    (home, last): (Home<T>, usize),
    n_threads: usize,
    work: impl Fn(&mut Work<'_, T>) -> Result<(), Error> + Sync,
) -> Result<Home<T>, Error> {
    let waiting: BTreeMap<usize, &Job> = step.jobs().enumerate().collect();
    let mut ahead: BTreeMap<Part, VecDeque<usize>> = BTreeMap::new();
    for (&number, job) in &waiting {
        parts_of(job, last).for_each(|part| ahead.entry(part).or_default().push_back(number));
    }
    let widest = step.rounds.iter().map(Vec::len).max().unwrap_or(0);
    let turns = Turns {
        last,
        state: Mutex::new(State {
            waiting,
            home,
            ahead,
            failure: None,
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let others = (1..n_threads.min(widest)).map(|_| scope.spawn(|| turns.work(&work)));
        let others: Vec<_> = others.collect();
        turns.work(&work);
        // One that panicked has said so.
        others.into_iter().for_each(|other| drop(other.join()));
    });
    let state = turns
        .state
        .into_inner()
        .unwrap_or_else(|held| held.into_inner());
    match state.failure {
        None => Ok(state.home),
        Some(error) => Err(error),
    }
}

impl<'s, T: Cell> Turns<'s, T> {
    /// Does jobs until there are none.
    fn work(&self, work: &(impl Fn(&mut Work<'_, T>) -> Result<(), Error> + Sync)) {
        while let Some((number, mut taken)) = self.next() {
            let unfinished = Unfinished(self);
            let done = work(&mut taken);
            std::mem::forget(unfinished);
            self.put_back(number, taken, done.err());
        }
    }

    /// The first job that can begin, with its rows; waits for one. None when all have begun, or one has failed.
    fn next(&self) -> Option<(usize, Work<'s, T>)> {
        let mut state = locked(&self.state);
        loop {
            if state.failure.is_some() || state.waiting.is_empty() {
                return None;
            }
            if let Some(number) = self.ready(&state) {
                let job = state.waiting.remove(&number)?;
                let firsts = job.firsts.iter().map(|&part| state.home.remove(&(0, part)));
                let firsts = firsts.collect::<Option<Vec<_>>>()?;
                let second = job
                    .second
                    .and_then(|part| state.home.remove(&(self.last, part)));
                return Some((
                    number,
                    Work {
                        job,
                        firsts,
                        second,
                    },
                ));
            }
            // Some job is at work, and says so when it is done, fails or panics.
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|held| held.into_inner());
        }
    }

    /// A job that is the next of all its parts.
    fn ready(&self, state: &MutexGuard<'_, State<'s, T>>) -> Option<usize> {
        let is_next = |number: usize, part: Part| {
            let next = state.ahead.get(&part).and_then(VecDeque::front);
            next == Some(&number) && state.home.contains_key(&part)
        };
        let mut waiting = state.waiting.iter();
        let found =
            waiting.find(|&(&n, job)| parts_of(job, self.last).all(|part| is_next(n, part)));
        found.map(|(&number, _)| number)
    }

    fn put_back(&self, number: usize, work: Work<'_, T>, failure: Option<Error>) {
        let mut state = locked(&self.state);
        for part in parts_of(work.job, self.last) {
            let passed = state.ahead.get_mut(&part).and_then(VecDeque::pop_front);
            debug_assert_eq!(passed, Some(number));
        }
        let rows = work.firsts.into_iter().chain(work.second);
        state.home.extend(parts_of(work.job, self.last).zip(rows));
        state.failure = state.failure.take().or(failure);
        drop(state);
        self.changed.notify_all();
    }
}

/// Ends the waiting of the others where a job panics.
struct Unfinished<'t, 's, T: Cell>(&'t Turns<'s, T>);

impl<T: Cell> Drop for Unfinished<'_, '_, T> {
    fn drop(&mut self) {
        locked(&self.0.state).failure = Some(panicked());
        self.0.changed.notify_all();
    }
}
