//! Solving any problem on P ranks: every rank has the state and scores its own nodes; all take the same picks.

use std::sync::Arc;

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{Eager, leave_group, rank_device};
use shardgraph_layers::{Path, RowShard};
use shardgraph_shard::Partition;

use crate::agreement::{Fingerprint, lists_fingerprint};
use crate::best::is_better;
use crate::exchange::{Exchange, check_wanted, cut_lists};
use crate::inference::pass_over;
use crate::kept_scores::KeptScores;
use crate::memory::{check_room, embedding_bytes, keep_freed_memory};
use crate::on_ranks::{Progress, SameAnswer, agree_on_input, options_on};
use crate::problem::{
    Episode, MINIMUM_VERTEX_COVER, Objective, Problem, check_answer, check_graph,
};
use crate::residual::Ranks;
use crate::rows::StateRows;
use crate::select::{TopD, agree_each};
use crate::solve_options::usable_path;
use crate::{Error, SolveOptions, TrainedPolicy};
use scorer::{Scorer, closed_form, state_batch};

mod scorer;

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
    /// What ranks exchanged, for all graphs that were solved together; absent with the closed form, which sums nothing over neighbours, and where one rank
    /// keeps the rows of its layers.
    pub exchange: Option<Exchange>,
    /// Seconds for cutting, the episode and the check; of all graphs that were solved together.
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
/// In closed form, where the state [follows the residual graph](crate::problem::ProblemState::follows_residual) (sets and cliques), a step costs the
/// neighbours of what its picks removed, and their neighbours; one after which the largest degree is another costs all present nodes. Else each step makes
/// the rows of the own nodes anew, in time of their edges, and evaluates the model on them. Of three or more layers of the default kinds one rank
/// computes the rows within L steps of what changed, where the mean degree is at most the root of the number of nodes. Every rank has the state: some bytes a node.
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
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Answer, Error> {
    let graphs = std::slice::from_ref(graph);
    only(solve_problems(problem, graphs, policy, options, progress)?)
}

/// As [`solve_problem`], for several graphs at once: each step evaluates the policy on the states of all graphs in one batch and exchanges
/// the picks of all together.
///
/// `progress` is told the sums over the graphs. The answers come in the order of the graphs; each has the seconds of all.
///
/// # Errors
/// As [`solve_problem`]; one graph without an answer leaves none to the others.
/// # Complexity
/// As many steps as the longest episode has. Every rank has the states of all graphs.
/// # Determinism
/// Each answer is that of [`solve_problem`] on its graph alone.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::problem::MAXIMUM_INDEPENDENT_SET;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve_problems};
///
/// let graphs = ["karate", "petersen"].map(|name| std::sync::Arc::new(builtin::by_name(name).unwrap()));
/// let policy = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET)?;
/// let options = SolveOptions::default();
/// let answers = solve_problems(&MAXIMUM_INDEPENDENT_SET, &graphs, &policy, &options, &mut |_, _| ())?;
/// assert_eq!(answers.len(), 2);
/// assert_eq!(answers[1].nodes.len(), 4);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_problems(
    problem: &Problem,
    graphs: &[Arc<Graph>],
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Vec<Answer>, Error> {
    let alone = &mut Comm::solo();
    solve_problems_as_rank(alone, problem, graphs, policy, options, progress)
}

