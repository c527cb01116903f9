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

/// The least result of so many searches at the same time, by `cost`; of equals the one of the smallest index.
///
/// # Errors
/// As [`check_threads`] and [`run_searches`], else the first error of a search.
pub(crate) fn best_of<T: Send, C: Ord>(
    threads: u32,
    search: impl Fn(u64) -> Result<T, Error> + Sync,
    cost: impl Fn(&T) -> C,
) -> Result<T, Error> {
    check_threads(threads)?;
    let results = run_searches(threads, search)?.into_iter();
    let results: Vec<T> = results.collect::<Result<_, _>>()?;
    let none = || ErrorKind::Thread {
        reason: "no search ran".to_owned(),
    };
    let best = results.into_iter().min_by_key(cost);
    best.ok_or_else(|| none().into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_is_given() {
        let costs = [3, 1, 2, 1];
        let search = |index: u64| Ok((costs[index as usize], index));
        assert_eq!(best_of(4, search, |found| found.0).unwrap(), (1, 1));
        assert!(best_of(0, search, |found| found.0).is_err());
    }

    #[test]
    fn an_error_of_any_search_is_given() {
        let search = |index: u64| match index {
            2 => check_threads(0).map(|()| 0),
            _ => Ok(index),
        };
        assert!(best_of(3, search, |found| *found).is_err());
        assert_eq!(best_of(2, search, |found| *found).unwrap(), 0);
    }
}
