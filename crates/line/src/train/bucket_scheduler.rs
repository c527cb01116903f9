//! Scheduler of the rounds of a step: a job begins once its parts have gone through earlier jobs.
//!
//! Each part has its jobs in the order of the rounds whatever the threads do, so the bits are those
//! of one thread. Threads stay from step to step: a step may be shorter than it takes to start one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, Builder};

use super::bucket_trainer::LoadedJob;
use super::rows::PartRows;
use super::scalar::Scalar;
use super::worker_pool::{locked, panicked, spawn};
use crate::Error;
use crate::schedule::{Job, PartKey, Step};

/// Rows of parts that no job works on.
pub(super) type IdleRows<T> = BTreeMap<PartKey, PartRows<T>>;

/// Trains a job.
pub(super) type TrainJob<'w, T> = dyn Fn(&mut LoadedJob<T>) -> Result<(), Error> + Sync + 'w;

/// Threads of a run and their shared state.
pub(super) struct BucketScheduler<'w, T: Scalar> {
    train: &'w TrainJob<'w, T>,
    state: Mutex<State<T>>,
    /// Notified of a new step, of a job that ended, and of the end.
    changed: Condvar,
}

struct State<T: Scalar> {
    /// Jobs that did not begin, by their numbers.
    waiting: BTreeMap<usize, Job>,
    idle: IdleRows<T>,
    /// Jobs that each part has before it.
    queues: BTreeMap<PartKey, VecDeque<usize>>,
    n_running: usize,
    failure: Option<Error>,
    is_over: bool,
}

/// Role of a thread: the caller asks for steps, workers wait for them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Caller,
    Worker,
}

