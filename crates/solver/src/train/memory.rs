//! The replay memory of a run: the episodes of each environment apart, drawn from as one.

use shardgraph_random::KeyedRng;
use shardgraph_replay::{
    ColumnLayout, ElementKind, Ending, EpisodeId, EpisodeMemory, ItemId, LeafRef, NStep,
    Prioritization, PrioritizedBatch, PrioritizedMemory, Transition,
};

use super::{PrioritizedConfig, TrainConfig};
use crate::Error;

/// Every environment records a transition a step, so that the memories are equally long at the end of a step.
#[derive(Clone)]
pub(super) struct ReplayMemory {
    episodes: Vec<EpisodeMemory>,
    priorities: Option<Priorities>,
}

/// The TD errors of the transitions. Row i is of environment `i % n` and, in its memory, of generation `i / n`: the rows hold nothing.
#[derive(Clone)]
struct Priorities {
    config: PrioritizedConfig,
    memory: PrioritizedMemory,
    /// What was drawn last.
    drawn: PrioritizedBatch,
}

/// A transition that was drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    pub(super) environment: usize,
    pub(super) transition: Transition,
    /// Its importance weight.
    pub(super) weight: f32,
}

/// A state: so many picks of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) environment: usize,
    pub(super) episode: EpisodeId,
    pub(super) step: u32,
    pub(super) graph_id: u64,
}

impl Drawn {
    /// The state after `step` picks of the transition's episode.
    pub(super) fn place_at(&self, step: u32) -> Place {
        Place {
            environment: self.environment,
            episode: self.transition.episode,
            step,
            graph_id: self.transition.graph_id,
        }
    }
}

impl ReplayMemory {
    pub(super) fn new(config: &TrainConfig) -> Result<ReplayMemory, Error> {
        let n_environments = config.environments;
        let each = config.capacity_of_each();
        let priorities = config.prioritized.map(|prioritized| {
            let layout = ColumnLayout::new(&[("row", ElementKind::U8, 1)])?;
            let prioritization = Prioritization {
                alpha: prioritized.alpha,
                epsilon: prioritized.epsilon,
            };
            let capacity = each * n_environments;
            Ok(Priorities {
                config: prioritized,
                memory: PrioritizedMemory::new(layout, capacity, prioritization)?,
                drawn: PrioritizedBatch::default(),
            })
        });
        Ok(ReplayMemory {
            episodes: vec![EpisodeMemory::new(each); n_environments],
            priorities: priorities.transpose().map_err(refused)?,
        })
    }

    /// Transitions of all environments.
    pub(super) fn len(&self) -> usize {
        self.episodes.iter().map(EpisodeMemory::len).sum()
    }

    pub(super) fn begin_episode(&mut self, environment: usize, graph_id: u64) {
        self.episodes[environment].begin_episode(graph_id);
    }

    /// Adds a step of an environment; each step of the run, all come in their order.
    pub(super) fn record(
        &mut self,
        environment: usize,
        pick: u32,
        reward: f32,
        target: Option<f32>,
    ) -> Result<(), Error> {
        let recorded = self.episodes[environment].record(pick, reward, target);
        recorded.map_err(refused)?;
        if let Some(priorities) = &mut self.priorities {
            let inserted = priorities.memory.insert(&[LeafRef::U8(&[0])]);
            inserted.map_err(refused)?;
        }
        Ok(())
    }

    pub(super) fn end_episode(&mut self, environment: usize) -> Result<(), Error> {
        let ended = self.episodes[environment].end_episode(Ending::Terminated);
        ended.map_err(refused)
    }

    /// Draws transitions, with replacement; `step` is that of the run.
    pub(super) fn draw(
        &mut self,
        n_transitions: usize,
        step: u64,
        stream: &mut KeyedRng,
    ) -> Result<Vec<Drawn>, Error> {
        let n_environments = self.episodes.len() as u64;
        let Some(priorities) = &mut self.priorities else {
            let n = self.len() as u64;
            let drawn = (0..n_transitions).map(|_| {
                let i = stream.below(n);
                let environment = (i % n_environments) as usize;
                nth(&self.episodes, environment, i / n_environments, 1.0)
            });
            return drawn.collect();
        };
        let beta = priorities.config.beta(step);
        let uniform = &mut || stream.uniform_f64();
        let (memory, drawn) = (&mut priorities.memory, &mut priorities.drawn);
        memory
            .sample_into(n_transitions, beta, uniform, drawn)
            .map_err(refused)?;
        let drawn = drawn.ids.iter().zip(&drawn.weights);
        let drawn = drawn.map(|(&ItemId(id), &weight)| {
            let environment = (id % n_environments) as usize;
            let episodes = &self.episodes[environment];
            let oldest = episodes.n_recorded() - episodes.len() as u64;
            let age = (id / n_environments).checked_sub(oldest);
            nth(&self.episodes, environment, age.ok_or_else(stale)?, weight)
        });
        drawn.collect()
    }

