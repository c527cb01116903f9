//! Tests of Ape-X: lock step as the anchor, and what holds however ranks overtake each other.

mod lost_ranks;

use std::time::Duration;

use shardgraph_collectives::Timeout;
use shardgraph_device::Device;

use super::actor::{Actor, ActorNumber};
use super::config::{ApexConfig, ApexReplayConfig};
use super::learner::new_agent;
use super::lock_step::ApexLockStep;
use super::message::Block;
use super::shard::Shard;
use crate::agent::Agent;
use crate::config::{AgentConfig, Algorithm, SCHEMA_VERSION};
use crate::dqn::transition_layout;
use crate::evaluation::{Choice, Evaluation};
use crate::run::{Start, TrainOutcome, train};
use crate::run_environments::EnvironmentConfig;
use crate::run_options::RunOptions;
use crate::tests::environments::{cartpole, corridors};
use crate::tests::resuming::resume_from_every_checkpoint;
use crate::topology::TopologyRun;

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
        environment: EnvironmentConfig::named("cartpole", 3),
        algorithm: Algorithm::Apex(apex.clone()),
    }
}

fn options() -> RunOptions {
    RunOptions {
        deadline: Timeout::after(Duration::from_secs(30)),
        ..RunOptions::default()
    }
}

fn start_of(config: &AgentConfig) -> Start {
    Start::New {
        config: config.clone(),
        folder: None,
    }
}

fn on_threads(apex: &ApexConfig, steps: u64) -> TrainOutcome {
    let config = config(apex, steps);
    config.check().unwrap();
    let (start, options) = (start_of(&config), options());
    let run = TopologyRun::new(&config, apex, &start, &options);
    run.on_threads(&mut |_| ()).unwrap()
}

/// An actor with three environments.
fn actor(apex: &ApexConfig, number: ActorNumber) -> Actor {
    Actor::new(apex, &cartpole(), 3, 1, number, &Device::host()).unwrap()
}

