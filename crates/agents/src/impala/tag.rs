//! The kinds of messages between actors and the learner.

/// Actor to learner: an unroll.
pub(super) const UNROLL: u32 = 1;
/// Learner to actor: an unroll is taken; a version, and its weights unless the actor has them.
pub(super) const TAKEN: u32 = 2;
/// Learner to actors: there are steps enough.
pub(super) const STOP: u32 = 3;
/// Actor to learner: no more unrolls come of it.
pub(super) const DONE: u32 = 4;
/// Actor to learner: it wants the weights before its first step.
pub(super) const HELLO: u32 = 5;
