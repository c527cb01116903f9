//! Parallel inference (OpenGraphGym-MG, algorithm 4) as one rank runs it.

use std::sync::Arc;

use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{Program, Recorder};
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, ScoreTable, StateBatch};
use shardgraph_shard::Partition;

use crate::exchange::Exchange;
use crate::residual::{Ranks, Residual};
use crate::select::TopD;
use crate::{Error, Select, SolveOptions, TrainedPolicy};

/// What one rank needs to score the nodes of a residual graph.
pub(crate) enum Scorer<'a> {
    /// The closed form of the two-layer policy, whose scores are numbers all.
    Table(ScoreTable),
    /// The model itself, on any path.
    Model(Box<ModelScorer<'a>>),
}

/// The model over one rank's rows.
pub(crate) struct ModelScorer<'a> {
    pub(crate) model: RankModel<'a>,
    /// Which nodes have been picked.
    pub(crate) removed: Vec<bool>,
    layout: Arc<BatchLayout>,
    /// One evaluation; its memory is taken before the first and serves all.
    program: Program,
}

/// The model, and what one rank evaluates it on.
pub(crate) struct RankModel<'a> {
    pub(crate) policy: &'a TrainedPolicy,
    pub(crate) device: Device,
    pub(crate) path: Path,
    pub(crate) shard: RowShard,
    pub(crate) partition: Partition,
    /// The graph, where its edges have weights.
    pub(crate) weighted: Option<&'a Graph>,
}

/// What the program gives.
const SCORES: &str = "scores";

/// The picks of a whole episode.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    /// Nodes in the order in which they entered the cover.
    pub(crate) cover: Vec<u32>,
    /// Policy evaluations.
    pub(crate) n_steps: u64,
    /// What ranks exchanged for neighbour sums, where there were any.
    pub(crate) exchange: Option<Exchange>,
}

/// How an episode is run.
pub(crate) struct Rules<'a> {
    pub(crate) select: Select,
    pub(crate) keep_isolated: bool,
    pub(crate) n_nodes: u32,
    /// Rules that put nodes into the cover before the first step and after each, where they are wanted.
    pub(crate) inside: Option<Peeling>,
    /// What says whether the episode is cancelled.
    pub(crate) options: &'a SolveOptions,
    /// Called after each step with the candidates left and the cover's size.
    pub(crate) progress: &'a mut dyn FnMut(u32, usize),
    /// The place of the first pick among the candidates, the best first.
    pub(crate) start: usize,
}

/// Runs an episode to its end: score, agree on the best, remove (algorithm 4, lines 3 to 12).
pub(crate) fn run_episode(
    residual: &mut dyn Residual,
    policy: &TrainedPolicy,
    scorer: &mut Scorer<'_>,
    rules: &mut Rules<'_>,
    ranks: &mut Ranks<'_>,
) -> Result<Episode, Error> {
    let mut episode = Episode::default();
    if let Some(inside) = &mut rules.inside {
        settle(inside, residual, &mut episode.cover, ranks)?;
        scorer.forget(&episode.cover);
    }
    while residual.n_candidates() > 0 {
        let n_candidates = residual.n_candidates();
        let n_passed = if episode.n_steps == 0 { rules.start } else { 0 };
        let n_picks = n_passed + rules.select.n_picks(n_candidates, rules.n_nodes);
        let scale = policy.config.adjacency_scale.of(residual.max_degree());
        let mut top = TopD::new(n_picks);
        match scorer {
            Scorer::Table(table) => residual.offer(table, scale, &mut top),
            Scorer::Model(model) => model.offer(residual, scale, &mut top, ranks)?,
        }
        let mut picks = top.agree(ranks)?;
        pass_over(&mut picks, n_passed);
        if picks.is_empty() {
            return Err(Error::internal("a step with candidates offered no node"));
        }
        let before = episode.cover.len();
        residual.remove(&picks, rules.keep_isolated, ranks, &mut episode.cover)?;
        if episode.cover.len() == before {
            return Err(Error::internal("a step with candidates picked no node"));
        }
        if let Some(inside) = &mut rules.inside {
            inside.take(&episode.cover[before..]);
            settle(inside, residual, &mut episode.cover, ranks)?;
        }
        scorer.forget(&episode.cover[before..]);
        episode.n_steps += 1;
        (rules.progress)(residual.n_candidates(), episode.cover.len());
        rules.options.check_cancelled()?;
    }
    Ok(episode)
}

/// Leaves out the best candidates, but for the last of all.
pub(crate) fn pass_over(picks: &mut Vec<u32>, n_passed: usize) {
    picks.drain(..n_passed.min(picks.len().saturating_sub(1)));
}

/// Nodes that are removed together, at most: ranks exchange their neighbours.
const FORCED_AT_ONCE: usize = 256;

/// Removes what the rules put into the cover. They see the same graph on every rank, so all ranks remove the same.
fn settle(
    inside: &mut Peeling,
    residual: &mut dyn Residual,
    cover: &mut Vec<u32>,
    ranks: &mut Ranks<'_>,
) -> Result<(), Error> {
    let forced = inside.settle(&Budget::unlimited());
    for some in forced.chunks(FORCED_AT_ONCE) {
        residual.remove(some, false, ranks, cover)?;
    }
    Ok(())
}

impl Scorer<'_> {
    /// Forgets what was picked.
    pub(crate) fn begin(&mut self) {
        if let Self::Model(model) = self {
            model.removed.fill(false);
        }
    }

    /// Tells the model which nodes are gone; the closed form reads degrees alone.
    fn forget(&mut self, gone: &[u32]) {
        if let Self::Model(model) = self {
            for &node in gone {
                model.removed[node as usize] = true;
            }
        }
    }
}

