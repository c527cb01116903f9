//! REINFORCE on carts with poles: play a batch of episodes, take one step, and begin anew. Nothing but weights, optimiser and counters
//! lives from one batch to the next.

use shardgraph_autodiff::{Ctx, Params, Shape};
use shardgraph_components::{ActorCritic, Optimiser, SoftmaxPolicy};
use shardgraph_device::Device;
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_job::{Checkpoint, Tensors, tags};
use shardgraph_random::KeyedRng;

use super::config::ReinforceConfig;
use super::episodes::{EpisodeBatch, Playing};
use super::step::{PolicyUpdate, policy_step};
use crate::checkpoint::{NoMore, RunState, restore};
use crate::config::{AgentConfig, cart_pole_spaces};
use crate::episodes::Episode;
use crate::error::Error;
use crate::local::{Advance, Local};
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};

/// Everything that decides how a run goes on.
#[derive(Debug)]
pub(crate) struct ReinforceTrainer {
    run: RunState,
    reinforce: ReinforceConfig,
    device: Device,
    params: Params,
    network: ActorCritic,
    policy: SoftmaxPolicy,
    optimiser: Optimiser,
    acting: PolicyProgram,
    state: MemoryState,
    said: Said,
    carts: CartPoles,
}

impl ReinforceTrainer {
    /// One episode in each cart. A cart whose episode has ended goes on and is not looked at.
    pub(super) fn play(&mut self) -> Result<Vec<Playing>, Error> {
        let (seed, n_updates) = (self.run.config.seed, self.run.n_updates);
        self.carts.reset(self.first_states());
        let mut playing = vec![Playing::default(); self.carts.len()];
        let (mut actions, mut seen, mut t) = (Vec::with_capacity(playing.len()), Vec::new(), 0);
        while playing.iter().any(|episode| episode.last_value.is_none()) {
            seen.clear();
            seen.extend_from_slice(self.carts.observations());
            self.say(&seen)?;
            let mut stream = KeyedRng::new(seed, "reinforce actions", n_updates << 20 | t);
            actions.clear();
            self.policy
                .sample_into(&self.said.logits, &mut stream, &mut actions)?;
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

    /// The seed of the next batch of episodes.
    pub(super) fn first_states(&self) -> u64 {
        let (seed, n_updates) = (self.run.config.seed, self.run.n_updates);
        KeyedRng::new(seed, "reinforce environments", n_updates).next_u64()
    }

    /// Takes these weights and biases of the two heads of a network without hidden layers.
    #[cfg(test)]
    pub(super) fn set_linear(&mut self, policy: &[f32], b: &[f32], value: &[f32], v: &[f32]) {
        let names: Vec<&str> = self.params.ids().map(|id| self.params.name(id)).collect();
        let expected = ["policy/w", "policy/b", "value/w", "value/b"];
        assert_eq!(names, expected.map(|name| format!("policy/{name}")));
        let all = [policy, b, value, v].concat();
        self.params.set_trained(&all).expect("as many weights");
        self.acting.weights_changed();
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
        self.say(&seen)?;
        for idx in stopped {
            playing[idx].last_value = Some(self.said.values[idx]);
        }
        Ok(())
    }

    /// What the network says of these observations, into `self.said`.
    fn say(&mut self, seen: &[[f32; 4]]) -> Result<(), Error> {
        let seen = seen.as_flattened();
        self.acting
            .run(&self.params, seen, &self.state, &mut self.said)
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
}

impl Local for ReinforceTrainer {
    fn new(config: &AgentConfig, device: &Device) -> Result<ReinforceTrainer, Error> {
        config.check()?;
        let reinforce = config.algorithm.reinforce()?;
        let (params, network) = build_policy(&reinforce.network, config.seed)?;
        let n_episodes = reinforce.batch_episodes;
        Ok(ReinforceTrainer {
            policy: SoftmaxPolicy::build("policy", &cart_pole_spaces()?.1)?,
            optimiser: Optimiser::new(reinforce.optimiser, params.trained_len())?,
            acting: PolicyProgram::new(&params, &network, n_episodes, device)?,
            state: MemoryState::new(&network, n_episodes),
            said: Said::default(),
            carts: CartPoles::new(n_episodes, Autoreset::SameStep)?,
            run: RunState::first(config, 1, device),
            reinforce: reinforce.clone(),
            device: device.clone(),
            params,
            network,
        })
    }

    fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<ReinforceTrainer, Error> {
        let (run, NoMore {}) = RunState::of(checkpoint, device)?;
        let mut trainer = ReinforceTrainer::new(&run.config, device)?;
        restore(checkpoint, |state| {
            trainer.params.set_flat(&state.f32s("weights")?)?;
            Ok(trainer.optimiser.restore(state.u8s("optimiser")?)?)
        })?;
        trainer.run = run;
        Ok(trainer)
    }

    fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let optimiser = self.optimiser.to_bytes();
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.params.flat())?;
        tensors.add_u8("optimiser", &optimiser)?;
        self.run.to_checkpoint(NoMore {}, &tensors)
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
            self.run.episodes.record(0, ended.episodic_return, true);
            advance.n_steps += ended.length;
            advance.episodes.push(ended);
        }
        let update = self.learn(&batch)?;
        self.acting.weights_changed();
        advance.losses.push(vec![
            (tags::POLICY_LOSS, update.policy),
            (tags::VALUE_LOSS, update.baseline.unwrap_or(0.0)),
            (tags::ENTROPY, update.entropy),
            (tags::GRADIENT_NORM, update.gradient_norm),
        ]);
        self.run.n_steps += advance.n_steps;
        self.run.n_updates += 1;
        Ok(advance)
    }

    fn run(&self) -> &RunState {
        &self.run
    }

    fn params(&self) -> &Params {
        &self.params
    }
}
