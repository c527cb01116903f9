//! The kernel sources, a folder for each owner: which files there are, and the hash by which a fat binary is known to be
//! stale.

use std::fs;
use std::path::Path;

/// The file, beside the fat binaries, that holds the hash of the sources they were compiled from.
pub(crate) const HASH_FILE: &str = "sources.hash";

/// A file of one of the folders.
pub(crate) struct Source {
    /// `ops/sparse_csr.cu`.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Source {
    /// True for a file of kernels, false for one that is included and for a program.
    pub(crate) fn is_compiled(&self) -> bool {
        self.name.ends_with(".cu") && !self.is_program()
    }

    /// True for a file with a `main`: it includes files of kernels, and becomes no fat binary.
    pub(crate) fn is_program(&self) -> bool {
        const MAIN: &[u8] = b"\nint main(";
        self.bytes.windows(MAIN.len()).any(|bytes| bytes == MAIN)
    }

    /// `sparse_csr.cu` of `ops/sparse_csr.cu`.
    pub(crate) fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// `sparse_csr` of `ops/sparse_csr.cu`.
    pub(crate) fn stem(&self) -> &str {
        let name = self.file_name();
        name.strip_suffix(".cu").unwrap_or(name)
    }

    pub(crate) fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.bytes).map_err(|error| format!("{}:1: {error}", self.name))
    }
}

/// Every `.cu` and `.cuh` file of `folder` and of the folders in it, sorted by name.
///
/// # Errors
/// A folder or a file that cannot be read, and two compiled files of one name: fat binaries go by it.
pub(crate) fn read(folder: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    read_into(folder, "", &mut sources)?;
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    let mut stems: Vec<&Source> = sources.iter().filter(|s| s.is_compiled()).collect();
    stems.sort_by_key(|source| source.stem());
    match stems
        .windows(2)
        .find(|pair| pair[0].stem() == pair[1].stem())
    {
        Some(pair) => Err(format!(
            "cuda/{} and cuda/{}: two kernel files of one name",
            pair[0].name, pair[1].name
        )),
        None => Ok(sources),
    }
}

/// Adds the files of `folder`, whose names begin with `prefix`.
fn read_into(folder: &Path, prefix: &str, sources: &mut Vec<Source>) -> Result<(), String> {
    let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| fault(folder, error))? {
        let path = entry.map_err(|error| fault(folder, error))?.path();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{file_name}");
        if path.is_dir() {
            read_into(&path, &format!("{name}/"), sources)?;
        } else if name.ends_with(".cu") || name.ends_with(".cuh") {
            let bytes = fs::read(&path).map_err(|error| fault(&path, error))?;
            sources.push(Source { name, bytes });
        }
    }
    Ok(())
}

/// A hash of the names and contents of all but programs, as 16 hexadecimal digits.
pub(crate) fn hash<'s>(sources: impl IntoIterator<Item = &'s Source>) -> String {
    let mut hash = Fnv::default();
    for source in sources.into_iter().filter(|source| !source.is_program()) {
        hash.part(source.name.as_bytes());
        hash.part(&source.bytes);
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
        let program = source("a.cu", "#include \"b.cu\"\nint main() {}");
        assert!(program.is_program() && !program.is_compiled());
        assert_eq!(hash(&[program]), hash(&[]));
        let source = source("ops/sparse_csr.cu", "");
        assert_eq!(
            (source.stem(), source.file_name()),
            ("sparse_csr", "sparse_csr.cu")
        );
    }
}