#[test]
fn in_lock_step_ranks_give_the_bits_of_one_thread() {
    let apex = lock_step();
    let config = config(&apex, 2500);
    let expected = train(&start_of(&config), &options(), &mut |_| ()).unwrap();
    assert!(expected.n_updates > 100, "{expected:?}");
    for _ in 0..2 {
        let ranks = on_threads(&apex, 2500);
        assert_eq!(ranks.agent.weights_hash(), expected.agent.weights_hash());
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
    let apex = ApexConfig {
        n_learners: 2,
        gradient_blocks: 2,
        ..lock_step()
    };
    resume_from_every_checkpoint::<ApexLockStep>(&config(&apex, 10_000), 24);
}

/// Replicas share the blocks of each batch: a run has the same bits with any number of them.
#[test]
fn every_number_of_learners_learns_the_same() {
    let run = |n_learners| {
        let apex = ApexConfig {
            n_learners,
            gradient_blocks: 6,
            batch_size: 36,
            target_sync_updates: 7,
            ..lock_step()
        };
        let outcome = on_threads(&apex, 1200);
        (outcome.n_updates, outcome.agent.weights().to_vec())
    };
    let alone = run(1);
    assert!(alone.0 > 20, "{}", alone.0);
    for n_learners in 2..=6 {
        assert!(run(n_learners) == alone, "{n_learners}");
    }
}

/// Each update that is due in the metrics has its line there, also where a block brings several.
#[test]
fn every_update_that_is_logged_has_a_line() {
    for log_updates in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let apex = ApexConfig {
            log_updates,
            ..lock_step()
        };
        let start = Start::New {
            config: config(&apex, 1000),
            folder: Some(folder.path().join("run")),
        };
        let outcome = train(&start, &options(), &mut |_| ()).unwrap();
        let metrics = std::fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
        let n_lines = metrics.matches("train/td_loss").count() as u64;
        assert!(outcome.n_updates > 40, "{outcome:?}"); // of 17 blocks
        assert_eq!(n_lines, outcome.n_updates / log_updates);
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
            (outcome.replayed.n_inserted - apex.replay.min_rows as u64) as f64 * samples_per_insert;
        let (most, batch) = (counted + apex.replay.tolerance, apex.batch_size as f64);
        let n_sampled = outcome.replayed.n_sampled as f64;
        assert!(
            n_sampled <= most && n_sampled > most - batch,
            "{n_sampled} of {most}"
        );
        assert_eq!(
            outcome.n_updates,
            outcome.replayed.n_sampled / apex.batch_size as u64
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
    let mut actor = actor(&apex, ActorNumber::ALONE);
    let mut shard = Shard::new(&apex, transition_layout(4).unwrap(), 1, 0).unwrap();
    let mut insert = |shard: &mut Shard, n: usize| {
        for _ in 0..n {
            shard.insert(&actor.collect(u64::MAX).unwrap().0).unwrap();
        }
    };
    insert(&mut shard, 4); // 200 rows
    shard.sample().unwrap();
    let ids = shard.drawn().ids.to_vec();
    insert(&mut shard, 14); // of 700
    assert_eq!(shard.memory.n_stale_updates(), 0);
    shard.update(&ids, &vec![9.0; ids.len()]).unwrap();
    assert_eq!(shard.memory.n_stale_updates(), ids.len() as u64);
    shard.sample().unwrap();
    let oldest = shard.memory.n_inserted() - 700;
    assert!(shard.drawn().ids.iter().all(|id| id.0 >= oldest));
}

/// One step of many environments fills several blocks: together they are what one large block would be, and the budget ends the last one.
#[test]
fn blocks_are_cut_from_the_same_transitions() {
    let actor = |block_rows| {
        let apex = ApexConfig {
            block_rows,
            ..small()
        };
        let number = ActorNumber::ALONE;
        Actor::new(&apex, &cartpole(), 70, 1, number, &Device::host()).unwrap()
    };
    let (mut small, mut large) = (actor(8), actor(700));
    let whole = large.collect(420).unwrap();
    assert_eq!(whole.1.n_steps, 420);
    let n_rows = whole.0.rows.len();
    assert!(n_rows < 420 && n_rows > 200, "{n_rows}"); // the last steps wait for their rewards
    let (mut n_steps, mut row) = (0, 0);
    while small.n_steps < 420 || !small.waiting().unwrap().is_empty() {
        let (block, progress) = small.collect(420).unwrap();
        n_steps += progress.n_steps;
        let rows = row..row + block.rows.len();
        assert!(block.rows.len() == 8 || rows.end == n_rows);
        let values = |rows: std::ops::Range<usize>| rows.start * 4..rows.end * 4;
        let found = (block.rows.f32s(0), &block.td_errors[..]);
        let expected = (
            &whole.0.rows.f32s(0)[values(rows.clone())],
            &whole.0.td_errors[rows.clone()],
        );
        assert_eq!(found, expected);
        row = rows.end;
    }
    assert_eq!((n_steps, row), (420, n_rows));
    let (block, progress) = small.collect(420).unwrap();
    assert!(block.rows.is_empty() && block.td_errors.is_empty() && progress.n_steps == 0);
}

/// The target of a first priority is the best of the actions that the next state allows.
#[test]
fn first_priorities_keep_to_the_masks() {
    let (corridors, number) = (corridors(false), ActorNumber::ALONE);
    let mut actor = Actor::new(&small(), &corridors, 3, 1, number, &Device::host()).unwrap();
    // Values by action alone: 3 for standing still, which the first cell alone allows.
    let n_weights = actor.agent.weights().len();
    let mut weights = vec![0.0; n_weights];
    weights[n_weights - 3..].copy_from_slice(&[1.0, 2.0, 3.0]);
    actor.agent.set_weights(&weights).unwrap();
    let (block, _) = actor.collect(u64::MAX).unwrap();
    let rows = &block.rows;
    let mut n_forbidden = 0;
    for (row, error) in block.td_errors.iter().enumerate() {
        let of = |column: usize| rows.f32s(column)[row];
        let stands_still = rows.u8s(5)[3 * row + 2] == 1;
        n_forbidden += u32::from(!stands_still);
        let best = if stands_still { 3.0 } else { 2.0 };
        let value = [1.0, 2.0, 3.0][rows.u32s(1)[row] as usize];
        let expected = value - (of(2) + of(4) * best);
        assert!((error - expected).abs() < 1e-5, "{row}: {error} {expected}");
    }
    assert!(n_forbidden > 5, "{n_forbidden}");
}

/// A block that would take more steps than the whole run ends with the run.
#[test]
fn a_run_is_not_longer_than_its_steps_for_a_large_block() {
    let apex = ApexConfig {
        n_actors: 1,
        block_rows: 700,
        ..small()
    };
    let outcome = on_threads(&apex, 600);
    assert_eq!(outcome.n_steps, 600);
    assert!(
        outcome.replayed.n_inserted > 500 && outcome.n_updates > 0,
        "{outcome:?}"
    );
}

#[test]
fn blocks_go_over_the_wire_unchanged() {
    let second = ActorNumber {
        index: 1,
        n_actors: 2,
    };
    let mut actor = actor(&small(), second);
    let (block, progress) = actor.collect(u64::MAX).unwrap();
    assert_eq!(
        (block.rows.len(), block.td_errors.len(), progress.version),
        (50, 50, 0)
    );
    let bytes = block.to_bytes(7);
    assert_eq!(
        Block::from_bytes(&transition_layout(4).unwrap(), &bytes).unwrap(),
        (block, 7)
    );
    for end in [0, 1, 7, 8, 9, bytes.len() / 2, bytes.len() - 1] {
        assert!(Block::from_bytes(&transition_layout(4).unwrap(), &bytes[..end]).is_err());
    }
    assert!(Block::from_bytes(&transition_layout(3).unwrap(), &bytes).is_err());
}

/// A checkpoint of one thread has more than a learner can take over, and one of ranks less than a thread needs.
#[test]
fn lock_step_goes_on_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let apex = lock_step();
    let config = config(&apex, 600);
    for (name, on_ranks) in [("one", false), ("ranks", true)] {
        let out = folder.path().join(name);
        let new = Start::New {
            config: config.clone(),
            folder: Some(out.clone()),
        };
        let start = Start::Resumed { folder: out };
        let options = options();
        let run = TopologyRun::new(&config, &apex, &start, &options);
        let error = match on_ranks {
            true => {
                let run = TopologyRun { start: &new, ..run };
                run.on_threads(&mut |_| ()).unwrap();
                train(&start, &options, &mut |_| ()).unwrap_err()
            }
            false => {
                train(&new, &options, &mut |_| ()).unwrap();
                run.on_threads(&mut |_| ()).unwrap_err()
            }
        };
        let message = error.to_string();
        assert!(
            error.is_input() && message.contains("lock step"),
            "{message}"
        );
        let was = if on_ranks {
            "on several processes"
        } else {
            "in one process"
        };
        assert!(message.contains(was), "{message}");
    }
}

/// Who comes to a run that has begun plays other episodes than those who were there before it.
#[test]
fn an_actor_that_comes_later_has_chances_of_its_own() {
    let block_at = |key| {
        let mut actor = actor(&small(), ActorNumber::ALONE);
        actor.begin_at(key);
        actor.collect(u64::MAX).unwrap().0
    };
    let mut new = actor(&small(), ActorNumber::ALONE);
    assert_eq!(block_at(0), new.collect(u64::MAX).unwrap().0);
    assert_ne!(block_at(0), block_at(5));
    assert_ne!(block_at(5), block_at(6));
}

/// One seed: an update of this network takes some time.
#[test]
fn it_learns() {
    let mut apex = ApexConfig {
        target_sync_updates: 100,
        ..lock_step()
    };
    apex.network.hidden = vec![64, 64];
    apex.block_rows = 100;
    apex.n_step = 3;
    apex.replay.capacity = 20_000;
    apex.replay.samples_per_insert = 4.0;
    apex.optimiser.learning_rate = 5e-4;
    let mut config = config(&apex, 60_000);
    config.environment = EnvironmentConfig::named("cartpole", 4);
    let outcome = train(&start_of(&config), &options(), &mut |_| ()).unwrap();
    let mut agent = new_agent(&apex, &cartpole(), 3, &Device::host()).unwrap();
    agent.set_weights(outcome.agent.weights()).unwrap();
    let greedy = Evaluation::play(&mut agent, &cartpole(), 20, Choice::Greedy, 1)
        .unwrap()
        .mean_return();
    assert!(greedy > 200.0, "{greedy}"); // random actions give about 22, these settings 380 and more for three seeds of three
}
