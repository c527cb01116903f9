//! A model under training: its network, and the parameters that validation has found best.

use shardgraph_job::Checkpoint;

use super::folder::{BestEpoch, Run, Saved};
use super::report::ValidScores;
use super::state::{Params, Part, State, gather, set_flat};
use crate::Error;
use crate::model::comm::RankComm;
use crate::model::network::Network;

/// The start of a run: from the beginning, or from a state and the best epoch until then.
pub(super) struct Start<'a> {
    pub(super) state: Option<&'a State>,
    pub(super) best: Option<BestEpoch>,
}

/// One rank's network, and its parameters after the best epoch.
pub(super) struct Model<'a> {
    pub(super) network: Network<'a>,
    best: Option<Best>,
    pub(super) epochs_done: u32,
}

struct Best {
    epoch: BestEpoch,
    params: Params,
}

impl<'a> Model<'a> {
    /// A model before its first step.
    pub(super) fn new(network: Network<'a>) -> Model<'a> {
        Model {
            network,
            best: None,
            epochs_done: 0,
        }
    }

    /// Takes over a state; the epochs that it has done.
    pub(super) fn load(
        &mut self,
        start: Start<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<u32, Error> {
        let Some(state) = start.state else {
            return Ok(0);
        };
        self.epochs_done = state.load(&mut self.network, ranks)?;
        let params = state.best(&mut self.network, ranks)?;
        let best = start.best.zip(params);
        self.best = best.map(|(epoch, params)| Best { epoch, params });
        Ok(self.epochs_done)
    }

    /// True where scores are the best.
    pub(super) fn is_best(&self, scores: &ValidScores) -> bool {
        let is_better = |best: &Best| scores.is_better_than(&best.epoch.scores);
        self.best.as_ref().is_none_or(is_better)
    }

    /// Keeps the parameters of now where their scores are the best.
    pub(super) fn keep_best(&mut self, scores: ValidScores) {
        if self.is_best(&scores) {
            self.best = None;
            let params = Params::of(&mut self.network);
            self.put_best(scores, params);
        }
    }

    /// Takes parameters of now for the best ones.
    pub(super) fn put_best(&mut self, scores: ValidScores, params: Params) {
        let epoch = self.epochs_done;
        let epoch = BestEpoch { epoch, scores };
        self.best = Some(Best { epoch, params });
    }

    /// Puts other numbers in the place of the best parameters, and of those of now.
    pub(super) fn set_best(&mut self, params: &[f32]) {
        set_flat(&mut self.network, Part::Params, params);
        if let Some(best) = &mut self.best {
            best.params = Params::of(&mut self.network);
        }
    }

    /// True where `patience` epochs brought nothing better.
    pub(super) fn has_waited(&self, patience: u32) -> bool {
        let waited = |best: &Best| self.epochs_done - best.epoch.epoch >= patience;
        self.best.as_ref().is_some_and(waited)
    }

    /// The checkpoint of a run on rank 0; all ranks give their part.
    pub(super) fn checkpoint(
        &mut self,
        run: Run,
        outputs: &[u32],
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error> {
        let network = &mut self.network;
        let mut state = gather(network, self.epochs_done, ranks)?;
        if let Some(Best { params, .. }) = &self.best {
            params.gather_into(network, state.as_mut(), ranks)?;
        }
        let run = run.with_best(self.best.as_ref().map(|best| best.epoch));
        state
            .map(|state| run.checkpoint(&state, outputs))
            .transpose()
    }

    /// Gives the network its best parameters, where they are kept; the epoch that they are of.
    pub(super) fn take_best(&mut self) -> u32 {
        match self.best.take() {
            None => self.epochs_done,
            Some(Best { epoch, params }) => {
                params.restore(&mut self.network);
                epoch.epoch
            }
        }
    }

    /// The model with the parameters of now, which are those after `epoch`, on rank 0; all ranks
    /// give their part.
    pub(super) fn saved(
        &mut self,
        run: Run,
        outputs: &[u32],
        epoch: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Saved>, Error> {
        let state = gather(&mut self.network, epoch, ranks)?;
        Ok(state.map(|state| Saved::of_run(run, state, outputs)))
    }
}
