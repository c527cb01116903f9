//! One rank's training program: act, remember, learn.

use std::sync::Arc;

use shardgraph_collectives::{Op, Reduction};
use shardgraph_components::{ErrorKind, Optimiser};
use shardgraph_device::Device;
use shardgraph_graph::random::Stream;
use shardgraph_layers::autodiff::{Ctx, Eager, Params, RowShard, Shape};
use shardgraph_layers::{Path, choose_path};
use shardgraph_replay::{Ending, EpisodeMemory, Transition};

use super::batch::{Batch, BatchRules, StateRef};
use super::checkpoint::InputHash;
use super::dataset::Dataset;
use super::{TargetRule, TrainConfig};
use crate::problem::{Episode, Objective, Problem, check_answer};
use crate::residual::Ranks;
use crate::select::TopD;
use crate::{Error, TrainedPolicy};

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stepped {
    /// The loss before the last optimiser step; none while the memory fills up.
    pub(super) loss: Option<f32>,
    /// What the answer is worth, where the step ended an episode.
    pub(super) finished: Option<Objective>,
}

/// The whole state of a run; equal on every rank.
#[derive(Clone)]
pub(super) struct Trainer {
    pub(super) config: TrainConfig,
    pub(super) policy: TrainedPolicy,
    pub(super) target: Params,
    pub(super) optimiser: Optimiser,
    pub(super) memory: EpisodeMemory,
    /// Steps taken.
    pub(super) step: u64,
    /// Episodes begun.
    pub(super) n_episodes: u64,
    /// The graph of the running episode, by number.
    pub(super) graph_id: u64,
    episode: Option<Box<dyn Episode>>,
    problem: &'static dyn Problem,
    dataset: Dataset,
    device: Device,
    path: Path,
}

impl Trainer {
    /// A run before its first step.
    pub(super) fn new(problem: &'static dyn Problem, config: TrainConfig) -> Result<Self, Error> {
        config.check()?;
        let shape = config.policy(problem);
        let dataset = Dataset::new(problem, &config)?;
        let path = choose_path(shape.shape(), dataset.is_weighted());
        let policy = TrainedPolicy::random(shape, config.seed, config.init_std_dev)?;
        Ok(Self {
            target: policy.params.clone(),
            optimiser: Optimiser::new(config.optimiser(), policy.params.trained_len())?,
            memory: EpisodeMemory::new(config.replay_capacity),
            step: 0,
            n_episodes: 0,
            graph_id: 0,
            episode: None,
            problem,
            dataset,
            device: Device::host(),
            path,
            policy,
            config,
        })
    }

    /// Where it computes.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Computes on another device than the host; before the first step.
    pub(super) fn compute_on(&mut self, device: Device) {
        self.device = device;
    }

    /// The picks of the running episode.
    pub(super) fn running_picks(&self) -> &[u32] {
        self.episode.as_ref().map_or(&[], |episode| episode.picks())
    }

    /// What the graph files of the settings held.
    pub(super) fn inputs(&self) -> &[InputHash] {
        self.dataset.inputs()
    }

    /// Rebuilds the running episode from its picks.
    pub(super) fn restore_episode(&mut self, graph_id: u64, picks: &[u32]) -> Result<(), Error> {
        let mut episode = self.problem.begin(self.dataset.graph(graph_id)?);
        for &pick in picks {
            episode.pick(pick)?;
        }
        self.graph_id = graph_id;
        self.episode = Some(episode);
        Ok(())
    }

    /// One step (algorithm 5, lines 10 to 28).
    pub(super) fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<Stepped, Error> {
        let mut episode = match self.episode.take().filter(|episode| !episode.is_done()) {
            Some(episode) => episode,
            None => self.begin_episode()?,
        };
        let pick = self.choose(&*episode, ranks)?;
        let reward = episode.pick(pick)?;
        let target = match self.config.target {
            TargetRule::Stored if episode.is_done() => Some(reward),
            TargetRule::Stored => {
                Some(reward + self.config.gamma * self.best_value(&*episode, ranks)?)
            }
            TargetRule::Recomputed => None,
        };
        self.memory
            .record(pick, reward, target)
            .map_err(|e| Error::internal(e.to_string()))?;
        let finished = self.end_if_done(&*episode)?;
        self.episode = Some(episode);
        let loss = self.learn(ranks)?;
        self.step += 1;
        if self.step.is_multiple_of(self.config.target_sync_steps) {
            self.target = self.policy.params.clone();
        }
        Ok(Stepped { loss, finished })
    }

