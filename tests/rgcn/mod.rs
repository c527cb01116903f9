//! End-to-end tests of `rgcn`.

pub(crate) mod import;
pub(crate) mod links;
pub(crate) mod odd_tables;
pub(crate) mod ranks;
pub(crate) mod schema;
pub(crate) mod training;
