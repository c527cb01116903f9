//! Reverse-mode differentiation over tensor operations, the collective ones among them.
//!
//! Layers are written against one trait, [`Ctx`], with [`Var`] handles for values. Two interpreters run the same method:
//! [`Eager`] computes values at once and keeps the tape; [`Recorder`] finds the shape of every result, and names the
//! operation and the shapes that do not fit, before a byte is allocated. A recording becomes a [`Plan`], whose
//! [`Program`] runs it many times in one arena. [`gradient`] is written once, in operations, so it serves both
//! interpreters, and eager and planned runs have the same bits.
//!
//! ```text
//! layer -> Ctx --+-- Eager ------------------------------+
//!                |                                       +--> Operation::compute (device, DeviceComm)
//!                +-- Recorder -> Plan -> Program --------+
//! gradient: Operation::adjoint, in calls of Ctx
//! Params -> Op::Param      Adam, RmsProp, Sgd: gradient -> Params
//! ```
//!
//! **Operations.** An [`Operation`] is a type with its name, shape rule, kernel and adjoint in one place; those of this
//! crate are in [`operations`], and other crates add theirs by the same trait.
//!
//! **Ranks.** A variable is either *replicated* (the same bits on every rank) or *sharded* by rows. The loss is
//! replicated. Operations between the two worlds exchange values through [`DeviceComm`], whose exact sums over fixed row
//! blocks give every gradient the same bits for any number of ranks.
//!
//! ```
//! use shardgraph_autodiff::{gradient, Ctx, Eager, Params, Shape};
//! use shardgraph_collectives::Comm;
//! use shardgraph_device::Device;
//! use shardgraph_ops::Loss;
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

mod buffer_pool;
mod captured_step;
mod ctx;
mod device_comm;
mod eager;
mod error;
mod gradient;
mod gradient_parts;
mod mirror;
mod op;
mod operation;
pub mod operations;
mod optimiser;
mod optimiser_slots;
mod params;
mod plan;
mod program;
mod recorder;
mod rms_prop;
mod shape_rules;
mod slots;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use buffer_pool::BufferPool;
pub use captured_step::{CapturedStep, OptimiserMut};
pub use ctx::Ctx;
pub use device_comm::{DeviceComm, PartLengths, leave_group, rank_device};
pub use eager::Eager;
pub use error::Error;
pub use gradient::gradient;
pub use gradient_parts::{DeviceGradient, Gradient};
pub use op::{Axis, Leaf, Op, Shape, Var};
pub use operation::{Adjoint, Operand, Operation, Output, Payload, Role, RowNumbers, Run, World};
pub use optimiser::{Adam, Sgd};
pub use params::{ParamId, Params};
pub use plan::Plan;
pub use program::{Program, Recording};
pub use recorder::Recorder;
pub use rms_prop::RmsProp;

pub use shardgraph_collectives as collectives;
pub use shardgraph_device as device;
pub use shardgraph_ops as ops;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
