//! `shardgraph agent train` for Ape-X, IMPALA and REINFORCE: learner, shards and actors as threads, or as processes that a launcher started.

use serde::Serialize;
use shardgraph_agents::{
    AgentConfig, Algorithm, RunOptions, Start, TrainOutcome, TrainProgress, train,
    train_by_messages,
};
use shardgraph_collectives::Launch;
use shardgraph_collectives::messages::{Limits, Mailbox};
use shardgraph_collectives::tcp::TcpConfig;
use shardgraph_device::{Device, Timer};

use crate::agent_answer::{Head, Tail};
use crate::agent_train::Show;
use crate::report::ReportArgs;
use crate::text::Layout;
use crate::world::{tcp_config, warn_of_strangers};

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    head: Head,
    updates_per_s: f64,
    /// In updates.
    mean_policy_lag: f64,
    max_policy_lag: u64,
    /// Actors and shards that the run went on without, and why.
    lost: Vec<String>,
    /// How often a transition was drawn, of Ape-X.
    samples_per_insert: Option<f64>,
    stale_priorities: u64,
    #[serde(flatten)]
    tail: Tail,
}

/// Whether these settings are run here.
pub(crate) fn is_topology(algorithm: &Algorithm) -> bool {
    !matches!(
        algorithm,
        Algorithm::Dqn(_) | Algorithm::Ppo(_) | Algorithm::Sac(_)
    )
}

/// Trains and, on the first rank, prints the answer. `launch` says which of several processes this is.
pub(crate) fn run(
    start: &Start,
    config: &AgentConfig,
    launch: Option<Launch>,
    options: &RunOptions,
    report: &ReportArgs,
) -> anyhow::Result<()> {
    let report = report.of_rank(launch.as_ref().map_or(0, |launch| launch.rank));
    let mut show = Show::new(&report);
    let mut progress = |progress: &TrainProgress| show.step(progress);
    let (timer, outcome) = match launch {
        None => {
            let timer = Timer::start(&Device::host());
            (timer, Some(train(start, options, &mut progress)?))
        }
        Some(launch) => {
            let mailbox = join(launch, config, options)?;
            let timer = Timer::start(&Device::host());
            let outcome = train_by_messages(mailbox, start, options, &mut progress)?;
            (timer, outcome)
        }
    };
    let n_lost = show.n_lost;
    drop(show);
    match outcome {
        Some(outcome) => {
            for lost in outcome.lost.iter().skip(n_lost) {
                report.warning(&format!("lost {lost}; the run went on without it"));
            }
            finish(start, options, &outcome, &report, timer.elapsed_s())
        }
        None => Ok(()), // the learner says it
    }
}

/// Processes meet over TCP, whoever started them: the end of one must not be the end of all. Who has other settings or goes to another step is refused.
fn join(launch: Launch, config: &AgentConfig, options: &RunOptions) -> anyhow::Result<Mailbox> {
    let last_step = options.stop_at.unwrap_or(config.steps);
    let config = TcpConfig {
        version: format!(
            "{} with settings {:016x} to step {last_step}",
            env!("CARGO_PKG_VERSION"),
            config.fingerprint()?
        ),
        ..tcp_config(launch, options.deadline)?
    };
    warn_of_strangers(&config);
    Ok(Mailbox::join(&config, Limits::default())?)
}

fn finish(
    start: &Start,
    options: &RunOptions,
    outcome: &TrainOutcome,
    report: &ReportArgs,
    seconds: f64,
) -> anyhow::Result<()> {
    let head = Head::new(outcome, seconds, report);
    let replayed = outcome.replayed;
    report.answer(
        &Answer {
            head,
            updates_per_s: outcome.n_updates as f64 / seconds.max(1e-9),
            mean_policy_lag: outcome.lag.mean(),
            max_policy_lag: outcome.lag.max(),
            lost: outcome.lost.clone(),
            samples_per_insert: (replayed.n_inserted > 0)
                .then(|| replayed.n_sampled as f64 / replayed.n_inserted as f64),
            stale_priorities: replayed.n_stale,
            tail: Tail::new(start, options, outcome.agent.weights_hash()),
        },
        &Layout::first("mean_return"),
    )
}
