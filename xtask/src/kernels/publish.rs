//! Makes compiled kernels the current set, from which the build script of `shardgraph-device` takes them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::compile::Object;
use super::sources::HASH_FILE;

/// Copies the fat binaries into `current` and returns their size. Nothing is written if nothing is new, so that cargo has
/// nothing to build again.
pub(crate) fn publish(objects: &[Object], hash: &str, current: &Path) -> Result<u64> {
    let mut binaries = Vec::new();
    for object in objects {
        let path = object.fatbin();
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        binaries.push((format!("{}.fatbin", object.stem), bytes));
    }
    let n_bytes = binaries.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if !is_published(&binaries, hash, current) {
        // The hash goes first and comes last: without it the set counts as absent, so that nobody takes half of one.
        let hash_file = current.join(HASH_FILE);
        if current.exists() {
            let _ = fs::remove_file(&hash_file);
            fs::remove_dir_all(current).with_context(|| current.display().to_string())?;
        }
        fs::create_dir_all(current).with_context(|| current.display().to_string())?;
        for (name, bytes) in &binaries {
            fs::write(current.join(name), bytes).with_context(|| name.clone())?;
        }
        fs::write(&hash_file, format!("{hash}\n"))?;
    }
    Ok(n_bytes)
}

fn is_published(binaries: &[(String, Vec<u8>)], hash: &str, current: &Path) -> bool {
    let n_files = fs::read_dir(current).map_or(0, Iterator::count);
    let is_same = |(name, bytes): &(String, Vec<u8>)| {
        fs::read(current.join(name)).is_ok_and(|found| found == *bytes)
    };
    let recorded = fs::read_to_string(current.join(HASH_FILE)).unwrap_or_default();
    recorded.trim() == hash && n_files == binaries.len() + 1 && binaries.iter().all(is_same)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::tests::fresh_folder;

    #[test]
    fn writes_only_what_is_new() {
        let folder = fresh_folder("publish");
        let current = folder.join("current");
        let objects = [
            Object::planted(&folder, "a", "one"),
            Object::planted(&folder, "b", "three"),
        ];
        let changed = || -> SystemTime {
            let metadata = fs::metadata(current.join(HASH_FILE)).unwrap();
            metadata.modified().unwrap()
        };
        assert_eq!(publish(&objects, "0a", &current).unwrap(), 8);
        assert_eq!(fs::read(current.join("b.fatbin")).unwrap(), b"three");
        let first = changed();
        publish(&objects, "0a", &current).unwrap();
        assert_eq!(changed(), first);

        fs::write(current.join("a.fatbin"), "other").unwrap();
        publish(&objects, "0a", &current).unwrap();
        assert_eq!(fs::read(current.join("a.fatbin")).unwrap(), b"one");
        publish(&objects[1..], "0b", &current).unwrap();
        assert!(!current.join("a.fatbin").exists());
        assert_eq!(fs::read_to_string(current.join(HASH_FILE)).unwrap(), "0b\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}
