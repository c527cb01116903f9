//! One rank's training program: act in every environment, remember, learn.

use shardgraph_collectives::{Op, Reduction};
use shardgraph_components::Optimiser;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_layers::Path;
use shardgraph_layers::RowShard;
use shardgraph_layers::autodiff::{Eager, Params};
use shardgraph_random::KeyedRng;
use shardgraph_shard::Communication;

use super::batch::{Batch, BatchRules, Cut, Plan, needs_sums};
use super::dataset::{Dataset, InputHash};
use super::grid::{Grid, SumsOverRanks};
use super::kept::{Kept, Spare};
use super::memory::ReplayMemory;
use super::validation::{Best, Evaluation, Held, Validation};
use super::{TargetRule, TrainConfig};
use crate::complement::cover_of_set;
use crate::exchange::cut_lists;
use crate::memory::{check_room, embedding_bytes, keep_freed_memory};
use crate::problem::{Episode, Objective, Problem, check_answer};
use crate::residual::Ranks;
use crate::select::{TopD, agree_each};
use crate::{Error, TrainedPolicy};

/// What the rank's shards of training graphs may take before those that were not used for longest are dropped.
const MAX_SHARD_BYTES: u64 = 2 << 30;

/// The share of what was learnt in means of weights: scores are then nearly those of the greedy
/// algorithm, whose ties are decided by what was learnt.
const LEARNT_SHARE: f32 = 0.05;

/// What one step did.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stepped {
    /// The loss before the last optimiser step; none while the memory fills up.
    pub(super) loss: Option<f32>,
    /// The objectives of the answers, where the step ended episodes.
    pub(super) finished: Vec<Objective>,
    /// Of the policy on the held-back graphs, where one was due.
    pub(super) evaluation: Option<Evaluation>,
}

/// An environment: its running episode, none before the first.
#[derive(Clone, Default)]
pub(super) struct Running {
    /// The graph, by number.
    pub(super) graph_id: u64,
    pub(super) episode: Option<Episode>,
}

/// The whole state of a run; equal on every rank.
#[derive(Clone)]
pub(super) struct Trainer {
    pub(super) config: TrainConfig,
    pub(super) policy: TrainedPolicy,
    pub(super) target: Params,
    pub(super) optimiser: Optimiser,
    pub(super) memory: ReplayMemory,
    /// Steps taken.
    pub(super) step: u64,
    /// Episodes begun.
    pub(super) n_episodes: u64,
    pub(super) running: Vec<Running>,
    /// The problem whose episodes are played.
    pub(super) problem: &'static Problem,
    /// The problem that is asked for: where another is played, the answer is the complement of the picks.
    asked: &'static Problem,
    pub(super) dataset: Dataset,
    held: Held,
    /// Made of `held` when the first evaluation is due.
    validation: Option<Validation>,
    /// The best policy of the evaluations so far.
    pub(super) best: Option<Best>,
    /// The weights before the first step, where they are a greedy algorithm's.
    first: Option<Vec<f32>>,
    /// The rank's rows of graphs in the device's memory.
    shards: Kept<RowShard>,
    pub(super) device: Device,
    n_batch_ranks: u32,
    communication: Communication,
    /// For the checkpoints.
    pub(super) sums: Option<SumsOverRanks>,
    /// Nodes and edges of the largest graph of an episode so far, by nodes.
    pub(super) largest_graph: (u32, u64),
    pub(super) path: Path,
    /// Memory of the evaluations of a step, for the next ones.
    pub(super) spare: Spare,
}

impl Trainer {
    /// A run before its first step.
    pub(super) fn new(asked: &'static Problem, config: TrainConfig) -> Result<Self, Error> {
        config.check()?;
        let problem = config.picks.played(asked);
        let shape = config.policy(problem);
        let mut dataset = Dataset::new(problem, &config)?;
        let named = dataset.named_for_validation(&config)?;
        let held = Held::new(asked, &config, named, dataset.sources());
        let initial = config.initial;
        let is_greedy = initial.is_greedy(problem, &shape);
        let policy = initial.policy(problem, shape, config.seed, config.init_std_dev)?;
        let path = policy.model.embedding.best_path(dataset.is_weighted());
        Ok(Self {
            target: policy.params.clone(),
            optimiser: Optimiser::new(config.optimiser(), policy.params.trained_len())?,
            memory: ReplayMemory::new(&config)?,
            step: 0,
            n_episodes: 0,
            running: vec![Running::default(); config.environments],
            problem,
            asked,
            dataset,
            held,
            validation: None,
            best: None,
            first: is_greedy.then(|| policy.params.flat().to_vec()),
            shards: Kept::new(MAX_SHARD_BYTES),
            device: Device::host(),
            n_batch_ranks: 1,
            communication: Communication::default(),
            sums: None,
            largest_graph: (0, 0),
            path,
            spare: Spare::default(),
            policy,
            config,
        })
    }

