//! Computation graphs and their schedules: a checked model, a performance model, decoders from random keys, baselines.
//!
//! A [`Graph`] comes from a file (crate `costgraph-io`), [`generate`] or a [`GraphBuilder`]; with a [`DeviceSet`] and [`ModelOptions`] it makes a
//! [`Problem`]. A [`Decoder`] turns chromosomes into [`Schedule`]s and their [`Outcome`]s, [`baseline`] makes schedules without a
//! search, [`Schedule::encode`] makes a chromosome of any of them, and [`Schedule::verify`] judges what is given out.
//! [`chrome_trace`] and [`gantt_svg`] show it.
//!
//! ```
//! use shardgraph_costgraph::*;
//!
//! let mut builder = GraphBuilder::new("two branches");
//! let ops = ["a", "b", "c"].map(|name| builder.op(OpSpec::new(name, 10)));
//! builder.tensor(TensorSpec::new(ops[0], 64, &[ops[1], ops[2]]));
//! let graph = builder.build()?;
//! let problem = Problem::new(&graph, &DeviceSet::uniform(2, None)?, Objective::Runtime, ModelOptions::default())?;
//! let outcome = baseline::upward_rank(&problem).verify(&problem)?.outcome;
//! assert_eq!(outcome.runtime_ns, lower_bounds(&problem).runtime_ns);
//! # Ok::<(), Error>(())
//! ```

#![forbid(unsafe_code)]

mod accounts;
pub mod baseline;
mod bound;
mod builder;
mod colocation;
mod contract;
mod decode;
mod device;
mod encode;
mod error;
mod exhaustive;
pub mod generate;
mod graph;
mod links;
mod model;
mod modules;
mod pipeline;
mod replay;
mod schedule;
#[cfg(test)]
mod tests;
mod timeline;
pub mod topology;
mod usage;
mod validity;

pub use bound::{Bounds, lower_bounds};
pub use builder::{GraphBuilder, MAX_TOTAL, OpSpec, TensorSpec, whole};
pub use colocation::ColocationGroup;
pub use contract::Contraction;
pub use decode::{Decoder, DecoderKind};
pub use device::{Device, DeviceSet, Link, MAX_DEVICES};
pub use error::{Error, ErrorKind};
pub use exhaustive::optimum;
pub use graph::Graph;
pub use links::{NAMED_LINKS, NamedLink};
pub use model::{ModelOptions, Objective, Outcome, Problem};
pub use modules::device_map;
pub use pipeline::{Pipeline, PipelineTransfer, period_bound};
pub use replay::replay;
pub use schedule::{MemoryPoint, Schedule, Simulation, Span, Step};
pub use shardgraph_error::SourcePos;
pub use timeline::{chrome_trace, gantt_svg};
pub use usage::{CriticalPath, DeviceUsage, LinkUsage, Usage};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
