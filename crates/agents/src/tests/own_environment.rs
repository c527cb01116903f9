//! Every algorithm in an environment of the caller's own, whose masks it must keep: a forbidden action ends the run with an error.

use shardgraph_collectives::{Comm, Timeout};

use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::dqn::DqnTrainer;
use crate::evaluation::{Choice, Evaluation};
use crate::off_policy::OffPolicyAgent;
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::run::{Start, train};
use crate::run_options::RunOptions;
use crate::tests::environments::corridors;

fn config(steps: u64, algorithm: &str) -> AgentConfig {
    AgentConfig::from_toml(&format!(
        "steps = {steps}\nenvironment = {{ name = 'corridor', n_environments = 4 }}\nalgorithm = {{ {algorithm} }}"
    ))
    .unwrap()
}

fn own(has_pace: bool) -> RunOptions {
    RunOptions {
        environments: Some(corridors(has_pace)),
        ..RunOptions::default()
    }
}

/// Four steps to the right: -0.3 and 1.
const BEST: f64 = 0.7;

fn plays_best(agent: &mut dyn Agent, has_pace: bool) {
    for choice in [Choice::Greedy, Choice::Sampled] {
        let played = Evaluation::play(agent, &corridors(has_pace), 20, choice, 1).unwrap();
        let worst = if choice == Choice::Greedy { BEST } else { 0.3 };
        let mean = played.mean_return();
        assert!(mean > worst - 1e-4, "{choice:?} {mean}");
    }
}

#[test]
fn dqn_learns_the_corridor_and_keeps_its_masks() {
    for extra in [
        "",
        ", n_step = 3, double = true, network = { hidden = [16], dueling = [8] }",
    ] {
        let algorithm = format!(
            "name = 'dqn', learning_starts = 200, batch_size = 32, train_every = 4, gamma = 0.95,
             replay = {{ capacity = 2000 }}, target_sync_steps = 100, optimiser = {{ rule = 'adam', learning_rate = 3e-3 }}{extra}"
        );
        let start = Start::New {
            config: config(4000, &algorithm.replace('\n', " ")),
            folder: None,
        };
        let mut outcome = train(&start, &own(false), &mut |_| ()).unwrap();
        plays_best(outcome.agent.as_mut(), false);
    }
}

#[test]
fn a_dqn_run_in_an_own_environment_goes_on_from_a_checkpoint() {
    let config = config(
        600,
        "name = 'dqn', learning_starts = 200, n_step = 3, batch_size = 16",
    );
    let mut whole = DqnTrainer::new(&config, &own(false), Place::ALONE).unwrap();
    let advance = |trainer: &mut DqnTrainer| {
        trainer
            .advance(&mut Comm::solo(), Timeout::default())
            .unwrap();
    };
    let checkpoint =
        |trainer: &DqnTrainer| trainer.run.to_checkpoint(trainer.agent.learner()).unwrap();
    (0..80).for_each(|_| advance(&mut whole));
    let stopped = checkpoint(&whole);
    let mut resumed = DqnTrainer::of_checkpoint(&stopped, &own(false), Place::ALONE).unwrap();
    for trainer in [&mut whole, &mut resumed] {
        (0..60).for_each(|_| advance(trainer));
    }
    let bytes = checkpoint(&whole).to_bytes();
    assert!(checkpoint(&resumed).to_bytes() == bytes);
    let error = DqnTrainer::of_checkpoint(&stopped, &RunOptions::default(), Place::ALONE);
    let message = error.err().unwrap().to_string();
    assert!(message.contains("`environment.name`"), "{message}");
}

#[test]
fn the_others_learn_the_corridor_and_keep_its_masks() {
    let apex = "name = 'apex', n_actors = 1, lock_step = true, block_rows = 50, batch_size = 32, gamma = 0.95,
                replay = { capacity = 2000, min_rows = 200, samples_per_insert = 8.0 }";
    let impala =
        "name = 'impala', n_actors = 1, lock_step = true, batch_trajectories = 4, gamma = 0.95,
                  optimiser = { rule = 'adam', learning_rate = 1e-2 }";
    let reinforce =
        "name = 'reinforce', gamma = 0.95, optimiser = { rule = 'adam', learning_rate = 1e-2 }";
    let memory = "name = 'impala', n_actors = 1, lock_step = true, batch_trajectories = 4, network = { hidden = [16], lstm = 8 },
                  optimiser = { rule = 'adam', learning_rate = 1e-2 }, gamma = 0.95";
    let of_pace = [
        (apex, false),
        (impala, false),
        (impala, true),
        (reinforce, true),
        (memory, true),
    ];
    for (algorithm, has_pace) in of_pace {
        let config = config(8000, &algorithm.replace('\n', " "));
        let start = Start::New {
            config: config.clone(),
            folder: None,
        };
        let options = own(has_pace);
        let outcome = train(&start, &options, &mut |_| ()).unwrap();
        let mut agent = outcome.agent;
        if config.algorithm.name() != "impala" || !algorithm.contains("lstm") {
            plays_best(agent.as_mut(), has_pace);
        }
    }
}
