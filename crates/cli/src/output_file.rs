//! A file to be written: tried before the work, so that a mistyped folder costs no time.

use std::path::Path;

use crate::exit::BadInput;

/// Refuses a path that no file can be written to.
pub(crate) fn check(path: &Path) -> Result<(), BadInput> {
    let wrong = |what: &str| Err(BadInput(format!("{}: {what}", path.display())));
    if path.is_dir() {
        return wrong("this is a folder: name a file to write");
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match folder.is_dir() {
        true => Ok(()),
        false => wrong("its folder does not exist: make it, or name another file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_in_an_existing_folder_pass() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(&folder.path().join("new.txt")).is_ok());
        assert!(check(Path::new("in-the-working-folder.txt")).is_ok());
        for (path, reason) in [
            (folder.path().join("missing/new.txt"), "does not exist"),
            (folder.path().to_owned(), "is a folder"),
        ] {
            let message = check(&path).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
