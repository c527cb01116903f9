//! Tests of Ape-X: lock step as the anchor, what holds however ranks overtake each other, and ranks that die at every message.

use std::time::Duration;

use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Event, Limits, Router};
use shardgraph_device::Device;
use shardgraph_replay::ItemId;

use super::actor::Actor;
use super::config::{ApexConfig, ApexReplayConfig};
use super::learner::new_agent;
use super::lock_step::ApexLockStep;
use super::message::{Block, Priorities, ShardTotals, tag};
use super::ranks::{run_learner, run_other, run_shard, train_on_threads};
use super::shard::Shard;
use crate::config::{AgentConfig, Algorithm, EnvironmentConfig, SCHEMA_VERSION};
use crate::dqn::transition_layout;
use crate::error::Error;
use crate::evaluation::Choice;
use crate::evaluation::Evaluation;
use crate::local::{Local, train_locally};
use crate::run::Start;
use crate::run_options::RunOptions;
use crate::testing::cartpole;
use crate::topology::fault::Fault;
use crate::topology::{Port, TopologyOutcome, Writer, outcome_of, ports, run_ranks};

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
    let apex = ApexConfig {
        n_learners: 2,
        gradient_blocks: 2,
        ..lock_step()
    };
    let config = config(&apex, 10_000);
    let mut whole = ApexLockStep::new(&config, &RunOptions::default()).unwrap();
    let mut checkpoints = Vec::new();
    for _ in 0..24 {
        checkpoints.push(whole.to_checkpoint().unwrap());
        whole.advance().unwrap();
    }
    let expected = whole.to_checkpoint().unwrap().to_bytes();
    for (n_done, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = ApexLockStep::of_checkpoint(checkpoint, &RunOptions::default()).unwrap();
        for _ in n_done..24 {
            resumed.advance().unwrap();
        }
        assert!(
            resumed.to_checkpoint().unwrap().to_bytes() == expected,
            "cut after {n_done}"
        );
    }
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
        (outcome.n_updates, outcome.weights)
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
        let outcome = train_locally::<ApexLockStep>(&start, &options(), &mut |_| ()).unwrap();
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
    let mut actor = Actor::new(&apex, (&cartpole(), 3), 1, (0, 1), &Device::host()).unwrap();
    let mut shard = Shard::new(&apex, transition_layout(4).unwrap(), 1, 0).unwrap();
    let mut insert = |shard: &mut Shard, n: usize| {
        for _ in 0..n {
            shard.insert(&actor.collect(u64::MAX).unwrap().0).unwrap();
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

/// One step of many environments fills several blocks: together they are what one large block would be, and the budget ends the last one.
#[test]
fn blocks_are_cut_from_the_same_transitions() {
    let actor = |block_rows| {
        let apex = ApexConfig {
            block_rows,
            ..small()
        };
        Actor::new(&apex, (&cartpole(), 70), 1, (0, 1), &Device::host()).unwrap()
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
        outcome.n_inserted > 500 && outcome.n_updates > 0,
        "{outcome:?}"
    );
}

#[test]
fn blocks_go_over_the_wire_unchanged() {
    let mut actor = Actor::new(&small(), (&cartpole(), 3), 1, (1, 2), &Device::host()).unwrap();
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

/// How the ranks of a run ended, the learner first; `victim` sends `n_messages` and dies.
fn run_with_a_victim(
    apex: &ApexConfig,
    start: &Start,
    (victim, n_messages): (u32, u64),
) -> (Result<TopologyOutcome, Error>, Vec<Result<(), Error>>) {
    let config = start.config().unwrap();
    let options = RunOptions {
        deadline: Timeout::after(Duration::from_secs(20)),
        ..RunOptions::default()
    };
    let (settings, n_ranks) = ((&config, apex), apex.n_ranks());
    let mut ports = ports(n_ranks, options.deadline).unwrap();
    // Actors come behind the learner and the shards.
    let first_actor = n_ranks - apex.n_actors;
    let actors = first_actor..n_ranks;
    let others = actors.filter(|_| victim >= first_actor);
    Fault::plant(&mut ports, (victim, n_messages), others);
    let learn = |port| run_learner(port, settings, start, &options, &mut |_| ());
    run_ranks(ports, learn, &|port| {
        run_other(port, settings, n_ranks, &options)
    })
}

/// Each actor would have some 80 blocks to send, and the others wait for its death after 20 messages.
#[test]
fn an_actor_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let apex = small();
    for n_messages in 0..12 {
        let config = config(&apex, 8000);
        let ended = run_with_a_victim(&apex, &start_of(&config), (3, n_messages));
        assert!(ended.1[0].is_ok() && ended.1[1].is_ok(), "{:?}", ended.1);
        let outcome = outcome_of(ended).unwrap();
        assert!(outcome.n_steps >= 8000 && outcome.n_updates > 0);
        let [lost] = &outcome.lost[..] else {
            panic!("after {n_messages}: {:?}", outcome.lost);
        };
        let is_named = lost.starts_with("actor 3: it left");
        assert!(is_named && lost.contains("killed by the test"), "{lost}");
    }
}

/// Sends by hand what the learner says to an actor that asks for its first weights.
fn give_weights(learner: &Port, to: u32) {
    loop {
        if let Event::Message { from, tag, .. } = learner.recv("a question").unwrap()
            && (from, tag) == (to, tag::WEIGHTS_WANTED)
        {
            let message = Writer::new().u64(0).f32s(&[]).finish();
            assert!(learner.send(to, tag::WEIGHTS, &message).unwrap());
            return;
        }
    }
}

/// The next block that a shard gets.
fn next_block(shard: &Port) -> u64 {
    loop {
        if let Event::Message {
            tag: tag::BLOCK,
            bytes,
            ..
        } = shard.recv("a block").unwrap()
        {
            return Block::from_bytes(&transition_layout(4).unwrap(), &bytes)
                .unwrap()
                .1;
        }
    }
}

/// An actor alone with two shards, played by hand: it may have one block on its way, and the shard that has it dies.
#[test]
fn the_blocks_of_a_dead_shard_are_forgotten() {
    let apex = ApexConfig {
        n_actors: 1,
        n_shards: 2,
        max_unacknowledged_blocks: 1,
        ..small()
    };
    let config = config(&apex, 1_000_000);
    let mut ports = ports(4, options().deadline).unwrap();
    let actor = ports.pop().unwrap();
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let actor = actor;
            run_other(&actor, (&config, &apex), 4, &options())
        });
        give_weights(&ports[0], 3);
        assert_eq!(next_block(&ports[1]), 1);
        drop(ports.remove(1)); // with the block
        for number in 2..5 {
            assert_eq!(next_block(&ports[1]), number);
            let taken = Writer::new().u64(number).finish();
            assert!(ports[1].send(3, tag::TAKEN, &taken).unwrap());
        }
        // A word on a block that was given up is no mistake.
        let taken = Writer::new().u64(1).finish();
        assert!(ports[1].send(3, tag::TAKEN, &taken).unwrap());
        assert!(ports[0].send(3, tag::STOP, &[]).unwrap());
        acting.join().unwrap().unwrap();
    });
}

