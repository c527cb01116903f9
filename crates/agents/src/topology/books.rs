//! The books that a learner keeps: steps and episodes of all actors, metrics, and when a checkpoint is due.

use std::path::Path;

use shardgraph_runs::{Checkpoint, Folder, tags};

use crate::config::AgentConfig;
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::run::{Log, TrainProgress};
use crate::topology::{PolicyLag, TopologyOutcome};

/// What the weights of a finished run are called in its folder.
const WEIGHTS: &str = "weights.safetensors";
const MEAN_LAG: &str = "charts/policy_lag";
const MAX_LAG: &str = "charts/max_policy_lag";
const LOST: &str = "charts/lost_ranks";

/// See the head of this file.
pub(crate) struct Books {
    pub(crate) config: AgentConfig,
    pub(crate) n_steps: u64,
    /// Their returns; each counts as an episode of one step.
    pub(crate) episodes: EpisodeStatistics,
    stop_at: u64,
    /// Steps, episodes and updates before this call.
    begun_at: (u64, u64, u64),
    lag: PolicyLag,
    lost: Vec<String>,
    log: Option<Log>,
}

impl Books {
    /// Of a run that begins, or goes on after `n_steps` and `n_updates`.
    pub(crate) fn open(
        config: AgentConfig,
        (n_steps, n_updates): (u64, u64),
        episodes: EpisodeStatistics,
        (folder, stop_at): (Option<Folder>, Option<u64>),
    ) -> Result<Books, Error> {
        let stop_at = stop_at.unwrap_or(config.steps);
        if stop_at < n_steps.min(config.steps) {
            return Err(Error::input(format!(
                "the run is at step {n_steps} already: give at least that many steps, not {stop_at}"
            )));
        }
        Ok(Books {
            stop_at,
            begun_at: (n_steps, episodes.n_episodes(), n_updates),
            config,
            n_steps,
            episodes,
            lag: PolicyLag::default(),
            lost: Vec::new(),
            log: folder.map(Log::open).transpose()?,
        })
    }

    /// Whether there are steps enough.
    pub(crate) fn is_full(&self) -> bool {
        self.n_steps >= self.stop_at
    }

    /// Counts what an actor did by weights that are `lag` updates old; true when a checkpoint is due.
    pub(crate) fn count(
        &mut self,
        n_steps: u64,
        episodes: &[Episode],
        lag: u64,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<bool, Error> {
        let before = self.n_steps;
        self.n_steps += n_steps;
        self.lag.record(lag);
        if let Some(log) = &mut self.log {
            log.count(n_steps);
        }
        for episode in episodes {
            self.episodes.record(0, episode.episodic_return, true);
            if let Some(log) = &mut self.log {
                log.line(
                    self.n_steps,
                    &[
                        (tags::EPISODIC_RETURN, episode.episodic_return),
                        (tags::EPISODIC_LENGTH, episode.length as f32),
                    ],
                )?;
            }
        }
        progress(&TrainProgress {
            step: self.n_steps,
            stop_at: self.stop_at,
            mean_return: self.episodes.mean_return(),
        });
        let every = self.config.checkpoint_steps;
        Ok(self.n_steps / every > before / every && !self.is_full())
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
        log.line(self.n_steps, &all)
    }

    /// Writes a checkpoint where there is a folder.
    pub(crate) fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        match &self.log {
            Some(log) => log.write_checkpoint(checkpoint),
            None => Ok(()),
        }
    }

    /// Writes the last checkpoint and the weights, and tells what the run was like.
    pub(crate) fn finish(
        self,
        checkpoint: &Checkpoint,
        (n_updates, weights): (u64, &[f32]),
        export: impl Fn(&Path) -> Result<(), Error>,
    ) -> Result<TopologyOutcome, Error> {
        self.write_checkpoint(checkpoint)?;
        if let Some(log) = &self.log {
            export(&log.path().join(WEIGHTS))?;
        }
        Ok(TopologyOutcome {
            n_steps: self.n_steps - self.begun_at.0,
            n_episodes: self.episodes.n_episodes() - self.begun_at.1,
            n_updates: n_updates - self.begun_at.2,
            mean_return: self.episodes.mean_return(),
            config: self.config,
            weights: weights.to_vec(),
            lag: self.lag,
            lost: self.lost,
            n_inserted: 0,
            n_sampled: 0,
            n_stale: 0,
        })
    }
}
