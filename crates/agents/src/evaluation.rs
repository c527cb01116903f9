//! Episodes of an agent that learns no more: what its weights are worth.

use shardgraph_random::KeyedRng;

use crate::agent::Agent;
use crate::episodes::{MAX_EPISODE_STEPS, check_length};
use crate::error::{Call, Error};
use crate::observations::{ActionBuffer, Seen};
use crate::run_environments::Environments;

/// More episodes than this at a time are a mistake.
const MAX_EPISODES: usize = 100_000;

/// By what rule an agent takes its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The action that it values most or finds likeliest: [`Agent::act_greedily`].
    #[default]
    Greedy,
    /// As training takes them at its end: [`Agent::act_sampled`].
    Sampled,
}

/// What episodes gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The return of each episode.
    pub returns: Vec<f32>,
    /// Steps of all episodes together.
    pub n_steps: u64,
}

impl Evaluation {
    /// Plays `n_episodes` episodes side by side, with actions by `choice`. Their first states come from a stream of `seed` that no training
    /// run uses.
    ///
    /// # Errors
    /// When there are no episodes or more than 100 000, one has no end, or the agent's values or logits are not finite.
    ///
    /// ```
    /// use shardgraph_agents::{AgentConfig, Choice, Evaluation, RunOptions};
    ///
    /// let (config, options) = (AgentConfig::named("cartpole-dqn").unwrap(), RunOptions::default());
    /// let mut agent = config.agent(&options)?;
    /// let environments = options.environments_of(&config)?;
    /// let untrained = Evaluation::play(agent.as_mut(), &environments, 20, Choice::Greedy, 1)?;
    /// assert!(untrained.mean_return() < 100.0);
    /// # Ok::<(), shardgraph_agents::Error>(())
    /// ```
    pub fn play(
        agent: &mut dyn Agent,
        environments: &Environments,
        n_episodes: usize,
        choice: Choice,
        seed: u64,
    ) -> Result<Evaluation, Error> {
        let limit = MAX_EPISODE_STEPS;
        Evaluation::play_within(limit, agent, environments, n_episodes, choice, seed)
    }

    fn play_within(
        limit: u64,
        agent: &mut dyn Agent,
        environments: &Environments,
        n_episodes: usize,
        choice: Choice,
        seed: u64,
    ) -> Result<Evaluation, Error> {
        if !(1..=MAX_EPISODES).contains(&n_episodes) {
            let expected = format!("1 to {MAX_EPISODES}");
            let call = Call::new("Evaluation", "play");
            return Err(call.mismatch("the number of episodes", expected, n_episodes));
        }
        let mut vector = environments.vector(n_episodes)?;
        vector.reset(KeyedRng::new(seed, "evaluation", 0).next_u64());
        agent.begin_episodes(n_episodes)?;
        let mut evaluation = Evaluation {
            returns: vec![0.0; n_episodes],
            n_steps: 0,
        };
        let mut is_over = vec![false; n_episodes];
        let (mut actions, mut t) = (ActionBuffer::default(), 0);
        while is_over.contains(&false) {
            check_length(t, limit)?;
            let seen = Seen::of(vector.as_ref());
            match choice {
                Choice::Greedy => agent.act_greedily(seen, &mut actions)?,
                Choice::Sampled => {
                    let mut stream = KeyedRng::new(seed, "evaluation actions", t);
                    agent.act_sampled(seen, &mut stream, &mut actions)?;
                }
            }
            let step = vector.step(actions.actions())?;
            for (idx, is_over) in is_over.iter_mut().enumerate().filter(|(_, over)| !**over) {
                evaluation.returns[idx] += step.rewards[idx];
                evaluation.n_steps += 1;
                *is_over = step.ended(idx);
            }
            t += 1;
        }
        Ok(evaluation)
    }

    /// The mean return.
    pub fn mean_return(&self) -> f64 {
        let sum: f64 = self.returns.iter().copied().map(f64::from).sum();
        sum / self.returns.len() as f64
    }

    /// The smallest return.
    pub fn min_return(&self) -> f32 {
        self.returns.iter().copied().fold(f32::INFINITY, f32::min)
    }

    /// The largest return.
    pub fn max_return(&self) -> f32 {
        self.returns
            .iter()
            .copied()
            .fold(f32::NEG_INFINITY, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;
    use crate::dqn::DqnAgent;
    use crate::run_options::RunOptions;
    use crate::tests::environments::cartpole;

    #[test]
    fn a_number_of_episodes_is_checked() {
        let mut agent = DqnAgent::of_config(
            &AgentConfig::named("cartpole-dqn").unwrap(),
            &RunOptions::default(),
        )
        .unwrap();
        let message = Evaluation::play(&mut agent, &cartpole(), 0, Choice::Greedy, 1)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("Evaluation::play: the number of episodes: expected 1 to"),
            "{message}"
        );
    }

    #[test]
    fn an_episode_without_an_end_is_given_up() {
        let config = AgentConfig::named("cartpole-dqn").unwrap();
        let mut agent = DqnAgent::of_config(&config, &RunOptions::default()).unwrap();
        let mut play = |limit| {
            let choice = Choice::Greedy;
            Evaluation::play_within(limit, &mut agent, &cartpole(), 2, choice, 1)
        };
        let message = play(5).unwrap_err().to_string();
        assert!(
            message.contains("an episode of more than 5 steps"),
            "{message}"
        );
        play(500).unwrap(); // the limit of cart and pole
    }
}
