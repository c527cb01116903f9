//! Prediction of links: triples to learn from and to rank, the DistMult decoder over a network's
//! units, and how well true links rank.
//!
//! The way through these files: [`data`] holds the triples, [`config`] what is asked for,
//! [`sampling`] draws batches and negatives, [`encoder`] makes the nodes' units, [`decoder`] scores
//! triples and takes gradients back, [`ranking`] ranks true links among all nodes.

pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod decoder;
mod embeddings;
mod encoder;
mod kvsall;
mod memory;
#[cfg(test)]
pub(crate) mod naive;
pub(crate) mod options;
mod questions;
pub(crate) mod ranking;
pub(crate) mod run;
pub(crate) mod sampling;
pub(crate) mod saved;
pub(crate) mod state;
mod step;
#[cfg(test)]
mod tests;
pub(crate) mod trainer;
