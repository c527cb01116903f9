//! The training loop and its checkpoints at every kind of step.

use proptest::prelude::*;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::TdLoss;
use shardgraph_job::Checkpoint;

use super::small;
use crate::config::{AgentConfig, Algorithm};
use crate::dqn::{DqnTrainer, ExplorationConfig, PrioritizedConfig};
use crate::off_policy::OffPolicyAgent;
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::run_environments::EnvironmentConfig;
use crate::run_options::RunOptions;

/// Small runs of every kind: plain, or with everything that DQN was extended by.
fn run_config(is_rainbow: bool, n_environments: usize, seed: u64) -> AgentConfig {
    let mut dqn = small(8, 2);
    dqn.learning_starts = 40;
    dqn.train_every = 6;
    dqn.target_sync_steps = 50;
    dqn.replay.capacity = 100;
    if is_rainbow {
        dqn.double = true;
        dqn.n_step = 3;
        dqn.network.dueling = Some(vec![3]);
        dqn.replay.prioritized = Some(PrioritizedConfig::default());
        dqn.td_loss = TdLoss::Huber { delta: 1.0 };
    }
    AgentConfig {
        schema_version: 1,
        seed,
        steps: 400,
        checkpoint_steps: 100,
        environment: EnvironmentConfig::named("cartpole", n_environments),
        algorithm: Algorithm::Dqn(dqn),
    }
}

fn begin(config: &AgentConfig) -> DqnTrainer {
    DqnTrainer::begin(config, &RunOptions::default()).unwrap()
}

fn bytes(trainer: &DqnTrainer) -> Vec<u8> {
    let learner = trainer.agent.learner();
    trainer.run.to_checkpoint(learner).unwrap().to_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_run_that_was_stopped_anywhere_ends_the_same(
        is_rainbow: bool,
        n_environments in 1usize..5,
        seed in 0u64..1000,
        stop in 0u64..400,
    ) {
        let config = run_config(is_rainbow, n_environments, seed);
        let mut whole = begin(&config);
        whole.advance_to(stop).unwrap();
        let stopped = Checkpoint::from_bytes(&bytes(&whole)).unwrap();
        whole.advance_to(400).unwrap();
        let mut resumed = DqnTrainer::of_checkpoint(&stopped, &RunOptions::default(), Place::ALONE).unwrap();
        resumed.advance_to(400).unwrap();
        prop_assert!(bytes(&resumed) == bytes(&whole));
        prop_assert!(whole.run.n_updates > 50);
    }
}

#[test]
fn updates_and_copies_come_at_their_steps() {
    let mut config = run_config(false, 1, 1);
    let Algorithm::Dqn(dqn) = &mut config.algorithm else {
        panic!("another algorithm")
    };
    dqn.replay.capacity = 1000;
    let mut trainer = begin(&config);
    let (mut updated_at, mut equal_at) = (Vec::new(), Vec::new());
    while trainer.run.n_steps < 60 {
        let n_updates = trainer.run.n_updates;
        trainer
            .advance(&mut Comm::solo(), Timeout::default())
            .unwrap();
        updated_at.extend((trainer.run.n_updates > n_updates).then_some(trainer.run.n_steps));
        let weights = trainer.agent.params().flat();
        let (online, target) = weights.split_at(weights.len() / 2);
        equal_at.extend((online == target).then_some(trainer.run.n_steps));
    }
    assert_eq!(updated_at, [42, 48, 54, 60]);
    let expected: Vec<u64> = (1..42).chain(50..54).collect(); // until the first update, and from the copy to the next
    assert_eq!(equal_at, expected);
    // Four environments take four steps at a time; updates are as many.
    let config = run_config(false, 4, 1);
    let mut trainer = begin(&config);
    trainer.advance_to(400).unwrap();
    assert_eq!(trainer.run.n_updates, 400 / 6 - 36 / 6);
    let exploration = ExplorationConfig::default().schedule(400);
    assert_eq!(
        [0, 100, 200, 400].map(|step| exploration.at(step)),
        [1.0, 0.525, 0.05, 0.05]
    );
}

