//! The loop of all episodes on one rank, which has its share of every graph.
//!
//! It is algorithm 4 of the paper: while candidates are left, score them, agree on the best, apply the picks. How a
//! graph's candidates are scored, and what a pick changes, is its [`Evaluation`].

use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_collectives::{Comm, Op};
use shardgraph_device::{Device, Timer};
use shardgraph_layers::autodiff::{leave_group, rank_device};
use shardgraph_shard::Adjacency;

use crate::best::is_better;
use crate::evaluation::{Evaluation, Played, Running};
use crate::exchange::Exchange;
use crate::on_device::DeviceEpisode;
use crate::problem::{Objective, Problem, check_answer};
use crate::residual::Ranks;
use crate::residual_episode::ResidualEpisode;
use crate::select::{TopD, agree_each};
use crate::share::Share;
use crate::solver::Solver;
use crate::state_episode::{StateEpisode, model_scores};
use crate::{Error, Scores, Solution, check_cover};

/// Takes the number of candidates left and that of picks after each step.
pub(crate) type Progress<'p> = dyn FnMut(u32, usize) + 'p;

/// The finished episodes, and what ranks exchanged for them.
pub(crate) type AllPlayed = (Vec<Played>, Option<Exchange>);

impl Solver<'_> {
    /// The checked answers.
    pub(crate) fn finish(&self, all: AllPlayed, timer: &Timer) -> Result<Vec<Solution>, Error> {
        let (played, exchange) = all;
        let graphs = self.instances.iter().zip(&played);
        let objectives = graphs
            .map(|(graph, played)| objective_of(self.problem, graph.adjacency, &played.nodes));
        let objectives = objectives.collect::<Result<Vec<_>, _>>()?;
        let seconds = timer.elapsed_s();
        let answers = self.instances.iter().zip(played).zip(objectives);
        let answers = answers.map(|((instance, played), objective)| Solution {
            nodes: played.nodes,
            objective,
            n_steps: played.n_steps,
            path: instance.path,
            storage: instance.adjacency.storage(),
            exchange,
            seconds,
        });
        Ok(answers.collect())
    }

    /// One rank's episodes: the best answer of all starts for each graph.
    pub(crate) fn run_rank(
        &self,
        comm: &mut Comm,
        progress: &mut Progress<'_>,
    ) -> Result<AllPlayed, Error> {
        let before = comm.received_bytes();
        let mut shares = self.shares(comm)?;
        let mut ranks = Ranks::new(comm, self.options.deadline);
        let mut best = self.play(0, &mut shares, &mut ranks, progress)?;
        for start in 1..self.options.starts {
            let next = self.play(start as usize, &mut shares, &mut ranks, progress)?;
            self.keep_better(&mut best, next)?;
        }
        let exchange = self.exchange(&shares, &mut ranks, before)?;
        Ok((best, exchange))
    }

    /// This rank's part of every graph.
    pub(crate) fn shares(&self, comm: &mut Comm) -> Result<Vec<Share<'_>>, Error> {
        let device = match self.is_closed_form_on_device() {
            true => self.options.device.clone(),
            false => rank_device(&self.options.device, comm, self.options.deadline)?,
        };
        let all = self.instances.iter();
        all.map(|instance| Share::new(self, instance, &device, comm))
            .collect()
    }

    /// An episode of each graph to its end, from the candidate in this place, the best first.
    pub(crate) fn play<'s>(
        &'s self,
        start: usize,
        shares: &mut [Share<'s>],
        ranks: &mut Ranks<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Played>, Error> {
        let device = shares
            .first()
            .map_or_else(Device::host, |share| share.device.clone());
        let mut all = Vec::with_capacity(shares.len());
        for share in shares {
            all.push(self.begin(share, start as u32, ranks)?);
        }
        let mut n_passed = start;
        while all.iter().any(|one| !one.evaluation.is_done()) {
            self.step(&device, &mut all, n_passed, ranks)?;
            n_passed = 0;
            let n_candidates = all.iter().map(|one| one.evaluation.n_candidates());
            let n_picks = all.iter().map(|one| one.evaluation.n_picks());
            progress(n_candidates.sum(), n_picks.sum());
            self.options.check_cancelled()?;
        }
        let finished = all.into_iter();
        finished
            .map(|one| one.evaluation.finish(one.n_steps))
            .collect()
    }

    /// One step of all episodes that have candidates.
    fn step(
        &self,
        device: &Device,
        all: &mut [Running<'_>],
        n_passed: usize,
        ranks: &mut Ranks<'_>,
    ) -> Result<(), Error> {
        let mut running = Vec::with_capacity(all.len());
        for one in all.iter_mut().filter(|one| !one.evaluation.is_done()) {
            match one.evaluation.advance(ranks)? {
                true => {}
                false => running.push(one),
            }
        }
        let states: Vec<_> = running.iter().map(|one| one.evaluation.state()).collect();
        let scores = model_scores(self, device, &states, ranks)?;
        let mut tops = Vec::with_capacity(running.len());
        for (one, scores) in running.iter_mut().zip(scores) {
            let (evaluation, select) = (&mut one.evaluation, self.options.select);
            let n_picks = select.n_picks(evaluation.n_candidates(), one.n_nodes);
            let mut top = TopD::new(n_picks + n_passed);
            // Told to the others when they meet: a rank's own reason ends them all.
            evaluation.offer(scores, &mut top, ranks)?;
            tops.push(top);
        }
        for (one, mut picks) in running.into_iter().zip(agree_each(&tops, ranks)?) {
            // The best candidates are left out, but for the last of all.
            picks.drain(..n_passed.min(picks.len().saturating_sub(1)));
            let before = one.evaluation.n_picks();
            one.evaluation.apply(&picks, ranks)?;
            one.n_steps += 1;
            if one.evaluation.n_picks() == before {
                return Err(Error::internal("a step with candidates picked no node"));
            }
        }
        Ok(())
    }

    /// The state before the first pick, with the way of evaluating that fits it. One that has the loop on a device passes over
    /// the best `start` candidates by itself.
    fn begin<'e, 's: 'e>(
        &'s self,
        share: &'e mut Share<'s>,
        start: u32,
        ranks: &mut Ranks<'_>,
    ) -> Result<Running<'e>, Error> {
        let n_nodes = share.instance.adjacency.n_nodes();
        let has_states = (share.model.as_ref()).is_some_and(|model| model.takes_states_on_device());
        let evaluation: Box<dyn Evaluation + 'e> = match self.is_incremental {
            true if self.is_closed_form_on_device() => {
                Box::new(DeviceEpisode::closed_form(self, share, start)?)
            }
            true if has_states => Box::new(DeviceEpisode::of_model(self, share, start, ranks)?),
            true => {
                let inside = self.inside.as_ref().map(|graph| Peeling::new(graph));
                Box::new(ResidualEpisode::begin(self, share, inside, ranks)?)
            }
            false => Box::new(StateEpisode::begin(self, share)?),
        };
        Ok(Running {
            evaluation,
            n_nodes,
            n_steps: 0,
        })
    }

    /// One rank's part of the scores before any pick.
    pub(crate) fn score_rank(&self, comm: &mut Comm) -> Result<Scores, Error> {
        let before = comm.received_bytes();
        let mut shares = self.shares(comm)?;
        let mut ranks = Ranks::new(comm, self.options.deadline);
        ranks.comm.run(Op::Barrier, ranks.timeout)?;
        let timer = Timer::start(&Device::host());
        let [share] = &mut shares[..] else {
            return Err(Error::internal("scores are of one graph"));
        };
        let (rank, instance) = (share.rank, share.instance);
        let mut episode = ResidualEpisode::begin(self, share, None, &mut ranks)?;
        let values = episode.scores(instance.partition.range(rank), &mut ranks)?;
        drop(episode);
        let seconds = timer.elapsed_s();
        let exchange = self.exchange(&shares, &mut ranks, before)?;
        Ok(Scores {
            values: values.ok_or_else(Error::unbounded_scores)?,
            path: instance.path,
            storage: instance.adjacency.storage(),
            exchange,
            seconds,
        })
    }

    /// Keeps the better answer of each graph, of equal ones the earlier, and counts the steps of all.
    fn keep_better(&self, best: &mut [Played], next: Vec<Played>) -> Result<(), Error> {
        for ((instance, best), next) in self.instances.iter().zip(best).zip(next) {
            let n_steps = best.n_steps + next.n_steps;
            let [old, new] = [&*best, &next]
                .map(|played| objective_of(self.problem, instance.adjacency, &played.nodes));
            if is_better(self.problem.sense, new?, old?) {
                *best = next;
            }
            best.n_steps = n_steps;
        }
        Ok(())
    }

    /// Ends the sums over neighbours, where there were any, and says what they cost; `before` is what the rank had received when it began.
    pub(crate) fn exchange(
        &self,
        shares: &[Share<'_>],
        ranks: &mut Ranks<'_>,
        before: u64,
    ) -> Result<Option<Exchange>, Error> {
        let with_sums = || {
            shares
                .iter()
                .filter_map(|share| Some((share, share.shard.as_ref()?)))
        };
        let Some((share, _)) = with_sums().next() else {
            return Ok(None);
        };
        leave_group(&share.device, ranks.timeout)?;
        let matrix_bytes = with_sums().map(|(_, shard)| shard.bytes()).sum();
        let communication = self.communication();
        Exchange::of_job(ranks, &share.device, communication, before, matrix_bytes).map(Some)
    }
}

/// What checked nodes are worth.
fn objective_of(
    problem: &Problem,
    adjacency: &Adjacency,
    nodes: &[u32],
) -> Result<Objective, Error> {
    match adjacency {
        Adjacency::Csr(graph) => check_answer(problem, graph, nodes),
        Adjacency::Bits(_) => {
            check_cover(adjacency, nodes)?;
            Ok(Objective::Count(nodes.len() as u64))
        }
    }
}
