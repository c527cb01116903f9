//! A vertex cover's episode on one rank: residual degrees by increments, scores in closed form or of the recorded model.

use std::ops::Range;

use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_layers::ScoreTable;
use shardgraph_shard::Adjacency;

use crate::evaluation::{Evaluation, Played};
use crate::model_scorer::ModelScorer;
use crate::residual::{
    BitsResidual, Counts, ListsResidual, NeighborLists, Ranks, Residual, are_finite,
};
use crate::select::TopD;
use crate::share::Share;
use crate::solver::Solver;
use crate::{AdjacencyScale, Error};

/// Nodes that are removed together, at most: ranks exchange their neighbours.
const FORCED_AT_ONCE: usize = 256;

/// An episode whose state is a residual graph.
pub(crate) struct ResidualEpisode<'e, 's> {
    residual: Box<dyn Residual + 'e>,
    scorer: Scorer<'e, 's>,
    scale: AdjacencyScale,
    keep_isolated: bool,
    /// Rules that put nodes into the cover before the first step and after each, where they are wanted.
    inside: Option<Peeling>,
    /// The picks so far, in their order.
    cover: Vec<u32>,
}

/// What the nodes of a residual graph are scored by.
enum Scorer<'e, 's> {
    /// The closed form of the two-layer policy, whose scores are numbers all.
    Table(&'e ScoreTable),
    /// The model itself, on any path.
    Model(&'e mut ModelScorer<'s>),
}

impl<'e, 's> ResidualEpisode<'e, 's> {
    /// The state before the first step.
    pub(crate) fn begin(
        solver: &'e Solver<'_>,
        share: &'e mut Share<'s>,
        inside: Option<Peeling>,
        ranks: &mut Ranks<'_>,
    ) -> Result<Self, Error> {
        let instance = share.instance;
        let (partition, counts) = (&instance.partition, Counts::of(instance.path));
        let residual: Box<dyn Residual + 'e> = match instance.adjacency {
            Adjacency::Csr(graph) => {
                let lists = NeighborLists::cut(graph, partition, share.rank);
                Box::new(ListsResidual::new(lists, partition, counts, ranks)?)
            }
            Adjacency::Bits(bits) => {
                let own = share.bits.as_ref().unwrap_or(bits);
                Box::new(BitsResidual::new(own, partition, counts, ranks)?)
            }
        };
        let scorer = match (solver.table_of(instance), &mut share.model) {
            (Some(table), _) => Scorer::Table(table),
            (None, Some(model)) => {
                model.removed.fill(false);
                Scorer::Model(model)
            }
            (None, None) => return Err(Error::internal("a rank without a model")),
        };
        let mut episode = Self {
            residual,
            scorer,
            scale: solver.policy.config.adjacency_scale,
            keep_isolated: solver.options.keep_isolated,
            inside,
            cover: Vec::new(),
        };
        episode.settle(0, ranks)?;
        Ok(episode)
    }

    /// The scores of this rank's own nodes, with NaN for what is no candidate; none where a candidate's is no number.
    pub(crate) fn scores(
        &mut self,
        own: Range<u32>,
        ranks: &mut Ranks<'_>,
    ) -> Result<Option<Vec<f32>>, Error> {
        let scale = self.scale.of(self.residual.max_degree());
        let (first, mut values) = (own.start, vec![f32::NAN; own.len()]);
        let of_model = match &mut self.scorer {
            Scorer::Table(_) => Vec::new(),
            Scorer::Model(model) => model.scores(&*self.residual, scale, ranks)?,
        };
        self.residual.for_each_own(&mut |node, degree, d2| {
            let row = (node - first) as usize;
            values[row] = match &self.scorer {
                Scorer::Table(table) => {
                    table.score(degree as f32 * scale, d2 as f32 * (scale * scale))
                }
                Scorer::Model(_) => of_model[row],
            };
        });
        Ok(are_finite(&*self.residual, &values, first).then_some(values))
    }

    /// Removes what the rules put into the cover, and tells the model which nodes are gone since the cover had `before`; the
    /// closed form reads degrees alone. Every rank's rules see the same graph, so all remove the same.
    fn settle(&mut self, before: usize, ranks: &mut Ranks<'_>) -> Result<(), Error> {
        if let Some(inside) = &mut self.inside {
            let forced = inside.settle(&Budget::unlimited());
            for some in forced.chunks(FORCED_AT_ONCE) {
                self.residual.remove(some, false, ranks, &mut self.cover)?;
            }
        }
        if let Scorer::Model(model) = &mut self.scorer {
            for &node in &self.cover[before..] {
                model.removed[node as usize] = true;
            }
        }
        Ok(())
    }
}

impl Evaluation for ResidualEpisode<'_, '_> {
    fn n_candidates(&self) -> u32 {
        self.residual.n_candidates()
    }

    fn n_picks(&self) -> usize {
        self.cover.len()
    }

    fn offer(&mut self, _: Vec<f32>, top: &mut TopD, ranks: &mut Ranks<'_>) -> Result<(), Error> {
        let scale = self.scale.of(self.residual.max_degree());
        match &mut self.scorer {
            Scorer::Table(table) => self.residual.offer(table, scale, top),
            Scorer::Model(model) => model.offer(&*self.residual, scale, top, ranks)?,
        }
        Ok(())
    }

    fn apply(&mut self, picks: &[u32], ranks: &mut Ranks<'_>) -> Result<(), Error> {
        let before = self.cover.len();
        self.residual
            .remove(picks, self.keep_isolated, ranks, &mut self.cover)?;
        if let Some(inside) = &mut self.inside {
            inside.take(&self.cover[before..]);
        }
        self.settle(before, ranks)
    }

    fn finish(self: Box<Self>, n_steps: u64) -> Result<Played, Error> {
        let nodes = self.cover;
        Ok(Played { nodes, n_steps })
    }
}