/// As [`solve_problem`], as one rank of a world of processes: all call it with the same arguments, and all get the same answer.
///
/// Several processes are the ranks; one alone has those of `options`, as threads.
///
/// # Errors
/// As [`solve_problem`]. [`ErrorKind::Input`](crate::ErrorKind::Input) on all ranks where one has another problem, graph, policy or options than rank 0.
pub fn solve_problem_as_rank(
    comm: &mut Comm,
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Answer, Error> {
    let graphs = std::slice::from_ref(graph);
    only(solve_problems_as_rank(
        comm, problem, graphs, policy, options, progress,
    )?)
}

/// As [`solve_problems`], as one rank of a world of processes.
///
/// # Errors
/// As [`solve_problem_as_rank`].
pub fn solve_problems_as_rank(
    comm: &mut Comm,
    problem: &Problem,
    graphs: &[Arc<Graph>],
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Vec<Answer>, Error> {
    let timer = Timer::start(&Device::host());
    let options = options_on(comm, options);
    let inputs = || {
        let all_graphs = graphs.iter().map(|graph| lists_fingerprint(graph));
        vec![
            ("problem", Fingerprint::new().text(problem.name).value()),
            ("graph", Fingerprint::new().words(all_graphs).value()),
        ]
    };
    agree_on_input(comm, inputs, policy, &options)?;
    let rollout = Rollout::new(problem, graphs, policy, &options)?;
    let on_rank = SameAnswer {
        check_memory: &|n_processes| rollout.check_memory(n_processes),
        run: &|comm, progress| rollout.run_rank(comm, progress),
        fingerprint: &answers_fingerprint,
    };
    let played = on_rank.find(comm, &options, progress)?;
    rollout.finish(played, &timer)
}

fn answers_fingerprint(all: &AllPlayed) -> Fingerprint {
    all.0.iter().fold(Fingerprint::new(), |hash, played| {
        let nodes = played.nodes.iter().map(|&node| u64::from(node));
        hash.words(nodes).words([played.n_steps])
    })
}

fn only(answers: Vec<Answer>) -> Result<Answer, Error> {
    let none = || Error::internal("a graph without an answer");
    answers.into_iter().next().ok_or_else(none)
}

/// The finished episodes, and what ranks exchanged for them.
type AllPlayed = (Vec<Played>, Option<Exchange>);

/// A finished episode.
struct Played {
    nodes: Vec<u32>,
    n_steps: u64,
}

/// The best episode of a graph so far.
struct Best {
    objective: Objective,
    played: Played,
}

/// One problem, some graphs, one policy, P ranks.
struct Rollout<'a> {
    problem: &'a Problem,
    policy: &'a TrainedPolicy,
    options: &'a SolveOptions,
    graphs: Vec<Instance<'a>>,
}

/// A graph, and how it is cut.
struct Instance<'a> {
    graph: &'a Arc<Graph>,
    path: Path,
    partition: Partition,
}

/// A graph's episode on one rank.
struct Running<'j> {
    instance: &'j Instance<'j>,
    episode: Episode,
    n_steps: u64,
    /// Counted after each step.
    n_candidates: u32,
    /// Where neighbours are summed.
    shard: Option<RowShard>,
    /// The scores, where they are kept from pick to pick.
    kept: Option<KeptScores>,
}

fn n_candidates(episode: &Episode, graph: &Graph) -> u32 {
    if episode.state().follows_residual() {
        return episode.state().residual().n_present();
    }
    let nodes = 0..graph.n_nodes();
    nodes.filter(|&node| episode.is_candidate(node)).count() as u32
}

impl<'a> Rollout<'a> {
    fn new(
        problem: &'a Problem,
        graphs: &'a [Arc<Graph>],
        policy: &'a TrainedPolicy,
        options: &'a SolveOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        policy.check_problem(problem)?;
        if options.reduce_inside {
            return Err(Error::input(
                "reductions inside the episode are for vertex covers: leave them out",
            ));
        }
        let mut instances = Vec::with_capacity(graphs.len());
        for graph in graphs {
            check_graph(problem, graph)?;
            instances.push(Instance {
                graph,
                path: usable_path(policy, graph.weights().is_some(), options.path)?,
                partition: Partition::by_nonzeros(graph, options.n_ranks),
            });
        }
        Ok(Self {
            problem,
            policy,
            options,
            graphs: instances,
        })
    }

    /// Refuses what this process, one of `n_processes`, has no memory for: a step scores all graphs at once.
    fn check_memory(&self, n_processes: u32) -> Result<(), Error> {
        keep_freed_memory();
        let graphs = (self.graphs.iter()).filter(|instance| !self.has_table(instance));
        let nodes = graphs.map(|instance| u64::from(instance.graph.n_nodes()));
        let least = embedding_bytes(self.policy.config.shape(), nodes.sum());
        let cure = "give fewer graphs at a time, or smaller ones, or a policy of less width";
        check_room(&self.options.device, least / u64::from(n_processes), cure)
    }

    /// Whether a graph is scored in closed form, which makes no embeddings.
    fn has_table(&self, instance: &Instance<'_>) -> bool {
        instance.path == Path::Collapsed && closed_form(self.policy, self.options).is_some()
    }

