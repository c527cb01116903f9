//! Large files past the page cache: whole blocks of 16 MiB from aligned memory, where the file system takes them.
//!
//! Rows that go to disk are read again only when the rest of a table has passed through memory, so keeping them in the page cache
//! costs a copy and pushes out what is wanted. A file system that refuses (tmpfs), another operating system, and files shorter than
//! a block go through the page cache. So do files whose first direct transfer is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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

/// Whether a file system took the flag and then refused the first transfer: some have blocks of more than [`ALIGN`].
fn is_refused(is_direct: bool, at: u64, done: &io::Result<()>) -> bool {
    let refused = done
        .as_ref()
        .is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput);
    is_direct && at == 0 && refused
}

/// What a direct transfer would fail with, in tests of such a file system.
fn refusal(_is_direct: bool) -> io::Result<()> {
    #[cfg(test)]
    if _is_direct && tests::REFUSES.get() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}

/// Memory for transfers, which begins at a multiple of [`ALIGN`]; one for all files that are written and read one after the other.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// So many bytes; what they hold is of no importance.
    fn take(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + ALIGN {
            self.bytes = vec![0; len + ALIGN];
        }
        let start = self.bytes.as_ptr().align_offset(ALIGN);
        &mut self.bytes[start..][..len]
    }
}

/// Bytes of the transfers of a file.
fn transfer(is_direct: bool, len: u64) -> usize {
    match is_direct {
        true => BLOCK,
        false => len.clamp(1, 1 << 20) as usize,
    }
}

/// A new file of a known length.
pub(crate) struct Writer<'b> {
    path: PathBuf,
    file: File,
    is_direct: bool,
    block: &'b mut [u8],
    /// Bytes in the block, and bytes of the file before it.
    filled: usize,
    at: u64,
}

impl Writer<'_> {
    /// Creates the file; `len` is what will be written, to choose the way.
    pub(crate) fn create<'b>(
        path: &Path,
        len: u64,
        block: &'b mut Block,
    ) -> io::Result<Writer<'b>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let (file, is_direct) = open(&options, path, len)?;
        Ok(Writer {
            path: path.to_owned(),
            file,
            is_direct,
            block: block.take(transfer(is_direct, len)),
            filled: 0,
            at: 0,
        })
    }

    fn write_block(&mut self) -> io::Result<()> {
        let mut done = self.transfer();
        if is_refused(self.is_direct, self.at, &done) {
            self.file = OpenOptions::new().write(true).open(&self.path)?;
            self.is_direct = false;
            done = self.transfer();
        }
        done?;
        self.at += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    fn transfer(&mut self) -> io::Result<()> {
        let filled = self.filled;
        let len = match self.is_direct {
            true => filled.next_multiple_of(ALIGN),
            false => filled,
        };
        refusal(self.is_direct)?;
        self.block[filled..len].fill(0);
        self.file.write_all_at(&self.block[..len], self.at)
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

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.block[self.filled..];
        let n = room.len().min(bytes.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        if self.filled == self.block.len() {
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
pub(crate) struct Reader<'b> {
    path: PathBuf,
    file: File,
    is_direct: bool,
    block: &'b mut [u8],
    /// What of the block is not yet handed out, and where the next one begins.
    rest: std::ops::Range<usize>,
    at: u64,
    len: u64,
}

impl Reader<'_> {
    pub(crate) fn open<'b>(path: &Path, block: &'b mut Block) -> io::Result<Reader<'b>> {
        let len = std::fs::metadata(path)?.len();
        let (file, is_direct) = open(OpenOptions::new().read(true), path, len)?;
        Ok(Reader {
            path: path.to_owned(),
            file,
            is_direct,
            block: block.take(transfer(is_direct, len)),
            rest: 0..0,
            at: 0,
            len,
        })
    }

    fn read_block(&mut self) -> io::Result<()> {
        let mut done = self.transfer();
        if is_refused(self.is_direct, self.at, &done) {
            self.file = File::open(&self.path)?;
            self.is_direct = false;
            done = self.transfer();
        }
        done
    }

    fn transfer(&mut self) -> io::Result<()> {
        refusal(self.is_direct)?;
        let n = self.file.read_at(self.block, self.at)?;
        self.at += n as u64;
        self.rest = 0..n;
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // At the end the next place is no multiple, and a direct read there would be refused.
        if self.rest.is_empty() && self.at < self.len {
            self.read_block()?;
        }
        let n = self.rest.len().min(bytes.len());
        let from = self.rest.start;
        bytes[..n].copy_from_slice(&self.block[from..][..n]);
        self.rest.start += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_graph::random::Stream;

    thread_local! {
        /// Whether direct transfers fail, as on a file system that has larger blocks.
        pub(super) static REFUSES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    const LENS: [usize; 9] = [
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

    /// Beside the program that tests, which lies on a disk, and in the folder for scratch files, which may be memory.
    fn folders() -> [tempfile::TempDir; 2] {
        let program = std::env::current_exe().unwrap();
        [
            tempfile::tempdir_in(program.parent().unwrap()).unwrap(),
            tempfile::tempdir().unwrap(),
        ]
    }

    fn check(path: &Path, len: usize, block: &mut Block) {
        let mut stream = Stream::new(len as u64, "test", 0);
        let words = (0..len.div_ceil(8)).flat_map(|_| stream.next_u64().to_le_bytes());
        let bytes: Vec<u8> = words.take(len).collect();
        let mut out = Writer::create(path, len as u64, block).unwrap();
        // Pieces that never fit a block.
        bytes
            .chunks(123_457)
            .for_each(|piece| out.write_all(piece).unwrap());
        out.finish().unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().len(), len as u64);
        let mut read = vec![0; len];
        let mut input = Reader::open(path, block).unwrap();
        for piece in read.chunks_mut(77_777) {
            input.read_exact(piece).unwrap();
        }
        assert_eq!(input.read(&mut [0]).unwrap(), 0);
        assert!(read == bytes, "{len} bytes");
    }

    #[test]
    fn what_is_written_is_read_whatever_its_length() {
        let mut block = Block::default();
        for folder in folders() {
            for len in LENS {
                check(&folder.path().join("rows"), len, &mut block);
            }
        }
    }

    #[test]
    fn where_direct_transfers_are_refused_the_page_cache_takes_them() {
        let mut block = Block::default();
        REFUSES.set(true);
        for folder in folders() {
            for len in LENS {
                check(&folder.path().join("rows"), len, &mut block);
            }
        }
        REFUSES.set(false);
    }

    #[test]
    fn a_longer_file_of_the_same_name_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        for len in [BLOCK + 5, 3] {
            let mut block = Block::default();
            let mut out = Writer::create(&path, len as u64, &mut block).unwrap();
            out.write_all(&vec![7; len]).unwrap();
            out.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), vec![7; len]);
        }
    }
}
