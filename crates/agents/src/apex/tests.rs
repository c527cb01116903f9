//! Tests of Ape-X: lock step as the anchor, what holds however ranks overtake each other, and ranks that die at every message.

use std::time::Duration;

use shardgraph_collectives::Deadline;
use shardgraph_device::Device;

use super::actor::Actor;
use super::config::{ApexConfig, ApexReplayConfig};
use super::learner::new_agent;
use super::lock_step::ApexLockStep;
use super::message::Block;
use super::ranks::{run_learner, run_other, train_on_threads};
use super::shard::Shard;
use crate::config::{AgentConfig, Algorithm, EnvironmentConfig, SCHEMA_VERSION};
use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::local::{Local, train_locally};
use crate::run::{RunOptions, Start};
use crate::topology::{TopologyOutcome, ports, run_ranks};

fn small() -> ApexConfig {
    let mut apex = ApexConfig {
        n_actors: 2,
        batch_size: 32,
        block_rows: 50,
        weights_every_steps: 100,
        replay: ApexReplayConfig {
            capacity: 700,
            min_rows: 150,
            samples_per_insert: 2.0,
            tolerance: 200.0,
            ..ApexReplayConfig::default()
        },
        ..ApexConfig::default()
    };
    apex.network.hidden = vec![16];
    apex
}

fn lock_step() -> ApexConfig {
    ApexConfig {
        n_actors: 1,
        lock_step: true,
        ..small()
    }
}

