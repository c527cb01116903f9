//! Parallel inference (OpenGraphGym-MG, algorithm 4) as one rank runs it.

use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_layers::ScoreTable;

use crate::exchange::Exchange;
use crate::model_scorer::ModelScorer;
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
        false => Err(unbounded_scores()),
    }
}

pub(crate) fn unbounded_scores() -> Error {
    Error::no_answer(
        "the scores leave the range of numbers: the weights of this policy, or of the edges, are too large",
    )
}
