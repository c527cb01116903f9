//! End-to-end tests of `embed`.

pub(crate) mod data;
pub(crate) mod runs;
pub(crate) mod schema;
