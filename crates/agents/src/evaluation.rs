//! Greedy episodes: what an agent's weights are worth.

use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_random::KeyedRng;

use crate::agent::Agent;
use crate::error::{Error, ErrorKind};

/// More episodes than this at a time are a mistake.
const MAX_EPISODES: usize = 100_000;

/// What greedy episodes gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The return of each episode.
    pub returns: Vec<f32>,
    /// Steps of all episodes together.
    pub n_steps: u64,
}

impl Evaluation {
    /// Plays `n_episodes` greedy episodes of cart and pole side by side, with the action that the agent values most or finds likeliest. Their
    /// first states come from a stream of `seed` that no training run uses.
    ///
    /// # Errors
    /// When there are no episodes or more than 100 000, or the agent's values or logits are not finite.
    ///
    /// ```
    /// use shardgraph_agents::{AgentConfig, DqnTrainer, Evaluation};
    /// use shardgraph_device::Device;
    ///
    /// let config = AgentConfig::named("cartpole-dqn").unwrap();
    /// let mut trainer = DqnTrainer::new(&config, &Device::host())?;
    /// let untrained = Evaluation::play(trainer.agent_mut(), 20, 1)?;
    /// assert!(untrained.mean_return() < 100.0);
    /// # Ok::<(), shardgraph_agents::Error>(())
    /// ```
    pub fn play(agent: &mut dyn Agent, n_episodes: usize, seed: u64) -> Result<Evaluation, Error> {
        if !(1..=MAX_EPISODES).contains(&n_episodes) {
            return Err(ErrorKind::Mismatch {
                component: "Evaluation",
                method: "play",
                what: "the number of episodes".to_owned(),
                expected: format!("1 to {MAX_EPISODES}"),
                given: n_episodes.to_string(),
            }
            .into());
        }
        let mut carts = CartPoles::new(n_episodes, Autoreset::SameStep)?;
        carts.reset(KeyedRng::new(seed, "evaluation", 0).next_u64());
        agent.begin_episodes(n_episodes)?;
        let mut evaluation = Evaluation {
            returns: vec![0.0; n_episodes],
            n_steps: 0,
        };
        let mut is_over = vec![false; n_episodes];
        let mut actions = Vec::with_capacity(n_episodes);
        while is_over.contains(&false) {
            agent.act_greedily(carts.observations().as_flattened(), &mut actions)?;
            let step = carts.step(&actions)?;
            for (idx, is_over) in is_over.iter_mut().enumerate().filter(|(_, over)| !**over) {
                evaluation.returns[idx] += step.rewards[idx];
                evaluation.n_steps += 1;
                *is_over = step.ended(idx);
            }
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
