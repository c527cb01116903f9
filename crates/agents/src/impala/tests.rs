//! Tests of IMPALA: lock step as the anchor, the queue's bounds, and actors that die at every message.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use std::time::Duration;

use shardgraph_collectives::Deadline;
use shardgraph_device::Device;

use super::actor::Actor;
use super::config::ImpalaConfig;
use super::learner::Learner;
use super::lock_step::ImpalaLockStep;
use super::ranks::{act, run_learner, train_on_threads};
use super::trajectory::Unroll;
use crate::config::{AgentConfig, Algorithm, EnvironmentConfig, SCHEMA_VERSION};
use crate::local::{Local, train_locally};
use crate::run::{RunOptions, Start};
use crate::topology::{TopologyOutcome, ports, run_ranks};

fn small(lstm: Option<usize>) -> ImpalaConfig {
    let mut impala = ImpalaConfig {
        unroll_steps: 7,
        batch_trajectories: 6,
        ..ImpalaConfig::default()
    };
    impala.network.hidden = vec![16];
    impala.network.lstm = lstm;
    impala
}

fn config(impala: &ImpalaConfig, (steps, n_environments): (u64, usize)) -> AgentConfig {
    let config = AgentConfig {
        schema_version: SCHEMA_VERSION,
        seed: 3,
        steps,
        checkpoint_steps: 500,
        environment: EnvironmentConfig::CartPole { n_environments },
        algorithm: Algorithm::Impala(impala.clone()),
    };
    config.check().unwrap();
    config
}

fn lock_step(lstm: Option<usize>) -> ImpalaConfig {
    ImpalaConfig {
        n_actors: 1,
        lock_step: true,
        ..small(lstm)
    }
}

fn options() -> RunOptions {
    RunOptions {
        deadline: Deadline::after(Duration::from_secs(30)),
        ..RunOptions::default()
    }
}

fn start_of(config: &AgentConfig) -> Start {
    Start::New {
        config: config.clone(),
        folder: None,
    }
}

#[test]
fn in_lock_step_ranks_give_the_bits_of_one_thread() {
    for lstm in [None, Some(5)] {
        let impala = lock_step(lstm);
        let config = config(&impala, (2000, 6));
        let start = start_of(&config);
        let expected = train_locally::<ImpalaLockStep>(&start, &options(), &mut |_| ()).unwrap();
        assert_eq!(expected.n_updates, 48); // 42 steps each
        for _ in 0..2 {
            let ranks =
                train_on_threads((&config, &impala), &start, &options(), &mut |_| ()).unwrap();
            assert_eq!(ranks.weights_hash(), expected.weights_hash());
            assert_eq!(
                (ranks.n_steps, ranks.n_updates),
                (expected.n_steps, expected.n_updates)
            );
            assert_eq!(
                (ranks.mean_return, ranks.lag.max()),
                (expected.mean_return, 0)
            );
        }
    }
}

#[test]
fn a_lock_step_goes_on_from_every_checkpoint_as_if_it_had_never_stopped() {
    let config = config(&lock_step(Some(5)), (10_000, 6));
    let mut whole = ImpalaLockStep::new(&config, &Device::host()).unwrap();
    let mut checkpoints = Vec::new();
    for _ in 0..12 {
        checkpoints.push(whole.to_checkpoint().unwrap());
        whole.advance().unwrap();
    }
    let expected = whole.to_checkpoint().unwrap().to_bytes();
    for (n_done, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = ImpalaLockStep::of_checkpoint(checkpoint, &Device::host()).unwrap();
        for _ in n_done..12 {
            resumed.advance().unwrap();
        }
        assert!(
            resumed.to_checkpoint().unwrap().to_bytes() == expected,
            "cut after {n_done}"
        );
    }
}

/// One actor has at most 2 unrolls on their way, of which 3 make a batch: its weights are at most an update old.
#[test]
fn the_policy_lag_of_one_actor_is_bounded() {
    let impala = ImpalaConfig {
        n_actors: 1,
        ..small(None)
    };
    let config = config(&impala, (3000, 2));
    let outcome = train_on_threads(
        (&config, &impala),
        &start_of(&config),
        &options(),
        &mut |_| (),
    )
    .unwrap();
    assert!(outcome.lag.max() <= 1, "{:?}", outcome.lag);
    assert_eq!(outcome.n_updates, outcome.n_steps / 42);
}

