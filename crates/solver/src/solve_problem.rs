//! Solving any problem on P ranks: every rank has the state and scores its own nodes; all take the same picks.

use std::sync::{Arc, Mutex};

use shardgraph_collectives::{Comm, threads};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{
    BatchLayout, Eager, Group, Propagation, RowShard, leave_group, rank_device,
};
use shardgraph_layers::{Path, ScoreTable};
use shardgraph_shard::{CsrShard, Partition};

use crate::agreement::{
    Fingerprint, check_same, lists_fingerprint, options_fingerprint, or_tell, policy_fingerprint,
    version_fact,
};
use crate::error::ErrorKind;
use crate::problem::{Episode, Objective, Problem, check_answer, check_graph};
use crate::residual::Ranks;
use crate::rows::{StateRows, without_rows};
use crate::select::TopD;
use crate::solve::{check_ranks, collect_ranks, usable_path};
use crate::{Error, SolveOptions, TrainedPolicy};

/// A checked answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The answer's nodes, in the order in which they were picked.
    pub nodes: Vec<u32>,
    /// What it is worth, by the problem's check.
    pub objective: Objective,
    /// Policy evaluations.
    pub n_steps: u64,
    /// The path of the embedding that was used.
    pub path: Path,
    /// Seconds for cutting, the episode and the check.
    pub seconds: f64,
}

/// Solves any [`Problem`] on a graph with a policy for it, and checks the answer.
///
/// `progress` is called on rank 0 after each step with the number of candidates left and that of picks.
///
/// # Errors
/// When the policy is for another problem, the graph has weights that the problem does not read, the options cannot be right, a rank
/// is lost, a score is no number, or the answer fails its check.
/// # Complexity
/// Each step makes the rows of the own nodes anew, in time of their edges, and evaluates the model on them. What a pick changes is up
/// to the problem. Every rank has the state: some bytes a node.
/// # Determinism
/// The same answer for every number of ranks.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::problem::{MAXIMUM_CLIQUE, Objective};
/// use shardgraph_solver::{AdjacencyScale, PolicyConfig, SolveOptions, TrainedPolicy, solve_problem};
///
/// let karate = std::sync::Arc::new(builtin::by_name("karate").unwrap());
/// let config = PolicyConfig::of_problem(&MAXIMUM_CLIQUE, 8, 2, AdjacencyScale::LargestDegree);
/// let untrained = TrainedPolicy::random(config, 1, 0.1)?;
/// let options = SolveOptions::default();
/// let answer = solve_problem(&MAXIMUM_CLIQUE, &karate, &untrained, &options, &mut |_, _| ())?;
/// assert_eq!(answer.objective, Objective::Count(answer.nodes.len() as u64));
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_problem(
    problem: &dyn Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Answer, Error> {
    let timer = Timer::start(&Device::host());
    let job = Job::new(problem, graph, policy, options)?;
    if options.n_ranks == 1 {
        let played = job.run_rank(&mut Comm::solo(), progress)?;
        return job.finish(played, &timer);
    }
    let progress = Mutex::new(progress);
    let results = threads::run(options.n_ranks, |mut comm| {
        let is_first = comm.rank() == 0;
        or_tell(&mut comm, |comm| {
            job.run_rank(comm, &mut |n_candidates, n_picks| {
                if is_first && let Ok(mut progress) = progress.lock() {
                    progress(n_candidates, n_picks);
                }
            })
        })
    });
    let mut all = collect_ranks(results)?;
    let played = all.swap_remove(0);
    if all.iter().any(|other| other.nodes != played.nodes) {
        return Err(different_answers());
    }
    job.finish(played, &timer)
}

/// As [`solve_problem`], as one rank of a world of processes: all call it with the same arguments, and all get the same answer.
///
/// The number of ranks is that of `comm`, not that of `options`.
///
/// # Errors
/// As [`solve_problem`]. [`ErrorKind::Input`] on all ranks where one has another problem, graph, policy or options than rank 0.
pub fn solve_problem_as_rank(
    comm: &mut Comm,
    problem: &dyn Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut dyn FnMut(u32, usize),
) -> Result<Answer, Error> {
    let timer = Timer::start(&Device::host());
    let options = SolveOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    let facts = [
        version_fact(),
        ("problem", Fingerprint::new().text(problem.name()).value()),
        ("graph", lists_fingerprint(graph)),
        ("policy", policy_fingerprint(policy)),
        ("set of options", options_fingerprint(&options)),
    ];
    check_same(comm, &facts, options.deadline)?;
    let job = Job::new(problem, graph, policy, &options)?;
    let is_first = comm.rank() == 0;
    let mut report = |n_candidates, n_picks| {
        if is_first {
            progress(n_candidates, n_picks);
        }
    };
    let played = or_tell(comm, |comm| job.run_rank(comm, &mut report))?;
    let nodes = played.nodes.iter().map(|&node| u64::from(node));
    let facts = [("answer", Fingerprint::new().words(nodes).value())];
    check_same(comm, &facts, options.deadline).map_err(|error| match error.kind() {
        ErrorKind::Input(_) => different_answers(),
        _ => error,
    })?;
    job.finish(played, &timer)
}

fn different_answers() -> Error {
    Error::internal("the ranks found different answers")
}

/// A finished episode.
struct Played {
    nodes: Vec<u32>,
    n_steps: u64,
}

/// One problem, one graph, one policy, P ranks.
struct Job<'a> {
    problem: &'a dyn Problem,
    graph: &'a Arc<Graph>,
    policy: &'a TrainedPolicy,
    options: &'a SolveOptions,
    path: Path,
    partition: Partition,
}

