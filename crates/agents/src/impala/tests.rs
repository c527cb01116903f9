//! Tests of IMPALA: lock step as the anchor, the queue's bounds, and actors that die at every message.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

mod eager;

use std::time::Duration;

use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Event, Limits, Router};
use shardgraph_components::Reduction;
use shardgraph_device::Device;

use super::actor::Actor;
use super::config::ImpalaConfig;
use super::learner::{Learner, Losses};
use super::lock_step::ImpalaLockStep;
use super::trajectory::Unroll;
use crate::config::{AgentConfig, Algorithm, SCHEMA_VERSION};
use crate::experience::tests::put_before_the_limit;
use crate::observations::Seen;
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};
use crate::run::{Start, TrainOutcome, train};
use crate::run_environments::EnvironmentConfig;
use crate::run_options::RunOptions;
use crate::tests::environments::{cartpole, corridors};
use crate::tests::resuming::resume_from_every_checkpoint;
use crate::topology::common_tag::BEGIN;
use crate::topology::fault::Fault;
use crate::topology::wire::from_bytes;
use crate::topology::{Ended, Port, Topology, TopologyRun, ports, run_ranks};

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

fn config(impala: &ImpalaConfig, steps: u64, n_environments: usize) -> AgentConfig {
    let config = AgentConfig {
        schema_version: SCHEMA_VERSION,
        seed: 3,
        steps,
        checkpoint_steps: 500,
        environment: EnvironmentConfig::named("cartpole", n_environments),
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

fn on_threads(config: &AgentConfig, impala: &ImpalaConfig, options: &RunOptions) -> TrainOutcome {
    let start = start_of(config);
    let run = TopologyRun::new(config, impala, &start, options);
    run.on_threads(&mut |_| ()).unwrap()
}

#[test]
fn in_lock_step_ranks_give_the_bits_of_one_thread() {
    for lstm in [None, Some(5)] {
        let impala = lock_step(lstm);
        let config = config(&impala, 2000, 6);
        let start = start_of(&config);
        let expected = train(&start, &options(), &mut |_| ()).unwrap();
        assert_eq!(expected.n_updates, 48); // 42 steps each
        for _ in 0..2 {
            let ranks = on_threads(&config, &impala, &options());
            assert_eq!(ranks.agent.weights_hash(), expected.agent.weights_hash());
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
    let config = config(&lock_step(Some(5)), 10_000, 6);
    resume_from_every_checkpoint::<ImpalaLockStep>(&config, 12);
}

/// One actor has at most 2 unrolls on their way, of which 3 make a batch: its weights are at most an update old.
#[test]
fn the_policy_lag_of_one_actor_is_bounded() {
    let impala = ImpalaConfig {
        n_actors: 1,
        ..small(None)
    };
    let config = config(&impala, 3000, 2);
    let outcome = on_threads(&config, &impala, &options());
    assert!(outcome.lag.max() <= 1, "{:?}", outcome.lag);
    assert_eq!(outcome.n_updates, outcome.n_steps / 42);
}

/// A step whose action has two parts is one step.
#[test]
fn steps_of_tuples_of_actions_are_counted_once() {
    let impala = ImpalaConfig {
        n_actors: 1,
        ..small(None)
    };
    let (config, options) = (
        config(&impala, 1000, 2),
        RunOptions {
            environments: Some(corridors(true)),
            ..options()
        },
    );
    let outcome = on_threads(&config, &impala, &options);
    assert_eq!(outcome.n_updates, outcome.n_steps / 42);
}

/// Where an episode has ended, nothing is added to its last reward.
#[test]
fn the_rewards_of_falls_are_their_own() {
    let impala = small(None);
    let mut actor = Actor::new(&impala, &cartpole(), 2, 1, 0, &Device::host()).unwrap();
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
}

/// Both carts are put before the limit: their last rewards have gamma times the value of the observation that the limit stopped them at.
#[test]
fn a_limit_adds_the_value_of_the_episodes_own_last_observation() {
    for lstm in [None, Some(5)] {
        limit_adds_the_value(lstm);
    }
}

fn limit_adds_the_value(lstm: Option<usize>) {
    let impala = ImpalaConfig {
        unroll_steps: 1,
        ..small(lstm)
    };
    let mut actor = Actor::new(&impala, &cartpole(), 2, 1, 0, &Device::host()).unwrap();
    for idx in 0..2 {
        put_before_the_limit(actor.vector.as_mut(), idx);
    }
    let mut unroll = Unroll::default();
    actor.collect(&mut unroll).unwrap();
    let last = [0, 1].map(|idx| actor.vector.final_observation(idx).unwrap());
    let last = last.concat();
    assert_ne!(last, actor.vector.observations(), "new episodes began");
    // The actor has the first weights of its seed.
    let (params, network) = build_policy(&cartpole(), &impala.network, 1).unwrap();
    let mut program = PolicyProgram::new(&params, &network, 2, false, &Device::host()).unwrap();
    // A memory still has the episode that the limit stopped.
    let state = MemoryState {
        begins: vec![0.0; 2],
        ..actor.state.clone()
    };
    let mut said = Said::default();
    program
        .run(&params, Seen::from(&last[..]), &state, &mut said)
        .unwrap();
    let values = said.values;
    let expected: Vec<f32> = values.iter().map(|value| 1.0 + 0.99 * value).collect();
    assert_eq!(unroll.rewards, expected);
    assert_eq!(unroll.discounts, [0.0, 0.0]);
    assert_eq!(unroll.begins[2..], [1.0, 1.0]);
    assert!(values.iter().all(|value| *value != 0.0));
}

/// Replicas share the blocks of a batch and take one step, whose bits the blocks decide and not the replicas.
#[test]
fn every_number_of_learners_takes_the_same_steps() {
    for (lstm, reduction) in [(None, Reduction::Mean), (Some(5), Reduction::Sum)] {
        let mut impala = small(lstm);
        impala.loss.reduction = reduction;
        let host = Device::host();
        let unrolls: Vec<Unroll> = (0..6)
            .map(|idx| {
                let mut actor = Actor::new(&impala, &cartpole(), 1, 1, idx, &host).unwrap();
                let mut unroll = Unroll::default();
                actor.collect(&mut unroll).unwrap();
                unroll
            })
            .collect();
        let learn = |n_learners, gradient_blocks| {
            let impala = ImpalaConfig {
                n_learners,
                gradient_blocks,
                ..impala.clone()
            };
            let mut learner = Learner::new(&impala, &cartpole(), 1, &host).unwrap();
            let losses: Vec<Losses> = (0..3).map(|_| learner.update(&unrolls).unwrap()).collect();
            (learner.params.trained().to_vec(), losses)
        };
        let alone = learn(1, 6);
        for n_learners in 2..=6 {
            assert_eq!(learn(n_learners, 6), alone, "{n_learners}");
        }
        // Whole batches round otherwise.
        let whole = learn(1, 1);
        for (given, expected) in alone.0.iter().zip(&whole.0) {
            assert!((given - expected).abs() < 1e-4, "{given} {expected}");
        }
        let off = (alone.1[0].policy - whole.1[0].policy).abs();
        assert!(off < 1e-4 * (1.0 + whole.1[0].policy.abs()), "{off}");
    }
}

/// Also on ranks, and where a checkpoint goes on.
#[test]
fn learners_share_batches_of_a_run() {
    let mut impala = small(None);
    (impala.n_learners, impala.gradient_blocks) = (3, 3);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let start = Start::New {
        config: config(&impala, 1000, 2),
        folder: Some(folder.clone()),
    };
    let first = train(&start, &options(), &mut |_| ()).unwrap();
    assert!(first.n_updates > 10, "{}", first.n_updates);
    let more = RunOptions {
        stop_at: Some(2000),
        ..options()
    };
    let resumed = train(&Start::Resumed { folder }, &more, &mut |_| ()).unwrap();
    assert!(
        first.n_steps + resumed.n_steps >= 2000 && resumed.agent.weights() != first.agent.weights()
    );
}

/// Unrolls of another network or number are refused.
#[test]
fn unrolls_that_do_not_fit_are_named() {
    let impala = small(None);
    let mut learner = Learner::new(&impala, &cartpole(), 1, &Device::host()).unwrap();
    let mut actor = Actor::new(&impala, &cartpole(), 2, 1, 0, &Device::host()).unwrap();
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

fn run_all(ports: Vec<Port>, run: TopologyRun<'_, ImpalaConfig>) -> Ended {
    let learn = |port| run.learn(port, &mut |_| ());
    run_ranks(ports, learn, &|port| ImpalaConfig::feed(run, port))
}

/// How a run ended whose rank `victim` sends `n_messages` and dies.
fn run_with_a_victim(
    impala: &ImpalaConfig,
    victim: u32,
    n_messages: u64,
) -> (TrainOutcome, Vec<bool>) {
    let config = config(impala, 6000, 2);
    let (start, options) = (start_of(&config), options());
    let mut ports = ports(impala.n_ranks(), options.deadline).unwrap();
    let actors = 1..impala.n_ranks();
    let others = actors.filter(|_| victim > 0);
    Fault::plant(&mut ports, victim, n_messages, others);
    let ended = run_all(ports, TopologyRun::new(&config, impala, &start, &options));
    let is_ok = ended.others.iter().map(Result::is_ok).collect();
    (ended.outcome().unwrap(), is_ok)
}

/// Each actor would have some 140 unrolls to send, and the others wait for its death after 20.
#[test]
fn an_actor_that_dies_at_any_message_is_named_and_the_run_goes_on() {
    let impala = ImpalaConfig {
        n_actors: 3,
        ..small(None)
    };
    for n_messages in 0..10 {
        let (outcome, ended) = run_with_a_victim(&impala, 2, n_messages);
        assert!(outcome.n_steps >= 6000 && outcome.n_updates > 0);
        assert_eq!(ended, [true, false, true]);
        let [lost] = &outcome.lost[..] else {
            panic!("after {n_messages}: {:?}", outcome.lost);
        };
        let is_named = lost.starts_with("actor 2: it left");
        assert!(is_named && lost.contains("killed by the test"), "{lost}");
    }
}

/// One that leaves before the learner has even looked is lost too.
#[test]
fn an_actor_that_never_said_a_word_is_named() {
    let impala = ImpalaConfig {
        n_actors: 2,
        ..small(None)
    };
    let config = config(&impala, 600, 2);
    let (start, options) = (start_of(&config), options());
    let mut ports = ports(3, options.deadline).unwrap();
    drop(ports.remove(1));
    let ended = run_all(ports, TopologyRun::new(&config, &impala, &start, &options));
    assert!(ended.others[0].is_ok(), "{ended:?}");
    assert_eq!(
        ended.learner.unwrap().lost,
        ["actor 1: it left (at step 0; actors left: 1)"]
    );
}

/// Actors that were told to make fewer steps than the learner end before the run: it goes on with the others, and without any it is over at once.
#[test]
fn actors_that_end_before_the_run_are_named() {
    let impala = ImpalaConfig {
        n_actors: 2,
        ..small(None)
    };
    let config = config(&impala, 3000, 2);
    let (start, options) = (start_of(&config), options());
    let run = TopologyRun::new(&config, &impala, &start, &options);
    let has_ended = std::sync::Barrier::new(2);
    // The first is told to make fewer steps; the other one too, or it begins when the first has ended.
    let run_with_short = |are_all: bool| {
        let ports = ports(3, options.deadline).unwrap();
        let learn = |port| run.learn(port, &mut |_| ());
        let ended = run_ranks(ports, learn, &|port| {
            let is_first = port.rank() == 1;
            let options = &RunOptions {
                stop_at: (is_first || are_all).then_some(100),
                ..options.clone()
            };
            if !is_first && !are_all {
                has_ended.wait();
            }
            let ended = ImpalaConfig::feed(TopologyRun { options, ..run }, port);
            if is_first && !are_all {
                has_ended.wait();
            }
            ended
        });
        let is_ok = ended.others.iter().all(Result::is_ok);
        (ended.learner, is_ok)
    };
    let (outcome, is_ok) = run_with_short(false);
    let outcome = outcome.unwrap();
    let [lost] = &outcome.lost[..] else {
        panic!("{:?}", outcome.lost);
    };
    let is_named = lost.starts_with("actor 1: it ended at its own last step, when the run was at");
    assert!(is_named && lost.contains(" of 3000: give all"), "{lost}");
    assert!(outcome.n_steps >= 3000 && is_ok);
    let message = run_with_short(true).0.unwrap_err().to_string();
    let is_named = message.starts_with("all actors are lost: actor ");
    assert!(is_named && message.contains("own last step"), "{message}");
}

#[test]
fn without_an_actor_the_run_ends_with_a_word() {
    let impala = ImpalaConfig {
        n_actors: 1,
        ..small(None)
    };
    let config = config(&impala, 600, 2);
    let (start, options) = (start_of(&config), options());
    let mut ports = ports(2, options.deadline).unwrap();
    drop(ports.remove(1));
    let ended = run_all(ports, TopologyRun::new(&config, &impala, &start, &options));
    let message = ended.learner.unwrap_err().to_string();
    assert!(
        message.contains("all actors are lost: actor 1: it left"),
        "{message}"
    );
}

/// A run that is over already ends well on all ranks when it is resumed, as the first time.
#[test]
fn a_finished_run_is_resumed_by_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let impala = small(None);
    let config = config(&impala, 600, 2);
    let options = options();
    let resumed = Start::Resumed {
        folder: folder.path().to_owned(),
    };
    let new = Start::New {
        config: config.clone(),
        folder: Some(folder.path().to_owned()),
    };
    let mut hashes = Vec::new();
    for start in [new, resumed] {
        let ports = ports(impala.n_ranks(), options.deadline).unwrap();
        let ended = run_all(ports, TopologyRun::new(&config, &impala, &start, &options));
        assert!(ended.others.iter().all(Result::is_ok), "{ended:?}");
        hashes.push(ended.learner.unwrap().agent.weights_hash());
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// The learner and one actor, and how the run ended; the other one comes when all steps are made, or never.
fn run_with_a_late_actor(deadline: Duration, does_come: bool) -> TrainOutcome {
    let impala = ImpalaConfig {
        n_actors: 2,
        ..small(None)
    };
    let config = config(&impala, 600, 2);
    let options = RunOptions {
        deadline: Timeout::after(deadline),
        ..RunOptions::default()
    };
    let start = start_of(&config);
    let run = TopologyRun::new(&config, &impala, &start, &options);
    let router = Router::new(3, Limits::default());
    let port = |rank| Port::new(router.join(rank).unwrap(), options.deadline);
    let (learner, first) = (port(0), port(1));
    let (over, is_over) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let acting = scope.spawn(move || ImpalaConfig::feed(run, &first));
        let learning = scope.spawn(move || {
            run.learn(learner, &mut |progress| {
                if progress.step >= progress.stop_at {
                    let _ = over.send(());
                }
            })
        });
        is_over.recv().unwrap();
        acting.join().unwrap().unwrap();
        if does_come {
            // A learner that waits for nobody has left by then.
            std::thread::sleep(Duration::from_millis(200));
            ImpalaConfig::feed(run, &port(2)).unwrap();
        }
        learning.join().unwrap().unwrap()
    })
}

/// Ranks of one launch start at different times: one that comes when all is done hears that, and one that never comes is named.
#[test]
fn an_actor_that_comes_when_the_run_is_over_hears_it() {
    let outcome = run_with_a_late_actor(Duration::from_secs(30), true);
    assert!(
        outcome.lost.is_empty() && outcome.n_steps >= 600,
        "{outcome:?}"
    );
    let outcome = run_with_a_late_actor(Duration::from_millis(400), false);
    assert_eq!(outcome.lost, ["actor 2: it did not come within 0.4 s"]);
}

/// The learner's first word to each that comes, played by hand: the second one of a number has another key than the first.
#[test]
fn who_comes_in_the_place_of_another_is_told_so() {
    let impala = ImpalaConfig {
        n_actors: 1,
        ..small(None)
    };
    let config = config(&impala, 600, 2);
    let (start, of_learner) = (start_of(&config), options());
    let run = TopologyRun::new(&config, &impala, &start, &of_learner);
    let router = Router::new(2, Limits::default());
    let brief = Timeout::after(Duration::from_millis(500));
    let learner = Port::of_process(router.join(0).unwrap(), brief);
    let key_of_the_next = || {
        let actor = Port::new(router.join(1).unwrap(), options().deadline);
        loop {
            let event = actor.recv("the key").unwrap();
            if let Event::Message { tag, bytes, .. } = event {
                assert_eq!(tag, BEGIN);
                return from_bytes::<u64>("a key", &bytes).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        let learning = scope.spawn(|| run.learn(learner, &mut |_| ()));
        let keys = [(); 3].map(|()| key_of_the_next());
        assert!(
            keys[0] == 0 && keys[1] > 0 && keys[2] > 0 && keys[1] != keys[2],
            "{keys:?}"
        );
        learning.join().unwrap().unwrap_err(); // nobody acts
    });
}

/// Who comes to a run that has begun plays other episodes than those who were there before it.
#[test]
fn an_actor_that_comes_later_has_chances_of_its_own() {
    let impala = small(None);
    let unroll_at = |key| {
        let mut actor = Actor::new(&impala, &cartpole(), 2, 1, 0, &Device::host()).unwrap();
        actor.begin_at(key);
        let mut unroll = Unroll::default();
        actor.collect(&mut unroll).unwrap();
        unroll.observations
    };
    let mut new = Actor::new(&impala, &cartpole(), 2, 1, 0, &Device::host()).unwrap();
    let mut unroll = Unroll::default();
    new.collect(&mut unroll).unwrap();
    assert_eq!(unroll_at(0), unroll.observations);
    assert_ne!(unroll_at(0), unroll_at(5));
    assert_ne!(unroll_at(5), unroll_at(6));
}

/// Random actions give about 22; with these settings five seeds of five came above 170.
#[test]
fn it_learns() {
    let mut impala = ImpalaConfig {
        unroll_steps: 20,
        batch_trajectories: 8,
        ..lock_step(None)
    };
    impala.network.hidden = vec![64];
    for seed in [2, 3, 4] {
        let mut config = config(&impala, 150_000, 8);
        config.seed = seed;
        let start = start_of(&config);
        let outcome = train(&start, &options(), &mut |_| ()).unwrap();
        let mean_return = outcome.mean_return.unwrap();
        assert!(mean_return > 130.0, "seed {seed}: {mean_return}");
    }
}
