//! The books that a learner keeps: steps and episodes of all actors, metrics, and when a checkpoint is due.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use shardgraph_autodiff::Params;
use shardgraph_collectives::Comm;
use shardgraph_job::{Checkpoint, Ranks, RunRecorder, tags};
use shardgraph_storage::hash_numbers;

use super::lag::PolicyLag;
use super::learner_group::LearnerState;
use super::outcome::TopologyOutcome;
use crate::checkpoint::{self, RunState};
use crate::episodes::Episode;
use crate::error::Error;
use crate::run::{Log, Start, TrainProgress, WEIGHTS, last_step};
use crate::run_options::RunOptions;
use crate::weights;

const LOST: &str = "train/lost_ranks";

/// See the head of this file.
pub(crate) struct Books {
    /// Where the run stands, but for its updates. Each return counts as an episode of one step.
    run: RunState,
    stop_at: u64,
    /// Steps, episodes and updates before this call.
    begun_at: (u64, u64, u64),
    lag: PolicyLag,
    lost: Vec<String>,
    /// How many of these the caller has heard of.
    n_lost_told: usize,
    /// Where actors explore differently, the probability of random actions of the one that explores the least: returns are of its episodes.
    least_epsilon: Option<f32>,
    /// How many of each rank's number have come.
    n_arrivals: BTreeMap<u32, u64>,
    log: Option<Log>,
}

/// What an algorithm adds to `run.json` of a run in lock step in one process.
#[derive(Deserialize)]
struct OwnPart {
    lock_step: Option<IgnoredAny>,
    actor_episodes: Option<IgnoredAny>,
}

impl Books {
    /// Of a run that begins, or goes on where `run` stands.
    pub(crate) fn open(
        run: RunState,
        recorder: Option<RunRecorder>,
        stop_at: Option<u64>,
    ) -> Result<Books, Error> {
        let n_steps = run.n_steps;
        let stop_at = last_step(&run.config, n_steps, stop_at)?;
        Ok(Books {
            stop_at,
            begun_at: (n_steps, run.episodes.n_episodes(), run.n_updates),
            run,
            lag: PolicyLag::default(),
            lost: Vec::new(),
            n_lost_told: 0,
            least_epsilon: None,
            n_arrivals: BTreeMap::new(),
            log: recorder.map(Log::new),
        })
    }

    /// The books of a learner with actors on other ranks. Where the run goes on, `restore` takes over the learner of its
    /// checkpoint.
    pub(crate) fn of_learner(
        start: &Start,
        options: &RunOptions,
        restore: impl FnOnce(LearnerState) -> Result<(), Error>,
    ) -> Result<Books, Error> {
        let device = &options.device;
        let place = start.place();
        let mut comm = Comm::solo();
        let mut alone = Ranks::new(&mut comm, options.deadline);
        let (run, taken) = place.load(
            &mut alone,
            |_| Ok(RunState::first(&start.config()?, 1, device)),
            |_, newest| {
                let (run, OwnPart { lock_step, actor_episodes }) = RunState::of(newest, device)?;
                if lock_step.is_some() || actor_episodes.is_some() {
                    return Err(Error::input(format!(
                        "{}: this run in lock step was in one process, and its checkpoint holds the actor too: resume it in one process",
                        newest.origin()
                    )));
                }
                checkpoint::restore(newest, |tensors| {
                    restore(LearnerState::of_tensors(run.n_updates, tensors)?)
                })?;
                Ok(run)
            },
        )?;
        let recorder = place.open(&mut alone, taken)?;
        Books::open(run, recorder, options.stop_at)
    }

    /// The mean return is over the episodes of actors that explore with at most this probability.
    pub(crate) fn mean_is_up_to(&mut self, epsilon: f32) {
        self.least_epsilon = Some(epsilon);
    }

    /// Steps of all environments so far.
    pub(crate) fn n_steps(&self) -> u64 {
        self.run.n_steps
    }

