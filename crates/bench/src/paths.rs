//! Where things are: the workspace, its build folder, the data beside it, scratch folders.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = crates.and_then(Path::parent);
    root.map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

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
