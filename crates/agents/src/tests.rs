//! Settings, whole runs in folders, weights in files, and that cart and pole is learnt.

pub(crate) mod device;
pub(crate) mod environments;
mod own_environment;
mod ranks;
pub(crate) mod resuming;

use std::fs;
use std::path::Path;

use crate::evaluation::Choice;
use crate::rules::{Widths, n_weights_of_policy, n_weights_of_values};
use crate::tests::environments::cartpole;
use crate::{
    Agent, AgentConfig, Algorithm, DqnAgent, DqnConfig, Error, Evaluation, PolicyAgent, RunOptions,
    Start, TrainOutcome, train, train_as_rank,
};

const SMALL: &str = "
    steps = 900
    checkpoint_steps = 250
    environment = { name = 'cartpole', n_environments = 2 }
    [algorithm]
    name = 'dqn'
    network = { hidden = [16] }
    batch_size = 16
    gradient_blocks = 2
    learning_starts = 100
    train_every = 5
    log_updates = 3
";

fn small() -> AgentConfig {
    AgentConfig::from_toml(SMALL).unwrap()
}

fn run(start: &Start, options: &RunOptions) -> Result<TrainOutcome, Error> {
    train(start, options, &mut |_| ())
}

fn new(config: &AgentConfig, folder: Option<&Path>) -> Start {
    Start::New {
        config: config.clone(),
        folder: folder.map(Path::to_owned),
    }
}

fn ranks(n_ranks: u32) -> RunOptions {
    RunOptions {
        n_ranks,
        ..RunOptions::default()
    }
}

/// The metrics without what a clock decides.
fn metrics(folder: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.retain(|key, _| key != "time/steps_per_second" && key != "wall_time");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn settings_come_back_from_their_text() {
    for (name, _) in AgentConfig::names() {
        let config = AgentConfig::named(name).unwrap();
        config.check().unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(AgentConfig::from_json(&text).unwrap(), config, "{name}");
    }
    let Algorithm::Dqn(dqn) = small().algorithm else {
        panic!("another algorithm")
    };
    assert_eq!(dqn.optimiser, DqnConfig::default().optimiser);
    let toml = AgentConfig::from_toml(&format!(
        "{SMALL}\ntd_loss = {{ huber = {{ delta = 2.0 }} }}\n"
    ))
    .unwrap();
    let Algorithm::Dqn(dqn) = toml.algorithm else {
        panic!("another algorithm")
    };
    assert_eq!(
        dqn.td_loss,
        shardgraph_components::TdLoss::Huber { delta: 2.0 }
    );
}

/// What is replaced in [`SMALL`], by what, and a part of the message.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "steps = 900",
        "schema_version = 0\nsteps = 900",
        "`schema_version`: expected 1, given 0",
    ),
    (
        "steps = 900",
        "schema_version = 2\nfuture = 1\nsteps = 900",
        "`schema_version`: expected 1, given 2",
    ),
    (
        "steps = 900",
        "steps = 0",
        "`steps`: expected at least 1, given 0",
    ),
    ("steps = 900", "stepps = 900", "unknown field `stepps`"),
    (
        "checkpoint_steps = 250",
        "checkpoint_steps = 0",
        "`checkpoint_steps`",
    ),
    (
        "n_environments = 2",
        "n_environments = 0",
        "`environment.n_environments`: expected 1 to 2^20, given 0",
    ),
    (
        "n_environments = 2",
        "n_carts = 2",
        "unknown field `n_carts`",
    ),
    (
        "'cartpole'",
        "'pong'",
        "`environment.name`: expected acrobot, asterix, breakout, cartpole,",
    ),
    ("'dqn'", "'sarsa'", "unknown variant `sarsa`"),
    ("batch_size = 16", "batch = 16", "unknown field `batch`"),
    (
        "batch_size = 16",
        "batch_size = 0",
        "`algorithm.batch_size`: expected 1 to 1048576, given 0",
    ),
    (
        "gradient_blocks = 2",
        "gradient_blocks = 3",
        "`algorithm.gradient_blocks`: expected a number that divides",
    ),
    (
        "gradient_blocks = 2",
        "gradient_blocks = 0",
        "`algorithm.gradient_blocks`",
    ),
    (
        "learning_starts = 100",
        "learning_starts = 15",
        "`algorithm.learning_starts`: expected at least 16 steps",
    ),
    (
        "learning_starts = 100",
        "learning_starts = 19\nn_step = 3",
        "expected at least 20 steps",
    ),
    (
        "train_every = 5",
        "train_every = 0",
        "`algorithm.train_every`",
    ),
    ("train_every = 5", "n_step = 0", "`algorithm.n_step`"),
    (
        "train_every = 5",
        "gamma = 1.01",
        "`algorithm.gamma`: expected 0 to 1, given 1.01",
    ),
    (
        "train_every = 5",
        "gamma = nan",
        "`algorithm.gamma`: expected 0 to 1, given NaN",
    ),
    (
        "train_every = 5",
        "td_loss = { huber = { delta = 0.0 } }",
        "`algorithm.td_loss`: component `dqn_loss`",
    ),
    (
        "train_every = 5",
        "replay = { capacity = 15 }",
        "`algorithm.replay.capacity`: expected `batch_size`, 16, to",
    ),
    (
        "train_every = 5",
        "replay = { prioritized = { alpha = 1.5 } }",
        "`algorithm.replay.prioritized.alpha`",
    ),
    (
        "train_every = 5",
        "replay = { prioritized = { epsilon = 0.0 } }",
        "`algorithm.replay.prioritized.epsilon`",
    ),
    (
        "train_every = 5",
        "exploration = { fraction = -1.0 }",
        "`algorithm.exploration.fraction`",
    ),
    (
        "hidden = [16]",
        "hidden = [16, 0]",
        "`algorithm.network`: expected layers of at least 1",
    ),
    (
        "train_every = 5",
        "optimiser = { rule = 'adam', learning_rate = 0.0 }",
        "`algorithm.optimiser`",
    ),
];

