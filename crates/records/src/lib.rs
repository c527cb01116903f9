//! Measurements as files: definitions in `benches/`, records in `bench-results/`, and what is made of both: tables, pictures, reports
//! and the index. Also the child processes that `xtask` and `bench` start.
//!
//! ```text
//! child process ── process::each_line ──> Row { Measured }   one line of JSON for each
//! Host, Revision, rows ─────────────────> Record             bench-results/.../latest.json
//! Measured ── statistics::summary ──────> Summary            median and spread of the samples
//! ```
//!
//! ```
//! use shardgraph_records::{Record, paths, statistics};
//!
//! let file = paths::root().join("bench-results/python/environments/latest.json");
//! let record = Record::read(&file)?;
//! let slowest = record.rows.iter().filter_map(|row| row.ours()).reduce(f64::min);
//! println!("{}: {}", record.title, slowest.map_or("-".to_owned(), statistics::shown));
//! # Ok::<(), anyhow::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod chart;
pub mod data;
pub mod figure;
pub mod formula;
pub mod host;
pub mod index;
pub mod markdown;
pub mod paths;
pub mod process;
pub mod record;
pub mod report;
pub mod row;
pub mod statistics;
pub mod table;

pub use record::{Record, SCHEMA_VERSION};
