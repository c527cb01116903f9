//! The training loop: a rollout of every environment, some epochs over it in minibatches, and anew.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{ActionDistribution, Initialiser, Optimiser};
use shardgraph_device::Device;
use shardgraph_job::{Checkpoint, Ranks, tags};
use shardgraph_random::KeyedRng;

use super::block::Block;
use super::checkpoint::{More, checkpoint_of, gather_episodes, restore_blocks};
use super::config::PpoConfig;
use super::update::{Losses, UpdateProgram};
use crate::advance::Advance;
use crate::checkpoint::{Learner, RunState, restore};
use crate::config::AgentConfig;
use crate::error::{Error, diverged};
use crate::policy_program::build_policy_by;
use crate::rank_trainer::{Place, RankTrainer, Standing, StartTrainer};
use crate::rules::Rule;
use crate::run_options::RunOptions;

/// The divergence of the policy from the one that acted.
const KL: &str = "train/kl";
/// The step size of an update.
const LEARNING_RATE: &str = "train/learning_rate";

/// One rank's part of a run: its blocks of environments, and the policy, which all ranks have alike.
///
/// # Determinism
/// Steps, updates and weights have the same bits for any number of ranks up to [`PpoConfig::gradient_blocks`], and whether or not the run
/// was stopped and resumed. Each random number comes from a stream of (seed, purpose, block and rollout or epoch).
#[derive(Debug)]
pub(crate) struct PpoTrainer {
    pub(super) run: RunState,
    ppo: PpoConfig,
    device: Device,
    pub(super) params: Params,
    pub(super) policy: ActionDistribution,
    optimiser: Optimiser,
    /// Those of this rank.
    pub(super) blocks: Vec<Block>,
    update: UpdateProgram,
    /// Of each block the order in which its steps are learned from.
    pub(super) orders: Vec<Vec<u32>>,
    advantages: Vec<f32>,
}

/// Mean and inverse deviation of the advantages of a minibatch.
#[derive(Debug, Clone, Copy)]
struct Moments {
    mean: f32,
    scale: f32,
}

/// Added to the deviation of advantages before they are divided by it.
const EPSILON: f32 = 1e-8;

impl PpoTrainer {
    /// The number of rollouts so far.
    fn n_rollouts(&self) -> u64 {
        self.run.n_steps / self.rollout_rows()
    }

    /// Steps of all environments in a rollout.
    fn rollout_rows(&self) -> u64 {
        (self.run.config.environment.n_environments * self.ppo.rollout_steps) as u64
    }

    /// The step size of the next updates.
    fn set_learning_rate(&mut self) -> Result<f32, Error> {
        let mut rate = self.ppo.optimiser.learning_rate;
        if self.ppo.anneal_learning_rate {
            let rest = 1.0 - self.run.n_steps as f64 / self.run.config.steps as f64;
            // A run that is prolonged goes on in small steps.
            rate = (f64::from(rate) * rest.max(1e-6)) as f32;
        }
        self.optimiser.set_learning_rate(rate)?;
        Ok(rate)
    }

    /// One pass over the steps of the rollout in minibatches; gives the mean of their losses.
    fn epoch(&mut self, epoch: u64, comm: &mut Comm, timeout: Timeout) -> Result<Losses, Error> {
        let key = self.n_rollouts() << 10 | epoch;
        for (block, order) in self.blocks.iter().zip(&mut self.orders) {
            let key = (block.index << 48) | key;
            shuffle(
                order,
                &mut KeyedRng::new(self.run.config.seed, "ppo minibatches", key),
            );
        }
        let moments = self.moments(comm, timeout)?;
        let mut sums = [0.0; Losses::N];
        for (minibatch, moments) in moments.iter().enumerate() {
            self.learn(minibatch, *moments, comm, timeout)?;
            let losses = self.update.blocks.numbers();
            sums.iter_mut().zip(losses).for_each(|(sum, x)| *sum += x);
        }
        let n = self.ppo.n_minibatches as f32;
        Ok(Losses::of(&sums.map(|sum| sum / n)))
    }