/// Four environments at a time: at steps 49 to 52 the copy of step 51 comes before the update of step 52.
#[test]
fn what_is_due_within_a_step_comes_in_its_order() {
    let mut config = run_config(false, 4, 1);
    let Algorithm::Dqn(dqn) = &mut config.algorithm else {
        panic!("another algorithm")
    };
    (dqn.train_every, dqn.target_sync_steps) = (4, 3);
    let mut trainer = begin(&config);
    let is_equal = |trainer: &DqnTrainer| {
        let weights = trainer.agent.params().flat();
        let (online, target) = weights.split_at(weights.len() / 2);
        online == target
    };
    trainer.advance_to(48).unwrap();
    assert!(is_equal(&trainer)); // both at step 48
    trainer.advance_to(52).unwrap();
    assert!(!is_equal(&trainer));
}

/// The step of 32 environments from 32 to 64 has all that is due from step 40 on, each as of its own step, and nothing of before.
#[test]
fn a_large_step_learns_from_learning_starts_on() {
    let at_step_64 = |learning_starts: u64| {
        let mut config = run_config(true, 32, 1);
        let Algorithm::Dqn(dqn) = &mut config.algorithm else {
            panic!("another algorithm")
        };
        (dqn.learning_starts, dqn.n_step) = (learning_starts, 1);
        let mut trainer = begin(&config);
        trainer.advance_to(64).unwrap();
        trainer
    };
    let trainer = at_step_64(40);
    let mut expected = at_step_64(1000);
    assert_eq!((trainer.run.n_updates, expected.run.n_updates), (4, 0));
    for step in [42, 48, 50, 54, 60] {
        match step {
            50 => expected.agent.sync_target().unwrap(),
            _ => {
                let (comm, timeout) = (&mut Comm::solo(), Timeout::default());
                let run = &mut expected.run;
                expected.agent.learn(run, step, comm, timeout).unwrap();
                run.n_updates += 1;
            }
        }
    }
    assert_eq!(
        trainer.agent.params().flat(),
        expected.agent.params().flat()
    );
    assert_eq!(
        trainer.run.replay.priorities(),
        expected.run.replay.priorities()
    );
}

/// A batch of as many rows as there are of equal priority has each of them once.
#[test]
fn td_errors_become_priorities() {
    let mut config = run_config(true, 1, 1);
    let Algorithm::Dqn(dqn) = &mut config.algorithm else {
        panic!("another algorithm")
    };
    dqn.learning_starts = 42;
    dqn.batch_size = 42;
    dqn.n_step = 1;
    let mut trainer = begin(&config);
    trainer.advance_to(41).unwrap();
    assert_eq!(trainer.run.replay.priorities(), [1.0; 41]);
    trainer.advance_to(42).unwrap();
    assert_eq!(trainer.run.n_updates, 1);
    let mut expected: Vec<f32> = trainer.agent.td_errors().to_vec();
    let power = |error: &mut f32| *error = (error.abs() + 1e-6).powf(0.6);
    expected.iter_mut().for_each(power);
    let mut found = trainer.run.replay.priorities();
    found.sort_by(f32::total_cmp);
    expected.sort_by(f32::total_cmp);
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

/// What the memory holds of an episode that is followed by hand to its fall.
#[test]
fn an_episode_that_ended_leaves_a_discount_of_0_and_its_own_last_observation() {
    let config = run_config(false, 1, 3);
    let mut trainer = begin(&config);
    let mut n_episodes = 0;
    while n_episodes == 0 {
        let report = trainer
            .advance(&mut Comm::solo(), Timeout::default())
            .unwrap();
        n_episodes = report.episodes.len();
    }
    let stored = trainer.run.replay.rows_in_order();
    let n = stored.len();
    let discounts = stored.f32s(4);
    assert!(
        discounts[..n - 1].iter().all(|&discount| discount == 0.99),
        "{discounts:?}"
    );
    assert_eq!(discounts[n - 1], 0.0, "the pole fell");
    let (observations, next) = (stored.f32s(0), stored.f32s(3));
    assert_eq!(next[..4 * (n - 1)], observations[4..]);
    let angle = next[4 * (n - 1) + 2].abs();
    let position = next[4 * (n - 1)].abs();
    assert!(
        angle > 0.2 || position > 2.3,
        "the state after the fall, not the next first one"
    );
}