    /// What a finished episode's answer is worth, after its check.
    fn end_if_done(&mut self, episode: &dyn Episode) -> Result<Option<Objective>, Error> {
        if !episode.is_done() {
            return Ok(None);
        }
        self.memory
            .end_episode(Ending::Terminated)
            .map_err(|e| Error::internal(e.to_string()))?;
        let graph = self.dataset.graph(self.graph_id)?;
        check_answer(self.problem, &graph, &episode.answer()).map(Some)
    }

    fn begin_episode(&mut self) -> Result<Box<dyn Episode>, Error> {
        self.graph_id = self.dataset.draw(self.n_episodes);
        self.n_episodes += 1;
        self.memory.begin_episode(self.graph_id);
        Ok(self.problem.begin(self.dataset.graph(self.graph_id)?))
    }

    /// A random candidate, or the best by the policy (line 10).
    fn choose(&mut self, episode: &dyn Episode, ranks: &mut Ranks<'_>) -> Result<u32, Error> {
        let mut stream = Stream::new(self.config.seed, "explore", self.step);
        if stream.chance(f64::from(self.config.epsilon(self.step))) {
            let nodes = 0..episode.degrees().len() as u32;
            let candidates: Vec<u32> = nodes.filter(|&v| episode.is_candidate(v)).collect();
            return Ok(candidates[stream.below(candidates.len() as u64) as usize]);
        }
        let batch = self.single_state(episode, ranks)?;
        let mut ctx =
            Eager::new(&self.device, ranks.comm, &self.policy.params).with_deadline(ranks.deadline);
        let model = self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let scores = model.head.node_values(&mut ctx, embed, layout)?;
        let scores = ctx.values(scores)?;
        self.check_scores(&scores, &batch)?;
        let first = layout.groups()[0].partition.range(layout.rank()).start;
        let mut top = TopD::new(1);
        for (row, &score) in scores
            .iter()
            .enumerate()
            .filter(|(row, _)| batch.candidate[*row])
        {
            top.offer(score, first + row as u32);
        }
        let best = top.agree(ranks)?;
        let none = || Error::internal("an episode that is not done has no candidate");
        best.first().copied().ok_or_else(none)
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

    fn diverged(&self, what: &str, value: f32) -> Error {
        Error::no_answer(format!(
            "training diverged at step {}: {what} is {value}; try a smaller learning_rate",
            self.step
        ))
    }

    fn single_state(&mut self, episode: &dyn Episode, ranks: &Ranks<'_>) -> Result<Batch, Error> {
        let rules = self.batch_rules(ranks);
        let state = StateRef {
            graph_id: self.graph_id,
            graph: self.dataset.graph(self.graph_id)?,
            shard: self.shard(self.graph_id, &rules)?,
            picks: episode.picks(),
        };
        Batch::new(&[state], &rules)
    }

    fn shard(&mut self, graph_id: u64, rules: &BatchRules) -> Result<Option<RowShard>, Error> {
        if !rules.needs_sums() {
            return Ok(None);
        }
        let (rank, n_ranks) = (rules.rank, rules.n_ranks);
        let shard = self.dataset.shard(graph_id, rank, n_ranks, &self.device)?;
        Ok(Some(shard))
    }

    fn batch_rules(&self, ranks: &Ranks<'_>) -> BatchRules {
        BatchRules {
            problem: self.problem,
            scale: self.config.adjacency_scale,
            path: self.path,
            n_layers: self.config.n_layers,
            rank: ranks.comm.rank(),
            n_ranks: ranks.comm.size(),
        }
    }

    /// The largest score of the present state by the network of the moment.
    fn best_value(&mut self, episode: &dyn Episode, ranks: &mut Ranks<'_>) -> Result<f32, Error> {
        let batch = self.single_state(episode, ranks)?;
        Ok(self.best_values(&batch, &self.policy.params, ranks)?[0])
    }

    /// The largest candidate score of each state of a batch.
    fn best_values(
        &self,
        batch: &Batch,
        params: &Params,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut ctx = Eager::new(&self.device, ranks.comm, params).with_deadline(ranks.deadline);
        let model = self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let scores = model.head.scores(&mut ctx, embed, layout)?;
        let scores = ctx.values(scores)?;
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
        ranks.comm.run(op, ranks.deadline)?;
        Ok(best)
    }

    /// Samples a batch and takes optimiser steps on it (lines 18 to 26).
    fn learn(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<f32>, Error> {
        if self.memory.len() < self.config.batch_size {
            return Ok(None);
        }
        let mut stream = Stream::new(self.config.seed, "sample", self.step);
        let transitions = self
            .memory
            .sample(self.config.batch_size, &mut |n| stream.below(n));
        let targets = self.targets(&transitions, ranks)?;
        let batch = self.batch_at(&transitions, ranks, |t| t.step)?;
        let n_states = batch.states.layout.n_states();
        let mut rows = vec![u32::MAX; n_states];
        let mut wanted = vec![0.0; n_states];
        for (i, transition) in transitions.iter().enumerate() {
            let pick = known(self.memory.pick(transition))?;
            let state = batch.state(i);
            rows[state] = batch.row(i, pick).map_or(u32::MAX, |row| row as u32);
            wanted[state] = targets[i];
        }
        let mut loss = None;
        for _ in 0..self.config.gradient_iterations {
            loss = Some(self.descend(&batch, Arc::from(&rows[..]), &wanted, ranks)?);
        }
        Ok(loss)
    }

    /// The batch of the states that `step` of each transition gives.
    fn batch_at(
        &mut self,
        transitions: &[Transition],
        ranks: &Ranks<'_>,
        step: impl Fn(&Transition) -> u32,
    ) -> Result<Batch, Error> {
        let rules = self.batch_rules(ranks);
        let mut shards = Vec::with_capacity(transitions.len());
        for transition in transitions {
            shards.push(self.shard(transition.graph_id, &rules)?);
        }
        let mut refs = Vec::with_capacity(transitions.len());
        for (transition, shard) in transitions.iter().zip(shards) {
            let picks = known(self.memory.picks(transition.episode))?;
            refs.push(StateRef {
                graph_id: transition.graph_id,
                graph: self.dataset.graph(transition.graph_id)?,
                shard,
                picks: &picks[..step(transition) as usize],
            });
        }
        Batch::new(&refs, &rules)
    }

    /// The target value of each transition.
    fn targets(
        &mut self,
        transitions: &[Transition],
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        if self.config.target == TargetRule::Stored {
            let stored = |t: &Transition| known(self.memory.target(t));
            return transitions.iter().map(stored).collect();
        }
        let (n, gamma) = (self.config.n_step, self.config.gamma);
        let mut returns = Vec::with_capacity(transitions.len());
        for transition in transitions {
            returns.push(known(self.memory.n_step(transition, n, gamma))?);
        }
        let mut targets: Vec<f32> = returns.iter().map(|r| r.reward_sum).collect();
        let open: Vec<usize> = (0..returns.len())
            .filter(|&i| returns[i].bootstrap_step.is_some())
            .collect();
        if open.is_empty() {
            return Ok(targets);
        }
        // The state to bootstrap from, as a transition of its own: same episode, later step.
        let later: Vec<Transition> = open
            .iter()
            .map(|&i| Transition {
                step: returns[i].bootstrap_step.unwrap_or(0),
                ..transitions[i]
            })
            .collect();
        let batch = self.batch_at(&later, ranks, |t| t.step)?;
        let best = self.best_values(&batch, &self.target, ranks)?;
        for (k, &i) in open.iter().enumerate() {
            targets[i] += returns[i].discount * best[batch.state(k)];
        }
        Ok(targets)
    }

    /// One optimiser step; gives the loss before it.
    fn descend(
        &mut self,
        batch: &Batch,
        rows: Arc<[u32]>,
        wanted: &[f32],
        ranks: &mut Ranks<'_>,
    ) -> Result<f32, Error> {
        let mut ctx =
            Eager::new(&self.device, ranks.comm, &self.policy.params).with_deadline(ranks.deadline);
        let model = self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let q = model.head.scores_of(&mut ctx, embed, layout, rows)?;
        let wanted = ctx.input(Shape::new(wanted.len(), 1), wanted)?;
        let loss = self.config.td_loss().mean(&mut ctx, q, wanted)?;
        let value = ctx.values(loss)?[0];
        let mut gradient = ctx.param_gradient(loss)?;
        if !value.is_finite() {
            return Err(self.diverged("the loss", value));
        }
        let stepped = self
            .optimiser
            .step(&self.device, &mut self.policy.params, &mut gradient);
        stepped.map_err(|error| match error.kind() {
            ErrorKind::Diverged { .. } => self.diverged("the loss", value),
            _ => error.into(),
        })?;
        Ok(value)
    }
}

/// Transitions are looked up right after they were sampled, so none is stale.
fn known<T>(found: Option<T>) -> Result<T, Error> {
    found.ok_or_else(|| Error::internal("a transition that was just sampled is stale"))
}
