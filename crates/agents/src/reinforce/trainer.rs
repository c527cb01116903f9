//! REINFORCE: play a batch of episodes, take one step, and begin anew. Nothing but weights, optimiser and counters
//! lives from one batch to the next.

use shardgraph_autodiff::{Ctx, Params, Shape};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{ActorCritic, Optimiser, SoftmaxPolicy};
use shardgraph_device::Device;
use shardgraph_environments::{Actions, VectorEnvironment};
use shardgraph_job::{Checkpoint, Ranks, Tensors, tags};
use shardgraph_random::KeyedRng;

use super::config::ReinforceConfig;
use super::episodes::{EpisodeBatch, Playing};
use super::step::{PolicyUpdate, policy_step};
use crate::advance::Advance;
use crate::checkpoint::{NoMore, RunState, restore};
use crate::config::AgentConfig;
use crate::episodes::{Episode, MAX_EPISODE_STEPS, check_length};
use crate::error::Error;
use crate::observations::{Seen, penalties};
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};
use crate::rank_trainer::{Place, RankTrainer, Standing, StartTrainer};
use crate::run_environments::last_observations;
use crate::run_options::RunOptions;

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
    vector: Box<dyn VectorEnvironment>,
}

impl ReinforceTrainer {
    /// One episode in each environment. One whose episode has ended goes on and is not looked at.
    pub(super) fn play(&mut self) -> Result<Vec<Playing>, Error> {
        let (seed, n_updates) = (self.run.config.seed, self.run.n_updates);
        self.vector.reset(self.first_states());
        let mut playing = vec![Playing::default(); self.vector.n_environments()];
        let (mut actions, mut seen, mut t) = (Vec::with_capacity(playing.len()), Vec::new(), 0);
        let mut masks: Vec<bool> = Vec::new();
        let (width, n_actions) = (self.network.n_inputs(), self.network.n_actions());
        let n_parts = self.policy.n_choices().len();
        while playing.iter().any(|episode| episode.last_value.is_none()) {
            check_length(t, MAX_EPISODE_STEPS)?;
            seen.clear();
            seen.extend_from_slice(self.vector.observations());
            masks.clear();
            masks.extend(self.vector.action_mask().unwrap_or_default());
            self.say(&seen)?;
            let mut stream = KeyedRng::new(seed, "reinforce actions", n_updates << 20 | t);
            actions.clear();
            self.policy
                .sample_into(&self.said.logits, &mut stream, &mut actions)?;
            self.vector.step(Actions::Discrete(&actions))?;
            for (idx, episode) in playing
                .iter_mut()
                .enumerate()
                .filter(|(_, e)| e.last_value.is_none())
            {
                let step = self.vector.last_step();
                episode.observations.extend(&seen[idx * width..][..width]);
                episode.actions.extend(&actions[idx * n_parts..][..n_parts]);
                if !masks.is_empty() {
                    let flags = &masks[idx * n_actions..][..n_actions];
                    episode.masks.extend(penalties(flags.iter().copied()));
                }
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
        let vector = self.vector.as_ref();
        let step = vector.last_step();
        let is_stopped = |idx: usize| step.truncated[idx] && playing[idx].last_value.is_none();
        let stopped: Vec<usize> = (0..playing.len()).filter(|&idx| is_stopped(idx)).collect();
        if stopped.is_empty() {
            return Ok(());
        }
        let mut seen = Vec::new();
        last_observations(vector, &mut seen)?;
        self.say(&seen)?;
        for idx in stopped {
            playing[idx].last_value = Some(self.said.values[idx]);
        }
        Ok(())
    }

    /// What the network says of these observations, into `self.said`.
    fn say(&mut self, observations: &[f32]) -> Result<(), Error> {
        let seen = Seen {
            observations,
            mask: self.vector.action_mask(),
        };
        self.acting
            .run(&self.params, seen, &self.state, &mut self.said)
    }

    fn learn(&mut self, batch: &EpisodeBatch) -> Result<PolicyUpdate, Error> {
        let n = batch.returns.len();
        let n_actions = self.network.n_actions();
        let mut one_hot = Vec::with_capacity(n * n_actions);
        self.policy.one_hot_into(&batch.actions, &mut one_hot)?;
        let (network, policy, loss) = (&self.network, &self.policy, &self.reinforce.loss);
        policy_step(
            &self.device,
            &mut self.params,
            &mut self.optimiser,
            |ctx: &mut dyn Ctx| {
                let observations =
                    ctx.input(Shape::new(n, network.n_inputs()), &batch.observations)?;
                let said = network.apply(ctx, observations)?;
                let mut logits = said.logits;
                if !batch.masks.is_empty() {
                    let masks = ctx.input(Shape::new(n, n_actions), &batch.masks)?;
                    logits = ctx.add(logits, masks)?;
                }
                let actions = ctx.input(Shape::new(n, n_actions), &one_hot)?;
                let returns = ctx.input(Shape::new(n, 1), &batch.returns)?;
                loss.apply(ctx, policy, logits, Some(said.values), actions, returns)
            },
        )
    }
}

impl StartTrainer for ReinforceTrainer {
    fn new(
        config: &AgentConfig,
        options: &RunOptions,
        _: Place,
    ) -> Result<ReinforceTrainer, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let (reinforce, device) = (config.algorithm.reinforce()?, &options.device);
        let (params, network) = build_policy(&environments, &reinforce.network, config.seed)?;
        let n_episodes = reinforce.batch_episodes;
        let has_mask = environments.spaces().has_mask();
        Ok(ReinforceTrainer {
            policy: SoftmaxPolicy::build("policy", environments.spaces().action())?,
            optimiser: Optimiser::new(reinforce.optimiser, params.trained_len())?,
            acting: PolicyProgram::new(&params, &network, n_episodes, has_mask, device)?,
            state: MemoryState::new(&network, n_episodes),
            said: Said::default(),
            vector: environments.vector(n_episodes)?,
            run: RunState::first(config, 1, device),
            reinforce: reinforce.clone(),
            device: device.clone(),
            params,
            network,
        })
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<ReinforceTrainer, Error> {
        let (run, NoMore {}) = RunState::of(checkpoint, &options.device)?;
        let mut trainer = ReinforceTrainer::new(&run.config, options, place)?;
        restore(checkpoint, |state| {
            trainer.params.set_flat(&state.f32s("weights")?)?;
            Ok(trainer.optimiser.restore(state.u8s("optimiser")?)?)
        })?;
        trainer.run = run;
        Ok(trainer)
    }
}

impl RankTrainer for ReinforceTrainer {
    fn to_checkpoint(&self, _: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        self.params.sync()?;
        self.optimiser.sync()?;
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.params.flat())?;
        tensors.add_u8("optimiser", self.optimiser.to_bytes())?;
        self.run.to_checkpoint(NoMore {}, &tensors).map(Some)
    }

    /// A batch of episodes and one step.
    fn advance(&mut self, _: &mut Comm, _: Timeout) -> Result<Advance, Error> {
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

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        &self.params
    }
}
