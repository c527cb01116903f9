//! Batches of graph states whose rows are spread over ranks: layouts, and the operations on them.
//!
//! Every operation's cross-rank sums are exact over fixed row blocks, or gather whole rows, so that results and
//! gradients have the same bits for any number of ranks.

mod exchange;
mod layout;
mod operations;
mod propagation;
mod row_shard;

#[cfg(test)]
mod tests;

pub use layout::{BatchLayout, Group};
pub use operations::{Propagate, ShardMatMul, ShardOuter, ShardedOps, StateBroadcast, StateSum};
pub use propagation::{MaskInputs, Propagation};
pub use row_shard::{ResidentShard, RowShard};
