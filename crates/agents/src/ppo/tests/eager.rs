//! Updates of a rollout against the same ones define-by-run over whole minibatches, and what a limit leaves behind.

use shardgraph_autodiff::{Ctx, Eager, Params, Shape, Var};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{ActionDistribution, ActorCritic, PpoBatch, PpoLoss, PpoOutput};
use shardgraph_device::Device;

use crate::config::AgentConfig;
use crate::experience::tests::{put_before_the_fall, put_before_the_limit};
use crate::observations::Seen;
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};
use crate::ppo::block::Rollout;
use crate::ppo::trainer::PpoTrainer;
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::run_environments::Environments;
use crate::run_options::RunOptions;
use crate::tests::environments::{cartpole, corridors};

const RATE: f32 = 0.05;

fn trainer(environment: &str, own: Option<Environments>, algorithm: &str) -> PpoTrainer {
    let text = format!(
        "steps = 4096\nenvironment = {{ name = '{environment}', n_environments = 4 }}
         algorithm = {{ name = 'ppo', initialisation = 'fan_in', network = {{ hidden = [8] }}, {algorithm} }}"
    );
    let config = AgentConfig::from_toml(&text).unwrap();
    let options = RunOptions {
        environments: own,
        ..RunOptions::default()
    };
    let place = Place {
        rank: 0,
        n_ranks: 1,
    };
    PpoTrainer::new(&config, &options, place).unwrap()
}

/// What learns, and from what.
struct Learned<'a> {
    loss: PpoLoss,
    network: &'a ActorCritic,
    policy: &'a ActionDistribution,
    has_mask: bool,
}

/// Rows of the rollouts of all blocks, one block's minibatch behind the other's.
struct Minibatch<'a> {
    rollouts: Vec<&'a Rollout>,
    orders: Vec<&'a [u32]>,
}

impl Minibatch<'_> {
    fn rows<T: Copy>(&self, list: impl Fn(&Rollout) -> &[T], width: usize) -> Vec<T> {
        let mut all = Vec::new();
        for (rollout, order) in self.rollouts.iter().zip(&self.orders) {
            for &row in *order {
                all.extend(&list(rollout)[row as usize * width..][..width]);
            }
        }
        all
    }

    /// With mean 0 and deviation 1.
    fn normalised_advantages(&self) -> Vec<f32> {
        let all = self.rows(|of| &of.advantages, 1);
        let n = all.len() as f64;
        let mean = all.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let squares = all.iter().map(|&x| (f64::from(x) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (n - 1.0)).sqrt();
        let normalise = |&x: &f32| ((f64::from(x) - mean) / deviation) as f32;
        all.iter().map(normalise).collect()
    }

    fn output(&self, ctx: &mut Eager<'_>, learned: &Learned<'_>) -> PpoOutput {
        let Learned {
            loss,
            network,
            policy,
            has_mask,
        } = *learned;
        let actions = match policy {
            ActionDistribution::Gaussian(policy) => self.rows(|of| &of.drawn, policy.n_elements()),
            ActionDistribution::Softmax(policy) => {
                let taken = self.rows(|of| &of.actions, policy.n_choices().len());
                let mut rows = Vec::new();
                policy.one_hot_into(&taken, &mut rows).unwrap();
                rows
            }
        };
        let n: usize = self.orders.iter().map(|order| order.len()).sum();
        let mut input = |values: &[f32]| -> Var {
            let shape = Shape::new(n, values.len() / n);
            ctx.input(shape, values).unwrap()
        };
        let observations = input(&self.rows(|of| &of.observations, network.n_inputs()));
        let batch = PpoBatch {
            actions: input(&actions),
            mask: has_mask.then(|| input(&self.rows(|of| &of.masks, network.n_actions()))),
            behaviour: input(&self.rows(|of| &of.behaviour, 1)),
            advantages: input(&self.normalised_advantages()),
            returns: input(&self.rows(|of| &of.returns, 1)),
            old_values: input(&self.rows(|of| &of.values, 1)),
        };
        let said = network.apply(ctx, observations).unwrap();
        loss.apply(ctx, policy, said, &batch).unwrap()
    }
}

