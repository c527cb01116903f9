//! A solve on P ranks, threads of this process or processes, that all find one answer.

use std::sync::Mutex;

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, Timer};
use shardgraph_job::World;

use crate::agreement::{Fingerprint, graph_fingerprint, options_fingerprint, policy_fingerprint};
use crate::episode_loop::{AllPlayed, Progress};
use crate::residual::Ranks;
use crate::solver::{Inputs, Solver};
use crate::{Error, Solution, SolveOptions};

impl Inputs<'_> {
    /// The checked answers, as one rank of the processes of `comm`: several of them are the ranks, one alone has those of the options
    /// as threads. Rank 0 reports.
    pub(crate) fn solve(
        self,
        comm: &mut Comm,
        progress: &mut (dyn FnMut(u32, usize) + Send),
    ) -> Result<Vec<Solution>, Error> {
        let timer = Timer::start(&Device::host());
        let options = &options_on(comm, self.options);
        let inputs = Inputs { options, ..self };
        inputs.agree(comm)?;
        let solver = Solver::new(&inputs)?;
        let played = find(&solver, comm, progress)?;
        solver.finish(played, &timer)
    }

    /// Refuses on all processes what one has other than rank 0: the program, the problem, the graphs, the policy or the options.
    /// One process alone computes nothing for that.
    fn agree(&self, comm: &mut Comm) -> Result<(), Error> {
        if comm.size() == 1 {
            return Ok(());
        }
        let graphs = self.graphs.iter().map(graph_fingerprint);
        let facts = [
            Ranks::version_fact(),
            (
                "problem",
                Fingerprint::new().text(self.problem.name).value(),
            ),
            ("graph", Fingerprint::new().words(graphs).value()),
            ("policy", policy_fingerprint(self.policy)),
            ("set of options", options_fingerprint(self.options)),
        ];
        Ok(Ranks::new(comm, self.options.deadline).agree(&facts)?)
    }
}

/// Options of a job on the processes of `comm`: several of them are its ranks, one alone has threads.
fn options_on(comm: &Comm, options: &SolveOptions) -> SolveOptions {
    let n_ranks = match comm.size() {
        1 => options.n_ranks,
        n_processes => n_processes,
    };
    SolveOptions {
        n_ranks,
        ..options.clone()
    }
}

fn find(
    solver: &Solver<'_>,
    comm: &mut Comm,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<AllPlayed, Error> {
    let (deadline, n_processes) = (solver.options.deadline, comm.size());
    if n_processes > 1 {
        return Ranks::new(comm, deadline).fail_together(|ranks| {
            solver.check_memory(n_processes)?;
            find_as_rank(solver, ranks, progress)
        });
    }
    solver.check_memory(1)?;
    let progress = Mutex::new(progress);
    World::Threads(solver.options.n_ranks).run(deadline, |ranks| {
        find_as_rank(solver, ranks, &mut |n_candidates, n_picks| {
            if let Ok(mut progress) = progress.lock() {
                progress(n_candidates, n_picks);
            }
        })
    })
}

/// As one rank of several that agree on their inputs, and then on the answers.
fn find_as_rank(
    solver: &Solver<'_>,
    ranks: &mut Ranks<'_>,
    progress: &mut Progress<'_>,
) -> Result<AllPlayed, Error> {
    let is_first = ranks.is_first();
    let all = solver.run_rank(ranks.comm, &mut |n_candidates, n_picks| {
        if is_first {
            progress(n_candidates, n_picks);
        }
    })?;
    let hash = all.0.iter().fold(Fingerprint::new(), |hash, played| {
        let nodes = played.nodes.iter().map(|&node| u64::from(node));
        hash.words(nodes).words([played.n_steps])
    });
    let agreed = ranks.agree(&[("answer", hash.value())]);
    agreed.map_err(|error| match error {
        shardgraph_job::Error::Disagreement { .. } => {
            Error::internal("the ranks found different answers")
        }
        error => error.into(),
    })?;
    Ok(all)
}
