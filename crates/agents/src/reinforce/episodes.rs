//! A batch of whole episodes, and the returns of their steps.

/// Steps of episodes, one episode behind the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct EpisodeBatch {
    pub(super) observations: Vec<f32>,
    pub(super) actions: Vec<u32>,
    /// What masks add to the logits; empty without masks.
    pub(super) masks: Vec<f32>,
    /// What followed each step: its reward, the next one's times gamma, and so on, with the value of the last state where a limit stopped
    /// the episode.
    pub(super) returns: Vec<f32>,
}

/// An episode that is being played.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Playing {
    pub(super) observations: Vec<f32>,
    pub(super) actions: Vec<u32>,
    /// As in [`EpisodeBatch`].
    pub(super) masks: Vec<f32>,
    pub(super) rewards: Vec<f32>,
    /// Once it has ended: the value of its last state, 0 where that is terminal.
    pub(super) last_value: Option<f32>,
}

impl EpisodeBatch {
    pub(super) fn push(&mut self, episode: &Playing, gamma: f32) {
        self.observations.extend(&episode.observations);
        self.actions.extend(&episode.actions);
        self.masks.extend(&episode.masks);
        let first = self.returns.len();
        let mut after = episode.last_value.unwrap_or(0.0);
        for &reward in episode.rewards.iter().rev() {
            after = reward + gamma * after;
            self.returns.push(after);
        }
        self.returns[first..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_by_hand() {
        let episode = |rewards: &[f32], last_value| Playing {
            observations: vec![0.5; 4 * rewards.len()],
            actions: vec![1; rewards.len()],
            masks: Vec::new(),
            rewards: rewards.to_vec(),
            last_value: Some(last_value),
        };
        let mut batch = EpisodeBatch::default();
        batch.push(&episode(&[1.0, 2.0, 4.0], 0.0), 0.5);
        batch.push(&episode(&[1.0, 1.0], 8.0), 0.5); // a limit stopped it
        assert_eq!(batch.returns, [3.0, 4.0, 4.0, 3.5, 5.0]);
        assert_eq!((batch.observations.len(), batch.actions.len()), (20, 5));
    }
}
