//! Scores that are kept from pick to pick, for states that follow their residual graph.

use shardgraph_device::DeviceKind;
use shardgraph_graph::Graph;
use shardgraph_layers::{Path, RowProgram, ScoreTable};

use crate::problem::{Episode, MINIMUM_VERTEX_COVER, ResidualGraph};
use crate::residual::{LayerScores, PresentScores};
use crate::select::TopD;
use crate::solver::{Instance, Solver};
use crate::{AdjacencyScale, Error};

/// Scores that a pick changes around itself alone: those of a state that [follows its residual
/// graph](crate::problem::ProblemState::follows_residual), and of covers, whose candidates are the
/// present nodes with an edge.
pub(crate) enum KeptScores {
    /// In closed form.
    Table(Box<PresentScores>),
    /// Of more layers, on one rank.
    Layers(Box<LayerScores>),
}

impl KeptScores {
    /// The scores of an episode before its first pick, where they can be kept. Those of three or more layers are kept where their kinds
    /// are the default ones, the graph is sparse, and nothing is exchanged.
    pub(crate) fn new(
        solver: &Solver<'_>,
        instance: &Instance<'_>,
        episode: &Episode,
        rank: u32,
    ) -> Result<Option<Self>, Error> {
        let (state, options) = (episode.state(), solver.options);
        let graph = state.residual().graph();
        let has_table = solver.table_of(instance).is_some();
        let needs_edge = solver.problem.name == MINIMUM_VERTEX_COVER.name;
        let can_keep = state.follows_residual() || needs_edge && !has_table;
        if instance.path != Path::Collapsed || !can_keep {
            return Ok(None);
        }
        if has_table {
            let own = instance.partition.range(rank);
            return Ok(Some(Self::Table(Box::new(PresentScores::new(graph, own)))));
        }
        let is_alone = options.n_ranks == 1 && options.communication.is_none();
        if !is_alone || options.device.kind() != DeviceKind::Host || !is_sparse(graph) {
            return Ok(None);
        }
        let program = RowProgram::new(&solver.policy.model, &solver.policy.params)?;
        let scores = |program| Box::new(LayerScores::new(graph, program, needs_edge));
        Ok(program.map(|program| Self::Layers(scores(program))))
    }

    /// The number of candidates after the last update.
    pub(crate) fn n_candidates(&self, residual: &ResidualGraph) -> u32 {
        match self {
            Self::Table(_) => residual.n_present(),
            Self::Layers(scores) => scores.n_candidates(residual),
        }
    }

    /// Counts what was removed since the last call.
    pub(crate) fn update(&mut self, residual: &ResidualGraph) {
        match self {
            Self::Table(scores) => scores.update(residual),
            Self::Layers(scores) => scores.update(residual),
        }
    }

    /// Offers the best nodes; false where a score is no number. The closed form needs its table.
    pub(crate) fn offer(
        &mut self,
        residual: &ResidualGraph,
        table: Option<&ScoreTable>,
        scale: AdjacencyScale,
        top: &mut TopD,
    ) -> Result<bool, Error> {
        match self {
            Self::Layers(scores) => scores.offer(residual, scale, top),
            Self::Table(scores) => {
                let none = || Error::internal("scores in closed form without a table");
                scores.offer(residual, table.ok_or_else(none)?, scale, top);
                Ok(true)
            }
        }
    }
}

/// Whether a pick leaves most rows of three or more layers as they are: those two steps away are fewer than all. Else a pass over all rows has the faster
/// product.
pub(crate) fn is_sparse(graph: &Graph) -> bool {
    let n_ends = 2 * u128::from(graph.n_edges());
    let n_nodes = u128::from(graph.n_nodes());
    n_ends * n_ends <= n_nodes * n_nodes * n_nodes
}
