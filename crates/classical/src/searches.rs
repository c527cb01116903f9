//! Independent searches on threads, and the checks and records that `solve` of each problem shares.

use crate::budget::Stopwatch;
use crate::error::{Error, ErrorKind};
use crate::solution::Stage;

/// Runs `search(0)` to `search(threads - 1)` at the same time; the results in this order.
///
/// # Errors
/// `Option` for no threads, `Thread` where the system starts none.
pub(crate) fn run_searches<T: Send>(
    threads: u32,
    search: impl Fn(u64) -> T + Sync,
) -> Result<Vec<T>, Error> {
    std::thread::scope(|scope| {
        let search = &search;
        let mut workers = Vec::new();
        for index in 1..u64::from(threads) {
            let worker = std::thread::Builder::new()
                .spawn_scoped(scope, move || search(index))
                .map_err(|error| ErrorKind::Thread {
                    reason: error.to_string(),
                })?;
            workers.push(worker);
        }
        let mut found = vec![search(0)];
        for worker in workers {
            found.push(
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        Ok(found)
    })
}

/// Checks that there is a thread to search on.
pub(crate) fn check_threads(threads: u32) -> Result<(), Error> {
    if threads > 0 {
        return Ok(());
    }
    Err(ErrorKind::Option {
        field: "threads",
        value: threads.to_string(),
        expected: "1 or more",
    }
    .into())
}

/// For each node whether it is listed.
///
/// # Errors
/// `NoNode` or `Twice`.
pub(crate) fn indicator(n_nodes: u32, nodes: &[u32]) -> Result<Vec<bool>, Error> {
    let mut is_listed = vec![false; n_nodes as usize];
    for &node in nodes {
        match is_listed.get_mut(node as usize) {
            None => return Err(ErrorKind::NoNode { node, n_nodes }.into()),
            Some(true) => return Err(ErrorKind::Twice { node }.into()),
            Some(slot) => *slot = true,
        }
    }
    Ok(is_listed)
}

/// The nodes whose element is true, ascending.
pub(crate) fn listed(indicator: &[bool]) -> Vec<u32> {
    let nodes = (0u32..).zip(indicator);
    nodes.filter(|(_, is_in)| **is_in).map(|(v, _)| v).collect()
}

/// The stages of one `solve`, with their seconds.
pub(crate) struct StageLog {
    stages: Vec<Stage>,
    seconds: f64,
}

impl StageLog {
    pub(crate) fn new() -> StageLog {
        StageLog {
            stages: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Notes that a stage ended with this best objective.
    pub(crate) fn end(&mut self, name: &'static str, objective: f64, stopwatch: &Stopwatch<'_>) {
        let seconds = stopwatch.seconds();
        self.stages.push(Stage {
            name,
            objective,
            seconds: seconds - self.seconds,
        });
        self.seconds = seconds;
    }

    pub(crate) fn finish(self) -> Vec<Stage> {
        self.stages
    }
}
