//! Replay memories that keep everything for ever and look for what they are asked, for the tests of
//! the real ones.

use crate::{Ending, EpisodeId, ItemId, NStep, NStepTransition, Transition};

/// Every row ever inserted: one number as its content, and its priority.
#[derive(Clone)]
pub(crate) struct NaiveRows {
    pub(crate) capacity: usize,
    pub(crate) rows: Vec<(u32, f32)>,
    pub(crate) largest: f32,
}

impl NaiveRows {
    pub(crate) fn new(capacity: usize) -> NaiveRows {
        NaiveRows {
            capacity,
            rows: Vec::new(),
            largest: 1.0,
        }
    }

    pub(crate) fn insert(&mut self, content: u32, priority: Option<f32>) {
        let priority = priority.unwrap_or(self.largest);
        self.rows.push((content, priority));
        self.largest = self.largest.max(priority);
    }

    pub(crate) fn is_live(&self, id: ItemId) -> bool {
        let n = self.rows.len();
        (n.saturating_sub(self.capacity)..n).contains(&(id.0 as usize))
    }

    pub(crate) fn update(&mut self, id: ItemId, priority: f32) {
        if self.is_live(id) {
            self.rows[id.0 as usize].1 = priority;
            self.largest = self.largest.max(priority);
        }
    }

    /// The rows that are left, by slot.
    pub(crate) fn by_slot(&self) -> Vec<(ItemId, f32)> {
        let all = self.rows.iter().enumerate();
        let ids = all.map(|(idx, &(_, priority))| (ItemId(idx as u64), priority));
        let mut live: Vec<_> = ids.filter(|&(id, _)| self.is_live(id)).collect();
        live.sort_by_key(|(id, _)| id.0 % self.capacity as u64);
        live
    }

    /// The row at which the share `at` of all priorities is reached, by adding them up slot by
    /// slot.
    pub(crate) fn at_share(&self, at: f64) -> ItemId {
        let live = self.by_slot();
        let total: f64 = live.iter().map(|&(_, priority)| f64::from(priority)).sum();
        let mut end = 0.0;
        for &(id, priority) in &live {
            end += f64::from(priority);
            if at * total < end {
                return id;
            }
        }
        live.last().unwrap().0
    }
}

/// The n-step transitions of one whole episode, each from its own definition.
pub(crate) fn fold_episode(
    rewards: &[f32],
    n: usize,
    gamma: f32,
    ending: Ending,
) -> Vec<NStepTransition<usize>> {
    let fold_one = |start: usize| {
        let last = rewards.len().min(start + n);
        let (mut reward_sum, mut discount) = (0.0, 1.0);
        for &reward in &rewards[start..last] {
            reward_sum += discount * reward;
            discount *= gamma;
        }
        let at_end = last == rewards.len();
        if at_end && ending == Ending::Terminated {
            discount = 0.0;
        }
        NStepTransition {
            start,
            n_rewards: (last - start) as u32,
            reward_sum,
            discount,
            ending: at_end.then_some(ending),
        }
    };
    (0..rewards.len()).map(fold_one).collect()
}

#[derive(Default)]
pub(crate) struct NaiveMemory {
    pub(crate) episodes: Vec<NaiveEpisode>,
    pub(crate) steps: Vec<NaiveStep>,
}

pub(crate) struct NaiveEpisode {
    pub(crate) id: EpisodeId,
    pub(crate) graph_id: u64,
    pub(crate) ending: Ending,
}

#[derive(Clone)]
pub(crate) struct NaiveStep {
    pub(crate) transition: Transition,
    pub(crate) pick: u32,
    pub(crate) reward: f32,
    pub(crate) target: Option<f32>,
}

impl NaiveMemory {
    pub(crate) fn begin_episode(&mut self, id: EpisodeId, graph_id: u64) {
        let ending = Ending::Cut;
        self.episodes.push(NaiveEpisode {
            id,
            graph_id,
            ending,
        });
    }

    pub(crate) fn record(&mut self, pick: u32, reward: f32, target: Option<f32>) -> Transition {
        let episode = self.episodes.last().unwrap();
        let transition = Transition {
            episode: episode.id,
            graph_id: episode.graph_id,
            step: self.picks(episode.id).len() as u32,
            generation: self.steps.len() as u64,
        };
        self.steps.push(NaiveStep {
            transition,
            pick,
            reward,
            target,
        });
        transition
    }

    fn steps_of(&self, episode: EpisodeId) -> Vec<NaiveStep> {
        let is_of = |step: &&NaiveStep| step.transition.episode == episode;
        self.steps.iter().filter(is_of).cloned().collect()
    }

    pub(crate) fn picks(&self, episode: EpisodeId) -> Vec<u32> {
        self.steps_of(episode)
            .iter()
            .map(|step| step.pick)
            .collect()
    }

    /// The last `capacity` transitions, the oldest first.
    pub(crate) fn live(&self, capacity: usize) -> &[NaiveStep] {
        &self.steps[self.steps.len().saturating_sub(capacity)..]
    }

    pub(crate) fn n_step(&self, transition: &Transition, n: u32, gamma: f32) -> NStep {
        let steps = self.steps_of(transition.episode);
        let ending = self
            .episodes
            .iter()
            .find(|e| e.id == transition.episode)
            .unwrap()
            .ending;
        let (from, n) = (transition.step as usize, n as usize);
        let to = steps.len().min(from + n);
        let (mut reward_sum, mut discount) = (0.0, 1.0);
        for step in &steps[from..to] {
            reward_sum += discount * step.reward;
            discount *= gamma;
        }
        let at_end = to == steps.len();
        let mut answer = NStep {
            reward_sum,
            bootstrap_step: Some(to as u32),
            discount,
            ending: None,
        };
        if at_end {
            answer.ending = Some(ending);
        }
        if at_end && ending == Ending::Terminated {
            answer.bootstrap_step = None;
            answer.discount = 0.0;
        }
        answer
    }
}
