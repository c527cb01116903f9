//! Files to be written: tried before the work, so that a mistyped folder costs no time, and several of them together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_graph::Format;
use shardgraph_storage::{StagedFile, check_writable, regular_target, write_atomic};

use crate::exit::BadInput;

/// Names of standard output, where the answer and a file would mix.
const STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Refuses a path that no file can be written to, and the files that are read: one rule for all commands. `inputs` names every file that the
/// command reads; a name of something built in is no file.
pub(crate) fn check<'p>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), BadInput> {
    if is_standard_output(path) {
        return Ok(());
    }
    let wrong = |what: &str| Err(BadInput(format!("{}: {what}", path.display())));
    if path.is_dir() {
        return wrong("this is a folder: name a file to write");
    }
    if STANDARD_OUTPUT.iter().any(|name| path == Path::new(name)) {
        return wrong("name a file to write, or - for standard output");
    }
    let is_read = |input: &Path| input.is_file() && is_same(input, path);
    if inputs.into_iter().any(is_read) {
        return wrong("this is the input, which would be lost: name another file");
    }
    if !folder_of(path).is_dir() {
        return wrong("its folder does not exist: make it, or name another file");
    }
    check_writable(path).map_err(|error| cannot_write(path, &error))
}

/// As [`check`], for an output that goes to a file of a name alone, `-` excepted.
pub(crate) fn check_named<'p>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), BadInput> {
    match is_standard_output(path) {
        true => Err(BadInput(
            "-: this output does not go to standard output: name a file".to_owned(),
        )),
        false => check(path, inputs),
    }
}

/// As [`check`], for an output that is written at several places: no device and no pipe.
pub(crate) fn check_file<'p>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), BadInput> {
    check_named(path, inputs)?;
    let target = regular_target(path);
    target.map(drop).map_err(|error| cannot_write(path, &error))
}

/// The format of a graph file to write: the one that was asked for, else by its name, which must say one.
pub(crate) fn graph_format(path: &Path, asked: Option<Format>) -> Result<Format, BadInput> {
    asked
        .map_or_else(|| Format::of_output(path), Ok)
        .map_err(|error| BadInput(format!("{error}, or --output-format")))
}

/// The file that `--model` names: of a run's folder, the result in it.
pub(crate) fn model_file(path: &Path, name: &str) -> PathBuf {
    let inside = path.join(name);
    match inside.is_file() {
        true => inside,
        false => path.to_owned(),
    }
}

/// Whether a path stands for standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a file whole, or standard output for `-`.
pub(crate) fn write(
    path: &Path,
    content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let written = match is_standard_output(path) {
        true => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            content(&mut out).and_then(|()| io::Write::flush(&mut out))
        }
        false => write_atomic(path, |out| content(out)),
    };
    match written {
        // A reader that has gone away, as `head` does, is no error.
        Err(error) if is_standard_output(path) && error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        written => written,
    }
}