    /// Where it computes.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Computes on another device than the host, in a grid with so many rows whose ranks share neighbour sums so; before the first step.
    pub(super) fn compute_on(
        &mut self,
        device: Device,
        n_batch_ranks: u32,
        communication: Communication,
    ) {
        self.device = device;
        self.n_batch_ranks = n_batch_ranks;
        self.communication = communication;
    }

    /// Whether the model sums embeddings over neighbours.
    pub(super) fn has_sums(&self) -> bool {
        needs_sums(self.path, self.config.n_layers)
    }

    /// What this rank's parts of graphs that are kept now take.
    pub(super) fn shard_bytes(&self) -> u64 {
        self.shards.bytes()
    }

    /// Refuses a grid with rows that no batch can ever have something for.
    pub(super) fn check_grid(&self, n_batch_ranks: u32) -> Result<(), Error> {
        let batch_size = self.config.batch_size as u64;
        let together = self.config.states_per_product.unwrap_or(usize::MAX) as u64;
        let together = together.min(batch_size);
        // A graph with k states has k / together parts, rounded up.
        let n_graphs = self.dataset.n_graphs().min(batch_size);
        let n_parts = (batch_size + n_graphs * (together - 1)) / together;
        let n_parts = n_parts.min(batch_size);
        match u64::from(n_batch_ranks) <= n_parts {
            true => Ok(()),
            false => Err(Error::input(format!(
                "{n_batch_ranks} batch ranks share out the graphs of a batch, and these settings have {n_parts} for them: set `states_per_product`, so that the states of a graph are shared out too, or take fewer batch ranks"
            ))),
        }
    }

    /// Refuses what this process, one of `n_processes`, has no memory for: a batch of the smallest graph with its gradient, or the present states
    /// of all environments.
    pub(super) fn check_memory(&self, device: &Device, n_processes: u32) -> Result<(), Error> {
        keep_freed_memory();
        let n_nodes = u64::from(self.dataset.fewest_nodes());
        let (batch, environments) = (self.config.batch_size, self.config.environments);
        let n_states = (2 * batch as u64).max(environments as u64);
        let rows = n_states.saturating_mul(n_nodes) / u64::from(n_processes);
        let cure = "set a smaller batch_size, fewer environments, or take smaller graphs";
        let shape = self.config.policy(self.problem).shape();
        check_room(device, embedding_bytes(shape, rows), cure)
    }

    /// What the graph files of the settings held.
    pub(super) fn inputs(&self) -> &[InputHash] {
        self.dataset.inputs()
    }

    /// Rebuilds a running episode from its picks.
    pub(super) fn restore_episode(
        &mut self,
        environment: usize,
        graph_id: u64,
        picks: &[u32],
    ) -> Result<(), Error> {
        let graph = self.dataset.graph(graph_id)?;
        self.see(&graph);
        let mut episode = self.problem.begin(graph);
        for &pick in picks {
            episode.pick(pick)?;
        }
        self.running[environment] = Running {
            graph_id,
            episode: Some(episode),
        };
        Ok(())
    }

