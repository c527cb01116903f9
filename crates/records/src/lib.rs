//! Records of measurements and the child processes that make them: what `xtask` and `bench` share.
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

pub mod host;
pub mod paths;
pub mod process;
mod record;
pub mod row;
pub mod statistics;

pub use record::{Record, SCHEMA_VERSION};
