//! A version of the learner's weights as a message: one flat list.

use super::wire::{Reader, Writer};
use crate::error::Error;

/// The version, the number of updates that it has seen, and its weights; none where the actor has them.
pub(crate) fn write_weights(version: u64, weights: &[f32]) -> Vec<u8> {
    Writer::new().u64(version).f32s(weights).finish()
}

pub(crate) fn read_weights(bytes: &[u8]) -> Result<(u64, Vec<f32>), Error> {
    let mut reader = Reader::new("weights", bytes);
    let (version, weights) = (reader.u64()?, reader.f32s()?);
    reader.end()?;
    Ok((version, weights))
}