    /// One step (algorithm 5, lines 10 to 28) of all environments.
    pub(super) fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<Stepped, Error> {
        if self.step == 0 && self.first.is_some() && self.held.every > 0 {
            self.evaluate()?;
        }
        for environment in 0..self.running.len() {
            self.begin_if_done(environment)?;
        }
        let mut episodes = self.take_episodes()?;
        let picks = self.choose(&episodes, ranks)?;
        let mut rewards = Vec::with_capacity(picks.len());
        for (episode, &pick) in episodes.iter_mut().zip(&picks) {
            let (rule, problem) = (self.config.reward, self.problem);
            let before = rule.potential(problem, episode);
            let reward = f64::from(episode.pick(pick)?);
            rewards.push((reward + rule.potential(problem, episode) - before) as f32);
        }
        let targets = self.stored_targets(&episodes, &rewards, ranks)?;
        let mut finished = Vec::new();
        for (environment, episode) in episodes.into_iter().enumerate() {
            let (pick, reward) = (picks[environment], rewards[environment]);
            self.memory
                .record(environment, pick, reward, targets[environment])?;
            finished.extend(self.end_if_done(environment, &episode)?);
            self.running[environment].episode = Some(episode);
        }
        let loss = self.learn(ranks)?;
        self.step += 1;
        if self.step.is_multiple_of(self.config.target_sync_steps) {
            self.target = self.policy.params.clone();
        }
        Ok(Stepped {
            loss,
            finished,
            evaluation: self.evaluate_if_due()?,
        })
    }

    fn evaluate_if_due(&mut self) -> Result<Option<Evaluation>, Error> {
        match self.held.every > 0 && self.step.is_multiple_of(self.held.every) {
            true => self.evaluate(),
            false => Ok(None),
        }
    }

    /// Tries the policy on the held-back graphs, and where it began as a greedy algorithm also a
    /// mean of its first and its present weights. Each rank does the whole of it, so that all have
    /// the same without a word.
    ///
    /// # Source
    /// Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022, for means of weights.
    fn evaluate(&mut self) -> Result<Option<Evaluation>, Error> {
        let validation = match self.validation.take() {
            None => self.held.make()?,
            Some(validation) => validation,
        };
        self.policy.params.sync()?;
        let evaluation = validation.evaluate(&self.policy)?;
        if let Some(evaluation) = evaluation {
            self.keep_better(evaluation, self.policy.params.flat().to_vec());
        }
        if let Some(first) = self.first.as_ref().filter(|_| self.step > 0) {
            let mean = mean_weights(first, self.policy.params.flat());
            let mut policy = self.policy.clone();
            policy.params.set_flat(&mean)?;
            if let Some(evaluation) = validation.evaluate(&policy)? {
                self.keep_better(evaluation, mean);
            }
        }
        self.validation = Some(validation);
        Ok(evaluation)
    }

