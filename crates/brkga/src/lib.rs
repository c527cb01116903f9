//! Biased random-key genetic algorithm (BRKGA) for any problem that a decoder can put a number on.
//!
//! A chromosome is a list of keys, f32 numbers of [0, 1). The caller's decoder turns one into a solution and returns its
//! [`Fitness`]; the engine keeps the best chromosomes of each generation (the elites), crosses them with the others, adds
//! mutants, and never looks at the problem. [`Brkga`] is the search, [`Config`] its numbers, [`BetaTables`] the proposals from
//! which mutants are drawn where they are not uniform, [`Outcome`] what comes back.
//!
//! ```
//! use shardgraph_brkga::{Brkga, Config};
//!
//! // Which of these eight numbers sum to 60? A key of at least 1/2 takes its number.
//! let numbers = [31u64, 41, 59, 26, 53, 58, 9, 20];
//! let sum = |keys: &[f32]| {
//!     let taken = numbers.iter().zip(keys).filter(|(_, key)| **key >= 0.5);
//!     taken.map(|(number, _)| number).sum::<u64>()
//! };
//! let config = Config { evaluations: 2000, target: Some((0, 0)), ..Config::default() };
//! let outcome = Brkga::new(8, &config)?.run(&mut [|keys: &[f32]| (sum(keys).abs_diff(60), 0)])?;
//! assert_eq!(sum(&outcome.best.keys), 60);
//! # Ok::<(), shardgraph_brkga::Error>(())
//! ```

#![forbid(unsafe_code)]

mod beta;
mod breed;
mod config;
mod engine;
mod error;
mod jobs;
#[cfg(test)]
mod naive;
mod outcome;
mod random;

pub use beta::{Beta, BetaCache, BetaTables};
pub use config::Config;
pub use engine::Brkga;
pub use error::{Error, ErrorKind};
pub use outcome::{Fitness, Generation, Individual, Outcome, Stop};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
