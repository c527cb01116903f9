//! Where things are: the workspace, its build folder, the data beside it, scratch folders.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

pub(crate) use shardgraph_records::paths::{root, target};

/// The folder of graphs and other data beside the checkout; `benches/data.toml` lists its files.
pub(crate) fn data() -> PathBuf {
    root().join("../shared/data")
}

/// A script that runs a peer.
pub(crate) fn peer(script: &str) -> PathBuf {
    root().join("crates/bench/peers").join(script)
}

/// An empty folder for the files of one measurement.
pub(crate) fn fresh_scratch(name: &str) -> Result<PathBuf> {
    let folder = target().join("bench").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
