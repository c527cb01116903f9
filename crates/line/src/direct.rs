//! Large files past the page cache: whole blocks of 16 MiB from aligned memory, where the file system takes them.
//!
//! Rows that go to disk are read again only when the rest of a table has passed through memory, so keeping them in the page cache
//! costs a copy and pushes out what is wanted. A file system that refuses (tmpfs), another operating system, and files shorter than
//! a block go through the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a transfer, and of the memory that a reader or writer holds.
pub(crate) const BLOCK: usize = 16 << 20;
/// What addresses, offsets and lengths are multiples of.
const ALIGN: usize = 4096;

/// `O_DIRECT` of the kernel's fcntl.h.
const DIRECT: Option<i32> = if !cfg!(target_os = "linux") {
    None
} else if cfg!(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "riscv64"
)) {
    Some(0o40000)
} else if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    Some(0o200_000)
} else {
    None
};

/// Opens with `O_DIRECT` where a file of `len` bytes is worth it and the system lets us; says whether it did.
fn open(options: &OpenOptions, path: &Path, len: u64) -> io::Result<(File, bool)> {
    if let Some(flag) = DIRECT.filter(|_| len >= BLOCK as u64) {
        let direct = options.clone().custom_flags(flag).open(path);
        match direct {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
            other => return Ok((other?, true)),
        }
    }
    Ok((options.open(path)?, false))
}

/// Memory that begins at a multiple of [`ALIGN`].
struct Block {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Block {
    fn new(len: usize) -> Block {
        let bytes = vec![0; len + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Block { bytes, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// A new file of a known length.
pub(crate) struct Writer {
    file: File,
    is_direct: bool,
    block: Block,
    /// Bytes in the block, and bytes of the file before it.
    filled: usize,
    at: u64,
}

impl Writer {
    /// Creates the file; `len` is what will be written, to choose the way.
    pub(crate) fn create(path: &Path, len: u64) -> io::Result<Writer> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let (file, is_direct) = open(&options, path, len)?;
        Ok(Writer {
            file,
            is_direct,
            block: Block::new(if is_direct { BLOCK } else { 1 << 20 }),
            filled: 0,
            at: 0,
        })
    }

    fn write_block(&mut self) -> io::Result<()> {
        let filled = self.filled;
        let len = match self.is_direct {
            true => filled.next_multiple_of(ALIGN),
            false => filled,
        };
        let bytes = &mut self.block.bytes()[..len];
        bytes[filled..].fill(0);
        self.file.write_all_at(bytes, self.at)?;
        self.at += filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left, and cuts what made the last block whole.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.filled > 0 {
            self.write_block()?;
        }
        match self.is_direct {
            true => self.file.set_len(self.at),
            false => Ok(()),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let filled = self.filled;
        let room = &mut self.block.bytes()[filled..];
        let n = room.len().min(bytes.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        if self.filled == self.block.len {
            self.write_block()?;
        }
        Ok(n)
    }

    /// Nothing: blocks go out whole, the last one by [`Writer::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file from its start to its end.
pub(crate) struct Reader {
    file: File,
    block: Block,
    /// What of the block is not yet handed out, and where the next one begins.
    rest: std::ops::Range<usize>,
    at: u64,
    len: u64,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> io::Result<Reader> {
        let len = std::fs::metadata(path)?.len();
        let (file, is_direct) = open(OpenOptions::new().read(true), path, len)?;
        Ok(Reader {
            file,
            block: Block::new(if is_direct { BLOCK } else { 1 << 20 }),
            rest: 0..0,
            at: 0,
            len,
        })
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // At the end the next place is no multiple, and a direct read there would be refused.
        if self.rest.is_empty() && self.at < self.len {
            let n = self.file.read_at(self.block.bytes(), self.at)?;
            self.at += n as u64;
            self.rest = 0..n;
        }
        let n = self.rest.len().min(bytes.len());
        let from = self.rest.start;
        bytes[..n].copy_from_slice(&self.block.bytes()[from..][..n]);
        self.rest.start += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_graph::random::Stream;

    /// In the build folder, which lies on a disk, and in the folder for scratch files, which may be memory.
    #[test]
    fn what_is_written_is_read_whatever_its_length() {
        let folders = [
            tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/../../target").unwrap(),
            tempfile::tempdir().unwrap(),
        ];
        for (folder, len) in folders.iter().flat_map(|folder| {
            let ends = [
                0,
                1,
                4095,
                4096,
                4097,
                BLOCK - 1,
                BLOCK,
                BLOCK + 1,
                2 * BLOCK + 777,
            ];
            ends.map(|len| (folder, len))
        }) {
            let path = folder.path().join("rows");
            let mut stream = Stream::new(len as u64, "test", 0);
            let words = (0..len.div_ceil(8)).flat_map(|_| stream.next_u64().to_le_bytes());
            let bytes: Vec<u8> = words.take(len).collect();
            let mut out = Writer::create(&path, len as u64).unwrap();
            // Pieces that never fit a block.
            bytes
                .chunks(123_457)
                .for_each(|piece| out.write_all(piece).unwrap());
            out.finish().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), len as u64);
            let mut read = vec![0; len];
            let mut input = Reader::open(&path).unwrap();
            for piece in read.chunks_mut(77_777) {
                input.read_exact(piece).unwrap();
            }
            assert!(read == bytes, "{len} bytes");
        }
    }

    #[test]
    fn a_longer_file_of_the_same_name_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        for len in [BLOCK + 5, 3] {
            let mut out = Writer::create(&path, len as u64).unwrap();
            out.write_all(&vec![7; len]).unwrap();
            out.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), vec![7; len]);
        }
    }
}
