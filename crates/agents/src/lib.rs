//! Reinforcement-learning agents from declarative settings: built, trained, kept and evaluated.
//!
//! An agent is a plain struct over components: [`DqnAgent`] acts and learns, each by one planned
//! program on a device. Its settings are an [`AgentConfig`], read from TOML or JSON or taken by
//! name; they decide every bit of a run, but for ranks that overtake each other. The device, the
//! number of ranks and the run's folder are [`RunOptions`] and decide none, but for the kind of
//! device. [`train`] runs in a folder with metrics and checkpoints, from which a run that was killed
//! goes on to the same result.
//!
//! ```text
//! AgentConfig: environment, Algorithm, network, steps; AgentConfig::named
//!   ── train, train_as_rank, train_by_messages (Start, RunOptions) ──> TrainOutcome: a trained dyn Agent
//!        DQN, SAC: Experience ── memory ── update       PPO, REINFORCE: episodes ── update
//!        Ape-X: actors ── Experience ──> memories ── batches ──> learners
//!        IMPALA: actors ── episodes ──> learners;  weights go back to the actors
//!   folder: metrics, checkpoints, weights ──> Start::Resumed; Evaluation::play
//! Agent ── DqnAgent, SacAgent, PolicyAgent (PPO, IMPALA): act, update, over components
//! statistics: interquartile_mean, interquartile_interval over runs
//! ```
//!
//! ```
//! use shardgraph_agents::{AgentConfig, RunOptions, Start, train};
//!
//! let config = AgentConfig::from_toml("
//!     steps = 600
//!     environment = { name = 'cartpole' }
//!     algorithm = { name = 'dqn', learning_starts = 200 }
//! ")?;
//! let start = Start::New { config, folder: None };
//! let outcome = train(&start, &RunOptions::default(), &mut |_| ())?;
//! assert_eq!((outcome.n_steps, outcome.n_updates), (600, 41)); // one in ten steps, from 200 to 600
//! # Ok::<(), shardgraph_agents::Error>(())
//! ```
#![forbid(unsafe_code)]

mod act_programs;
mod advance;
mod agent;
mod apex;
mod block_update;
mod build_agent;
mod checkpoint;
mod config;
mod documented;
mod dqn;
mod episodes;
mod error;
mod evaluation;
mod experience;
mod impala;
mod log_probability;
mod memory;
mod named;
mod observations;
mod off_policy;
mod policy_agent;
mod policy_program;
mod ppo;
mod processes;
mod rank_trainer;
mod reinforce;
mod rules;
mod run;
mod run_environments;
mod run_options;
mod sac;
mod settings_text;
mod statistics;
mod topology;
mod trainer_kind;
mod weights;

#[cfg(test)]
mod tests;

// The crates whose types are part of this one's interface.
pub use shardgraph_autodiff as autodiff;
pub use shardgraph_collectives as collectives;
pub use shardgraph_components as components;
pub use shardgraph_device as device;
pub use shardgraph_environments as environments;
pub use shardgraph_graph as graph;
pub use shardgraph_job as job;
pub use shardgraph_replay as replay;

pub use agent::Agent;
pub use apex::{ApexConfig, ApexReplayConfig};
pub use config::{AgentConfig, Algorithm, SCHEMA_VERSION};
pub use dqn::{
    DqnAgent, DqnConfig, DqnTrainer, ExplorationConfig, PrioritizedConfig, ReplayConfig, Update,
    transition_layout,
};
pub use episodes::{Episode, EpisodeStatistics, N_RECENT_EPISODES};
pub use error::{Error, ErrorKind};
pub use evaluation::{Choice, Evaluation};
pub use impala::ImpalaConfig;
pub use observations::{ActionBuffer, Seen};
pub use policy_agent::PolicyAgent;
pub use ppo::PpoConfig;
pub use processes::{check_processes, train_by_messages};
pub use reinforce::{PolicyUpdate, ReinforceConfig, policy_gradient, policy_step, rewards};
pub use rules::Widths;
pub use run::{ReplayTotals, Start, TrainOutcome, TrainProgress, train, train_as_rank};
pub use run_environments::{EnvironmentConfig, Environments, Spaces};
pub use run_options::RunOptions;
pub use sac::{SacAgent, SacConfig, SacNetworkConfig, SacReplayConfig, TemperatureConfig};
pub use statistics::{Interval, interquartile_interval, interquartile_mean};
pub use topology::PolicyLag;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