/// An algorithm with a setting that cannot be right, and a part of the message.
const WRONG_ALGORITHMS: &[(&str, &str)] = &[
    (
        "name = 'dqn', network = { hidden = [65536, 65536] }",
        "`algorithm.network`: expected layers of at least 1, with at most 134217728 weights",
    ),
    (
        "name = 'dqn', network = { hidden = [16], dueling = [0] }",
        "`algorithm.network`",
    ),
    (
        "name = 'dqn', optimiser = { rule = { adam = { beta1 = 1.0 } }, learning_rate = 0.1 }",
        "`algorithm.optimiser`: component `optimiser`, OptimiserConfig::check: beta1",
    ),
    (
        "name = 'dqn', batch_size = 4000000000, learning_starts = 4000000000",
        "`algorithm.batch_size`: expected 1 to 1048576",
    ),
    (
        "name = 'apex', n_actors = 0",
        "`algorithm.n_actors`: expected 1 to 1024, given 0",
    ),
    (
        "name = 'apex', n_actors = 4294967295",
        "`algorithm.n_actors`: expected 1 to 1024",
    ),
    (
        "name = 'apex', n_shards = 0",
        "`algorithm.n_shards`: expected 1 to 1024, given 0",
    ),
    (
        "name = 'apex', block_rows = 1000000000000",
        "`algorithm.block_rows`: expected 1 to",
    ),
    (
        "name = 'apex', prefetch_batches = 1000000000000",
        "`algorithm.prefetch_batches`: expected 1 to",
    ),
    (
        "name = 'apex', max_unacknowledged_blocks = 0",
        "`algorithm.max_unacknowledged_blocks`",
    ),
    (
        "name = 'apex', epsilon = nan",
        "`algorithm.epsilon`: expected 0 to 1, given NaN",
    ),
    (
        "name = 'apex', replay = { min_rows = 100 }",
        "`algorithm.replay.min_rows`: expected `batch_size`, 128, to `capacity`, 50000, given 100",
    ),
    (
        "name = 'apex', replay = { samples_per_insert = nan }",
        "`algorithm.replay.samples_per_insert`",
    ),
    (
        "name = 'apex', block_rows = 50001",
        "`algorithm.block_rows`: expected at most `replay.capacity`, 50000, given 50001",
    ),
    (
        "name = 'apex', replay = { tolerance = -1.0 }",
        "`algorithm.replay.tolerance`",
    ),
    (
        "name = 'apex', network = { hidden = [4096, 4096] }",
        "`algorithm.network`: expected layers of at least 1, with at most 16515072 weights",
    ),
    (
        "name = 'apex', optimiser = { rule = 'adam', learning_rate = -1.0 }",
        "`algorithm.optimiser`",
    ),
    ("name = 'impala', n_actors = 0", "`algorithm.n_actors`"),
    (
        "name = 'impala', unroll_steps = 0",
        "`algorithm.unroll_steps`: expected 1 to 1024, as each is a part of the learner's program, given 0",
    ),
    (
        "name = 'impala', batch_trajectories = 7",
        "`algorithm.batch_trajectories`: expected a multiple of `n_environments`, 2, given 7",
    ),
    (
        "name = 'impala', batch_trajectories = 1000000000000000",
        "`algorithm.batch_trajectories`: expected trajectories of together at most",
    ),
    (
        "name = 'impala', network = { hidden = [0] }",
        "`algorithm.network`: expected layers of at least 1",
    ),
    (
        "name = 'impala', network = { hidden = [4], lstm = 0 }",
        "`algorithm.network`",
    ),
    (
        "name = 'impala', network = { hidden = [4000000000000] }",
        "`algorithm.network`",
    ),
    (
        "name = 'impala', loss = { entropy_coefficient = -1.0 }",
        "agent settings: `algorithm.loss`: component `impala_loss`",
    ),
    (
        "name = 'impala', optimiser = { rule = 'adam', learning_rate = nan }",
        "agent settings: `algorithm.optimiser`",
    ),
    (
        "name = 'reinforce', batch_episodes = 0",
        "`algorithm.batch_episodes`",
    ),
    (
        "name = 'reinforce', network = { hidden = [0] }",
        "`algorithm.network`",
    ),
    (
        "name = 'reinforce', network = { lstm = 4 }",
        "`algorithm.network.lstm`: expected none",
    ),
    (
        "name = 'reinforce', loss = { entropy_coefficient = nan }",
        "`algorithm.loss`: component `reinforce`",
    ),
    (
        "name = 'reinforce', loss = { baseline_coefficient = -1.0 }",
        "`algorithm.loss`: component `reinforce`",
    ),
    (
        "name = 'reinforce', optimiser = { rule = 'sgd', learning_rate = 0.0 }",
        "agent settings: `algorithm.optimiser`",
    ),
];

