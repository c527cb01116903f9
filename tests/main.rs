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

mod agent_topology;
mod agents;
mod bad_input;
mod communication;
mod devices;
mod documents;
mod drawing;
mod drivers;
mod embed;
mod embed_data;
mod eval;
mod exit_codes;
mod formats;
mod generated_graphs;
mod hostile_files;
mod kept_files;
mod kill;
mod launchers;
mod nccl;
mod place;
mod place_input;
mod place_policy;
mod place_real;
mod plan_opinion;
mod problems;
mod processes;
mod program;
mod ranks;
mod real_graphs;
mod rgcn_import;
mod rgcn_links;
mod rgcn_odd_tables;
mod rgcn_ranks;
mod rgcn_schema;
mod rgcn_train;
mod schema;
mod second_opinion;
mod small_graphs;
mod solve_several;
mod solve_stages;
mod training;
mod training_processes;