/// Where an episode is stopped by the limit, its last reward has the value of what would have followed; where it ended, it has not.
#[test]
fn truncated_episodes_go_on_in_their_last_reward() {
    let impala = small(None);
    let mut actor = Actor::new(&impala, 2, 1, 0, &Device::host()).unwrap();
    let mut unroll = Unroll::default();
    let (mut n_terminated, mut rewards) = (0, Vec::new());
    for _ in 0..40 {
        actor.collect(&mut unroll).unwrap();
        for (reward, discount) in unroll.rewards.iter().zip(&unroll.discounts) {
            n_terminated += u32::from(*discount == 0.0);
            rewards.push(*reward);
        }
    }
    assert!(n_terminated > 5 && rewards.iter().all(|reward| *reward == 1.0)); // random pushes never reach the limit
    let mut carts = actor.carts.to_bytes();
    // After the header of 12 bytes, 52 a cart: at 44 of each the number of its steps. The limit is at 500.
    for cart in 0..2 {
        let at = 12 + 52 * cart + 44;
        carts[at..at + 4].copy_from_slice(&499u32.to_le_bytes());
    }
    actor.carts.restore(&carts).unwrap();
    actor.collect(&mut unroll).unwrap();
    let (first, discounts) = (&unroll.rewards[..2], &unroll.discounts[..2]);
    assert_eq!(discounts, [0.0, 0.0]);
    let is_worth_more = first.iter().filter(|reward| **reward != 1.0).count();
    let n_fallen = 2 - is_worth_more;
    assert!(is_worth_more > 0 && n_fallen < 2, "{first:?}");
    assert_eq!(unroll.begins[2..4], [1.0, 1.0]);
}

/// Unrolls of another network or number are refused.
#[test]
fn unrolls_that_do_not_fit_are_named() {
    let impala = small(None);
    let mut learner = Learner::new(&impala, 1, &Device::host()).unwrap();
    let mut actor = Actor::new(&impala, 2, 1, 0, &Device::host()).unwrap();
    let mut unroll = Unroll::default();
    actor.collect(&mut unroll).unwrap();
    let message = learner
        .update(&[unroll.clone(), unroll.clone()])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("expected 6 trajectories, given 4"),
        "{message}"
    );
    let mut wrong = unroll.clone();
    wrong.actions[3] = 2;
    assert!(
        learner
            .update(&[unroll.clone(), wrong, unroll.clone()])
            .is_err()
    );
    let mut wrong = unroll.clone();
    wrong.rewards.pop();
    assert!(
        learner
            .update(&[unroll.clone(), unroll.clone(), wrong])
            .is_err()
    );
    learner
        .update(&[unroll.clone(), unroll.clone(), unroll])
        .unwrap();
}

fn run_with_a_victim(
    impala: &ImpalaConfig,
    (victim, n_messages): (u32, u64),
) -> (TopologyOutcome, Vec<bool>) {
    let config = config(impala, (4000, 2));
    let (settings, options) = ((&config, impala), options());
    let ports = ports(impala.n_ranks(), options.deadline).unwrap();
    ports[victim as usize].dies_after.set(Some(n_messages));
    let start = start_of(&config);
    let learn = |port| run_learner(port, settings, &start, &options, &mut |_| ());
    let (outcome, actors) = run_ranks(ports, learn, &|port| act(port, settings, &options));
    (outcome.unwrap(), actors.iter().map(Result::is_ok).collect())
}

#[test]
fn an_actor_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let impala = ImpalaConfig {
        n_actors: 3,
        ..small(None)
    };
    let mut n_named = 0;
    for n_messages in 0..10 {
        let (outcome, ended) = run_with_a_victim(&impala, (2, n_messages));
        assert!(outcome.n_steps >= 4000 && outcome.n_updates > 0);
        assert!(ended[0] && ended[2], "{ended:?}");
        // One that dies behind the end is not missed.
        let is_named = outcome.lost.iter().all(|lost| lost.starts_with("actor 2"));
        assert!(is_named && outcome.lost.len() <= 1, "{:?}", outcome.lost);
        n_named += outcome.lost.len();
    }
    assert!(n_named > 0);
}

#[test]
fn it_learns() {
    let mut impala = ImpalaConfig {
        unroll_steps: 20,
        batch_trajectories: 16,
        optimiser: shardgraph_components::OptimiserConfig {
            learning_rate: 3e-3,
            ..ImpalaConfig::default().optimiser
        },
        ..lock_step(None)
    };
    impala.network.hidden = vec![64];
    let config = config(&impala, (60_000, 16));
    let outcome =
        train_locally::<ImpalaLockStep>(&start_of(&config), &options(), &mut |_| ()).unwrap();
    assert!(
        outcome.mean_return.unwrap() > 60.0,
        "{:?}",
        outcome.mean_return
    ); // random actions give about 22
}
