//! Ranks that die at every message, that come late, and that are done before the others.

use std::time::Duration;

use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Event, Limits, Router};
use shardgraph_replay::ItemId;

use super::{actor, config, lock_step, options, small, start_of};
use crate::apex::actor::ActorNumber;
use crate::apex::config::ApexConfig;
use crate::apex::message::{Block, Priorities, tag};
use crate::apex::ranks::run_shard;
use crate::apex::shard::Shard;
use crate::dqn::transition_layout;
use crate::run::{ReplayTotals, Start};
use crate::run_options::RunOptions;
use crate::topology::fault::Fault;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{Ended, Port, Topology, TopologyRun, ports, run_ranks};

/// How the ranks of a run ended, the learner first; `victim` sends `n_messages` and dies.
fn run_with_a_victim(apex: &ApexConfig, start: &Start, victim: u32, n_messages: u64) -> Ended {
    let config = start.config().unwrap();
    let options = RunOptions {
        deadline: Timeout::after(Duration::from_secs(20)),
        ..RunOptions::default()
    };
    let n_ranks = apex.n_ranks();
    let mut ports = ports(n_ranks, options.deadline).unwrap();
    // Actors come behind the learner and the shards.
    let first_actor = n_ranks - apex.n_actors;
    let actors = first_actor..n_ranks;
    let others = actors.filter(|_| victim >= first_actor);
    Fault::plant(&mut ports, victim, n_messages, others);
    let run = TopologyRun::new(&config, apex, start, &options);
    let learn = |port| run.learn(port, &mut |_| ());
    run_ranks(ports, learn, &|port| ApexConfig::feed(run, port))
}

/// Each actor would have some 80 blocks to send, and the others wait for its death after 20 messages.
#[test]
fn an_actor_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let apex = small();
    for n_messages in 0..12 {
        let config = config(&apex, 8000);
        let ended = run_with_a_victim(&apex, &start_of(&config), 3, n_messages);
        assert!(ended.others[..2].iter().all(Result::is_ok), "{ended:?}");
        let outcome = ended.outcome().unwrap();
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
            let message = to_bytes(&(0u64, Vec::<f32>::new()));
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
    let (start, options) = (start_of(&config), options());
    let mut ports = ports(4, options.deadline).unwrap();
    let actor = ports.pop().unwrap();
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let actor = actor;
            let run = TopologyRun::new(&config, &apex, &start, &options);
            ApexConfig::feed(run, &actor)
        });
        give_weights(&ports[0], 3);
        assert_eq!(next_block(&ports[1]), 1);
        drop(ports.remove(1)); // with the block
        for number in 2..5 {
            assert_eq!(next_block(&ports[1]), number);
            let taken = to_bytes(&number);
            assert!(ports[1].send(3, tag::TAKEN, &taken).unwrap());
        }
        // A word on a block that was given up is no mistake.
        let taken = to_bytes(&1u64);
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
        let wrong = to_bytes(&Priorities {
            ids: vec![ItemId(0), ItemId(900)],
            td_errors: vec![1.0, 1.0],
        });
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
                break from_bytes::<ReplayTotals>("totals", &bytes).unwrap();
            }
        };
        assert_eq!(totals, ReplayTotals::default()); // no stale one among them
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
            }) => return Some(from_bytes::<ReplayTotals>("totals", &bytes).unwrap()),
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
        let mut actor = actor(
            &apex,
            ActorNumber {
                index: 1,
                n_actors: 2,
            },
        );
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
        let ended = run_with_a_victim(&apex, &start, 0, u64::MAX);
        assert!(ended.others.iter().all(Result::is_ok), "{ended:?}");
        hashes.push(ended.learner.unwrap().agent.weights_hash());
    }
    assert_eq!(hashes[0], hashes[1]);
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
        let ended = run_with_a_victim(&apex, &start_of(&config), 2, n_messages);
        let is_ok: Vec<bool> = ended.others.iter().map(Result::is_ok).collect();
        assert_eq!(is_ok, [true, false, true, true], "{ended:?}");
        let outcome = ended.outcome().unwrap();
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
    let (start, options) = (start_of(&config), options());
    let short = RunOptions {
        stop_at: Some(200),
        ..options.clone()
    };
    let ports = ports(4, options.deadline).unwrap();
    let run = TopologyRun::new(&config, &apex, &start, &options);
    let of_actors = TopologyRun {
        options: &short,
        ..run
    };
    let learn = |port| run.learn(port, &mut |_| ());
    let ended = run_ranks(ports, learn, &|port| ApexConfig::feed(of_actors, port));
    let message = ended.learner.unwrap_err().to_string();
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
        let ended = run_with_a_victim(&apex, &start, 2, n_messages);
        let message = ended.learner.unwrap_err().to_string();
        assert!(
            message.contains("all actors are lost: actor 2: "),
            "{message}"
        );
        assert!(ended.others.iter().all(Result::is_err));
    }
}

#[test]
fn without_a_shard_the_run_ends_with_a_word() {
    let start = start_of(&config(&small(), 1500));
    let ended = run_with_a_victim(&small(), &start, 1, 5);
    let message = ended.learner.unwrap_err().to_string();
    assert!(
        message.contains("all shards of the replay memory are lost"),
        "{message}"
    );
    for actor in &ended.others[1..] {
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
        let ended = run_with_a_victim(&apex, &start, 0, n_messages);
        assert!(ended.learner.is_err());
        for other in ended.others {
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
        let options = options();
        let run = TopologyRun::new(&config, &apex, &start, &options);
        let outcome = run.on_threads(&mut |_| ()).unwrap();
        assert!(
            outcome.n_steps < 3000 && outcome.n_updates > 0,
            "{outcome:?}"
        );
        n_resumed += 1;
    }
    assert!(n_resumed > 0, "no run wrote a checkpoint");
}
