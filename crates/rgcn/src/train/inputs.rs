//! The inputs of a run that learns classes, and the loop of its epochs.

use shardgraph_device::Timer;
use shardgraph_job::{CheckpointSchedule, LoopOptions, RunRecorder};

use super::options::RunOptions;
use super::report::{EpochReport, RankTime};
use super::run::{self, EpochTrainer};
use crate::model::comm::RankComm;
use crate::{Config, Error, Labels, RelationalGraph};

/// The graph, labels, settings and options of a run that learns classes.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) graph: &'a RelationalGraph,
    pub(super) labels: &'a Labels,
    pub(super) config: &'a Config,
    pub(super) options: &'a RunOptions,
}

/// The epochs of a rank in a call, and the time of each rank in them.
pub(super) struct Epochs {
    pub(super) reports: Vec<EpochReport>,
    pub(super) times: Vec<RankTime>,
}

impl Inputs<'_> {
    /// Runs the epochs of a trainer from `begin` on.
    pub(super) fn run_epochs(
        self,
        trainer: &mut impl EpochTrainer<Report = EpochReport>,
        begin: u32,
        recorder: Option<RunRecorder>,
        ranks: &mut RankComm<'_>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Epochs, Error> {
        let options = self.options;
        let every = Some(options.checkpoint_epochs.into());
        let schedule = CheckpointSchedule::new(every, options.checkpoint_s);
        let steps = LoopOptions {
            until: self.config.epochs.into(),
            schedule: options.folder.is_some().then_some(schedule),
        };
        let timer = Timer::wall();
        ranks.exchange_s = 0.0;
        let reports = run::run(trainer, begin, steps, recorder, ranks, progress)?;
        let own = [timer.elapsed_s().to_bits(), ranks.exchange_s.to_bits()];
        let of_rank = |words: &[u64]| RankTime {
            epochs_seconds: f64::from_bits(words[0]),
            exchange_seconds: f64::from_bits(words[1]),
        };
        let all = ranks.gather(&own)?;
        let times = all.chunks_exact(own.len()).map(of_rank).collect();
        Ok(Epochs { reports, times })
    }
}