    /// One step of the optimiser on a minibatch: of each block the same number of its steps.
    fn learn(
        &mut self,
        minibatch: usize,
        moments: Moments,
        comm: &mut Comm,
        timeout: Timeout,
    ) -> Result<(), Error> {
        let _ = self.update.blocks.begin(comm)?; // they are those of `blocks`
        for (block, order) in self.blocks.iter().zip(&self.orders) {
            let n = order.len() / self.ppo.n_minibatches;
            let rows = &order[minibatch * n..(minibatch + 1) * n];
            let advantages = &block.rollout.advantages;
            self.advantages.clear();
            let normalised = rows
                .iter()
                .map(|&row| (advantages[row as usize] - moments.mean) * moments.scale);
            self.advantages.extend(normalised);
            self.update
                .set(&block.rollout, rows, &self.advantages, &self.policy)?;
            self.update.blocks.run_block(
                block.index as usize,
                &mut self.params,
                &mut self.optimiser,
            )?;
        }
        let losses = self.update.blocks.sum(comm, timeout)?;
        if !losses[0].is_finite() {
            return Err(diverged("Ppo", "update", "the loss"));
        }
        self.update
            .blocks
            .step(&mut self.params, &mut self.optimiser)?;
        self.run.n_updates += 1;
        Ok(())
    }

