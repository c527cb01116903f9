//! Tags of the usual curves, in one scheme for all jobs: `train/` of training, `eval/` of evaluations, `time/` of clocks.

/// The undiscounted sum of an episode's rewards, at the step that ended it.
pub const EPISODIC_RETURN: &str = "train/episodic_return";
/// The number of an episode's steps.
pub const EPISODIC_LENGTH: &str = "train/episodic_length";
/// Environment steps a second since this process began its part of the run.
pub const STEPS_PER_SECOND: &str = "time/steps_per_second";
/// The loss of the temporal differences before an update.
pub const TD_LOSS: &str = "train/td_loss";
/// The mean value of the actions taken, in the batch of an update.
pub const Q_VALUES: &str = "train/q_values";
/// Loss of an actor-critic's policy, without its bonus for entropy.
pub const POLICY_LOSS: &str = "train/policy_loss";
/// The squared errors of its values.
pub const VALUE_LOSS: &str = "train/value_loss";
/// The entropy of its policy, in nats.
pub const ENTROPY: &str = "train/entropy";
/// Loss of an update.
pub const LOSS: &str = "train/loss";
/// Objective of the episodes that a step ended.
pub const OBJECTIVE: &str = "train/objective";
/// Probability of a random action.
pub const EPSILON: &str = "train/epsilon";
/// Norm of the gradient before it is cut.
pub const GRADIENT_NORM: &str = "train/gradient_norm";
/// Mean objective of evaluations on graphs that are held back.
pub const EVAL_OBJECTIVE: &str = "eval/objective";
/// The same of the cheapest method that needs no training.
pub const EVAL_BASELINE: &str = "eval/baseline";
/// How much worse than that method's objective the policy's is: 1 is equal, less is better.
pub const EVAL_RATIO: &str = "eval/ratio";
