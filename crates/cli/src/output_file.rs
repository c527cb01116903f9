//! A file to be written: tried before the work, so that a mistyped folder costs no time.

use std::path::Path;

use crate::exit::BadInput;

/// Refuses a path that no file can be written to, and the file that is read.
pub(crate) fn check(path: &Path, input: Option<&Path>) -> Result<(), BadInput> {
    let wrong = |what: &str| Err(BadInput(format!("{}: {what}", path.display())));
    if path.is_dir() {
        return wrong("this is a folder: name a file to write");
    }
    let same = |input: &Path| match (input.canonicalize(), path.canonicalize()) {
        (Ok(input), Ok(path)) => input == path,
        _ => false,
    };
    if input.is_some_and(same) {
        return wrong("this is the input, which would be lost: name another file");
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
        assert!(check(&folder.path().join("new.txt"), None).is_ok());
        assert!(check(Path::new("in-the-working-folder.txt"), None).is_ok());
        let input = folder.path().join("input.txt");
        std::fs::write(&input, "1 2").unwrap();
        assert!(check(&folder.path().join("other.txt"), Some(&input)).is_ok());
        let message = check(&folder.path().join("./input.txt"), Some(&input)).unwrap_err();
        assert!(
            message.to_string().contains("this is the input"),
            "{message}"
        );
        for (path, reason) in [
            (folder.path().join("missing/new.txt"), "does not exist"),
            (folder.path().to_owned(), "is a folder"),
        ] {
            let message = check(&path, None).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
