//! The names of the usual curves: what dashboards that were made for CleanRL's logs look for.

/// The undiscounted sum of an episode's rewards, at the step that ended it.
pub const EPISODIC_RETURN: &str = "charts/episodic_return";
/// The number of an episode's steps.
pub const EPISODIC_LENGTH: &str = "charts/episodic_length";
/// Environment steps a second since this process began its part of the run.
pub const SPS: &str = "charts/SPS";
/// The loss of the temporal differences before an update.
pub const TD_LOSS: &str = "losses/td_loss";
/// The mean value of the actions taken, in the batch of an update.
pub const Q_VALUES: &str = "losses/q_values";
/// What the policy of an actor-critic descends, without its bonus for entropy.
pub const POLICY_LOSS: &str = "losses/policy_loss";
/// The squared errors of its values.
pub const VALUE_LOSS: &str = "losses/value_loss";
/// The entropy of its policy, in nats.
pub const ENTROPY: &str = "losses/entropy";