    fn finish(&self, played: AllPlayed, timer: &Timer) -> Result<Vec<Answer>, Error> {
        let (played, exchange) = played;
        let mut objectives = Vec::with_capacity(played.len());
        for (instance, played) in self.graphs.iter().zip(&played) {
            objectives.push(check_answer(self.problem, instance.graph, &played.nodes)?);
        }
        let seconds = timer.elapsed_s();
        let answers = self.graphs.iter().zip(played).zip(objectives);
        let answer =
            |((instance, played), objective): ((&Instance<'_>, Played), Objective)| Answer {
                nodes: played.nodes,
                objective,
                n_steps: played.n_steps,
                path: instance.path,
                exchange,
                seconds,
            };
        Ok(answers.map(answer).collect())
    }

    fn run_rank(&self, comm: &mut Comm, progress: &mut Progress<'_>) -> Result<AllPlayed, Error> {
        let before = comm.received_bytes();
        let device = rank_device(&self.options.device, comm, self.options.deadline)?;
        let mut ranks = Ranks::new(comm, self.options.deadline);
        let scorer = Scorer::new(self, device, ranks.comm.rank());
        let has_sums = |instance| scorer.table_of(instance).is_none();
        check_wanted(self.options.communication, self.graphs.iter().any(has_sums))?;
        let mut best: Vec<Best> = Vec::with_capacity(self.graphs.len());
        let mut all = Vec::new();
        for start in 0..self.options.starts {
            all = self.play(start as usize, &scorer, &mut ranks, progress)?;
            self.keep_better(&all, &mut best)?;
        }
        let exchange = self.exchange(&scorer, &all, &mut ranks, before)?;
        Ok((best.into_iter().map(|best| best.played).collect(), exchange))
    }

    /// An episode of each graph, from the candidate in this place, the best first.
    fn play<'j>(
        &'j self,
        start: usize,
        scorer: &Scorer,
        ranks: &mut Ranks<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Running<'j>>, Error> {
        let mut all = Vec::with_capacity(self.graphs.len());
        for instance in &self.graphs {
            all.push(self.begin(instance, scorer)?);
        }
        let mut n_passed = start;
        loop {
            let mut running: Vec<_> = all.iter_mut().filter(|r| !r.episode.is_done()).collect();
            if running.is_empty() {
                break;
            }
            let picks = self.best(scorer, &mut running, n_passed, ranks)?;
            for (running, mut picks) in running.iter_mut().zip(picks) {
                pass_over(&mut picks, n_passed);
                take(&mut running.episode, &picks)?;
                running.n_steps += 1;
                let residual = running.episode.state().residual();
                running.n_candidates = match &mut running.kept {
                    Some(kept) => {
                        kept.update(residual);
                        kept.n_candidates(residual)
                    }
                    None => n_candidates(&running.episode, running.instance.graph),
                };
            }
            n_passed = 0;
            let n_candidates = all.iter().map(|running| running.n_candidates);
            let n_picks = all.iter().map(|running| running.episode.picks().len());
            progress(n_candidates.sum(), n_picks.sum());
            self.options.check_cancelled()?;
        }
        Ok(all)
    }

    /// Keeps the better answer of each graph, and counts the steps of all.
    fn keep_better(&self, all: &[Running<'_>], best: &mut Vec<Best>) -> Result<(), Error> {
        for (i, running) in all.iter().enumerate() {
            let nodes = running.episode.picks();
            let objective = check_answer(self.problem, running.instance.graph, nodes)?;
            let mut new = Best {
                objective,
                played: Played {
                    nodes: nodes.to_vec(),
                    n_steps: running.n_steps,
                },
            };
            let Some(old) = best.get_mut(i) else {
                best.push(new);
                continue;
            };
            new.played.n_steps += old.played.n_steps;
            match is_better(self.problem.sense, objective, old.objective) {
                true => *old = new,
                false => old.played.n_steps = new.played.n_steps,
            }
        }
        Ok(())
    }

    /// Ends the sums, where there were any, and says what they cost.
    fn exchange(
        &self,
        scorer: &Scorer,
        all: &[Running<'_>],
        ranks: &mut Ranks<'_>,
        before: u64,
    ) -> Result<Option<Exchange>, Error> {
        let shards = all.iter().filter_map(|running| running.shard.as_ref());
        let bytes: Vec<u64> = shards.map(RowShard::bytes).collect();
        if bytes.is_empty() {
            return Ok(None);
        }
        leave_group(&scorer.device, ranks.timeout)?;
        let communication = self.options.communication.unwrap_or_default();
        let matrix_bytes = bytes.iter().sum();
        Exchange::of_job(ranks, &scorer.device, communication, before, matrix_bytes).map(Some)
    }

    fn begin<'j>(
        &'j self,
        instance: &'j Instance<'j>,
        scorer: &Scorer,
    ) -> Result<Running<'j>, Error> {
        let episode = self.problem.begin(Arc::clone(instance.graph));
        let kept = self.kept_scores(instance, scorer, &episode)?;
        let shard = match scorer.table_of(instance).is_some() || kept.is_some() {
            true => None,
            false => {
                let communication = self.options.communication.unwrap_or_default();
                let shard = cut_lists(
                    instance.graph,
                    &instance.partition,
                    scorer.rank,
                    communication,
                );
                Some(shard.resident(&scorer.device)?)
            }
        };
        Ok(Running {
            instance,
            kept,
            n_candidates: n_candidates(&episode, instance.graph),
            episode,
            n_steps: 0,
            shard,
        })
    }