    /// Of each minibatch of an epoch. The sums over blocks are exact, so that they have the same bits for every number of ranks.
    fn moments(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Vec<Moments>, Error> {
        let m = self.ppo.n_minibatches;
        if !self.ppo.normalise_advantages {
            let as_they_are = Moments {
                mean: 0.0,
                scale: 1.0,
            };
            return Ok(vec![as_they_are; m]);
        }
        let n = (self.rollout_rows() / m as u64) as f32;
        let sums = self.sums(comm, timeout, &mut |_, x| x)?;
        let means: Vec<f32> = sums.iter().map(|sum| sum / n).collect();
        let squares = self.sums(comm, timeout, &mut |minibatch, x| {
            (x - means[minibatch]) * (x - means[minibatch])
        })?;
        let of_each = means.iter().zip(&squares).map(|(&mean, square)| {
            let deviation = (square / (n - 1.0).max(1.0)).sqrt();
            Moments {
                mean,
                scale: 1.0 / (deviation + EPSILON),
            }
        });
        Ok(of_each.collect())
    }

    /// The sum over each minibatch of what `term` makes of its advantages.
    fn sums(
        &self,
        comm: &mut Comm,
        timeout: Timeout,
        term: &mut dyn FnMut(usize, f32) -> f32,
    ) -> Result<Vec<f32>, Error> {
        let m = self.ppo.n_minibatches;
        let mut partials = Vec::with_capacity(m * self.blocks.len());
        for (block, order) in self.blocks.iter().zip(&self.orders) {
            for (minibatch, rows) in order.chunks_exact(order.len() / m).enumerate() {
                let terms = rows
                    .iter()
                    .map(|&row| f64::from(term(minibatch, block.rollout.advantages[row as usize])));
                partials.push(terms.sum::<f64>() as f32);
            }
        }
        if self.ppo.gradient_blocks == 1 {
            return Ok(partials);
        }
        let mut sums = vec![0.0; m];
        comm.exact_sum(&partials, &mut sums, timeout)?;
        Ok(sums)
    }

    /// Epochs until their number is reached, or the policy is too far from the one that acted; gives the losses of the last.
    fn epochs(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Losses, Error> {
        let mut losses = Losses::default();
        for epoch in 0..self.ppo.n_epochs {
            losses = self.epoch(epoch as u64, comm, timeout)?;
            if self.ppo.target_kl.is_some_and(|target| losses.kl > target) {
                break;
            }
        }
        Ok(losses)
    }
}

impl StartTrainer for PpoTrainer {
    fn new(config: &AgentConfig, options: &RunOptions, place: Place) -> Result<PpoTrainer, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let (ppo, device) = (config.algorithm.ppo()?, &options.device);
        Self::check_ranks(config, place.n_ranks)?;
        let (params, network) = build_policy_by(
            &environments,
            &ppo.network,
            Initialiser {
                rule: ppo.initialisation,
                seed: config.seed,
            },
        )?;
        let policy = ActionDistribution::build("policy", environments.spaces().action())?;
        let n_environments = config.environment.n_environments;
        let own = (0..ppo.gradient_blocks as u64)
            .filter(|block| block % u64::from(place.n_ranks) == u64::from(place.rank));
        let blocks = own
            .map(|index| Block::new(config, ppo, &environments, &params, &network, index, device));
        let blocks = blocks.collect::<Result<Vec<Block>, Error>>()?;
        let block_rows = ppo.block_rows(n_environments);
        let has_mask = environments.spaces().has_mask();
        let n_rows = block_rows / ppo.n_minibatches;
        Ok(PpoTrainer {
            run: RunState::first(config, 1, device),
            optimiser: Optimiser::new(ppo.optimiser, params.trained_len())?,
            update: UpdateProgram::new(ppo, &params, &network, &policy, has_mask, n_rows, device)?,
            orders: vec![(0..block_rows as u32).collect(); blocks.len()],
            blocks,
            advantages: Vec::new(),
            ppo: ppo.clone(),
            device: device.clone(),
            params,
            policy,
        })
    }

    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        Rule::ranks(n_ranks, config.algorithm.ppo()?.gradient_blocks).check()
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<PpoTrainer, Error> {
        let (run, More { blocks }) = RunState::of(checkpoint, &options.device)?;
        let mut trainer = PpoTrainer::new(&run.config, options, place)?;
        restore(checkpoint, |state| {
            trainer.params.set_flat(&state.f32s("weights")?)?;
            trainer.optimiser.restore(state.u8s("optimiser")?)?;
            restore_blocks(&mut trainer.blocks, &blocks, state)
        })?;
        trainer.run = run;
        Ok(trainer)
    }
}

impl RankTrainer for PpoTrainer {
    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let learner = Learner {
            params: &self.params,
            optimiser: &self.optimiser,
            device: &self.device,
        };
        checkpoint_of(&self.run, learner, &self.blocks, ranks)
    }

    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error> {
        let n_rollouts = self.n_rollouts();
        for block in &mut self.blocks {
            block.weights_changed();
            block.collect(&self.params, &self.policy, n_rollouts)?;
        }
        // The order of an epoch depends on the rollout alone, not on the ones before.
        for order in &mut self.orders {
            (0..).zip(order).for_each(|(row, place)| *place = row);
        }
        let rate = self.set_learning_rate()?;
        let losses = self.epochs(comm, timeout)?;
        let episodes = gather_episodes(&self.blocks, comm, timeout)?;
        for episode in &episodes {
            self.run.episodes.record(0, episode.episodic_return, true);
        }
        self.run.n_steps += self.rollout_rows();
        let is_logged = (n_rollouts + 1).is_multiple_of(self.ppo.log_rollouts);
        let line = || {
            vec![
                (tags::POLICY_LOSS, losses.policy),
                (tags::VALUE_LOSS, losses.value),
                (tags::ENTROPY, losses.entropy),
                (KL, losses.kl),
                (LEARNING_RATE, rate),
            ]
        };
        Ok(Advance {
            n_steps: self.rollout_rows(),
            episodes,
            losses: is_logged.then(line).into_iter().collect(),
            ..Advance::default()
        })
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        &self.params
    }
}

/// Fisher and Yates.
fn shuffle(order: &mut [u32], stream: &mut KeyedRng) {
    for last in (1..order.len()).rev() {
        let other = stream.below_u32(last as u32 + 1) as usize;
        order.swap(last, other);
    }
}
