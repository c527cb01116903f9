//! Settings as TOML in which every one is explained.

use serde_json::{Map, Value};

use crate::config::AgentConfig;
use crate::error::Error;

/// What each setting is for, by its tables and its name. Algorithms that share a name mean the same by it.
#[rustfmt::skip]
const EXPLAINED: &[(&str, &str)] = &[
    ("schema_version", "version of this file"),
    ("seed", "seed of all that is random"),
    ("steps", "steps of all environments together"),
    ("checkpoint_steps", "steps between checkpoints"),
    ("environment.name", "what the agent learns on"),
    ("environment.n_environments", "how many take their steps together, in each actor"),
    ("environment.scale_observations", "whether observations with bounds are scaled to -1 to 1"),
    ("environment.options", "options of the environment"),
    ("algorithm.name", "how it learns: dqn, apex, impala, ppo, reinforce or sac"),
    // Networks.
    ("algorithm.network", "layers"),
    ("algorithm.network.hidden", "widths of the hidden layers"),
    ("algorithm.network.dueling", "widths of the hidden layers of a value and an advantage stream, such as [84]; absent: one head"),
    ("algorithm.network.lstm", "hidden units of a memory behind the layers, such as 64; absent: none (IMPALA alone learns with one)"),
    ("algorithm.initialisation", "first weights: \"fan_in\", or { orthogonal = { hidden, memory, policy, value } } with a gain for each"),
    // Losses.
    ("algorithm.td_loss", "cost of a TD error: \"mse\", or { huber = { delta = 1.0 } }"),
    ("algorithm.loss", "the loss and its coefficients"),
    ("algorithm.loss.normalise", "whether advantages are shifted and scaled to mean 0 and variance 1"),
    ("algorithm.loss.baseline_coefficient", "factor of the squared errors of the values"),
    ("algorithm.loss.value_coefficient", "factor of half the squared errors of the values"),
    ("algorithm.loss.entropy_coefficient", "factor of the policy's entropy, in nats"),
    ("algorithm.loss.reduction", "\"mean\" or \"sum\" over all steps"),
    ("algorithm.loss.clip", "distance from 1 at which ratios of probabilities are clipped"),
    ("algorithm.loss.value_clip", "distance from the old value at which values are clipped, such as 0.2; absent: not"),
    ("algorithm.loss.v_trace", "the correction for steps that an older policy took"),
    ("algorithm.loss.v_trace.rho_bar", "largest ratio in a TD error"),
    ("algorithm.loss.v_trace.c_bar", "largest ratio in a trace"),
    ("algorithm.loss.v_trace.lambda", "decay of traces"),
    ("algorithm.temperature", "what a nat of the policy's entropy is worth"),
    ("algorithm.temperature.initial", "at first"),
    ("algorithm.temperature.learned", "whether it is learned"),
    ("algorithm.temperature.target_entropy", "entropy that a learned one holds the policy at, in nats, such as -1.0; absent: minus the elements of an action, and 0.98 of the largest for discrete ones"),
    // Steps of the optimiser.
    ("algorithm.optimiser", "how gradients become steps"),
    ("algorithm.optimiser.rule", "\"adam\", \"sgd\" or \"rms_prop\", or one with constants, such as { adam = { epsilon = 1e-5 } }"),
    ("algorithm.optimiser.learning_rate", "step size"),
    ("algorithm.optimiser.max_gradient_norm", "longest gradient, such as 10.0; absent: none is cut"),
    ("algorithm.anneal_learning_rate", "whether the step size falls to 0 over the run, in a line"),
    // Returns.
    ("algorithm.double", "whether the online network picks the action that the target network values"),
    ("algorithm.n_step", "rewards that are summed before the target network's value follows"),
    ("algorithm.gamma", "discount of a step"),
    ("algorithm.gae_lambda", "what an advantage counts of the next one, beside the discount"),
    ("algorithm.normalise_advantages", "whether advantages have mean 0 and deviation 1 in each minibatch"),
    // Batches.
    ("algorithm.batch_size", "transitions in a batch"),
    ("algorithm.batch_episodes", "episodes in a batch; `n_environments` counts for nothing here"),
    ("algorithm.batch_trajectories", "trajectories in a batch, a multiple of `n_environments`"),
    ("algorithm.unroll_steps", "steps of a trajectory"),
    ("algorithm.rollout_steps", "steps of each environment between updates"),
    ("algorithm.n_minibatches", "into how many minibatches these steps are cut"),
    ("algorithm.n_epochs", "how often each step is learned from"),
    ("algorithm.target_kl", "divergence from the policy that acted beyond which no more epochs follow, such as 0.02; absent: no bound"),
    ("algorithm.gradient_blocks", "into how many blocks a batch is cut, for ranks or learners to share"),
    // When.
    ("algorithm.learning_starts", "steps before the first update"),
    ("algorithm.train_every", "steps between updates"),
    ("algorithm.target_sync_steps", "steps between copies of the weights into the target network"),
    ("algorithm.tau", "part of the way that the target critics go to the critics with each update"),
    ("algorithm.target_sync_updates", "updates between copies of the weights into the target network"),
    ("algorithm.log_updates", "updates between two rows of losses in the metrics"),
    ("algorithm.log_rollouts", "rollouts between two rows of losses in the metrics"),
    // Memories.
    ("algorithm.replay", "the replay memory, of each shard"),
    ("algorithm.replay.capacity", "transitions that it holds"),
    ("algorithm.replay.prioritized", "draws in proportion to TD errors, such as { alpha = 0.6 }; absent: uniform draws"),
    ("algorithm.replay.prioritized.alpha", "from 0, uniform, to 1, proportional"),
    ("algorithm.replay.prioritized.epsilon", "what keeps transitions without an error reachable"),
    ("algorithm.replay.prioritized.beta_start", "how much importance weights make up for the draws at the first step"),
    ("algorithm.replay.prioritized.beta_end", "the same at the last step"),
    ("algorithm.replay.alpha", "how much priorities count, from 0, uniform, to 1, proportional"),
    ("algorithm.replay.epsilon", "what keeps transitions without an error reachable"),
    ("algorithm.replay.beta", "how much importance weights make up for the priorities"),
    ("algorithm.replay.min_rows", "transitions that a shard holds before its first batch"),
    ("algorithm.replay.samples_per_insert", "how often a transition is drawn, on average"),
    ("algorithm.replay.tolerance", "by how many drawn transitions a shard may be off that ratio"),
    // Exploration.
    ("algorithm.exploration", "how likely a random action is: a line, then a constant"),
    ("algorithm.exploration.start", "at the first step"),
    ("algorithm.exploration.end", "when the line has ended"),
    ("algorithm.exploration.fraction", "the part of the run's steps that the line takes"),
    ("algorithm.epsilon", "actor i of N takes random actions with probability epsilon ^ (1 + epsilon_alpha i / (N - 1))"),
    ("algorithm.epsilon_alpha", "see `epsilon`"),
    // Learner and actors.
    ("algorithm.n_learners", "learners that share each batch, threads of one process, with the same bits; at most `gradient_blocks`"),
    ("algorithm.n_actors", "actors, each with `n_environments` environments"),
    ("algorithm.n_shards", "shards of the replay memory"),
    ("algorithm.block_rows", "transitions in a block that an actor sends"),
    ("algorithm.max_unacknowledged_blocks", "blocks of an actor that no shard has acknowledged yet, at most"),
    ("algorithm.max_unacknowledged", "unrolls of an actor that the learner has not acknowledged yet, at most"),
    ("algorithm.weights_every_steps", "steps of an actor's environments between its questions for new weights"),
    ("algorithm.prefetch_batches", "batches that the learner has asked of each shard and not learned from yet, at most"),
    ("algorithm.lock_step", "whether learner and actor wait for each other, so that a run always ends the same"),
];