impl<'a> ModelScorer<'a> {
    /// Records one evaluation and takes its memory.
    pub(crate) fn new(model: RankModel<'a>, comm: &Comm, deadline: Timeout) -> Result<Self, Error> {
        let group = Group {
            partition: model.partition.clone(),
            n_states: 1,
        };
        let layout = Arc::new(BatchLayout::new(vec![group], comm.rank()));
        let (n_rows, n_nodes) = (layout.n_rows(), model.partition.n_rows() as usize);
        let batch = StateBatch {
            node: vec![0.0; n_rows],
            edge: vec![0.0; 2 * n_rows],
            neighbor_degree: vec![0.0; n_rows],
            propagation: Some(model.propagation(&layout, vec![1.0; n_nodes], 1.0)?),
            layout: Arc::clone(&layout),
        };
        let recorded = model.record(&batch, (comm.rank(), comm.size()))?;
        let program = recorded.plan().load(&model.device)?.with_deadline(deadline);
        Ok(Self {
            model,
            removed: vec![false; n_nodes],
            layout,
            program,
        })
    }

    fn offer(
        &mut self,
        residual: &dyn Residual,
        scale: f32,
        top: &mut TopD,
        ranks: &mut Ranks<'_>,
    ) -> Result<(), Error> {
        let scores = self.scores(residual, scale, ranks)?;
        let first = self.model.partition.range(ranks.comm.rank()).start;
        // Told to the others when they meet: a rank's own reason ends them all.
        check_finite(residual, &scores, first)?;
        residual.for_each_own(&mut |node, _, _| top.offer(scores[(node - first) as usize], node));
        Ok(())
    }

    /// The node scores of all own rows, without the state's constant.
    pub(crate) fn scores(
        &mut self,
        residual: &dyn Residual,
        scale: f32,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let batch = self.state(residual, scale)?;
        let world = (ranks.comm.rank(), ranks.comm.size());
        self.program.refill(&self.model.record(&batch, world)?)?;
        self.program.run(ranks.comm, &self.model.policy.params)?;
        let scores = self.program.read(SCORES)?;
        debug_assert_eq!(scores.len(), batch.layout.n_rows());
        Ok(scores)
    }

    fn state(&self, residual: &dyn Residual, scale: f32) -> Result<StateBatch, Error> {
        let own = self.model.partition.range(self.layout.rank());
        let mut edge = vec![0.0; 2 * own.len()];
        let mut neighbor_degree = vec![0.0; own.len()];
        residual.for_each_own(&mut |node, degree, d2| {
            let row = (node - own.start) as usize;
            edge[2 * row] = degree as f32 * scale;
            neighbor_degree[row] = d2 as f32 * (scale * scale);
        });
        if let Some(graph) = self.model.weighted {
            self.sum_weights(graph, own.start, scale, &mut edge);
        }
        let node = own.map(|v| f32::from(u8::from(self.removed[v as usize])));
        let keep = self.removed.iter().map(|&gone| f32::from(u8::from(!gone)));
        let propagation = self
            .model
            .propagation(&self.layout, keep.collect(), scale)?;
        Ok(StateBatch {
            layout: Arc::clone(&self.layout),
            node: node.collect(),
            edge,
            neighbor_degree,
            propagation: Some(propagation),
        })
    }

    /// Weights have no incremental form: the sums of positive and negative weights to residual neighbours.
    fn sum_weights(&self, graph: &Graph, first: u32, scale: f32, edge: &mut [f32]) {
        for (i, sums) in edge.chunks_exact_mut(2).enumerate() {
            let node = first + i as u32;
            sums.fill(0.0);
            if self.removed[node as usize] {
                continue;
            }
            let weights = graph.weights_of(node).unwrap_or(&[]);
            for (&u, &weight) in graph.neighbors(node).iter().zip(weights) {
                if !self.removed[u as usize] {
                    let weight = weight * scale;
                    sums[usize::from(weight < 0.0)] += weight.abs();
                }
            }
        }
    }
}

impl<'a> RankModel<'a> {
    /// One evaluation as the rank and the number of ranks `world`; nothing is computed.
    fn record(&self, batch: &StateBatch, world: (u32, u32)) -> Result<Recorder<'a>, Error> {
        let mut recorder = Recorder::new(&self.policy.params, world.0, world.1);
        let model = &self.policy.model;
        let embed = model.embedding.embed(&mut recorder, batch, self.path)?;
        let scores = model
            .head
            .node_values(&mut recorder, embed, &batch.layout)?;
        recorder.output(SCORES, scores);
        Ok(recorder)
    }

    fn propagation(
        &self,
        layout: &Arc<BatchLayout>,
        keep: Vec<f32>,
        scale: f32,
    ) -> Result<Arc<Propagation>, Error> {
        let shards = vec![self.shard.clone()];
        let sums = Propagation::new(Arc::clone(layout), shards, vec![keep], vec![scale])?;
        Ok(Arc::new(sums))
    }
}

/// Refuses scores of candidates that are no numbers; `values` starts at node `first`.
pub(crate) fn check_finite(
    residual: &dyn Residual,
    values: &[f32],
    first: u32,
) -> Result<(), Error> {
    let mut all_finite = true;
    residual.for_each_own(&mut |node, _, _| {
        all_finite &= values[(node - first) as usize].is_finite();
    });
    match all_finite {
        true => Ok(()),
        false => Err(Error::no_answer(
            "the scores leave the range of numbers: the weights of this policy, or of the edges, are too large",
        )),
    }
}
