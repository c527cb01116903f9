//! What OpenGraphGym-MG's figures need beside commands of the binary: optima, a second opinion on
//! covers, and the shipped policies made again.

mod cover;
pub(crate) mod optima;
mod policies;
mod quality;
mod seeds;
mod starts;

pub(crate) use cover::read_matrix_market;
pub(crate) use policies::run as policies;
pub(crate) use quality::run as quality;
pub(crate) use seeds::run as seeds;
pub(crate) use starts::run as starts;
