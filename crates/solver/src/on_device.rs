//! An episode with graph, state and loop on a device that is not the host, by the closed form or by the model.

#[cfg(test)]
pub(crate) mod tests;

use std::num::NonZeroU32;

use shardgraph_collectives::Comm;
use shardgraph_device::Graph as Launches;
use shardgraph_layers::RowShard;
use shardgraph_layers::autodiff::DeviceComm;
use shardgraph_ops::{Adjacency as Block, ResidentAdjacency};
use shardgraph_shard::Adjacency;

use crate::evaluation::{Evaluation, Played};
use crate::kernels::cover;
use crate::model_scorer::ModelScorer;
use crate::residual::Ranks;
use crate::select::TopD;
use crate::share::Share;
use crate::solver::Solver;
use crate::{AdjacencyScale, Error, Select};

/// Steps between two looks at the state, at most: each step behind the end is an evaluation for nothing.
const MAX_STEPS_AT_ONCE: u32 = 8;

/// An episode that the host only now and then asks how far it is.
///
/// The picks are those of the loop on the host with the same scores: the order of scores and nodes is total, and what is
/// removed is counted in integers. The closed form's scores are the host's: the same f32 operations in the same order.
pub(crate) struct DeviceEpisode<'e, 's> {
    scorer: Scorer<'e, 's>,
    progress: cover::Progress,
}

