//! Small files, read whole within a limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::target::unreadable;

/// Most bytes of a file of settings.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Reads a file or pipe of at most `max_bytes` whole. A longer file is refused before it is read.
///
/// ```
/// use shardgraph_storage::read_bounded;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("settings.toml");
///
/// std::fs::write(&path, "dim = 8\n")?;
/// assert_eq!(read_bounded(&path, 8)?, b"dim = 8\n");
/// let error = read_bounded(&path, 7).unwrap_err();
/// assert!(error.to_string().contains("more than 7 bytes"));
/// assert!(read_bounded(std::path::Path::new("/dev/zero"), 7).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of the system; [`io::ErrorKind::InvalidData`] for a longer file, a folder and a device.
/// # Complexity
/// Memory: no more than the limit and a byte.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let too_long = || {
        wrong(format!(
            "it has more than {max_bytes} bytes, the most that such a file may have"
        ))
    };
    let file = File::open(path).map_err(without_number)?;
    let found = file.metadata()?;
    if let Some(reason) = unreadable(&found) {
        return wrong(reason.to_owned());
    }
    if found.len() > max_bytes {
        return too_long();
    }
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => too_long(),
        false => Ok(bytes),
    }
}

/// The error of opening a file, in words where the file is not there.
pub(crate) fn without_number(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::NotFound => io::Error::new(kind, "there is no such file"),
        _ => error,
    }
}

/// Text of UTF-8 bytes.
///
/// ```
/// use shardgraph_storage::utf8_text;
///
/// assert_eq!(utf8_text(b"ann bob\n".to_vec()), Ok("ann bob\n".to_owned()));
/// assert_eq!(utf8_text(b"ann bob\n\nc\xffd".to_vec()), Err(3));
/// ```
///
/// # Errors
/// The line, from 1, of the first bytes that are not UTF-8.
pub fn utf8_text(bytes: Vec<u8>) -> Result<String, usize> {
    String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    })
}
