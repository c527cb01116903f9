//! What a run will take of the host's memory: known before it begins, so that one that cannot fit is refused.

use shardgraph_device::free_host_bytes;
use shardgraph_replay::{NStepAssembler, PrioritizedMemory};

use crate::config::{AgentConfig, Algorithm};
use crate::dqn::layout_of;
use crate::error::Error;
use crate::experience::Start;
use crate::rules::Rule;
use crate::run_environments::Environments;

/// Where the parts of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All in this process.
    Together,
    /// Each in a process of its own; this is one of them.
    Apart,
}

/// Refuses a run whose rows, priorities and environments do not fit the memory that is free.
pub(crate) fn check_room(
    config: &AgentConfig,
    environments: &Environments,
    parts: Parts,
) -> Result<(), Error> {
    match free_host_bytes() {
        Some(free) => check(config, environments, parts, free),
        None => Ok(()),
    }
}

fn check(
    config: &AgentConfig,
    environments: &Environments,
    parts: Parts,
    free: u64,
) -> Result<(), Error> {
    let (replay, capacity) = replay_bytes(config, environments, parts)?;
    let n_environments = config.environment.n_environments;
    let environments = environment_bytes(config, environments, parts);
    let (field, given) = match replay > environments {
        true => ("algorithm.replay.capacity", capacity),
        false => ("environment.n_environments", n_environments),
    };
    let sum = replay.saturating_add(environments);
    Rule {
        field,
        holds: sum <= free,
        expected: format!(
            "less: replay memory and environments take {} MiB, and {} MiB are free",
            sum.div_ceil(1 << 20),
            free >> 20
        ),
        given: given.to_string(),
    }
    .check()
}

/// Priorities of all rows, which are there from the start, and the rows that the run's steps can fill; and the capacity that asks for them.
fn replay_bytes(
    config: &AgentConfig,
    environments: &Environments,
    parts: Parts,
) -> Result<(u64, usize), Error> {
    let (capacity, n_shards, is_prioritized) = match &config.algorithm {
        Algorithm::Dqn(dqn) => (dqn.replay.capacity, 1, dqn.replay.prioritized.is_some()),
        Algorithm::Sac(sac) => (sac.replay.capacity, 1, false),
        Algorithm::Apex(apex) => (apex.replay.capacity, apex.n_shards, true),
        Algorithm::Impala(_) | Algorithm::Ppo(_) | Algorithm::Reinforce(_) => return Ok((0, 0)),
    };
    let n_shards = match parts {
        Parts::Together => u64::from(n_shards),
        Parts::Apart => 1,
    };
    let priorities = match is_prioritized {
        true => PrioritizedMemory::priority_bytes(capacity),
        false => 0,
    };
    // A step in every environment may be more than the run's steps.
    let n_steps = config.steps.max(config.environment.n_environments as u64);
    let n_rows = (capacity as u64).saturating_mul(n_shards).min(n_steps);
    let rows = n_rows.saturating_mul(layout_of(environments.spaces())?.row_bytes() as u64);
    Ok((
        n_shards.saturating_mul(priorities).saturating_add(rows),
        capacity,
    ))
}

/// States, observations and the windows of rewards that are open.
fn environment_bytes(config: &AgentConfig, environments: &Environments, parts: Parts) -> u64 {
    let (n_step, n_actors) = match &config.algorithm {
        Algorithm::Dqn(dqn) => (dqn.n_step, 1),
        Algorithm::Sac(_) => (1, 1),
        Algorithm::Apex(apex) => (apex.n_step, apex.n_actors),
        Algorithm::Impala(impala) => (0, impala.n_actors),
        Algorithm::Ppo(_) | Algorithm::Reinforce(_) => (0, 1),
    };
    let n_actors = match parts {
        Parts::Together => u64::from(n_actors),
        Parts::Apart => 1,
    };
    let row = 4 * environments.spaces().n_features() as u64;
    let action = 4 * environments.spaces().action_form().1 as u64;
    // A window: the observation and the action; and its slot and the reward in a list of its own that grows by doubling from 4.
    let windows = match n_step {
        0 => 0,
        n => {
            let n_open = u64::from(n).next_power_of_two().max(4);
            let own = u64::from(n).saturating_mul(row + action);
            let lists = n_open * 8 + size_of::<NStepAssembler<Start>>() as u64;
            own.saturating_add(16 + lists)
        }
    };
    let each = (3 * row).saturating_add(windows);
    (config.environment.n_environments as u64)
        .saturating_mul(each)
        .saturating_mul(n_actors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::environments::cartpole;

    fn config(text: &str) -> AgentConfig {
        let config = AgentConfig::from_toml(text).unwrap();
        config.check().unwrap();
        config
    }

    #[test]
    fn a_run_that_cannot_fit_is_refused_before_it_begins() {
        let apex = |capacity: u64, n_shards: u32| {
            config(&format!(
                "steps = 300\nenvironment = {{ name = 'cartpole' }}\n\
                 algorithm = {{ name = 'apex', n_shards = {n_shards}, replay = {{ capacity = {capacity} }} }}"
            ))
        };
        let dqn = |replay: &str| {
            config(&format!(
                "steps = 300\nenvironment = {{ name = 'cartpole' }}\nalgorithm = {{ name = 'dqn', replay = {{ {replay} }} }}"
            ))
        };
        let gib = 1 << 30;
        let refused = |config: &AgentConfig, parts, free| {
            let error = check(config, &cartpole(), parts, free).unwrap_err();
            assert!(error.is_input(), "{error}");
            error.to_string()
        };
        let message = refused(&apex(u32::MAX.into(), 1), Parts::Together, 16 * gib);
        assert!(
            message.contains("algorithm.replay.capacity") && message.contains("MiB are free"),
            "{message}"
        );
        // Shards in other processes take nothing here.
        let shared = apex(1 << 27, 64);
        refused(&shared, Parts::Together, 16 * gib);
        check(&shared, &cartpole(), Parts::Apart, 16 * gib).unwrap();
        // Rows are taken as they come, priorities at once.
        let rows = dqn("capacity = 4294967295");
        check(&rows, &cartpole(), Parts::Together, gib).unwrap();
        let prioritized = dqn("capacity = 4294967295, prioritized = {}");
        refused(&prioritized, Parts::Together, 16 * gib);
        let many = config(
            "steps = 300\nenvironment = { name = 'cartpole', n_environments = 1048576 }\nalgorithm = { name = 'dqn', learning_starts = 2000 }",
        );
        let message = refused(&many, Parts::Together, 100 << 20);
        assert!(message.contains("environment.n_environments"), "{message}");
        check(&many, &cartpole(), Parts::Together, gib).unwrap();
    }
}