/// Whether two paths are of one file, which need not exist.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    match (resolved(one), resolved(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Writes several files: none has its name before all are complete and on disk.
///
/// The names come one after the other. Where the system refuses one, the files that were not there before are taken back; a kill in
/// between leaves the first ones, each complete. What goes to standard output comes last.
pub(crate) fn write_all(files: &[(&Path, String)]) -> Result<(), BadInput> {
    let mut staged = Vec::new();
    let (streams, files): (Vec<_>, Vec<_>) =
        files.iter().partition(|(path, _)| is_standard_output(path));
    for (path, content) in files {
        let file = StagedFile::write(path, |out| out.write_all(content.as_bytes()));
        staged.push((*path, file.map_err(|error| cannot_write(path, &error))?));
    }
    publish_all(staged)?;
    for (path, content) in streams {
        let written = write(path, |out| out.write_all(content.as_bytes()));
        written.map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

fn publish_all(files: Vec<(&Path, StagedFile)>) -> Result<(), BadInput> {
    let mut new = Vec::new();
    for (path, file) in files {
        if fs::symlink_metadata(path).is_err() {
            new.push(path);
        }
        if let Err(error) = file.publish() {
            for path in new {
                // The error that led here matters more than one of tidying up.
                let _ = fs::remove_file(path);
            }
            return Err(cannot_write(path, &error));
        }
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> BadInput {
    BadInput(format!("{}: cannot write: {error}", path.display()))
}

/// The file behind links, or where a new one would be.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|_| {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(folder_of(path).canonicalize()?.join(name))
    })
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
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
        assert!(check(&folder.path().join("other.txt"), [input.as_path()]).is_ok());
        let inputs = [Path::new("mvc-default"), &input];
        let message = check(&folder.path().join("./input.txt"), inputs).unwrap_err();
        assert!(
            message.to_string().contains("this is the input"),
            "{message}"
        );
        assert!(check(Path::new("mvc-default"), inputs).is_ok());
        for (path, reason) in [
            (folder.path().join("missing/new.txt"), "does not exist"),
            (folder.path().to_owned(), "is a folder"),
            (PathBuf::from("/dev/stdout"), "- for standard output"),
        ] {
            let message = check(&path, None).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn a_name_that_says_no_format_is_refused() {
        for (name, format) in [
            ("a.mtx", Some(Format::MatrixMarket)),
            ("a.gr.zst", Some(Format::Pace)),
            ("a", Some(Format::EdgeList)),
            ("a.gz", Some(Format::EdgeList)),
            ("a.txt", Some(Format::EdgeList)),
            ("a.TXT.gz", Some(Format::EdgeList)),
            ("a.mtx.bz2", None),
            ("a.xyz", None),
            ("a.pbtxt.gz", None),
        ] {
            let found = graph_format(Path::new(name), None);
            match format {
                Some(format) => assert_eq!(found.unwrap(), format, "{name}"),
                None => assert!(found.unwrap_err().to_string().contains("--output-format")),
            }
            let asked = graph_format(Path::new(name), Some(Format::Metis));
            assert_eq!(asked.unwrap(), Format::Metis);
        }
    }

    #[test]
    fn one_file_has_many_spellings() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let here = std::env::current_dir().unwrap();
        assert!(is_same(Path::new("new.txt"), &here.join("new.txt")));
        assert!(is_same(Path::new("new.txt"), Path::new("./new.txt")));
        assert!(!is_same(&path("a"), &path("b")));
        std::fs::write(path("a"), "").unwrap();
        std::fs::write(path("b"), "").unwrap();
        assert!(!is_same(&path("a"), &path("b")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
            assert!(is_same(&path("a"), &path("link")));
            assert!(!is_same(&path("b"), &path("link")));
        }
    }

    #[test]
    fn no_file_is_there_before_all_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let paths = [path("new"), path("old"), path("missing/last")];
        std::fs::write(&paths[1], "old").unwrap();
        let files = paths
            .each_ref()
            .map(|path| (path.as_path(), "text".to_owned()));
        write_all(&files).unwrap_err();
        assert!(!paths[0].exists());
        assert_eq!(std::fs::read(&paths[1]).unwrap(), b"old");
        std::fs::create_dir(path("missing")).unwrap();
        write_all(&files).unwrap();
        for path in &paths {
            assert_eq!(std::fs::read(path).unwrap(), b"text");
        }
    }

    #[test]
    fn a_name_that_is_refused_takes_the_new_files_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let paths = [path("new"), path("old"), path("last")];
        std::fs::write(&paths[1], "old").unwrap();
        let stage = |path: &'_ PathBuf| StagedFile::write(path, |_| Ok(())).unwrap();
        let staged = paths.each_ref().map(|path| (path.as_path(), stage(path)));
        // A file cannot get the name of a folder.
        std::fs::create_dir(&paths[2]).unwrap();
        let message = publish_all(staged.into()).unwrap_err().to_string();
        assert!(message.contains("last: cannot write"), "{message}");
        assert!(!paths[0].exists());
        assert!(paths[1].exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