fn config(apex: &ApexConfig, steps: u64) -> AgentConfig {
    AgentConfig {
        schema_version: SCHEMA_VERSION,
        seed: 3,
        steps,
        checkpoint_steps: 500,
        environment: EnvironmentConfig::CartPole { n_environments: 3 },
        algorithm: Algorithm::Apex(apex.clone()),
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

fn on_threads(apex: &ApexConfig, steps: u64) -> TopologyOutcome {
    let config = config(apex, steps);
    config.check().unwrap();
    train_on_threads((&config, apex), &start_of(&config), &options(), &mut |_| ()).unwrap()
}

#[test]
fn in_lock_step_ranks_give_the_bits_of_one_thread() {
    let apex = lock_step();
    let config = config(&apex, 2500);
    let expected =
        train_locally::<ApexLockStep>(&start_of(&config), &options(), &mut |_| ()).unwrap();
    assert!(expected.n_updates > 100, "{expected:?}");
    for _ in 0..2 {
        let ranks = on_threads(&apex, 2500);
        assert_eq!(ranks.weights_hash(), expected.weights_hash());
        assert_eq!(
            (ranks.n_steps, ranks.n_updates),
            (expected.n_steps, expected.n_updates)
        );
        assert_eq!(
            (ranks.mean_return, ranks.lag),
            (expected.mean_return, expected.lag)
        );
    }
}

#[test]
fn a_lock_step_goes_on_from_every_checkpoint_as_if_it_had_never_stopped() {
    let config = config(&lock_step(), 10_000);
    let mut whole = ApexLockStep::new(&config, &Device::host()).unwrap();
    let mut checkpoints = Vec::new();
    for _ in 0..24 {
        checkpoints.push(whole.to_checkpoint().unwrap());
        whole.advance().unwrap();
    }
    let expected = whole.to_checkpoint().unwrap().to_bytes();
    for (n_done, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = ApexLockStep::of_checkpoint(checkpoint, &Device::host()).unwrap();
        for _ in n_done..24 {
            resumed.advance().unwrap();
        }
        assert!(
            resumed.to_checkpoint().unwrap().to_bytes() == expected,
            "cut after {n_done}"
        );
    }
}

/// What the shards drew follows what they took, exactly to a batch, however the ranks overtook each other.
#[test]
fn the_ratio_of_draws_to_inserts_is_kept() {
    for (n_actors, samples_per_insert) in [(1, 0.5), (3, 2.0), (2, 6.0)] {
        let mut apex = ApexConfig {
            n_actors,
            ..small()
        };
        apex.replay.samples_per_insert = samples_per_insert;
        let outcome = on_threads(&apex, 2500);
        let counted =
            (outcome.n_inserted - apex.replay.min_rows as u64) as f64 * samples_per_insert;
        let (most, batch) = (counted + apex.replay.tolerance, apex.batch_size as f64);
        let n_sampled = outcome.n_sampled as f64;
        assert!(
            n_sampled <= most && n_sampled > most - batch,
            "{n_sampled} of {most}"
        );
        assert_eq!(
            outcome.n_updates,
            outcome.n_sampled / apex.batch_size as u64
        );
        assert!(outcome.n_steps >= 2500 && outcome.lost.is_empty());
    }
}

/// One actor cannot act on: it asks for weights every 100 steps and has at most 2 blocks of 50 on their way.
#[test]
fn the_policy_lag_of_one_actor_is_bounded() {
    let apex = ApexConfig {
        n_actors: 1,
        ..small()
    };
    let outcome = on_threads(&apex, 4000);
    // Rows that can come between a question and the end of the block made by its answer: about 100 steps, and 4 blocks.
    let rows = 100.0 + 4.0 * 50.0 + 3.0;
    let drawn = rows * apex.replay.samples_per_insert + 2.0 * apex.replay.tolerance;
    let most = drawn / apex.batch_size as f64 + apex.prefetch_batches as f64 + 1.0;
    assert!(
        outcome.lag.max() as f64 <= most,
        "{} of {most}",
        outcome.lag.max()
    );
    assert!(outcome.lag.max() > 0);
}

#[test]
fn shards_take_turns() {
    let apex = ApexConfig {
        n_shards: 3,
        ..small()
    };
    let outcome = on_threads(&apex, 3000);
    assert!(
        outcome.n_updates > 0 && outcome.lost.is_empty(),
        "{outcome:?}"
    );
}

#[test]
fn late_priorities_of_overwritten_rows_change_nothing_and_are_counted() {
    let apex = lock_step();
    let mut actor = Actor::new(&apex, 3, 1, (0, 1), &Device::host()).unwrap();
    let mut shard = Shard::new(&apex, 4, 1, 0).unwrap();
    let mut insert = |shard: &mut Shard, n: usize| {
        for _ in 0..n {
            shard.insert(&actor.collect().unwrap().0).unwrap();
        }
    };
    insert(&mut shard, 4); // 200 rows
    shard.sample().unwrap();
    let ids = shard.drawn().0.to_vec();
    insert(&mut shard, 14); // of 700
    assert_eq!(shard.memory.n_stale_updates(), 0);
    shard.update(&ids, &vec![9.0; ids.len()]).unwrap();
    assert_eq!(shard.memory.n_stale_updates(), ids.len() as u64);
    shard.sample().unwrap();
    let oldest = shard.memory.n_inserted() - 700;
    assert!(shard.drawn().0.iter().all(|id| id.0 >= oldest));
}

#[test]
fn blocks_go_over_the_wire_unchanged() {
    let mut actor = Actor::new(&small(), 3, 1, (1, 2), &Device::host()).unwrap();
    let (block, progress) = actor.collect().unwrap();
    assert_eq!(
        (block.rows.len(), block.td_errors.len(), progress.version),
        (50, 50, 0)
    );
    let bytes = block.to_bytes(7);
    assert_eq!(Block::from_bytes(4, &bytes).unwrap(), (block, 7));
    for end in [0, 1, 7, 8, 9, bytes.len() / 2, bytes.len() - 1] {
        assert!(Block::from_bytes(4, &bytes[..end]).is_err());
    }
    assert!(Block::from_bytes(3, &bytes).is_err());
}

/// How the ranks of a run ended, the learner first; `victim` sends `n_messages` and dies.
fn run_with_a_victim(
    apex: &ApexConfig,
    start: &Start,
    (victim, n_messages): (u32, u64),
) -> (Result<TopologyOutcome, Error>, Vec<Result<(), Error>>) {
    let config = start.config().unwrap();
    let options = RunOptions {
        deadline: Deadline::after(Duration::from_secs(20)),
        ..RunOptions::default()
    };
    let (settings, n_ranks) = ((&config, apex), apex.n_ranks());
    let ports = ports(n_ranks, options.deadline).unwrap();
    ports[victim as usize].dies_after.set(Some(n_messages));
    let learn = |port| run_learner(port, settings, start, &options, &mut |_| ());
    run_ranks(ports, learn, &|port| {
        run_other(port, settings, n_ranks, &options)
    })
}

#[test]
fn an_actor_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let apex = small();
    for n_messages in 0..12 {
        let config = config(&apex, 1500);
        let (outcome, others) = run_with_a_victim(&apex, &start_of(&config), (3, n_messages));
        let outcome = outcome.unwrap();
        assert!(outcome.n_steps >= 1500 && outcome.n_updates > 0);
        assert!(others[0].is_ok() && others[1].is_ok(), "{others:?}");
        if others[2].is_err() {
            assert!(
                outcome.lost.len() == 1 && outcome.lost[0].starts_with("actor 3"),
                "{:?}",
                outcome.lost
            );
        }
    }
}

#[test]
fn a_shard_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let apex = ApexConfig {
        n_shards: 2,
        max_unacknowledged_blocks: 1,
        ..small()
    };
    for n_messages in 0..12 {
        let config = config(&apex, 1500);
        let (outcome, others) = run_with_a_victim(&apex, &start_of(&config), (2, n_messages));
        let outcome = outcome.unwrap();
        assert!(outcome.n_steps >= 1500, "{n_messages}");
        assert!(
            others[0].is_ok() && others[2].is_ok() && others[3].is_ok(),
            "{others:?}"
        );
        if others[1].is_err() {
            assert!(
                outcome.lost.len() == 1 && outcome.lost[0].starts_with("shard 2"),
                "{:?}",
                outcome.lost
            );
        }
    }
}

