//! End-to-end tests of `place`.

pub(crate) mod input;
pub(crate) mod plan_opinion;
pub(crate) mod plans;
pub(crate) mod policy;
pub(crate) mod real_graphs;
pub(crate) mod schema;
