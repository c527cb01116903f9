//! A job on P ranks, threads of this process or processes, that all find one answer.

use std::sync::Mutex;

use shardgraph_collectives::Comm;
use shardgraph_job::World;

use crate::agreement::{Fingerprint, options_fingerprint, policy_fingerprint};
use crate::residual::Ranks;
use crate::{Error, SolveOptions, TrainedPolicy};

/// Takes the number of candidates left and that of picks after each step.
pub(crate) type Progress<'p> = dyn FnMut(u32, usize) + 'p;

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
    pub(crate) check_memory: &'j (dyn Fn(u32) -> Result<(), Error> + Sync),
    pub(crate) run: &'j (dyn Fn(&mut Comm, &mut Progress<'_>) -> Result<R, Error> + Sync),
    /// Hash of what all ranks must find.
    pub(crate) fingerprint: &'j (dyn Fn(&R) -> Fingerprint + Sync),
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
                let progress = Mutex::new(progress);
                World::Threads(options.n_ranks).run(options.deadline, |ranks| {
                    self.as_rank(ranks, &mut |n_candidates, n_picks| {
                        if let Ok(mut progress) = progress.lock() {
                            progress(n_candidates, n_picks);
                        }
                    })
                })
            }
            _ => {
                let mut ranks = Ranks::new(comm, options.deadline);
                ranks.fail_together(|ranks| (self.check_memory)(ranks.size()))?;
                self.as_rank(&mut ranks, progress)
            }
        }
    }

    /// Runs as one rank of several that [agree on their input](agree_on_input).
    fn as_rank(&self, ranks: &mut Ranks<'_>, progress: &mut Progress<'_>) -> Result<R, Error> {
        let is_first = ranks.is_first();
        let answer = ranks.fail_together(|ranks| {
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
