//! Names of the scratch files of an import.

use std::path::{Path, PathBuf};

/// `STEM-what` in the same folder.
pub(super) fn beside(stem: &Path, what: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push("-");
    name.push(what);
    name.into()
}
