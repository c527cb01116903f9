//! The folder of kernel sources: which files it holds, and the hash by which a fat binary is known to be stale.

use std::fs;
use std::path::Path;

/// The file, beside the fat binaries, that holds the hash of the sources they were compiled from.
pub(crate) const HASH_FILE: &str = "sources.hash";

/// A file of the folder.
pub(crate) struct Source {
    /// `sparse_csr.cu`.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Source {
    /// True for a file that is compiled, false for one that is included.
    pub(crate) fn is_compiled(&self) -> bool {
        self.name.ends_with(".cu")
    }

    /// `sparse_csr` of `sparse_csr.cu`.
    pub(crate) fn stem(&self) -> &str {
        self.name.strip_suffix(".cu").unwrap_or(&self.name)
    }

    pub(crate) fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.bytes).map_err(|error| format!("{}:1: {error}", self.name))
    }
}

/// Every `.cu` and `.cuh` file of `folder`, sorted by name.
///
/// # Errors
/// The folder or a file of it that cannot be read.
pub(crate) fn read(folder: &Path) -> Result<Vec<Source>, String> {
    let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| fault(folder, error))? {
        let entry = entry.map_err(|error| fault(folder, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cu") || name.ends_with(".cuh") {
            let bytes = fs::read(entry.path()).map_err(|error| fault(&entry.path(), error))?;
            sources.push(Source { name, bytes });
        }
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

/// A hash of names and contents, as 16 hexadecimal digits.
pub(crate) fn hash<'s>(sources: impl IntoIterator<Item = &'s Source>) -> String {
    let mut hash = Fnv::default();
    for Source { name, bytes } in sources {
        hash.part(name.as_bytes());
        hash.part(bytes);
    }
    hash.hex()
}

/// FNV-1a with 64 bits (Fowler, Noll and Vo; IETF draft-eastlake-fnv). It tells edits apart, it does not resist an attacker.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a part with its length, so that moving bytes from one part to the next changes the hash.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Test vectors of the IETF draft, appendix C.
        for (text, expected) in [
            ("", "cbf29ce484222325"),
            ("a", "af63dc4c8601ec8c"),
            ("foobar", "85944171f73967e8"),
        ] {
            let mut hash = Fnv::default();
            hash.bytes(text.as_bytes());
            assert_eq!(hash.hex(), expected);
        }
    }

    #[test]
    fn every_edit_changes_the_hash() {
        let base = hash(&[source("a.cu", "x"), source("b.cuh", "y")]);
        for other in [
            vec![source("a.cu", "x")],
            vec![source("a.cu", "xb.cuh"), source("", "y")],
            vec![source("a.cu", "z"), source("b.cuh", "y")],
            vec![source("c.cu", "x"), source("b.cuh", "y")],
            vec![source("a.cu", ""), source("b.cuh", "xy")],
        ] {
            assert_ne!(hash(&other), base);
        }
        assert_eq!(base, hash(&[source("a.cu", "x"), source("b.cuh", "y")]));
    }

    #[test]
    fn compiled_files_have_a_stem() {
        assert!(source("a.cu", "").is_compiled() && !source("a.cuh", "").is_compiled());
        assert_eq!(source("sparse_csr.cu", "").stem(), "sparse_csr");
    }
}
