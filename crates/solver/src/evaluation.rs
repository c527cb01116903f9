//! What the solver's loop asks of an episode, whose implementors are the ways of evaluating.

use crate::Error;
use crate::residual::Ranks;
use crate::select::TopD;
use crate::state_episode::StateEpisode;

/// An episode on one rank: which nodes may be picked, how good they are, and what a pick changes.
pub(crate) trait Evaluation {
    /// Nodes that may be picked, on all ranks.
    fn n_candidates(&self) -> u32;

    /// Picks so far.
    fn n_picks(&self) -> usize;

    fn is_done(&self) -> bool {
        self.n_candidates() == 0
    }

    /// Makes some steps by itself, where a device has the loop; false where the caller has it.
    fn advance(&mut self, _: &mut Ranks<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    /// The state, where several graphs may be evaluated in one batch.
    fn state(&self) -> Option<&StateEpisode<'_>> {
        None
    }

    /// Offers the best own candidates; `scores` has those of a batch.
    fn offer(
        &mut self,
        scores: Vec<f32>,
        top: &mut TopD,
        ranks: &mut Ranks<'_>,
    ) -> Result<(), Error>;

    /// Applies what all ranks have agreed on, the best first.
    fn apply(&mut self, picks: &[u32], ranks: &mut Ranks<'_>) -> Result<(), Error>;

    /// The finished episode, which took so many steps of the caller's loop.
    fn finish(self: Box<Self>, n_steps: u64) -> Result<Played, Error>;
}

/// A graph's episode in the loop.
pub(crate) struct Running<'e> {
    pub(crate) evaluation: Box<dyn Evaluation + 'e>,
    pub(crate) n_nodes: u32,
    pub(crate) n_steps: u64,
}

/// A finished episode.
pub(crate) struct Played {
    pub(crate) nodes: Vec<u32>,
    pub(crate) n_steps: u64,
}
