//! Targets of outputs: the regular file, device or pipe that a path names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Symbolic links that are followed before a chain counts as a circle, as Linux has it.
const MAX_LINKS: usize = 40;
/// Between two attempts to open or fill a pipe.
const PAUSE: Duration = Duration::from_millis(10);
/// Attempts to open a pipe that no process reads: 10 s.
const OPEN_ATTEMPTS: u32 = 1000;
/// Attempts to write to a pipe whose reader takes nothing: 600 s.
const WRITE_ATTEMPTS: u32 = 60_000;

/// Target of an output path, behind symbolic links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    /// A regular file, or a name that nothing has yet: replaced by a rename.
    File(PathBuf),
    /// A character device or a pipe: written to as it is, never replaced.
    Stream(PathBuf),
}

impl OutputTarget {
    /// Follows symbolic links, also to a file that is still to be made.
    ///
    /// # Errors
    /// For a folder, a socket, a block device, and a circle of links.
    pub(crate) fn of(path: &Path) -> io::Result<OutputTarget> {
        let path = behind_links(path)?;
        let Ok(found) = fs::symlink_metadata(&path) else {
            return Ok(OutputTarget::File(path));
        };
        let what = match Kind::of(&found) {
            Kind::File => return Ok(OutputTarget::File(path)),
            Kind::Device | Kind::Pipe => return Ok(OutputTarget::Stream(path)),
            Kind::Folder => return Err(io::ErrorKind::IsADirectory.into()),
            Kind::BlockDevice => "a block device, whose content would be lost",
            Kind::Other(what) => what,
        };
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("this is {what}: name a file, a character device or a pipe"),
        ))
    }
}

/// The regular file that an output path names behind symbolic links, or will name.
///
/// For outputs that are no stream of bytes, such as those that are written at several places.
///
/// # Errors
/// For everything that is there and no regular file: a device is never replaced.
pub fn regular_target(path: &Path) -> io::Result<PathBuf> {
    match OutputTarget::of(path)? {
        OutputTarget::File(path) => Ok(path),
        OutputTarget::Stream(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is a device or a pipe, and the output has to be a file: name one",
        )),
    }
}

/// Renames a file over a regular file or a free name, durably.
///
/// Where the rename cannot be made durable, a name that was free is free again: an error leaves no
/// output.
pub(crate) fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    let to = regular_target(to)?;
    let is_new = fs::symlink_metadata(&to).is_err();
    fs::rename(from, &to)?;
    sync_folder(&to).inspect_err(|_| {
        if is_new {
            // The error that led here matters more than one of tidying up.
            let _ = fs::remove_file(&to);
        }
    })
}

/// Makes a rename durable; only Unix can open a folder for that.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    File::open(folder_of(path))?.sync_all()
}

/// Folder of a path: `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            // A path that is absolute replaces the folder.
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "its symbolic links go round in a circle",
    ))
}

/// Kind of what is at a path.
enum Kind {
    File,
    Folder,
    Device,
    BlockDevice,
    Pipe,
    Other(&'static str),
}

impl Kind {
    #[cfg(unix)]
    fn of(found: &fs::Metadata) -> Kind {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = found.file_type();
        if kind.is_char_device() {
            Kind::Device
        } else if kind.is_fifo() {
            Kind::Pipe
        } else if kind.is_socket() {
            Kind::Other("a socket")
        } else if kind.is_block_device() {
            Kind::BlockDevice
        } else {
            Kind::of_any(found)
        }
    }

    #[cfg(not(unix))]
    fn of(found: &fs::Metadata) -> Kind {
        Kind::of_any(found)
    }

    fn of_any(found: &fs::Metadata) -> Kind {
        match (found.is_file(), found.is_dir()) {
            (true, _) => Kind::File,
            (_, true) => Kind::Folder,
            _ => Kind::Other("no file"),
        }
    }
}

/// Why nothing is read from what is there, if so: folders, and devices, as `/dev/zero` never ends.
pub(crate) fn unreadable(found: &fs::Metadata) -> Option<&'static str> {
    match Kind::of(found) {
        Kind::Folder => Some("this is a folder: expected a file"),
        Kind::Device | Kind::BlockDevice => Some("this is a device: expected a file or a pipe"),
        Kind::File | Kind::Pipe | Kind::Other(_) => None,
    }
}

