//! Tests of REINFORCE: learning, resuming bit for bit, and rewards from any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_job::tags;

use super::config::ReinforceConfig;
use super::rewards::rewards;
use super::trainer::ReinforceTrainer;
use crate::config::{AgentConfig, Algorithm, SCHEMA_VERSION};
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::run::{Start, train};
use crate::run_environments::EnvironmentConfig;
use crate::run_options::RunOptions;
use crate::tests::environments::corridors;
use crate::tests::resuming::resume_from_every_checkpoint;

fn config(steps: u64) -> AgentConfig {
    let mut reinforce = ReinforceConfig::default();
    reinforce.network.hidden = vec![32];
    AgentConfig {
        schema_version: SCHEMA_VERSION,
        seed: 3,
        steps,
        checkpoint_steps: 500,
        environment: EnvironmentConfig::named("cartpole", 1),
        algorithm: Algorithm::Reinforce(reinforce),
    }
}

#[test]
fn a_run_goes_on_from_every_checkpoint_as_if_it_had_never_stopped() {
    resume_from_every_checkpoint::<ReinforceTrainer>(&config(10_000), 8);
}

/// A policy that is linear in what it sees keeps the pole up until the limit stops it; a constant push lets it fall.
fn with_policy(pushes: [f32; 4]) -> ReinforceTrainer {
    let mut config = config(10_000);
    let Algorithm::Reinforce(reinforce) = &mut config.algorithm else {
        panic!("another algorithm")
    };
    reinforce.network.hidden = Vec::new();
    reinforce.batch_episodes = 3;
    let mut trainer = ReinforceTrainer::new(&config, &RunOptions::default(), Place::ALONE).unwrap();
    // Action 1 pushes to the right; the value is 7 + x + 2 theta.
    let policy: Vec<f32> = pushes.iter().flat_map(|&w| [0.0, w]).collect();
    trainer.set_linear(&policy, &[0.0, 0.0], &[1.0, 0.0, 2.0, 0.0], &[7.0]);
    trainer
}

#[test]
fn an_episode_that_the_limit_stops_is_worth_its_last_observation() {
    let mut trainer = with_policy([100.0, 150.0, 1800.0, 300.0]);
    let playing = trainer.play().unwrap();
    assert_eq!(playing.len(), 3);
    for (idx, episode) in playing.iter().enumerate() {
        assert_eq!(episode.rewards.len(), 500);
        let mut cart = CartPoles::new(3, Autoreset::Disabled).unwrap();
        cart.reset(trainer.first_states());
        for step in 0..500 {
            assert_eq!(
                cart.observations()[idx][..],
                episode.observations[4 * step..][..4]
            );
            let actions = playing.iter().map(|other| other.actions[step]);
            cart.step(&actions.collect::<Vec<_>>()).unwrap();
        }
        let [x, _, theta, _] = cart.observations()[idx];
        let value = episode.last_value.unwrap();
        assert!((value - (7.0 + x + 2.0 * theta)).abs() < 1e-5, "{value}");
    }
}

#[test]
fn an_episode_that_falls_has_nothing_more_to_come() {
    let mut trainer = with_policy([0.0, 0.0, 0.0, 0.0]);
    for episode in trainer.play().unwrap() {
        assert!(episode.rewards.len() < 500);
        assert_eq!(episode.last_value, Some(0.0));
    }
}

/// Every cell of a corridor allows two turns of three, and both paces: of logits of 0 the entropy is that of as many.
#[test]
fn masks_count_in_what_is_learned() {
    for (has_pace, n_columns, n_choices) in [(false, 3, 2.0f32), (true, 5, 4.0)] {
        let mut config = config(10_000);
        let Algorithm::Reinforce(reinforce) = &mut config.algorithm else {
            panic!("another algorithm")
        };
        reinforce.network.hidden = Vec::new();
        let options = RunOptions {
            environments: Some(corridors(has_pace)),
            ..RunOptions::default()
        };
        let mut trainer = ReinforceTrainer::new(&config, &options, Place::ALONE).unwrap();
        let (policy, biases) = (vec![0.0; 5 * n_columns], vec![0.0; n_columns]);
        trainer.set_linear(&policy, &biases, &[0.0; 5], &[0.0]);
        let losses = &trainer
            .advance(&mut Comm::solo(), Timeout::default())
            .unwrap()
            .losses[0];
        let (_, entropy) = losses
            .iter()
            .find(|(tag, _)| *tag == tags::ENTROPY)
            .unwrap();
        assert!((entropy - n_choices.ln()).abs() < 1e-5, "{entropy}");
    }
}

/// Random actions give about 22; with these settings six seeds of six came above 200.
#[test]
fn it_learns() {
    for seed in [1, 3, 4] {
        let mut config = config(150_000);
        config.seed = seed;
        let mut reinforce = ReinforceConfig::default();
        reinforce.network.hidden = vec![64];
        reinforce.optimiser.learning_rate = 1e-2;
        config.algorithm = Algorithm::Reinforce(reinforce);
        let start = Start::New {
            config,
            folder: None,
        };
        let outcome = train(&start, &RunOptions::default(), &mut |_| ()).unwrap();
        let mean_return = outcome.mean_return.unwrap();
        assert!(mean_return > 150.0, "seed {seed}: {mean_return}");
    }
}

#[test]
fn rewards_come_in_the_order_of_the_jobs_from_any_number_of_threads() {
    for n_jobs in [0, 1, 2, 31, 32, 33, 65] {
        let expected: Vec<f32> = (0..n_jobs).map(|job| job as f32 * 0.5).collect();
        for n_threads in [1, 2, 5, 64] {
            let n_calls = AtomicUsize::new(0);
            let earned = rewards(n_jobs, n_threads, &|job| {
                n_calls.fetch_add(1, Ordering::Relaxed);
                Ok::<f32, String>(job as f32 * 0.5)
            });
            assert_eq!(earned.as_ref(), Ok(&expected));
            assert_eq!(n_calls.into_inner(), n_jobs);
        }
    }
}

#[test]
fn the_first_job_with_an_error_is_heard() {
    for n_threads in [1, 3] {
        let earned = rewards(40, n_threads, &|job| match job {
            0..=6 => Ok(1.0),
            job => Err(job),
        });
        assert_eq!(earned, Err(7));
    }
}