#[test]
fn algorithms_that_cannot_be_right_are_named() {
    for (algorithm, expected) in WRONG_ALGORITHMS {
        let text = format!(
            "environment = {{ name = 'cartpole', n_environments = 2 }}\nalgorithm = {{ {algorithm} }}"
        );
        let config = AgentConfig::from_toml(&text).unwrap();
        let error = config.check().unwrap_err();
        let message = error.to_string();
        assert!(message.contains(expected), "{algorithm}: {message}");
        assert!(error.is_input(), "{algorithm}");
    }
}

/// What is counted before a network is made is what it has.
#[test]
fn weights_are_counted() {
    let widths = Widths::of(cartpole().spaces());
    for network in [
        "{ hidden = [] }",
        "{ hidden = [3] }",
        "{ hidden = [3, 5] }",
        "{ hidden = [3, 5], dueling = [] }",
        "{ hidden = [3], dueling = [7, 2] }",
        "{ hidden = [], dueling = [2] }",
    ] {
        let text = SMALL.replace("{ hidden = [16] }", network);
        let config = AgentConfig::from_toml(&text).unwrap();
        let counted = n_weights_of_values(&config.algorithm.dqn().unwrap().network, widths);
        let n_weights = agent(&config).weights().len();
        assert_eq!(counted as usize, n_weights, "{network}");
    }
    for network in [
        "{ hidden = [] }",
        "{ hidden = [3, 5] }",
        "{ hidden = [], lstm = 3 }",
        "{ hidden = [3, 5], lstm = 7 }",
    ] {
        let text = format!(
            "environment = {{ name = 'cartpole' }}\nalgorithm = {{ name = 'impala', network = {network} }}"
        );
        let config = AgentConfig::from_toml(&text).unwrap();
        let shape = &config.algorithm.impala().unwrap().network;
        let counted = n_weights_of_policy(shape, widths);
        let agent = PolicyAgent::of_config(&config, &RunOptions::default()).unwrap();
        assert_eq!(counted as usize, agent.weights().len(), "{network}");
    }
}