    /// The scores of a graph, where they can be kept. Those of more layers are kept where nothing is exchanged.
    fn kept_scores(
        &self,
        instance: &Instance<'_>,
        scorer: &Scorer,
        episode: &Episode,
    ) -> Result<Option<KeptScores>, Error> {
        let graph = instance.graph;
        let needs_edge = self.problem.name == MINIMUM_VERTEX_COVER.name;
        let follows = episode.state().follows_residual();
        let has_table = scorer.table_of(instance).is_some();
        if instance.path != Path::Collapsed || !(follows || needs_edge && !has_table) {
            return Ok(None);
        }
        if has_table {
            let own = instance.partition.range(scorer.rank);
            return Ok(Some(KeptScores::of_table(graph, own)));
        }
        let is_alone = self.options.n_ranks == 1 && self.options.communication.is_none();
        match is_alone && self.options.device.kind() == DeviceKind::Host {
            true => KeptScores::of_layers(graph, self.policy, needs_edge),
            false => Ok(None),
        }
    }

    /// For each running episode the best candidates of all ranks, some more than the step picks.
    fn best(
        &self,
        scorer: &Scorer,
        running: &mut [&mut Running<'_>],
        n_more: usize,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let mut tops = Vec::with_capacity(running.len());
        let mut all_finite = true;
        for running in running.iter_mut() {
            let n_nodes = running.instance.graph.n_nodes();
            let n_picks = self.options.select.n_picks(running.n_candidates, n_nodes);
            let mut top = TopD::new(n_picks + n_more);
            if let Some(kept) = &mut running.kept {
                let residual = running.episode.state().residual();
                let scale = self.policy.config.adjacency_scale;
                all_finite &= kept.offer(residual, scorer.table.as_ref(), scale, &mut top)?;
            }
            tops.push(top);
        }
        let rows: Vec<Option<StateRows<'_>>> = running.iter().map(|r| self.rows(r)).collect();
        let mut scores = self
            .model_scores(scorer, running, &rows, ranks)?
            .into_iter();
        for ((running, rows), top) in running.iter().zip(&rows).zip(&mut tops) {
            let Some(rows) = rows else {
                continue;
            };
            let own = running.instance.partition.range(scorer.rank);
            let scores = match scorer.table_of(running.instance) {
                Some(table) => rows.table_scores(table, own.clone()),
                None => scores.by_ref().take(own.len()).collect(),
            };
            for (node, score) in own.zip(scores) {
                if rows.episode.is_candidate(node) {
                    all_finite &= score.is_finite();
                    top.offer(score, node);
                }
            }
        }
        // Told to the others when they meet: a rank's own reason ends them all.
        if !all_finite {
            return Err(Error::no_answer(
                "the scores leave the range of numbers: the weights of this policy, or of the edges, are too large",
            ));
        }
        agree_each(&tops, ranks)
    }

    /// What all nodes are scored by; absent where scores are kept.
    fn rows<'r>(&self, running: &'r Running<'_>) -> Option<StateRows<'r>> {
        let Running {
            instance, episode, ..
        } = running;
        let scale = self.policy.config.adjacency_scale;
        let is_kept = running.kept.is_some();
        (!is_kept).then(|| StateRows::new(instance.graph, episode, scale, instance.path))
    }

    /// The scores of the own nodes of all graphs without a closed form, graph by graph. Paths differ where some graphs have weights, so
    /// each path has a batch.
    fn model_scores(
        &self,
        scorer: &Scorer,
        running: &[&mut Running<'_>],
        rows: &[Option<StateRows<'_>>],
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let is_of = |r: &Running<'_>, path| r.shard.is_some() && r.instance.path == path;
        let mut of_graphs: Vec<Vec<f32>> = vec![Vec::new(); running.len()];
        for path in [Path::General, Path::FreeFirstLayer, Path::Collapsed] {
            let graphs = 0..running.len();
            let chosen: Vec<usize> = graphs.filter(|&i| is_of(running[i], path)).collect();
            if chosen.is_empty() {
                continue;
            }
            let batch = state_batch(&chosen, running, rows, scorer.rank)?;
            let mut ctx = Eager::new(&scorer.device, ranks.comm, &self.policy.params)
                .with_deadline(ranks.timeout);
            let model = &self.policy.model;
            let embed = model.embedding.embed(&mut ctx, &batch, path)?;
            let scores = model.head.node_values(&mut ctx, embed, &batch.layout)?;
            let scores = ctx.values(scores)?;
            for (group, i) in chosen.into_iter().enumerate() {
                of_graphs[i] = scores[batch.layout.group_rows(group)].to_vec();
            }
        }
        Ok(of_graphs.concat())
    }
}

/// Takes the picks that are candidates still when their turn comes.
fn take(episode: &mut Episode, picks: &[u32]) -> Result<(), Error> {
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