/// Priorities that come to a shard which has no batch out are of rows that another of its number had.
#[test]
fn the_priorities_of_another_shard_are_ignored() {
    let apex = lock_step();
    let mut ports = ports(3, options().deadline).unwrap();
    let shard = ports.remove(1);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let shard = shard;
            run_shard(
                &shard,
                &apex,
                Shard::new(&apex, transition_layout(4).unwrap(), 1, 0).unwrap(),
            )
        });
        let wrong = Priorities::bytes_of(&[ItemId(0), ItemId(900)], &[1.0, 1.0]);
        assert!(ports[0].send(1, tag::PRIORITIES, &wrong).unwrap());
        assert!(ports[0].send(1, tag::DONE, &[]).unwrap());
        let actor = ports.pop().unwrap();
        assert!(actor.send(1, tag::DONE, &[]).unwrap());
        let totals = loop {
            if let Event::Message {
                tag: tag::DONE,
                bytes,
                ..
            } = ports[0].recv("the shard's last word").unwrap()
            {
                break ShardTotals::from_bytes(&bytes).unwrap();
            }
        };
        assert_eq!(totals, ShardTotals::default()); // no stale one among them
        assert!(ports[0].send(1, tag::STOP, &[]).unwrap());
        serving.join().unwrap().unwrap();
    });
}

/// The only actor that has come leaves; the shard goes on for those who come later, until the learner has steps enough.
#[test]
fn a_shard_is_done_only_when_the_learner_says_so() {
    let apex = small();
    let router = Router::new(4, Limits::default());
    let port = |rank| Port::new(router.join(rank).unwrap(), options().deadline);
    let (learner, shard, first) = (port(0), port(1), port(2));
    let totals = |patience| loop {
        match learner.recv_within(patience) {
            Some(Event::Message {
                tag: tag::DONE,
                bytes,
                ..
            }) => return Some(ShardTotals::from_bytes(&bytes).unwrap()),
            Some(_) => {}
            None => return None,
        }
    };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let shard = shard;
            run_shard(
                &shard,
                &apex,
                Shard::new(&apex, transition_layout(4).unwrap(), 1, 0).unwrap(),
            )
        });
        assert!(first.send(1, tag::DONE, &[]).unwrap());
        drop(first);
        assert_eq!(totals(Duration::from_millis(200)), None);
        let second = port(3);
        let mut actor = Actor::new(&apex, (&cartpole(), 3), 1, (1, 2), &Device::host()).unwrap();
        let block = actor.collect(u64::MAX).unwrap().0;
        assert!(second.send(1, tag::BLOCK, &block.to_bytes(1)).unwrap());
        assert!(second.send(1, tag::DONE, &[]).unwrap());
        assert!(learner.send(1, tag::DONE, &[]).unwrap());
        let n_inserted = totals(options().deadline.duration()).map(|totals| totals.n_inserted);
        assert_eq!(n_inserted, Some(50));
        assert!(learner.send(1, tag::STOP, &[]).unwrap());
        serving.join().unwrap().unwrap();
    });
}

