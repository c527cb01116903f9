//! REINFORCE on carts with poles: play a batch of episodes, take one step, and begin anew. Nothing but weights, optimiser and counters
//! lives from one batch to the next.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Ctx, Params, Shape};
use shardgraph_components::{ActorCritic, Initialiser, Optimiser, SoftmaxPolicy};
use shardgraph_device::Device;
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_graph::random::Stream;
use shardgraph_runs::{Checkpoint, Tensors};

use super::config::ReinforceConfig;
use super::episodes::{EpisodeBatch, Playing};
use super::step::{PolicyUpdate, policy_step};
use crate::config::{AgentConfig, Algorithm, cart_pole_spaces};
use crate::dqn::{FILES, kind_of};
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::local::{Advance, Local};
use crate::policy_program::{MemoryState, PolicyProgram};
use crate::weights;

const STATE: &str = FILES[0];
const RUN: &str = FILES[1];
const VERSION: u32 = 1;

/// Everything that decides how a run goes on.
#[derive(Debug)]
pub(crate) struct ReinforceTrainer {
    config: AgentConfig,
    reinforce: ReinforceConfig,
    device: Device,
    params: Params,
    network: ActorCritic,
    policy: SoftmaxPolicy,
    optimiser: Optimiser,
    acting: PolicyProgram,
    state: MemoryState,
    carts: CartPoles,
    episodes: EpisodeStatistics,
    n_steps: u64,
    n_updates: u64,
}

/// What `run.json` holds.
#[derive(Serialize, Deserialize)]
struct Run {
    config: AgentConfig,
    n_steps: u64,
    n_updates: u64,
    episodes: EpisodeStatistics,
    device: String,
}

impl ReinforceTrainer {
    /// One episode in each cart. A cart whose episode has ended goes on and is not looked at.
    fn play(&mut self) -> Result<Vec<Playing>, Error> {
        let key =
            Stream::new(self.config.seed, "reinforce environments", self.n_updates).next_u64();
        self.carts.reset(key);
        let mut playing = vec![Playing::default(); self.carts.len()];
        let (mut actions, mut t) = (Vec::with_capacity(playing.len()), 0);
        while playing.iter().any(|episode| episode.last_value.is_none()) {
            let seen = self.carts.observations().to_vec();
            let said = self
                .acting
                .run(&self.params, seen.as_flattened(), &self.state)?;
            let mut stream = Stream::new(
                self.config.seed,
                "reinforce actions",
                self.n_updates << 20 | t,
            );
            actions.clear();
            self.policy
                .sample_into(&said.logits, &mut stream, &mut actions)?;
            self.carts.step(&actions)?;
            for (idx, episode) in playing
                .iter_mut()
                .enumerate()
                .filter(|(_, e)| e.last_value.is_none())
            {
                let step = self.carts.last_step();
                episode.observations.push(seen[idx]);
                episode.actions.push(actions[idx]);
                episode.rewards.push(step.rewards[idx]);
                episode.last_value = step.terminated[idx].then_some(0.0);
            }
            self.value_truncated(&mut playing)?;
            t += 1;
        }
        Ok(playing)
    }

    /// Gives the episodes that a limit has just stopped the value of their last observation.
    fn value_truncated(&mut self, playing: &mut [Playing]) -> Result<(), Error> {
        let step = self.carts.last_step();
        let is_stopped = |idx: usize| step.truncated[idx] && playing[idx].last_value.is_none();
        let stopped: Vec<usize> = (0..playing.len()).filter(|&idx| is_stopped(idx)).collect();
        if stopped.is_empty() {
            return Ok(());
        }
        let mut seen = self.carts.observations().to_vec();
        for &idx in &stopped {
            let last = self.carts.final_observation(idx);
            seen[idx] = *last
                .ok_or_else(|| Error::internal("an episode ended without a last observation"))?;
        }
        let said = self
            .acting
            .run(&self.params, seen.as_flattened(), &self.state)?;
        for idx in stopped {
            playing[idx].last_value = Some(said.values[idx]);
        }
        Ok(())
    }

    fn learn(&mut self, batch: &EpisodeBatch) -> Result<PolicyUpdate, Error> {
        let n = batch.actions.len();
        let n_actions = self.network.n_actions();
        let mut one_hot = vec![0.0; n * n_actions];
        for (row, &action) in one_hot.chunks_exact_mut(n_actions).zip(&batch.actions) {
            row[action as usize] = 1.0;
        }
        let (network, policy, loss) = (&self.network, &self.policy, &self.reinforce.loss);
        policy_step(
            &self.device,
            &mut self.params,
            &mut self.optimiser,
            |ctx: &mut dyn Ctx| {
                let observations =
                    ctx.input(Shape::new(n, network.n_inputs()), &batch.observations)?;
                let said = network.apply(ctx, observations)?;
                let actions = ctx.input(Shape::new(n, n_actions), &one_hot)?;
                let returns = ctx.input(Shape::new(n, 1), &batch.returns)?;
                loss.apply(
                    ctx,
                    policy,
                    (said.logits, Some(said.values)),
                    (actions, returns),
                )
            },
        )
    }

