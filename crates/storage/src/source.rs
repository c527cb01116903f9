//! Named inputs that can be read more than once, unpacked while they stream.

use crate::{Compression, Error, target::unreadable, text::without_number, unpacking_error};
use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    rc::Rc,
};

/// Named input: a file, a pipe or bytes in memory; a reader of two passes unpacks it twice.
///
/// ```
/// use shardgraph_storage::Source;
/// use std::io::Read;
///
/// let source = Source::from_bytes("graph.el", b"0 1\n")?;
/// for _ in 0..2 {
///     let mut text = String::new();
///     source.unpacked()?.read_to_string(&mut text).unwrap();
///     assert_eq!(text, "0 1\n");
/// }
/// # Ok::<(), shardgraph_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Source<'a> {
    name: String,
    bytes: Bytes<'a>,
    compression: Compression,
}

#[derive(Debug)]
enum Bytes<'a> {
    File(PathBuf),
    Borrowed(&'a [u8]),
    /// Bytes of a pipe, which can be read only once.
    Owned(Vec<u8>),
}

/// Most bytes of a pipe: it is read whole, because a reader may need two passes.
const MAX_PIPE_BYTES: u64 = 4 << 30;

/// All bytes of something that is no regular file.
fn read_pipe(file: &mut File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_PIPE_BYTES + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    match bytes.len() as u64 {
        0..=MAX_PIPE_BYTES => Ok(bytes),
        _ => {
            let reason =
                "a pipe gives at most 4 GiB: save it as a file, which is read as it streams";
            Err(not_readable(path, reason))
        }
    }
}

fn not_readable(path: &Path, reason: &str) -> Error {
    Error::NotReadable {
        file: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

impl<'a> Source<'a> {
    /// Opens a file, or reads a pipe to its end.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotReadable`] for folders, devices and pipes of more than 4 GiB; [`Error::Compression`] for
    /// a name that promises a compression which is not there.
    pub fn open(path: &Path) -> Result<Source<'static>, Error> {
        let opened = File::open(path).map_err(without_number);
        let mut file = opened.map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("open", path))?;
        if let Some(reason) = unreadable(&metadata) {
            return Err(not_readable(path, reason));
        }
        let bytes = if metadata.is_file() {
            Bytes::File(path.to_owned())
        } else {
            Bytes::Owned(read_pipe(&mut file, path)?)
        };
        Source::new(path.display().to_string(), bytes)
    }

    /// Source of bytes in memory; `name` stands in messages.
    ///
    /// # Errors
    /// [`Error::Compression`] for a name that promises a compression which is not there.
    pub fn from_bytes(name: &str, bytes: &'a [u8]) -> Result<Source<'a>, Error> {
        Source::new(name.to_owned(), Bytes::Borrowed(bytes))
    }

    pub(crate) fn owned(name: &str, bytes: Vec<u8>) -> Result<Source<'static>, Error> {
        Source::new(name.to_owned(), Bytes::Owned(bytes))
    }

    fn new(name: String, bytes: Bytes<'a>) -> Result<Source<'a>, Error> {
        let mut source = Source {
            name,
            bytes,
            compression: Compression::None,
        };
        source.compression = source.find_compression()?;
        Ok(source)
    }

    /// The first bytes decide; a name that promises a compression which is not there is an error.
    fn find_compression(&self) -> Result<Compression, Error> {
        let mut head = Vec::new();
        self.raw()?
            .take(4)
            .read_to_end(&mut head)
            .map_err(|e| unpacking_error(e, &self.name, 0))?;
        let found = Compression::from_magic(&head);
        let named = Compression::from_path(Path::new(&self.name));
        if named != Compression::None && found == Compression::None {
            let reason = format!(
                "the name promises {named}, but the file does not begin as {named} does: rename it if it is unpacked"
            );
            return Err(Error::Compression {
                file: self.name.clone(),
                line: 0,
                reason,
            });
        }
        Ok(found)
    }

    /// Name of the input in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compression of the bytes.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reader of the unpacked bytes, from the start.
    ///
    /// # Errors
    /// [`Error::Io`] when the file is gone.
    pub fn unpacked(&self) -> Result<Box<dyn Read + '_>, Error> {
        unpack(&self.name, self.raw()?, self.compression)
    }

    fn raw(&self) -> Result<Box<dyn Read + '_>, Error> {
        Ok(match &self.bytes {
            Bytes::File(path) => Box::new(File::open(path).map_err(Error::io("open", path))?),
            Bytes::Borrowed(bytes) => Box::new(*bytes),
            Bytes::Owned(bytes) => Box::new(bytes.as_slice()),
        })
    }
}

impl Source<'static> {
    /// The unpacked bytes, from the start.
    pub(crate) fn into_unpacked(self) -> Result<Box<dyn Read>, Error> {
        let raw: Box<dyn Read> = match self.bytes {
            Bytes::File(path) => Box::new(File::open(&path).map_err(Error::io("open", &path))?),
            Bytes::Borrowed(bytes) => Box::new(bytes),
            Bytes::Owned(bytes) => Box::new(io::Cursor::new(bytes)),
        };
        unpack(&self.name, raw, self.compression)
    }
}

/// Unpacked bytes of `raw`, under guard.
fn unpack<'r>(
    name: &str,
    raw: Box<dyn Read + 'r>,
    compression: Compression,
) -> Result<Box<dyn Read + 'r>, Error> {
    let packed = Rc::new(Cell::new(0));
    let counted = Counted {
        inner: raw,
        n_bytes: Rc::clone(&packed),
    };
    let inner: Box<dyn Read + 'r> = match compression {
        Compression::None => return Ok(Box::new(counted)),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(
            counted,
        ))),
        Compression::Zstd => Box::new(zstd(name, counted)?),
    };
    Ok(Box::new(Guarded {
        inner,
        n_bytes: 0,
        packed,
    }))
}

fn zstd<R: Read>(name: &str, packed: R) -> Result<impl Read + use<R>, Error> {
    let as_error = |e| unpacking_error(e, name, 0);
    let mut decoder = zstd::stream::read::Decoder::new(packed).map_err(as_error)?;
    // A frame may ask for a window of 2 GiB; 128 MiB is what `zstd` itself grants without `--long`.
    decoder.window_log_max(27).map_err(as_error)?;
    Ok(decoder)
}

/// Counts the packed bytes that a decoder took.
struct Counted<R> {
    inner: R,
    n_bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.n_bytes.set(self.n_bytes.get() + n as u64);
        Ok(n)
    }
}

/// Stops a stream that grows far more than text does: deflate ends at 1032 to 1, real edge lists lie below 30 to 1.
struct Guarded<'a> {
    inner: Box<dyn Read + 'a>,
    n_bytes: u64,
    packed: Rc<Cell<u64>>,
}

const FREE_BYTES: u64 = 64 << 20;
const MAX_RATIO: u64 = 500;

impl Read for Guarded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.n_bytes += n as u64;
        if self.n_bytes > FREE_BYTES && self.n_bytes / MAX_RATIO > self.packed.get() {
            return Err(io::Error::other(format!(
                "more than {MAX_RATIO} bytes come out for each byte that goes in; unpack the file yourself if you trust it"
            )));
        }
        Ok(n)
    }
}
