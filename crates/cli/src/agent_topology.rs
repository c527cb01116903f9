//! `shardgraph agent train` for Ape-X, IMPALA and REINFORCE: learner, shards and actors as threads, or as processes that a launcher started.

use std::fmt;

use serde::Serialize;
use shardgraph_agents::{
    Algorithm, RunOptions, Start, TopologyOutcome, train_topology, train_topology_as_process,
};
use shardgraph_collectives::messages::{Limits, Mailbox};
use shardgraph_collectives::{Launch, tcp};
use shardgraph_device::{Device, Timer};

use crate::agent_train::Show;
use crate::exit::BadInput;
use crate::report::ReportArgs;

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    algorithm: &'static str,
    environment: &'static str,
    seed: u64,
    steps: u64,
    episodes: u64,
    updates: u64,
    /// Over the last 100 episodes of the run.
    mean_return: Option<f64>,
    seconds: f64,
    env_steps_per_s: f64,
    updates_per_s: f64,
    /// In updates.
    mean_policy_lag: f64,
    max_policy_lag: u64,
    /// Actors and shards that the run went on without, and why.
    lost: Vec<String>,
    /// How often a transition was drawn, of Ape-X.
    samples_per_insert: Option<f64>,
    stale_priorities: u64,
    device: String,
    weights: Option<String>,
    policy_hash: String,
}

/// Whether these settings are run here.
pub(crate) fn is_topology(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Dqn(_))
}

/// Trains and, on the first rank, prints the answer.
pub(crate) fn run(start: &Start, options: &RunOptions, report: &ReportArgs) -> anyhow::Result<()> {
    let timer = Timer::start(&Device::host());
    let launch = Launch::from_env()?.filter(|launch| launch.size > 1);
    let report = report.of_rank(launch.as_ref().map_or(0, |launch| launch.rank));
    let mut show = Show::new(&report);
    let outcome = match launch {
        None => Some(train_topology(start, options, &mut |progress| {
            show.step(progress)
        })?),
        Some(launch) => {
            let mailbox = join(launch, options)?;
            train_topology_as_process(mailbox, start, options, &mut |progress| show.step(progress))?
        }
    };
    drop(show);
    match outcome {
        Some(outcome) => finish(start, options, &outcome, (&report, timer.elapsed_s())),
        None => Ok(()), // the learner says it
    }
}

/// Processes meet over TCP, whoever started them: the end of one must not be the end of all.
fn join(launch: Launch, options: &RunOptions) -> anyhow::Result<Mailbox> {
    let Some((master_addr, master_port)) = launch.meeting_point else {
        return Err(BadInput(format!(
            "{} started {} processes, but nothing says where they can meet: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there",
            launch.launcher, launch.size
        ))
        .into());
    };
    let config = tcp::TcpConfig {
        rank: launch.rank,
        size: launch.size,
        master_addr,
        master_port,
        job: launch.job,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        deadline: options.deadline,
    };
    Ok(Mailbox::join(&config, Limits::default())?)
}

fn finish(
    start: &Start,
    options: &RunOptions,
    outcome: &TopologyOutcome,
    (report, seconds): (&ReportArgs, f64),
) -> anyhow::Result<()> {
    for lost in &outcome.lost {
        report.warning(&format!("lost {lost}; the run went on without it"));
    }
    let weights = start
        .folder()
        .map(|folder| folder.join("weights.safetensors"));
    let per_s = |n: u64| n as f64 / seconds.max(1e-9);
    let inserted = outcome.n_inserted;
    report.answer(&Answer {
        algorithm: outcome.config.algorithm.name(),
        environment: outcome.config.environment.name(),
        seed: outcome.config.seed,
        steps: outcome.n_steps,
        episodes: outcome.n_episodes,
        updates: outcome.n_updates,
        mean_return: outcome.mean_return,
        seconds,
        env_steps_per_s: per_s(outcome.n_steps),
        updates_per_s: per_s(outcome.n_updates),
        mean_policy_lag: outcome.lag.mean(),
        max_policy_lag: outcome.lag.max(),
        lost: outcome.lost.clone(),
        samples_per_insert: (inserted > 0).then(|| outcome.n_sampled as f64 / inserted as f64),
        stale_priorities: outcome.n_stale,
        device: options.device.kind().to_string(),
        weights: weights.map(|path| path.display().to_string()),
        policy_hash: format!("{:016x}", outcome.weights_hash()),
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "algorithm {}", self.algorithm)?;
        writeln!(f, "environment {}", self.environment)?;
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "steps {}", self.steps)?;
        writeln!(f, "episodes {}", self.episodes)?;
        writeln!(f, "updates {}", self.updates)?;
        match self.mean_return {
            Some(mean_return) => writeln!(f, "mean return {mean_return:.3}")?,
            None => writeln!(f, "mean return none (no episode has ended)")?,
        }
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(
            f,
            "environment steps per second {:.0}",
            self.env_steps_per_s
        )?;
        writeln!(f, "updates per second {:.0}", self.updates_per_s)?;
        writeln!(
            f,
            "policy lag in updates: mean {:.1}, largest {}",
            self.mean_policy_lag, self.max_policy_lag
        )?;
        if let Some(ratio) = self.samples_per_insert {
            writeln!(f, "samples per insert {ratio:.3}")?;
            writeln!(f, "stale priorities {}", self.stale_priorities)?;
        }
        for lost in &self.lost {
            writeln!(f, "lost {lost}")?;
        }
        writeln!(f, "device {}", self.device)?;
        if let Some(weights) = &self.weights {
            writeln!(f, "weights {weights}")?;
        }
        writeln!(f, "policy hash {}", self.policy_hash)
    }
}
