//! From a file to its unpacked bytes, with a cap on how many come out.

use shardgraph_costgraph::{Error, ErrorKind};
use shardgraph_storage::{Source, unpacking_error};
use std::{io::Read, path::Path};

/// What editors of Windows write before UTF-8 text; no binary format begins with it.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// All bytes of a file, unpacked, without a byte order mark.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    read(&Source::open(path)?, max_bytes)
}

/// All bytes of `raw`, unpacked when they begin as gzip or Zstandard do.
pub(crate) fn read_all(name: &str, raw: &[u8], max_bytes: u64) -> Result<Vec<u8>, Error> {
    read(&Source::from_bytes(name, raw)?, max_bytes)
}

fn read(source: &Source<'_>, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let mut unpacked = source.unpacked()?.take(max_bytes.saturating_add(1));
    let n_read = unpacked.read_to_end(&mut content);
    n_read.map_err(|error| unpacking_error(error, source.name(), 0))?;
    if content.starts_with(BYTE_ORDER_MARK) {
        content.drain(..BYTE_ORDER_MARK.len());
    }
    if content.len() as u64 > max_bytes {
        let message =
            format!("more than {max_bytes} bytes (unpacked); the option max_bytes allows no more");
        return Err(Error::new(ErrorKind::TooLarge, message).or_at(source.name(), 0, 0));
    }
    Ok(content)
}