    fn of(
        config: &AgentConfig,
        reinforce: &ReinforceConfig,
        device: &Device,
    ) -> Result<ReinforceTrainer, Error> {
        let (observation, action) = cart_pole_spaces()?;
        let initialiser = Initialiser {
            seed: config.seed,
            ..Initialiser::default()
        };
        let mut params = Params::new();
        let network = ActorCritic::build(
            &mut params,
            "policy",
            (&observation, &action),
            &reinforce.network,
            initialiser,
        )?;
        let n_episodes = reinforce.batch_episodes;
        Ok(ReinforceTrainer {
            policy: SoftmaxPolicy::build("policy", &action)?,
            optimiser: Optimiser::new(reinforce.optimiser, params.trained_len())?,
            acting: PolicyProgram::new(&params, &network, n_episodes, device)?,
            state: MemoryState::new(&network, n_episodes),
            carts: CartPoles::new(n_episodes, Autoreset::SameStep)?,
            episodes: EpisodeStatistics::new(1),
            n_steps: 0,
            n_updates: 0,
            config: config.clone(),
            reinforce: reinforce.clone(),
            device: device.clone(),
            params,
            network,
        })
    }
}

impl Local for ReinforceTrainer {
    fn new(config: &AgentConfig, device: &Device) -> Result<ReinforceTrainer, Error> {
        config.check()?;
        match &config.algorithm {
            Algorithm::Reinforce(reinforce) => ReinforceTrainer::of(config, reinforce, device),
            other => Err(Error::internal(format!(
                "`{}` is not REINFORCE",
                other.name()
            ))),
        }
    }

    fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<ReinforceTrainer, Error> {
        let run: Run = checkpoint.json(RUN, VERSION)?;
        if run.device != kind_of(device) {
            return Err(Error::input(format!(
                "{}: the run computes on `{1}`, and another kind of device rounds otherwise: resume it with --device {1}",
                checkpoint.origin(),
                run.device
            )));
        }
        let mut trainer = ReinforceTrainer::new(&run.config, device)?;
        let state = checkpoint.tensors(STATE)?;
        trainer.params.set_flat(&state.f32s("weights")?)?;
        trainer.optimiser.restore(state.u8s("optimiser")?)?;
        (trainer.n_steps, trainer.n_updates) = (run.n_steps, run.n_updates);
        trainer.episodes = run.episodes;
        Ok(trainer)
    }

    fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let optimiser = self.optimiser.to_bytes();
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.params.flat())?;
        tensors.add_u8("optimiser", &optimiser)?;
        let mut checkpoint = Checkpoint::new(self.n_steps);
        checkpoint.add(STATE, tensors.to_bytes()?)?;
        let run = Run {
            config: self.config.clone(),
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.episodes.clone(),
            device: kind_of(&self.device),
        };
        checkpoint.add_json(RUN, VERSION, &run)?;
        Ok(checkpoint)
    }

    /// A batch of episodes and one step.
    fn advance(&mut self) -> Result<Advance, Error> {
        let mut batch = EpisodeBatch::default();
        let mut advance = Advance::default();
        for episode in self.play()? {
            batch.push(&episode, self.reinforce.gamma);
            let ended = Episode {
                episodic_return: episode.rewards.iter().sum(),
                length: episode.rewards.len() as u64,
            };
            self.episodes.record(0, ended.episodic_return, true);
            advance.n_steps += ended.length;
            advance.episodes.push(ended);
        }
        let update = self.learn(&batch)?;
        self.acting.weights_changed();
        advance.scalars = vec![
            ("losses/policy_loss", update.policy),
            ("losses/value_loss", update.baseline.unwrap_or(0.0)),
            ("losses/entropy", update.entropy),
            ("losses/gradient_norm", update.gradient_norm),
        ];
        self.n_steps += advance.n_steps;
        self.n_updates += 1;
        Ok(advance)
    }

    fn config(&self) -> &AgentConfig {
        &self.config
    }

    fn n_steps(&self) -> u64 {
        self.n_steps
    }

    fn n_updates(&self) -> u64 {
        self.n_updates
    }

    fn episodes(&self) -> &EpisodeStatistics {
        &self.episodes
    }

    fn weights(&self) -> &[f32] {
        self.params.trained()
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        weights::write(path, &self.params)
    }
}