impl AgentConfig {
    /// These settings as TOML that [`AgentConfig::from_toml`] reads again, each with a comment that says what it is for. A setting that is
    /// absent is a comment too.
    ///
    /// # Errors
    /// When they have no form as text, which is a defect of the program.
    ///
    /// ```
    /// use shardgraph_agents::AgentConfig;
    /// let config = AgentConfig::named("cartpole-ppo").unwrap();
    /// let text = config.to_documented_toml()?;
    /// assert!(text.contains("# discount of a step\ngamma = "));
    /// assert_eq!(AgentConfig::from_toml(&text)?, config);
    /// # Ok::<(), shardgraph_agents::Error>(())
    /// ```
    pub fn to_documented_toml(&self) -> Result<String, Error> {
        let without_form = |error| Error::internal(format!("settings without a form: {error}"));
        // By way of text, in which an f32 has the digits that it was written with.
        let text = serde_json::to_string(self).map_err(without_form)?;
        let settings: Map<String, Value> = serde_json::from_str(&text).map_err(without_form)?;
        let mut out = String::new();
        write_table("", &settings, &mut out);
        Ok(out)
    }
}

fn explained(path: &str) -> Option<&'static str> {
    let found = EXPLAINED.iter().find(|(name, _)| *name == path);
    found.map(|(_, text)| *text)
}