/// What scores the nodes.
enum Scorer<'e, 's> {
    ClosedForm(cover::Episode<'e>),
    Model {
        steps: Steps<'e, 's>,
        n_nodes: u32,
        n_launched: u32,
    },
}

/// The steps of the model's episode.
enum Steps<'e, 's> {
    /// One rank: a step is one launch.
    Recorded(Box<cover::ModelEpisode<'e>>, Launches),
    /// Several ranks, which exchange rows of the model, degrees and offers in each step.
    Shared(Box<cover::SharedEpisode<'e>>, &'e mut ModelScorer<'s>),
}

impl Steps<'_, '_> {
    fn launch(&mut self, comm: &mut Comm) -> Result<(), Error> {
        match self {
            Self::Recorded(_, step) => Ok(step.launch()?),
            Self::Shared(episode, model) => model.run_with(comm, |model| {
                episode.write_rows(model.rows()?)?;
                let (scores, mut comm) = model.scores_on_ranks()?;
                episode.pick(scores, &mut comm)
            }),
        }
    }

    fn look(&self) -> Result<cover::Look, Error> {
        match self {
            Self::Recorded(episode, _) => Ok(episode.look()?),
            Self::Shared(episode, _) => Ok(episode.look()?),
        }
    }

    fn cover(&self) -> Result<Vec<u32>, Error> {
        match self {
            Self::Recorded(episode, _) => Ok(episode.cover()?),
            Self::Shared(episode, _) => Ok(episode.cover()?),
        }
    }
}

impl<'e, 's> DeviceEpisode<'e, 's> {
    /// The episode on one rank by the closed form, from the candidate in place `start`, the best first.
    pub(crate) fn closed_form(
        solver: &Solver<'_>,
        share: &'e mut Share<'_>,
        start: u32,
    ) -> Result<Self, Error> {
        let Some(table) = solver.table_of(share.instance) else {
            return Err(Error::internal("an episode without a closed form"));
        };
        let (device, options) = (&share.device, solver.options);
        let graph = match &mut share.graph {
            Some(graph) => graph,
            none => {
                let block = block(share.instance.adjacency);
                none.insert(ResidentAdjacency::upload(device, block)?)
            }
        };
        let (starts, alpha, beta) = table.pieces();
        let rules = cover::Rules {
            score: cover::ScorePieces {
                starts,
                alpha,
                beta,
            },
            scale: scale_on_device(solver.policy.config.adjacency_scale),
            select: select_on_device(options.select),
            keep_isolated: options.keep_isolated,
        };
        let mut episode = cover::Episode::start(device, graph, rules)?;
        episode.pass_over(start)?;
        Ok(Self {
            progress: episode.progress(),
            scorer: Scorer::ClosedForm(episode),
        })
    }

    /// The episode by the model, on any number of ranks, from the candidate in place `start`, the best first.
    pub(crate) fn of_model(
        solver: &Solver<'_>,
        share: &'e mut Share<'s>,
        start: u32,
        ranks: &mut Ranks<'_>,
    ) -> Result<Self, Error> {
        let graph = (share.shard.as_ref()).and_then(RowShard::resident_adjacency);
        let (Some(graph), Some(model)) = (graph, &mut share.model) else {
            return Err(Error::internal(
                "the graph of an episode is not on its device",
            ));
        };
        let rules = cover::PickRules {
            scale: scale_on_device(solver.policy.config.adjacency_scale),
            select: select_on_device(solver.options.select),
            keep_isolated: solver.options.keep_isolated,
        };
        let steps = match ranks.size() {
            1 => {
                let mut episode = cover::ModelEpisode::start(&share.device, graph, rules)?;
                if start > 0 {
                    episode.pass_over(start)?;
                    model.begin_states()?;
                    model.run_with(ranks.comm, |model| {
                        episode.write_rows(model.rows()?)?;
                        Ok(episode.pick_first(model.scores()?)?)
                    })?;
                }
                let step = model.capture(ranks.comm, |model| {
                    episode.write_rows(model.rows()?)?;
                    Ok(episode.pick(model.scores()?)?)
                })?;
                Steps::Recorded(Box::new(episode), step)
            }
            _ => {
                model.begin_states()?;
                let partition = &share.instance.partition;
                let mut comm = DeviceComm::new(&share.device, ranks.comm, ranks.timeout);
                let mut episode = cover::SharedEpisode::start(graph, partition, rules, &mut comm)?;
                if start > 0 {
                    episode.pass_over(start)?;
                    model.run_with(ranks.comm, |model| {
                        episode.write_rows(model.rows()?)?;
                        let (scores, mut comm) = model.scores_on_ranks()?;
                        episode.pick_first(scores, &mut comm)
                    })?;
                }
                Steps::Shared(Box::new(episode), model)
            }
        };
        Ok(Self {
            progress: progress_of(steps.look()?)?,
            scorer: Scorer::Model {
                steps,
                n_nodes: share.instance.adjacency.n_nodes(),
                n_launched: 0,
            },
        })
    }
}

impl Evaluation for DeviceEpisode<'_, '_> {
    fn n_candidates(&self) -> u32 {
        self.progress.n_candidates
    }

    fn n_picks(&self) -> usize {
        self.progress.n_cover as usize
    }

    /// A step of several rounds may have no candidates left.
    fn is_done(&self) -> bool {
        self.progress.is_done
    }

    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<bool, Error> {
        self.progress = match &mut self.scorer {
            Scorer::ClosedForm(episode) => episode.advance()?,
            Scorer::Model {
                steps,
                n_nodes,
                n_launched,
            } => {
                // Each picks one, or passes over some.
                if *n_launched / 2 > *n_nodes {
                    return Err(Error::internal("an episode has more steps than nodes"));
                }
                let at_once = (*n_nodes / 8).clamp(1, MAX_STEPS_AT_ONCE);
                for _ in 0..at_once {
                    steps.launch(ranks.comm)?;
                }
                *n_launched += at_once;
                progress_of(steps.look()?)?
            }
        };
        Ok(true)
    }

    fn offer(&mut self, _: Vec<f32>, _: &mut TopD, _: &mut Ranks<'_>) -> Result<(), Error> {
        Err(picks_by_itself())
    }

    fn apply(&mut self, _: &[u32], _: &mut Ranks<'_>) -> Result<(), Error> {
        Err(picks_by_itself())
    }

    fn finish(self: Box<Self>, _: u64) -> Result<Played, Error> {
        let nodes = match &self.scorer {
            Scorer::ClosedForm(episode) => episode.cover()?,
            Scorer::Model { steps, .. } => steps.cover()?,
        };
        Ok(Played {
            nodes,
            n_steps: self.progress.n_steps.into(),
        })
    }
}

/// How far an episode is, unless a score was no number.
fn progress_of(look: cover::Look) -> Result<cover::Progress, Error> {
    match look.is_unbounded {
        true => Err(Error::unbounded_scores()),
        false => Ok(look.progress),
    }
}

fn picks_by_itself() -> Error {
    Error::internal("an episode on a device picks by itself")
}

fn scale_on_device(scale: AdjacencyScale) -> cover::Scale {
    match scale {
        AdjacencyScale::One => cover::Scale::One,
        AdjacencyScale::LargestDegree => cover::Scale::LargestDegree,
    }
}

fn select_on_device(select: Select) -> cover::Select {
    match select {
        Select::Adaptive => cover::Select::Adaptive,
        // A selection of no node is refused before any episode begins.
        Select::Fixed(d) => cover::Select::Fixed(NonZeroU32::new(d).unwrap_or(NonZeroU32::MIN)),
    }
}

fn block(adjacency: &Adjacency) -> Block<'_> {
    match adjacency {
        Adjacency::Csr(graph) => Block::Csr {
            row_ptr: graph.offsets(),
            columns: graph.columns(),
            values: None,
        },
        Adjacency::Bits(bits) => Block::Bits {
            words: bits.words(),
            words_per_row: bits.words_per_row(),
        },
    }
}