/// Opens a device or pipe for writing. A pipe is opened once a process reads it, within 10 s.
pub(crate) fn open_stream(path: &Path) -> io::Result<Box<dyn Write>> {
    #[cfg(unix)]
    if let Kind::Pipe = Kind::of(&fs::metadata(path)?) {
        let pipe = PipeWriter::open(path, OPEN_ATTEMPTS, WRITE_ATTEMPTS)?;
        return Ok(Box::new(pipe));
    }
    Ok(Box::new(OpenOptions::new().write(true).open(path)?))
}

/// Writing end of a pipe that does not block, so that every wait for its reader has a limit.
#[cfg(unix)]
struct PipeWriter {
    file: File,
    write_attempts: u32,
}

#[cfg(unix)]
impl PipeWriter {
    fn open(path: &Path, open_attempts: u32, write_attempts: u32) -> io::Result<PipeWriter> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(libc::O_NONBLOCK);
        for _ in 0..open_attempts {
            match options.open(path) {
                Ok(file) => {
                    return Ok(PipeWriter {
                        file,
                        write_attempts,
                    });
                }
                // No process has opened it for reading.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        let waited = PAUSE * open_attempts;
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no process has read this pipe for {waited:?}: start its reader first"),
        ))
    }
}

#[cfg(unix)]
impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for _ in 0..self.write_attempts {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                written => return written,
            }
        }
        let waited = PAUSE * self.write_attempts;
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the reader of this pipe has taken nothing for {waited:?}"),
        ))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn pipe_in(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()), "no mkfifo");
        path
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error_within_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe_in(folder.path());
        let error = PipeWriter::open(&path, 2, 2).err().expect("no reader");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("start its reader"), "{error}");
    }

    #[test]
    fn a_pipe_gives_all_bytes_to_its_reader_and_gives_up_on_one_that_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe_in(folder.path());
        let sent: Vec<u8> = (0..1u32 << 20).map(|i| (i % 251) as u8).collect();
        let reader = thread::spawn({
            let path = path.clone();
            move || {
                let mut read = Vec::new();
                File::open(path).unwrap().read_to_end(&mut read).unwrap();
                read
            }
        });
        let mut out = open_stream(&path).unwrap();
        out.write_all(&sent).unwrap();
        drop(out);
        assert!(reader.join().unwrap() == sent);

        let opened = thread::spawn({
            let path = path.clone();
            move || File::open(path).unwrap()
        });
        let mut out = PipeWriter::open(&path, OPEN_ATTEMPTS, 2).unwrap();
        let _reads_nothing = opened.join().unwrap();
        let error = out.write_all(&sent).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn links_are_followed_to_files_that_are_there_or_not_and_circles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("inner")).unwrap();
        symlink("inner/new", at("first")).unwrap();
        symlink(at("first"), at("second")).unwrap();
        assert_eq!(regular_target(&at("second")).unwrap(), at("inner/new"));
        fs::write(at("inner/new"), "old").unwrap();
        assert_eq!(regular_target(&at("second")).unwrap(), at("inner/new"));
        symlink("circle", at("circle")).unwrap();
        let error = regular_target(&at("circle")).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }

    #[test]
    fn nothing_but_a_regular_file_is_ever_renamed_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("from"), "new").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let pipe = pipe_in(folder.path());
        let null = Path::new("/dev/null");
        symlink(null, at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for to in [&at("socket"), &pipe, null, &at("link"), &at("folder")] {
            rename_over(&at("from"), to).unwrap_err();
            assert!(!fs::metadata(to).unwrap().is_file(), "{}", to.display());
        }
        assert!(OutputTarget::of(&at("socket")).is_err());
        let stream = OutputTarget::of(&at("link")).unwrap();
        assert_eq!(stream, OutputTarget::Stream(null.to_owned()));
        rename_over(&at("from"), &at("to")).unwrap();
        assert_eq!(fs::read(at("to")).unwrap(), b"new");
    }
}
