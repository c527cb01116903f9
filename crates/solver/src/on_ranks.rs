//! A job on P ranks, threads of this process or processes, that all find one answer.

use std::sync::Mutex;

use shardgraph_collectives::{Comm, CommError, threads};

use crate::agreement::{Fingerprint, options_fingerprint, policy_fingerprint};
use crate::residual::Ranks;
use crate::{Error, SolveOptions, TrainedPolicy};

/// Takes the number of candidates left and that of picks after each step.
pub(crate) type Progress<'p> = dyn FnMut(u32, usize) + 'p;

/// Runs `f` as every rank on threads of this process and gives the results in rank order.
pub(crate) fn on_threads<R: Send>(
    options: &SolveOptions,
    f: &(dyn Fn(&mut Comm) -> Result<R, Error> + Sync),
) -> Result<Vec<R>, Error> {
    if options.n_ranks == 1 {
        return Ok(vec![f(&mut Comm::solo())?]);
    }
    let results = threads::run(options.n_ranks, |mut comm| {
        let mut ranks = Ranks::new(&mut comm, options.deadline);
        ranks.fail_together(|ranks| f(ranks.comm))
    });
    collect_ranks(results)
}

/// Options of a job on the processes of `comm`: several of them are its ranks, one alone has threads.
pub(crate) fn options_on(comm: &Comm, options: &SolveOptions) -> SolveOptions {
    let n_ranks = match comm.size() {
        1 => options.n_ranks,
        n_processes => n_processes,
    };
    SolveOptions {
        n_ranks,
        ..options.clone()
    }
}

/// What every rank does, to the same answer.
pub(crate) struct SameAnswer<'j, R> {
    /// Refuses what does not fit into memory, where so many processes share it.
    pub(crate) check_memory: &'j dyn Fn(u32) -> Result<(), Error>,
    pub(crate) run: &'j (dyn Fn(&mut Comm, &mut Progress<'_>) -> Result<R, Error> + Sync),
    /// Hash of what all ranks must find.
    pub(crate) fingerprint: &'j dyn Fn(&R) -> Fingerprint,
}

impl<R: Send> SameAnswer<'_, R> {
    /// Runs on the processes of `comm`, as [`options_on`] has them; rank 0 reports.
    pub(crate) fn find(
        &self,
        comm: &mut Comm,
        options: &SolveOptions,
        progress: &mut (dyn FnMut(u32, usize) + Send),
    ) -> Result<R, Error> {
        match comm.size() {
            1 => {
                (self.check_memory)(1)?;
                self.on_threads(options, progress)
            }
            _ => self.as_rank(&mut Ranks::new(comm, options.deadline), progress),
        }
    }

    /// Runs as all ranks on threads of this process.
    fn on_threads(
        &self,
        options: &SolveOptions,
        progress: &mut (dyn FnMut(u32, usize) + Send),
    ) -> Result<R, Error> {
        let (progress, run) = (Mutex::new(progress), self.run);
        let mut all = on_threads(options, &|comm| {
            let is_first = comm.rank() == 0;
            run(comm, &mut |n_candidates, n_picks| {
                if is_first && let Ok(mut progress) = progress.lock() {
                    progress(n_candidates, n_picks);
                }
            })
        })?;
        let hash = |answer: &R| (self.fingerprint)(answer).value();
        match all.iter().all(|answer| hash(answer) == hash(&all[0])) {
            true => Ok(all.swap_remove(0)),
            false => Err(different_answers()),
        }
    }

    /// Runs as one rank of a world of processes that [agree on their input](agree_on_input).
    fn as_rank(&self, ranks: &mut Ranks<'_>, progress: &mut Progress<'_>) -> Result<R, Error> {
        let is_first = ranks.is_first();
        let answer = ranks.fail_together(|ranks| {
            (self.check_memory)(ranks.size())?;
            (self.run)(ranks.comm, &mut |n_candidates, n_picks| {
                if is_first {
                    progress(n_candidates, n_picks);
                }
            })
        })?;
        let hash = (self.fingerprint)(&answer).value();
        let agreed = ranks.agree(&[("answer", hash)]);
        agreed.map_err(|error| match error {
            shardgraph_job::Error::Disagreement { .. } => different_answers(),
            error => error.into(),
        })?;
        Ok(answer)
    }
}

fn different_answers() -> Error {
    Error::internal("the ranks found different answers")
}

/// Refuses on all processes what one has other than rank 0: the program, `inputs`, the policy or
/// the options. One process alone computes nothing for that.
pub(crate) fn agree_on_input<'n>(
    comm: &mut Comm,
    inputs: impl FnOnce() -> Vec<(&'n str, u64)>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> Result<(), Error> {
    if comm.size() == 1 {
        return Ok(());
    }
    let policy_and_options = [
        ("policy", policy_fingerprint(policy)),
        ("set of options", options_fingerprint(options)),
    ];
    let facts = [&[Ranks::version_fact()], &inputs()[..], &policy_and_options].concat();
    Ok(Ranks::new(comm, options.deadline).agree(&facts)?)
}

/// The results of all ranks, or the error that explains best why there are none: a rank's own error, not another rank's
/// report that it went away.
pub(crate) fn collect_ranks<R>(
    results: Vec<Result<Result<R, Error>, CommError>>,
) -> Result<Vec<R>, Error> {
    let (mut values, mut cause): (Vec<R>, Option<Error>) = (Vec::new(), None);
    for result in results {
        match result.map_err(Error::from).and_then(|result| result) {
            Ok(value) => values.push(value),
            Err(error) => {
                let explains = error.comm_error().is_none();
                if cause.is_none() || explains {
                    cause = Some(error);
                }
            }
        }
    }
    cause.map_or(Ok(values), Err)
}
