//! The unpacked bytes of a file, as one owned reader.

use crate::{Compression, Error, Source};
use std::{
    fmt,
    io::{self, Read},
    path::Path,
};

/// The bytes of a plain, `.gz` or `.zst` file (its first bytes decide), unpacked as they stream.
///
/// A stream that expands to more than 500 times its size ends in an error, after the first 64 MiB.
///
/// ```
/// use shardgraph_storage::Unpacked;
/// use std::io::Read;
///
/// let mut text = String::new();
/// Unpacked::from_bytes("triples.nt", b"<a:b> <a:c> <a:d> .\n".to_vec())?
///     .read_to_string(&mut text)
///     .unwrap();
/// assert_eq!(text.len(), 20);
/// # Ok::<(), shardgraph_storage::Error>(())
/// ```
pub struct Unpacked {
    name: String,
    compression: Compression,
    inner: Box<dyn Read>,
}

impl Unpacked {
    /// Opens a file or a pipe.
    ///
    /// # Errors
    /// A path that cannot be opened, a folder, a device, a name that promises a compression which is not there.
    pub fn open(path: &Path) -> Result<Unpacked, Error> {
        Unpacked::new(Source::open(path)?)
    }

    /// The same for bytes in memory; `name` stands in messages.
    ///
    /// # Errors
    /// A name that promises a compression which is not there.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Unpacked, Error> {
        Unpacked::new(Source::owned(name, bytes)?)
    }

    fn new(source: Source<'static>) -> Result<Unpacked, Error> {
        Ok(Unpacked {
            name: source.name().to_owned(),
            compression: source.compression(),
            inner: source.into_unpacked()?,
        })
    }

    /// Name of the file in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compression of the file.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }
}

/// An error of reading an [`Unpacked`] called `name`, at `line` (0 for none): the system's own, or a damaged stream.
#[must_use]
pub fn unpacking_error(error: io::Error, name: &str, line: u64) -> Error {
    if error.raw_os_error().is_some() {
        return Error::io("read", Path::new(name))(error);
    }
    Error::Compression {
        file: name.to_owned(),
        line,
        reason: format!("the compressed data is damaged or ends early: {error}"),
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacked")
            .field("name", &self.name)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