/// What one rank scores its nodes with.
struct Scorer {
    /// The closed form, where there is one.
    table: Option<ScoreTable>,
    shard: RowShard,
    device: Device,
    layout: Arc<BatchLayout>,
}

impl<'a> Job<'a> {
    fn new(
        problem: &'a dyn Problem,
        graph: &'a Arc<Graph>,
        policy: &'a TrainedPolicy,
        options: &'a SolveOptions,
    ) -> Result<Self, Error> {
        check_ranks(options.n_ranks)?;
        options.select.check()?;
        policy.check_problem(problem)?;
        check_graph(problem, graph)?;
        Ok(Self {
            problem,
            graph,
            policy,
            options,
            path: usable_path(policy, graph.weights().is_some(), options.path)?,
            partition: Partition::by_nonzeros(graph, options.n_ranks),
        })
    }

    fn finish(&self, played: Played, timer: &Timer) -> Result<Answer, Error> {
        let objective = check_answer(self.problem, self.graph, &played.nodes)?;
        Ok(Answer {
            nodes: played.nodes,
            objective,
            n_steps: played.n_steps,
            path: self.path,
            seconds: timer.elapsed_s(),
        })
    }

    fn run_rank(
        &self,
        comm: &mut Comm,
        progress: &mut dyn FnMut(u32, usize),
    ) -> Result<Played, Error> {
        let scorer = self.scorer(comm)?;
        let mut ranks = Ranks {
            comm,
            deadline: self.options.deadline,
        };
        let mut episode = self.problem.begin(Arc::clone(self.graph));
        let mut n_steps = 0;
        while !episode.is_done() {
            let n_candidates = self.n_candidates(&*episode);
            let n_picks = self.options.select;
            let n_picks = n_picks.n_picks(n_candidates, self.graph.n_nodes());
            let picks = self.best(&scorer, &*episode, n_picks, &mut ranks)?;
            take(&mut *episode, &picks)?;
            n_steps += 1;
            progress(self.n_candidates(&*episode), episode.picks().len());
        }
        if scorer.table.is_none() {
            leave_group(&scorer.device, ranks.deadline)?;
        }
        Ok(Played {
            nodes: episode.answer(),
            n_steps,
        })
    }

