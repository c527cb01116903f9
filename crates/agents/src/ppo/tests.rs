//! PPO against its definition and across ranks, checkpoints and environments.

mod eager;

use shardgraph_collectives::Timeout;
use shardgraph_environments::space::Space;
use shardgraph_environments::{Action, FunctionalEnvironment, Transition};
use shardgraph_random::KeyedRng;

use crate::config::AgentConfig;
use crate::evaluation::{Choice, Evaluation};
use crate::run::{Start, TrainOutcome, train};
use crate::run_environments::Environments;
use crate::run_options::RunOptions;
use crate::tests::environments::{cartpole, corridors};

fn config(steps: u64, algorithm: &str) -> AgentConfig {
    AgentConfig::from_toml(&format!(
        "steps = {steps}\ncheckpoint_steps = 512\nenvironment = {{ name = 'cartpole', n_environments = 8 }}
         algorithm = {{ name = 'ppo', {algorithm} }}"
    ))
    .unwrap()
}

fn run(config: &AgentConfig) -> TrainOutcome {
    let start = Start::New {
        config: config.clone(),
        folder: None,
    };
    train(&start, &RunOptions::default(), &mut |_| ()).unwrap()
}

const BLOCKS: &str = "gradient_blocks = 4, rollout_steps = 32, network = { hidden = [16] },
                      loss = { value_clip = 0.2 }";

/// Also where the ranks of the second part are others than those of the first.
#[test]
fn a_run_that_stopped_and_went_on_is_the_same_run() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(1536, &BLOCKS.replace('\n', " "));
    let whole = run(&config).agent.weights_hash();
    let folder = scratch.path().join("run");
    let start = Start::New {
        config,
        folder: Some(folder.clone()),
    };
    let options = |n_ranks, stop_at| RunOptions {
        n_ranks,
        stop_at,
        deadline: Timeout::default(),
        ..RunOptions::default()
    };
    train(&start, &options(2, Some(768)), &mut |_| ()).unwrap();
    let resumed = train(&Start::Resumed { folder }, &options(3, None), &mut |_| ()).unwrap();
    assert_eq!(resumed.agent.weights_hash(), whole);
}

#[test]
fn epochs_end_at_the_divergence_that_is_wanted() {
    let n_updates = |target: &str| run(&config(1024, target)).n_updates;
    let small = "rollout_steps = 32";
    assert_eq!(n_updates(small), 64);
    assert_eq!(n_updates(&format!("{small}, target_kl = 1e-9")), 16);
}

#[test]
fn it_learns_cart_and_pole() {
    let quick = "rollout_steps = 128, optimiser = { rule = 'adam', learning_rate = 1e-3, max_gradient_norm = 0.5 }, gamma = 0.98,
                 gae_lambda = 0.8, n_epochs = 8, loss = { entropy_coefficient = 0.0 }";
    let mut outcome = run(&config(60_000, &quick.replace('\n', " ")));
    let (agent, choice) = (outcome.agent.as_mut(), Choice::Greedy);
    let played = Evaluation::play(agent, &cartpole(), 20, choice, 1).unwrap();
    assert!(played.mean_return() > 300.0, "{}", played.mean_return());
}

/// Two parts of an action, and masks that the environment enforces.
#[test]
fn it_learns_the_corridor_and_keeps_its_masks() {
    for has_pace in [false, true] {
        let quick = "rollout_steps = 32, gradient_blocks = 2, optimiser = { rule = 'adam', learning_rate = 1e-2 }";
        let start = Start::New {
            config: config(8192, quick),
            folder: None,
        };
        let options = RunOptions {
            environments: Some(corridors(has_pace)),
            n_ranks: 2,
            ..RunOptions::default()
        };
        let mut outcome = train(&start, &options, &mut |_| ()).unwrap();
        for choice in [Choice::Greedy, Choice::Sampled] {
            let (agent, own) = (outcome.agent.as_mut(), corridors(has_pace));
            let played = Evaluation::play(agent, &own, 20, choice, 1).unwrap();
            assert!(
                played.mean_return() > 0.6,
                "{choice:?} {}",
                played.mean_return()
            );
        }
    }
}

#[test]
fn settings_that_cannot_be_right_are_named() {
    let wrong = [
        (
            "n_minibatches = 3",
            "`algorithm.n_minibatches`: expected a number that divides the 1024 steps",
        ),
        (
            "gradient_blocks = 3",
            "`algorithm.gradient_blocks`: expected a number that divides `n_environments`, 8",
        ),
        ("network = { lstm = 8 }", "`algorithm.network.lstm`"),
        ("loss = { clip = 0.0 }", "clip"),
        ("target_kl = 0.0", "`algorithm.target_kl`"),
        (
            "gae_lambda = 1.5",
            "`algorithm.gae_lambda`: expected 0 to 1",
        ),
    ];
    for (algorithm, expected) in wrong {
        let message = config(1024, algorithm).check().unwrap_err().to_string();
        assert!(message.contains(expected), "{algorithm}: {message}");
    }
}

/// A number is shown, and an action as near to it as can be earns most; each episode has four.
#[derive(Clone, Debug)]
struct Aim;

impl FunctionalEnvironment for Aim {
    type State = (f32, u32);

    fn observation_space(&self) -> Space {
        Space::boxed(&[1], -1.0, 1.0).unwrap()
    }
    fn action_space(&self) -> Space {
        Space::boxed(&[1], -3.0, 1.0).unwrap()
    }
    fn initial(&self, rng: &mut KeyedRng) -> (f32, u32) {
        (2.0 * rng.uniform_f32() - 1.0, 0)
    }
    fn transition(
        &self,
        state: &mut (f32, u32),
        action: Action<'_>,
        rng: &mut KeyedRng,
    ) -> Transition {
        let reward = -(action.element() - state.0).powi(2);
        *state = (2.0 * rng.uniform_f32() - 1.0, state.1 + 1);
        Transition {
            reward,
            terminated: state.1 == 4,
        }
    }
    fn observe(&self, state: &(f32, u32), out: &mut [f32]) {
        out[0] = state.0;
    }
}

/// The best constant action, 0, has a mean return of -4/3.
#[test]
fn it_learns_continuous_actions() {
    let quick = "rollout_steps = 32, gradient_blocks = 2, n_epochs = 8, loss = { entropy_coefficient = 0.0 },
                 optimiser = { rule = 'adam', learning_rate = 1e-2 }";
    let environments = Environments::functional(Aim, None).unwrap();
    let start = Start::New {
        config: config(20_480, &quick.replace('\n', " ")),
        folder: None,
    };
    let options = RunOptions {
        environments: Some(environments.clone()),
        ..RunOptions::default()
    };
    let mut outcome = train(&start, &options, &mut |_| ()).unwrap();
    for (choice, at_least) in [(Choice::Greedy, -0.1), (Choice::Sampled, -0.5)] {
        let played = Evaluation::play(outcome.agent.as_mut(), &environments, 50, choice, 1);
        let mean = played.unwrap().mean_return();
        assert!(mean > at_least, "{choice:?} {mean}");
    }
}

/// The algorithms without continuous actions say so.
#[test]
fn other_algorithms_refuse_boxes() {
    for name in ["apex", "dqn", "impala", "reinforce"] {
        let config = AgentConfig::for_environment(name, "pendulum").unwrap();
        let error = config.check().unwrap_err();
        let message = error.to_string();
        assert!(error.is_input(), "{message}");
        assert!(message.contains("discrete"), "{message}");
    }
}