/// The weights after a rollout's two minibatches, and the divergence before the first of them.
fn expected(trainer: &PpoTrainer, mut params: Params, learned: &Learned<'_>) -> (Vec<f32>, f32) {
    let mut first_kl = None;
    for minibatch in 0..2 {
        let half = |order: &[u32]| order.len() / 2 * minibatch..order.len() / 2 * (minibatch + 1);
        let batch = Minibatch {
            rollouts: trainer.blocks.iter().map(|of| &of.rollout).collect(),
            orders: trainer.orders.iter().map(|of| &of[half(of)]).collect(),
        };
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, &params);
        let out = batch.output(&mut ctx, learned);
        first_kl = first_kl.or(Some(ctx.values(out.kl).unwrap()[0]));
        let gradient = ctx.param_gradient(out.loss).unwrap();
        let stepped = params.trained().iter().zip(&gradient);
        let stepped: Vec<f32> = stepped.map(|(w, g)| w - RATE * g).collect();
        params.set_trained(&stepped).unwrap();
    }
    (params.trained().to_vec(), first_kl.unwrap())
}

/// Masks, parts of an action, continuous actions, clipped values: what acted is what learns, so that the first minibatch sees no divergence.
#[test]
fn updates_are_the_eager_ones() {
    let settings = format!(
        "rollout_steps = 16, n_epochs = 1, n_minibatches = 2, gradient_blocks = 2, anneal_learning_rate = false,
         loss = {{ value_clip = 0.1 }}, optimiser = {{ rule = 'sgd', learning_rate = {RATE} }}"
    );
    let settings = settings.replace('\n', " ");
    for (name, own) in [
        ("corridor", Some(corridors(false))),
        ("corridor", Some(corridors(true))),
        ("cartpole", None),
        ("pendulum", None),
    ] {
        let mut trainer = trainer(name, own.clone(), &settings);
        let options = RunOptions {
            environments: own,
            ..RunOptions::default()
        };
        let environments = options.environments_of(&trainer.run.config).unwrap();
        let has_mask = environments.spaces().has_mask();
        let ppo = trainer.run.config.algorithm.ppo().unwrap().clone();
        let (params, network) = build_policy(&environments, &ppo.network, 1).unwrap();
        assert_eq!(params.trained(), trainer.params.trained());
        trainer
            .advance(&mut Comm::solo(), Timeout::default())
            .unwrap();
        let learned = Learned {
            loss: ppo.loss,
            network: &network,
            policy: &trainer.policy,
            has_mask,
        };
        let (expected, first_kl) = expected(&trainer, params, &learned);
        assert!(first_kl.abs() < 1e-5, "{name}: {first_kl}");
        for (given, expected) in trainer.params.trained().iter().zip(&expected) {
            assert!(
                (given - expected).abs() < 2e-5,
                "{name}: {given} {expected}"
            );
        }
    }
}

/// Carts that a limit stops have, in their last reward, gamma times the value of the observation that it stopped them at. One that falls
/// in the same step has not.
#[test]
fn a_limit_adds_the_value_of_the_episodes_own_last_observation() {
    let mut trainer = trainer("cartpole", None, "rollout_steps = 1, n_minibatches = 1");
    let block = &mut trainer.blocks[0];
    (0..2).for_each(|idx| put_before_the_limit(block.vector.as_mut(), idx));
    put_before_the_fall(block.vector.as_mut(), 2);
    block.collect(&trainer.params, &trainer.policy, 0).unwrap();
    let last = |idx: usize| match block.vector.final_observation(idx) {
        Some(own) => own.to_vec(),
        None => block.vector.observations()[4 * idx..][..4].to_vec(),
    };
    let last = [0, 1, 2, 3].map(last).concat();
    assert_ne!(last, block.vector.observations(), "new episodes began");
    let network = &trainer.run.config.algorithm.ppo().unwrap().network;
    let (params, network) = build_policy(&cartpole(), network, 1).unwrap();
    let mut program = PolicyProgram::new(&params, &network, 4, false, &Device::host()).unwrap();
    let (state, mut said) = (MemoryState::new(&network, 4), Said::default());
    let seen = Seen::from(&last[..]);
    program.run(&params, seen, &state, &mut said).unwrap();
    let gained = [0, 1, 2, 3].map(|idx| {
        if idx < 2 {
            0.99 * said.values[idx]
        } else {
            0.0
        }
    });
    let rollout = &trainer.blocks[0].rollout;
    assert_eq!(rollout.rewards, gained.map(|gain| 1.0 + gain));
    assert_eq!(rollout.ended, [true, true, true, false]);
    for idx in 0..4 {
        let after = if idx < 3 {
            0.0
        } else {
            0.99 * said.values[idx]
        };
        let expected = rollout.rewards[idx] + after;
        assert!((rollout.returns[idx] - expected).abs() < 1e-5, "{idx}");
    }
    assert!(said.values.iter().all(|value| *value != 0.0));
}