    fn n_candidates(&self, episode: &dyn Episode) -> u32 {
        let nodes = 0..self.graph.n_nodes();
        nodes.filter(|&node| episode.is_candidate(node)).count() as u32
    }

    fn scorer(&self, comm: &mut Comm) -> Result<Scorer, Error> {
        let rank = comm.rank();
        let is_on_host = self.options.device.kind() == DeviceKind::Host;
        let table = match self.path {
            Path::Collapsed if is_on_host => {
                ScoreTable::new(&self.policy.model, &self.policy.params)
            }
            _ => None,
        };
        let device = rank_device(&self.options.device, comm, self.options.deadline)?;
        let own = self.partition.range(rank);
        let shard = RowShard::Csr(Arc::new(CsrShard::by_rows(self.graph, own)));
        let group = Group {
            partition: self.partition.clone(),
            n_states: 1,
        };
        Ok(Scorer {
            table,
            shard: shard.resident(&device)?,
            device,
            layout: Arc::new(BatchLayout::new(vec![group], rank)),
        })
    }

    /// The best candidates of all ranks.
    fn best(
        &self,
        scorer: &Scorer,
        episode: &dyn Episode,
        n_picks: usize,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<u32>, Error> {
        let rows = StateRows {
            graph: self.graph,
            episode,
            scale: episode.scale(self.policy.config.adjacency_scale),
            path: self.path,
        };
        let own = self.partition.range(ranks.comm.rank());
        let scores = match &scorer.table {
            Some(table) => table_scores(table, &rows, own.clone()),
            None => self.model_scores(scorer, &rows, ranks)?,
        };
        let mut top = TopD::new(n_picks);
        let mut all_finite = true;
        for (node, score) in own.zip(scores) {
            if episode.is_candidate(node) {
                all_finite &= score.is_finite();
                top.offer(score, node);
            }
        }
        // Told to the others when they meet: a rank's own reason ends them all.
        if !all_finite {
            return Err(Error::no_answer(
                "the scores leave the range of numbers: the weights of this policy, or of the edges, are too large",
            ));
        }
        top.agree(ranks)
    }

    fn model_scores(
        &self,
        scorer: &Scorer,
        rows: &StateRows<'_>,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let layout = &scorer.layout;
        let mut batch = without_rows(layout);
        for node in self.partition.range(layout.rank()) {
            rows.push(node, &mut batch);
        }
        let propagation = Propagation::new(
            Arc::clone(layout),
            vec![scorer.shard.clone()],
            vec![rows.keep().collect()],
            vec![rows.scale],
        )?;
        batch.propagation = Some(Arc::new(propagation));
        let mut ctx = Eager::new(&scorer.device, ranks.comm, &self.policy.params)
            .with_deadline(ranks.deadline);
        let model = self.policy.model;
        let embed = model.embedding.embed(&mut ctx, &batch, self.path)?;
        let scores = model.head.node_values(&mut ctx, embed, layout)?;
        Ok(ctx.values(scores)?)
    }
}

/// The scores of some nodes by the closed form; of candidates alone, the others get 0.
fn table_scores(table: &ScoreTable, rows: &StateRows<'_>, nodes: std::ops::Range<u32>) -> Vec<f32> {
    let (degrees, scale) = (rows.episode.degrees(), rows.scale);
    let mut hint = 0;
    let score = |node: u32| {
        if !rows.episode.is_candidate(node) {
            return 0.0;
        }
        let degree = degrees[node as usize] as f32 * scale;
        let d2 = rows.d2(node) as f32 * (scale * scale);
        table.score_near(degree, d2, &mut hint)
    };
    nodes.map(score).collect()
}

/// Takes the picks that are candidates still when their turn comes.
fn take(episode: &mut dyn Episode, picks: &[u32]) -> Result<(), Error> {
    let before = episode.picks().len();
    for &pick in picks {
        if episode.is_candidate(pick) {
            episode.pick(pick)?;
        }
    }
    match episode.picks().len() == before {
        true => Err(Error::internal("a step with candidates picked no node")),
        false => Ok(()),
    }
}
