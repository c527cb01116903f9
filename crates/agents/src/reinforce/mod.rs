//! REINFORCE with a baseline: settings, one step of a policy gradient for any policy, rewards from a queue of work, and the loop on carts
//! with poles.

mod config;
mod episodes;
mod rewards;
mod step;
mod trainer;

#[cfg(test)]
mod tests;

pub use config::ReinforceConfig;
pub use rewards::rewards;
pub use step::{PolicyUpdate, policy_gradient, policy_step};
pub(crate) use trainer::ReinforceTrainer;