/// A run that is over already ends well on all ranks when it is resumed, as the first time.
#[test]
fn a_finished_run_is_resumed_by_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let apex = small();
    let resumed = Start::Resumed {
        folder: folder.path().to_owned(),
    };
    let new = Start::New {
        config: config(&apex, 1500),
        folder: Some(folder.path().to_owned()),
    };
    let mut hashes = Vec::new();
    for start in [new, resumed] {
        let (outcome, ended) = run_with_a_victim(&apex, &start, (0, u64::MAX));
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        hashes.push(outcome.unwrap().weights_hash());
    }
    assert_eq!(hashes[0], hashes[1]);
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
        let settings = (&config, &apex);
        let error = match on_ranks {
            true => {
                train_on_threads(settings, &new, &options(), &mut |_| ()).unwrap();
                train_locally::<ApexLockStep>(&start, &options(), &mut |_| ()).unwrap_err()
            }
            false => {
                train_locally::<ApexLockStep>(&new, &options(), &mut |_| ()).unwrap();
                train_on_threads(settings, &start, &options(), &mut |_| ()).unwrap_err()
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
        let mut actor = Actor::new(&small(), (&cartpole(), 3), 1, (0, 1), &Device::host()).unwrap();
        actor.begin_at(key);
        actor.collect(u64::MAX).unwrap().0
    };
    let mut new = Actor::new(&small(), (&cartpole(), 3), 1, (0, 1), &Device::host()).unwrap();
    assert_eq!(block_at(0), new.collect(u64::MAX).unwrap().0);
    assert_ne!(block_at(0), block_at(5));
    assert_ne!(block_at(5), block_at(6));
}

#[test]
fn a_shard_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let apex = ApexConfig {
        n_shards: 2,
        max_unacknowledged_blocks: 1,
        ..small()
    };
    for n_messages in 0..12 {
        let config = config(&apex, 6000);
        let ended = run_with_a_victim(&apex, &start_of(&config), (2, n_messages));
        let is_ok: Vec<bool> = ended.1.iter().map(Result::is_ok).collect();
        assert_eq!(is_ok, [true, false, true, true], "{:?}", ended.1);
        let outcome = outcome_of(ended).unwrap();
        assert!(outcome.n_steps >= 6000, "{n_messages}");
        let [lost] = &outcome.lost[..] else {
            panic!("after {n_messages}: {:?}", outcome.lost);
        };
        let is_named = lost.starts_with("shard 2: it left: ");
        assert!(is_named && lost.contains("killed by the test"), "{lost}");
    }
}

/// Actors that were told to make fewer steps than the learner end before the run, which is over then at once.
#[test]
fn actors_that_end_before_the_run_are_named() {
    let apex = small();
    let config = config(&apex, 3000);
    let (settings, start) = ((&config, &apex), start_of(&config));
    let short = RunOptions {
        stop_at: Some(200),
        ..options()
    };
    let ports = ports(4, options().deadline).unwrap();
    let learn = |port| run_learner(port, settings, &start, &options(), &mut |_| ());
    let (outcome, _) = run_ranks(ports, learn, &|port| run_other(port, settings, 4, &short));
    let message = outcome.unwrap_err().to_string();
    let is_named = message.starts_with("all actors are lost: actor ");
    assert!(is_named && message.contains("own last step"), "{message}");
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
        let expected = "rank 0 cannot go on: all shards of the replay memory are lost: shard 1: ";
        assert!(message.starts_with(expected), "{message}");
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
    let outcome =
        train_locally::<ApexLockStep>(&start_of(&config), &options(), &mut |_| ()).unwrap();
    let mut agent = new_agent(&apex, &cartpole(), 3, &Device::host()).unwrap();
    agent.set_weights(&outcome.weights).unwrap();
    let greedy = Evaluation::play(&mut agent, &cartpole(), (20, Choice::Greedy), 1)
        .unwrap()
        .mean_return();
    assert!(greedy > 200.0, "{greedy}"); // random actions give about 22, these settings 380 and more for three seeds of three
}
