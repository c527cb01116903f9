//! End-to-end tests of `agent`.

pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod topology;