    /// Of equally good ones the one that has learnt longest.
    fn keep_better(&mut self, evaluation: Evaluation, params: Vec<f32>) {
        let is_better = |best: &Best| evaluation.is_no_worse(&best.evaluation);
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some(Best {
                step: self.step,
                evaluation,
                params,
            });
        }
    }

    /// The best policy of the evaluations, or without one the last.
    pub(super) fn chosen_policy(&self) -> Result<TrainedPolicy, Error> {
        let mut policy = self.policy.clone();
        if let Some(best) = &self.best {
            policy.params.set_flat(&best.params)?;
        }
        Ok(policy)
    }

    fn begin_if_done(&mut self, environment: usize) -> Result<(), Error> {
        let running = &self.running[environment].episode;
        if running.as_ref().is_some_and(|episode| !episode.is_done()) {
            return Ok(());
        }
        let graph_id = self.dataset.draw(self.n_episodes);
        self.n_episodes += 1;
        self.memory.begin_episode(environment, graph_id);
        let graph = self.dataset.graph(graph_id)?;
        self.see(&graph);
        self.running[environment] = Running {
            graph_id,
            episode: Some(self.problem.begin(graph)),
        };
        Ok(())
    }

    fn see(&mut self, graph: &Graph) {
        self.largest_graph = self.largest_graph.max((graph.n_nodes(), graph.n_edges()));
    }

    fn take_episodes(&mut self) -> Result<Vec<Episode>, Error> {
        let none = || Error::internal("an environment without an episode");
        let running = self.running.iter_mut();
        running
            .map(|running| running.episode.take().ok_or_else(none))
            .collect()
    }

    /// The objective of a finished episode's answer, after its check.
    fn end_if_done(
        &mut self,
        environment: usize,
        episode: &Episode,
    ) -> Result<Option<Objective>, Error> {
        if !episode.is_done() {
            return Ok(None);
        }
        self.memory.end_episode(environment)?;
        let graph = self.dataset.graph(self.running[environment].graph_id)?;
        let picks = episode.picks();
        if self.problem.name == self.asked.name {
            return check_answer(self.problem, &graph, picks).map(Some);
        }
        let cover = cover_of_set(&graph, picks)?;
        check_answer(self.asked, &graph, &cover).map(Some)
    }

    /// For each environment a random candidate, or the best by the policy (line 10); the latter in one product for all.
    fn choose(&mut self, episodes: &[Episode], ranks: &mut Ranks<'_>) -> Result<Vec<u32>, Error> {
        let epsilon = f64::from(self.config.epsilon(self.step));
        let (mut picks, mut greedy) = (vec![0; episodes.len()], Vec::new());
        for (environment, episode) in episodes.iter().enumerate() {
            let draw = self.step.wrapping_mul(episodes.len() as u64) + environment as u64;
            let mut stream = KeyedRng::new(self.config.seed, "explore", draw);
            if stream.chance(epsilon) {
                let nodes = 0..episode.in_answer().len() as u32;
                let candidates: Vec<u32> = nodes.filter(|&v| episode.is_candidate(v)).collect();
                picks[environment] = candidates[stream.below(candidates.len() as u64) as usize];
            } else {
                greedy.push(environment);
            }
        }
        let best = self.best_picks(episodes, &greedy, ranks)?;
        for (environment, best) in greedy.into_iter().zip(best) {
            picks[environment] = best;
        }
        Ok(picks)
    }

    /// The best candidates of some environments.
    fn best_picks(
        &mut self,
        episodes: &[Episode],
        chosen: &[usize],
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<u32>, Error> {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let (plan, batch) = self.present_states(episodes, chosen, ranks)?;
        let mut ctx = self.eager(&self.policy.params, ranks);
        let model = &self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let scores = model.head.node_values(&mut ctx, embed, layout)?;
        let scores = ctx.values(scores)?;
        self.spare.put(ctx.into_pool());
        self.check_scores(&scores, &batch)?;
        let mut tops = vec![TopD::new(1); layout.n_states()];
        for (row, node) in plan.nodes().enumerate() {
            if batch.candidate[row] {
                tops[layout.states()[row] as usize].offer(scores[row], node);
            }
        }
        let best = agree_each(&tops, ranks)?;
        let none = || Error::internal("an episode that is not done has no candidate");
        let states = 0..chosen.len();
        states
            .map(|i| best[plan.state(i)].first().copied().ok_or_else(none))
            .collect()
    }

    /// Refuses a candidate's score that is no number: the best of such scores says nothing.
    fn check_scores(&self, scores: &[f32], batch: &Batch) -> Result<(), Error> {
        let mut own = scores.iter().zip(&batch.candidate);
        match own.find(|(score, is_candidate)| **is_candidate && !score.is_finite()) {
            None => Ok(()),
            // Told to the other ranks when they meet.
            Some((score, _)) => Err(self.diverged("a score", *score)),
        }
    }

    pub(super) fn diverged(&self, what: &str, value: f32) -> Error {
        Error::no_answer(format!(
            "training diverged at step {}: {what} is {value}; try a smaller learning_rate",
            self.step
        ))
    }

    /// The present states of some environments.
    fn present_states(
        &mut self,
        episodes: &[Episode],
        chosen: &[usize],
        ranks: &Ranks<'_>,
    ) -> Result<(Plan, Batch), Error> {
        let rules = self.batch_rules(ranks)?;
        let mut states = Vec::with_capacity(chosen.len());
        for &environment in chosen {
            let graph_id = self.running[environment].graph_id;
            states.push((graph_id, self.dataset.graph(graph_id)?));
        }
        let plan = Plan::new(&states, &rules);
        let episode = |&environment: &usize| Some(&episodes[environment]);
        let episodes: Vec<Option<&Episode>> = chosen.iter().map(episode).collect();
        let batch = self.batch(&plan, &episodes, &rules)?;
        Ok((plan, batch))
    }

    /// A batch of planned states.
    pub(super) fn batch(
        &mut self,
        plan: &Plan,
        episodes: &[Option<&Episode>],
        rules: &BatchRules,
    ) -> Result<Batch, Error> {
        let mut shards = None;
        if rules.needs_sums() || rules.counts_on_device {
            let mut all = Vec::new();
            for cut in plan.cuts() {
                all.push(self.shard(&cut)?);
            }
            shards = Some(all);
        }
        let counted = match &shards {
            Some(shards) if rules.counts_on_device => {
                Some(plan.count_on(&self.device, episodes, shards, rules)?)
            }
            _ => None,
        };
        let shards = shards.filter(|_| rules.needs_sums());
        let mut batch = Batch::new(plan, episodes, shards, rules)?;
        batch.states.counted = counted;
        Ok(batch)
    }

    /// This rank's part of a graph in the device's memory; cut once and kept where its row of the grid has the graph.
    fn shard(&mut self, cut: &Cut<'_>) -> Result<RowShard, Error> {
        if cut.is_own
            && let Some(shard) = self.shards.get(cut.graph_id)
        {
            return Ok(shard);
        }
        let shard = cut_lists(cut.graph, cut.partition, cut.rank, self.communication);
        let shard = shard.resident(&self.device)?;
        if cut.is_own {
            self.shards.put(cut.graph_id, shard.clone(), shard.bytes());
        }
        Ok(shard)
    }

    pub(super) fn batch_rules(&self, ranks: &Ranks<'_>) -> Result<BatchRules, Error> {
        let (rank, n_ranks) = (ranks.comm.rank(), ranks.comm.size());
        // A device counts graphs of which it has all rows.
        let has_whole_graphs =
            n_ranks == self.n_batch_ranks && self.communication == Communication::default();
        let reads_degrees = self.path == Path::Collapsed && self.config.n_layers > 1;
        Ok(BatchRules {
            counts_on_device: !self.device.is_host() && has_whole_graphs && reads_degrees,
            scale: self.config.adjacency_scale,
            path: self.path,
            n_layers: self.config.n_layers,
            grid: Grid::new(n_ranks, self.n_batch_ranks, rank)?,
            states_per_product: self.config.states_per_product.unwrap_or(usize::MAX),
        })
    }

    /// For each environment the target that is stored with its step, where targets are: the reward, and the largest score of the state
    /// after it by the network of the moment.
    fn stored_targets(
        &mut self,
        episodes: &[Episode],
        rewards: &[f32],
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<Option<f32>>, Error> {
        if self.config.target == TargetRule::Recomputed {
            return Ok(vec![None; rewards.len()]);
        }
        let mut targets: Vec<Option<f32>> = rewards.iter().copied().map(Some).collect();
        let environments = 0..episodes.len();
        let open: Vec<usize> = environments.filter(|&i| !episodes[i].is_done()).collect();
        if open.is_empty() {
            return Ok(targets);
        }
        let (plan, batch) = self.present_states(episodes, &open, ranks)?;
        let best = self.best_values(&batch, &self.policy.params, ranks)?;
        for (i, &environment) in open.iter().enumerate() {
            let target = rewards[environment] + self.config.gamma * best[plan.state(i)];
            if !target.is_finite() {
                return Err(self.diverged("a target", target));
            }
            targets[environment] = Some(target);
        }
        Ok(targets)
    }

    /// A program on this rank, in the memory of the one before.
    pub(super) fn eager<'t>(&'t self, params: &'t Params, ranks: &'t mut Ranks<'_>) -> Eager<'t> {
        Eager::new(&self.device, ranks.comm, params)
            .with_deadline(ranks.timeout)
            .with_pool(self.spare.take())
    }

    /// The largest candidate score of each state of a batch.
    pub(super) fn best_values(
        &self,
        batch: &Batch,
        params: &Params,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut ctx = self.eager(params, ranks);
        let model = &self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let scores = model.head.scores(&mut ctx, embed, layout)?;
        let scores = ctx.values(scores)?;
        self.spare.put(ctx.into_pool());
        self.check_scores(&scores, batch)?;
        let mut best = vec![f32::NEG_INFINITY; layout.n_states()];
        for ((&score, &state), &candidate) in
            scores.iter().zip(layout.states()).zip(&batch.candidate)
        {
            if candidate {
                let best = &mut best[state as usize];
                *best = best.max(score);
            }
        }
        let op = Op::AllReduce {
            buf: (&mut best[..]).into(),
            reduction: Reduction::Max,
        };
        ranks.comm.run(op, ranks.timeout)?;
        Ok(best)
    }
}

/// Weights near the first ones, which differ from these in the direction that was learnt.
fn mean_weights(first: &[f32], learnt: &[f32]) -> Vec<f32> {
    let weights = first.iter().zip(learnt);
    weights.map(|(a, b)| a + LEARNT_SHARE * (b - a)).collect()
}