    /// Gives what was drawn last the priorities of these TD errors; nothing where draws are uniform.
    pub(super) fn set_errors(&mut self, td_errors: &[f32]) -> Result<(), Error> {
        let Some(priorities) = &mut self.priorities else {
            return Ok(());
        };
        let updated = priorities.memory.update(&priorities.drawn.ids, td_errors);
        updated.map(|_| ()).map_err(refused)
    }

    /// The priorities of all transitions, oldest first.
    #[cfg(test)]
    pub(super) fn priorities(&self) -> Vec<f32> {
        let memory = &self.priorities.as_ref().unwrap().memory;
        let ids = memory.n_inserted() - memory.len() as u64..memory.n_inserted();
        ids.map(|id| memory.priority(ItemId(id)).unwrap()).collect()
    }

    /// Whether draws have importance weights.
    pub(super) fn is_weighted(&self) -> bool {
        self.priorities.is_some()
    }

    /// The picks that lead to a state.
    pub(super) fn picks(&self, place: Place) -> Result<&[u32], Error> {
        let picks = self.episodes[place.environment].picks(place.episode);
        picks
            .and_then(|picks| picks.get(..place.step as usize))
            .ok_or_else(stale)
    }

    pub(super) fn pick(&self, drawn: &Drawn) -> Result<u32, Error> {
        let episodes = &self.episodes[drawn.environment];
        episodes.pick(&drawn.transition).ok_or_else(stale)
    }

    pub(super) fn target(&self, drawn: &Drawn) -> Result<f32, Error> {
        let episodes = &self.episodes[drawn.environment];
        episodes.target(&drawn.transition).ok_or_else(stale)
    }

    pub(super) fn n_step(&self, drawn: &Drawn, n: u32, gamma: f32) -> Result<NStep, Error> {
        let episodes = &self.episodes[drawn.environment];
        let found = episodes.n_step(&drawn.transition, n, gamma);
        found.ok_or_else(stale)
    }

    /// The tensors of a checkpoint, by name.
    pub(super) fn to_bytes(&self) -> Vec<(String, Vec<u8>)> {
        let episodes = self.episodes.iter().map(EpisodeMemory::to_bytes);
        let mut parts: Vec<_> = (0..).map(part_name).zip(episodes).collect();
        if let Some(priorities) = &self.priorities {
            parts.push((PRIORITIES.to_string(), priorities.memory.to_bytes()));
        }
        parts
    }

    /// Takes the state of a checkpoint of a run with the same settings; `part` gives the tensors by name.
    ///
    /// # Errors
    /// Of `part`, and what is wrong with a tensor.
    pub(super) fn restore<'b>(
        &mut self,
        part: impl Fn(&str) -> Result<&'b [u8], Error>,
        wrong: impl Fn(String) -> Error,
    ) -> Result<(), Error> {
        for (i, episodes) in self.episodes.iter_mut().enumerate() {
            let name = part_name(i);
            let read = EpisodeMemory::from_bytes(part(&name)?);
            let read = read.map_err(|e| wrong(format!("`{name}`: {e}")))?;
            if read.capacity() != episodes.capacity() {
                return Err(wrong(format!(
                    "`{name}` is a memory of {} transitions, the settings say {}",
                    read.capacity(),
                    episodes.capacity()
                )));
            }
            *episodes = read;
        }
        let n_recorded = |episodes: &EpisodeMemory| episodes.n_recorded();
        let first = self.episodes.first().map_or(0, n_recorded);
        if self.episodes.iter().map(n_recorded).any(|n| n != first) {
            return Err(wrong("the environments differ in their steps".to_string()));
        }
        let Some(priorities) = &mut self.priorities else {
            return Ok(());
        };
        let restored = priorities.memory.restore(part(PRIORITIES)?);
        restored.map_err(|e| wrong(format!("`{PRIORITIES}`: {e}")))?;
        match priorities.memory.n_inserted() == first * self.episodes.len() as u64 {
            true => Ok(()),
            false => Err(wrong(format!("`{PRIORITIES}` are of other transitions"))),
        }
    }
}

/// The n-th oldest transition of an environment.
fn nth(
    episodes: &[EpisodeMemory],
    environment: usize,
    nth: u64,
    weight: f32,
) -> Result<Drawn, Error> {
    let episodes = &episodes[environment];
    if nth >= episodes.len() as u64 {
        return Err(stale());
    }
    let transition = episodes.sample(1, &mut |_| nth).first().copied();
    Ok(Drawn {
        environment,
        transition: transition.ok_or_else(stale)?,
        weight,
    })
}

const PRIORITIES: &str = "priorities";

/// `replay`, `replay_1`, ...: one environment's memory has the name that it had before there were several.
fn part_name(environment: usize) -> String {
    match environment {
        0 => "replay".to_string(),
        _ => format!("replay_{environment}"),
    }
}

/// Transitions are looked up right after they were drawn, so none is stale.
fn stale() -> Error {
    Error::internal("a transition that was just drawn is stale")
}

fn refused(error: shardgraph_replay::Error) -> Error {
    Error::internal(error.to_string())
}