impl<'w, T: Scalar> BucketScheduler<'w, T> {
    /// A scheduler without threads besides the caller's.
    pub(super) fn new(train: &'w TrainJob<'w, T>) -> BucketScheduler<'w, T> {
        BucketScheduler {
            train,
            state: Mutex::new(State {
                waiting: BTreeMap::new(),
                idle: BTreeMap::new(),
                queues: BTreeMap::new(),
                n_running: 0,
                failure: None,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Runs `body` with `n_threads` threads for its steps, this one among them.
    pub(super) fn with_threads<R>(
        self,
        n_threads: usize,
        body: impl FnOnce(&BucketScheduler<'_, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let builders = (1..n_threads).map(|_| Builder::new()).collect();
        self.with_workers(builders, body)
    }

    /// Runs `body` with a worker of each builder besides this thread.
    fn with_workers<R>(
        self,
        builders: Vec<Builder>,
        body: impl FnOnce(&BucketScheduler<'_, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let scheduler = &self;
        thread::scope(|scope| {
            // Before the first thread: where the second cannot be started, the first is not to
            // wait for ever.
            let over = Over(scheduler);
            let work = || scheduler.work_as(Role::Worker);
            let others = builders.into_iter().map(|b| spawn(b, scope, work));
            let others = others.collect::<Result<Vec<_>, Error>>()?;
            let result = body(scheduler);
            drop(over);
            // A worker that panicked has left its failure.
            others.into_iter().for_each(|other| drop(other.join()));
            result
        })
    }

    /// Trains all jobs of a step, and gives the rows back.
    pub(super) fn step(&self, step: &Step, idle: IdleRows<T>) -> Result<IdleRows<T>, Error> {
        let mut state = locked(&self.state);
        for (number, job) in step.jobs().enumerate() {
            for part in job.parts() {
                state.queues.entry(part).or_default().push_back(number);
            }
            state.waiting.insert(number, job.clone());
        }
        state.idle = idle;
        drop(state);
        self.changed.notify_all();
        self.work_as(Role::Caller);
        let mut state = locked(&self.state);
        // A running worker notifies when it is done, fails or panics.
        while state.n_running > 0 {
            state = self.wait(state);
        }
        state.queues.clear();
        match state.failure.take() {
            None => Ok(std::mem::take(&mut state.idle)),
            Some(error) => {
                state.waiting.clear();
                Err(error)
            }
        }
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State<T>>) -> MutexGuard<'g, State<T>> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(|held| held.into_inner())
    }

    fn work_as(&self, role: Role) {
        let mut context = None;
        while let Some((number, mut loaded)) = self.next(role, context) {
            context = loaded.job.context();
            let unfinished = Unfinished(self);
            let done = (self.train)(&mut loaded);
            self.put_back(number, loaded, done.err());
            std::mem::forget(unfinished);
        }
    }

    /// A job that can begin, with its rows; waits for one, `None` where nothing is left to do.
    ///
    /// A job with the thread's last context part comes first: its cache holds that part.
    fn next(&self, role: Role, context: Option<PartKey>) -> Option<(usize, LoadedJob<T>)> {
        let mut state = locked(&self.state);
        loop {
            let is_idle = state.failure.is_some() || state.waiting.is_empty();
            if state.is_over || (is_idle && role == Role::Caller) {
                return None;
            }
            if let Some(number) = ready(&state, context).filter(|_| !is_idle) {
                let loaded = load(&mut state, number)?;
                state.n_running += 1;
                return Some((number, loaded));
            }
            state = self.wait(state);
        }
    }

    fn put_back(&self, number: usize, loaded: LoadedJob<T>, failure: Option<Error>) {
        let mut state = locked(&self.state);
        for part in loaded.job.parts() {
            let passed = state.queues.get_mut(&part).and_then(VecDeque::pop_front);
            debug_assert_eq!(passed, Some(number));
        }
        let rows = loaded.vertex_rows.into_iter().chain(loaded.context_rows);
        state.idle.extend(loaded.job.parts().zip(rows));
        self.end_of_job(state, failure);
    }

    fn end_of_job(&self, mut state: MutexGuard<'_, State<T>>, failure: Option<Error>) {
        state.n_running -= 1;
        state.failure = state.failure.take().or(failure);
        drop(state);
        self.changed.notify_all();
    }
}

/// Takes a waiting job and the rows of its parts.
fn load<T: Scalar>(state: &mut State<T>, number: usize) -> Option<LoadedJob<T>> {
    let job = state.waiting.remove(&number)?;
    let n_vertex = job.vertex_parts.len();
    let rows = job.parts().map(|part| state.idle.remove(&part));
    let mut vertex_rows = rows.collect::<Option<Vec<_>>>()?;
    let context_rows = vertex_rows.split_off(n_vertex).pop();
    Some(LoadedJob {
        job,
        vertex_rows,
        context_rows,
    })
}

/// A job that is the next of all its parts: one with this context part before all others.
fn ready<T: Scalar>(state: &State<T>, context: Option<PartKey>) -> Option<usize> {
    let is_next = |number: usize, part: PartKey| {
        let next = state.queues.get(&part).and_then(VecDeque::front);
        next == Some(&number) && state.idle.contains_key(&part)
    };
    let is_ready = |number: usize, job: &Job| job.parts().all(|part| is_next(number, part));
    let kept = context.and_then(|key| {
        let number = *state.queues.get(&key)?.front()?;
        let job = state.waiting.get(&number)?;
        is_ready(number, job).then_some(number)
    });
    let mut waiting = state.waiting.iter();
    let mut first = || waiting.find(|&(&number, job)| is_ready(number, job));
    kept.or_else(|| first().map(|(&number, _)| number))
}

/// Ends the waiting of the others where a job panics.
struct Unfinished<'t, 'w, T: Scalar>(&'t BucketScheduler<'w, T>);

impl<T: Scalar> Drop for Unfinished<'_, '_, T> {
    fn drop(&mut self) {
        let state = locked(&self.0.state);
        self.0.end_of_job(state, Some(panicked()));
    }
}

/// Ends the workers, also where the caller panics.
struct Over<'t, 'w, T: Scalar>(&'t BucketScheduler<'w, T>);

impl<T: Scalar> Drop for Over<'_, '_, T> {
    fn drop(&mut self) {
        locked(&self.0.state).is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn part(table: u32, part: u32) -> PartKey {
        PartKey { table, part }
    }

    /// A vertex part and a context part.
    type Pair = (u32, Option<u32>);

    fn no_rows() -> PartRows<f32> {
        let device = shardgraph_device::Device::host();
        let none = device.zeros(0).unwrap();
        PartRows::new(device, none, None, &crate::memory::Memory::default())
    }

    /// Rounds of two jobs: parts 0 and 1 with contexts 0 and 1, then crossed.
    fn step() -> (Step, IdleRows<f32>) {
        let job = |vertex, context| Job {
            order: 2,
            vertex_parts: vec![vertex],
            context_part: Some(context),
            bucket_passes: Vec::new(),
        };
        let rounds = vec![
            vec![job(0, 0), job(1, 1)],
            vec![job(0, 1), job(1, 0)],
            vec![job(0, 0), job(1, 1)],
        ];
        let idle = [part(0, 0), part(0, 1), part(1, 0), part(1, 1)];
        let idle = idle.map(|part| (part, no_rows()));
        let visit = crate::schedule::Visit::pair(0, 0);
        (Step { visit, rounds }, idle.into())
    }

    #[test]
    fn a_part_has_its_jobs_in_order_whatever_the_threads_do() {
        for n_threads in [1, 2, 5] {
            let seen: Mutex<BTreeMap<PartKey, Vec<Pair>>> = Mutex::default();
            let work = |loaded: &mut LoadedJob<f32>| {
                if loaded.job.vertex_parts == [0] {
                    // The other thread could run ahead.
                    thread::sleep(std::time::Duration::from_millis(3));
                }
                for part in loaded.job.parts() {
                    let pair = (loaded.job.vertex_parts[0], loaded.job.context_part);
                    locked(&seen).entry(part).or_default().push(pair);
                }
                Ok(())
            };
            BucketScheduler::new(&work)
                .with_threads(n_threads, |scheduler| {
                    for _ in 0..3 {
                        let (step, idle) = step();
                        assert_eq!(scheduler.step(&step, idle)?.len(), 4);
                    }
                    Ok(())
                })
                .unwrap();
            let seen = seen.into_inner().unwrap();
            let three = |pairs: [Pair; 3]| pairs.repeat(3);
            assert_eq!(
                seen[&part(0, 0)],
                three([(0, Some(0)), (0, Some(1)), (0, Some(0))])
            );
            assert_eq!(
                seen[&part(1, 0)],
                three([(0, Some(0)), (1, Some(0)), (0, Some(0))])
            );
            assert_eq!(
                seen[&part(1, 1)],
                three([(1, Some(1)), (0, Some(1)), (1, Some(1))])
            );
        }
    }

    #[test]
    fn a_job_that_fails_or_panics_ends_the_step_and_nobody_waits() {
        let fails = |_: &mut LoadedJob<f32>| Err(Error::graph("no"));
        let one_step = |scheduler: &BucketScheduler<'_, f32>| {
            let (step, idle) = step();
            scheduler.step(&step, idle).map(drop)
        };
        let error = BucketScheduler::new(&fails)
            .with_threads(3, one_step)
            .unwrap_err();
        assert!(matches!(error, Error::Graph(_)), "{error}");
        let (asking, has_helped) = (thread::current().id(), AtomicBool::new(false));
        let panics = |_: &mut LoadedJob<f32>| {
            let is_helper = thread::current().id() != asking;
            has_helped.fetch_or(is_helper, Ordering::Relaxed);
            assert!(!is_helper, "planted");
            // A helper is to get a job, however long the system lets it wait.
            for _ in 0..60_000 {
                if has_helped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::sleep(std::time::Duration::from_millis(1));
            }
            panic!("no helper took a job in a minute")
        };
        let error = BucketScheduler::new(&panics)
            .with_threads(2, one_step)
            .unwrap_err();
        assert!(matches!(error, Error::Thread(_)), "{error}");
        let calm = |_: &mut LoadedJob<f32>| Ok(());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            BucketScheduler::new(&calm)
                .with_threads(3, |_| -> Result<(), Error> { panic!("the one who asks") })
        }));
        assert!(ended.is_err());
    }

    /// The system has no such stack: that thread is not started, and those before it are let go.
    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_and_nobody_waits() {
        let calm = |_: &mut LoadedJob<f32>| Ok(());
        for n_before in [0, 1, 3] {
            let mut builders: Vec<Builder> = (0..n_before).map(|_| Builder::new()).collect();
            builders.push(Builder::new().stack_size(1 << 50));
            let body =
                |_: &BucketScheduler<'_, f32>| -> Result<(), Error> { panic!("not reached") };
            let error = BucketScheduler::new(&calm)
                .with_workers(builders, body)
                .unwrap_err();
            assert!(matches!(error, Error::Thread(_)), "{error}");
            let message = error.to_string();
            assert!(
                message.starts_with("cannot start a training thread"),
                "{message}"
            );
        }
    }
}