#[test]
fn without_an_actor_the_run_ends_with_a_word() {
    let apex = ApexConfig {
        n_actors: 1,
        ..small()
    };
    for n_messages in [0, 4] {
        let start = start_of(&config(&apex, 1500));
        let (outcome, others) = run_with_a_victim(&apex, &start, (2, n_messages));
        let message = outcome.unwrap_err().to_string();
        assert!(
            message.contains("all actors are lost: actor 2: "),
            "{message}"
        );
        assert!(others.iter().all(Result::is_err));
    }
}

#[test]
fn without_a_shard_the_run_ends_with_a_word() {
    let (outcome, others) = run_with_a_victim(&small(), &start_of(&config(&small(), 1500)), (1, 5));
    let message = outcome.unwrap_err().to_string();
    assert!(
        message.contains("all shards of the replay memory are lost"),
        "{message}"
    );
    for actor in &others[1..] {
        let message = actor.as_ref().unwrap_err().to_string();
        assert!(message.contains("has lost the learner"), "{message}");
    }
}

#[test]
fn a_learner_that_dies_ends_all_and_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let apex = small();
    let mut n_resumed = 0;
    for n_messages in [0, 1, 7, 40, 150] {
        let out = folder.path().join(n_messages.to_string());
        let start = Start::New {
            config: config(&apex, 3000),
            folder: Some(out.clone()),
        };
        let (outcome, others) = run_with_a_victim(&apex, &start, (0, n_messages));
        assert!(outcome.is_err());
        for other in others {
            let message = other.unwrap_err().to_string();
            assert!(
                message.contains("has lost the learner") && message.contains("resume"),
                "{message}"
            );
        }
        let start = Start::Resumed { folder: out };
        let Ok(config) = start.config() else {
            continue; // it died before its first checkpoint
        };
        let outcome = train_on_threads((&config, &apex), &start, &options(), &mut |_| ()).unwrap();
        assert!(
            outcome.n_steps < 3000 && outcome.n_updates > 0,
            "{outcome:?}"
        );
        n_resumed += 1;
    }
    assert!(n_resumed > 0, "no run wrote a checkpoint");
}

#[test]
fn it_learns() {
    let mut apex = ApexConfig {
        target_sync_updates: 25,
        ..lock_step()
    };
    apex.network.hidden = vec![64];
    apex.block_rows = 100;
    apex.n_step = 3;
    apex.replay.capacity = 20_000;
    apex.replay.samples_per_insert = 4.0;
    apex.optimiser.learning_rate = 1e-3;
    let mut config = config(&apex, 60_000);
    config.environment = EnvironmentConfig::CartPole { n_environments: 4 };
    let outcome =
        train_locally::<ApexLockStep>(&start_of(&config), &options(), &mut |_| ()).unwrap();
    let mut agent = new_agent(&apex, 3, &Device::host()).unwrap();
    agent.set_weights(&outcome.weights).unwrap();
    let greedy = Evaluation::play(&mut agent, 20, 1).unwrap().mean_return();
    assert!(greedy > 80.0, "{greedy}"); // random actions give about 22
}
