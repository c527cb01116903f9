//! The model over all layers and ranks.
//!
//! ```text
//! RelationalGraph -> Layout (nodes of each layer, blocks, which rank owns and computes what)
//!   RankContext -> Frame (lists, accounts, tiles where not all fits; a dry run predicts bytes)
//!   Frame -> Network (InputRows, layers, activations): forward, Targets (loss), backward
//! ```
//!
//! [`exchange`] hands rows and gradients around where messages are dealt by pair, [`tiled`] takes
//! the sources in tiles.

pub(crate) mod backward;
pub(crate) mod blocks;
pub(crate) mod comm;
pub(crate) mod counts;
pub(crate) mod csr;
mod exchange;
pub(crate) mod frame;
pub(crate) mod input;
pub(crate) mod layout;
pub(crate) mod loss;
pub(crate) mod messages;
#[cfg(test)]
pub(crate) mod naive;
pub(crate) mod neighbourhood;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod normaliser;
#[cfg(test)]
mod tests;
mod tiled;
pub(crate) mod tiles;