/// Whether the settings of a value are explained one by one.
fn is_table(path: &str, value: &Value) -> bool {
    value.is_object()
        && EXPLAINED.iter().any(|(name, _)| {
            name.strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('.'))
        })
}

/// First what is no table, then the tables.
fn write_table(path: &str, settings: &Map<String, Value>, out: &mut String) {
    let within = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    // The name of a table comes first.
    let mut plain: Vec<_> = settings.iter().collect();
    plain.sort_by_key(|(name, _)| *name != "name" && *name != "schema_version");
    for (name, value) in &plain {
        let path = within(name);
        if is_table(&path, value) {
            continue;
        }
        if let Some(text) = explained(&path) {
            out.push_str(&format!("# {text}\n"));
        }
        match value {
            Value::Null => out.push_str(&format!("# {name} =\n")),
            value => out.push_str(&format!("{name} = {}\n", inline(value))),
        }
    }
    for (name, value) in &plain {
        let path = within(name);
        if let (true, Value::Object(settings)) = (is_table(&path, value), value) {
            let text = explained(&path).map_or(String::new(), |text| format!("# {text}\n"));
            out.push_str(&format!("\n{text}[{path}]\n"));
            write_table(&path, settings, out);
        }
    }
}

/// A value in one line. TOML's strings, numbers, flags and lists are JSON's; tables have other marks, and no nulls.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(settings) => {
            let there = settings.iter().filter(|(_, value)| !value.is_null());
            let parts: Vec<String> = there
                .map(|(name, value)| format!("{name} = {}", inline(value)))
                .collect();
            format!("{{ {} }}", parts.join(", "))
        }
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", parts.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<AgentConfig> {
        let named = AgentConfig::names().filter_map(|(name, _)| AgentConfig::named(name));
        let other = AgentConfig::from_toml(
            "environment = { name = 'cartpole', options = { size = 5, kind = 'open' } }
             algorithm = { name = 'ppo', target_kl = 0.02, initialisation = 'fan_in', loss = { value_clip = 0.2 },
                           optimiser = { rule = 'sgd', learning_rate = 0.1 } }"
                .replace("\n                           ", " ")
                .as_str(),
        );
        named.chain([other.unwrap()]).collect()
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for config in all() {
            let text = config.to_documented_toml().unwrap();
            assert_eq!(AgentConfig::from_toml(&text).unwrap(), config, "{text}");
        }
    }

    /// Nothing is shown without a comment, and no comment is of a setting that is not there.
    #[test]
    fn every_setting_is_explained() {
        let mut seen = BTreeSet::new();
        for config in all() {
            let text = config.to_documented_toml().unwrap();
            let (mut table, mut before) = (String::new(), "");
            for line in text.lines() {
                let setting = line.strip_prefix("# ").unwrap_or(line);
                if let Some(name) = line.strip_prefix('[') {
                    table = format!("{}.", name.trim_end_matches(']'));
                    seen.insert(name.trim_end_matches(']').to_owned());
                } else if let Some((name, _)) = setting
                    .split_once(" =")
                    .filter(|(name, _)| !name.contains(' '))
                {
                    let path = format!("{table}{name}");
                    assert_eq!(before.strip_prefix("# "), explained(&path), "{path}");
                    assert!(explained(&path).is_some(), "{path} is not explained");
                    seen.insert(path);
                }
                before = line;
            }
        }
        for (path, _) in EXPLAINED {
            assert!(
                seen.contains(*path) || *path == "environment",
                "{path} is no setting"
            );
        }
    }
}
