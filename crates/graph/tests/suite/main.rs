//! Everything that is tested through the public interface.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]
#![expect(clippy::print_stdout, reason = "a skipped check is printed")]

mod bad_files;
mod compression;
mod generators;
mod graphml;
mod graphs;
mod names;
mod policies;
mod real_files;
mod round_trips;
