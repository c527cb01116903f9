//! The model: what each layer sends, how gradients come back, and what of it a rank holds.
//!
//! The way through these files: [`plan`] groups messages by source and relation and finds the nodes that each layer needs,
//! [`shape`], [`kernel`] and [`products`] do one layer's products, [`input`] and [`coefficients`] hold parameters, [`sums`] adds messages,
//! [`network`] puts layers and ranks together, [`loss`] says how far off they are.

mod backward;
pub(crate) mod blocks;
pub(crate) mod built;
pub(crate) mod coefficients;
pub(crate) mod csr;
pub(crate) mod exchange;
mod footprint;
pub(crate) mod gradients;
mod incoming;
pub(crate) mod input;
pub(crate) mod kernel;
pub(crate) mod loss;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod naive;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod normaliser;
pub(crate) mod optimiser;
pub(crate) mod plan;
mod products;
pub(crate) mod shape;
mod split;
pub(crate) mod sums;
#[cfg(test)]
mod tests;
mod tiled;
pub(crate) mod tiles;
mod work;
