//! Folders of the workspace.

use std::path::{Path, PathBuf};

/// The workspace root.
pub fn root() -> PathBuf {
    // `cargo run` sets the variable; a program started by hand falls back on where it was built.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file());
    root.map_or(manifest.clone(), Path::to_path_buf)
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The folder of graphs and other data beside the checkout; `benches/data.toml` lists its files.
pub fn data() -> PathBuf {
    root().join("../shared/data")
}

/// A script that runs a peer.
pub fn peer(script: &str) -> PathBuf {
    root().join("crates/bench/peers").join(script)
}
