//! A replay memory that keeps everything for ever and looks for what it is asked, for the tests of the real one.

use crate::{Ending, EpisodeId, NStep, Transition};

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