#[test]
fn a_run_that_went_a_little_beyond_its_last_step_is_finished() {
    let scratch = tempfile::tempdir().unwrap();
    let mut config = small();
    config.steps = 301; // of two environments
    run(&new(&config, Some(scratch.path())), &ranks(1)).unwrap();
    let resumed = Start::Resumed {
        folder: scratch.path().to_owned(),
    };
    let outcome = run(&resumed, &ranks(1)).unwrap();
    assert_eq!((outcome.n_steps, outcome.n_updates), (0, 0));
    let error = run(&resumed, &ranks(0)).unwrap_err().to_string();
    assert!(
        error.contains("ranks: expected at least 1, given 0"),
        "{error}"
    );
}

/// As processes do it: nobody has a folder before all can train.
#[test]
fn too_many_ranks_leave_no_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let start = new(&small(), Some(&out));
    let results = shardgraph_collectives::threads::run(3, |mut comm| {
        train_as_rank(&mut comm, &start, &ranks(3), &mut |_| ()).map(drop)
    });
    for result in results {
        let message = result.unwrap().unwrap_err().to_string();
        assert!(
            message.contains("`algorithm.gradient_blocks`: expected at least 3"),
            "{message}"
        );
    }
    assert!(!out.exists());
}

#[test]
fn settings_that_cannot_be_right_are_named() {
    let message = |text: &str| match AgentConfig::from_toml(text).and_then(|config| config.check())
    {
        Err(error) => error.to_string(),
        Ok(()) => panic!("{text}: accepted"),
    };
    let changed = |old: &str, new: &str| {
        assert!(SMALL.contains(old), "{old}");
        message(&SMALL.replacen(old, new, 1))
    };
    for (old, new, expected) in WRONG {
        let message = changed(old, new);
        assert!(message.contains(expected), "{new}: {message}");
    }
}

#[test]
fn ranks_share_a_run() {
    let config = small();
    let hash = |n_ranks| {
        run(&new(&config, None), &ranks(n_ranks))
            .unwrap()
            .agent
            .weights_hash()
    };
    assert_eq!(hash(1), hash(2));
    let message = run(&new(&config, None), &ranks(3)).unwrap_err().to_string();
    assert!(
        message.contains("`algorithm.gradient_blocks`: expected at least 3"),
        "{message}"
    );
    assert!(run(&new(&config, None), &ranks(0)).is_err());
    let mut other_seed = config.clone();
    other_seed.seed = 2;
    let other = run(&new(&other_seed, None), &ranks(1)).unwrap();
    assert_ne!(other.agent.weights_hash(), hash(1));
}