    /// The step that the run goes to.
    pub(crate) fn stop_at(&self) -> u64 {
        self.stop_at
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

    /// Counts a rank that comes. The key tells it from those of its number who were there before it, in this call or before the checkpoint that
    /// this call began at: 0 is for the first one of a run from its first step.
    pub(crate) fn arrival(&mut self, rank: u32) -> u64 {
        let n_arrivals = self.n_arrivals.entry(rank).or_default();
        let n_before = *n_arrivals;
        *n_arrivals += 1;
        let (n_steps, _, n_updates) = self.begun_at;
        match [n_steps, n_updates, n_before] {
            [0, 0, 0] => 0,
            which => hash_numbers(which).max(1),
        }
    }

    /// Counts what an actor did by weights that are `lag` updates old, with this probability of random actions if it has one; true when a
    /// checkpoint is due.
    pub(crate) fn count(
        &mut self,
        n_steps: u64,
        (episodes, epsilon): (&[Episode], Option<f32>),
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
            let is_of_least = match (epsilon, self.least_epsilon) {
                (Some(epsilon), Some(least)) => epsilon <= least,
                _ => true,
            };
            match is_of_least {
                true => drop(self.run.episodes.record(0, episode.episodic_return, true)),
                false => self.run.episodes.count(),
            }
            if let Some(log) = &mut self.log {
                log.line(now, &episode.scalars(epsilon))?;
            }
        }
        progress(&TrainProgress {
            step: now,
            stop_at: self.stop_at,
            mean_return: self.run.episodes.mean_return(),
            newly_lost: self.lost[self.n_lost_told..].to_vec(),
        });
        self.n_lost_told = self.lost.len();
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
            (tags::STEPS_PER_SECOND, log.steps_per_s()),
            (LOST, self.lost.len() as f32),
        ];
        all.extend(self.lag.scalars());
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
        params.sync()?;
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

#[cfg(test)]
mod tests {
    use shardgraph_device::Device;

    use super::*;
    use crate::config::AgentConfig;

    /// What is given to ranks 1, 1, 2 and 1 in a run that goes on at so many steps and updates.
    fn keys(n_steps: u64, n_updates: u64) -> [u64; 4] {
        let config = AgentConfig::named("cartpole-apex").unwrap();
        let run = RunState {
            n_steps,
            n_updates,
            ..RunState::first(&config, 1, &Device::host())
        };
        let mut books = Books::open(run, None, None).unwrap();
        [1, 1, 2, 1].map(|rank| books.arrival(rank))
    }

    #[test]
    fn the_mean_return_is_of_who_explores_the_least() {
        let config = AgentConfig::named("cartpole-apex").unwrap();
        let run = RunState::first(&config, 1, &Device::host());
        let mut books = Books::open(run, None, None).unwrap();
        books.mean_is_up_to(0.01);
        let mut count = |episodic_return, epsilon| {
            let episode = Episode {
                episodic_return,
                length: 9,
            };
            let episodes = (&[episode][..], Some(epsilon));
            books.count(9, episodes, 0, &mut |_| ()).unwrap();
            let episodes = &books.run.episodes;
            (episodes.mean_return(), episodes.n_episodes())
        };
        assert_eq!(count(100.0, 0.4), (None, 1));
        assert_eq!(count(20.0, 0.01), (Some(20.0), 2));
        assert_eq!(count(100.0, 0.4), (Some(20.0), 3));
        assert_eq!(count(30.0, 0.01), (Some(25.0), 4));
    }

    #[test]
    fn only_who_is_first_in_a_new_run_has_no_key() {
        let new = keys(0, 0);
        assert!(new[0] == 0 && new[2] == 0 && new[1] > 0 && new[3] > 0 && new[1] != new[3]);
        // Before the first update too.
        let resumed = [keys(500, 0), keys(1000, 0), keys(1000, 7)];
        for of_run in &resumed {
            assert!(of_run[0] > 0 && of_run[0] == of_run[2] && of_run[0] != of_run[1]);
        }
        assert!(resumed[0][0] != resumed[1][0] && resumed[1][0] != resumed[2][0]);
    }
}
