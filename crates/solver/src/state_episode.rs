//! An episode with the problem's own state on one rank: scores that are kept, in closed form, or of the model step by step.

use std::sync::Arc;

use shardgraph_device::Device;
use shardgraph_layers::autodiff::Eager;
use shardgraph_layers::{BatchLayout, Group, Path, Propagation, RowShard, ScoreTable, StateBatch};

use crate::evaluation::{Evaluation, Played};
use crate::kept_scores::KeptScores;
use crate::problem::Episode;
use crate::residual::Ranks;
use crate::rows::{StateRows, without_rows};
use crate::select::TopD;
use crate::share::Share;
use crate::solver::{Instance, Solver};
use crate::{AdjacencyScale, Error};

/// An episode whose state is the problem's.
pub(crate) struct StateEpisode<'s> {
    instance: &'s Instance<'s>,
    scale: AdjacencyScale,
    rank: u32,
    /// The closed form, where the graph has it.
    table: Option<&'s ScoreTable>,
    episode: Episode,
    /// Counted after each step.
    n_candidates: u32,
    /// The scores, where they are kept from pick to pick.
    kept: Option<KeptScores>,
    /// Where neighbours are summed; absent where scores are kept or in closed form.
    shard: Option<RowShard>,
}

impl<'s> StateEpisode<'s> {
    /// The state before the first pick.
    pub(crate) fn begin(solver: &'s Solver<'_>, share: &mut Share<'s>) -> Result<Self, Error> {
        let instance = share.instance;
        let lists = instance.adjacency.to_lists();
        let lists = lists.map_err(|error| Error::input(error.to_string()))?;
        let episode = solver.problem.begin(lists);
        let kept = KeptScores::new(solver, instance, &episode, share.rank)?;
        let table = solver.table_of(instance);
        let has_sums = kept.is_none() && table.is_none();
        let shard = has_sums.then(|| share.sum_neighbors(solver)).transpose()?;
        let mut begun = Self {
            instance,
            scale: solver.policy.config.adjacency_scale,
            rank: share.rank,
            table,
            episode,
            n_candidates: 0,
            kept,
            shard,
        };
        begun.n_candidates = begun.count_candidates();
        Ok(begun)
    }

    fn count_candidates(&self) -> u32 {
        let state = self.episode.state();
        if let Some(kept) = &self.kept {
            return kept.n_candidates(state.residual());
        }
        if state.follows_residual() {
            return state.residual().n_present();
        }
        let nodes = 0..self.instance.adjacency.n_nodes();
        nodes
            .filter(|&node| self.episode.is_candidate(node))
            .count() as u32
    }

    fn rows(&self) -> StateRows<'_> {
        let graph = self.episode.state().residual().graph();
        StateRows::new(graph, &self.episode, self.scale, self.instance.path)
    }
}

impl Evaluation for StateEpisode<'_> {
    fn n_candidates(&self) -> u32 {
        self.n_candidates
    }

    fn n_picks(&self) -> usize {
        self.episode.picks().len()
    }

    fn state(&self) -> Option<&StateEpisode<'_>> {
        Some(self)
    }

    fn offer(&mut self, scores: Vec<f32>, top: &mut TopD, _: &mut Ranks<'_>) -> Result<(), Error> {
        let mut all_finite = true;
        if let Some(kept) = &mut self.kept {
            let residual = self.episode.state().residual();
            all_finite = kept.offer(residual, self.table, self.scale, top)?;
        } else {
            let own = self.instance.partition.range(self.rank);
            let scores = match self.table {
                Some(table) => self.rows().table_scores(table, own.clone()),
                None => scores,
            };
            for (node, score) in own.zip(scores) {
                if self.episode.is_candidate(node) {
                    all_finite &= score.is_finite();
                    top.offer(score, node);
                }
            }
        }
        match all_finite {
            true => Ok(()),
            false => Err(Error::unbounded_scores()),
        }
    }

    /// Takes the picks that are candidates still when their turn comes.
    fn apply(&mut self, picks: &[u32], _: &mut Ranks<'_>) -> Result<(), Error> {
        for &pick in picks {
            if self.episode.is_candidate(pick) {
                self.episode.pick(pick)?;
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.update(self.episode.state().residual());
        }
        self.n_candidates = self.count_candidates();
        Ok(())
    }

    fn finish(self: Box<Self>, n_steps: u64) -> Result<Played, Error> {
        let nodes = self.episode.picks().to_vec();
        Ok(Played { nodes, n_steps })
    }
}

/// The scores of the own nodes of each episode that the model evaluates, and none of the others. Paths differ where some graphs have
/// weights, so each path has a batch.
pub(crate) fn model_scores(
    solver: &Solver<'_>,
    device: &Device,
    all: &[Option<&StateEpisode<'_>>],
    ranks: &mut Ranks<'_>,
) -> Result<Vec<Vec<f32>>, Error> {
    let mut scores = vec![Vec::new(); all.len()];
    for path in [Path::General, Path::FreeFirstLayer, Path::Collapsed] {
        let of_path =
            |state: &&StateEpisode<'_>| state.shard.is_some() && state.instance.path == path;
        let states = all.iter().enumerate();
        let chosen = states.filter_map(|(i, state)| Some((i, state.filter(of_path)?)));
        let (at, states): (Vec<usize>, Vec<&StateEpisode<'_>>) = chosen.unzip();
        if states.is_empty() {
            continue;
        }
        let batch = state_batch(&states, ranks.rank())?;
        let mut ctx =
            Eager::new(device, ranks.comm, &solver.policy.params).with_deadline(ranks.timeout);
        let model = &solver.policy.model;
        let embed = model.embedding.embed(&mut ctx, &batch, path)?;
        let values = model.head.node_values(&mut ctx, embed, &batch.layout)?;
        let values = ctx.values(values)?;
        for (group, i) in at.into_iter().enumerate() {
            scores[i] = values[batch.layout.group_rows(group)].to_vec();
        }
    }
    Ok(scores)
}

/// One state of each episode.
fn state_batch(states: &[&StateEpisode<'_>], rank: u32) -> Result<StateBatch, Error> {
    let group = |state: &&StateEpisode<'_>| Group {
        partition: state.instance.partition.clone(),
        n_states: 1,
    };
    let layout = Arc::new(BatchLayout::new(states.iter().map(group).collect(), rank));
    let mut batch = without_rows(&layout);
    let (mut shards, mut keep, mut scale) = (Vec::new(), Vec::new(), Vec::new());
    for state in states {
        let rows = state.rows();
        for node in state.instance.partition.range(rank) {
            rows.push(node, &mut batch);
        }
        shards.extend(state.shard.clone());
        keep.push(rows.keep().collect());
        scale.push(rows.scale);
    }
    let propagation = Propagation::new(Arc::clone(&layout), shards, keep, scale)?;
    batch.propagation = Some(Arc::new(propagation));
    Ok(batch)
}