/// A bar needs two reports for the time left, also where a step takes milliseconds.
#[test]
fn progress_is_told_each_hundred_steps() {
    let mut steps = Vec::new();
    train(&new(&small(), None), &ranks(2), &mut |report| {
        steps.push(report.step)
    })
    .unwrap();
    assert_eq!(steps, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

#[test]
fn the_metrics_tell_of_every_episode_and_of_losses() {
    let scratch = tempfile::tempdir().unwrap();
    let outcome = run(&new(&small(), Some(scratch.path())), &ranks(1)).unwrap();
    let lines = metrics(scratch.path());
    let with = |key| lines.iter().filter(move |line| line.get(key).is_some());
    assert_eq!(
        with("train/episodic_return").count() as u64,
        outcome.n_episodes
    );
    let steps: Vec<u64> = with("train/td_loss")
        .map(|line| line["step"].as_u64().unwrap())
        .collect();
    // Each third update; the first is the one at step 100, and one follows every 5 steps of two environments.
    assert_eq!(steps[..3], [110, 126, 140]);
}

/// What must be the same byte for byte.
fn assert_same_files(found: &Path, expected: &Path) {
    for name in [
        "weights.safetensors",
        "checkpoint-0000000900/run.json",
        "checkpoint-0000000900/state.safetensors",
    ] {
        let read = |folder: &Path| fs::read(folder.join(name)).unwrap();
        assert!(read(found) == read(expected), "{name}");
    }
}

fn agent(config: &AgentConfig) -> DqnAgent {
    DqnAgent::of_config(config, &RunOptions::default()).unwrap()
}

#[test]
fn weights_go_to_a_file_and_come_back() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("w.safetensors");
    let trained = run(&new(&small(), None), &ranks(1)).unwrap().agent;
    trained.export(&path).unwrap();
    let mut other = agent(&small());
    assert_ne!(other.weights(), trained.weights());
    other.import(&path).unwrap();
    assert_eq!(other.weights(), trained.weights());
}

#[test]
fn weights_of_another_network_or_of_none_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("w.safetensors");
    agent(&small()).export(&path).unwrap();
    let refused = |network: &str, parts: &[&str]| {
        let text = SMALL.replace("{ hidden = [16] }", network);
        let mut agent = agent(&AgentConfig::from_toml(&text).unwrap());
        let before = agent.weights().to_vec();
        let message = agent.import(&path).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(agent.weights(), before);
    };
    refused("{ hidden = [17] }", &["expected F32 [4, 17]", "[4, 16]"]);
    refused("{ hidden = [16], dueling = [] }", &["is missing"]);
    refused("{ hidden = [] }", &["another network"]);
    let mut bytes = fs::read(&path).unwrap();
    let n = bytes.len();
    bytes[n - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    refused(
        "{ hidden = [16] }",
        &["expected a finite number, given NaN"],
    );
    fs::write(&path, "no weights").unwrap();
    refused("{ hidden = [16] }", &["no safetensors file"]);
}

/// A small sure task: half of the episodes of random actions end within 20 steps.
#[test]
fn cart_and_pole_is_learnt() {
    let config = AgentConfig::from_toml(
        "
        steps = 30_000
        environment = { name = 'cartpole', n_environments = 4 }
        [algorithm]
        name = 'dqn'
        network = { hidden = [64, 64] }
        double = true
        n_step = 3
        batch_size = 64
        learning_starts = 1000
        train_every = 4
        target_sync_steps = 200
        optimiser = { rule = 'adam', learning_rate = 1e-3 }
        exploration = { start = 1.0, end = 0.05, fraction = 0.3 }
    ",
    )
    .unwrap();
    let mut outcome = run(&new(&config, None), &ranks(1)).unwrap();
    let greedy =
        Evaluation::play(outcome.agent.as_mut(), &cartpole(), 50, Choice::Greedy, 1).unwrap();
    assert!(greedy.mean_return() > 150.0, "{}", greedy.mean_return());
    let mut untrained = DqnAgent::of_config(&config, &RunOptions::default()).unwrap();
    let random = Evaluation::play(&mut untrained, &cartpole(), 50, Choice::Greedy, 1).unwrap();
    assert!(random.mean_return() < 100.0, "{}", random.mean_return());
}
