//! What tests plant: folders and programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::project;

/// An empty folder of this test run.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    let name = format!("xtask-{name}-test-{}", std::process::id());
    let folder = project::target().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A program that does what `body` says.
pub(crate) fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
