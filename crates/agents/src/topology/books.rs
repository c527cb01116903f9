//! The books that a learner keeps: steps and episodes of all actors, metrics, and when a checkpoint is due.

use shardgraph_autodiff::Params;
use shardgraph_runs::{Checkpoint, Folder, Tensors, tags};

use crate::checkpoint::{self, NoMore, RunState};
use crate::config::AgentConfig;
use crate::episodes::Episode;
use crate::error::Error;
use crate::run::{Log, RunOptions, Start, TrainProgress, WEIGHTS};
use crate::topology::{PolicyLag, TopologyOutcome};
use crate::weights;

const MEAN_LAG: &str = "charts/policy_lag";
const MAX_LAG: &str = "charts/max_policy_lag";
const LOST: &str = "charts/lost_ranks";

/// See the head of this file.
pub(crate) struct Books {
    /// Where the run stands, but for its updates. Returns are of all actors; each counts as an episode of one step.
    run: RunState,
    stop_at: u64,
    /// Steps, episodes and updates before this call.
    begun_at: (u64, u64, u64),
    lag: PolicyLag,
    lost: Vec<String>,
    log: Option<Log>,
}

impl Books {
    /// Of a run that begins, or goes on where `run` stands.
    pub(crate) fn open(
        run: RunState,
        (folder, stop_at): (Option<Folder>, Option<u64>),
    ) -> Result<Books, Error> {
        let stop_at = stop_at.unwrap_or(run.config.steps);
        let n_steps = run.n_steps;
        // Without a word on steps, a run that went a little beyond its last one is just finished.
        if stop_at < n_steps.min(run.config.steps) {
            return Err(Error::input(format!(
                "the run is at step {n_steps} already: give at least that many steps, not {stop_at}"
            )));
        }
        Ok(Books {
            stop_at,
            begun_at: (n_steps, run.episodes.n_episodes(), run.n_updates),
            run,
            lag: PolicyLag::default(),
            lost: Vec::new(),
            log: folder.map(Log::open).transpose()?,
        })
    }

    /// The books of a learner with actors on other ranks. Where the run goes on, `restore` takes over its updates so far and the tensors of
    /// its checkpoint.
    pub(crate) fn of_learner(
        start: &Start,
        options: &RunOptions,
        restore: impl FnOnce(u64, &Tensors<'_>) -> Result<(), Error>,
    ) -> Result<Books, Error> {
        let device = &options.device;
        let (run, folder) = start.open(
            |config| Ok(RunState::first(config, 1, device)),
            |newest| {
                let (mut run, NoMore {}) = RunState::of(newest, device)?;
                run.episodes = run.episodes.of_environments(1)?;
                checkpoint::restore(newest, |tensors| restore(run.n_updates, tensors))?;
                Ok(run)
            },
        )?;
        Books::open(run, (folder, options.stop_at))
    }

    /// The settings.
    pub(crate) fn config(&self) -> &AgentConfig {
        &self.run.config
    }

    /// Steps of all environments so far.
    pub(crate) fn n_steps(&self) -> u64 {
        self.run.n_steps
    }

    /// Where the run stands after so many updates.
    pub(crate) fn run_after(&self, n_updates: u64) -> RunState {
        RunState {
            n_updates,
            ..self.run.clone()
        }
    }

    /// Whether there are steps enough.
    pub(crate) fn is_full(&self) -> bool {
        self.run.n_steps >= self.stop_at
    }

    /// Counts what an actor did by weights that are `lag` updates old; true when a checkpoint is due.
    pub(crate) fn count(
        &mut self,
        n_steps: u64,
        episodes: &[Episode],
        lag: u64,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<bool, Error> {
        let before = self.run.n_steps;
        self.run.n_steps += n_steps;
        let now = self.run.n_steps;
        self.lag.record(lag);
        if let Some(log) = &mut self.log {
            log.count(n_steps);
        }
        for episode in episodes {
            self.run.episodes.record(0, episode.episodic_return, true);
            if let Some(log) = &mut self.log {
                log.line(
                    now,
                    &[
                        (tags::EPISODIC_RETURN, episode.episodic_return),
                        (tags::EPISODIC_LENGTH, episode.length as f32),
                    ],
                )?;
            }
        }
        progress(&TrainProgress {
            step: now,
            stop_at: self.stop_at,
            mean_return: self.run.episodes.mean_return(),
        });
        let every = self.run.config.checkpoint_steps;
        Ok(now / every > before / every && !self.is_full())
    }

    /// The ranks that are gone before their time, and why.
    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    /// Counts a rank that is gone before its time.
    pub(crate) fn lose(&mut self, which_and_why: String) {
        self.lost.push(which_and_why);
    }

    /// A line of losses, with what else is worth a curve.
    pub(crate) fn log(&mut self, scalars: &[(&str, f32)]) -> Result<(), Error> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let mut all = vec![
            (tags::SPS, log.steps_per_s()),
            (MEAN_LAG, self.lag.mean() as f32),
            (MAX_LAG, self.lag.max() as f32),
            (LOST, self.lost.len() as f32),
        ];
        all.extend_from_slice(scalars);
        log.line(self.run.n_steps, &all)
    }

    /// Writes a checkpoint where there is a folder.
    pub(crate) fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        match &self.log {
            Some(log) => log.write_checkpoint(checkpoint),
            None => Ok(()),
        }
    }

    /// Writes the last checkpoint and the trained parameters, and tells what the run was like.
    ///
    /// # Errors
    /// When a file cannot be written, or the last update has left parameters that are not finite.
    pub(crate) fn finish(
        self,
        checkpoint: &Checkpoint,
        (n_updates, params): (u64, &Params),
    ) -> Result<TopologyOutcome, Error> {
        weights::check_learned(params.trained())?;
        self.write_checkpoint(checkpoint)?;
        if let Some(log) = &self.log {
            weights::write(&log.path().join(WEIGHTS), params)?;
        }
        let RunState {
            config,
            n_steps,
            episodes,
            ..
        } = self.run;
        Ok(TopologyOutcome {
            n_steps: n_steps - self.begun_at.0,
            n_episodes: episodes.n_episodes() - self.begun_at.1,
            n_updates: n_updates - self.begun_at.2,
            mean_return: episodes.mean_return(),
            config,
            weights: params.trained().to_vec(),
            lag: self.lag,
            lost: self.lost,
            n_inserted: 0,
            n_sampled: 0,
            n_stale: 0,
        })
    }
}
