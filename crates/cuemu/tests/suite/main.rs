//! Runs the kernels of `kernels/` in libraries that these tests compile, one of each build, and
//! checks what comes back: results, errors, and what each checking build finds.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test code, in functions that the tests call; a skip is printed"
)]

mod building;
mod emulator;
mod errors;
mod halves;
mod harness;
mod memory;
mod races;
mod results;
