//! Reverse-mode differentiation over one closed set of tensor operations, including the collective ones.
//!
//! Layers are written against one trait, [`Ctx`], with [`Var`] handles for values. Three interpreters run the same
//! method: [`ShapeCheck`] finds the shape of every result, and names the operation and both shapes where they do not
//! fit, before a byte is allocated; [`Eager`] computes values at once and keeps the tape; [`Recorder`] writes the program
//! down, for a [`Plan`] whose [`Program`] runs it many times in one arena. [`gradient`] is written once, in operations of
//! the same set, so it serves every interpreter, and the last two give the same bits.
//!
//! **Ranks.** A variable is either *replicated* (the same bits on every rank) or *sharded* by rows, as a
//! [`BatchLayout`] says. The loss is replicated. The operations between the two worlds ([`Op::ShardMatMul`],
//! [`Op::StateSum`], ...) have adjoints whose cross-rank sums are exact over fixed row blocks, so that every gradient
//! has the same bits for any number of ranks.
//!
//! ```
//! use shardgraph_autodiff::{gradient, Ctx, Eager, Params, Shape};
//! use shardgraph_collectives::Comm;
//! use shardgraph_device::{Device, Loss};
//!
//! let mut params = Params::new();
//! let w = params.add("w", Shape::new(1, 1), || 3.0);
//! let (device, mut comm) = (Device::host(), Comm::solo());
//! let mut ctx = Eager::new(&device, &mut comm, &params);
//! let w = ctx.param(w)?;
//! let x = ctx.input(Shape::new(1, 1), &[2.0])?;
//! let y = ctx.matmul(w, x)?;
//! let zero = ctx.input(Shape::new(1, 1), &[0.0])?;
//! let loss = ctx.loss(Loss::Mse, y, zero)?; // (2 w)^2
//! let grads = gradient(&mut ctx, loss, &[w])?;
//! assert_eq!(ctx.values(grads[0].unwrap())?, vec![24.0]); // d/dw 4 w^2 = 8 w
//! # Ok::<(), shardgraph_autodiff::Error>(())
//! ```
#![forbid(unsafe_code)]

mod ctx;
mod eager;
mod error;
mod gradient;
mod group;
mod kernel;
mod layout;
mod op;
mod optimiser;
mod params;
mod places;
mod plan;
mod program;
mod propagation;
mod ranks;
mod recorder;
mod rms_prop;
mod shape_check;
mod shape_rules;
mod signature;
mod spare;
mod wires;

#[cfg(test)]
mod adjoint_tests;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod random_programs;
#[cfg(test)]
mod resident_tests;
#[cfg(test)]
mod tests;

pub use ctx::Ctx;
pub use eager::Eager;
pub use error::{Error, ErrorKind};
pub use gradient::gradient;
pub use group::{leave_group, rank_device};
pub use layout::{BatchLayout, Group};
pub use op::{Axis, Leaf, Op, Shape, Var};
pub use optimiser::{Adam, Sgd};
pub use params::{ParamId, Params};
pub use plan::Plan;
pub use program::Program;
pub use propagation::{Propagation, ResidentShard, RowShard};
pub use recorder::Recorder;
pub use rms_prop::RmsProp;
pub use shape_check::ShapeCheck;
pub use spare::SpareBuffers;

pub use shardgraph_collectives as collectives;
pub use shardgraph_device as device;
pub use shardgraph_shard as shard;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
