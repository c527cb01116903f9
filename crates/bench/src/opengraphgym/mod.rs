//! What OpenGraphGym-MG's figures need beside commands of the binary: optima, a second opinion on
//! covers, and the shipped policies made again.

mod cover;
pub(crate) mod optima;
mod policies;
mod quality;

pub(crate) use policies::run as policies;
pub(crate) use quality::run as quality;
