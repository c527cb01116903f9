//! From a file to its unpacked bytes, with a cap on how many come out and on how many come out for each that goes in.

use super::format::extension;
use shardgraph_costgraph::{Error, ErrorKind};
use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    rc::Rc,
};

/// All bytes of a file, unpacked.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let kind = file.metadata().map_err(|e| Error::io("read", path, e))?;
    refuse_endless(path, &kind)?;
    read_all(&path.display().to_string(), file, max_bytes)
}

/// A folder has no content, and a device such as `/dev/zero` never ends.
fn refuse_endless(path: &Path, metadata: &std::fs::Metadata) -> Result<(), Error> {
    let refuse = |what: &str| {
        let message = format!("this is a {what}: expected a file or a pipe");
        Err(Error::new(ErrorKind::Io, message).or_at(&path.display().to_string(), 0, 0))
    };
    if metadata.is_dir() {
        return refuse("folder");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return refuse("device");
        }
    }
    Ok(())
}

/// All bytes of `raw`, unpacked when they begin as gzip or Zstandard do.
pub(crate) fn read_all(name: &str, raw: impl Read, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let packed = Rc::new(Cell::new(0));
    let mut raw = Counted {
        inner: raw,
        n_bytes: Rc::clone(&packed),
    };
    let mut head = Vec::new();
    (&mut raw)
        .take(4)
        .read_to_end(&mut head)
        .map_err(|e| read_error(e, name))?;
    let compression = magic(&head);
    if compression.is_none() && promises_compression(name) {
        let message = "the name promises compression, but the file does not begin as gzip or Zstandard do: rename it if it is unpacked";
        return Err(Error::new(ErrorKind::Compression, message).or_at(name, 0, 0));
    }
    let whole = BufReader::new(io::Cursor::new(head).chain(raw));
    match compression {
        None => drain(name, whole, None, max_bytes),
        Some(Packed::Gzip) => {
            let unpacked = flate2::bufread::MultiGzDecoder::new(whole);
            drain(name, unpacked, Some(packed), max_bytes)
        }
        Some(Packed::Zstd) => {
            let open = zstd::stream::read::Decoder::with_buffer(whole);
            let mut unpacked = open.map_err(|e| read_error(e, name))?;
            // A frame may ask for a window of 2 GiB; 128 MiB is what `zstd` itself grants without `--long`.
            unpacked
                .window_log_max(27)
                .map_err(|e| read_error(e, name))?;
            drain(name, unpacked, Some(packed), max_bytes)
        }
    }
}

enum Packed {
    Gzip,
    Zstd,
}

fn magic(head: &[u8]) -> Option<Packed> {
    match head {
        [0x1f, 0x8b, ..] => Some(Packed::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(Packed::Zstd),
        _ => None,
    }
}

fn promises_compression(name: &str) -> bool {
    matches!(
        extension(Path::new(name)).as_deref(),
        Some("gz" | "zst" | "zstd")
    )
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

/// So much comes out before the ratio counts.
const FREE_BYTES: u64 = 64 << 20;
/// Deflate ends at 1032 to 1; published graphs lie below 25 to 1.
const MAX_RATIO: u64 = 300;

fn drain(
    name: &str,
    mut from: impl Read,
    packed: Option<Rc<Cell<u64>>>,
    max_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let n = match from.read(&mut chunk) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(|e| read_error(e, name))?,
        };
        if n == 0 {
            return Ok(content);
        }
        let total = (content.len() + n) as u64;
        if total > max_bytes {
            let message = format!(
                "more than {max_bytes} bytes (unpacked); the option max_bytes allows no more"
            );
            return Err(Error::new(ErrorKind::TooLarge, message).or_at(name, 0, 0));
        }
        if let Some(packed) = &packed
            && total > FREE_BYTES
            && total / MAX_RATIO > packed.get()
        {
            let message = format!(
                "more than {MAX_RATIO} bytes come out for each byte that goes in; unpack the file yourself if you trust it"
            );
            return Err(Error::new(ErrorKind::Compression, message).or_at(name, 0, 0));
        }
        content.extend_from_slice(&chunk[..n]);
    }
}

/// An error of the system as it is, and one of a decoder as a damaged stream.
fn read_error(error: io::Error, file: &str) -> Error {
    if error.raw_os_error().is_some() {
        return Error::io("read", Path::new(file), error);
    }
    let message = format!("the compressed data is damaged or ends early: {error}");
    Error::new(ErrorKind::Compression, message).or_at(file, 0, 0)
}
