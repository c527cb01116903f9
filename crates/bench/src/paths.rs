//! Where things are: the workspace, its build folder, the data beside it, scratch folders.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

pub(crate) use shardgraph_records::paths::{data, peer, root, target};

/// An empty folder for the files of one measurement.
pub(crate) fn fresh_scratch(name: &str) -> Result<PathBuf> {
    let folder = target().join("bench").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
