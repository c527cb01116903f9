//! End-to-end tests: the built binary is run as a user runs it, and its answers are checked by other code than its own.
//!
//! Real graphs are read from `shared/data/graphs` beside the checkout; where that is absent, each test that wants it prints a
//! line `SKIPPED: what (why)`.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]
#![expect(clippy::print_stdout, reason = "a skipped check is printed")]

mod agent;
mod documents;
mod embed;
mod exit_codes;
mod files;
mod place;
mod program;
mod ranks;
mod rgcn;
mod schema;
mod solve;
mod train;
